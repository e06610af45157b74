"""What is a member of a role granted now, and what would a role be able to do?

Authorisation in OASIS takes one active role and some environmental
constraints, and ends in a privilege. Here it ends in everything that an
authorisation certificate says. A right never outlasts its membership.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    Authority,
    NetworkPattern,
    Principal,
    ResourcePattern,
    TopicPattern,
    Transformation,
    TypePattern,
    Validity,
    exact_name,
)
from maia.credentials.appointments import Given, ParameterKind
from maia.credentials.authority import FilterBound
from maia.events import INSTANT_MAX, AttributeUid, Instant, PresentValue
from maia.expressions.language import parse_rule
from maia.expressions.summary_text import parse_summary
from maia.policy.facts import during, inside_network
from maia.predicates.language.parser import parse_predicate
from maia.predicates.language.scanner import BadPredicateText
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Predicate, atoms
from maia.roles.engine import (
    DEFAULT_LIMITS,
    ActivationLimits,
    checked_arguments,
    end_of,
    role_called,
    whole_second,
)
from maia.roles.matching import Search, Way, bind, earliest, is_active, values_for
from maia.roles.memberships import GrantedRight, Ground, RoleMembership, World, membership_support, places_in
from maia.roles.policy import Grant, Policy, Privilege, ResourceKind
from maia.roles.variables import two_samples

_MEMBERSHIP: Final = -1
"""The position of the membership itself among the grounds of a right."""


@dataclass(frozen=True, slots=True)
class PossibleRight:
    """What a grant would give a member of a role, if its own premises were met.

    `authority` is None where a restriction speaks of values that only those
    premises can bind; `restriction` is then its text.
    """

    grant: Grant
    authority: Authority | None
    restriction: str | None


def rights(
    policy: Policy,
    membership: RoleMembership,
    world: World,
    now: Instant,
    limits: ActivationLimits = DEFAULT_LIMITS,
) -> tuple[GrantedRight, ...]:
    """Return everything that the policy grants a membership now; nothing once its time is over."""
    if not is_active(membership, now) or membership.role not in policy.roles:
        return ()
    search = Search(policy, world, membership.principal, now, limits.steps)
    return tuple(
        right for grant in policy.grants[membership.role] for right in _by_grant(search, grant, membership)
    )


def possible_rights(
    policy: Policy, role: str, arguments: Sequence[Given], holder: Principal, now: Instant
) -> tuple[PossibleRight, ...]:
    """Return what a member of `role(arguments)` would be able to do, independent of facts."""
    values = [value for value in checked_arguments(role_called(policy, role), arguments) if value is not None]
    found = []
    for grant in policy.grants[role]:
        binding = bind(grant.terms, values, {}, holder)
        if binding is not None:
            found.append(_possible(policy, grant, values_for(binding, holder=holder, now=now)))
    return tuple(found)


def _possible(policy: Policy, grant: Grant, values: dict[str, PresentValue]) -> PossibleRight:
    try:
        authority = _authority(policy, grant.privilege, values)
    except BadPredicateText:  # it speaks of a value that only a premise of the grant binds
        authority = None
    return PossibleRight(grant, authority, grant.privilege.restriction)


def sampled_restriction(
    privilege: Privilege, kinds: Mapping[str, ParameterKind]
) -> tuple[Predicate, frozenset[AttributeUid]]:
    """Return a restriction with a sample for each `$name`, and the attributes that it compares with those."""
    if privilege.restriction is None:
        return ALWAYS, frozenset()
    one, other = (
        parse_predicate(privilege.restriction, privilege.vocabulary, samples)
        for samples in two_samples(kinds)
    )
    differing = (left.uid for left, right in zip(atoms(one), atoms(other), strict=True) if left != right)
    return one, frozenset(differing)


def _by_grant(search: Search, grant: Grant, membership: RoleMembership) -> list[GrantedRight]:
    start = bind(grant.terms, membership.arguments, {}, membership.principal)
    if start is None:
        return []
    found: dict[Authority, GrantedRight] = {}
    for way in search.ways(grant.premises, grant.conditions, start):
        right = _right(search, grant, membership, way)
        if right is not None:
            known = found.get(right.authority)
            # Of several ways to the same right, the one that lasts longest.
            if known is None or _ends(right) > _ends(known):
                found[right.authority] = right
    return list(found.values())


def _ends(right: GrantedRight) -> int:
    return INSTANT_MAX if right.until is None else right.until


def _right(search: Search, grant: Grant, membership: RoleMembership, way: Way) -> GrantedRight | None:
    values = values_for(way.binding, holder=membership.principal, now=search.now)
    until = earliest(membership.until, end_of(way, grant.ends, search.now))
    if until is not None and until < search.now:
        return None
    itself = Ground(_MEMBERSHIP, membership_support(membership), True, membership.until, name=membership.role)
    authority = _authority(search.policy, grant.privilege, values)
    places = dict.fromkeys(one.name for one in places_in((*membership.depends_on, *way.grounds)))
    return GrantedRight(
        grant.id,
        membership.principal,
        replace(authority, condition=_used_from(authority.condition, places)),
        Validity(whole_second(search.now), until),
        grant.privilege.tests,
        grant.privilege.may_delegate,
        (itself, *way.grounds),
    )


def _authority(policy: Policy, privilege: Privilege, values: dict[str, PresentValue]) -> Authority:
    restriction: Predicate = ALWAYS
    if privilege.restriction is not None:
        restriction = parse_predicate(privilege.restriction, privilege.vocabulary, values)
    transformations: tuple[Transformation, ...] = ()
    attributes, resources = privilege.attributes, _resources(policy, privilege)
    transform = privilege.transform
    if transform is not None:
        step = _transformation(policy, privilege, values)
        if Action.SUBSCRIBE in privilege.actions:
            # The rules read whole events; the attributes that the grant lists are those of the outcome.
            attributes = ALL_ATTRIBUTES
        elif transform.result is not None and transform.written is not None:
            # The right is on what is published; what the grant says is about what is written.
            name = transform.result
            resources, attributes = TypePattern(name.owner, exact_name(name.name), None), ALL_ATTRIBUTES
            step, restriction = replace(step, restriction=restriction, result=transform.written), ALWAYS
        else:
            step = replace(step, attributes=ALL_ATTRIBUTES)
        transformations = (step,)
    bounds = tuple(
        FilterBound(kind, parse_predicate(text, privilege.vocabulary, values))
        for kind, text in privilege.bounds
    )
    condition = _condition(privilege, values)
    return Authority(
        resources, privilege.actions, attributes, restriction, condition, transformations, bounds
    )


def _transformation(policy: Policy, privilege: Privilege, values: dict[str, PresentValue]) -> Transformation:
    transform = privilege.transform
    assert transform is not None  # noqa: S101 - the caller has looked
    if transform.every is not None:
        clauses = transform.every, transform.per, transform.assignments
        summary = parse_summary(*clauses, transform.reads, transform.assigns, values)
        return Transformation(policy.domain, (), ALL_ATTRIBUTES, ALWAYS, transform.result, summary)
    rules = tuple(
        parse_rule(text, transform.reads, transform.assigns, values) for text in transform.assignments
    )
    shown = privilege.attributes if transform.result is None else ALL_ATTRIBUTES
    return Transformation(policy.domain, rules, shown, ALWAYS, transform.result)


def _resources(policy: Policy, privilege: Privilege) -> ResourcePattern:
    owner, pattern = policy.owner(privilege.resource.owner), privilege.resource.pattern
    match privilege.resource.kind:
        case ResourceKind.TYPE:
            return TypePattern(owner, pattern, None)
        case ResourceKind.TOPIC:
            return TopicPattern(owner, pattern)
        case ResourceKind.NETWORK:
            return NetworkPattern(owner, pattern)


def _used_from(condition: Predicate, places: Iterable[str]) -> Predicate:
    """Return a condition that also asks for each of some places, written as networks apart by spaces."""
    parts = [condition] if condition != ALWAYS else []
    for place in places:
        inside = tuple(inside_network(ip_network(one)) for one in place.split())
        parts.append(inside[0] if len(inside) == 1 else AnyOf(inside))
    if not parts:
        return ALWAYS
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))


def _condition(privilege: Privilege, values: dict[str, PresentValue]) -> Predicate:
    parts: list[Predicate] = []
    if privilege.condition is not None:
        parts.append(parse_predicate(privilege.condition, None, values))
    window = privilege.during
    if window is not None:
        parts.append(during(window.zone, days=window.days, start=window.begins, end=window.ends))
    if not parts:
        return ALWAYS
    return parts[0] if len(parts) == 1 else AllOf(tuple(parts))
