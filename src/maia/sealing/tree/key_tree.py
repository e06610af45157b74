"""Which members share a group's secret, and how do they learn the next one at little cost?

The manager of a key group asks a `KeyTree`, every member a `TreeMember`
(dissertation 7.6.1). A change of any number of joins and leaves is one
broadcast that grows with the logarithm of the group. Those who left cannot
open it; those who join are handed a path that opens nothing older. A member
that missed a message notices, says so with `PathNeeded`, and is well again
with its path of the moment. Members that agree on `version` and
`confirmation` share the same secret.

    change = tree.rekey(joins=[broker], leaves=[other])     manager: save, then send
    change.broadcast                                        the same bytes to all members
    change.welcomes[broker].to_bytes()                      to be sealed to that member
    member = TreeMember.from_bytes(welcome, group=group)    joiner
    member.apply(broadcast)                                 all others, and later the joiner

A manager that founds the group anew, or forgets a version it has broadcast and
gives the number to another change, is noticed and costs each member a path.

The tree is a logical key hierarchy: every node has a key of its own, known to
the members below it. A change renews the nodes above the member that comes or
goes, from the lowest up. The secret of the next node follows from the secret of
the one below by a one-way step, so each node needs one wrapped secret, for the
side that did not change: as many bytes as the papers' one-way function tree
takes. Unlike there, a renewed node depends on nothing that was known before, so
those who left and those who joined later have nothing to put together (A53;
docs/decisions/key-trees.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Final, NoReturn, Self

from maia.credentials import same_secret
from maia.errors import BadInput, ProtocolViolation
from maia.sealing.keys.secrets import Secret
from maia.sealing.tree import node_secrets
from maia.sealing.tree.node_secrets import (
    MEMBERS_MAX,
    NODE_SECRET_BYTES,
    NONCE_BYTES,
    ROOT,
    ancestor,
    stands_above,
)
from maia.sealing.tree.rekey import (
    LINEAGE_BYTES,
    MemberPath,
    PathNeeded,
    Rekey,
    RekeyWriter,
    read_path,
    read_rekey,
)

GROUP_BYTES_MAX: Final = 1024
MEMBER_BYTES_MAX: Final = 255


class Slots:
    """The seats of one tree. `vacate` keeps the height until `shrink`, so old nodes keep a place."""

    __slots__ = ("_free", "counts", "members")

    def __init__(self) -> None:
        self.counts: list[list[int]] = [[0]]
        """How many members sit below each place, level by level."""
        self.members: dict[bytes, int] = {}
        self._free = [0]  # a heap

    @property
    def capacity(self) -> int:
        return len(self.counts[0])

    @property
    def height(self) -> int:
        """Return how many levels are above the slots."""
        return len(self.counts) - 1

    def __len__(self) -> int:
        return len(self.members)

    def place(self, member: bytes) -> int:
        """Give `member` the lowest free slot and return it."""
        if not self._free:
            self._grow()
        slot = heappop(self._free)
        self._seat(member, slot)
        return slot

    def vacate(self, member: bytes) -> int:
        slot = self.members.pop(member)
        heappush(self._free, slot)
        self._count(slot, -1)
        return slot

    def shrink(self) -> None:
        """Halve the tree while its members fit a quarter of it and the upper half is empty."""
        before = self.height
        while self.height and len(self.members) <= self.capacity // 4 and not self.counts[-2][1]:
            self.counts.pop()
            for level, counts in enumerate(self.counts):
                del counts[1 << (self.height - level) :]
        if self.height < before:
            self._free = [slot for slot in self._free if slot < self.capacity]
            heapify(self._free)

    def top(self, level: int, index: int) -> int:
        """Return the highest node at or below this place, where a member is."""
        counts = self.counts
        while level:
            below, left = counts[level - 1], 2 * index
            if below[left] and below[left + 1]:
                break
            level, index = level - 1, left if below[left] else left + 1
        return level << 24 | index

    def nodes_above(self, slot: int) -> list[int]:
        """Return the nodes above the leaf of `slot`, from the lowest; the root is not among them."""
        beside = enumerate(self.counts[:-1])
        return [ancestor(slot, level + 1) for level, counts in beside if counts[slot >> level ^ 1]]

    def _seat(self, member: bytes, slot: int) -> None:
        self.members[member] = slot
        self._count(slot, 1)

    def _count(self, slot: int, change: int) -> None:
        for counts in self.counts:
            counts[slot] += change
            slot >>= 1

    def _grow(self) -> None:
        self._free.extend(range(self.capacity, 2 * self.capacity))
        for counts in self.counts:
            counts.extend([0] * len(counts))
        self.counts.append([len(self.members)])


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """One change of the group: the broadcast, and what each joiner receives."""

    version: int
    broadcast: bytes
    welcomes: Mapping[bytes, MemberPath] = field(repr=False)
    secret: Secret = field(repr=False)
    """What the members share from this change on."""


class _Side:
    """What manager and members have of one group."""

    __slots__ = ("_group", "_lineage", "_root", "_secrets", "confirmation", "version")

    _root: bytes
    _secrets: dict[int, bytes]
    version: int
    """The number of the last change that was made or followed."""
    confirmation: bytes
    """The public mark of the group's secret: members compare it, and learn nothing from it."""

    @property
    def secret(self) -> Secret:
        """Return what the members of this moment share."""
        return Secret.from_bytes(self._root)

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: secrets are not written by accident."""
        raise TypeError("a key tree, or a member of one, cannot be pickled or copied")


# What happened below one place in a change, and the path secret that leads to the next node above it.
# JOINING: all members there join right now, and receive a path, so no entry is needed.
_Below = tuple[int, bytes]
_UNTOUCHED: Final = 0
_RENEWED: Final = 1
_JOINING: Final = 2
_SAME: Final[_Below] = (_UNTOUCHED, b"")


class KeyTree(_Side):
    """The manager's side of one group: a key for every node, the root's being the group's secret.

    It changes by `rekey` alone, which does all or nothing.
    """

    __slots__ = ("_random", "_slots")

    def __init__(self, *, group: bytes, random: Callable[[int], bytes]) -> None:
        if len(group) > GROUP_BYTES_MAX:
            raise BadInput("SEALING-MEMBER", f"the name of a group has at most {GROUP_BYTES_MAX} bytes")
        self._group, self._random = group, random
        self._slots = Slots()
        self._secrets = {}
        self._lineage = random(LINEAGE_BYTES)
        self._adopt(0, random(NODE_SECRET_BYTES))

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, member: bytes) -> bool:
        return member in self._slots.members

    def rekey(self, *, joins: Sequence[bytes] = (), leaves: Sequence[bytes] = ()) -> Rekeyed:
        """Change the members and the secret in one broadcast. Who leaves and joins at once begins anew."""
        self._check(joins, leaves)
        vacated = [self._slots.vacate(member) for member in leaves]
        placed = [self._slots.place(member) for member in joins]
        version, nonce = self.version + 1, self._random(NONCE_BYTES)
        message = RekeyWriter(group=self._group, lineage=self._lineage, version=version, nonce=nonce)
        root = self._renew(vacated, placed, message)
        self._slots.shrink()
        previous = self.confirmation
        self._adopt(version, root)
        broadcast = message.finish(previous=previous, confirmation=self.confirmation)
        return Rekeyed(version, broadcast, {member: self.path(member) for member in joins}, self.secret)

    def path(self, member: bytes) -> MemberPath:
        """Return what `member` holds of the tree now: for a joiner, or for one that missed a message."""
        slot = self._slots.members.get(member)
        if slot is None:
            raise BadInput(
                "SEALING-MEMBER", "the path of a key tree was requested for a principal outside the group"
            )
        return MemberPath(self._lineage, self.version, self.confirmation, slot, self._held_at(slot))

    def _renew(self, vacated: Iterable[int], placed: Iterable[int], message: RekeyWriter) -> bytes:
        """Renew what the change touches, tell it in `message`, and return the new secret."""
        touched: dict[int, _Below] = {}
        for slot in vacated:
            del self._secrets[slot]
            touched[slot] = _SAME
        for slot in placed:
            self._secrets[slot], following = node_secrets.step(self._random(NODE_SECRET_BYTES))
            touched[slot] = _JOINING, following
        level = 0
        while len(touched) > 1:
            level += 1
            above = sorted({index >> 1 for index in touched})
            touched = {index: self._renewed(level, index, touched, message) for index in above}
        state, path_secret = _SAME
        for index, below in touched.items():
            state, path_secret = self._climbed(level, index, below, message)
        if state == _UNTOUCHED:
            path_secret = self._random(NODE_SECRET_BYTES)
            if len(self._slots):
                top = self._slots.top(self._slots.height, 0)
                message.add(ROOT, top, self._secrets[top], path_secret)
        return node_secrets.step(path_secret)[0]

    def _renewed(self, level: int, index: int, touched: dict[int, _Below], message: RekeyWriter) -> _Below:
        """Renew one place with changes below it. It is a node if members sit on both sides of it."""
        node, left, right = level << 24 | index, 2 * index, 2 * index + 1
        one, other = touched.get(left, _SAME), touched.get(right, _SAME)
        taken, secrets = self._slots.counts[level - 1], self._secrets
        if not (taken[left] and taken[right]):
            if secrets.pop(node, None) is not None:
                message.gone.append(node)
            return one if taken[left] else other
        # The side where most happened leads here by itself. Joiners come first, for they read no entry.
        leads, follows, side = (one, other, right) if one[0] >= other[0] else (other, one, left)
        state, path_secret = leads
        top, unders = self._slots.top, []
        if state == _UNTOUCHED:
            path_secret, unders = (
                self._random(NODE_SECRET_BYTES),
                [top(level - 1, left), top(level - 1, right)],
            )
        elif follows[0] != _JOINING:
            unders = [top(level - 1, side)]
        for under in sorted(unders):
            message.add(node, under, secrets[under], path_secret)
        secrets[node], following = node_secrets.step(path_secret)
        return follows[0] or _RENEWED, following

    def _climbed(self, level: int, index: int, below: _Below, message: RekeyWriter) -> _Below:
        """Renew the places above the only one with changes. Most changes are this loop alone."""
        slots, secrets, (state, path_secret) = self._slots, self._secrets, below
        for lower, taken in enumerate(slots.counts[level:-1], level):
            own, beside = index, index ^ 1
            index >>= 1
            node = lower + 1 << 24 | index
            if not (taken[own] and taken[beside]):
                if secrets.pop(node, None) is not None:
                    message.gone.append(node)
                continue
            unders = [slots.top(lower, beside)]
            if state == _UNTOUCHED:
                path_secret, state = self._random(NODE_SECRET_BYTES), _RENEWED
                unders = sorted([*unders, slots.top(lower, own)])
            for under in unders:
                message.add(node, under, secrets[under], path_secret)
            secrets[node], path_secret = node_secrets.step(path_secret)
        return state, path_secret

    def _held_at(self, slot: int) -> tuple[tuple[int, bytes], ...]:
        """Return the secrets that the member in `slot` holds, from its leaf up."""
        held = [(node, self._secrets[node]) for node in (slot, *self._slots.nodes_above(slot))]
        return (*held, (ROOT, self._root))

    def _adopt(self, version: int, root: bytes) -> None:
        self.version, self._root = version, root
        self.confirmation = node_secrets.confirmation(root, self._group, version)

    def _check(self, joining: Sequence[bytes], leaving: Sequence[bytes]) -> None:
        seated, left = self._slots.members, set(leaving)
        if len(set(joining)) < len(joining) or len(left) < len(leaving):
            raise BadInput("SEALING-MEMBER", "a member joins or leaves a group twice in one change")
        if not left <= seated.keys():
            raise BadInput("SEALING-MEMBER", "a principal leaves a group without being in it")
        for member in joining:
            if member in seated and member not in left:
                raise BadInput("SEALING-MEMBER", "a member joins a group and is in it already")
            if not 0 < len(member) <= MEMBER_BYTES_MAX:
                raise BadInput(
                    "SEALING-MEMBER", f"a member of a group is named by 1 to {MEMBER_BYTES_MAX} bytes"
                )
        if len(seated) - len(leaving) + len(joining) > MEMBERS_MAX:
            raise BadInput("SEALING-GROUP-FULL", f"a group has at most {MEMBERS_MAX} members")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(members={len(self)}, version={self.version})"


class TreeMember(_Side):
    """A member's side: its place in the tree, and the keys from its leaf up to the root."""

    __slots__ = ("_slot",)

    def __init__(self, *, group: bytes, path: MemberPath) -> None:
        """Take the place that `path` gives. Raises `PROTOCOL-TREE-PATH` unless it fits the group."""
        self._group, self._slot = group, path.slot
        self._lineage, self.version, self.confirmation = path.lineage, path.version, path.confirmation
        self._secrets = dict(path.secrets)
        self._root = self._root_of(self._secrets)
        found = node_secrets.confirmation(self._root, group, path.version)
        if not same_secret(found, path.confirmation):
            raise ProtocolViolation(
                "PROTOCOL-TREE-PATH", "a path of a key tree does not lead to the secret of this group"
            )

    @classmethod
    def from_bytes(cls, data: bytes, *, group: bytes) -> Self:
        """Take the place that these bytes give: a path from the manager, or what `to_bytes` wrote."""
        return cls(group=group, path=read_path(data))

    def to_bytes(self) -> bytes:
        """Write all that this member holds, secrets included, for a key store."""
        held = tuple(sorted(self._secrets.items()))
        return MemberPath(self._lineage, self.version, self.confirmation, self._slot, held).to_bytes()

    def apply(self, broadcast: bytes) -> Secret | None:
        """Follow one change and return the new secret; None when it is old news.

        Raises `PathNeeded`, and stays as it is, when the change does not follow
        from what is held here: messages were lost or overtook each other, the
        manager began anew, or this member was put out. Raises `PROTOCOL-REKEY` on
        anything that is no rekey.
        """
        rekey = read_rekey(broadcast)
        if self._is_old(rekey):
            return None
        secrets = self._followed(rekey)
        root = self._root_of(secrets)
        found = node_secrets.confirmation(root, self._group, rekey.version)
        if not same_secret(found, rekey.confirmation):
            raise PathNeeded(f"change {rekey.version} of a key group leads to another secret than announced")
        self._secrets, self._root = secrets, root
        self.version, self.confirmation = rekey.version, rekey.confirmation
        return self.secret

    def _is_old(self, rekey: Rekey) -> bool:
        known, announced = self.version, rekey.version
        if rekey.lineage != self._lineage:
            raise PathNeeded(f"change {announced} of a key group belongs to a group that was founded anew")
        if announced < known or (announced == known and rekey.confirmation == self.confirmation):
            return True
        if announced != known + 1 or rekey.previous != self.confirmation:
            raise PathNeeded(
                f"change {announced} of a key group does not follow on change {known}, the last known"
            )
        return False

    def _followed(self, rekey: Rekey) -> dict[int, bytes]:
        """Return the secrets after `rekey`, or raise `PathNeeded`."""
        gone = frozenset(rekey.gone)
        secrets = {node: key for node, key in self._secrets.items() if node not in gone}
        following: bytes | None = None
        here = [entry for entry in rekey.entries if stands_above(entry.node, self._slot)]
        for node in dict.fromkeys([*(entry.node for entry in here), ROOT]):
            entry = next((e for e in here if e.node == node and stands_above(e.under, self._slot)), None)
            # No entry for our side means that our side was renewed just now, and leads here by itself.
            if entry is not None:
                following = rekey.opened(entry, secrets.get(entry.under), self._group)
            if following is None:
                raise PathNeeded(f"change {rekey.version} of a key group leaves this member out")
            secrets[node], following = node_secrets.step(following)
        return secrets

    def _root_of(self, secrets: dict[int, bytes]) -> bytes:
        if ROOT not in secrets:
            raise ProtocolViolation("PROTOCOL-TREE-PATH", "a path of a key tree does not reach the root")
        return secrets[ROOT]

    def __repr__(self) -> str:
        """Show the position of the member, and nothing of what it holds."""
        return f"{type(self).__name__}(slot={self._slot}, version={self.version})"
