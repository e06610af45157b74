"""If the rendezvous node of a type were gone now, who would know what it knew?

Two questions, asked by two brokers. The rendezvous node asks `ReplicaSender`
what its closest leaves receive, so that they could follow it. A broker
that has become the rendezvous node asks `ReplicaStore` which neighbours the
former one had, and what they wanted. It dials them, and gives the replica to
`RoutingTable.adopt` once a link is up. The book uses it until the neighbour
has sent everything itself, or the lease has ended.

A replica says what others want, so it is worth less than what they say
themselves: it never replaces that, it is kept per sender, and it ends unless
the sender repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.errors import ProtocolViolation
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL, Hop, RouteEntry, TypeId
from maia.routing.table.neighbours import Leases
from maia.routing.table.routing_table import RoutingTable

ENTRIES_PER_REPLICA_MAX: Final = 1024
"""A neighbour that wants more than this is said to want everything, until it can be asked."""

REPLICAS_PER_SENDER_MAX: Final = 100_000

_REPLICA_BYTES: Final = 512
"""What a replica takes beside its entries."""

_ANYTHING: Final = RouteEntry(bytes(16), ALWAYS)


class TooManyReplicas(ProtocolViolation):
    """A neighbour sent more replicas than one may."""

    code = "PROTOCOL-TOO-MANY-REPLICAS"


@dataclass(frozen=True, slots=True)
class Replica:
    """What one neighbour of the rendezvous node wants and offers of one type; empty if nothing any more."""

    type_id: TypeId
    holder: Hop
    entries: tuple[RouteEntry, ...]
    offers: bool

    @property
    def size(self) -> int:
        """Return about how many bytes it takes to keep."""
        return _REPLICA_BYTES + sum(entry.size for entry in self.entries)

    @property
    def is_empty(self) -> bool:
        """Say whether the neighbour neither wants nor offers anything."""
        return not self.entries and not self.offers


@dataclass(frozen=True, slots=True)
class ReplicaUpdate:
    """Give a replica to a leaf."""

    hop: Hop
    replica: Replica


_Place: TypeAlias = tuple[TypeId, Hop]
"""A type, and the neighbour that holds the entries."""


class ReplicaSender:
    """What each leaf was given of the types whose rendezvous node this broker is."""

    __slots__ = ("_book", "_given", "_given_at", "_repeat_us", "is_idle")

    def __init__(self, book: RoutingTable, *, repeat_us: int) -> None:
        """Watch over a book; everything is repeated every `repeat_us`, which is less than the lease."""
        self.is_idle = True
        """Whether there was nothing to give when this was last asked, nor anything to withdraw."""
        self._book = book
        self._repeat_us = repeat_us
        self._given: dict[Hop, dict[_Place, int]] = {}
        self._given_at: dict[Hop, Instant] = {}

    def due(self, leaves: Collection[Hop], now: Instant) -> list[ReplicaUpdate]:
        """Return what the given leaves must be sent; leaves that are not given any more are forgotten."""
        self._given = {leaf: given for leaf, given in self._given.items() if leaf in leaves}
        self._given_at = {leaf: at for leaf, at in self._given_at.items() if leaf in leaves}
        current = self._versions()
        self.is_idle = not current and not any(self._given.values())
        return [update for leaf in leaves for update in self._for_leaf(leaf, current, now)]

    def _for_leaf(self, leaf: Hop, current: dict[_Place, int], now: Instant) -> list[ReplicaUpdate]:
        # A leaf needs no replica of what it holds itself.
        current = {place: version for place, version in current.items() if place[1] != leaf}
        given, since = self._given.get(leaf, {}), self._given_at.setdefault(leaf, now)
        withdrawn = [Replica(*place, (), False) for place in given if place not in current]
        if not since <= now < since + self._repeat_us:
            given, self._given_at[leaf] = {}, now
        changed = [self._replica(*place) for place, version in current.items() if given.get(place) != version]
        self._given[leaf] = current
        return [ReplicaUpdate(leaf, replica) for replica in (*withdrawn, *changed)]

    def _versions(self) -> dict[_Place, int]:
        book = self._book
        rooted = [type_id for type_id in book.types() if book.parent(type_id) is None]
        places = [(type_id, hop) for type_id in rooted for hop in book.hops(type_id) if hop != LOCAL]
        return {(type_id, hop): book.version(hop, type_id) for type_id, hop in places}

    def _replica(self, type_id: TypeId, hop: Hop) -> Replica:
        entries = self._book.wanted(hop, type_id)
        if len(entries) > ENTRIES_PER_REPLICA_MAX:
            entries = (_ANYTHING,)
        return Replica(type_id, hop, entries, self._book.offers(hop, type_id))


class ReplicaStore:
    """What this broker was given of types whose rendezvous node is another."""

    __slots__ = ("_by_type", "_bytes", "_lease_us", "_leases", "_per_sender", "_per_sender_max")

    def __init__(self, *, lease_us: int, per_sender_max: int = REPLICAS_PER_SENDER_MAX) -> None:
        """Begin without replicas; each lasts for a lease unless its sender repeats it."""
        self._lease_us = lease_us
        self._per_sender_max = per_sender_max
        self._by_type: dict[TypeId, dict[tuple[Hop, Hop], Replica]] = {}
        self._leases: Leases[tuple[TypeId, Hop, Hop]] = Leases()
        self._per_sender: dict[Hop, int] = {}
        self._bytes: dict[Hop, int] = {}

    def __len__(self) -> int:
        """Return the number of replicas."""
        return len(self._leases)

    def bytes_from(self, sender: Hop) -> int:
        """Return about how much memory the replicas of a sender take."""
        return self._bytes.get(sender, 0)

    def heard(self, sender: Hop, replica: Replica, now: Instant) -> None:
        """Keep a replica in place of the same sender's last one; an empty one removes it."""
        key = (replica.type_id, sender, replica.holder)
        if replica.is_empty:
            self._drop(key)
            return
        if key in self._leases:
            self._bytes[sender] -= self._by_type[replica.type_id][(sender, replica.holder)].size
        else:
            self._make_room(sender)
        self._bytes[sender] = self._bytes.get(sender, 0) + replica.size
        self._by_type.setdefault(replica.type_id, {})[(sender, replica.holder)] = replica
        self._leases.grant(key, Instant(now + self._lease_us))

    def expire(self, now: Instant) -> None:
        """Forget the replicas that were not repeated within the lease."""
        for key in self._leases.expired(now):
            self._drop(key, is_leased=False)

    def forgive(self, until: Instant) -> None:
        """Forget nothing before `until`: this broker slept, and missed repetitions."""
        self._leases.forgive(until)

    def next_due(self) -> Instant | None:
        """Return the earliest moment at which `expire` has something to do."""
        end = self._leases.next_end()
        return None if end is None else Instant(end + 1)

    def promoted(self, gone: Hop, is_root_of: Callable[[TypeId], bool]) -> list[Replica]:
        """Take out what a broker that is gone had sent of the types that this broker is now to lead.

        The holders are the neighbours to dial; each replica goes to the book
        when the link to its holder is up.
        """
        places = [
            (type_id, sender, holder)
            for type_id, found in self._by_type.items()
            for sender, holder in found
            if sender == gone and is_root_of(type_id)
        ]
        promoted = [self._by_type[type_id][(sender, holder)] for type_id, sender, holder in places]
        for place in places:
            self._drop(place)
        return promoted

    def types(self) -> tuple[TypeId, ...]:
        """Return the types of which there are replicas."""
        return tuple(self._by_type)

    def _make_room(self, sender: Hop) -> None:
        count = self._per_sender.get(sender, 0)
        if count >= self._per_sender_max:
            raise TooManyReplicas(f"a neighbour sent more than {self._per_sender_max} replicas")
        self._per_sender[sender] = count + 1

    def _drop(self, key: tuple[TypeId, Hop, Hop], *, is_leased: bool = True) -> None:
        if is_leased and key not in self._leases:
            return
        type_id, sender, holder = key
        self._leases.drop(key)
        self._bytes[sender] -= self._by_type[type_id].pop((sender, holder)).size
        if not self._by_type[type_id]:
            del self._by_type[type_id]
        self._per_sender[sender] -= 1
        if not self._per_sender[sender]:
            del self._per_sender[sender], self._bytes[sender]
