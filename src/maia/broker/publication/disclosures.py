"""What goes on record about a delivery, before it leaves?

One record for each frame and group of subscribers. What repeats (recipients with their
certificates, groups of them, attributes) is written once and then referred to by a number. The
numbers begin anew from time to time, so that a file of the ledger can be read by itself.

The owner of a type may demand that every delivery of it is on record. A broker without a
ledger then refuses subscriptions to it, and delivers nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.access.authorisation import Authorisation
from maia.broker.publication.transit import Transit
from maia.broker.sessions.links import Link, Subscription
from maia.credentials import Principal
from maia.events import AttributeUid, Instant
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Disclosed,
    Ground,
    LedgerRecord,
    Shown,
    Summarised,
    records_to_bytes,
    to_ranges,
)
from maia.wire.effects import Disclose, LinkId

__all__ = ["Disclosures"]

_FILE_BYTES: Final = 32 << 20
"""After about so many bytes a new file begins, and the numbers with it."""
_NUMBERS_MAX: Final = 65_536


@dataclass(slots=True)
class Disclosures:
    """What this broker has written to its ledger since the numbers began."""

    principal: Principal
    run: bytes
    is_of_all_types: bool
    """Whether deliveries of types are recorded whose owner does not demand it."""
    _written: int = _FILE_BYTES
    """How many bytes, since the numbers began."""
    _grounds: BoundedMap[tuple[LinkId, int], tuple[Authorisation, int]] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _audiences: BoundedMap[tuple[int, ...], int] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _shown: BoundedMap[frozenset[AttributeUid], int] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _last: int = 0

    def record(
        self,
        links: Mapping[LinkId, Link],
        members: Sequence[Mapping[LinkId, Sequence[int]]],
        transit: Transit,
        shown: Mapping[frozenset[AttributeUid], Sequence[int]],
        now: Instant,
        source: Summarised | None = None,
    ) -> Disclose:
        """Return the entry about rows of a frame: which of them show which attributes to these members.

        `source` says what the rows of a summary were made of.
        """
        records: list[LedgerRecord] = []
        begins = self._written >= _FILE_BYTES
        if begins:
            records.append(self._begin(now))
        grounds = [
            self._ground(links[link].subscriptions[ref], records)
            for part in members
            for link, refs in part.items()
            for ref in refs
        ]
        audience = self._audience(tuple(grounds), records)
        if source is not None:
            records.append(source)
        publisher, stream, sequence = transit.publisher.key, transit.stream, transit.sequence
        for attributes, rows in shown.items():
            records.append(
                Disclosed(
                    int(now),
                    audience,
                    self._attributes(attributes, records),
                    publisher,
                    stream,
                    sequence,
                    to_ranges(rows),
                )
            )
        data = records_to_bytes(records)
        self._written += len(data)
        return Disclose(begins, data)

    def _begin(self, now: Instant) -> Begin:
        self._grounds.clear()
        self._audiences.clear()
        self._shown.clear()
        self._written = self._last = 0
        return Begin(FORMAT, self.principal.key, self.run, int(now))

    def _ground(self, entry: Subscription, records: list[LedgerRecord]) -> int:
        right, member = entry.right, (entry.link, entry.ref)
        known = self._grounds.get(member)
        if known is not None and known[0] is right:
            return known[1]
        number = self._next()
        event_type, used = right.event_type, tuple(one.id for one in right.used)
        recipient = right.principal.key
        records.append(Ground(number, recipient, event_type.type_id, event_type.id, entry.view_class, used))
        self._grounds.put(member, (right, number))
        return number

    def _audience(self, grounds: tuple[int, ...], records: list[LedgerRecord]) -> int:
        known = self._audiences.get(grounds)
        if known is None:
            known = self._next()
            records.append(Audience(known, grounds))
            self._audiences.put(grounds, known)
        return known

    def _attributes(self, uids: frozenset[AttributeUid], records: list[LedgerRecord]) -> int:
        known = self._shown.get(uids)
        if known is None:
            known = self._next()
            records.append(Shown(known, tuple(sorted(uids))))
            self._shown.put(uids, known)
        return known

    def _next(self) -> int:
        self._last += 1
        return self._last
