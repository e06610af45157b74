"""Who may become a member of a role, by which rules, and until when?

`activate` is the role activation of OASIS: it finds every way to meet the
premises of any one rule of the role. It changes nothing; the caller keeps the
memberships. A role that has ended is not given back here: its principal
activates it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, TypeAlias

from maia.canonical import write_canonical
from maia.credentials import Principal
from maia.credentials.appointments import (
    Argument,
    BadArgument,
    Given,
    Word,
    argument_key,
    argument_to_expression,
    checked_argument,
    read_word,
)
from maia.errors import BadInput, BrokenCredential, Unavailable
from maia.events import INSTANT_MAX, SECOND, Instant
from maia.roles.matching import STEPS_MAX, Search, Way, bind, earliest, value_of
from maia.roles.memberships import Ground, RoleMembership, World
from maia.roles.policy import (
    AppointmentDeclaration,
    Declaration,
    Ends,
    FactDeclaration,
    Parameter,
    Policy,
    RoleDeclaration,
    Rule,
)
from maia.roles.statements import did_you_mean, shown


@dataclass(frozen=True, slots=True)
class ActivationLimits:
    """How far one activation may search.

    More than `memberships` different arguments are refused. Of several ways to
    the same role with the same arguments by the same rule, the `ways` that last
    longest are kept: the others would add nothing but redundancy.
    """

    steps: int = STEPS_MAX
    memberships: int = 1000
    ways: int = 8


DEFAULT_LIMITS: Final = ActivationLimits()


def activate(  # noqa: PLR0913 - the parts of one question
    policy: Policy,
    world: World,
    principal: Principal,
    role: str,
    arguments: Sequence[Given | None] | None,
    now: Instant,
    limits: ActivationLimits = DEFAULT_LIMITS,
    *,
    address: str | None = None,
) -> tuple[RoleMembership, ...]:
    """Return every membership of `role` that some rule gives `principal` now; none if no rule applies.

    `address` is where it asks from, for rules that are bound to a place.
    An argument that is None, or all of them, may be anything that the premises
    allow. A parameter that the rule leaves to the asker must be given.
    """
    declaration = role_called(policy, role)
    wanted = checked_arguments(declaration, arguments)
    search = Search(policy, world, principal, now, limits.steps, address)
    return tuple(
        membership for rule in policy.rules[role] for membership in _by_rule(search, rule, wanted, limits)
    )


def role_called(policy: Policy, role: str) -> RoleDeclaration:
    """Return a role of the policy, or name the near one that may have been meant."""
    if role not in policy.roles:
        raise BadInput(
            "INPUT-UNKNOWN-ROLE", f"the policy has no role `{shown(role)}`{_hint(role, policy.roles)}"
        )
    return policy.roles[role]


def fact_called(policy: Policy, name: str) -> FactDeclaration:
    """Return a fact of the policy, or name the near one that may have been meant."""
    if name not in policy.facts:
        raise BadInput(
            "INPUT-UNKNOWN-FACT", f"the policy declares no fact `{shown(name)}`{_hint(name, policy.facts)}"
        )
    return policy.facts[name]


def appointment_called(policy: Policy, name: str) -> AppointmentDeclaration:
    """Return an appointment that the domain itself makes by its policy, or name the near one."""
    every = [one for one in policy.appointments.values() if not one.is_role]
    own = {one.called: one for one in every if policy.domain in policy.issuers(one.name)}
    if name not in own:
        others = name in {one.called for one in every}
        said = (
            "takes this appointment from others, and declares none" if others else "declares no appointment"
        )
        raise BadInput(
            "INPUT-UNKNOWN-APPOINTMENT", f"the policy {said} `{shown(name)}` by here{_hint(name, own)}"
        )
    return own[name]


def _hint(name: str, known: Iterable[str]) -> str:
    hint = did_you_mean(name, known)
    return f": {hint}" if hint else ""


def checked_arguments(
    declaration: Declaration, arguments: Sequence[Given | None] | None
) -> tuple[Argument | None, ...]:
    """Return arguments, each of its parameter's kind or None; refuse everything else."""
    if arguments is None:
        return (None,) * len(declaration.parameters)
    if len(arguments) != len(declaration.parameters):
        wanted = ", ".join(f"{one.name}: {one.kind.value}" for one in declaration.parameters)
        raise BadArgument(
            f"`{declaration.name}({wanted})` was declared, and {len(arguments)} arguments are given"
        )
    checked: list[Argument | None] = []
    for parameter, argument in zip(declaration.parameters, arguments, strict=True):
        checked.append(None if argument is None else _of_kind(argument, parameter))
    return tuple(checked)


def stated_arguments(declaration: Declaration, arguments: Sequence[Given]) -> tuple[Argument, ...]:
    """Return the arguments of a fact or an appointment, all of which are stated."""
    return tuple(one for one in checked_arguments(declaration, arguments) if one is not None)


def _of_kind(given: Given, parameter: Parameter) -> Argument:
    try:
        value = read_word(given, parameter.kind) if isinstance(given, Word) else given
        return checked_argument(value, parameter.kind)
    except (BadInput, BrokenCredential) as problem:  # what is no key breaks a credential elsewhere
        raise BadArgument(f"parameter `{parameter.name}`: {problem.message}") from problem


def whole_second(moment: Instant) -> Instant:
    """Return the second in which a moment lies: certificates say no finer times."""
    return Instant(moment // SECOND * SECOND)


def end_of(way: Way, ends: Ends, now: Instant) -> Instant | None:
    """Return when something that depends on `way` ends: with the first watched thing, or as the rule says."""
    moments = [way.clock_ends]
    moments += [
        ground.until for ground in way.grounds if ground.is_watched or ground.premise in ends.premises
    ]
    for name in ends.moments:
        moment = way.binding[name]
        # The reader has made sure that it is a moment; if not, it ends at once.
        moments.append(moment if isinstance(moment, Instant) else now)
    if ends.after_us is not None:
        moments.append(Instant(min(now + ends.after_us, INSTANT_MAX)))
    first = earliest(*moments)
    return None if first is None else whole_second(first)


def _by_rule(
    search: Search, rule: Rule, wanted: Sequence[Argument | None], limits: ActivationLimits
) -> list[RoleMembership]:
    start = _start(search, rule, wanted)
    if start is None:
        return []
    found: dict[_Key, list[_Candidate]] = {}
    for way in search.ways(rule.premises, rule.conditions, start):
        candidate = _candidate(search, rule, way)
        if candidate is not None:
            some = found.setdefault(tuple(map(argument_key, candidate.arguments)), [])
            some.append(candidate)
            if len(some) > 4 * limits.ways:  # seldom, so that the search does not sort all the time
                some[:] = _longest(some, limits.ways)
        if len(found) > limits.memberships:
            raise Unavailable(
                "ROLES-SEARCH-TOO-LARGE",
                f"`{rule.role}` has more than {limits.memberships} different arguments here: state some",
            )
    kept = [one for some in found.values() for one in _longest(some, limits.ways)]
    memberships = [_membership(search, rule, candidate) for candidate in kept]
    return list({membership.id: membership for membership in memberships}.values())


@dataclass(frozen=True, slots=True)
class _Candidate:
    """What would be a membership, if there are not too many that last longer."""

    arguments: tuple[Argument, ...]
    grounds: tuple[Ground, ...]
    until: Instant | None


_Key: TypeAlias = tuple[tuple[str, Argument], ...]


def _longest(candidates: list[_Candidate], count: int) -> list[_Candidate]:
    if len(candidates) <= count:
        return candidates
    return sorted(candidates, key=lambda one: -(INSTANT_MAX if one.until is None else one.until))[:count]


def _start(search: Search, rule: Rule, wanted: Sequence[Argument | None]) -> dict[str, Argument] | None:
    """Return the values that the asker has stated; None if they do not fit the rule's head."""
    given = [(term, value) for term, value in zip(rule.terms, wanted, strict=True) if value is not None]
    terms, values = [term for term, _ in given], [value for _, value in given]
    start = bind(terms, values, {}, search.holder)
    if start is None or any(name not in start for name in rule.asked):
        return None
    return dict(start)


def _candidate(search: Search, rule: Rule, way: Way) -> _Candidate | None:
    values = [value_of(term, way.binding, search.holder) for term in rule.terms]
    arguments = tuple(value for value in values if value is not None)
    until = end_of(way, rule.ends, search.now)
    if len(arguments) != len(values) or (until is not None and until < search.now):
        return None
    return _Candidate(arguments, way.grounds, until)


def _membership(search: Search, rule: Rule, candidate: _Candidate) -> RoleMembership:
    return RoleMembership(
        _identity(search, rule, candidate),
        search.holder,
        rule.role,
        candidate.arguments,
        rule.id,
        candidate.grounds,
        search.now,
        candidate.until,
    )


def _identity(search: Search, rule: Rule, candidate: _Candidate) -> bytes:
    body = write_canonical(
        (
            search.holder.key,
            rule.role.encode(),
            tuple(map(argument_to_expression, candidate.arguments)),
            rule.id.encode(),
            tuple((ground.support.kind.value.encode(), ground.support.id) for ground in candidate.grounds),
            b"%d" % search.now,
        )
    )
    return sha256(b"maia/1/membership\x00" + body).digest()
