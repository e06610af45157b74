"""What does the manager hold of one key group?

The secrets it has issued, newest last, with the moments between which each
was in use; who was handed the newest one; and the key tree that carries the
next one to them. The manager of the type decides when; this is the what.

Which readers share a key?

The owner of a type chooses: one group for whole events, or one for each
attribute and one for the type itself (dissertation 7.6). Code that seals, opens
or hands out keys names a group in this one way. No two types and no two
attributes share a group, and so none share a key (A48).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import Principal
from maia.errors import BadInput
from maia.events import INSTANT_MAX, SECOND, AttributeUid, Instant
from maia.sealing.keys.secrets import Secret
from maia.sealing.tree.key_tree import KeyTree, Rekeyed

TYPE_ID_BYTES: Final = 32


class BadGroup(BadInput):
    """A key group is named by something that is not the id of a type."""

    code = "SEALING-GROUP"


@dataclass(frozen=True, slots=True)
class GroupId:
    """The readers of one attribute of a type; with `uid` None, all who publish or subscribe to it at all."""

    type_id: bytes
    uid: AttributeUid | None = None

    def __post_init__(self) -> None:
        if len(self.type_id) != TYPE_ID_BYTES:
            raise BadGroup(f"the id of a type has {TYPE_ID_BYTES} bytes")

    @property
    def order(self) -> tuple[bool, str]:
        """Return the place of the group among those of its type: the type's own comes first."""
        return (self.uid is not None, self.uid or "")

    def __str__(self) -> str:
        """Name the group as logs do: the beginning of the type's id, and the attribute."""
        return f"{self.type_id.hex()[:12]}/{self.uid or '*'}"


@dataclass(slots=True)
class Issued:
    """One secret of a group: from which epoch and moment on, and when another one took its place."""

    epoch: int
    since: Instant
    secret: Secret = field(repr=False)
    replaced_in: int | None = None
    replaced_at: Instant | None = None

    def over_at(self, drift_s: int) -> Instant | None:
        """Return the first moment at which nothing sealed with it may be opened any more."""
        if self.replaced_at is None:
            return None
        return Instant(min(INSTANT_MAX, self.replaced_at + drift_s * SECOND + 1))


class KeyGroup:
    """One group: its secrets, its holders and its tree."""

    __slots__ = ("_arriving", "_departing", "absent", "holders", "id", "issued", "tree", "was_used")

    def __init__(self, group: GroupId, random: Callable[[int], bytes]) -> None:
        """Begin an empty group, without a secret."""
        self.id = group
        self.issued: list[Issued] = []
        self.holders: set[Principal] = set()
        """Who was handed the newest secret, whether still here or not."""
        self.absent: set[Principal] = set()
        """Holders that have left; the next secret is not for them."""
        self.was_used = False
        """Whether any member ever received the newest secret."""
        self.tree = KeyTree(group=group_name(group), random=random)
        self._arriving: set[bytes] = set()
        self._departing: set[bytes] = set()

    @property
    def current(self) -> Issued | None:
        return self.issued[-1] if self.issued else None

    def admit(self, member: Principal) -> None:
        """Add a present member; it enters the tree with the next refresh."""
        self.holders.add(member)
        self.was_used = True
        self.absent.discard(member)
        self._departing.discard(member.key)
        if member.key not in self.tree:
            self._arriving.add(member.key)

    def part(self, member: Principal) -> None:
        """Remove a member that keeps the newest secret; it leaves the tree with the next refresh."""
        if member in self.holders:
            self.absent.add(member)
        self._take_out(member)

    def expel(self, member: Principal) -> None:
        """Evict a member. The caller sees to it that the secret is refreshed."""
        self.holders.discard(member)
        self.absent.discard(member)
        self._take_out(member)

    def restore(self, issued: list[Issued]) -> None:
        """Go on with secrets from before a restart; all members are absent at first."""
        self.issued = issued

    def restore_holder(self, member: Principal) -> None:
        """Remember a member that received the newest secret before a restart."""
        self.holders.add(member)
        self.absent.add(member)
        self.was_used = True

    def refresh(self, *, epoch: int, since: Instant) -> tuple[Rekeyed, frozenset[Principal]]:
        """Replace the secret by one for those who are here; return also who was left behind."""
        rekeyed = self.tree.rekey(joins=sorted(self._arriving), leaves=sorted(self._departing))
        dropped = frozenset(self.absent)
        self.holders -= dropped
        self.was_used = bool(self.holders)
        for waiting in (self.absent, self._arriving, self._departing):
            waiting.clear()
        if self.current is not None:
            self.current.replaced_in, self.current.replaced_at = epoch, since
        self.issued.append(Issued(epoch, since, rekeyed.secret))
        return rekeyed, dropped

    def _take_out(self, member: Principal) -> None:
        self._arriving.discard(member.key)
        if member.key in self.tree:
            self._departing.add(member.key)

    def path(self, member: Principal) -> bytes | None:
        """Return what a member holds of the tree; None if it waits for the next refresh to be taken in."""
        return self.tree.path(member.key).to_bytes() if member.key in self.tree else None

    def take_over(self, now: Instant, drift_s: int) -> list[Issued]:
        """Take out, and return, the secrets with which nothing may be opened any more."""
        over = [one for one in self.issued if (at := one.over_at(drift_s)) is not None and at <= now]
        if over:
            self.issued = [one for one in self.issued if one not in over]
        return over


def group_name(group: GroupId) -> bytes:
    """Return the bytes by which a group's tree is bound to it."""
    return group.type_id + (b"" if group.uid is None else b"/" + group.uid.encode())
