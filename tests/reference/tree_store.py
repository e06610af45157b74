"""Which kind of tree does a group have, and what is in it?

Tests ask, which compare whole trees and make two managers of one. Key servers keep no trees.

    state:  format scheme lineage version secret, (slot, member), (node, secret)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from maia.sealing.tree.key_tree import KeyTree, Rekeyed, Slots, TreeMember
from maia.sealing.tree.node_secrets import NODE_SECRET_BYTES, ROOT
from maia.sealing.tree.rekey import LINEAGE_BYTES, read_path
from reference.oft import OftMember, OftTree

__all__ = ["Scheme", "Tree", "member_from_bytes", "new_tree", "seated", "tree_from_bytes", "tree_to_bytes"]


class Scheme(IntEnum):
    """Which kind of tree: the one of key groups, or the papers'."""

    LKH = 1
    OFT = 2


class Tree(KeyTree):
    """A tree that one member joins or leaves at a time."""

    __slots__ = ()

    @property
    def members(self) -> frozenset[bytes]:
        return frozenset(self._slots.members)

    def join(self, member: bytes) -> Rekeyed:
        return self.rekey(joins=(member,))

    def leave(self, member: bytes) -> Rekeyed:
        return self.rekey(leaves=(member,))

    def refresh(self) -> Rekeyed:
        """Give the same members a new secret."""
        return self.rekey()

    def to_bytes(self) -> bytes:
        """Write the tree with all its secrets."""
        seats = {slot: member for member, slot in self._slots.members.items()}
        scheme = Scheme.OFT if isinstance(self, OftTree) else Scheme.LKH
        head = _HEAD.pack(1, scheme, self._lineage, self.version, self._root, len(seats), len(self._secrets))
        members = [_SEAT.pack(slot, len(member)) + member for slot, member in sorted(seats.items())]
        nodes = [_SECRET.pack(node, secret) for node, secret in sorted(self._secrets.items())]
        return b"".join([head, *members, *nodes])

    def put_in(
        self, lineage: bytes, version: int, root: bytes, seats: Mapping[int, bytes], nodes: bytes
    ) -> None:
        """Be the tree with this content."""
        self._lineage, self._slots = lineage, seated(seats)
        self._secrets = dict(_SECRET.iter_unpack(nodes))
        self._adopt(version, root)


class OneWayTree(OftTree, Tree):
    """The papers' tree, the same way."""

    __slots__ = ()


_HEAD: Final = struct.Struct(f"!BB{LINEAGE_BYTES}sQ{NODE_SECRET_BYTES}sII")
_SEAT: Final = struct.Struct("!IB")
_SECRET: Final = struct.Struct(f"!I{NODE_SECRET_BYTES}s")


def new_tree(*, group: bytes, random: Callable[[int], bytes], scheme: Scheme = Scheme.LKH) -> Tree:
    """Return a tree of nobody. LKH unless the caller wants to compare."""
    return (Tree if scheme is Scheme.LKH else OneWayTree)(group=group, random=random)


def member_from_bytes(data: bytes, *, group: bytes) -> TreeMember:
    """Return the member that holds this path: a welcome, a recovered path, or what a member wrote."""
    path = read_path(data)
    kind = TreeMember if any(node == ROOT for node, _ in path.secrets) else OftMember
    return kind(group=group, path=path)


def tree_to_bytes(tree: Tree) -> bytes:
    """Write `tree` with all its secrets."""
    return tree.to_bytes()


def tree_from_bytes(data: bytes, *, group: bytes, random: Callable[[int], bytes]) -> Tree:
    """Read what `tree_to_bytes` wrote."""
    _, scheme, lineage, version, root, count, _ = _HEAD.unpack_from(data)
    seats: dict[int, bytes] = {}
    at = _HEAD.size
    for _ in range(count):
        slot, length = _SEAT.unpack_from(data, at)
        seats[slot] = data[at + _SEAT.size : at + _SEAT.size + length]
        at += _SEAT.size + length
    tree = new_tree(group=group, random=random, scheme=Scheme(scheme))
    tree.put_in(lineage, version, root, seats, data[at:])
    return tree


class Seats(Slots):
    """Slots with each member where `members` says."""

    def __init__(self, members: Mapping[int, bytes]) -> None:
        super().__init__()
        while self.capacity <= max(members, default=0):
            self._grow()
        self._free = [slot for slot in range(self.capacity) if slot not in members]
        for slot, member in members.items():
            self._seat(member, slot)


def seated(members: Mapping[int, bytes]) -> Slots:
    """Return slots with each member where `members` says."""
    return Seats(members)
