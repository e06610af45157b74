"""What goes on record about a delivery, before it leaves?

One record for each frame and group of subscribers; single events of a turn share one. What
repeats (recipients with their certificates, groups of them, attributes) is written once and then
referred to by a number. The numbers begin anew from time to time, so that a file of the ledger can
be read by itself.
The records of a turn make one entry, which is written before anything that the turn sends.

The owner of a type may demand that every delivery of it is on record. A broker without a
ledger then refuses subscriptions to it, and delivers nothing of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.audiences.identity_classes import LinkIdentities
from maia.broker.audiences.local_subscribers import Audiences, Seen, summary_deliveries
from maia.broker.links.authors import AttachedStatements, vouched_for
from maia.broker.links.links import Link, Subscription
from maia.broker.links.transit import Transit
from maia.broker.own import Own
from maia.broker.refusals import LedgerRequired
from maia.broker.rights.authorisation import Basis
from maia.broker.rights.known_types import KnownTypes
from maia.broker.timers import ClosePeriods, TimerWheel
from maia.broker.turn import Turn
from maia.credentials import Principal
from maia.events import SECOND, AttributeUid, Instant
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Disclosed,
    DisclosedEvents,
    Ground,
    LedgerRecord,
    Shown,
    Summarised,
    records_to_bytes,
    to_ranges,
)
from maia.wire.codec import encode_known
from maia.wire.effects import Disclose, Effect, LinkId
from maia.wire.messages import Deliver, DeliverLogged

_FILE_BYTES: Final = 32 << 20
"""After about so many bytes a new file begins, and the numbers with it."""
_NUMBERS_MAX: Final = 65_536
_RECORDS_TOGETHER: Final = 128
"""At most so many are one entry, however many rows they name."""


@dataclass(slots=True)
class Disclosures:
    """What this broker has written to its ledger since the numbers began."""

    principal: Principal
    run: bytes
    is_of_all_types: bool
    """Whether deliveries of types are recorded whose owner does not demand it."""
    _written: int = _FILE_BYTES
    """How many bytes, since the numbers began."""
    _grounds: BoundedMap[tuple[LinkId, int], tuple[Basis, bytes, int]] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _audiences: BoundedMap[tuple[int, ...], int] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _shown: BoundedMap[frozenset[AttributeUid], int] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    _last: int = 0
    _records: list[LedgerRecord] = field(default_factory=list, repr=False)
    """What goes on record with this turn."""
    _events: dict[tuple[int, int, frozenset[AttributeUid], tuple[bytes, bytes]], list[int]] = field(
        default_factory=dict, repr=False
    )
    """The numbers of single events among that."""
    _begins: bool = False
    """Whether numbers begin anew with it."""
    _single: BoundedMap[tuple[LinkId, int], tuple[Basis, bytes, int]] = field(
        default_factory=lambda: BoundedMap(_NUMBERS_MAX), repr=False
    )
    """The audience of one reference alone, and its right: most deliveries have one recipient."""

    def entries(self) -> list[Effect]:
        """Return what puts all deliveries of this turn on record, before any of them is sent."""
        records = self._records
        if not records:
            return []
        self._records, begins, self._begins = [], self._begins, False
        self._events = {}
        found: list[Effect] = []
        for at in range(0, len(records), _RECORDS_TOGETHER):
            data = records_to_bytes(records[at : at + _RECORDS_TOGETHER])
            self._written += len(data)
            found.append(Disclose(begins and not at, data))
        return found

    def record(
        self,
        links: Mapping[LinkId, Link],
        members: Sequence[Mapping[LinkId, Sequence[int]]],
        identity: tuple[bytes, bytes, int],
        shown: Mapping[frozenset[AttributeUid], Sequence[int]],
        now: Instant,
        source: Summarised | None = None,
    ) -> None:
        """Put rows of a frame on record: which of them show which attributes to these members.

        `identity` says which frame it is, by publisher, stream and number.
        `source` says what the rows of a summary were made of.
        """
        audience = self._members(links, members, now)
        records = self._records
        if source is not None:
            records.append(source)
        at = +now
        for attributes, rows in shown.items():
            if len(rows) == 1 and not rows[0] and source is None:
                self._note_events(at, audience, attributes, identity[:2], (identity[2], 0))
            else:
                records.append(
                    Disclosed(at, audience, self._number_of(attributes), *identity, to_ranges(rows))
                )

    def _members(
        self, links: Mapping[LinkId, Link], members: Sequence[Mapping[LinkId, Sequence[int]]], now: Instant
    ) -> int:
        """Return the number of an audience, which is on record."""
        records = self._records
        if not records and self._written >= _FILE_BYTES:
            self._begins = True
            records.append(self._begin(now))
        (link, refs), *others = members[0].items()
        if others or len(refs) > 1 or len(members) > 1:
            return self._audience(
                tuple(
                    [
                        self._ground(links[link].subscriptions[ref], records)
                        for part in members
                        for link, refs in part.items()
                        for ref in refs
                    ]
                ),
                records,
            )
        entry, single = links[link].subscriptions[refs[0]], self._single.get((link, refs[0]))
        if single is None or single[0] is not entry.basis or single[1] != entry.view_class:
            number = self._audience((self._ground(entry, records),), records)
            single = entry.basis, entry.view_class, number
            self._single.put((link, refs[0]), single)
        return single[2]

    def _note_events(
        self,
        at: int,
        audience: int,
        shown: frozenset[AttributeUid],
        stream: tuple[bytes, bytes],
        ranges: tuple[int, ...],
    ) -> None:
        """Put single events into the record of this turn that has all the rest in common with them."""
        key = at, audience, shown, stream
        known = self._events.get(key)
        if known is None:
            self._events[key] = known = list(ranges)
            self._records.append(DisclosedEvents(at, audience, self._number_of(shown), *stream, known))
        elif ranges[0] == known[-2] + known[-1] + 1:
            known[-1] += ranges[1] + 1
            known += ranges[2:]
        else:
            known += ranges

    def _begin(self, now: Instant) -> Begin:
        self._grounds.clear()
        self._audiences.clear()
        self._shown.clear()
        self._single.clear()
        self._written = self._last = 0
        return Begin(FORMAT, self.principal.key, self.run, int(now))

    def _ground(self, entry: Subscription, records: list[LedgerRecord]) -> int:
        member = entry.link, entry.ref
        known = self._grounds.get(member)
        if known is not None and known[0] is entry.basis and known[1] == entry.view_class:
            return known[2]
        right, number = entry.right, self._next()
        event_type, used = right.event_type, tuple(one.id for one in right.used)
        recipient = right.principal.key
        records.append(Ground(number, recipient, event_type.type_id, event_type.id, entry.view_class, used))
        self._grounds.put(member, (entry.basis, entry.view_class, number))
        return number

    def _audience(self, grounds: tuple[int, ...], records: list[LedgerRecord]) -> int:
        known = self._audiences.get(grounds)
        if known is None:
            known = self._next()
            records.append(Audience(known, grounds))
            self._audiences.put(grounds, known)
        return known

    def _number_of(self, uids: frozenset[AttributeUid]) -> int:
        """Return the number of attributes, which are on record."""
        known = self._shown.get(uids)
        if known is None:
            known = self._next()
            self._records.append(Shown(known, tuple(sorted(uids))))
            self._shown.put(uids, known)
        return known

    def _next(self) -> int:
        self._last += 1
        return self._last


# ------------------------------------------------------------ how many rows, and how late?
#
# It is added to with every delivery and read with the metrics (`maia.net.telemetry`), so it is two numbers
# and a list. The time is that between the publisher's clock and this turn of the broker.


BOUNDS_US: Final = tuple(
    round(one * SECOND)
    for one in (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
)
"""As in `maia.net.telemetry`, which a broker's core does not import."""


@dataclass(slots=True)
class DeliveryTally:
    """Rows that went to subscribers, one for each subscriber and row."""

    rows: int = 0
    timed: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_US) + 1))
    microseconds: int = 0

    @property
    def seconds(self) -> float:
        """Return what all times come to."""
        return self.microseconds / SECOND

    def add(self, rows: int, published_at: int, now: int) -> None:
        """Count rows that are delivered as they arrive; a clock that is ahead of ours counts as no time."""
        took = max(0, now - published_at)
        self.rows += rows
        self.timed[bisect_left(BOUNDS_US, took)] += rows
        self.microseconds += rows * took


# ------------------------------------------------------------ deliveries and summaries


@dataclass(slots=True, eq=False, repr=False)
class DeliveryRecords:
    """Which deliveries go on record, and when summaries are delivered."""

    own: Own
    types: KnownTypes
    links: dict[LinkId, Link]
    audiences: Audiences
    identities: LinkIdentities
    attached: AttachedStatements
    delivered: DeliveryTally
    disclosures: Disclosures | None
    timers: TimerWheel

    # ------------------------------------------------------------ one subscriber, one frame

    def seen_by(
        self, entry: Subscription, transit: Transit, missing: frozenset[AttributeUid], at: Instant
    ) -> tuple[Transit, Seen] | None:
        """Return a frame with what one subscriber sees of it by its View now; None for nothing.

        What is said of its publisher counts as of the moment `at`.
        """
        audience = self.audiences[entry.right.event_type.type_id]
        if transit.view is not None:
            audience = audience.behind(transit.view)
        view_class = audience.classes.get(entry.view_class)
        if view_class is None:
            return None  # it was released for others
        transit = vouched_for(self.attached, transit, at)
        seen = view_class.seen_of(transit, missing)
        return None if seen is None else (transit, seen)

    def send_to(
        self, entry: Subscription, transit: Transit, seen: Seen, message: Deliver | DeliverLogged, turn: Turn
    ) -> int:
        """Send a delivery to one subscriber, and put it on record before; return how long it is.

        Raise LedgerRequired if it may not be sent, because it cannot be put on record.
        """
        ledger, refused = self.ledger_for(entry.right.event_type.type_id)
        if refused is not None:
            raise refused
        if ledger is not None:
            ledger.record(self.links, [{entry.link: [entry.ref]}], transit.publication, seen.shown, turn.now)
        data = encode_known(message)
        self.delivered.rows += seen.rows
        turn.send_bytes(entry.link, data)
        return len(data)

    def ledger_for(self, type_id: bytes) -> tuple[Disclosures | None, LedgerRequired | None]:
        """Return where deliveries of a type go on record, if they do, and why they may not be made."""
        ledger, required = self.disclosures, self.types.requires_ledger(type_id)
        if ledger is None and required:
            return None, LedgerRequired("every delivery has to be on record, and this broker keeps no ledger")
        return (ledger if ledger is not None and (required or ledger.is_of_all_types) else None), None

    # ------------------------------------------------------------ summaries

    def close_periods(self, type_id: bytes, turn: Turn) -> None:
        """Deliver the summaries of a type whose periods are closed by now, and put them on record before."""
        audience, now = self.audiences.get(type_id), turn.now
        if audience is None:
            return
        ledger, refused = self.ledger_for(type_id)
        for delivery in audience.close_periods(now):
            if refused is not None:
                turn.count("maia_frames_refused_total", code=refused.code)
                continue
            period, frame = delivery.period, delivery.rows
            whose = self.own.principal, delivery.stream, delivery.number, int(period.ends)
            transit = Transit(type_id, *whose, frame)
            if ledger is not None:
                shown = {frozenset(frame.columns): range(frame.rows)}
                source = Summarised(
                    delivery.stream, delivery.number, int(period.start), int(period.ends), period.events
                )
                ledger.record(self.links, [delivery.members], transit.identity, shown, now, source)
            summary_deliveries(transit, delivery, turn)
            turn.count("maia_summaries_delivered_total", frame.rows)
        if left_out := audience.take_left_out():
            turn.count("maia_summaries_left_out_total", left_out)
        self.schedule_closing(type_id, now)

    def schedule_closing(self, type_id: bytes, now: Instant) -> None:
        """Set the timer for the next period that is closed, as long as a subscriber here sees summaries."""
        audience = self.audiences.get(type_id)
        closes_at = None if audience is None else audience.closes_after(now)
        if closes_at is not None:
            self.timers.add(ClosePeriods(type_id), closes_at)
