"""Who is a member of the key groups of a type, and what has it shown?

The manager of the groups asks whenever a member comes, goes or is rechecked.
A member that has left is remembered for as long as it holds a secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import Principal, SignedCertificate, ValidityState
from maia.events import INSTANT_MAX, SECOND, Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.membership import VERSIONS_MAX, Claim, Held
from maia.sealing.groups.outcomes import Distrusted, MembersFull
from maia.sealing.groups.type_groups import TypeGroups

__all__ = ["GroupMember", "GroupMembers"]

_MEMBERS_MAX: Final = 1 << 16
_POOL_MAX: Final = 256


@dataclass(slots=True)
class GroupMember:
    """One member: what it has shown, and the result of the last check."""

    claim: Claim
    groups: frozenset[GroupId] = frozenset()
    may_write: bool = False
    until: Instant = field(default_factory=lambda: Instant(INSTANT_MAX))
    is_here: bool = False
    good: frozenset[bytes] = frozenset()
    """Its certificates that passed the last check."""

    @property
    def held(self) -> Held:
        """Return what it was found to have a right to."""
        return Held(self.groups, self.may_write)

    def is_about(self, by: Principal, changed: Collection[bytes]) -> bool:
        """Say whether a word of `by` on these certificates may change what the member holds."""
        lacking = [one for one in self.claim.pool if one.id not in self.good]
        return by in ValidityState.testers(lacking) or any(one.id in changed for one in self.claim.pool)


class GroupMembers:
    """The members of the groups of one type, here or away."""

    def __init__(self, groups: TypeGroups, store: ManagerStore, distrusted: Distrusted) -> None:
        """Begin empty; `groups` knows who holds which secret."""
        self._groups, self._store, self._distrusted = groups, store, distrusted
        self._members: dict[Principal, GroupMember] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._members)

    def __getitem__(self, principal: Principal) -> GroupMember:
        """Return a known member."""
        return self._members[principal]

    def all(self) -> list[GroupMember]:
        """Return every one."""
        return list(self._members.values())

    def get(self, principal: Principal) -> GroupMember | None:
        """Return a member."""
        return self._members.get(principal)

    def these(self, principals: Iterable[Principal]) -> list[GroupMember]:
        """Return those of some principals that are members, in their order."""
        return [self._members[one] for one in principals if one in self._members]

    def arrived(self, claim: Claim) -> GroupMember:
        """Note that a member is here, with a claim that replaces what it showed before."""
        if claim.principal not in self._members and len(self._members) >= _MEMBERS_MAX:
            raise MembersFull(f"a type has at most {_MEMBERS_MAX} members")
        member = self._members.setdefault(claim.principal, GroupMember(claim))
        member.claim, member.is_here = claim, True
        return member

    def parted(self, member: GroupMember) -> None:
        """Note that a member has left; it keeps the secrets that it holds."""
        member.is_here = False
        self._groups.part(member.claim.principal)

    def put_out(self, principal: Principal) -> GroupMember | None:
        """Forget a member at once, whatever it holds, and return it."""
        self._store.keep_member(principal, None, ())
        return self._members.pop(principal, None)

    def restored(self, member: GroupMember) -> None:
        """Go on with a member from before a restart, which is not here yet."""
        self._members[member.claim.principal] = member

    def keep(self, principal: Principal) -> None:
        """Store what a member holds and showed."""
        member = self._members.get(principal)
        held = self._groups.held_by(principal)
        self._store.keep_member(principal, None if member is None else member.claim, held)

    def forget_if_gone(self, principal: Principal) -> None:
        """Forget a member that has left and holds no secret any more."""
        if not self._members[principal].is_here and not self._groups.held_by(principal):
            self.put_out(principal)

    def forget_gone(self) -> None:
        """Forget all members that have left and hold no secret any more."""
        for principal in list(self._members):
            self.forget_if_gone(principal)

    def merged(self, claim: Claim, now: Instant) -> Claim:
        """Add to a claim what the same member showed before and what still counts."""
        known = self._members.get(claim.principal)
        # What has ended still tells since when a right was held; after the drift nobody asks.
        ended = now - self._groups.terms.drift_s * SECOND
        before = [] if known is None else [one for one in known.claim.pool if not _has_ended(one, ended)]
        pool = {
            signed.id: signed
            for signed in (*claim.pool, *before)
            if signed.id not in self._distrusted.revoked
        }
        versions = {one.id: one for one in (*claim.versions, *(known.claim.versions if known else ()))}
        return Claim(
            claim.principal,
            tuple(versions.values())[:VERSIONS_MAX],
            tuple(pool.values())[:_POOL_MAX],
            claim.vouched,
        )


def _has_ended(signed: SignedCertificate, moment: int) -> bool:
    ends = signed.certificate.validity.not_after
    return ends is not None and ends < moment
