"""How does a group share a secret when a member may learn only what it was a member for? (LKH)

This is the tree that key groups use. Every node has a key of its own, known
to the members below it (logical key hierarchy). A change renews the nodes
above the member that comes or goes, from the lowest up. The secret of the next node
follows from the secret of the one below by a one-way step, so each node needs
one wrapped secret, for the side that did not change: as many bytes as OFT
takes. Unlike there, a renewed node depends on nothing that was known before,
so those who left and those who joined later have nothing to put together
(A53; docs/decisions/key-trees.md).
"""

from __future__ import annotations

from typing import Final

from maia.sealing.tree import node_secrets
from maia.sealing.tree.key_tree import KeyTree, SlotChange, TreeMember
from maia.sealing.tree.node_secrets import NODE_SECRET_BYTES, ROOT, ancestor, stands_above
from maia.sealing.tree.rekey import BadPath, PathNeeded, Rekey, RekeyWriter, Scheme

# What happened below one place in a change, and the path secret that leads to the next node above it.
# JOINING: all members there join right now, and receive a path, so no entry is needed.
_Below = tuple[int, bytes]
_UNTOUCHED: Final = 0
_RENEWED: Final = 1
_JOINING: Final = 2
_SAME: Final[_Below] = (_UNTOUCHED, b"")


class LkhTree(KeyTree):
    """The manager's side: a key for every node, the root's being the group's secret."""

    __slots__ = ()

    scheme = Scheme.LKH

    def _renew(self, change: SlotChange, message: RekeyWriter, gone: list[int]) -> bytes:
        touched = self._renewed_leaves(change)
        level = 0
        while len(touched) > 1:
            level += 1
            above = sorted({index >> 1 for index in touched})
            touched = {index: self._renewed(level, index, touched, message, gone) for index in above}
        for index, below in touched.items():
            return self._renewed_root(self._climbed(level, index, below, message, gone), message)
        return self._renewed_root(_SAME, message)

    def _renewed_leaves(self, change: SlotChange) -> dict[int, _Below]:
        touched: dict[int, _Below] = {}
        for slot in change.vacated:
            del self._secrets[slot]
            touched[slot] = _SAME
        for slot in change.placed:
            self._secrets[slot], following = node_secrets.step(self._random(NODE_SECRET_BYTES))
            touched[slot] = _JOINING, following
        return touched

    def _renewed(
        self, level: int, index: int, touched: dict[int, _Below], message: RekeyWriter, gone: list[int]
    ) -> _Below:
        """Renew one place with changes below it. It is a node if members sit on both sides of it."""
        node, left, right = ancestor(index << level, level), 2 * index, 2 * index + 1
        one, other = touched.get(left, _SAME), touched.get(right, _SAME)
        taken = self._slots.counts[level - 1]
        if not (taken[left] and taken[right]):
            if self._secrets.pop(node, None) is not None:
                gone.append(node)
            return one if taken[left] else other
        # The side where most happened leads here by itself. Joiners come first, for they read no entry.
        leads, follows, sides = (one, other, [right]) if one[0] >= other[0] else (other, one, [left])
        state, path_secret = leads
        if state == _UNTOUCHED:
            path_secret, sides = self._random(NODE_SECRET_BYTES), [left, right]
        if follows[0] != _JOINING:
            self._tell(node, path_secret, [self._slots.top(level - 1, side) for side in sides], message)
        self._secrets[node], following = node_secrets.step(path_secret)
        return follows[0] or _RENEWED, following

    def _climbed(
        self, level: int, index: int, below: _Below, message: RekeyWriter, gone: list[int]
    ) -> _Below:
        """Renew the places above the only one with changes. Most changes are this loop alone."""
        slots, secrets, (state, path_secret) = self._slots, self._secrets, below
        add, step = message.add, node_secrets.step
        for lower, taken in enumerate(slots.counts[level:-1], level):
            own, beside = index, index ^ 1
            index >>= 1
            node = lower + 1 << 24 | index
            if not (taken[own] and taken[beside]):
                if secrets.pop(node, None) is not None:
                    gone.append(node)
                continue
            if state == _UNTOUCHED:
                path_secret, state = self._random(NODE_SECRET_BYTES), _RENEWED
                self._tell(node, path_secret, [slots.top(lower, own), slots.top(lower, beside)], message)
            else:
                under = lower << 24 | beside
                key = secrets.get(under)
                if key is None:
                    under = slots.top(lower, beside)
                    key = secrets[under]
                add(node, under, key, path_secret)
            secrets[node], path_secret = step(path_secret)
        return (state and _RENEWED), path_secret

    def _tell(self, node: int, path_secret: bytes, unders: list[int], message: RekeyWriter) -> None:
        for under in sorted(unders):
            message.add(node, under, self._secrets[under], path_secret)

    def _renewed_root(self, below: _Below, message: RekeyWriter) -> bytes:
        state, path_secret = below
        if state == _UNTOUCHED:
            path_secret = self._random(NODE_SECRET_BYTES)
            if len(self._slots):
                top = self._slots.top(self._slots.height, 0)
                message.add(ROOT, top, self._secrets[top], path_secret)
        root, _ = node_secrets.step(path_secret)
        return root

    def _held_at(self, slot: int) -> tuple[tuple[int, bytes], ...]:
        secrets = self._secrets
        above = [(node, secrets[node]) for node in self._slots.nodes_above(slot)]
        return ((slot, secrets[slot]), *above, (ROOT, self._root))


class LkhMember(TreeMember):
    """A member's side: the keys of its leaf, of the nodes above it, and of the root."""

    __slots__ = ()

    scheme = Scheme.LKH

    def _followed(self, rekey: Rekey) -> tuple[dict[int, bytes], bytes]:
        gone = frozenset(rekey.gone)
        secrets = {node: key for node, key in self._secrets.items() if node not in gone}
        following: bytes | None = None
        here = self._entries_here(rekey)
        for node in dict.fromkeys([*(entry.node for entry in here), ROOT]):
            entry = next((e for e in here if e.node == node and stands_above(e.under, self._slot)), None)
            # No entry for our side means that our side was renewed just now, and leads here by itself.
            path_secret = following if entry is None else self._opened(entry, secrets.get(entry.under), rekey)
            if path_secret is None:
                raise PathNeeded(f"change {rekey.version} of a key group leaves this member out")
            secrets[node], following = node_secrets.step(path_secret)
        return secrets, secrets[ROOT]

    def _root_of(self, secrets: dict[int, bytes]) -> bytes:
        if ROOT not in secrets:
            raise BadPath("a path of a key tree does not reach the root")
        return secrets[ROOT]
