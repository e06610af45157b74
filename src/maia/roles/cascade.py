"""What ends when something is lost, and what stays?

A membership ends when something that it watches is lost, when its time is
over, when the policy no longer has its rule, or no longer accepts the issuer
of a certificate it depends on. What watches the membership ends after it, and
nothing else does. The same answers are given for granted rights.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Set
from typing import Final

from maia.events import Instant
from maia.roles.memberships import (
    EndedMembership,
    EndReason,
    GrantedRight,
    Ground,
    RoleMembership,
    Support,
    membership_support,
)
from maia.roles.policy import Policy

_NOTHING: Final[frozenset[Support]] = frozenset()


def ended_memberships(
    memberships: Iterable[RoleMembership],
    *,
    lost: Set[Support] = _NOTHING,
    policy: Policy | None = None,
    now: Instant | None = None,
) -> tuple[EndedMembership, ...]:
    """Return the memberships that have ended, each after those that it depended on.

    `lost` are facts retracted, certificates revoked or stale, and memberships
    given up. With `policy`, memberships whose rule or issuer is gone end; with
    `now`, those whose time is over.
    """
    active = {member.id: member for member in memberships}
    dependents: dict[Support, list[RoleMembership]] = {}
    for member in active.values():
        for support in member.watched:
            dependents.setdefault(support, []).append(member)
    first = [
        found
        for member in active.values()
        if (found := _ended(member, lost=lost, policy=policy, now=now)) is not None
    ]
    return _with_dependents(first, dependents)


def ended_rights(
    rights: Iterable[GrantedRight],
    *,
    lost: Set[Support] = _NOTHING,
    policy: Policy | None = None,
    now: Instant | None = None,
) -> tuple[GrantedRight, ...]:
    """Return the rights that have ended; `lost` names the memberships that have ended, too."""
    return tuple(right for right in rights if _right_ended(right, lost=lost, policy=policy, now=now))


def _with_dependents(
    first: list[EndedMembership], dependents: dict[Support, list[RoleMembership]]
) -> tuple[EndedMembership, ...]:
    """Return what ended in an order in which nothing comes before what it depended on."""
    reasons = {found.membership.id: found for found in first}
    pending = deque(first)
    while pending:
        support = membership_support(pending.popleft().membership)
        for member in dependents.get(support, ()):
            if member.id not in reasons:
                found = EndedMembership(member, EndReason.SUPPORT_LOST, support)
                reasons[member.id] = found
                pending.append(found)
    # A membership depends on earlier ones only, so a walk that visits supports first is enough.
    ordered: dict[bytes, EndedMembership] = {}
    for found in reasons.values():
        _place(found, reasons, ordered)
    return tuple(ordered.values())


def _place(
    found: EndedMembership, reasons: dict[bytes, EndedMembership], ordered: dict[bytes, EndedMembership]
) -> None:
    """Put an ended membership behind the ended ones that it depends on. Iterative: chains may be long."""
    pending, entered = [found], set[bytes]()
    while pending:
        top = pending[-1].membership
        if top.id in entered or top.id in ordered:
            # Also for memberships that depend on each other, which the engine never makes.
            ordered.setdefault(top.id, pending.pop())
            continue
        entered.add(top.id)
        pending += [
            reasons[ground.support.id]
            for ground in top.depends_on
            if ground.support.id in reasons and ground.support.id not in entered
        ]


def _ended(
    member: RoleMembership, *, lost: Set[Support], policy: Policy | None, now: Instant | None
) -> EndedMembership | None:
    gone = next((ground.support for ground in member.depends_on if _is_lost(ground, lost)), None)
    if gone is not None:
        return EndedMembership(member, EndReason.SUPPORT_LOST, gone)
    if now is not None and member.until is not None and now > member.until:
        return EndedMembership(member, EndReason.ENDED)
    if policy is not None and policy.rule(member.rule) is None:
        return EndedMembership(member, EndReason.RULE_GONE)
    rejected = _rejected(member.depends_on, policy)
    return None if rejected is None else EndedMembership(member, EndReason.ISSUER_NOT_ACCEPTED, rejected)


def _right_ended(
    right: GrantedRight, *, lost: Set[Support], policy: Policy | None, now: Instant | None
) -> bool:
    if any(_is_lost(ground, lost) for ground in right.depends_on):
        return True
    ends = right.validity.not_after
    if now is not None and ends is not None and now > ends:
        return True
    if policy is not None and policy.grant(right.grant) is None:
        return True
    return _rejected(right.depends_on, policy) is not None


def _is_lost(ground: Ground, lost: Set[Support]) -> bool:
    return ground.is_watched and ground.support in lost


def _rejected(grounds: Iterable[Ground], policy: Policy | None) -> Support | None:
    """Return a certificate that is watched and whose issuer the policy no longer accepts."""
    if policy is None:
        return None
    for ground in grounds:
        if ground.is_watched and ground.issuer is not None:
            declared = ground.name in policy.appointments
            if not declared or ground.issuer not in policy.issuers(ground.name):
                return ground.support
    return None
