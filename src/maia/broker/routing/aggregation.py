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

Which parts does this router's aggregate have, and what may be believed of another's?

A part is an interest with the proof of a client that it is for. Another router
reads it as an entry that is narrowed to what the proof entitles to: a part that asks
for more than its proof gives asks for less (A67).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Final

from maia.broker.routing.entries import LocalInterest, Received, entry_of
from maia.broker.routing.outbox import proof_of, route_messages, wanted_of
from maia.broker.routing.received import understood
from maia.broker.routing.routes import TypeAggregate
from maia.broker.sessions.links import Link, Role
from maia.broker.state import BrokerState
from maia.broker.subscriptions.local_subscribers import SubscriberGroup
from maia.broker.timers import AnnounceWaiting, MergeAnnounced
from maia.broker.turn import Turn
from maia.credentials import Budget
from maia.events import Instant
from maia.predicates import ALWAYS, AllOf, AnyOf, Predicate, covers, simplified
from maia.routing.aggregation.aggregate import READ_MAX, size_of_filter
from maia.routing.aggregation.announced import Announcement, Changes
from maia.routing.aggregation.budget import Measured, begin, observe
from maia.routing.aggregation.spill import Spilled
from maia.routing.mesh.aggregates import digest_of_part
from maia.routing.table.hops import LOCAL, RouteEntry, TypeId, is_of_sealed
from maia.wire.effects import LinkId
from maia.wire.mesh_messages import ConnectPart, InterestPart, part_from_bytes, part_to_bytes
from maia.wire.messages import SpilledType, SpillReport, Wanted
from maia.wire.names import FilterTooLong, filter_to_bytes

_PROOFS_WEIGHED: Final = 4
"""The proofs of so many groups are weighed, to know what a proof costs."""
_FILTERS_IN_A_ROUND: Final = 2048
"""When so many filters have been compared, the other types wait for the next round."""
_ANNOUNCED_AT_ONCE: Final = 256
_NEXT_SOME_US: Final = 1000


# ------------------------------------------------------------ local subscribers


def announce(state: BrokerState, type_id: bytes, group: SubscriberGroup, turn: Turn) -> None:
    """Announce what a new group of subscribers wants, unless that is announced already.

    Until there is a neighbour, nothing is announced, and nothing is kept for it.
    """
    if state.routes.to_announce is None:
        return
    aggregate = state.routes.aggregates.setdefault(type_id, TypeAggregate())
    changes = aggregate.announcements.join(group.key, *_wanted_by(group))
    if len(aggregate.announcements) > aggregate.merged_from:
        aggregate.merged_from = len(aggregate.announcements) + READ_MAX
        state.timers.add(MergeAnnounced(type_id), Instant(turn.now + _NEXT_SOME_US))
    _announced(state, type_id, aggregate, changes, turn)


def begin_announcing(state: BrokerState, turn: Turn) -> None:
    """Begin to announce what clients want, if this is the first neighbour."""
    routes = state.routes
    if routes.to_announce is not None:
        return
    routes.to_announce = [
        (type_id, key) for type_id, audience in state.audiences.items() for key in audience.classes
    ]
    routes.to_announce.reverse()
    announce_waiting(state, turn)


def announce_waiting(state: BrokerState, turn: Turn) -> None:
    """Announce some of what clients wanted before there was a neighbour, and the others in a moment."""
    routes = state.routes
    waiting = routes.to_announce or []
    for _ in range(min(_ANNOUNCED_AT_ONCE, len(waiting))):
        type_id, key = waiting.pop()
        audience, aggregate = state.audiences.get(type_id), routes.aggregates.get(type_id)
        group = None if audience is None else audience.classes.get(key)
        is_new = aggregate is None or key not in aggregate.announcements
        if group is not None and is_new and state.types.sealing(type_id) is None:
            announce(state, type_id, group, turn)
    if waiting:
        routes.mark_changed(turn.now)
        state.timers.add(AnnounceWaiting(), Instant(turn.now + _NEXT_SOME_US))


def withdraw(state: BrokerState, type_id: bytes, keys: Collection[bytes], turn: Turn) -> None:
    """Take back what was announced for groups that are gone; what was announced for others too stays."""
    aggregate = state.routes.aggregates.get(type_id)
    if aggregate is None:
        return
    _announced(state, type_id, aggregate, aggregate.announcements.leave(keys), turn)
    if not aggregate.announcements.wanted:
        del state.routes.aggregates[type_id]


def prove_again(state: BrokerState, type_id: bytes, key: bytes, turn: Turn) -> None:
    """Send what was announced with a proof of this group again: another of its members proves it now."""
    aggregate, book = state.routes.aggregates.get(type_id), state.routes.book
    announced = () if aggregate is None else aggregate.announcements.announced_for(key)
    updates = [update for one in announced for update in book.send_one_again(LOCAL, type_id, one)]
    route_messages(state, updates, turn)


def _wanted_by(group: SubscriberGroup) -> tuple[Predicate, Predicate]:
    """Return what is announced for a group, and which events its right is about, whatever it selects."""
    admitted = tuple(window.admits for window in group.view.windows)
    right = simplified(admitted[0] if len(admitted) == 1 else AnyOf(admitted))
    try:
        filter_to_bytes(group.routed)
    except FilterTooLong:
        return ALWAYS, right  # one that does not fit into a message asks others for everything
    return group.routed, right


def _limited(filter_: Predicate, right: Hashable) -> Predicate:
    """Return the part of a merged filter that a right is about."""
    assert isinstance(right, Predicate)  # noqa: S101 - made by `_wanted_by`
    if right == ALWAYS or covers(wide=right, narrow=filter_):
        return filter_
    limited = simplified(AllOf((right, filter_)))
    try:
        filter_to_bytes(limited)
    except FilterTooLong:
        return right  # wider than the filter, and no wider than the right
    return limited


def _announced(
    state: BrokerState, type_id: bytes, aggregate: TypeAggregate, changes: Changes, turn: Turn
) -> int:
    """Put announcements into the routing table, and send what neighbours have to know of that.

    Return how many bytes that is.
    """
    book, groups = state.routes.book, state.audiences[type_id].classes if type_id in state.audiences else {}

    def entry(one: Announcement) -> RouteEntry:
        return RouteEntry(one.id, one.filter, groups.get(one.behind))

    updates = book.local_change(type_id, [entry(one) for one in changes.add], changes.remove)
    for one in changes.again:
        updates += book.local_change(type_id, [entry(one)], ())
        updates += book.send_one_again(LOCAL, type_id, one.id)
    sent = route_messages(state, updates, turn)
    if not aggregate.is_moved:
        aggregate.sent_bytes += sent
    elif sent:
        aggregate.is_moved = False
    return sent


def note_published(state: BrokerState, parts: Mapping[bytes, bytes]) -> None:
    """Count parts of this router's aggregate that each neighbour will ask for, each part with its type."""
    neighbours = len(_neighbours(state))
    for part, type_id in parts.items():
        aggregate = state.routes.aggregates.get(type_id)
        if aggregate is not None and not aggregate.is_moved:
            aggregate.sent_bytes += len(part) * neighbours
    for aggregate in state.routes.aggregates.values():
        aggregate.is_moved = False


def _neighbours(state: BrokerState) -> list[Link]:
    return [link for link in state.links.values() if link.is_ready and link.role is Role.BROKER]


# ------------------------------------------------------------ the budget


def tune_aggregates(state: BrokerState, turn: Turn) -> None:
    """End a period: move budgets, merge what came in it, and report what neighbours sent for nothing."""
    routes = state.routes
    room = _FILTERS_IN_A_ROUND if routes.aggregates and _neighbours(state) else 0
    for type_id, aggregate in sorted(routes.aggregates.items(), key=lambda one: one[1].tuned_at):
        if room <= 0:
            break  # those that have waited longest go first in the next round
        sent, merged = _tuned(state, type_id, aggregate, turn)
        aggregate.tuned_at = turn.now
        room -= merged
        if sent:
            routes.mark_changed(turn.now)
            turn.count("maia_aggregates_merged_total")
    for neighbour, spilled in routes.spill.take_reports():
        link = state.links.get(neighbour)
        if link is not None and link.is_ready:
            types = [SpilledType(one.type_id, one.rows, one.bytes) for one in spilled]
            turn.send(link.id, SpillReport(types))


def merge_announced(state: BrokerState, type_id: bytes, turn: Turn) -> None:
    """Merge the filters of one type that exceed its budget, if very many came in one period.

    The budget stays. As many have to come before that is done again, so the work for each is bounded.
    """
    aggregate, range_ = state.routes.aggregates.get(type_id), state.settings.aggregation
    if aggregate is None or range_ is None or not _neighbours(state):
        return
    sent = 0
    aggregate.budget = aggregate.budget or begin(range_)
    if _announced_bytes(state, type_id, aggregate) > aggregate.budget.bytes:
        sent = _settled(state, type_id, aggregate, aggregate.budget.bytes, turn, anew=False)
        aggregate.announcements.is_settled = False  # the period in which they came is yet to be judged
    aggregate.merged_from = len(aggregate.announcements) + READ_MAX
    if sent:
        state.routes.mark_changed(turn.now)
        turn.count("maia_aggregates_merged_total")


def _announced_bytes(state: BrokerState, type_id: bytes, aggregate: TypeAggregate) -> int:
    """Return how many bytes are announced: of filters that cover each other, neighbours have the wider."""
    aggregate.proof_bytes = _proof_bytes(state, type_id)
    announced = state.routes.book.wanted(LOCAL, type_id)
    return sum(aggregate.proof_bytes + size_of_filter(entry.predicate) for entry in announced)


def _settled(
    state: BrokerState,
    type_id: bytes,
    aggregate: TypeAggregate,
    budget_bytes: int,
    turn: Turn,
    *,
    anew: bool,
) -> int:
    """Merge what is announced until it is within a budget; return how many bytes were sent."""
    groups = state.audiences[type_id].classes  # of all that is announced: what ended was withdrawn before
    changes = aggregate.announcements.settle(
        budget_bytes, aggregate.proof_bytes, _limited, lambda key: _wanted_by(groups[key]), anew=anew
    )
    return _announced(state, type_id, aggregate, changes, turn)


def _tuned(state: BrokerState, type_id: bytes, aggregate: TypeAggregate, turn: Turn) -> tuple[int, int]:
    """Move the budget of one type; return how many bytes were sent, and how many filters were compared."""
    range_, announcements = state.settings.aggregation, aggregate.announcements
    arrived = state.routes.spill.take_period(type_id)
    sent, aggregate.sent_bytes = aggregate.sent_bytes, 0
    if range_ is None or (announcements.is_exact and announcements.is_settled and not sent):
        return 0, 0
    aggregate.size = size = _announced_bytes(state, type_id, aggregate)
    if announcements.is_exact and size <= range_.least:
        announcements.is_settled = True
        return 0, 0
    before = aggregate.budget or begin(range_)
    aggregate.budget = observe(
        before,
        Measured(size, sent, arrived.spilled_bytes, arrived.wanted_bytes, is_exact=announcements.is_exact),
    )
    aggregate.is_moved = aggregate.budget.bytes != before.bytes
    if announcements.is_settled and not aggregate.is_moved:
        return 0, 0
    merged = _settled(state, type_id, aggregate, aggregate.budget.bytes, turn, anew=aggregate.is_moved)
    aggregate.merged_from = len(announcements) + READ_MAX
    return merged, announcements.wanted


def _proof_bytes(state: BrokerState, type_id: bytes) -> int:
    audience = state.audiences.get(type_id)
    groups = [] if audience is None else list(audience.classes.values())[:_PROOFS_WEIGHED]
    proofs = [proof_of(state, group) for group in groups]
    sizes = [len(proof.request or b"") + sum(map(len, proof.credentials)) for proof in proofs]
    return sum(sizes) // len(sizes) if sizes else 0


# ------------------------------------------------------------ spill


def receive_spill_report(state: BrokerState, link: Link, message: SpillReport, turn: Turn) -> None:
    """Take note of what a neighbour says was sent to it for nothing: shown to operators, and no more.

    It moves no budget here: this broker tunes by what it has counted itself.
    """
    told = [Spilled(one.type_id, one.rows, one.size) for one in message.types]
    counted = state.routes.spill.receive_report(link.id, told, turn.now)
    if counted is None:
        turn.count("maia_spill_reports_ignored_total")
    else:
        turn.count("maia_spill_reported_bytes_total", counted)


MESH_ACCOUNT: Final = LinkId(-3)
"""In place of a link: what routers of the mesh proved, however far away they are."""
CONNECT_HEAD: Final = part_to_bytes(ConnectPart([]))[:2]
"""How the part begins by which a router shows that it may connect."""
_CREDENTIALS_MAX: Final = 256


class OwnParts:
    """What the clients of this broker want, as it travels."""

    __slots__ = ("_made", "_state")

    def __init__(self, state: BrokerState) -> None:
        """Begin without parts."""
        self._state = state
        self._made: dict[tuple[TypeId, bytes], tuple[object, bytes]] = {}
        """By name and id of an entry: the entry with its proof, and the part that was made of it."""

    def build(self) -> dict[bytes, bytes]:
        """Return the right to connect and what is wanted, each with its proof, by digest."""
        state, book = self._state, self._state.routes.book
        before, self._made = self._made, {}
        fresh: dict[bytes, TypeId] = {}
        for key in book.types():
            for entry in book.wanted(LOCAL, key):
                baggage = entry.baggage
                behind = baggage.view_class if isinstance(baggage, LocalInterest) else baggage
                same, known = (entry, proof_of(state, behind)), before.get((key, entry.id))
                # Made once for as long as it has the same proof: each sealing is another.
                if known is None or known[0] != same:
                    wanted = wanted_of(state, key, entry)
                    part = InterestPart(key, wanted.filter, wanted.proof, wanted.credentials)
                    known = (same, part_to_bytes(part))
                    fresh[known[1]] = key
                self._made[key, entry.id] = known
        connect = part_to_bytes(ConnectPart(state.own_credentials[:_CREDENTIALS_MAX]))
        note_published(state, fresh)
        return {digest_of_part(part): part for part in (connect, *(part for _, part in self._made.values()))}


def entry_of_part(
    state: BrokerState, name: bytes, data: bytes, turn: Turn, budget: Budget
) -> tuple[TypeId, RouteEntry] | None:
    """Return the entry that a part is, as far as it is proved; raise what is wrong with it."""
    part = part_from_bytes(data)
    if isinstance(part, ConnectPart):
        return None
    wanted = entry_of(part.key, Wanted(name[:16], part.filter, part.proof, part.credentials))
    entry = understood(state, part.key, wanted, turn.now, budget)
    if isinstance(entry.baggage, Received):
        state.statements.dependencies.note(MESH_ACCOUNT, entry.baggage.watched)
    if entry.predicate is not wanted.predicate and not is_of_sealed(part.key):
        turn.count("maia_interests_narrowed_total")
    return part.key, entry
