"""Which publications reached this router for nothing, and what do its neighbours say of those it sent them?

Spill is what arrived from a neighbour and went to no local subscriber and to no
other neighbour (S11): it was asked for because a merged filter is wider than the
filters in it. It is counted where it arrives, in rows and bytes by type, and each
neighbour is sent a report of what it sent in vain. A report moves no budget of its
receiver: a router tunes by what it has counted itself, so a neighbour that lies in a
report changes what an operator reads, and no more than was really sent to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from maia.bounded_map import BoundedMap

Neighbour = TypeVar("Neighbour", bound=Hashable)

REPORTED_MAX: Final = 256
"""Types in one report, those with most bytes first."""
_TYPES_MAX: Final = 1024
"""Types that are counted for one neighbour."""


@dataclass(frozen=True, slots=True)
class Spilled:
    """How much of one type arrived from a neighbour for nothing."""

    type_id: bytes
    rows: int
    bytes: int


@dataclass(slots=True)
class Arrived:
    """What arrived of one type in one period, from all neighbours."""

    wanted_bytes: int = 0
    spilled_bytes: int = 0


@dataclass(slots=True)
class NeighbourSpill:
    """The account of one neighbour."""

    arrived_bytes: int = 0
    spilled_rows: int = 0
    spilled_bytes: int = 0
    """Of all that it has sent here."""
    to_report: BoundedMap[bytes, Spilled] = field(default_factory=lambda: BoundedMap(_TYPES_MAX))
    sent_bytes: int = 0
    """What was sent to it since its last report, which cannot have been more in vain."""
    reported_rows: int = 0
    reported_bytes: int = 0
    """What it says was sent to it in vain."""
    reported_at: int | None = None


class SpillAccounts(Generic[Neighbour]):
    """Spill by type and by neighbour."""

    def __init__(self, pace_us: int) -> None:
        """Begin with nothing; a neighbour's reports count no more often than `pace_us`."""
        self._pace_us = pace_us
        self._by_type: BoundedMap[bytes, Arrived] = BoundedMap(_TYPES_MAX)
        self._by_neighbour: dict[Neighbour, NeighbourSpill] = {}

    def of(self, neighbour: Neighbour) -> NeighbourSpill:
        """Return the account of a neighbour, which begins when it is first asked for."""
        known = self._by_neighbour.get(neighbour)
        if known is None:
            known = self._by_neighbour[neighbour] = NeighbourSpill()
        return known

    def forget(self, neighbour: Neighbour) -> None:
        """A neighbour is gone."""
        self._by_neighbour.pop(neighbour, None)

    def neighbours(self) -> Iterable[tuple[Neighbour, NeighbourSpill]]:
        """Return all accounts."""
        return self._by_neighbour.items()

    def note_arrival(
        self, neighbour: Neighbour, type_id: bytes, *, size: int, rows: int, spilled_rows: int
    ) -> None:
        """A frame arrived, and so many of its rows went nowhere."""
        spilled = size * spilled_rows // rows if rows else 0
        account = self.of(neighbour)
        account.arrived_bytes += size
        arrived = self._by_type.use(type_id)
        if arrived is None:
            arrived = Arrived()
            self._by_type.put(type_id, arrived)
        arrived.wanted_bytes += size - spilled
        if not spilled_rows:
            return
        arrived.spilled_bytes += spilled
        account.spilled_rows += spilled_rows
        account.spilled_bytes += spilled
        before = account.to_report.get(type_id) or Spilled(type_id, 0, 0)
        account.to_report.put(type_id, Spilled(type_id, before.rows + spilled_rows, before.bytes + spilled))

    def take_period(self, type_id: bytes) -> Arrived:
        """Return what arrived of a type since this was asked last."""
        return self._by_type.pop(type_id) or Arrived()

    def take_reports(self) -> Iterator[tuple[Neighbour, list[Spilled]]]:
        """Yield what neighbours have sent in vain since this was asked last."""
        for neighbour, account in self._by_neighbour.items():
            if account.to_report:
                found = sorted(account.to_report.values(), key=lambda one: -one.bytes)
                account.to_report.clear()
                yield neighbour, found[:REPORTED_MAX]

    def receive_report(self, neighbour: Neighbour, spilled: Iterable[Spilled], now: int) -> int | None:
        """Return how many bytes a neighbour's report counts for; None if it came too early to count."""
        account = self.of(neighbour)
        last = account.reported_at
        if last is not None and last <= now < last + self._pace_us:
            return None
        account.reported_at = now
        told = list(spilled)
        counted = min(sum(one.bytes for one in told), account.sent_bytes)
        account.reported_rows += sum(one.rows for one in told)
        account.reported_bytes += counted
        account.sent_bytes = 0
        return counted
