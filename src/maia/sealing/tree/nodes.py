"""How is one node of a key tree named, and which members are below it?

Members sit in numbered slots. A node of level k is above 2^k slots, so
its name is its level and a number, and never changes while the tree grows
above it. The group's own secret belongs to a node of its own, `ROOT`, which
is above all members whatever the height of the tree.
"""

from __future__ import annotations

from typing import Final

LEVELS_MAX: Final = 16
MEMBERS_MAX: Final = 1 << LEVELS_MAX
"""Members of one group."""

_LEVEL_SHIFT: Final = 24
_INDEX_BITS: Final = (1 << _LEVEL_SHIFT) - 1

ROOT: Final = 0xFF << _LEVEL_SHIFT
"""The node whose secret the whole group shares."""


def ancestor(slot: int, level: int) -> int:
    """Return the node of `level` above `slot`; level 0 is the slot's own leaf."""
    return level << _LEVEL_SHIFT | slot >> level


def level_of(node: int) -> int:
    """Return how many levels above the slots `node` is."""
    return node >> _LEVEL_SHIFT


def named(node: int) -> bool:
    """Say whether a node can have this name."""
    level, index = node >> _LEVEL_SHIFT, node & _INDEX_BITS
    return node == ROOT or (level <= LEVELS_MAX and index < MEMBERS_MAX >> level)


def stands_above(node: int, below: int) -> bool:
    """Return whether all members under `below` are under `node` as well; a node is above itself."""
    if node == ROOT:
        return True
    rise = (node >> _LEVEL_SHIFT) - (below >> _LEVEL_SHIFT)
    return rise >= 0 and (below & _INDEX_BITS) >> rise == node & _INDEX_BITS
