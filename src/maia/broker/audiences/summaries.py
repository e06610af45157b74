"""How do subscribers get what many events come to in a period?

The frames of a class of subscribers whose View summarises are counted as they come, and a timer
delivers what they have come to when their period closes. A member gets the periods that begin after it
has subscribed and close before it leaves: so nothing is delivered of a time in which its right may have
been another, and a broker that restarts delivers nothing of a period that it has seen in part.

The publisher of a derived event is this broker, and its moment the end of the period. An event that
requires something of subscribers is in no summary: what it comes to would reach all members alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from maia.broker.links.transit import Transit
from maia.events import Frame, Instant
from maia.expressions.meaning import TransformationKeys
from maia.policy import View
from maia.views.open_periods import ClosedPeriod, GroupRoom, OpenPeriods
from maia.wire.effects import LinkId

_ROWS_AT_ONCE: Final = 1000
_STREAM_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class PeriodDelivery:
    """Some of the events that a period has come to, and who gets them."""

    period: ClosedPeriod
    stream: bytes
    number: int
    rows: Frame = field(repr=False)
    members: Mapping[LinkId, list[int]]


@dataclass(slots=True)
class ClassSummaries:
    """What the events for one class of subscribers come to."""

    periods: OpenPeriods = field(repr=False)
    stream: bytes
    joined: dict[tuple[LinkId, int], Instant] = field(default_factory=dict)
    numbered: int = 0
    """How many frames of derived events were delivered."""

    @classmethod
    def begin(
        cls, key: bytes, view: View, keys: TransformationKeys, room: GroupRoom, now: Instant
    ) -> ClassSummaries:
        """Count from now on; after a restart the frames are of another stream."""
        stream = sha256(b"maia/1/summary\x00" + key + int(now).to_bytes(8, "big", signed=True)).digest()
        return cls(OpenPeriods(view, keys, now=now, room=room), stream[:_STREAM_BYTES])

    def take(self, transit: Transit, rows: Sequence[int], now: Instant) -> None:
        """Count rows that the window of the View admits."""
        if transit.requires:
            self.periods.left_out += len(rows)
            return
        self.periods.take(transit.cut(rows).frame, transit.published_at, now)

    def close(self, now: Instant) -> Iterator[PeriodDelivery]:
        """Yield what is delivered of the periods that are closed by now."""
        for period in self.periods.close(now):
            members: dict[LinkId, list[int]] = {}
            for (link, ref), joined in self.joined.items():
                if joined <= period.start:
                    members.setdefault(link, []).append(ref)
            if not members:
                continue
            for first in range(0, period.frame.rows, _ROWS_AT_ONCE):
                last = min(first + _ROWS_AT_ONCE, period.frame.rows)
                self.numbered += 1
                rows = period.frame.take(range(first, last))
                yield PeriodDelivery(period, self.stream, self.numbered, rows, members)
