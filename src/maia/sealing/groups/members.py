"""Who is a member of the key groups of a type, and what has it shown?

The manager of the groups asks whenever a member comes, goes or is rechecked.
A member that has left is remembered for as long as it holds a secret.

Which testers must confirm a member's certificates so that it gets keys, and for which request?

A key server asks before it admits a member, and again while it stays. What a
question is about is named by a digest that server and member work out alike:
these keys, for this member, from this server, in this session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import heappop, heappush
from typing import Final

from maia.canonical import write_canonical
from maia.credentials import Principal
from maia.events import INSTANT_MAX, SECOND, Instant
from maia.sealing.groups.key_group import GroupId
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.membership import (
    VERSIONS_MAX,
    Claim,
    Grounds,
    Held,
    RightHistory,
    evidence_for,
    requests_for,
    standing_now,
    writing_certificates,
)
from maia.sealing.groups.outcomes import Distrusted, MembersFull, Refresh
from maia.sealing.groups.type_groups import Due, TypeGroups
from maia.validity import NO_ANSWERS, Once, VouchedFor, one_time_tests, questions_for

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

    @property
    def held(self) -> Held:
        """Return what it was found to have a right to."""
        return Held(self.groups, self.may_write)


class GroupMembers:
    """The members of the groups of one type, here or away."""

    def __init__(self, groups: TypeGroups, store: ManagerStore, distrusted: Distrusted) -> None:
        """Begin empty; `groups` knows who holds which secret."""
        self._groups, self._store, self._distrusted = groups, store, distrusted
        self._members: dict[Principal, GroupMember] = {}
        self._looks: list[tuple[int, bytes]] = []  # a heap; a deadline that was set twice is checked twice

    def __len__(self) -> int:
        return len(self._members)

    def __getitem__(self, principal: Principal) -> GroupMember:
        return self._members[principal]

    def all(self) -> list[GroupMember]:
        return list(self._members.values())

    def get(self, principal: Principal) -> GroupMember | None:
        return self._members.get(principal)

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
        shown = () if known is None else known.claim.pool
        ends = ((one, one.certificate.validity.not_after) for one in shown)
        before = [one for one, at in ends if at is None or at >= ended]
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

    # -------------------------------------------------------- what a member may hold, and for how long

    @property
    def next_look(self) -> Instant | None:
        """Return when a right is rechecked next; no step walks through all members."""
        return Instant(self._looks[0][0]) if self._looks else None

    def recheck(self, at: Instant, principal: Principal) -> None:
        """Set the deadline of a member."""
        heappush(self._looks, (at, principal.key))

    def due(self, now: Instant) -> list[GroupMember]:
        """Return the members whose moment has come, each once."""
        found: dict[Principal, None] = {}
        while self._looks and self._looks[0][0] <= now:
            found[Principal(heappop(self._looks)[1])] = None
        return [self._members[one] for one in found if one in self._members]

    def give(
        self, member: GroupMember, history: RightHistory, grounds: Grounds, due: Due
    ) -> frozenset[GroupId]:
        """Give a member its standing of this moment, note what is to be refreshed, return what it lost."""
        principal, found = member.claim.principal, history.now
        lost = member.groups - found.groups
        due |= dict.fromkeys(self._groups.expel(principal, but_from=found.groups), Refresh.EXPIRY)
        member.groups, member.may_write, member.until = found.groups, found.may_write, found.until
        if member.until < INSTANT_MAX:
            self.recheck(Instant(member.until + 1), principal)
        if member.is_here:
            self._take_in(member, history, due)
        if self._groups.keeps_history and found.may_write:
            self._store.keep_writer(principal, writing_certificates(member.claim, grounds, history.at))
        self.keep(principal)
        return lost

    def _take_in(self, member: GroupMember, history: RightHistory, due: Due) -> None:
        principal = member.claim.principal
        held_since = self.held_since(history, principal)
        for group in sorted(member.groups, key=lambda one: one.order):
            why = self._groups.take_in(group, principal, held_since=held_since, now=history.at)
            if why is not None:
                due.setdefault(group, why)

    def held_since(self, history: RightHistory, principal: Principal) -> Callable[[GroupId, Instant], bool]:
        """Return a test whether a member had the right to a group at every moment from one on."""
        let_in_again = self._distrusted.readmitted.get(principal)

        def held(group: GroupId, moment: Instant) -> bool:
            if let_in_again is not None and let_in_again > moment:
                return False
            return history.held_since(group, moment)

        return held


_PRESENT: Final = b"join"
_PAST: Final = b"history"


def keys_digest(
    *, member: Principal, manager: Principal, type_id: bytes, session: bytes, is_past: bool
) -> bytes:
    """Return 32 bytes that name a request for keys; `session` is the key that they would be sealed to."""
    what = _PAST if is_past else _PRESENT
    asked = (b"maia/1/keys-digest", what, member.key, manager.key, type_id, session)
    return sha256(write_canonical(asked)).digest()


def demanded(
    claim: Claim, grounds: Grounds, now: Instant, *, most: int, held: Held | None = None
) -> frozenset[Once]:
    """Return which testers must confirm what so that a claim opens more than is `held`, or than without.

    None, if that would not do: what leads to no key is not asked about (A30). Of many chains, so many
    are asked about as one request may.
    """
    every = _would_do(claim, grounds, now)
    if not every:
        return NO_ANSWERS
    hoped = _answered(claim, every, now)
    found = (evidence_for(request, hoped, grounds, now) for request in requests_for(claim))
    wanted = questions_for((chain for evidence in found for chain in evidence.chains), most)
    opened = standing_now(_answered(claim, wanted, now), grounds, now)
    beyond = standing_now(replace(claim, vouched=None), grounds, now) if held is None else held
    return NO_ANSWERS if opened.is_within(beyond) else wanted


def _would_do(claim: Claim, grounds: Grounds, now: Instant) -> frozenset[Once]:
    """Return whose word is all that some certificates lack."""
    check = grounds.tester.check
    tested = [(signed, tests) for signed in claim.pool if (tests := one_time_tests(signed))]
    return frozenset(
        one for signed, tests in tested if check(signed, now, once=tests) is None for one in tests
    )


def _answered(claim: Claim, once: frozenset[Once], now: Instant) -> Claim:
    return replace(claim, vouched=VouchedFor(once, now, now, now) if once else None)
