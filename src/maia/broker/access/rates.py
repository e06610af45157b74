"""How much has this publisher published lately?

A certificate may hold only up to a rate: `rate-minute <= 600` (dissertation
6.4). The broker of a publisher counts the events that it takes on, of each
principal and type, and the kernel is asked about each frame as if its events
were among them. A frame that would be too much is refused, and not counted.
Counting is by whole steps of time and never forgets an event too early.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from maia.bounded_map import BoundedMap
from maia.credentials import Principal
from maia.events import AttributeUid, Instant, PresentValue

__all__ = ["RATE_FACTS", "Rates"]

_SECOND_FACT: Final = AttributeUid("rate-second")
_MINUTE_FACT: Final = AttributeUid("rate-minute")
RATE_FACTS: Final = frozenset({_SECOND_FACT, _MINUTE_FACT})
"""Events in the last second and the last minute, with those of the frame that is asked about."""

_METERS_MAX: Final = 8192
_STEP_US: Final = 50_000
_STEPS_IN_A_SECOND: Final = 20
_STEPS_IN_A_MINUTE: Final = 60 * _STEPS_IN_A_SECOND


class _Meter:
    """Events of the last minute, by steps of time."""

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: deque[tuple[int, int]] = deque()

    def add(self, step: int, events: int) -> None:
        if self._steps and self._steps[-1][0] >= step:
            # A clock that was put back counts on in the step where it stood: nothing is forgotten for it.
            last, before = self._steps.pop()
            self._steps.append((last, before + events))
        else:
            self._steps.append((step, events))

    def since(self, step: int, steps: int) -> int:
        """Return the events of so many whole steps and of the one that has begun."""
        while self._steps and self._steps[0][0] < step - _STEPS_IN_A_MINUTE:
            self._steps.popleft()
        return sum(events for at, events in self._steps if at >= step - steps)


class Rates:
    """What was taken on lately, for a bounded number of publishers; the one silent for longest goes first."""

    __slots__ = ("_meters",)

    def __init__(self) -> None:
        """Begin with nothing published."""
        self._meters: BoundedMap[tuple[Principal, bytes], _Meter] = BoundedMap(_METERS_MAX)

    def facts(
        self, principal: Principal, type_id: bytes, now: Instant, *, more: int
    ) -> dict[AttributeUid, PresentValue]:
        """Return the rates as they would be with so many events more."""
        meter, step = self._meters.get((principal, type_id)), now // _STEP_US
        if meter is None:
            return {_SECOND_FACT: more, _MINUTE_FACT: more}
        return {
            _SECOND_FACT: meter.since(step, _STEPS_IN_A_SECOND) + more,
            _MINUTE_FACT: meter.since(step, _STEPS_IN_A_MINUTE) + more,
        }

    def count(self, principal: Principal, type_id: bytes, now: Instant, events: int) -> None:
        """Take note of events that were taken on."""
        key = (principal, type_id)
        meter = self._meters.use(key)
        if meter is None:
            meter = _Meter()
            self._meters.put(key, meter)
        meter.add(now // _STEP_US, events)
