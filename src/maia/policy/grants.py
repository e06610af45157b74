"""Does this chain grant this request, and if not, how near did it come?

Each chain is asked the same questions in the same order: does it begin at the
owner, end at the requester, name the resource and the action, hold now,
and is its condition met? The first no is its miss. `decide` uses the chains
without a miss, and explains a denial by the chain that came nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from maia.credentials.authority import ALL_ACTIONS, Action, AnyResource, Authority
from maia.credentials.authority_algebra import covers_request
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.names import ResourceName
from maia.credentials.validity.period import UNBOUNDED, Validity
from maia.events import Instant
from maia.policy.evidence import Evidence
from maia.policy.facts import Facts
from maia.policy.reasons import Explanation, Reason, for_both, for_owner
from maia.policy.refusals import (
    ActionNotGranted,
    ConditionNotMet,
    GrantExpired,
    GrantNotYetValid,
    NoChain,
    PolicyRefusal,
    ResourceNotGranted,
)
from maia.policy.request import Request
from maia.predicates.syntax import ALWAYS
from maia.types import VerifiedType, is_validity_stream

__all__ = ["Grant", "Miss", "Step", "authorities_in", "grants_of", "miss_of"]


class Step(IntEnum):
    """How far a chain came; a later step is a nearer miss."""

    ROOT = 0
    SUBJECT = 1
    RESOURCE = 2
    ACTION = 3
    VALIDITY = 4
    CONDITION = 5
    BOUND = 6
    RESTRICTION = 7


@dataclass(frozen=True, slots=True)
class Grant:
    """What one chain grants, or what owners, or all, have without any chain (`chain` is None)."""

    authority: Authority
    validity: Validity
    chain: VerifiedChain | None

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates behind the grant, the owner's first."""
        return () if self.chain is None else self.chain.certificates

    @property
    def ids(self) -> frozenset[bytes]:
        """Return the ids of those certificates."""
        return frozenset(signed.id for signed in self.certificates)


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a grant does not serve a request."""

    step: Step
    kind: type[PolicyRefusal]
    explanation: Explanation


def grants_of(request: Request, evidence: Evidence) -> Iterator[Grant]:
    """Yield the grants at hand: the owner's own authority first, then the chains in their order.

    A public type needs no chain (docs/decisions/revocation.md).
    """
    if request.principal == request.resource.owner:
        yield Grant(Authority(AnyResource(), ALL_ACTIONS), UNBOUNDED, chain=None)
    elif request.action is Action.SUBSCRIBE and _is_public(request.event_type):
        yield Grant(Authority(AnyResource(), frozenset((Action.SUBSCRIBE,))), UNBOUNDED, chain=None)
    for chain in evidence.chains:
        yield Grant(chain.authority, chain.validity, chain)


def _is_public(event_type: VerifiedType | None) -> bool:
    return event_type is not None and is_validity_stream(event_type)


def miss_of(
    grant: Grant, *, request: Request, resource: ResourceName, facts: Facts, now: Instant
) -> Miss | None:
    """Ask a grant every question in order; return its first no, or None if it grants the request."""
    return (
        _wrong_root(grant, resource)
        or _wrong_subject(grant, request)
        or _wrong_resource(grant, resource)
        or _wrong_action(grant, request, resource)
        or _not_now(grant, now)
        or _condition_fails(grant, facts, now)
    )


def authorities_in(grant: Grant) -> Iterator[tuple[bytes, Authority]]:
    """Yield the id and the authority of each authorisation certificate of a grant."""
    for signed in grant.certificates:
        if isinstance(signed.certificate, AuthorisationCertificate):
            yield signed.id, signed.certificate.authority


def _wrong_root(grant: Grant, resource: ResourceName) -> Miss | None:
    if grant.chain is None or grant.chain.root == resource.owner:
        return None
    sentence = f"a chain begins at {grant.chain.root}, and the resource belongs to {resource.owner}"
    # Not for the requester: other principals' chains are none of its business.
    return Miss(Step.ROOT, NoChain, for_owner(Reason("root", sentence, _first_id(grant), "issuer")))


def _wrong_subject(grant: Grant, request: Request) -> Miss | None:
    if grant.chain is None or grant.chain.subject == request.principal:
        return None
    sentence = f"a chain ends at {grant.chain.subject}, and the requester is {request.principal}"
    return Miss(Step.SUBJECT, NoChain, for_owner(Reason("subject", sentence, _last_id(grant), "subject")))


def _wrong_resource(grant: Grant, resource: ResourceName) -> Miss | None:
    if grant.chain is None or _speaks_of(grant.authority, resource):
        return None
    culprit = _blamed(grant, lambda part: _speaks_of(part, resource))
    reason = Reason("resource", "your certificates are about other resources", culprit, "authority.resources")
    return Miss(Step.RESOURCE, ResourceNotGranted, for_both(reason))


def _wrong_action(grant: Grant, request: Request, resource: ResourceName) -> Miss | None:
    if grant.chain is None or covers_request(grant.authority, request.action, resource):
        return None
    culprit = _blamed(grant, lambda part: request.action in part.actions)
    reason = Reason("action", f"`{request.action.value}` is not granted", culprit, "authority.actions")
    return Miss(Step.ACTION, ActionNotGranted, for_both(reason))


def _not_now(grant: Grant, now: Instant) -> Miss | None:
    validity = grant.validity
    if validity.contains(now):
        return None
    if validity.not_before is not None and now < validity.not_before:
        culprit = _bounding(grant, lambda part: part.not_before == validity.not_before)
        reason = Reason("validity", f"valid from {validity.not_before} on", culprit, "validity.not_before")
        return Miss(Step.VALIDITY, GrantNotYetValid, for_both(reason))
    culprit = _bounding(grant, lambda part: part.not_after == validity.not_after)
    reason = Reason("validity", f"expired after {validity.not_after}", culprit, "validity.not_after")
    return Miss(Step.VALIDITY, GrantExpired, for_both(reason))


def _condition_fails(grant: Grant, facts: Facts, now: Instant) -> Miss | None:
    if grant.authority.condition == ALWAYS:
        return None
    # One by one: who has set a condition says whose facts count for it.
    for signed in grant.certificates:
        part = signed.certificate
        if not isinstance(part, AuthorisationCertificate):
            continue
        if not facts.satisfy(part.authority.condition, of=part.issuer, now=now):
            sentence = "a condition is false or not known to hold"
            owner = Reason("condition", sentence, signed.id, "authority.condition")
            requester = Reason("condition", "a condition of your certificates does not hold at the moment")
            return Miss(Step.CONDITION, ConditionNotMet, for_owner(owner, instead=requester))
    return None


def _speaks_of(authority: Authority, resource: ResourceName) -> bool:
    return any(covers_request(authority, action, resource) for action in authority.actions)


def _blamed(grant: Grant, holds: Callable[[Authority], bool]) -> bytes | None:
    """Return the first certificate whose own authority fails, or the last one if only together they do."""
    failing = (identifier for identifier, part in authorities_in(grant) if not holds(part))
    return next(failing, _last_id(grant))


def _bounding(grant: Grant, sets_it: Callable[[Validity], bool]) -> bytes | None:
    """Return the first certificate that sets the bound in question: the same one, whenever it is asked."""
    setting = (signed.id for signed in grant.certificates if sets_it(signed.certificate.validity))
    return next(setting, _last_id(grant))


def _first_id(grant: Grant) -> bytes | None:
    return grant.certificates[0].id if grant.certificates else None


def _last_id(grant: Grant) -> bytes | None:
    return grant.certificates[-1].id if grant.certificates else None
