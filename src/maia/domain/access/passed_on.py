"""Does a policy grant more than its domain may pass on?

A member gets of another owner's type what its grant says *and* what this domain was granted: a verifier
takes the narrower of both. A policy that says more would be read as if members saw it, so it
is refused when it is loaded, with the line, what is too much, and what the domain holds.

What a grant does not say is as far as the domain holds: `(*)`, and no `where`, are the words for passing on
whatever an owner shows. What it does say is compared: attributes that it lists, and its `where`, on the
attributes that this asks about. A restriction is not judged where it asks for a member's own values of the
same attributes. A type of which the domain holds nothing is withheld at the login, as it may still come;
where it may only see, or only write, a grant of the other is refused. Conditions and times are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    Owner,
    SignedCertificate,
    TypeName,
    VerificationCache,
    VerifiedChain,
    VerifiedConstitution,
    find_chains,
)
from maia.credentials.authority import EVENT_ACTIONS, AttributeSet
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.predicates.covering.covers import covers, union
from maia.predicates.language.writer import format_predicate
from maia.predicates.syntax import ALWAYS, AllOf, Predicate, attributes_of
from maia.roles import BadPolicy, Grant, Policy
from maia.roles.grants import sampled_restriction
from maia.roles.policy import Place, ResourceKind
from maia.roles.statements import PolicyProblem
from maia.types import VerifiedType


@dataclass(frozen=True, slots=True)
class _Part:
    """Some attributes of some events that the domain may pass on."""

    attributes: AttributeSet
    restriction: Predicate

    def opens(self, uid: AttributeUid) -> bool:
        return self.attributes is ALL_ATTRIBUTES or uid in self.attributes


def check_passed_on(
    policy: Policy,
    types: Iterable[VerifiedType],
    held: Sequence[SignedCertificate],
    now: Instant,
    *,
    cache: VerificationCache | None = None,
    constitutions: Iterable[VerifiedConstitution] = (),
) -> None:
    """Refuse a policy that opens more of the types of others than its domain may pass on by what it holds."""
    cache, quorums = VerificationCache() if cache is None else cache, tuple(constitutions)

    def chains(name: TypeName, action: Action) -> tuple[VerifiedChain, ...]:
        with suppress(BrokenCredential):
            found = find_chains(
                held, root=name.owner, subject=policy.domain, action=action, resource=name, at=now,
                cache=cache, constitutions=quorums,
            )  # fmt: skip
            return tuple(one for one in found if one.may_delegate)
        return ()

    newest: dict[tuple[Owner, str], VerifiedType] = {}
    for one in types:
        newest[one.name.owner, one.name.name] = one
    found: dict[str, list[PolicyProblem]] = {}
    for grant in (one for some in policy.grants.values() for one in some):
        resource = grant.privilege.resource
        owner, name = policy.owner(resource.owner), resource.pattern.exact
        known = None if name is None else newest.get((owner, name))
        if known is None or resource.kind is not ResourceKind.TYPE or owner == policy.domain:
            continue
        held_of = {action: chains(known.name, action) for action in EVENT_ACTIONS}
        for action in sorted(grant.privilege.actions & EVENT_ACTIONS, key=lambda one: one.value):
            parts = _parts(action, held_of[action])
            problem = _excess(grant, action, known, parts) if parts else None
            if not held_of[action] and any(held_of.values()):
                problem = _only_other(grant, action, known)
            if problem is not None:
                found.setdefault(grant.place.origin, []).append(problem)
                break
    for origin, problems in found.items():
        raise BadPolicy(origin, problems)


def _parts(action: Action, chains: Iterable[VerifiedChain]) -> list[_Part]:
    """Return what chains open; nothing if one of them opens what cannot be compared."""
    parts: list[_Part] = []
    for chain in chains:
        said = chain.authority
        attributes, restriction = said.attributes, said.restriction
        if said.transformations and action is Action.SUBSCRIBE:
            if any(step.result is not None for step in said.transformations):
                return []
            # What its subject passes on is about the outcome.
            attributes, restriction = said.transformations[-1].attributes, ALWAYS
        parts.append(_Part(attributes, restriction))
    return parts


def _only_other(grant: Grant, action: Action, known: VerifiedType) -> PolicyProblem:
    """Say that a domain holds something of a type, and not what a grant is about."""
    said = (
        f"members would {_VERBS[action]} `{known.name.name}`; this domain holds no right to {action.value} it"
    )
    return _problem(grant.place, grant.role, said, f"leave `{action.value}` out, or ask its owner")


def _excess(grant: Grant, action: Action, known: VerifiedType, parts: list[_Part]) -> PolicyProblem | None:
    """Say what a grant opens beyond these parts, if anything."""
    privilege, names = grant.privilege, {one.uid: one.name for one in known.attributes}
    if privilege.transform is not None and action is Action.PUBLISH:
        return None
    restriction, own = sampled_restriction(privilege, grant.kinds)
    wanted = _needed(grant, names, parts) | attributes_of(restriction)
    hidden = sorted(names.get(uid, uid) for uid in wanted if not any(one.opens(uid) for one in parts))
    verb, holds = _VERBS[action], f"this domain holds {_shown(parts, names)}"
    if hidden:
        said = f"members would {verb} {_listed(hidden)} of `{known.name.name}`; {holds}"
        return _problem(grant.place, grant.role, said, "leave out what it does not hold, or ask its owner")
    asked = attributes_of(restriction)
    for uid in wanted:
        here = [_about(asked, one.restriction) for one in parts if one.opens(uid)]
        is_own = any(not attributes_of(one).isdisjoint(own) for one in here)
        if is_own or covers(wide=union(here), narrow=restriction):
            continue
        said = f"members would {verb} events of `{known.name.name}` beyond what it may pass on; {holds}"
        lacking = " or ".join(dict.fromkeys(format_predicate(one, names) for one in here))
        return _problem(grant.place, grant.role, said, f"let it go no further than `where {lacking}`")
    return None


def _about(asked: frozenset[AttributeUid], restriction: Predicate) -> Predicate:
    """Return what a restriction says of some attributes; what it says of others holds beside that."""
    if attributes_of(restriction) <= asked:
        return restriction
    parts = [_about(asked, one) for one in restriction.parts] if isinstance(restriction, AllOf) else []
    said = tuple(one for one in parts if one != ALWAYS)
    return AllOf(said) if len(said) > 1 else said[0] if said else ALWAYS


_VERBS: Mapping[Action, str] = {Action.SUBSCRIBE: "see", Action.PUBLISH: "write"}


def _needed(grant: Grant, names: Mapping[AttributeUid, str], parts: list[_Part]) -> frozenset[AttributeUid]:
    """Return the attributes that a grant is about, of the type as the domain has it."""
    privilege, transform = grant.privilege, grant.privilege.transform
    held = frozenset(uid for uid in names if any(one.opens(uid) for one in parts))
    listed = held if privilege.attributes is ALL_ATTRIBUTES else privilege.attributes
    if transform is None:
        return listed
    read = frozenset(one.uid for one in transform.reads.values())
    made = frozenset(one.uid for one in transform.assigns.values())
    return read if transform.result is not None else (listed - made) | read


def _shown(parts: list[_Part], names: Mapping[AttributeUid, str]) -> str:
    return ", and ".join(dict.fromkeys(_written(parts, names)))


def _written(parts: list[_Part], names: Mapping[AttributeUid, str]) -> Iterator[str]:
    for part in parts:
        uids = part.attributes
        listed = "*" if uids is ALL_ATTRIBUTES else ", ".join(sorted(names.get(one, one) for one in uids))
        where = "" if part.restriction == ALWAYS else f" where {format_predicate(part.restriction, names)}"
        yield f"`({listed}){where}`"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in names)


def _problem(place: Place, role: str, said: str, hint: str) -> PolicyProblem:
    return PolicyProblem(place.line, 1, f"grant {role}", said, hint)
