"""What would a one-way function tree do, as in the papers? (OFT)

MAIA used this tree (dissertation 7.6.1, after Sherman and McGrew), and we
keep it to compare. The secret of a node follows from the blinded secrets of
its two children, and a member holds its own leaf's secret and the blinded
secrets beside its path. Nobody outside the tests and benchmarks should use
it: somebody who left and somebody who joined later can put their blinded
secrets together, and read what was sent while neither was in the group (A53;
docs/decisions/key-trees.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Final

from maia.errors import ProtocolViolation
from maia.sealing.tree.key_tree import KeyTree, TreeMember
from maia.sealing.tree.node_secrets import NODE_SECRET_BYTES, ROOT, ancestor, level_of, stands_above
from maia.sealing.tree.rekey import Rekey, RekeyEntry, RekeyWriter

__all__ = ["DERIVATIONS", "OftMember", "OftTree"]

_BLIND: Final = b"maia/1/blinded"
_WRAP: Final = b"maia/1/wrapping"
_MIX: Final = b"maia/1/mixed"
_GROUP: Final = b"maia/1/group"

DERIVATIONS: Final = ("blinded", "wrapping_key", "mixed", "group_secret")
"""The functions by which secrets follow from each other."""


def blinded(secret: bytes) -> bytes:
    """Return the blinded form of a node's secret, which the other side of its parent may know."""
    return blake2b(_BLIND, key=secret, digest_size=NODE_SECRET_BYTES).digest()


def wrapping_key(secret: bytes) -> bytes:
    """Return the key under which messages reach those who know a node's secret."""
    return blake2b(_WRAP, key=secret, digest_size=NODE_SECRET_BYTES).digest()


def mixed(*, left: bytes, right: bytes) -> bytes:
    """Return the secret of the node whose children have these blinded secrets."""
    return blake2b(_MIX + right, key=left, digest_size=NODE_SECRET_BYTES).digest()


def group_secret(secret: bytes) -> bytes:
    """Return what the whole group shares, from the secret of the highest node."""
    return blake2b(_GROUP, key=secret, digest_size=NODE_SECRET_BYTES).digest()


class OftTree(KeyTree):
    """The manager's side: the secrets of all nodes, of which only the leaves' are chosen."""

    __slots__ = ()

    def _renew(self, vacated: Sequence[int], placed: Sequence[int], message: RekeyWriter) -> bytes:
        for slot in vacated:
            del self._secrets[slot]
        for slot in placed:
            self._secrets[slot] = self._random(NODE_SECRET_BYTES)
        renewed = set(placed)
        leaves = self._renew_neighbours(vacated, placed, renewed)
        touched, told = renewed | set(vacated), set(placed)
        for level in range(1, self._slots.height + 1):
            above = sorted({index >> 1 for index in touched})
            for index in above:
                self._refold(level, index, (renewed, told), message)
            told = {index for index in above if self._all_told(level, index, told)}
            touched, renewed = set(above), {index >> 1 for index in renewed}
        for slot, old in leaves.items():
            # A leaf is renewed for its own member, in an entry of the root: this tree has no other.
            message.add(ROOT, slot, wrapping_key(old), self._secrets[slot])
        if not len(self._slots):
            return self._random(NODE_SECRET_BYTES)
        return group_secret(self._secrets[self._slots.top(self._slots.height, 0)])

    def _renew_neighbours(
        self, vacated: Sequence[int], placed: Sequence[int], renewed: set[int]
    ) -> dict[int, bytes]:
        """Give a new secret to one leaf beside every change, unless one there has it already.

        Where somebody left, what stands beside moves up, and its blinded secret is
        known to the leaver. Where somebody joins, it moves down, and its former
        neighbour knows its blinded secret.
        """
        beside = [self._beside(slot) for slot in (*vacated, *placed)]
        if not vacated and not placed:
            beside = [(self._slots.height, 0)]
        covered = {place for slot in renewed for place in self._places_above(slot)}
        for place in sorted(place for place in beside if place is not None):
            if place not in covered and len(self._slots):
                slot = self._first_slot(*place)
                renewed.add(slot)
                covered.update(self._places_above(slot))
        old = {slot: self._secrets[slot] for slot in sorted(renewed - set(placed))}
        for slot in old:
            self._secrets[slot] = self._random(NODE_SECRET_BYTES)
        return old

    def _first_slot(self, level: int, index: int) -> int:
        """Return the lowest slot below this place with a member."""
        for lower in range(level - 1, -1, -1):
            index = 2 * index if self._slots.counts[lower][2 * index] else 2 * index + 1
        return index

    def _places_above(self, slot: int) -> Iterator[tuple[int, int]]:
        for level in range(self._slots.height + 1):
            yield level, slot >> level

    def _beside(self, slot: int) -> tuple[int, int] | None:
        """Return the place nearest to `slot` on whose own side of the tree somebody sits, or None."""
        for level in range(self._slots.height):
            index = (slot >> level) ^ 1
            if self._slots.counts[level][index]:
                return level, index
        return None

    def _refold(
        self,
        level: int,
        index: int,
        state: tuple[set[int], set[int]],
        message: RekeyWriter,
    ) -> None:
        """Work one node out again, and tell each side of it what is new on the other."""
        node, slots, (renewed, told) = ancestor(index << level, level), self._slots, state
        children = 2 * index, 2 * index + 1
        if not all(slots.counts[level - 1][child] for child in children):
            if self._secrets.pop(node, None) is not None:
                message.gone.append(node)
            return
        tops = [slots.top(level - 1, child) for child in children]
        left, right = (blinded(self._secrets[top]) for top in tops)
        news = [
            (under, beside)
            for under, beside, child in zip(tops, (right, left), children, strict=True)
            if child ^ 1 in renewed and child not in told
        ]
        for under, beside in sorted(news):
            key = wrapping_key(self._secrets[under])
            message.add(node, under, key, beside)
        self._secrets[node] = mixed(left=left, right=right)

    def _all_told(self, level: int, index: int, told: set[int]) -> bool:
        """Return whether everybody here joins right now, and is handed a path anyway."""
        children = 2 * index, 2 * index + 1
        taken = [child for child in children if self._slots.counts[level - 1][child]]
        return bool(taken) and all(child in told for child in taken)

    def _held_at(self, slot: int) -> tuple[tuple[int, bytes], ...]:
        held = [(slot, self._secrets[slot])]
        for node in self._slots.nodes_above(slot):
            below = level_of(node) - 1
            beside = self._slots.top(below, (slot >> below) ^ 1)
            held.append((node, blinded(self._secrets[beside])))
        return tuple(held)


class OftMember(TreeMember):
    """A member's side: its leaf's secret, and for each node above the blinded secret of the other side."""

    __slots__ = ()

    def _followed(self, rekey: Rekey) -> dict[int, bytes]:
        gone = frozenset(rekey.gone)
        secrets = {node: held for node, held in self._secrets.items() if node not in gone}
        news = {entry.node: entry for entry in rekey.entries if stands_above(entry.under, self._slot)}
        if ROOT in news:
            secrets[self._slot] = self._learned(news.pop(ROOT), secrets[self._slot], rekey)
        secret = secrets[self._slot]
        for node in sorted({*secrets, *news} - {self._slot}):
            if node in news:
                secrets[node] = self._learned(news[node], secret, rekey)
            secret = _folded(self._slot, node, secret, beside=secrets[node])
        return secrets

    def _learned(self, entry: RekeyEntry, secret: bytes, rekey: Rekey) -> bytes:
        return rekey.opened(entry, wrapping_key(secret), self._group)

    def _root_of(self, secrets: dict[int, bytes]) -> bytes:
        if ROOT in secrets:
            raise ProtocolViolation(
                "PROTOCOL-TREE-PATH", "a path of a one-way function tree has a node of its own for the root"
            )
        secret = secrets[self._slot]
        for node in sorted(secrets.keys() - {self._slot}):
            secret = _folded(self._slot, node, secret, beside=secrets[node])
        return group_secret(secret)


def _folded(slot: int, node: int, secret: bytes, *, beside: bytes) -> bytes:
    """Return the secret of `node`, from the one below it on the side of `slot` and the blinded one beside."""
    own, on_the_right = blinded(secret), slot >> (level_of(node) - 1) & 1
    return mixed(left=beside, right=own) if on_the_right else mixed(left=own, right=beside)
