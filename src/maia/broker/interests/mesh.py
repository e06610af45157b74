"""Routing by mesh: neighbours are configured, and interests are flooded as signed aggregates.

This is the routing of Gismo (3.5, 3.6), for small or poor networks. What
neighbours announce goes through `maia.routing.mesh.table`, which knows nothing
of rights; here it is signed, verified, and put into the routing table
behind the router that it is of. A frame names the routers that it is for, and
goes to the next router on the way to each of them: one copy to each neighbour,
and to none towards a router that has proved no right to it (A67). What a router
believes of another (docs/decisions/mesh-routing.md):

- a neighbour may connect: it proved that in the handshake;
- a router further away may connect: its aggregate shows the certificates;
- the clients of a router may read what it wants: each interest comes with the
  request that caused it and the certificates behind it, as in the overlay;
- a frame may come from any neighbour that may connect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from maia.bounded_map import BoundedMap
from maia.broker.interests.aggregation import Announcer
from maia.broker.interests.entries import LocalInterest, Received, entry_of
from maia.broker.interests.impairment import Impairments
from maia.broker.interests.outbox import Outbox
from maia.broker.interests.received import ReceivedInterests
from maia.broker.interests.rekeying import Rekeying
from maia.broker.interests.router import Handler
from maia.broker.interests.routes import Neighbour, Routes, memory_limits
from maia.broker.interests.sealed import SealedInterests
from maia.broker.links.links import Link
from maia.broker.links.transit import Transit
from maia.broker.own import Own
from maia.broker.rights.authorisation import Authorisation
from maia.broker.rights.authoriser import Authoriser
from maia.broker.rights.validity import ValidityTracker
from maia.broker.turn import Turn
from maia.credentials import Action, Budget, principal_from_bytes
from maia.errors import BrokenCredential, MaiaError, Refusal
from maia.events import AttributeUid, Instant, seconds_after
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, row_set, rows_in
from maia.routing.mesh import aggregates
from maia.routing.mesh.aggregates import Head, MeshLimits, Step, digest_of_part
from maia.routing.mesh.table import ConfiguredNeighbours, MeshTable
from maia.routing.overlay.table import NodeId, node_id_of_key, node_id_text, node_id_to_bytes
from maia.routing.table.hops import LOCAL, Hop, RouteEntry, TypeId, is_of_sealed
from maia.wire.codec import encode
from maia.wire.effects import Dial, LinkId
from maia.wire.mesh_messages import (
    AggregateContent,
    AggregateHead,
    AggregateLost,
    AggregateQuery,
    ConnectPart,
    FrameTargets,
    InterestPart,
    part_from_bytes,
    part_to_bytes,
    sign_head,
    verify_head,
)
from maia.wire.messages import Carried, Message, Sealed, SealedWithPlaintext, Wanted, signer_of

_NAME_BYTES: Final = 8
_HOPS_MAX: Final = 255
_FRAMES_ASSIGNED: Final = 16_384
_ASSIGNED_BYTES: Final = 16 << 20
_AGGREGATE_BYTES: Final = 16 << 20
_QUESTION_WAIT_S: Final = 2.0
_DOUBT_S: Final = 2.0
"""How long a router has to prove an interest otherwise whose certificate counts no more."""

_FrameId = tuple[bytes, bytes, int, bytes]


class _Assigned(NamedTuple):
    """The routers that a neighbour named for a frame, and how far it may still go."""

    routers: frozenset[bytes]
    hops: int


MESH_ACCOUNT: Final = LinkId(-3)
"""In place of a link: what routers of the mesh proved, however far away they are."""
CONNECT_HEAD: Final = part_to_bytes(ConnectPart([]))[:2]
"""How the part begins by which a router shows that it may connect."""
_CREDENTIALS_MAX: Final = 256


@dataclass(slots=True, eq=False, repr=False)
class OwnParts:
    """What the clients of this broker want, as it travels: each an interest with the proof of a client."""

    own: Own
    routes: Routes
    outbox: Outbox
    announcer: Announcer
    _made: dict[tuple[TypeId, bytes], tuple[object, bytes]] = field(default_factory=dict)
    """By name and id of an entry: the entry with its proof, and the part that was made of it."""

    def build(self) -> dict[bytes, bytes]:
        """Return the right to connect and what is wanted, each with its proof, by digest."""
        book = self.routes.book
        before, self._made = self._made, {}
        fresh: dict[bytes, TypeId] = {}
        for key in book.types():
            for entry in book.wanted(LOCAL, key):
                baggage = entry.baggage
                behind = baggage.view_class if isinstance(baggage, LocalInterest) else baggage
                same, known = (entry, self.outbox.proof_of(behind)), before.get((key, entry.id))
                # Made once for as long as it has the same proof: each sealing is another.
                if known is None or known[0] != same:
                    wanted = self.outbox.wanted_of(key, entry)
                    part = InterestPart(key, wanted.filter, wanted.proof, wanted.credentials, wanted.view)
                    known = (same, part_to_bytes(part))
                    fresh[known[1]] = key
                self._made[key, entry.id] = known
        connect = part_to_bytes(ConnectPart(self.own.shown[:_CREDENTIALS_MAX]))
        self.announcer.note_published(fresh)
        return {digest_of_part(part): part for part in (connect, *(part for _, part in self._made.values()))}


@dataclass(eq=False, repr=False)
class MeshRouter:
    """One router of a mesh."""

    own: Own
    authoriser: Authoriser
    routes: Routes
    statements: ValidityTracker
    links: Mapping[LinkId, Link]
    sealed: SealedInterests
    impairments: Impairments
    outbox: Outbox
    received: ReceivedInterests
    announcer: Announcer
    rekeying: Rekeying

    def __post_init__(self) -> None:
        """Route for a broker; its settings name the neighbours."""
        own, settings = self.own, self.own.settings
        self.question_wait_s = _QUESTION_WAIT_S
        self.flooding = self
        self._table = MeshTable(
            self.own.principal.key,
            sign=lambda head: sign_head(_to_wire(head), settings.network, self.own.key),
            verify=self._verify,
            admit=self._admit,
            limits=MeshLimits(
                lease_us=settings.lease_s * 1_000_000,
                skew_us=settings.skew_s * 1_000_000,
                parts_max=settings.limits.interests_per_peer,
                bytes_max=min(settings.limits.bytes_per_peer, _AGGREGATE_BYTES),
            ),
        )
        self._dialling = ConfiguredNeighbours(settings.neighbours, own=settings.address)
        self._sent = DuplicateMemory(memory_limits(settings.limits))
        """Which rows went to which router: none goes there twice, so no loop goes round (A66)."""
        self._links: dict[Hop, LinkId] = {}
        self._keys: dict[Hop, bytes] = {}
        """The keys of the routers that are hops of the routing table."""
        self._entries: dict[bytes, dict[bytes, tuple[TypeId, bytes] | None]] = {}
        """What became of each part of each origin: an entry of the routing table, None if it was refused."""
        self._connects: dict[bytes, tuple[bytes, Authorisation]] = {}
        self._verify_at: dict[bytes, Instant] = {}
        """When the parts of an origin are verified again."""
        self._watched_max = 4096
        self._next_frame: dict[LinkId, FrameTargets] = {}
        self._assigned: BoundedMap[_FrameId, _Assigned] = BoundedMap(
            _FRAMES_ASSIGNED,
            bytes_max=_ASSIGNED_BYTES,
            size_of=lambda _, value: 256 + 64 * len(value.routers),
        )
        self._prefixes: dict[tuple[LinkId, bytes | None], bytes] = {}
        self._own_parts = OwnParts(own, self.routes, self.outbox, self.announcer)
        self._seen_version = -1
        self.handlers: Mapping[type, Handler] = {
            AggregateHead: self._receive_head,
            AggregateQuery: self._receive_query,
            AggregateContent: self._receive_content,
            AggregateLost: self._receive_lost,
            FrameTargets: self._receive_targets,
        }

    # ------------------------------------------------------------ neighbours

    def start(self, turn: Turn) -> None:
        """Publish what is wanted here, and dial the neighbours."""
        self.routes.is_changed = True
        self._perform(self._table.publish(self._own_parts.build(), turn.now), turn)
        self._dial(turn)

    def leave(self, _turn: Turn) -> None:
        """Say nothing: the neighbours see the links end, and find other ways."""

    def dial_failed(self, address: str, turn: Turn) -> None:
        """Dial again later."""
        self.impairments.seed_silent(address)
        self.routes.is_changed = True
        self._dialling.failed(address, turn.now)

    def neighbour_known(self, link: Link, _turn: Turn) -> None:
        """Note where a neighbour has answered."""
        self._dialling.linked(node_id_of_key(link.peer.key), dialled=link.dialled)

    def neighbour_up(self, link: Link, turn: Turn) -> None:
        """Announce to a neighbour what is known."""
        node = node_id_of_key(link.peer.key)
        routes, before = self.routes, self._links.get(node)
        if before is not None:
            self._gone(node, before, turn)
        routes.node_of[link.id], self._links[node] = node, link.id
        is_new = node not in self._keys
        self._reach(link.peer.key, link.id, turn.now)
        self._dialling.linked(node, dialled=link.dialled)
        self.impairments.neighbour_found()
        routes.is_changed = True
        if routes.borders == {link.id}:  # what is released there has to be proved, however seldom others look
            for origin in list(self._table.origins):
                self._verify_again(origin, turn)
        self._perform(self._table.hop_up(node), turn)
        known = self._table.origins.get(link.peer.key)
        if is_new and known is not None and known.parts:
            # It was away for less than a lease, and will not send again what is at hand.
            self._verify_at.setdefault(known.key, seconds_after(turn.now, self.own.settings.lease_s))
            self._register(known.key, known.parts, turn)
        self.rekeying.show_rights([link.id], self.sealed.in_use, turn)

    def neighbour_gone(self, link: Link, turn: Turn) -> None:
        """Find other ways to the routers behind a neighbour."""
        node = self.routes.node_of.get(link.id)
        if node is not None:
            self._dialling.lost(node, turn.now)
            self._gone(node, link.id, turn)

    def _gone(self, node: NodeId, link: LinkId, turn: Turn) -> None:
        routes = self.routes
        del routes.node_of[link], self._links[node]
        self._next_frame.pop(link, None)
        routes.is_changed = True
        key = self._keys[node]
        self._perform(self._table.hop_gone(node, turn.now), turn)
        if not self._table.next_hops(key):
            self._forget(key)

    def _dial(self, turn: Turn) -> None:
        for address in self._dialling.dials(turn.now):
            turn.add(Dial(address))

    # ------------------------------------------------------------ time and certificates

    def maintain(self, turn: Turn) -> None:
        """Publish what is wanted here if it changed or is to be renewed; end what was not renewed; dial."""
        now, routes = turn.now, self.routes
        routes.is_changed = True
        self.rekeying.rekey_pending(turn)
        self._perform(self._table.tick(now), turn)
        own, version = self._table.own.head, self._version()
        is_due = own is None or now >= own.dated + self._table.renew_every_us
        is_changed = version != self._seen_version or (routes.replicate_at or now) < now
        if is_due or is_changed or routes.replicate_at == now:
            self._seen_version, routes.replicate_at = version, None
            self._perform(self._table.publish(self._own_parts.build(), now), turn)
        for origin in [one for one, at in self._verify_at.items() if at <= now]:
            self._verify_again(origin, turn)
        self._dial(turn)

    def next_due(self, now: Instant) -> Instant | None:
        """Return when something of that is due."""
        routes = self.routes
        if self._version() != self._seen_version and routes.replicate_at is None:
            return now
        dial = self._dialling.next_due()
        moments = (
            self._table.next_due(),
            None if dial is None else Instant(dial),
            routes.replicate_at,
            routes.sealed_at,
            *self._verify_at.values(),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def forgive(self, until: Instant) -> None:
        """End no lease before `until`."""
        self._table.forgive(until)

    def recheck(self, certificates: Collection[bytes], turn: Turn) -> None:
        """Verify again, in a moment, what rests on these certificates: its router may prove it otherwise."""
        book, soon = self.routes.book, seconds_after(turn.now, _DOUBT_S)
        touched = set(certificates)
        if MESH_ACCOUNT not in self.statements.dependencies.links_on(touched):
            return
        for node, key in self._keys.items():
            proofs = (entry.baggage for kind in book.types() for entry in book.entries(node, kind))
            watched = (one.watched for one in proofs if isinstance(one, Received))
            connect = self._connects.get(key)
            is_touched = connect is not None and connect[1].depends_on(touched)
            if is_touched or any(not one.isdisjoint(touched) for one in watched):
                self._verify_at[key] = min(soon, self._verify_at.get(key, soon))
                self.routes.is_changed = True

    def doubt(self, link: Link, certificates: Collection[bytes], turn: Turn) -> None:
        """Verify everything again in a moment: a right to connect, or a quorum, has changed."""
        del link, certificates
        soon = seconds_after(turn.now, _DOUBT_S)
        self._verify_at = {origin: min(at, soon) for origin, at in self._verify_at.items()}
        self.routes.is_changed = True

    def _version(self) -> int:
        """Return a number that changes when this broker's own clients may want something else."""
        book = self.routes.book
        return sum(1 + book.version(LOCAL, key) for key in book.types())

    # ------------------------------------------------------------ what neighbours say

    def _receive_head(self, link: Link, message: AggregateHead, turn: Turn) -> None:
        head = Head(
            message.origin, message.number, message.dated, message.parts, message.digest, message.signature
        )
        self._perform(self._table.receive_head(self._hop(link), head, turn.now), turn)

    def _receive_query(self, link: Link, message: AggregateQuery, turn: Turn) -> None:
        hop = self._hop(link)
        self._perform(self._table.receive_query(hop, message.origin, message.have, turn.now), turn)

    def _receive_content(self, link: Link, message: AggregateContent, turn: Turn) -> None:
        hop = self._hop(link)
        content = aggregates.Content(
            hop, message.origin, message.base, tuple(message.add), tuple(message.remove), message.more
        )
        self._perform(self._table.receive_content(hop, content, turn.now), turn)

    def _receive_lost(self, link: Link, message: AggregateLost, turn: Turn) -> None:
        self._perform(self._table.receive_withdrawal(self._hop(link), message.origin), turn)

    def _receive_targets(self, link: Link, message: FrameTargets, _turn: Turn) -> None:
        self._next_frame[link.id] = message

    def _hop(self, link: Link) -> NodeId:
        return self.routes.node_of[link.id]

    def _perform(self, steps: Iterable[Step], turn: Turn) -> None:
        heads: dict[int, bytes] = {}
        self.routes.is_changed = True
        for step in steps:
            match step:
                case aggregates.Announce(hop, head):
                    if id(head) not in heads:
                        heads[id(head)] = encode(_to_wire(head))
                    turn.send_bytes(self._links[hop], heads[id(head)])
                case aggregates.Withdraw(hop, origin, number):
                    self._send_to(hop, AggregateLost(origin, number), turn)
                case aggregates.Ask(hop, origin, have):
                    self._send_to(hop, AggregateQuery(origin, have), turn)
                case aggregates.Content(hop, origin, base, add, remove, more):
                    self._send_to(hop, AggregateContent(origin, base, [*add], [*remove], more), turn)
                case aggregates.Learned(origin, added, removed):
                    self._learned(origin, added, removed, turn)
                case aggregates.Renewed(origin):
                    self._renewed(origin, turn)
                case aggregates.Routed(origin, hops):
                    self._routed(origin, hops, turn)
                case aggregates.Gone(origin):
                    self._withdraw(origin, list(self._entries.get(origin, ())), turn.now)
                    turn.note("router-lost", principal=str(principal_from_bytes(origin)))
                case aggregates.Refused(hop, _, problem):
                    link = self._links[hop]
                    turn.refused(problem, self.links[link].peer, link=link, asked="Aggregate")
                case _:
                    assert_never(step)

    def _send_to(self, hop: Hop, message: Message, turn: Turn) -> None:
        if hop in self._links:
            turn.send(self._links[hop], message)

    def _verify(self, head: Head) -> None:
        self.authoriser.budget_of_message().spend_check()
        try:
            verify_head(_to_wire(head), self.own.settings.network)
        except MaiaError as problem:
            raise BrokenCredential(
                "CREDENTIAL-AGGREGATE", "an aggregate is not signed by its origin"
            ) from problem

    def _admit(self, origin: bytes, parts: Mapping[bytes, bytes], now: int) -> None:
        """Refuse the aggregate of a key that may not be a router of this network."""
        link = self._links.get(node_id_of_key(origin))
        if link is not None and self.links[link].peer.key == origin:
            return  # it proved that in the handshake
        authoriser, at = self.authoriser, Instant(now)
        shown = next((part for part in parts.values() if part.startswith(CONNECT_HEAD)), b"")
        known = self._connects.get(origin)
        if known is not None and known[0] == shown:
            self._connects[origin] = (shown, authoriser.still(known[1], at))
            return
        part = part_from_bytes(shown) if shown else None
        if not isinstance(part, ConnectPart):
            raise Refusal(
                "REFUSED-NOT-PROVED",
                "an aggregate came without the certificates by which its origin may connect",
            )
        principal, budget = principal_from_bytes(origin), authoriser.budget_of_message()
        pool = authoriser.pool_of_stranger(part.credentials, budget)
        authoriser.expect(principal, Action.CONNECT, self.own.settings.network, pool, at, budget)
        connect, _ = authoriser.decide_broker(principal, pool, at, (), budget=budget)
        self.statements.dependencies.note(MESH_ACCOUNT, connect.watched)
        self._connects[origin] = (shown, connect)

    # ------------------------------------------------------------ what routers want

    def _learned(
        self, origin: bytes, added: Mapping[bytes, bytes], removed: Sequence[bytes], turn: Turn
    ) -> None:
        self._withdraw(origin, removed, turn.now)
        if node_id_of_key(origin) not in self._keys:
            return  # its way is found in the next step
        self._verify_at.setdefault(origin, seconds_after(turn.now, self.own.settings.lease_s))
        self._register(origin, added, turn)

    def _renewed(self, origin: bytes, turn: Turn) -> None:
        """Try again what was refused: a certificate or a key may have come meanwhile."""
        parts, known = self._table.origins[origin].parts or {}, self._entries.get(origin, {})
        refused = {name: parts[name] for name, entry in known.items() if entry is None and name in parts}
        if refused:
            self._register(origin, refused, turn)

    def _verify_again(self, origin: bytes, turn: Turn) -> None:
        """Verify all parts of an origin: rights end, by the clock and by revocation."""
        self._verify_at.pop(origin, None)
        known = self._table.origins.get(origin)
        if known is None or known.parts is None or node_id_of_key(origin) not in self._keys:
            return
        self._verify_at[origin] = seconds_after(turn.now, self.own.settings.lease_s)
        try:
            self._admit(origin, known.parts, turn.now)
        except MaiaError as problem:
            self._withdraw(origin, list(known.parts), turn.now)
            turn.refused(problem, principal_from_bytes(origin), asked="Aggregate")
            return
        self._register(origin, known.parts, turn)

    def _routed(self, origin: bytes, hops: Sequence[Hop], turn: Turn) -> None:
        node = node_id_of_key(origin)
        direct = self._links.get(node)
        if not hops and direct is None:
            self._forget(origin)
            return
        link = direct if direct is not None else self._links[hops[0]]
        is_new = node not in self._keys
        self._reach(origin, link, turn.now)
        if is_new:
            self._verify_at.setdefault(origin, seconds_after(turn.now, self.own.settings.lease_s))
            self._register(origin, self._table.origins[origin].parts or {}, turn)

    def _reach(self, origin: bytes, link: LinkId, now: Instant) -> None:
        """Make a router a hop of the routing table, or change where the way to it begins."""
        routes, node = self.routes, node_id_of_key(origin)
        if node in routes.neighbours:
            routes.neighbours[node].link = link
            return
        routes.neighbours[node], self._keys[node] = Neighbour(node, link), origin
        routes.book.hop_up(node, now)

    def _forget(self, origin: bytes) -> None:
        """Forget a router to which there is no way."""
        routes, node = self.routes, node_id_of_key(origin)
        if node in self._keys:
            del routes.neighbours[node], self._keys[node]
            routes.book.hop_gone(node)
        for remembered in (self._entries, self._verify_at, self._connects):
            remembered.pop(origin, None)

    def _register(self, origin: bytes, parts: Mapping[bytes, bytes], turn: Turn) -> None:
        """Put what a router wants into the routing table, as far as it is proved."""
        made = self._entries.setdefault(origin, {})
        add: dict[TypeId, list[RouteEntry]] = {}
        remove: dict[TypeId, list[bytes]] = {}
        budget = self.authoriser.budget_of_message()
        for name, part in parts.items():
            if part.startswith(CONNECT_HEAD):
                continue
            before, made[name] = made.get(name), None
            try:
                found = self._entry_of_part(name, part, turn, budget)
            except MaiaError as problem:
                found = None
                turn.refused(problem, principal_from_bytes(origin), asked="Aggregate")
            if found is not None:
                add.setdefault(found[0], []).append(found[1])
                made[name] = (found[0], found[1].id)
            elif before is not None:
                remove.setdefault(before[0], []).append(before[1])
        node, book = node_id_of_key(origin), self.routes.book
        for key in dict.fromkeys([*add, *remove]):
            book.receive_interest(node, key, add.get(key, ()), remove.get(key, ()), turn.now)
        self._forget_dependencies()

    def _entry_of_part(
        self, name: bytes, data: bytes, turn: Turn, budget: Budget
    ) -> tuple[TypeId, RouteEntry] | None:
        """Return the entry of a part, narrowed to what its proof entitles to (A67); raise what is wrong."""
        part = part_from_bytes(data)
        if isinstance(part, ConnectPart):
            return None
        said = Wanted(name[:16], part.filter, part.proof, part.credentials, part.view)
        wanted, is_released = entry_of(part.key, said), bool(self.routes.borders)
        entry = self.received.understood(part.key, wanted, turn.now, budget, is_released=is_released)
        if isinstance(entry.baggage, Received):
            self.statements.dependencies.note(MESH_ACCOUNT, entry.baggage.watched)
        if entry.predicate is not wanted.predicate and not is_of_sealed(part.key):
            turn.count("maia_interests_narrowed_total")
        return part.key, entry

    def _withdraw(self, origin: bytes, names: Iterable[bytes], now: Instant) -> None:
        made, node = self._entries.get(origin, {}), node_id_of_key(origin)
        for name in names:
            known = made.pop(name, None)
            if known is not None and node in self._keys:
                self.routes.book.receive_interest(node, known[0], (), [known[1]], now)

    def _forget_dependencies(self) -> None:
        """Let go of certificates on which nothing rests any more, once there are many."""
        dependencies, book = self.statements.dependencies, self.routes.book
        if len(dependencies.certificates_on(MESH_ACCOUNT)) <= self._watched_max:
            return
        needed = {one for _, connect in self._connects.values() for one in connect.watched}
        for key in book.types():
            for node in self._keys:
                for entry in book.entries(node, key):
                    if isinstance(entry.baggage, Received):
                        needed |= entry.baggage.watched
        dependencies.keep_only(MESH_ACCOUNT, needed)
        self._watched_max = 4096 + 2 * len(needed)

    # ------------------------------------------------------------ frames

    def arriving(self, link: Link, message: Carried | Sealed | SealedWithPlaintext) -> None:
        """Note for which routers a frame is; without a word about that it is for this one alone."""
        named = self._next_frame.pop(link.id, None)
        if named is None:
            return
        frame = message.frame if isinstance(message, SealedWithPlaintext) else message
        signer = signer_of(frame)
        about = (frame.publisher, frame.stream, frame.sequence, signer)
        before = self._assigned.get(about) or _Assigned(frozenset(), 0)
        # What names no router that is known here goes nowhere from here, and is not remembered.
        routers = before.routers.union(map(_name, self._keys)) & before.routers.union(named.routers)
        self._assigned.put(about, _Assigned(routers, max(before.hops, named.hops)))

    def carries_again(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Return whether a neighbour named routers for a frame: another neighbour may have named others."""
        return (publisher, stream, sequence, signer) in self._assigned

    def targets(
        self,
        key: TypeId,
        transit: Transit,
        *,
        source: LinkId | None,
        missing: Collection[AttributeUid] = (),
        signer: bytes = b"",
    ) -> dict[LinkId, Sequence[int]]:
        """Return the rows for each neighbour on the way to routers that a frame is for and that want them."""
        self._prefixes.clear()
        routes, view, frame = self.routes, transit.view, transit.matched
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        if view is not None:
            wanted = routes.book.targets_in_class(key, view, came_from, frame)
        else:
            wanted = routes.book.targets_of_frame(key, came_from, frame, missing)
        besides = routes.borders if view is None and not is_of_sealed(key) else ()
        by_class = {(node, view): rows for node, rows in wanted.items()}
        found = self._towards(by_class, transit, source, signer, lambda link: link not in besides)
        return {link: rows for (link, _), rows in found.items()}

    def released(
        self, key: TypeId, transit: Transit, *, source: LinkId | None, signer: bytes = b""
    ) -> dict[bytes, dict[LinkId, Sequence[int]]]:
        """Return the rows for each neighbour behind a border on the way to routers that want them."""
        routes = self.routes
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        wanted = routes.book.targets_by_class(key, came_from, transit.matched)
        found: dict[bytes, dict[LinkId, Sequence[int]]] = {}
        for (link, view), rows in self._towards(
            {(node, view): rows for (node, view), rows in wanted.items()},
            transit,
            source,
            signer,
            lambda link: link in routes.borders,
        ).items():
            found.setdefault(view or b"", {})[link] = rows
        return found

    def _towards(
        self,
        wanted: Mapping[tuple[Hop, bytes | None], Sequence[int]],
        transit: Transit,
        source: LinkId | None,
        signer: bytes,
        may_take: Callable[[LinkId], bool],
    ) -> dict[tuple[LinkId, bytes | None], Sequence[int]]:
        """Return the rows for each class and neighbour that leads to routers, of those that may take them."""
        about = (transit.publisher.key, transit.stream, transit.sequence, signer)
        assigned = None if source is None else self._assigned.get(about) or _Assigned(frozenset(), 0)
        hops_left = _HOPS_MAX if assigned is None else assigned.hops - 1
        if hops_left < 0:
            return {}
        routes = self.routes
        came_from = LOCAL if source is None else routes.node_of.get(source, LOCAL)
        rows_for: dict[tuple[LinkId, bytes | None], set[int]] = {}
        routers_for: dict[tuple[LinkId, bytes | None], list[bytes]] = {}
        for (node, view), some in wanted.items():
            assert isinstance(node, int)  # noqa: S101 - a NodeId
            origin, name = self._keys[NodeId(node)], _name(node)
            if assigned is not None and name not in assigned.routers:
                continue
            hops = self._table.next_hops(origin, besides=came_from)
            links = [link for hop in hops if may_take(link := self._links[hop])]
            mark = signer if view == transit.view else signer + b"released" + (view or b"")
            rows = self._not_sent(origin, transit, some, mark) if links else ()
            for link in links if rows else ():
                rows_for.setdefault((link, view), set()).update(rows)
                routers_for.setdefault((link, view), []).append(name)
        for (link, view), names in routers_for.items():
            if names != [_name(routes.node_of[link])]:
                self._prefixes[link, view] = encode(FrameTargets(sorted(names), hops_left))
        return {key: sorted(rows) for key, rows in rows_for.items()}

    def _not_sent(self, origin: bytes, transit: Transit, rows: Sequence[int], signer: bytes) -> list[int]:
        """Return those of some rows that were not sent towards a router before, and remember them."""
        is_whole = not transit.kept and len(rows) == transit.frame.rows
        numbers = [transit.kept[row] for row in rows] if transit.kept else list(rows)
        asked = ALL_ROWS if is_whole else row_set(numbers)
        stream = transit.stream + signer
        new = self._sent.new_rows(transit.publisher.key, stream, transit.sequence, asked, origin)
        if new == asked:
            return list(rows)
        fresh = set(rows_in(new & (1 << numbers[-1] + 1) - 1, among=numbers))
        return [row for row, number in zip(rows, numbers, strict=True) if number in fresh]

    def sync_targets(self, keys: Sequence[TypeId], *, is_offer: bool) -> Iterable[LinkId]:
        """Return all neighbours; none for an offer, since a mesh has none."""
        del keys
        return () if is_offer else tuple(self._links.values())

    def sync_number(self) -> int | None:
        """Return the number of the own aggregate, once it has all that clients here want."""
        return self._table.own.number if self._version() == self._seen_version else None

    def has_received(self, origin: bytes, number: int) -> bool:
        """Return whether an aggregate of a router, or a later one, is at hand."""
        known = self._table.origins.get(origin)
        is_own = origin == self.own.principal.key
        return is_own or (known is not None and known.parts is not None and known.number >= number)

    def before_frame(self, link: LinkId, turn: Turn, view: bytes | None = None) -> None:
        """Name the routers that a frame is for, if it is not for the neighbour alone."""
        prefix = self._prefixes.get((link, view))
        if prefix is not None:
            turn.send_bytes(link, prefix)

    def expects(self, link: Link, key: TypeId, now: Instant, view: bytes | None = None) -> bool:
        """Expect every frame from every neighbour: it may connect, and ways change."""
        del key, now, view
        return self.routes.is_current(link.id)

    def let_ask(self, keys: Iterable[TypeId], link: LinkId, step: int, turn: Turn) -> None:
        """Do nothing: every router knows what the others want."""

    def towards_publishers(self, keys: Iterable[TypeId]) -> Iterator[LinkId]:
        """Return all neighbours: any of them may lead to a publisher."""
        del keys
        return iter(tuple(self._links.values()))

    def answer_rows(
        self, link: LinkId, key: TypeId, transit: Transit, *, came_from: Hop
    ) -> Mapping[bytes | None, Sequence[int]]:
        """Return the rows that a router wants, whichever: the question came this way on behalf of one."""
        book, frame = self.routes.book, transit.matched
        found: dict[bytes | None, set[int]] = {}
        if transit.view is None and link in self.routes.borders and not is_of_sealed(key):
            for (_, view), rows in book.targets_by_class(key, came_from, frame).items():
                found.setdefault(view, set()).update(rows)
        else:
            if transit.view is None:
                wanted = book.targets_of_frame(key, came_from, frame)
            else:
                wanted = book.targets_in_class(key, transit.view, came_from, frame)
            found[None] = {row for rows in wanted.values() for row in rows}
        return {view: sorted(rows) for view, rows in found.items()}

    def wants(self, link: LinkId, key: TypeId) -> bool:
        """Return whether a router wants anything of a type."""
        del link
        book = self.routes.book
        return any(hop != LOCAL and book.wanted(hop, key) for hop in book.hops(key))

    # ------------------------------------------------------------ operators

    def status(self) -> dict[str, object]:
        """Return the neighbours, and the way to each router with how much is wanted there."""
        routers = {
            node_id_text(node_id_of_key(origin)): {
                "principal": str(principal_from_bytes(origin)),
                "number": known.number,
                "via": [node_id_text(NodeId(hop)) for hop in known.routed if isinstance(hop, int)],
                "parts": len(known.parts or ()),
                "until": str(Instant(known.until)),
            }
            for origin, known in self._table.origins.items()
        }
        own = node_id_of_key(self.own.principal.key)
        neighbours = [node_id_text(NodeId(hop)) for hop in self._links if isinstance(hop, int)]
        missing = list(self._dialling.missing)
        return {
            "mesh": {
                "node": node_id_text(own), "neighbours": neighbours, "missing": missing, "routers": routers
            }
        }  # fmt: skip


def _name(node: object) -> bytes:
    assert isinstance(node, int)  # noqa: S101 - a NodeId
    return node_id_to_bytes(NodeId(node))[:_NAME_BYTES]


def _to_wire(head: Head) -> AggregateHead:
    return AggregateHead(
        head.origin, head.number, head.dated, head.parts, head.digest, head.signature or bytes(64)
    )
