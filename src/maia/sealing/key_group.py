"""What does the manager hold of one key group?

The secrets it has issued, newest last, with the moments between which each
was in use; who was handed the newest one; and the key tree that carries the
next one to them. The manager of the type decides when; this is the what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from maia.credentials import Principal
from maia.events import INSTANT_MAX, Instant
from maia.sealing.groups import GroupId
from maia.sealing.key_tree import KeyTree, Rekeyed
from maia.sealing.lkh import LkhTree
from maia.sealing.secrets import Secret

__all__ = ["Issued", "KeyGroup", "group_name"]

_SECOND = 1_000_000


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
        return Instant(min(INSTANT_MAX, self.replaced_at + drift_s * _SECOND + 1))


class KeyGroup:
    """One group: its secrets, its holders and its tree."""

    __slots__ = ("holders", "id", "issued", "tree", "was_used")

    def __init__(self, group: GroupId, random: Callable[[int], bytes]) -> None:
        """Begin a group of nobody, without a secret."""
        self.id = group
        self.issued: list[Issued] = []
        self.holders: set[Principal] = set()
        """Who was handed the newest secret, whether still here or not."""
        self.was_used = False
        """Whether anybody was ever handed the newest secret."""
        # Chosen behind the interface of `key_tree.py`; docs/decisions/key-trees.md says why it is this one.
        self.tree: KeyTree = LkhTree(group=group_name(group), random=random)

    @property
    def current(self) -> Issued | None:
        """Return the newest secret."""
        return self.issued[-1] if self.issued else None

    def refresh(self, members: Iterable[Principal], *, epoch: int, since: Instant) -> Rekeyed:
        """Replace the secret by one for these members, and let the tree carry it to them."""
        wanted = {member.key: member for member in members}
        here = self.tree.members
        joins = [key for key in sorted(wanted) if key not in here]
        rekeyed = self.tree.rekey(joins=joins, leaves=[key for key in sorted(here) if key not in wanted])
        if self.current is not None:
            self.current.replaced_in, self.current.replaced_at = epoch, since
        self.issued.append(Issued(epoch, since, rekeyed.secret))
        self.holders = set(wanted.values())
        self.was_used = bool(wanted)
        return rekeyed

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
