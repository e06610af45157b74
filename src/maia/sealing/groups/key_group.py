"""What does the manager hold of one key group?

The secrets it has issued, newest last, with the moments between which each
was in use; who was handed the newest one; and the key tree that carries the
next one to them. The manager of the type decides when; this is the what.

Which readers share a key, the owner of a type chooses: one group for whole events, or one for each
attribute and one for the type itself (dissertation 7.6). Code that seals, opens
or hands out keys names a group in this one way. No two types and no two
attributes share a group, and so none share a key (A48).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from maia.credentials import Principal
from maia.errors import BadInput
from maia.events import INSTANT_MAX, SECOND, AttributeUid, Instant
from maia.sealing.keys.secrets import Secret
from maia.sealing.tree.key_tree import KeyTree, Rekeyed

TYPE_ID_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class GroupId:
    """The readers of one attribute of a type; with `uid` None, all who publish or subscribe to it at all."""

    type_id: bytes
    uid: AttributeUid | None = None

    def __post_init__(self) -> None:
        if len(self.type_id) != TYPE_ID_BYTES:
            raise BadInput("SEALING-GROUP", f"the id of a type has {TYPE_ID_BYTES} bytes")

    @property
    def order(self) -> tuple[bool, str]:
        """Return the place of the group among those of its type: the type's own comes first."""
        return (self.uid is not None, self.uid or "")

    def __str__(self) -> str:
        """Name the group as logs do: the beginning of the type's id, and the attribute."""
        return f"{self.type_id.hex()[:12]}/{self.uid or '*'}"


class Issued(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One secret of a group: from which moment and epoch on, and when another one took its place."""

    since: Instant
    replaced_in: int | None
    replaced_at: Instant | None
    secret: Secret
    epoch: int = 0
    """It is kept under this number, and written without it."""

    def over_at(self, drift_s: int) -> Instant | None:
        """Return the first moment at which nothing sealed with it may be opened any more."""
        if self.replaced_at is None:
            return None
        return Instant(min(INSTANT_MAX, self.replaced_at + drift_s * SECOND + 1))

    def is_of(self, epoch: int) -> bool:
        """Return whether it was in use in an epoch."""
        return self.epoch <= epoch and (self.replaced_in is None or epoch < self.replaced_in)


class KeyGroup:
    """One group: its secrets, its holders and its tree."""

    __slots__ = ("_moved", "holders", "id", "issued", "tree", "was_used")

    def __init__(self, group: GroupId, random: Callable[[int], bytes]) -> None:
        """Begin an empty group, without a secret."""
        self.id = group
        self.issued: list[Issued] = []
        self.holders: set[Principal] = set()
        """Who was handed the newest secret, whether still here or not."""
        self.was_used = False
        """Whether any member ever received the newest secret."""
        self.tree = KeyTree(group=group_name(group), random=random)
        self._moved: set[Principal] = set()
        """Whose place in the tree may be another from the next refresh on."""

    @property
    def current(self) -> Issued | None:
        return self.issued[-1] if self.issued else None

    def admit(self, member: Principal) -> None:
        """Add a member, or remember a holder; a present one enters the tree with the next refresh."""
        self.holders.add(member)
        self._moved.add(member)
        self.was_used = True

    def part(self, member: Principal) -> None:
        """Note that a member has left, which keeps the newest secret; the next one is not for it."""
        self._moved.add(member)

    def expel(self, member: Principal) -> None:
        """Evict a member. The caller sees to it that the secret is refreshed."""
        self.holders.discard(member)
        self._moved.add(member)

    def refresh(
        self, *, epoch: int, since: Instant, is_here: Callable[[Principal], bool]
    ) -> tuple[Rekeyed, frozenset[Principal]]:
        """Replace the secret by one for those who are here; return also who was left behind."""
        dropped = frozenset(one for one in self._moved & self.holders if not is_here(one))
        self.holders -= dropped
        joins = sorted(one.key for one in self._moved & self.holders if one.key not in self.tree)
        leaves = sorted(one.key for one in self._moved - self.holders if one.key in self.tree)
        self._moved.clear()
        rekeyed = self.tree.rekey(joins=joins, leaves=leaves)
        self.was_used = bool(self.holders)
        if self.current is not None:
            self.current.replaced_in, self.current.replaced_at = epoch, since
        self.issued.append(Issued(since, None, None, rekeyed.secret, epoch))
        return rekeyed, dropped

    def path(self, member: Principal) -> bytes | None:
        """Return what a member holds of the tree; None if it waits for the next refresh to be taken in."""
        return self.tree.path(member.key).to_bytes() if member.key in self.tree else None

    def take_over(self, now: Instant, drift_s: int) -> list[Issued]:
        """Take out, and return, the secrets with which nothing may be opened any more."""
        over = [one for one in self.issued if (at := one.over_at(drift_s)) is not None and at <= now]
        self.issued = [one for one in self.issued if one not in over]
        return over


def group_name(group: GroupId) -> bytes:
    """Return the bytes by which a group's tree is bound to it."""
    return group.type_id + (b"" if group.uid is None else b"/" + group.uid.encode())
