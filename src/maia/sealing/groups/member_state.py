"""What may one member of the key groups hold at this moment, and when is that rechecked?

The manager of the groups asks when a member joins and when its deadline has
come. A member's right is the policy kernel's answer to the certificates shown
(`groups/membership.py`). The next moment is worked out beforehand: the end of the
right, or of the last statement that confirms it.
"""

from __future__ import annotations

from collections.abc import Callable

from maia.credentials import Principal, ValidityState
from maia.events import INSTANT_MAX, Instant
from maia.sealing.groups.group_id import GroupId
from maia.sealing.groups.manager_store import ManagerStore
from maia.sealing.groups.members import GroupMember, GroupMembers
from maia.sealing.groups.membership import Grounds, RightHistory, writing_certificates
from maia.sealing.groups.outcomes import Distrusted
from maia.sealing.groups.refresh import Refresh
from maia.sealing.groups.timers import Looks
from maia.sealing.groups.type_groups import Due, TypeGroups

__all__ = ["GroupStanding"]


class GroupStanding:
    """The standing of every member, and the moments at which it may change."""

    __slots__ = ("_distrusted", "_groups", "_members", "_store", "looks")

    def __init__(
        self, groups: TypeGroups, members: GroupMembers, store: ManagerStore, distrusted: Distrusted
    ) -> None:
        """Begin with no member to recheck."""
        self._groups, self._members, self._store, self._distrusted = groups, members, store, distrusted
        self.looks = Looks()

    def give(
        self, member: GroupMember, history: RightHistory, grounds: Grounds, due: Due
    ) -> frozenset[GroupId]:
        """Give a member its standing of this moment, note what is to be refreshed, return what it lost."""
        principal, found = member.claim.principal, history.now
        lost = member.groups - found.groups
        due |= dict.fromkeys(self._groups.expel(principal, but_from=found.groups), Refresh.EXPIRY)
        member.groups, member.may_write, member.until = found.groups, found.may_write, found.until
        member.good = history.good
        self._watch(member, history.fresh_until)
        if member.is_here:
            self._take_in(member, history, due)
        if self._groups.keeps_history and found.may_write:
            self._store.keep_writer(principal, writing_certificates(member.claim, grounds, history.at))
        self._members.keep(principal)
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

    def is_as_before(self, member: GroupMember, grounds: Grounds, now: Instant) -> bool:
        """Return whether a recheck is due only because statements ended, and newer ones say the same."""
        witness = grounds.witness
        once = member.claim.once(now)
        good = [one for one in member.claim.pool if witness.problem_with(one, now, once=once) is None]
        if not ValidityState.testers(good) or member.until < now or {one.id for one in good} != member.good:
            return False
        fresh = witness.stale_after(good, now)
        self._watch(member, Instant(INSTANT_MAX) if fresh is None else fresh)
        return True

    def _watch(self, member: GroupMember, fresh_until: Instant) -> None:
        """Schedule a recheck of a member for the end of its right, or of its statements."""
        ends = min(member.until, fresh_until)
        if ends < INSTANT_MAX:
            self.looks.ask(Instant(ends + 1), member.claim.principal)
