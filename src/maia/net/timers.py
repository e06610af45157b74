"""When is a node woken next?

The runner of a node sets the clock to each moment that the node asks for, and
is rung when the first of them has come. Only that one is remembered: a node
that is woken says again when it wants to be woken next, whatever it has asked
for before. Clocks of machines are set while we sleep, so nobody is woken
before the moment has come by the clock that the node is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from maia.events import SECOND, Instant

__all__ = ["AlarmClock", "Timer"]

_LONGEST_SLEEP_S: Final = 5.0
"""The machine's clock may be set while we sleep, so it is looked at this often."""


class Timer(Protocol):
    """Something that will happen, unless it is called off."""

    def cancel(self) -> None:
        """Call it off."""
        ...


def _in_this_loop(seconds: float, then: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, then)


class AlarmClock:
    """The first moment at which somebody wants to be woken."""

    __slots__ = ("_at", "_clock", "_later", "_ring", "_timer")

    def __init__(
        self,
        clock: Callable[[], Instant],
        ring: Callable[[], None],
        *,
        later: Callable[[float, Callable[[], None]], Timer] = _in_this_loop,
    ) -> None:
        """Call `ring` when a moment has come by `clock`; `later` does something after some seconds."""
        self._clock, self._ring, self._later = clock, ring, later
        self._at: Instant | None = None
        self._timer: Timer | None = None

    def wake_at(self, at: Instant) -> None:
        """Ring at a moment, unless an earlier one was asked for."""
        if self._at is None or at < self._at:
            self.stop()
            self._at = at
            self._sleep(at)

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._at = self._timer = None

    def _sleep(self, at: Instant) -> None:
        seconds = min(max(0.0, (at - self._clock()) / SECOND), _LONGEST_SLEEP_S)
        self._timer = self._later(seconds, self._look)

    def _look(self) -> None:
        at = self._at
        if at is not None and self._clock() < at:
            self._sleep(at)
            return
        self._at = self._timer = None
        self._ring()
