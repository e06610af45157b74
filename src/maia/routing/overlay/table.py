"""Which broker is the next one on the way to a point of the ring?

The broker asks for every type it handles; the rendezvous tree of a type is
made of the answers. A node keeps two things. Its *leaf set* holds its nearest
neighbours on both sides of the ring. Its *table* holds one node for each
prefix around it, as in Pastry (dissertation, section 2.3): wide prefixes far
away, narrow ones nearby. The next hop is the kept node closest to the target.

Promises. Every hop is strictly closer to its target than the node before it,
however incomplete or outdated the tables are, so a route never loops. When
the leaf sets are right, it ends at the closest node of all. When the tables
are filled as well, it takes about log16(n) hops. Only nodes whose key and
right to connect were verified on a link may be learned here; what others say
waits in `overlay/membership.py`.

Which brokers do we know from others only, and which of them do we try next?

A broker may name brokers that do not exist, or point a thousand names at one
victim's address. So hearsay stays here until a handshake has confirmed it, and
everything about it is bounded: how many names one teller has waiting, how many
there are in all, how many connections are tried at once, and how often an
address that failed is tried again. Tellers whose names turned out false come
last, so the names that honest brokers gave are tried before theirs.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, NewType, TypeAlias

from maia.back_off import doubled
from maia.bounded_map import BoundedMap
from maia.events import SECOND

# Where on the ring is a broker, and how far is it from there to a type?


NodeId = NewType("NodeId", int)
"""A point of the ring, from 0 up to 2^128 exclusive."""

NODE_BITS: Final = 128
DIGIT_BITS: Final = 4
DIGITS: Final = NODE_BITS // DIGIT_BITS
RING: Final = 1 << NODE_BITS
_BYTES: Final = NODE_BITS // 8
_HALF: Final = RING >> 1
_KEYS_REMEMBERED: Final = 1 << 14
"""Brokers name each other again and again, and always the same few."""


@lru_cache(maxsize=_KEYS_REMEMBERED)
def node_id_of_key(key: bytes) -> NodeId:
    """Return the place of the broker with this public key."""
    return node_id_from_bytes(sha256(b"maia/1/node-id\x00" + key).digest()[:_BYTES])


def node_id_of_type(type_id: bytes) -> NodeId:
    """Return the point whose closest broker is the rendezvous node of a type."""
    return node_id_from_bytes(type_id[:_BYTES])


def node_id_from_bytes(data: bytes) -> NodeId:
    """Return the point that 16 bytes write, the most significant first."""
    if len(data) != _BYTES:
        raise ValueError(f"a point of the ring has {_BYTES} bytes")
    return NodeId(int.from_bytes(data, "big"))


def node_id_to_bytes(node: NodeId) -> bytes:
    """Return the 16 bytes that write this point."""
    return node.to_bytes(_BYTES, "big")


def node_id_text(node: NodeId) -> str:
    """Return the 32 digits of this point, for people and logs."""
    return f"{node:0{DIGITS}x}"


def distance(one: NodeId, other: NodeId) -> int:
    """Return how many steps along the ring lie between two points, the short way round."""
    around = (one - other) % RING
    return around if around <= _HALF else RING - around


def closeness(node: NodeId, target: NodeId) -> tuple[int, NodeId]:
    """Return what to sort nodes by, closest to `target` first; equal only for the same node."""
    return distance(node, target), node


def is_closer(node: NodeId, *, than: NodeId, target: NodeId) -> bool:
    """Say whether `node` is strictly closer to `target` than the node `than`."""
    return closeness(node, target) < closeness(than, target)


def digit(node: NodeId, position: int) -> int:
    """Return one hexadecimal digit; position 0 is the most significant."""
    return (node >> (NODE_BITS - DIGIT_BITS * (position + 1))) & 0xF


LEAF_SIZE: Final = 16

Slot: TypeAlias = tuple[int, int]
"""How many low digits are free, and the digits before them: a prefix, and the stretch of ring under it."""


def slot_of(node: NodeId, *, own: NodeId) -> Slot:
    """Return the prefix around `own` that `node` would represent.

    The distance decides how narrow the prefix is. Pastry lets the first
    differing digit decide, which puts the two sides of a digit boundary far
    apart although they are neighbours: its next hop must then sometimes move
    away from the target, and may be sent back. See docs/decisions/overlay.md.
    """
    level = (distance(node, own).bit_length() - 1) // DIGIT_BITS
    return level, node >> (DIGIT_BITS * level)


class Overlay:
    """What one node keeps of the others: a leaf set and a table, both bounded."""

    __slots__ = ("_addresses", "_changes", "_leaf_set", "_leaf_size", "_own", "_ring", "_table")

    def __init__(self, own: NodeId, leaf_size: int = LEAF_SIZE) -> None:
        if leaf_size < 2 or leaf_size % 2:
            raise ValueError("a leaf set has as many places on either side, and at least one")
        self._own = own
        self._leaf_size = leaf_size
        # INVARIANT: _ring is sorted and holds own; the other ids in it are the keys of _addresses; each of
        # them is in the leaf set, or is the holder of its slot in _table, or both.
        self._ring: list[NodeId] = [own]
        self._addresses: dict[NodeId, str] = {}
        self._table: dict[Slot, NodeId] = {}
        self._changes = 0
        self._leaf_set: frozenset[NodeId] | None = None  # None: not computed since the last change

    # ------------------------------------------------------------ membership

    def learn(self, node: NodeId, address: str) -> bool:
        """Take in a node that proved its key; say whether it is kept.

        A node that holds a place of the table keeps it until it is forgotten, so newcomers cannot push
        out those that have served. A leaf gives way to a closer one.
        """
        if node == self._own:
            return False
        if node in self._addresses:
            self._addresses[node] = address
            return True
        self._changes += 1
        self._insert(node, address)
        self._table.setdefault(slot_of(node, own=self._own), node)
        if not self._is_leaf(node):
            self._drop_unless_holder(node)
        for outsider in self._beyond_the_leaves():
            self._drop_unless_holder(outsider)
        return node in self._addresses

    def forget(self, node: NodeId) -> bool:
        """Remove a node that left or is not answering; say whether it was kept."""
        if node not in self._addresses:
            return False
        self._changes += 1
        self._remove(node)
        slot = slot_of(node, own=self._own)
        if self._table.get(slot) == node:
            del self._table[slot]
            self._promote_a_leaf_to(slot)
        return True

    def would_keep(self, node: NodeId) -> bool:
        """Say whether `learn` would keep this node, which is not kept yet."""
        if node == self._own or node in self._addresses:
            return False
        if slot_of(node, own=self._own) not in self._table:
            return True
        return self._would_be_leaf(node)

    def _would_be_leaf(self, node: NodeId) -> bool:
        place, own_place = bisect_left(self._ring, node), bisect_left(self._ring, self._own)
        steps = abs(place - (own_place + (place <= own_place)))
        return min(steps, len(self._ring) + 1 - steps) <= self._leaf_size // 2

    def _promote_a_leaf_to(self, slot: Slot) -> None:
        for leaf in sorted(self.leaf_set):
            if slot_of(leaf, own=self._own) == slot:
                self._table[slot] = leaf
                return

    def _beyond_the_leaves(self) -> tuple[NodeId, ...]:
        """Return the nodes just outside the leaf set; one of them may have been pushed out."""
        if len(self._addresses) <= self._leaf_size:
            return ()
        place, count, step = bisect_left(self._ring, self._own), len(self._ring), self._leaf_size // 2 + 1
        return self._ring[(place + step) % count], self._ring[(place - step) % count]

    def _is_leaf(self, node: NodeId) -> bool:
        steps = abs(bisect_left(self._ring, node) - bisect_left(self._ring, self._own))
        return min(steps, len(self._ring) - steps) <= self._leaf_size // 2

    def _drop_unless_holder(self, node: NodeId) -> None:
        if node in self._addresses and self._table.get(slot_of(node, own=self._own)) != node:
            self._remove(node)

    def _insert(self, node: NodeId, address: str) -> None:
        self._leaf_set = None
        insort(self._ring, node)
        self._addresses[node] = address

    def _remove(self, node: NodeId) -> None:
        self._leaf_set = None
        del self._ring[bisect_left(self._ring, node)]
        del self._addresses[node]

    # ------------------------------------------------------------ questions

    @property
    def own(self) -> NodeId:
        """Return the id of this node."""
        return self._own

    @property
    def leaf_size(self) -> int:
        """Return how many nodes the leaf set wants, half of them on either side."""
        return self._leaf_size

    @property
    def changes(self) -> int:
        """Return a number that grows whenever an answer may differ from before."""
        return self._changes

    def __len__(self) -> int:
        """Return how many other nodes are kept."""
        return len(self._addresses)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._addresses

    def address(self, node: NodeId) -> str:
        """Return where a kept node listens; KeyError if it is not kept."""
        return self._addresses[node]

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return all kept nodes, in ring order."""
        return tuple(node for node in self._ring if node != self._own)

    @property
    def table(self) -> dict[Slot, NodeId]:
        """Return a copy of the table: which node represents which prefix."""
        return dict(self._table)

    @property
    def leaf_set(self) -> frozenset[NodeId]:
        """Return the nearest kept nodes: up to half of `leaf_size` on either side."""
        if self._leaf_set is None:
            self._leaf_set = frozenset(self.successors() + self.predecessors())
        return self._leaf_set

    def successors(self) -> tuple[NodeId, ...]:
        """Return the leaves that follow this node on the ring, nearest first."""
        return self._leaves(step=1)

    def predecessors(self) -> tuple[NodeId, ...]:
        """Return the leaves that precede this node on the ring, nearest first."""
        return self._leaves(step=-1)

    def _leaves(self, *, step: int) -> tuple[NodeId, ...]:
        place = bisect_left(self._ring, self._own)
        count = len(self._ring)
        reach = min(self._leaf_size // 2, count - 1)
        return tuple(self._ring[(place + step * i) % count] for i in range(1, reach + 1))

    def next_hop(self, target: NodeId) -> NodeId | None:
        """Return the kept node closest to `target`, or None when that is this node itself."""
        # The closest node of a sorted ring is just before the target or just after it.
        place = bisect_left(self._ring, target)
        before, after = self._ring[place - 1], self._ring[place % len(self._ring)]
        best = before if is_closer(before, than=after, target=target) else after
        return None if best == self._own else best

    def closest(self, target: NodeId, count: int) -> tuple[NodeId, ...]:
        """Return up to `count` nodes closest to `target`, this one among them, closest first."""
        if count <= 0:
            return ()
        place, known = bisect_left(self._ring, target), len(self._ring)
        if 2 * count >= known:
            nearby: Iterable[NodeId] = self._ring
        else:
            nearby = [self._ring[(place + i) % known] for i in range(-count, count)]
        # `closeness`, written out: every refresh of every broker asks this.
        measured = [(min((node - target) % RING, (target - node) % RING), node) for node in nearby]
        return tuple([node for _, node in sorted(measured)[:count]])

    def replicas(self, target: NodeId, count: int) -> tuple[NodeId, ...]:
        """Return the other nodes that would follow this one as the closest to `target`, in turn."""
        others = [node for node in self.closest(target, count + 1) if node != self._own]
        return tuple(others[:count])

    def neighbours(self, targets: Iterable[NodeId] = ()) -> frozenset[NodeId]:
        """Return the nodes to keep links with: the leaf set, and the next hops to `targets`."""
        hops = {hop for target in targets if (hop := self.next_hop(target)) is not None}
        return self.leaf_set | hops

    def covers(self, target: NodeId) -> bool:
        """Say whether `target` lies within the leaf set, so that the next hop is the last one."""
        if len(self._addresses) < self._leaf_size:
            return True
        first, last = self.predecessors()[-1], self.successors()[-1]
        return (target - first) % RING <= (last - first) % RING


_CONTACTS_REMEMBERED: Final = 1 << 12
"""Brokers name the same few others to each other at every refresh."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A broker by its key, and where it is said to listen."""

    key: bytes
    address: str
    node: NodeId

    @staticmethod
    @lru_cache(maxsize=_CONTACTS_REMEMBERED)
    def of(key: bytes, address: str) -> Contact:
        """Return the contact; its place on the ring follows from the key."""
        return Contact(key, address, node_id_of_key(key))


@dataclass(frozen=True, slots=True)
class CandidateLimits:
    """How much hearsay is kept, and how eagerly it is tried."""

    waiting_max: int = 1024
    waiting_per_teller: int = 128
    dials_at_once: int = 8
    dial_timeout_s: int = 15
    retry_s: int = 1
    retry_max_s: int = 64
    tries_max: int = 100
    """How often a broker that we knew ourselves is tried again: for about an hour and a half."""
    failures_remembered: int = 1024


@dataclass(frozen=True, slots=True)
class _Candidate:
    contact: Contact
    teller: NodeId


class Candidates:
    """Brokers known by hearsay, and those that were lost and may come back."""

    __slots__ = ("_dialling", "_failures", "_false_names", "_limits", "_own", "_shares", "_waiting")

    def __init__(self, own: NodeId, limits: CandidateLimits) -> None:
        self._own = own
        self._limits = limits
        self._waiting: dict[NodeId, _Candidate] = {}
        self._shares: Counter[NodeId] = Counter()
        self._false_names: Counter[NodeId] = Counter()
        self._dialling: dict[str, int] = {}
        # Failures in a row and the moment of the next try, by address, least recently failed first.
        self._failures: BoundedMap[str, tuple[int, int]] = BoundedMap(limits.failures_remembered)

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._waiting

    def dials_under_way(self, *, besides: Iterable[str] = ()) -> int:
        """Return how many connections are being tried, not counting those to some addresses."""
        return len(self._dialling.keys() - set(besides))

    def waiting(self) -> Iterator[NodeId]:
        """Return the nodes that wait to be tried."""
        return iter(tuple(self._waiting))

    def add(self, contact: Contact, *, teller: NodeId) -> bool:
        """Let a name wait for its turn; False if it is not taken in."""
        if contact.node == self._own or contact.node in self._waiting:
            return False
        full = len(self._waiting) >= self._limits.waiting_max
        if full or self._shares[teller] >= self._limits.waiting_per_teller:
            return False
        self._waiting[contact.node] = _Candidate(contact, teller)
        self._shares[teller] += 1
        return True

    def next_dials(self, now: int, *, useful: Callable[[NodeId], bool]) -> list[str]:
        """Return the addresses to try now; names that are no longer useful are dropped."""
        for node, candidate in tuple(self._waiting.items()):
            if candidate.teller != self._own and not useful(node):
                self._discard(node)
        free = self._limits.dials_at_once - len(self._dialling)
        if free <= 0 or not self._waiting:
            return []
        ready = {
            candidate.contact.address: None
            for candidate in sorted(self._waiting.values(), key=self._turn)
            if self.may_dial(candidate.contact.address, now) and useful(candidate.contact.node)
        }
        chosen = list(ready)[:free]
        for address in chosen:
            self.dial(address, now)
        return chosen

    def may_dial(self, address: str, now: int) -> bool:
        """Say whether this address is neither being tried nor resting after a failure."""
        return address not in self._dialling and (self._failures.get(address) or (0, now))[1] <= now

    def dial(self, address: str, now: int) -> None:
        """Note that a connection to this address is being tried."""
        self._dialling[address] = now + self._limits.dial_timeout_s * SECOND

    def confirmed(self, contact: Contact, *, dialled: str | None) -> None:
        """A handshake proved who listens where: no other name belongs to the address that we dialled."""
        self._discard(contact.node)
        if dialled is not None:
            self._dialling.pop(dialled, None)
            self._failures.pop(dialled)
            self._discredit(dialled, keep_own=False)

    def failed(self, address: str, now: int) -> None:
        """No broker with a right answered there: reports about it are dropped, and it rests a while."""
        self._dialling.pop(address, None)
        tries = (self._failures.get(address) or (0, 0))[0] + 1
        rest_s = doubled(self._limits.retry_s, tries, most=self._limits.retry_max_s)
        self._failures.put(address, (tries, now + rest_s * SECOND))
        self._discredit(address, keep_own=tries < self._limits.tries_max)

    def overdue(self, now: int) -> list[str]:
        """Return the addresses whose connection has been tried for too long."""
        return [address for address, until in self._dialling.items() if until <= now]

    def next_moment(self, now: int, *, also: Iterable[str] = ()) -> int | None:
        """Return when a dial becomes overdue, or when the rest of a waiting or other address ends."""
        if not self._dialling and not self._failures:
            return None
        addresses = {*also, *(candidate.contact.address for candidate in self._waiting.values())}
        rests = [found[1] for address in addresses if (found := self._failures.get(address)) is not None]
        # A rest that is over has had its turn: it must not wake anybody again and again.
        return min([*self._dialling.values(), *(end for end in rests if end > now)], default=None)

    def forget_teller(self, teller: NodeId) -> None:
        """Drop the candidates of a broker, and what we noted about its honesty: it is gone."""
        for node, candidate in tuple(self._waiting.items()):
            if candidate.teller == teller:
                self._discard(node)
        self._false_names.pop(teller, None)

    def _turn(self, candidate: _Candidate) -> tuple[int, tuple[int, NodeId]]:
        return self._false_names[candidate.teller], closeness(candidate.contact.node, self._own)

    def _discredit(self, address: str, *, keep_own: bool) -> None:
        for node, candidate in tuple(self._waiting.items()):
            if candidate.contact.address != address:
                continue
            if candidate.teller != self._own:
                self._false_names[candidate.teller] += 1
            elif keep_own:
                continue
            self._discard(node)

    def _discard(self, node: NodeId) -> None:
        candidate = self._waiting.pop(node, None)
        if candidate is not None:
            self._shares[candidate.teller] -= 1
            if not self._shares[candidate.teller]:
                del self._shares[candidate.teller]
