"""Which kind of tree does a group have, and how is one kept over a restart?

Managers and members ask. A new group gets LKH. A tree is written with all its
secrets, so the caller encrypts what it keeps, and it keeps a change before it
sends it: a manager that forgot a version would make its members ask anew.
What cannot be a whole tree is refused, never mended.

    state:  format scheme lineage version secret, (slot, member), (node, secret)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from maia.errors import BadInput
from maia.sealing.tree.key_tree import KeyTree, Slots, TreeMember, TreeState
from maia.sealing.tree.lkh import LkhMember, LkhTree
from maia.sealing.tree.node_secrets import MEMBERS_MAX, NODE_SECRET_BYTES
from maia.sealing.tree.rekey import FORMAT, LINEAGE_BYTES, VERSION_MAX, Scheme, read_path
from reference.oft import OftMember, OftTree

__all__ = ["BadTreeState", "member_from_bytes", "new_tree", "tree_from_bytes", "tree_to_bytes"]

_TREES: Final[Mapping[int, type[KeyTree]]] = MappingProxyType({Scheme.LKH: LkhTree, Scheme.OFT: OftTree})
_MEMBERS: Final[Mapping[Scheme, type[TreeMember]]] = MappingProxyType(
    {Scheme.LKH: LkhMember, Scheme.OFT: OftMember}
)
_HEAD: Final = struct.Struct(f"!BB{LINEAGE_BYTES}sQ{NODE_SECRET_BYTES}sII")
_SEAT: Final = struct.Struct("!IB")
_SECRET: Final = struct.Struct(f"!I{NODE_SECRET_BYTES}s")


class BadTreeState(BadInput):
    """What was kept of a key tree is not a whole tree."""

    code = "SEALING-TREE-STATE"


def new_tree(*, group: bytes, random: Callable[[int], bytes], scheme: Scheme = Scheme.LKH) -> KeyTree:
    """Return a tree of nobody. LKH unless the caller wants to compare."""
    return _TREES[scheme](group=group, random=random)


def member_from_bytes(data: bytes, *, group: bytes) -> TreeMember:
    """Return the member that holds this path: a welcome, a recovered path, or what a member wrote."""
    path = read_path(data)
    return _MEMBERS[path.scheme](group=group, path=path)


def tree_to_bytes(tree: KeyTree) -> bytes:
    """Write `tree` with all its secrets. The caller encrypts what it keeps."""
    state = tree.state()
    counts = len(state.seats), len(state.secrets)
    head = _HEAD.pack(FORMAT, tree.scheme, state.lineage, state.version, state.root, *counts)
    members = [_SEAT.pack(slot, len(member)) + member for slot, member in sorted(state.seats.items())]
    nodes = [_SECRET.pack(node, secret) for node, secret in sorted(state.secrets.items())]
    return b"".join([head, *members, *nodes])


def tree_from_bytes(data: bytes, *, group: bytes, random: Callable[[int], bytes]) -> KeyTree:
    """Read what `tree_to_bytes` wrote; raise `BadTreeState` on anything else."""
    if len(data) < _HEAD.size:
        raise BadTreeState("the state of a key tree ends within its head")
    form, scheme, lineage, version, root, seat_count, secret_count = _HEAD.unpack_from(data)
    if form != FORMAT or scheme not in _TREES or version > VERSION_MAX:
        raise BadTreeState("the state of a key tree is of a form that this program does not read")
    seats, secrets_from = _read_seats(data, seat_count)
    if len(data) != secrets_from + secret_count * _SECRET.size:
        raise BadTreeState("the state of a key tree has another length than it announces")
    secrets = dict(_SECRET.iter_unpack(data[secrets_from:]))
    slots = Slots.seating(seats)
    if len(secrets) != secret_count or list(secrets) != sorted(slots.nodes()):
        raise BadTreeState("the state of a key tree has other nodes than its members need")
    tree = new_tree(group=group, random=random, scheme=Scheme(scheme))
    tree.restore(TreeState(lineage, version, root, seats, secrets), slots)
    return tree


def _read_seats(data: bytes, count: int) -> tuple[dict[int, bytes], int]:
    if count > MEMBERS_MAX:
        raise BadTreeState(f"the state of a key tree has {count} members, beyond the limit")
    seats: dict[int, bytes] = {}
    at = _HEAD.size
    for _ in range(count):
        if at + _SEAT.size > len(data):
            raise BadTreeState("the state of a key tree ends within its members")
        slot, length = _SEAT.unpack_from(data, at)
        seats[slot] = data[at + _SEAT.size : at + _SEAT.size + length]
        at += _SEAT.size + length
    _check_seats(seats, count)
    return seats, at


def _check_seats(seats: Mapping[int, bytes], count: int) -> None:
    if len(seats) != count or any(one >= other for one, other in pairwise(seats)):
        raise BadTreeState("the state of a key tree has slots twice or out of order")
    if any(slot >= MEMBERS_MAX or not member for slot, member in seats.items()):
        raise BadTreeState("the state of a key tree has a slot or a member that no tree has")
    if len(set(seats.values())) != count:
        raise BadTreeState("the state of a key tree has a member twice")
