"""Which member sits where in a key tree, and which nodes does the tree have?

Both kinds of tree ask. A joiner takes the lowest free slot, so the tree stays
as low as its members allow, and it halves when they would fit a quarter of
it. A node exists only where members sit on both sides below it: an empty half
costs nothing, and a tree of few members among many slots is a small tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from maia.sealing.tree.nodes import ancestor

__all__ = ["Slots"]


class Slots:
    """The seats of one tree. `vacate` keeps the height until `shrink`, so old nodes keep a place."""

    __slots__ = ("_counts", "_free", "_slots")

    def __init__(self) -> None:
        """Begin with one free slot."""
        self._counts: list[list[int]] = [[0]]  # how many members sit below each node, level by level
        self._free = [0]  # a heap
        self._slots: dict[bytes, int] = {}

    @classmethod
    def seating(cls, members: Mapping[int, bytes]) -> Slots:
        """Return the slots with each member where `members` says."""
        made = cls()
        while made.capacity <= max(members, default=0):
            made._grow()
        made._free = [slot for slot in range(made.capacity) if slot not in members]
        for slot, member in members.items():
            made._seat(member, slot)
        return made

    @property
    def capacity(self) -> int:
        """Return how many slots there are."""
        return len(self._counts[0])

    @property
    def height(self) -> int:
        """Return how many levels are above the slots."""
        return len(self._counts) - 1

    @property
    def members(self) -> Mapping[bytes, int]:
        """Return the slot of each member."""
        return self._slots

    def __len__(self) -> int:
        return len(self._slots)

    def place(self, member: bytes) -> int:
        """Give `member` the lowest free slot and return it."""
        if not self._free:
            self._grow()
        slot = heappop(self._free)
        self._seat(member, slot)
        return slot

    def vacate(self, member: bytes) -> int:
        """Free the slot of `member` and return it."""
        slot = self._slots.pop(member)
        heappush(self._free, slot)
        self._count(slot, -1)
        return slot

    def shrink(self) -> None:
        """Halve the tree while its members fit a quarter of it and the upper half is empty."""
        if len(self._slots) > self.capacity // 4:
            return
        halved = False
        while self.height and not self._counts[-2][1] and len(self._slots) <= self.capacity // 4:
            self._counts.pop()
            for level, counts in enumerate(self._counts):
                del counts[1 << (self.height - level) :]
            halved = True
        if halved:
            self._free = [slot for slot in self._free if slot < self.capacity]
            heapify(self._free)

    @property
    def counts(self) -> Sequence[Sequence[int]]:
        """Return how many members sit below each place, level by level."""
        return self._counts

    def taken(self, level: int, index: int) -> bool:
        """Return whether a member is below this place, be there a node or not."""
        return self._counts[level][index] > 0

    def top(self, level: int, index: int) -> int:
        """Return the highest node at or below this place, where a member is."""
        counts = self._counts
        while level:
            below, left = counts[level - 1], 2 * index
            if below[left] and below[left + 1]:
                break
            level, index = level - 1, left if below[left] else left + 1
        return level << 24 | index

    def first_slot(self, level: int, index: int) -> int:
        """Return the lowest slot below this place with a member."""
        for lower in range(level - 1, -1, -1):
            index = 2 * index if self._counts[lower][2 * index] else 2 * index + 1
        return index

    def nodes_above(self, slot: int) -> list[int]:
        """Return the nodes above the leaf of `slot`, from the lowest; the root is not among them."""
        beside = enumerate(self._counts[:-1])
        return [ancestor(slot, level + 1) for level, counts in beside if counts[slot >> level ^ 1]]

    def nodes(self) -> Iterator[int]:
        """Yield every node but the root: the leaves, and what is above two of them or more."""
        for level, counts in enumerate(self._counts):
            below = self._counts[level - 1]
            for index, count in enumerate(counts):
                if count and (not level or (below[2 * index] and below[2 * index + 1])):
                    yield ancestor(index << level, level)

    def _seat(self, member: bytes, slot: int) -> None:
        self._slots[member] = slot
        self._count(slot, 1)

    def _count(self, slot: int, change: int) -> None:
        for counts in self._counts:
            counts[slot] += change
            slot >>= 1

    def _grow(self) -> None:
        self._free.extend(range(self.capacity, 2 * self.capacity))
        for counts in self._counts:
            counts.extend([0] * len(counts))
        self._counts.append([len(self._slots)])
