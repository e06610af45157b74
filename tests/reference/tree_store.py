"""Which kind of tree does a group have, and what is in it?

Tests ask, which compare whole trees and make two managers of one. Key servers keep no trees.

    state:  format scheme lineage version secret, (slot, member), (node, secret)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from maia.sealing.tree.key_tree import KeyTree, Slots, TreeMember
from maia.sealing.tree.lkh import LkhMember, LkhTree
from maia.sealing.tree.node_secrets import NODE_SECRET_BYTES
from maia.sealing.tree.rekey import FORMAT, LINEAGE_BYTES, Scheme, read_path
from reference.oft import OftMember, OftTree

__all__ = ["member_from_bytes", "new_tree", "seated", "tree_from_bytes", "tree_to_bytes"]

_TREES: Final[Mapping[int, type[KeyTree]]] = MappingProxyType({Scheme.LKH: LkhTree, Scheme.OFT: OftTree})
_MEMBERS: Final[Mapping[Scheme, type[TreeMember]]] = MappingProxyType(
    {Scheme.LKH: LkhMember, Scheme.OFT: OftMember}
)
_HEAD: Final = struct.Struct(f"!BB{LINEAGE_BYTES}sQ{NODE_SECRET_BYTES}sII")
_SEAT: Final = struct.Struct("!IB")
_SECRET: Final = struct.Struct(f"!I{NODE_SECRET_BYTES}s")


def new_tree(*, group: bytes, random: Callable[[int], bytes], scheme: Scheme = Scheme.LKH) -> KeyTree:
    """Return a tree of nobody. LKH unless the caller wants to compare."""
    return _TREES[scheme](group=group, random=random)


def member_from_bytes(data: bytes, *, group: bytes) -> TreeMember:
    """Return the member that holds this path: a welcome, a recovered path, or what a member wrote."""
    path = read_path(data)
    return _MEMBERS[path.scheme](group=group, path=path)


def tree_to_bytes(tree: KeyTree) -> bytes:
    """Write `tree` with all its secrets."""
    seats = {slot: member for member, slot in tree._slots.members.items()}
    head = _HEAD.pack(
        FORMAT, tree.scheme, tree._lineage, tree.version, tree._root, len(seats), len(tree._secrets)
    )
    members = [_SEAT.pack(slot, len(member)) + member for slot, member in sorted(seats.items())]
    nodes = [_SECRET.pack(node, secret) for node, secret in sorted(tree._secrets.items())]
    return b"".join([head, *members, *nodes])


def tree_from_bytes(data: bytes, *, group: bytes, random: Callable[[int], bytes]) -> KeyTree:
    """Read what `tree_to_bytes` wrote."""
    _, scheme, lineage, version, root, count, _ = _HEAD.unpack_from(data)
    seats: dict[int, bytes] = {}
    at = _HEAD.size
    for _ in range(count):
        slot, length = _SEAT.unpack_from(data, at)
        seats[slot] = data[at + _SEAT.size : at + _SEAT.size + length]
        at += _SEAT.size + length
    tree = new_tree(group=group, random=random, scheme=Scheme(scheme))
    tree._lineage, tree._slots, tree._secrets = lineage, seated(seats), dict(_SECRET.iter_unpack(data[at:]))
    tree._adopt(version, root)
    return tree


def seated(members: Mapping[int, bytes]) -> Slots:
    """Return slots with each member where `members` says."""
    made = Slots()
    while made.capacity <= max(members, default=0):
        made._grow()
    made._free = [slot for slot in range(made.capacity) if slot not in members]
    for slot, member in members.items():
        made._seat(member, slot)
    return made
