"""What does a manager broadcast when a group's secret changes, and what does one member need of the tree?

The manager writes both, members read both. A rekey is one message for all: a
few wrapped secrets, each with the node it renews and the node whose members
open it. A path is what one member holds of the tree; it is secret, and the
caller seals it to that member. Both have one form: whatever else arrives ends
in `BadRekey` or `BadPath`, and nothing is reserved because a count says so.

    rekey:  format scheme lineage version previous confirmation nonce, gone nodes, entries
    path:   format scheme lineage version confirmation slot, (node, secret) from the leaf up
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise
from typing import Final

from maia.errors import ProtocolViolation, Unavailable
from maia.sealing.tree import node_secrets
from maia.sealing.tree.node_secrets import (
    CONFIRMATION_BYTES,
    LEVELS_MAX,
    MEMBERS_MAX,
    NODE_SECRET_BYTES,
    NONCE_BYTES,
    ROOT,
    WRAPPED_BYTES,
    level_of,
    named,
    stands_above,
)

FORMAT: Final = 1
LINEAGE_BYTES: Final = 8
VERSION_MAX: Final = 2**63 - 1
ENTRIES_MAX: Final = 2 * MEMBERS_MAX
"""Wrapped secrets in one rekey: two for each node is all that a tree can need."""

_MARK: Final = f"{CONFIRMATION_BYTES}s"
_HEAD: Final = struct.Struct(f"!BB{LINEAGE_BYTES}sQ{_MARK}{_MARK}{NONCE_BYTES}sII")
_PAIR: Final = struct.Struct("!II")
_NODE: Final = struct.Struct("!I")
_ENTRY: Final = struct.Struct(f"!II{WRAPPED_BYTES}s")
_PATH_HEAD: Final = struct.Struct(f"!BB{LINEAGE_BYTES}sQ{_MARK}IB")
_PATH_PART: Final = struct.Struct(f"!I{NODE_SECRET_BYTES}s")
_BINDING: Final = b"maia/1/rekey"


class Scheme(IntEnum):
    """Which kind of tree wrote this."""

    LKH = 1
    OFT = 2


_SCHEMES: Final = frozenset(scheme.value for scheme in Scheme)


class BadRekey(ProtocolViolation):
    """A rekey message is not written in the one form that Maia reads."""

    code = "PROTOCOL-REKEY"


class BadPath(ProtocolViolation):
    """What a member was handed of a key tree is not written in the one form, or does not fit its group."""

    code = "PROTOCOL-TREE-PATH"


class PathNeeded(Unavailable):
    """A rekey does not follow from what this member holds; it asks the manager for its path again."""

    code = "SEALING-PATH-NEEDED"


@dataclass(frozen=True, slots=True)
class RekeyEntry:
    """A secret on its way to all members below `under`: it belongs to `node`, above them."""

    node: int
    under: int
    wrapped: bytes

    @property
    def pair(self) -> bytes:
        """Return the two nodes as they are written, and as the secret is bound to them."""
        return _PAIR.pack(self.node, self.under)


@dataclass(frozen=True, slots=True)
class Rekey:
    """One change of a tree, as members read it. Entries come from the leaves up."""

    scheme: Scheme
    lineage: bytes
    version: int
    previous: bytes
    """The confirmation of the version before, so that two histories never pass for one."""
    confirmation: bytes
    nonce: bytes
    gone: tuple[int, ...]
    """Nodes that the tree has no more."""
    entries: tuple[RekeyEntry, ...]


@dataclass(frozen=True, slots=True)
class MemberPath:
    """What one member holds of a tree: the secrets from its leaf up. `to_bytes` is for its eyes alone."""

    scheme: Scheme
    lineage: bytes
    """Which tree: one that is founded anew counts its versions from the beginning."""
    version: int
    confirmation: bytes
    slot: int
    secrets: tuple[tuple[int, bytes], ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        """Write the path, secrets and all. The caller seals it."""
        head = _PATH_HEAD.pack(
            FORMAT, self.scheme, self.lineage, self.version, self.confirmation, self.slot, len(self.secrets)
        )
        return head + b"".join([_PATH_PART.pack(*part) for part in self.secrets])


def rekey_binding(scheme: Scheme, *, group: bytes, lineage: bytes, version: int) -> bytes:
    """Return what every entry of one rekey is bound to, beside its nodes."""
    head = bytes((FORMAT, scheme)) + lineage + version.to_bytes(8, "big")
    return _BINDING + head + len(group).to_bytes(2, "big") + group


class RekeyWriter:
    """A rekey in the making. Entries are added from the leaves up; a key wraps at most one of them."""

    __slots__ = ("_bound_to", "_lineage", "_nonce", "_parts", "_scheme", "version")

    def __init__(self, scheme: Scheme, *, group: bytes, lineage: bytes, version: int, nonce: bytes) -> None:
        """Begin the rekey that leads to `version`. The nonce is random: a restored manager has no counter."""
        self._scheme, self._lineage, self.version, self._nonce = scheme, lineage, version, nonce
        self._bound_to = rekey_binding(scheme, group=group, lineage=lineage, version=version)
        self._parts: list[bytes] = []

    def add(self, node: int, under: int, key: bytes, content: bytes) -> None:
        """Send `content`, which belongs to `node`, to all members below `under`, who know `key`."""
        pair = _PAIR.pack(node, under)
        self._parts += pair, node_secrets.wrap(key, self._nonce, content, self._bound_to + pair)

    def finish(self, *, gone: Iterable[int], previous: bytes, confirmation: bytes) -> bytes:
        nodes = [_NODE.pack(node) for node in sorted(gone)]
        head = _HEAD.pack(
            FORMAT,
            self._scheme,
            self._lineage,
            self.version,
            previous,
            confirmation,
            self._nonce,
            len(nodes),
            len(self._parts) // 2,
        )
        return b"".join([head, *nodes, *self._parts])


def read_rekey(data: bytes) -> Rekey:
    """Read a rekey; raise `BadRekey` unless it is written in the one form."""
    if len(data) < _HEAD.size:
        raise BadRekey("a rekey message ends within its head")
    form, scheme, lineage, version, before, after, nonce, gone_count, count = _HEAD.unpack_from(data)
    if form != FORMAT or scheme not in _SCHEMES or not 0 < version <= VERSION_MAX:
        raise BadRekey("a rekey message is of a form that this program does not read")
    if gone_count > MEMBERS_MAX or count > ENTRIES_MAX:
        raise BadRekey(f"a rekey message announces {gone_count} nodes and {count} entries, beyond the limit")
    entries_from = _HEAD.size + gone_count * _NODE.size
    if len(data) != entries_from + count * _ENTRY.size:
        raise BadRekey("a rekey message has another length than it announces")
    gone = tuple(node for (node,) in _NODE.iter_unpack(data[_HEAD.size : entries_from]))
    entries = tuple(RekeyEntry(*fields) for fields in _ENTRY.iter_unpack(data[entries_from:]))
    _check_gone(gone)
    _check_entries(entries, scheme)
    return Rekey(Scheme(scheme), lineage, version, before, after, nonce, gone, entries)


def _check_gone(gone: tuple[int, ...]) -> None:
    if any(one >= other for one, other in pairwise(gone)):
        raise BadRekey("a rekey message names vanished nodes twice or out of order")
    if not all(named(node) and 0 < level_of(node) <= LEVELS_MAX for node in gone):
        raise BadRekey("a rekey message says that a node vanished which no tree has")


def _check_entries(entries: tuple[RekeyEntry, ...], scheme: int) -> None:
    if any((one.node, one.under) >= (other.node, other.under) for one, other in pairwise(entries)):
        raise BadRekey("a rekey message has entries twice or out of order")
    for entry in entries:
        node, under = entry.node, entry.under
        if not (named(node) and named(under) and under != ROOT and stands_above(node, under)):
            raise BadRekey("a rekey message has an entry for nodes that are not above each other")
        # A leaf is renewed for its own member, and the root has a key of its own, each in one kind of tree.
        if (node == under and (scheme != Scheme.OFT or level_of(node))) or (
            node == ROOT and scheme != Scheme.LKH
        ):
            raise BadRekey("a rekey message has an entry that its kind of tree does not know")


def read_path(data: bytes) -> MemberPath:
    """Read a path; raise `BadPath` unless it is written in the one form."""
    if len(data) < _PATH_HEAD.size:
        raise BadPath("a path of a key tree ends within its head")
    form, scheme, lineage, version, confirmation, slot, count = _PATH_HEAD.unpack_from(data)
    if form != FORMAT or scheme not in _SCHEMES or version > VERSION_MAX or slot >= MEMBERS_MAX:
        raise BadPath("a path of a key tree is of a form that this program does not read")
    if len(data) != _PATH_HEAD.size + count * _PATH_PART.size:
        raise BadPath("a path of a key tree has another length than it announces")
    secrets = tuple((node, secret) for node, secret in _PATH_PART.iter_unpack(data[_PATH_HEAD.size :]))
    _check_path(slot, [node for node, _ in secrets])
    return MemberPath(Scheme(scheme), lineage, version, confirmation, slot, secrets)


def _check_path(slot: int, nodes: list[int]) -> None:
    if not nodes or nodes[0] != slot:
        raise BadPath("a path of a key tree does not begin at its member's leaf")
    if any(one >= other for one, other in pairwise(nodes)):
        raise BadPath("a path of a key tree has nodes twice or out of order")
    if not all(named(node) and stands_above(node, slot) for node in nodes):
        raise BadPath("a path of a key tree has a node that is not above its member")
