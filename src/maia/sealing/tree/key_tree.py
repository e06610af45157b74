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
    member = member_from_bytes(welcome, group=group)        joiner
    member.apply(broadcast)                                 all others, and later the joiner

A manager that founds the group anew, or forgets a version it has broadcast and
gives the number to another change, is noticed and costs each member a path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import ClassVar, Final, NamedTuple, NoReturn, Self

from maia.credentials import same_secret
from maia.errors import BadInput
from maia.sealing.keys.secrets import Secret
from maia.sealing.tree import node_secrets
from maia.sealing.tree.node_secrets import MEMBERS_MAX, NODE_SECRET_BYTES, NONCE_BYTES, ancestor, stands_above
from maia.sealing.tree.rekey import (
    LINEAGE_BYTES,
    BadPath,
    BadRekey,
    MemberPath,
    PathNeeded,
    Rekey,
    RekeyEntry,
    RekeyWriter,
    Scheme,
    read_path,
    read_rekey,
    rekey_binding,
)

# Which member sits where in a key tree, and which nodes does the tree have?


class Slots:
    """The seats of one tree. `vacate` keeps the height until `shrink`, so old nodes keep a place."""

    __slots__ = ("_counts", "_free", "_slots")

    def __init__(self) -> None:
        self._counts: list[list[int]] = [[0]]  # how many members sit below each node, level by level
        self._free = [0]  # a heap
        self._slots: dict[bytes, int] = {}

    @property
    def capacity(self) -> int:
        return len(self._counts[0])

    @property
    def height(self) -> int:
        """Return how many levels are above the slots."""
        return len(self._counts) - 1

    @property
    def members(self) -> Mapping[bytes, int]:
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

    def nodes_above(self, slot: int) -> list[int]:
        """Return the nodes above the leaf of `slot`, from the lowest; the root is not among them."""
        beside = enumerate(self._counts[:-1])
        return [ancestor(slot, level + 1) for level, counts in beside if counts[slot >> level ^ 1]]

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


GROUP_BYTES_MAX: Final = 1024
MEMBER_BYTES_MAX: Final = 255

Random = Callable[[int], bytes]


class BadMember(BadInput):
    """A member joins a group it is in, leaves one it is not in, or has a name that cannot be kept."""

    code = "SEALING-MEMBER"


class GroupFull(BadInput):
    """A group would have more members than a key tree holds."""

    code = "SEALING-GROUP-FULL"


class SlotChange(NamedTuple):
    """Which slots of a tree were freed and filled in one change; one slot may be both."""

    vacated: list[int]
    placed: list[int]


@dataclass(frozen=True, slots=True)
class Rekeyed:
    """One change of the group: the broadcast, and what each joiner receives."""

    version: int
    broadcast: bytes
    welcomes: Mapping[bytes, MemberPath] = field(repr=False)
    root: bytes = field(repr=False)

    @property
    def secret(self) -> Secret:
        """Return what the members share from this change on."""
        return Secret.from_bytes(self.root)


class _Side(ABC):
    """What manager and members have of one group."""

    __slots__ = ("_confirmation", "_group", "_lineage", "_root", "_secrets", "_version")

    scheme: ClassVar[Scheme]
    _confirmation: bytes
    _root: bytes
    _secrets: dict[int, bytes]
    _version: int

    @property
    def version(self) -> int:
        """Return the number of the last change that was made or followed."""
        return self._version

    @property
    def confirmation(self) -> bytes:
        """Return the public mark of the group's secret: members compare it, and learn nothing from it."""
        return self._confirmation

    @property
    def secret(self) -> Secret:
        """Return what the members of this moment share."""
        return Secret.from_bytes(self._root)

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: secrets are not written by accident."""
        raise TypeError("a key tree, or a member of one, cannot be pickled or copied")


class KeyTree(_Side):
    """The manager's side of one group. It changes by `rekey` alone, which does all or nothing."""

    __slots__ = ("_random", "_slots")

    def __init__(self, *, group: bytes, random: Random) -> None:
        if len(group) > GROUP_BYTES_MAX:
            raise BadMember(f"the name of a group has at most {GROUP_BYTES_MAX} bytes")
        self._group, self._random = group, random
        self._slots = Slots()
        self._secrets = {}
        self._lineage = random(LINEAGE_BYTES)
        self._adopt(0, random(NODE_SECRET_BYTES))

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, member: bytes) -> bool:
        return member in self._slots.members

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

    def rekey(self, *, joins: Iterable[bytes] = (), leaves: Iterable[bytes] = ()) -> Rekeyed:
        """Change the members and the secret in one broadcast. Who leaves and joins at once begins anew."""
        joining, leaving = tuple(joins), tuple(leaves)
        self._check(joining, leaving)
        vacated = [self._slots.vacate(member) for member in leaving]
        placed = [self._slots.place(member) for member in joining]
        message = RekeyWriter(
            self.scheme,
            group=self._group,
            lineage=self._lineage,
            version=self._version + 1,
            nonce=self._random(NONCE_BYTES),
        )
        gone: list[int] = []
        root = self._renew(SlotChange(vacated, placed), message, gone)
        self._slots.shrink()
        previous = self._confirmation
        self._adopt(self._version + 1, root)
        broadcast = message.finish(gone=gone, previous=previous, confirmation=self._confirmation)
        welcomes = {member: self.path(member) for member in joining}
        return Rekeyed(self._version, broadcast, welcomes, root)

    def path(self, member: bytes) -> MemberPath:
        """Return what `member` holds of the tree now: for a joiner, or for one that missed a message."""
        slot = self._slots.members.get(member)
        if slot is None:
            raise BadMember("the path of a key tree was requested for a principal outside the group")
        held = self._held_at(slot)
        return MemberPath(self.scheme, self._lineage, self._version, self._confirmation, slot, held)

    @abstractmethod
    def _renew(self, change: SlotChange, message: RekeyWriter, gone: list[int]) -> bytes:
        """Renew what the change touches, tell it in `message` and `gone`, and return the new secret."""

    @abstractmethod
    def _held_at(self, slot: int) -> tuple[tuple[int, bytes], ...]:
        """Return the secrets that the member in `slot` holds, from its leaf up."""

    def _adopt(self, version: int, root: bytes) -> None:
        self._version, self._root = version, root
        self._confirmation = node_secrets.confirmation(root, self._group, version)

    def _check(self, joining: tuple[bytes, ...], leaving: tuple[bytes, ...]) -> None:
        seated, left = self._slots.members, set(leaving)
        if len(set(joining)) < len(joining) or len(left) < len(leaving):
            raise BadMember("a member joins or leaves a group twice in one change")
        for member in leaving:
            if member not in seated:
                raise BadMember("a principal leaves a group without being in it")
        for member in joining:
            if member in seated and member not in left:
                raise BadMember("a member joins a group and is in it already")
            if not 0 < len(member) <= MEMBER_BYTES_MAX:
                raise BadMember(f"a member of a group is named by 1 to {MEMBER_BYTES_MAX} bytes")
        if len(seated) - len(leaving) + len(joining) > MEMBERS_MAX:
            raise GroupFull(f"a group has at most {MEMBERS_MAX} members")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(members={len(self)}, version={self._version})"


class TreeMember(_Side):
    """A member's side of one group: its place in the tree, and the group's secret."""

    __slots__ = ("_slot",)

    def __init__(self, *, group: bytes, path: MemberPath) -> None:
        """Take the place that `path` gives. Raises `BadPath` unless it fits the group."""
        if path.scheme is not self.scheme:
            raise BadPath("a path of a key tree is of another kind of tree")
        self._group, self._slot = group, path.slot
        self._lineage, self._version = path.lineage, path.version
        self._confirmation, self._secrets = path.confirmation, dict(path.secrets)
        self._root = self._root_of(self._secrets)
        found = node_secrets.confirmation(self._root, group, path.version)
        if not same_secret(found, path.confirmation):
            raise BadPath("a path of a key tree does not lead to the secret of this group")

    @classmethod
    def from_bytes(cls, data: bytes, *, group: bytes) -> Self:
        """Take the place that these bytes give: a path from the manager, or what `to_bytes` wrote."""
        return cls(group=group, path=read_path(data))

    def to_bytes(self) -> bytes:
        """Write all that this member holds, secrets included, for a key store."""
        held = tuple(sorted(self._secrets.items()))
        path = MemberPath(self.scheme, self._lineage, self._version, self._confirmation, self._slot, held)
        return path.to_bytes()

    def apply(self, broadcast: bytes) -> Secret | None:
        """Follow one change and return the new secret; None when it is old news.

        Raises `PathNeeded`, and stays as it is, when the change does not follow
        from what is held here: messages were lost or overtook each other, the
        manager began anew, or this member was put out. Raises `BadRekey` on
        anything that is no rekey of this kind of tree.
        """
        rekey = read_rekey(broadcast)
        if rekey.scheme is not self.scheme:
            raise BadRekey("a rekey message is of another kind of tree")
        if self._is_old(rekey):
            return None
        secrets, root = self._followed(rekey)
        found = node_secrets.confirmation(root, self._group, rekey.version)
        if not same_secret(found, rekey.confirmation):
            raise PathNeeded(f"change {rekey.version} of a key group leads to another secret than announced")
        self._secrets, self._root = secrets, root
        self._version, self._confirmation = rekey.version, rekey.confirmation
        return self.secret

    def _is_old(self, rekey: Rekey) -> bool:
        known, announced = self._version, rekey.version
        if rekey.lineage != self._lineage:
            raise PathNeeded(f"change {announced} of a key group belongs to a group that was founded anew")
        if announced < known or (announced == known and rekey.confirmation == self._confirmation):
            return True
        if announced != known + 1 or rekey.previous != self._confirmation:
            raise PathNeeded(
                f"change {announced} of a key group does not follow on change {known}, the last known"
            )
        return False

    def _opened(self, entry: RekeyEntry, key: bytes | None, rekey: Rekey) -> bytes:
        binding = rekey_binding(self.scheme, group=self._group, lineage=rekey.lineage, version=rekey.version)
        opened = key and node_secrets.unwrap(key, rekey.nonce, entry.wrapped, binding + entry.pair)
        if not opened:
            raise PathNeeded(
                f"change {rekey.version} of a key group cannot be opened with the keys held here"
            )
        return opened

    def _entries_here(self, rekey: Rekey) -> list[RekeyEntry]:
        """Return the entries about nodes above this member, from the lowest."""
        return [entry for entry in rekey.entries if stands_above(entry.node, self._slot)]

    @abstractmethod
    def _followed(self, rekey: Rekey) -> tuple[dict[int, bytes], bytes]:
        """Return the secrets after `rekey` and the group's own, or raise `PathNeeded`."""

    @abstractmethod
    def _root_of(self, secrets: dict[int, bytes]) -> bytes:
        """Return the group's secret, or raise `BadPath` when `secrets` have none."""

    def __repr__(self) -> str:
        """Show the position of the member, and nothing of what it holds."""
        return f"{type(self).__name__}(slot={self._slot}, version={self._version})"
