"""What does a manager broadcast when a group's secret changes, and what does one member need of the tree?

The manager writes both, members read both. A rekey is one message for all: a
few wrapped secrets, each with the node it renews and the node whose members
open it. A path is what one member holds of the tree; it is secret, and the
caller seals it to that member. Both have one form: whatever else arrives ends
in `PROTOCOL-REKEY` or `PROTOCOL-TREE-PATH`, and nothing is reserved because a count says so.

    rekey:  form lineage version previous confirmation nonce, gone nodes, entries
    path:   form lineage version confirmation slot, (node, secret) from the leaf up
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from maia.errors import ProtocolViolation, Unavailable
from maia.sealing.tree import node_secrets
from maia.sealing.tree.node_secrets import MEMBERS_MAX, ROOT, WRAPPED_BYTES, level_of, named, stands_above

FORM: Final = b"\x01\x01"
"""The first format, and the logical key hierarchy."""
LINEAGE_BYTES: Final = 8
VERSION_MAX: Final = 2**63 - 1
ENTRIES_MAX: Final = 2 * MEMBERS_MAX
"""Wrapped secrets in one rekey: two for each node is all that a tree can need."""

_HEAD: Final = struct.Struct(f"!2s{LINEAGE_BYTES}sQ16s16s12sII")
_PAIR: Final = struct.Struct("!II")
_NODE: Final = struct.Struct("!I")
_ENTRY: Final = struct.Struct(f"!II{WRAPPED_BYTES}s")
_PATH_HEAD: Final = struct.Struct(f"!2s{LINEAGE_BYTES}sQ16sIB")
_PATH_PART: Final = struct.Struct("!I32s")
_BINDING: Final = b"maia/1/rekey" + FORM


class PathNeeded(Unavailable):
    """A rekey does not follow from what this member holds; it asks the manager for its path again."""

    code = "SEALING-PATH-NEEDED"


class RekeyEntry(NamedTuple):
    """A secret on its way to all members below `under`: it belongs to `node`, above them."""

    node: int
    under: int
    wrapped: bytes


@dataclass(frozen=True, slots=True)
class Rekey:
    """One change of a tree, as members read it. Entries come from the leaves up."""

    lineage: bytes
    version: int
    previous: bytes
    """The confirmation of the version before, so that two histories never pass for one."""
    confirmation: bytes
    nonce: bytes
    gone: tuple[int, ...]
    """Nodes that the tree has no more."""
    entries: tuple[RekeyEntry, ...]

    def opened(self, entry: RekeyEntry, key: bytes | None, group: bytes) -> bytes:
        """Return the secret of an entry, of a rekey of `group`, for a member that holds `key`."""
        bound_to = _bound_to(group, self.lineage, self.version) + _PAIR.pack(*entry[:2])
        opened = key and node_secrets.unwrap(key, self.nonce, entry.wrapped, bound_to)
        if not opened:
            raise PathNeeded(f"change {self.version} of a key group cannot be opened with the keys held here")
        return opened


@dataclass(frozen=True, slots=True)
class MemberPath:
    """What one member holds of a tree: the secrets from its leaf up. `to_bytes` is for its eyes alone."""

    lineage: bytes
    """Which tree: one that is founded anew counts its versions from the beginning."""
    version: int
    confirmation: bytes
    slot: int
    secrets: tuple[tuple[int, bytes], ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the path, secrets and all. The caller seals it."""
        fields = self.lineage, self.version, self.confirmation, self.slot
        head = _PATH_HEAD.pack(FORM, *fields, len(self.secrets))
        return head + b"".join([_PATH_PART.pack(*part) for part in self.secrets])


def _bound_to(group: bytes, lineage: bytes, version: int) -> bytes:
    """Return what every entry of one rekey is bound to, beside its nodes."""
    return _BINDING + lineage + version.to_bytes(8, "big") + len(group).to_bytes(2, "big") + group


class RekeyWriter:
    """A rekey in the making. Entries are added from the leaves up; a key wraps at most one of them."""

    __slots__ = ("_bound_to", "_lineage", "_nonce", "_parts", "_version", "gone")

    def __init__(self, *, group: bytes, lineage: bytes, version: int, nonce: bytes) -> None:
        """Begin the rekey that leads to `version`. The nonce is random: a restored manager has no counter."""
        self._lineage, self._version, self._nonce = lineage, version, nonce
        self._bound_to = _bound_to(group, lineage, version)
        self._parts: list[bytes] = []
        self.gone: list[int] = []

    def add(self, node: int, under: int, key: bytes, content: bytes) -> None:
        """Send `content`, which belongs to `node`, to all members below `under`, who know `key`."""
        pair = _PAIR.pack(node, under)
        self._parts += pair, node_secrets.wrap(key, self._nonce, content, self._bound_to + pair)

    def finish(self, *, previous: bytes, confirmation: bytes) -> bytes:
        fields = self._lineage, self._version, previous, confirmation, self._nonce
        head = _HEAD.pack(FORM, *fields, len(self.gone), len(self._parts) // 2)
        return b"".join([head, *map(_NODE.pack, sorted(self.gone)), *self._parts])


def read_rekey(data: bytes) -> Rekey:
    """Read a rekey; raise `PROTOCOL-REKEY` unless it is written in the one form."""
    if len(data) < _HEAD.size:
        raise ProtocolViolation("PROTOCOL-REKEY", "a rekey message ends within its head")
    form, lineage, version, before, after, nonce, gone_count, count = _HEAD.unpack_from(data)
    if form != FORM or not 0 < version <= VERSION_MAX:
        raise ProtocolViolation(
            "PROTOCOL-REKEY", "a rekey message is of a form that this program does not read"
        )
    if gone_count > MEMBERS_MAX or count > ENTRIES_MAX:
        raise ProtocolViolation(
            "PROTOCOL-REKEY",
            f"a rekey message announces {gone_count} nodes and {count} entries, beyond the limit",
        )
    entries_from = _HEAD.size + gone_count * _NODE.size
    if len(data) != entries_from + count * _ENTRY.size:
        raise ProtocolViolation("PROTOCOL-REKEY", "a rekey message has another length than it announces")
    gone = tuple(node for (node,) in _NODE.iter_unpack(data[_HEAD.size : entries_from]))
    entries = tuple(map(RekeyEntry._make, _ENTRY.iter_unpack(data[entries_from:])))
    if any(one >= other for one, other in pairwise(gone)):
        raise ProtocolViolation(
            "PROTOCOL-REKEY", "a rekey message names vanished nodes twice or out of order"
        )
    if not all(named(node) and node != ROOT and level_of(node) for node in gone):
        raise ProtocolViolation(
            "PROTOCOL-REKEY", "a rekey message says that a node vanished which no tree has"
        )
    if any(one[:2] >= other[:2] for one, other in pairwise(entries)):
        raise ProtocolViolation("PROTOCOL-REKEY", "a rekey message has entries twice or out of order")
    for node, under, _ in entries:
        if not (named(node) and named(under) and under != ROOT and stands_above(node, under)):
            raise ProtocolViolation(
                "PROTOCOL-REKEY", "a rekey message has an entry for nodes that are not above each other"
            )
        if node == under:
            raise ProtocolViolation(
                "PROTOCOL-REKEY", "a rekey message has an entry that its kind of tree does not know"
            )
    return Rekey(lineage, version, before, after, nonce, gone, entries)


def read_path(data: bytes) -> MemberPath:
    """Read a path; raise `PROTOCOL-TREE-PATH` unless it is written in the one form."""
    if len(data) < _PATH_HEAD.size:
        raise ProtocolViolation("PROTOCOL-TREE-PATH", "a path of a key tree ends within its head")
    form, lineage, version, confirmation, slot, count = _PATH_HEAD.unpack_from(data)
    if form != FORM or version > VERSION_MAX or slot >= MEMBERS_MAX:
        raise ProtocolViolation(
            "PROTOCOL-TREE-PATH", "a path of a key tree is of a form that this program does not read"
        )
    if len(data) != _PATH_HEAD.size + count * _PATH_PART.size:
        raise ProtocolViolation(
            "PROTOCOL-TREE-PATH", "a path of a key tree has another length than it announces"
        )
    secrets: tuple[tuple[int, bytes], ...] = tuple(_PATH_PART.iter_unpack(data[_PATH_HEAD.size :]))
    nodes = [node for node, _ in secrets]
    if not nodes or nodes[0] != slot:
        raise ProtocolViolation(
            "PROTOCOL-TREE-PATH", "a path of a key tree does not begin at its member's leaf"
        )
    if any(one >= other for one, other in pairwise(nodes)):
        raise ProtocolViolation("PROTOCOL-TREE-PATH", "a path of a key tree has nodes twice or out of order")
    if not all(named(node) and stands_above(node, slot) for node in nodes):
        raise ProtocolViolation(
            "PROTOCOL-TREE-PATH", "a path of a key tree has a node that is not above its member"
        )
    return MemberPath(lineage, version, confirmation, slot, secrets)
