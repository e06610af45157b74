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
waits in `overlay/candidates.py`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from functools import lru_cache
from hashlib import sha256
from typing import Final, NewType, TypeAlias

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
    """Return whether `node` is strictly closer to `target` than the node `than`."""
    return closeness(node, target) < closeness(than, target)


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

    def __init__(self, own: NodeId, leaf_size: int = LEAF_SIZE) -> None:
        if leaf_size < 2 or leaf_size % 2:
            raise ValueError("a leaf set has as many places on either side, and at least one")
        self.own = own
        self._reach = leaf_size // 2
        # INVARIANT: _ring is sorted and holds own and _kept; each kept node is in the leaf set, or is the
        # holder of its slot in _table, or both.
        self._ring: list[NodeId] = [own]
        self._kept: set[NodeId] = set()
        self._table: dict[Slot, NodeId] = {}
        self._leaf_set: frozenset[NodeId] | None = None  # None: not computed since the last change

    def learn(self, node: NodeId) -> bool:
        """Take in a node that proved its key; say whether it is kept.

        A node that holds a place of the table keeps it until it is forgotten, so newcomers cannot push
        out those that have served. A leaf gives way to a closer one.
        """
        if node == self.own or node in self._kept:
            return node != self.own
        before, self._leaf_set = self.leaf_set, None
        insort(self._ring, node)
        self._kept.add(node)
        self._table.setdefault(slot_of(node, own=self.own), node)
        for outsider in (before | {node}) - self.leaf_set:
            if self._table.get(slot_of(outsider, own=self.own)) != outsider:
                self._remove(outsider)
        return node in self._kept

    def forget(self, node: NodeId) -> bool:
        """Remove a node that left or is not answering; say whether it was kept."""
        if node not in self._kept:
            return False
        self._remove(node)
        slot = slot_of(node, own=self.own)
        if self._table.get(slot) == node:
            del self._table[slot]
            if same := [leaf for leaf in self.leaf_set if slot_of(leaf, own=self.own) == slot]:
                self._table[slot] = min(same)
        return True

    def would_keep(self, node: NodeId) -> bool:
        """Return whether `learn` would keep this node, which is not kept yet."""
        if node == self.own or node in self._kept:
            return False
        if slot_of(node, own=self.own) not in self._table:
            return True
        place, own_place = bisect_left(self._ring, node), bisect_left(self._ring, self.own)
        steps = abs(place - (own_place + (place <= own_place)))
        return min(steps, len(self._ring) + 1 - steps) <= self._reach

    def _remove(self, node: NodeId) -> None:
        self._leaf_set = None
        del self._ring[bisect_left(self._ring, node)]
        self._kept.discard(node)

    # ------------------------------------------------------------ questions

    def __len__(self) -> int:
        """Return how many other nodes are kept."""
        return len(self._kept)

    def __contains__(self, node: object) -> bool:
        return node in self._kept

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Return all kept nodes, in ring order."""
        return tuple(node for node in self._ring if node != self.own)

    @property
    def table(self) -> dict[Slot, NodeId]:
        """Return a copy of the table: which node represents which prefix."""
        return dict(self._table)

    @property
    def leaf_set(self) -> frozenset[NodeId]:
        """Return the nearest kept nodes: up to half of the leaf set on either side."""
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
        place, count = bisect_left(self._ring, self.own), len(self._ring)
        reach = min(self._reach, count - 1)
        return tuple(self._ring[(place + step * i) % count] for i in range(1, reach + 1))

    def next_hop(self, target: NodeId) -> NodeId | None:
        """Return the kept node closest to `target`, or None when that is this node itself."""
        # The closest node of a sorted ring is just before the target or just after it.
        place = bisect_left(self._ring, target)
        before, after = self._ring[place - 1], self._ring[place % len(self._ring)]
        best = before if is_closer(before, than=after, target=target) else after
        return None if best == self.own else best

    def closest(self, target: NodeId, count: int) -> tuple[NodeId, ...]:
        """Return up to `count` nodes closest to `target`, this one among them, closest first."""
        place, known = bisect_left(self._ring, target), len(self._ring)
        nearby = self._ring
        if 2 * count < known:
            nearby = [self._ring[(place + i) % known] for i in range(-count, count)]
        # `closeness`, written out: every refresh of every broker asks this.
        measured = [(min((node - target) % RING, (target - node) % RING), node) for node in nearby]
        return tuple([node for _, node in sorted(measured)[:count]])
