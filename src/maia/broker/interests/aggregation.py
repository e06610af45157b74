"""What does a broker announce of its subscribers' filters, and what does it learn from what arrives?

Each group of local subscribers hands in its filter. While all of them fit into
the budget of their type they are announced as they are; beyond that, filters of one
right are merged (`maia.routing.aggregation`). A merged filter travels with the proof
of one of its members and is cut to the right of that member, so no neighbour is asked
for more than one subscriber here has proved to be entitled to (A67).

Three times in a lease the budget of each type moves by what was measured: the
bytes that were announced, and the bytes that arrived and went nowhere. What
arrives for nothing is counted where frames of neighbours are handed on, is delivered
to no client (S11), and is reported to the neighbour that sent it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.broker.audiences.local_subscribers import Audiences, SubscriberGroup
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.routes import Routes, TypeAggregate
from maia.broker.links.links import Link, Role
from maia.broker.own import Own
from maia.broker.rights.known_types import KnownTypes
from maia.broker.timers import AnnounceWaiting, MergeAnnounced, TimerWheel
from maia.broker.turn import Turn
from maia.events import Instant
from maia.policy.view_bytes import EVERYTHING, class_of
from maia.predicates import ALWAYS, AllOf, AnyOf, Predicate, covers, simplified
from maia.routing.aggregation.aggregate import READ_MAX, size_of_filter
from maia.routing.aggregation.announced import Announcement, Changes
from maia.routing.aggregation.budget import Measured, begin, observe
from maia.routing.aggregation.spill import Spilled
from maia.routing.table.hops import LOCAL, RouteEntry
from maia.wire.effects import LinkId
from maia.wire.messages import SpilledType, SpillReport
from maia.wire.names import FilterTooLong, filter_to_bytes

_PROOFS_WEIGHED: Final = 4
"""The proofs of so many groups are weighed, to know what a proof costs."""
_FILTERS_IN_A_ROUND: Final = 2048
"""When so many filters have been compared, the other types wait for the next round."""
_ANNOUNCED_AT_ONCE: Final = 256
Right: TypeAlias = tuple[bytes, Predicate]
_NEXT_SOME_US: Final = 1000


@dataclass(slots=True, eq=False, repr=False)
class Announcer:
    """What is announced of the filters of subscribers here."""

    own: Own
    types: KnownTypes
    routes: Routes
    links: dict[LinkId, Link]
    audiences: Audiences
    timers: TimerWheel
    outbox: Outbox

    # ------------------------------------------------------------ local subscribers

    def announce(self, type_id: bytes, group: SubscriberGroup, turn: Turn) -> None:
        """Announce what a new group of subscribers wants, unless that is announced already.

        Until there is a neighbour, nothing is announced, and nothing is kept for it.
        """
        if self.routes.to_announce is None:
            return
        aggregate = self.routes.aggregates.setdefault(type_id, TypeAggregate())
        changes = aggregate.announcements.join(group.key, *_wanted_by(group))
        if len(aggregate.announcements) > aggregate.merged_from:
            aggregate.merged_from = len(aggregate.announcements) + READ_MAX
            self.timers.add(MergeAnnounced(type_id), Instant(turn.now + _NEXT_SOME_US))
        self._announced(type_id, aggregate, changes, turn)

    def begin_announcing(self, turn: Turn) -> None:
        """Begin to announce what clients want, if this is the first neighbour."""
        routes = self.routes
        if routes.to_announce is not None:
            return
        routes.to_announce = [
            (type_id, key) for type_id, audience in self.audiences.items() for key in audience.classes
        ]
        routes.to_announce.reverse()
        self.announce_waiting(turn)

    def announce_waiting(self, turn: Turn) -> None:
        """Announce some of what clients wanted before there was a neighbour, and the others in a moment."""
        routes = self.routes
        waiting = routes.to_announce or []
        for _ in range(min(_ANNOUNCED_AT_ONCE, len(waiting))):
            type_id, key = waiting.pop()
            audience, aggregate = self.audiences.get(type_id), routes.aggregates.get(type_id)
            group = None if audience is None else audience.classes.get(key)
            is_new = aggregate is None or key not in aggregate.announcements
            if group is not None and is_new and self.types.sealing(type_id) is None:
                self.announce(type_id, group, turn)
        if waiting:
            routes.mark_changed(turn.now)
            self.timers.add(AnnounceWaiting(), Instant(turn.now + _NEXT_SOME_US))

    def withdraw(self, type_id: bytes, keys: Collection[bytes], turn: Turn) -> None:
        """Take back what was announced for groups that are gone; what was announced for others too stays."""
        aggregate = self.routes.aggregates.get(type_id)
        if aggregate is None:
            return
        self._announced(type_id, aggregate, aggregate.announcements.leave(keys), turn)
        if not aggregate.announcements.wanted:
            del self.routes.aggregates[type_id]

    def prove_again(self, type_id: bytes, key: bytes, turn: Turn) -> None:
        """Send what was announced with a proof of this group again: another of its members proves it now."""
        aggregate, book = self.routes.aggregates.get(type_id), self.routes.book
        announced = () if aggregate is None else aggregate.announcements.announced_for(key)
        updates = [update for one in announced for update in book.send_one_again(LOCAL, type_id, one)]
        self.outbox.route_messages(updates, turn)

    def _announced(self, type_id: bytes, aggregate: TypeAggregate, changes: Changes, turn: Turn) -> int:
        """Put announcements into the routing table, and send what neighbours have to know of that.

        Return how many bytes that is.
        """
        book, groups = self.routes.book, self.audiences[type_id].classes if type_id in self.audiences else {}

        def entry(one: Announcement) -> RouteEntry:
            group = groups.get(one.behind)
            return RouteEntry(
                one.id, one.filter, group, view=EVERYTHING if group is None else class_of(group.seen)
            )

        updates = book.local_change(type_id, [entry(one) for one in changes.add], changes.remove)
        for one in changes.again:
            updates += book.local_change(type_id, [entry(one)], ())
            updates += book.send_one_again(LOCAL, type_id, one.id)
        sent = self.outbox.route_messages(updates, turn)
        if not aggregate.is_moved:
            aggregate.sent_bytes += sent
        elif sent:
            aggregate.is_moved = False
        return sent

    def note_published(self, parts: Mapping[bytes, bytes]) -> None:
        """Count parts of this router's aggregate that each neighbour will ask for, with their types."""
        neighbours = len(self._neighbours())
        for part, type_id in parts.items():
            aggregate = self.routes.aggregates.get(type_id)
            if aggregate is not None and not aggregate.is_moved:
                aggregate.sent_bytes += len(part) * neighbours
        for aggregate in self.routes.aggregates.values():
            aggregate.is_moved = False

    def _neighbours(self) -> list[Link]:
        return [link for link in self.links.values() if link.is_ready and link.role is Role.BROKER]

    # ------------------------------------------------------------ the budget

    def tune_aggregates(self, turn: Turn) -> None:
        """End a period: move budgets, merge what came in it, and report what neighbours sent for nothing."""
        routes = self.routes
        room = _FILTERS_IN_A_ROUND if routes.aggregates and self._neighbours() else 0
        for type_id, aggregate in sorted(routes.aggregates.items(), key=lambda one: one[1].tuned_at):
            if room <= 0:
                break  # those that have waited longest go first in the next round
            sent, merged = self._tuned(type_id, aggregate, turn)
            aggregate.tuned_at = turn.now
            room -= merged
            if sent:
                routes.mark_changed(turn.now)
                turn.count("maia_aggregates_merged_total")
        for neighbour, spilled in routes.spill.take_reports():
            link = self.links.get(neighbour)
            if link is not None and link.is_ready:
                types = [SpilledType(one.type_id, one.rows, one.bytes) for one in spilled]
                turn.send(link.id, SpillReport(types))

    def merge_announced(self, type_id: bytes, turn: Turn) -> None:
        """Merge the filters of one type that exceed its budget, if very many came in one period.

        The budget stays. As many have to come before that is done again, so the work for each is bounded.
        """
        aggregate, range_ = self.routes.aggregates.get(type_id), self.own.settings.aggregation
        if aggregate is None or range_ is None or not self._neighbours():
            return
        sent = 0
        aggregate.budget = aggregate.budget or begin(range_)
        if self._announced_bytes(type_id, aggregate) > aggregate.budget.bytes:
            sent = self._settled(type_id, aggregate, aggregate.budget.bytes, turn, anew=False)
            aggregate.announcements.is_settled = False  # the period in which they came is yet to be judged
        aggregate.merged_from = len(aggregate.announcements) + READ_MAX
        if sent:
            self.routes.mark_changed(turn.now)
            turn.count("maia_aggregates_merged_total")

    def _announced_bytes(self, type_id: bytes, aggregate: TypeAggregate) -> int:
        """Return how many bytes are announced: of filters that cover others, neighbours have the wider."""
        aggregate.proof_bytes = self._proof_bytes(type_id)
        announced = self.routes.book.wanted(LOCAL, type_id)
        return sum(aggregate.proof_bytes + size_of_filter(entry.predicate) for entry in announced)

    def _settled(
        self,
        type_id: bytes,
        aggregate: TypeAggregate,
        budget_bytes: int,
        turn: Turn,
        *,
        anew: bool,
    ) -> int:
        """Merge what is announced until it is within a budget; return how many bytes were sent."""
        groups = self.audiences[type_id].classes  # of all that is announced: what ended was withdrawn before
        changes = aggregate.announcements.settle(
            budget_bytes, aggregate.proof_bytes, _limited, lambda key: _wanted_by(groups[key]), anew=anew
        )
        return self._announced(type_id, aggregate, changes, turn)

    def _tuned(self, type_id: bytes, aggregate: TypeAggregate, turn: Turn) -> tuple[int, int]:
        """Move the budget of one type; return how many bytes were sent, and filters compared."""
        range_, announcements = self.own.settings.aggregation, aggregate.announcements
        arrived = self.routes.spill.take_period(type_id)
        sent, aggregate.sent_bytes = aggregate.sent_bytes, 0
        if range_ is None or (announcements.is_exact and announcements.is_settled and not sent):
            return 0, 0
        aggregate.size = size = self._announced_bytes(type_id, aggregate)
        if announcements.is_exact and size <= range_.least:
            announcements.is_settled = True
            return 0, 0
        before = aggregate.budget or begin(range_)
        aggregate.budget = observe(
            before,
            Measured(
                size, sent, arrived.spilled_bytes, arrived.wanted_bytes, is_exact=announcements.is_exact
            ),
        )
        aggregate.is_moved = aggregate.budget.bytes != before.bytes
        if announcements.is_settled and not aggregate.is_moved:
            return 0, 0
        merged = self._settled(type_id, aggregate, aggregate.budget.bytes, turn, anew=aggregate.is_moved)
        aggregate.merged_from = len(announcements) + READ_MAX
        return merged, announcements.wanted

    def _proof_bytes(self, type_id: bytes) -> int:
        audience = self.audiences.get(type_id)
        groups = [] if audience is None else list(audience.classes.values())[:_PROOFS_WEIGHED]
        proofs = [self.outbox.proof_of(group) for group in groups]
        sizes = [len(proof.request or b"") + sum(map(len, proof.credentials)) for proof in proofs]
        return sum(sizes) // len(sizes) if sizes else 0

    # ------------------------------------------------------------ spill

    def receive_spill_report(self, link: Link, message: SpillReport, turn: Turn) -> None:
        """Take note of what a neighbour says was sent to it for nothing: shown to operators, and no more.

        It moves no budget here: this broker tunes by what it has counted itself.
        """
        told = [Spilled(one.type_id, one.rows, one.size) for one in message.types]
        counted = self.routes.spill.receive_report(link.id, told, turn.now)
        if counted is None:
            turn.count("maia_spill_reports_ignored_total")
        else:
            turn.count("maia_spill_reported_bytes_total", counted)


def _wanted_by(group: SubscriberGroup) -> tuple[Predicate, Right]:
    """Return what is announced for a group, and its right: its class, and which events that is about."""
    admitted = tuple(window.admits for window in group.view.windows)
    right = class_of(group.seen), simplified(admitted[0] if len(admitted) == 1 else AnyOf(admitted))
    try:
        filter_to_bytes(group.routed)
    except FilterTooLong:
        return ALWAYS, right  # one that does not fit into a message asks others for everything
    return group.routed, right


def _limited(filter_: Predicate, right: Hashable) -> Predicate:
    """Return the part of a merged filter that a right is about."""
    assert isinstance(right, tuple)  # noqa: S101 - made by `_wanted_by`
    admitted: Predicate = right[1]
    if admitted == ALWAYS or covers(wide=admitted, narrow=filter_):
        return filter_
    limited = simplified(AllOf((admitted, filter_)))
    try:
        filter_to_bytes(limited)
    except FilterTooLong:
        return admitted  # wider than the filter, and no wider than the right
    return limited
