"""If the rendezvous node of a type were gone now, who would know what it knew?

Two questions, asked by two brokers. The rendezvous node asks `ReplicaSender`
what its closest leaves receive, so that they could follow it. A broker
that has become the rendezvous node asks `ReplicaStore` which neighbours the
former one had, and what they wanted. It dials them, and gives the replica to
`RoutingTable.adopt` once a link is up. The table uses it until the neighbour
has sent everything itself, or the lease has ended.

A replica says what others want, so it is worth less than what they say
themselves: it never replaces that, it is kept per sender, and it ends unless
the sender repeats it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.errors import ProtocolViolation
from maia.events import Instant
from maia.predicates import ALWAYS
from maia.routing.table.hops import LOCAL, Hop, RouteEntry, TypeId
from maia.routing.table.neighbours import Leases, is_within
from maia.routing.table.routing_table import RoutingTable

ENTRIES_PER_REPLICA_MAX: Final = 1024
"""A neighbour that wants more than this is said to want everything, until it can be asked."""

REPLICAS_PER_SENDER_MAX: Final = 100_000

_REPLICA_BYTES: Final = 512
"""What a replica takes beside its entries."""

_ANYTHING: Final = RouteEntry(bytes(16), ALWAYS)


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
        """Return whether the neighbour neither wants nor offers anything."""
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

    def __init__(self, table: RoutingTable, *, repeat_us: int) -> None:
        """Watch over a table; everything is repeated every `repeat_us`, which is less than the lease."""
        self.is_idle = True
        """Whether there was nothing to give when this was last asked, nor anything to withdraw."""
        self._table = table
        self._repeat_us = repeat_us
        self._given: dict[Hop, tuple[Instant, dict[_Place, int]]] = {}
        """By leaf: since when, and the version of each place."""

    def due(self, leaves: Collection[Hop], now: Instant) -> list[ReplicaUpdate]:
        """Return what the given leaves must be sent; leaves that are not given any more are forgotten."""
        table = self._table
        rooted = [type_id for type_id in table.types() if table.parent(type_id) is None]
        places = [(type_id, hop) for type_id in rooted for hop in table.hops(type_id) if hop != LOCAL]
        versions = {(type_id, hop): table.version(hop, type_id) for type_id, hop in places}
        self._given = {leaf: self._given.get(leaf, (now, {})) for leaf in leaves}
        self.is_idle = not versions and not any(given for _, given in self._given.values())
        updates: list[ReplicaUpdate] = []
        for leaf, (since, given) in self._given.items():
            # A leaf needs no replica of what it holds itself.
            current = {place: version for place, version in versions.items() if place[1] != leaf}
            is_all_due = not is_within(since, now, self._repeat_us)
            found = [Replica(*place, (), False) for place in given if place not in current]
            changed = [place for place, one in current.items() if is_all_due or given.get(place) != one]
            found += [self._replica(*place) for place in changed]
            self._given[leaf] = (now if is_all_due else since, current)
            updates += [ReplicaUpdate(leaf, replica) for replica in found]
        return updates

    def _replica(self, type_id: TypeId, hop: Hop) -> Replica:
        entries = self._table.wanted(hop, type_id)
        if len(entries) > ENTRIES_PER_REPLICA_MAX:
            entries = (_ANYTHING,)
        return Replica(type_id, hop, entries, self._table.offers(hop, type_id))


class ReplicaStore:
    """What this broker was given of types whose rendezvous node is another."""

    def __init__(self, *, lease_us: int, per_sender_max: int = REPLICAS_PER_SENDER_MAX) -> None:
        """Begin without replicas; each lasts for a lease unless its sender repeats it."""
        self._lease_us = lease_us
        self._per_sender_max = per_sender_max
        self._kept: dict[tuple[Hop, TypeId, Hop], Replica] = {}
        """By sender, type and holder."""
        self._leases: Leases[tuple[Hop, TypeId, Hop]] = Leases()
        self._count: Counter[Hop] = Counter()
        self._bytes: Counter[Hop] = Counter()

    def __len__(self) -> int:
        """Return the number of replicas."""
        return len(self._kept)

    def bytes_from(self, sender: Hop) -> int:
        """Return about how much memory the replicas of a sender take."""
        return self._bytes[sender]

    def heard(self, sender: Hop, replica: Replica, now: Instant) -> None:
        """Keep a replica in place of the same sender's last one; an empty one removes it."""
        key = (sender, replica.type_id, replica.holder)
        self._drop(key)
        if replica.is_empty:
            return
        if self._count[sender] >= self._per_sender_max:
            raise ProtocolViolation(
                "PROTOCOL-TOO-MANY-REPLICAS", f"a neighbour sent more than {self._per_sender_max} replicas"
            )
        self._count[sender] += 1
        self._bytes[sender] += replica.size
        self._kept[key] = replica
        self._leases.grant(key, Instant(now + self._lease_us))

    def expire(self, now: Instant) -> None:
        """Forget the replicas that were not repeated within the lease."""
        for key in self._leases.expired(now):
            self._drop(key)

    def forgive(self, until: Instant) -> None:
        """Forget nothing before `until`: this broker slept, and missed repetitions."""
        self._leases.forgive(until)

    def next_due(self) -> Instant | None:
        """Return the earliest moment at which `expire` has something to do."""
        end = self._leases.next_end()
        return None if end is None else Instant(end + 1)

    def promoted(self, gone: Hop, is_root_of: Callable[[TypeId], bool]) -> list[Replica]:
        """Take out what a broker that is gone had sent of the types that this broker is now to lead.

        The holders are the neighbours to dial; each replica goes to the table
        when the link to its holder is up.
        """
        keys = [key for key in self._kept if key[0] == gone and is_root_of(key[1])]
        return [replica for key in keys if (replica := self._drop(key)) is not None]

    def _drop(self, key: tuple[Hop, TypeId, Hop]) -> Replica | None:
        replica, sender = self._kept.pop(key, None), key[0]
        self._leases.drop(key)
        if replica is not None:
            self._count[sender] -= 1
            self._bytes[sender] -= replica.size
            if not self._count[sender]:
                del self._count[sender], self._bytes[sender]
        return replica
