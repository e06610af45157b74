"""What would a member of this role be able to do?

The policy says what a role is granted; the kernel is asked what comes of it,
with a certificate that is made for the question, for nobody, and never leaves
this file. So the answer is the one that a broker would give, the domain's own
lack of a right to pass on included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    ResourceName,
    SignedCertificate,
    SignedKind,
    SigningKey,
    TopicName,
    TypePattern,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    covers_request,
    issue,
)
from maia.credentials.arguments import Given
from maia.credentials.validity.validity_state import Tester
from maia.domain.access.issuance import sample_resources
from maia.domain.access.results import Ability
from maia.events import Instant
from maia.policy import Denial, Facts, Request, decide, gather_evidence
from maia.roles import Policy, PossibleRight, possible_rights
from maia.types import VerifiedType

__all__ = ["Supposition", "abilities"]

_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Supposition:
    """Everything that an answer is made of."""

    key: SigningKey
    policy: Policy
    held: Sequence[SignedCertificate]
    types: Sequence[VerifiedType]
    tester: Tester
    cache: VerificationCache
    now: Instant
    constitutions: tuple[VerifiedConstitution, ...] = ()


def abilities(given: Supposition, role: str, arguments: Sequence[Given]) -> tuple[Ability, ...]:
    """Return what a member of `role(arguments)` would be able to do, by action and resource."""
    nobody = _nobody(given.key)
    found: list[Ability] = []
    for right in possible_rights(given.policy, role, arguments, nobody, given.now):
        if right.authority is None:
            found += _undecided(right)
        else:
            found += _decided(given, right, right.authority, nobody)
    return tuple(found)


def _undecided(right: PossibleRight) -> Iterator[Ability]:
    privilege = right.grant.privilege
    attributes = None if privilege.attributes is ALL_ATTRIBUTES else tuple(sorted(privilege.attributes))
    for action in _in_order(privilege.actions):
        resource = f"{privilege.resource.kind.value} {privilege.resource.pattern}"
        yield Ability(right.grant.id, action, resource, attributes, None, None, right.restriction)


def _decided(
    given: Supposition, right: PossibleRight, authority: Authority, nobody: Principal
) -> Iterator[Ability]:
    start = Instant(given.now - given.now % _SECOND)
    validity = Validity(start, Instant(start + _SECOND))
    certificate = AuthorisationCertificate(given.key.principal, nobody, False, authority, validity)
    pool = [*given.held, issue(certificate, given.key)]
    attributes = None if authority.attributes is ALL_ATTRIBUTES else tuple(sorted(authority.attributes))
    for request in _requests(given.types, authority, nobody):
        evidence = gather_evidence(
            request,
            pool,
            at=given.now,
            cache=given.cache,
            constitutions=given.constitutions,
            standing=given.tester,
        )
        decision = decide(request, evidence, Facts(), given.now)
        shown = _shown(request.resource)
        if isinstance(decision, Denial):
            yield Ability(right.grant.id, request.action, shown, attributes, None, decision.code)
        else:
            yield Ability(right.grant.id, request.action, shown, attributes, decision.view, None)


def _requests(types: Iterable[VerifiedType], authority: Authority, nobody: Principal) -> Iterator[Request]:
    """Yield what can be asked for under an authority: each type that is known here, or one example."""
    for action in _in_order(authority.actions):
        if isinstance(authority.resources, TypePattern):
            for event_type in types:
                if covers_request(authority, action, event_type.name):
                    yield Request(nobody, action, event_type.name, event_type)
        elif authority.resources.owner is not None:
            for resource in list(sample_resources(authority.resources, authority.resources.owner))[:1]:
                yield Request(nobody, action, resource)


def _nobody(key: SigningKey) -> Principal:
    """Return a principal whose key nobody has: even a certificate that leaked would serve no one."""
    return SigningKey.from_seed(
        sha256(key.sign(SignedKind.REQUEST, b"what would a member be able to do")).digest()
    ).principal


def _in_order(actions: Iterable[Action]) -> list[Action]:
    return sorted(actions, key=lambda one: one.value)


def _shown(resource: ResourceName) -> str:
    return resource.path if isinstance(resource, TopicName) else resource.name
