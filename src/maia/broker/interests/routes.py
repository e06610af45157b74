"""What does a broker know of the way to other brokers and their interests?

The overlay says who is next on the way to a type's rendezvous, the book who
wants and offers what behind which neighbour, the memory what has been here.
All three come from `maia.routing`, which knows nothing of links, messages or
rights; this file holds them together and names a neighbour by its place on
the ring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from maia.bounded_map import BoundedMap
from maia.broker.links.transit import StreamOrder
from maia.broker.settings import BrokerLimits, BrokerSettings
from maia.credentials import Principal
from maia.events import Instant
from maia.routing.aggregation.aggregate import READ_MAX
from maia.routing.aggregation.announced import Announcements
from maia.routing.aggregation.budget import Budget
from maia.routing.aggregation.spill import SpillAccounts
from maia.routing.duplicates import DuplicateMemory, MemoryLimits
from maia.routing.overlay.membership import Contact, OverlayMembership
from maia.routing.overlay.table import NodeId, Overlay, node_id_of_type
from maia.routing.table.hops import TypeId, book_key_of_sealed
from maia.routing.table.interests import Tally
from maia.routing.table.replicas import Replica, ReplicaSender, ReplicaStore
from maia.routing.table.routing_table import BookLimits, RoutingTable
from maia.wire.effects import LinkId

_CONTACTS_MAX: Final = 4096
REFUSED_ON_MAX: Final = 65_536
REPLICAS: Final = 2
"""To how many others a rendezvous gives its book: those that would follow it."""
_TYPES_REMEMBERED: Final = 4096
_SOURCES_REMEMBERED: Final = 65_536
_REPLICATE_AFTER_US: Final = 500_000
"""Replicas follow a change after this time, so that many changes are one replica."""


@dataclass(slots=True)
class Neighbour:
    """A broker at the other end of a ready link."""

    node: NodeId
    link: LinkId
    changed: dict[tuple[bytes, bytes], tuple[int, int | None]] = field(default_factory=dict)
    """Its entries that were narrowed or refused here: by type and id, the marks before and after."""
    difference: Tally = field(default_factory=Tally)
    """By how much its count and digest of its entries exceed those of the routing table."""
    doubtful: dict[tuple[bytes, bytes], None] = field(default_factory=dict)
    """Its entries whose proof does not hold any more, by type and id: it may have another one."""
    doubt_ends: Instant | None = None
    """Up to when it is given time to show that."""
    refused_on: set[bytes] = field(default_factory=set)
    """Certificates in proofs that were refused: if one of them counts again, all is to be sent again."""
    refused_bytes: int = 0
    """How many bytes these certificates have."""
    parting: dict[tuple[bytes, bytes], Instant] = field(default_factory=dict)
    """Up to when frames are expected of types for which it is not asked any more, or of one class of these
    (`expected_sources.py`)."""
    unasked_noted_at: Instant | None = None

    def remember_change(self, type_id: bytes, entry_id: bytes, *, before: int, after: int | None) -> None:
        """Take note that an entry was narrowed here, or refused."""
        self.changed[type_id, entry_id] = (before, after)
        self.difference.add(before)
        if after is not None:
            self.difference.subtract(after)

    def remember_refusal(self, certificates: Mapping[bytes, int]) -> None:
        """Take note of certificates that were no proof, and of how many bytes each of them has."""
        if len(self.refused_on) < REFUSED_ON_MAX:
            self.refused_bytes += sum(
                size for one, size in certificates.items() if one not in self.refused_on
            )
            self.refused_on.update(certificates)

    def forget_change(self, type_id: bytes, entry_id: bytes) -> None:
        """Forget what became of an entry here: it is sent anew, or taken back."""
        change = self.changed.pop((type_id, entry_id), None)
        if change is not None:
            before, after = change
            self.difference.subtract(before)
            if after is not None:
                self.difference.add(after)


@dataclass(slots=True)
class TypeAggregate:
    """What is announced of the local subscribers' filters of one type, and within which budget."""

    announcements: Announcements = field(default_factory=Announcements)
    budget: Budget | None = None
    """None as long as nothing had to be merged."""
    size: int = 0
    """How many bytes were announced at the end of the last period."""
    proof_bytes: int = 0
    """What one proof has, on average."""
    sent_bytes: int = 0
    """Announcements that were sent in this period."""
    is_moved: bool = False
    """What is announced next is because of another budget, and does not count as a cost of that one."""
    tuned_at: int = 0
    """When the period began."""
    merged_from: int = READ_MAX
    """Once so many filters are announced, they are merged without waiting for the end of a period."""


@dataclass(slots=True)
class Routes:
    """The overlay, the book and the memory of one broker."""

    membership: OverlayMembership
    book: RoutingTable
    seen: DuplicateMemory
    order: StreamOrder
    replicas: ReplicaSender
    store: ReplicaStore
    spill: SpillAccounts[LinkId]
    aggregates: dict[bytes, TypeAggregate] = field(default_factory=dict)
    """By type; of sealed types nothing is merged."""
    to_announce: list[tuple[bytes, bytes]] | None = None
    """Types and classes that are still to be announced, the next one last; None until the first neighbour."""
    ended: dict[tuple[bytes, bytes], bool] = field(default_factory=dict)
    """Types and classes that subscriptions left, of which others are to know: True if no member is left,
    False if another one has to prove now what is wanted."""
    offered: dict[tuple[LinkId, int, bytes], dict[TypeId, int]] = field(default_factory=dict)
    """By link, reference and type of an advertisement: its names in the book, and their epochs."""
    to_adopt: dict[NodeId, list[Replica]] = field(default_factory=dict)
    """Replicas that wait for a link to their holder."""
    to_adopt_bytes: int = 0
    contacts: BoundedMap[NodeId, Contact] = field(default_factory=lambda: BoundedMap(_CONTACTS_MAX))
    """Where the holders in replicas were said to listen; the oldest go first."""
    neighbours: dict[NodeId, Neighbour] = field(default_factory=dict)
    node_of: dict[LinkId, NodeId] = field(default_factory=dict)
    foreign: set[LinkId] = field(default_factory=set)
    """The links to brokers of other domains."""
    borders: set[LinkId] = field(default_factory=set)
    """Those of them to which views are released, and not events."""
    replicate_at: Instant | None = None
    sealed_at: Instant | None = None
    """When something is to be sealed or opened anew."""
    stale_at: Instant | None = None
    """When the first of the neighbours' entries has too old a proof, unless it has another one by then."""
    is_changed: bool = False
    """Anything may be due at another moment than when the next upkeep was scheduled."""
    is_sooner: bool = False
    """Replicas or what is sealed anew are due sooner than that."""
    is_sent: bool = False
    """A neighbour was sent something, which has to be renewed in time."""
    published: BoundedMap[bytes, None] = field(default_factory=lambda: BoundedMap(_TYPES_REMEMBERED))
    """Types that were advertised here."""
    sources: BoundedMap[tuple[TypeId, NodeId], None] = field(
        default_factory=lambda: BoundedMap(_SOURCES_REMEMBERED)
    )
    """Which brokers have offered a type: their logs are asked when no publisher is left there."""

    @property
    def overlay(self) -> Overlay:
        """Return who is next on the way to a point of the ring."""
        return self.membership.overlay

    def is_current(self, link: LinkId) -> bool:
        """Return whether a link is the one through which its broker is a neighbour."""
        return link in self.node_of

    def wait_for(self, node: NodeId, replica: Replica, *, bytes_max: int) -> None:
        """Keep a replica until there is a link to its holder; of too much, the oldest goes first (A89)."""
        self.to_adopt.setdefault(node, []).append(replica)
        self.to_adopt_bytes += replica.size
        while self.to_adopt_bytes > bytes_max:
            self.take_waiting(next(iter(self.to_adopt)))

    def take_waiting(self, node: NodeId) -> list[Replica]:
        """Return the replicas that waited for a link to a broker, which wait no more."""
        found = self.to_adopt.pop(node, [])
        self.to_adopt_bytes -= sum(replica.size for replica in found)
        return found

    def mark_changed(self, now: Instant) -> None:
        """Take note that the book or the overlay changed, and that the replicas have to follow soon."""
        soon = Instant(now + _REPLICATE_AFTER_US)
        if self.replicate_at is None or self.replicate_at > soon:
            self.replicate_at, self.is_sooner = soon, True

    def look_for_stale(self, at: Instant) -> None:
        """Have proofs looked at that are too old after this moment, or one before it."""
        self.stale_at = at if self.stale_at is None else min(at, self.stale_at)

    def schedule_rekeying(self, at: Instant) -> None:
        """Have what is pending sealed and opened anew at this moment or before."""
        if self.sealed_at is None or self.sealed_at > at:
            self.sealed_at, self.is_sooner = at, True

    def next_look(self, now: Instant) -> Instant | None:
        """Return when routing has something to do by itself."""
        wake = self.membership.wake_at(now)
        moments = (
            self.book.next_due(),
            self.store.next_due(),
            None if wake is None else Instant(wake),
            self.replicate_at,
            self.sealed_at,
            self.stale_at,
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def former_sources(self, keys: Collection[TypeId]) -> list[LinkId]:
        """Return the links to the neighbours that have offered a type, now or before."""
        found = self.neighbours.items()
        return [one.link for node, one in found if any((key, node) in self.sources for key in keys)]

    def neighbour_on(self, link: LinkId) -> Neighbour:
        """Return the neighbour at the other end of a link."""
        return self.neighbours[self.node_of[link]]

    def link_to(self, node: object) -> LinkId | None:
        """Return the link to a neighbour, as the book names it."""
        known = self.neighbours.get(node) if isinstance(node, int) else None  # type: ignore[call-overload]  # NodeId is an int
        return None if known is None else known.link


def new_routes(principal: Principal, settings: BrokerSettings) -> Routes:
    """Return the routes of a broker that knows no other."""
    membership = OverlayMembership(Contact.of(principal.key, settings.address), seeds=settings.seeds)
    limits, lease_us = settings.limits, settings.lease_s * 1_000_000
    book = RoutingTable(
        parent_of=lambda type_id: membership.overlay.next_hop(node_id_of_type(type_id)),
        limits=BookLimits(
            lease_us=lease_us,
            entries_per_neighbour=limits.interests_per_peer,
        ),
    )
    seen = DuplicateMemory(memory_limits(limits))
    return Routes(
        membership=membership,
        book=book,
        seen=seen,
        order=StreamOrder(limits.streams),
        replicas=ReplicaSender(book, repeat_us=lease_us // 3),
        store=ReplicaStore(lease_us=lease_us, per_sender_max=limits.interests_per_peer),
        spill=SpillAccounts(pace_us=lease_us // 4),
    )


def memory_limits(limits: BrokerLimits) -> MemoryLimits:
    """Return how much of the publications that were here is remembered."""
    return MemoryLimits(streams_max=limits.streams, numbers_per_stream_max=limits.numbers_per_stream)


def book_keys(type_id: bytes) -> tuple[TypeId, TypeId]:
    """Return both names under which the routing book may know a type.

    Whoever only carries a type has not seen its definition, and cannot say whether it is sealed.
    """
    return type_id, book_key_of_sealed(type_id)
