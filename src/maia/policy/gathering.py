"""Which evidence for this request is in a pool of certificates?

A broker holds certificates that its domain gave it and that clients showed
it; a person has a folder of files. Both ask here before they ask `decide`.
What was found is verified, and what was not found is remembered as the
nearest miss, for the owner to read. A certificate that is revoked, or that
fails a test it demands, is as good as not there; whoever knows of no
statements fails every test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from maia.credentials.broken_chains import CertificateExpired, CertificateNotYetValid, NoChain
from maia.credentials.cache import VerificationCache
from maia.credentials.certificate import SignedCertificate
from maia.credentials.chain import VerifiedChain
from maia.credentials.discovery import find_chains
from maia.credentials.flows import DEFAULT_LIMITS, FlowLimits
from maia.credentials.names import ResourceName
from maia.credentials.one_time import Revalidated
from maia.credentials.quorum import VerifiedConstitution
from maia.credentials.standing import Once, Standing, Tester
from maia.errors import BrokenCredential
from maia.events import Instant
from maia.policy.bounds import BoundRule
from maia.policy.evidence import CHAINS_MAX, Evidence
from maia.policy.request import Request, request_digest, resources_needed

__all__ = ["gather_evidence"]


def gather_evidence(  # noqa: PLR0913 - every one is named at the call
    request: Request,
    pool: Sequence[SignedCertificate],
    *,
    at: Instant,
    bounds: Iterable[BoundRule] = (),
    cache: VerificationCache | None = None,
    constitutions: Sequence[VerifiedConstitution] = (),
    standing: Tester | None = None,
    once: Iterable[Revalidated] = (),
) -> Evidence:
    """Return the verified chains in `pool` that speak for `request` at `at`, and why there are no more.

    `standing` knows what is revoked and whose statements hold; without one
    nothing was heard. `once` are answers to one-time questions about this
    request (`request_digest` names it), which are spent here.
    """
    tested = _Tested(pool, standing, at, _spent(once, request))
    search = _Search(request, at, cache, constitutions, _limits_of(request))
    chains: dict[tuple[bytes, ...], VerifiedChain] = {}
    broken: list[BrokenCredential] = []
    for resource in resources_needed(request):
        try:
            found = search.chains(tested.good, resource)
        except BrokenCredential as problem:
            blamed = search.blamed(tested, resource)
            broken += blamed or (_about_time(problem, tested.good, at),)
        else:
            chains |= {tuple(signed.id for signed in one.certificates): one for one in found}
    # A domain sets bounds for many; a decision looks at those on this principal and its certificates.
    holders = {request.principal, *(signed.id for signed in pool)}
    concerned = tuple(rule for rule in bounds if rule.holder in holders)
    return Evidence(tuple(chains.values()), concerned, tuple(broken[: CHAINS_MAX - len(chains)]))


class _Tested:
    """A pool, without the certificates that something speaks against."""

    __slots__ = ("good", "pool", "problems")

    def __init__(
        self,
        pool: Sequence[SignedCertificate],
        standing: Tester | None,
        at: Instant,
        once: frozenset[Once],
    ) -> None:
        problem_with = (_NOTHING_HEARD if standing is None else standing).problem_with
        self.pool = pool
        self.problems: dict[bytes, BrokenCredential] = {}
        for signed in pool:
            problem = problem_with(signed, at, once=once)
            if problem is not None:
                self.problems[signed.id] = problem
        self.good = [one for one in pool if one.id not in self.problems] if self.problems else pool


@dataclass(frozen=True, slots=True)
class _Search:
    """What every search for this request has in common."""

    request: Request
    at: Instant
    cache: VerificationCache | None
    constitutions: Sequence[VerifiedConstitution]
    limits: FlowLimits

    def chains(self, pool: Sequence[SignedCertificate], resource: ResourceName) -> tuple[VerifiedChain, ...]:
        """Return the chains in `pool`, or raise the nearest miss."""
        return find_chains(
            pool,
            root=resource.owner,
            subject=self.request.principal,
            action=self.request.action,
            resource=resource,
            at=self.at,
            cache=self.cache,
            constitutions=self.constitutions,
            limits=self.limits,
        )

    def blamed(self, tested: _Tested, resource: ResourceName) -> tuple[BrokenCredential, ...]:
        """Return the problems of those certificates with which there would have been a chain."""
        if not tested.problems:
            return ()
        try:
            missed = self.chains(tested.pool, resource)
        except BrokenCredential:
            return ()
        used = dict.fromkeys(signed.id for chain in missed for signed in chain.certificates)
        return tuple(tested.problems[identifier] for identifier in used if identifier in tested.problems)


_NOTHING_HEARD: Final = Standing()


def _limits_of(request: Request) -> FlowLimits:
    # All levels of a topic share what one decision looks at.
    share = max(1, CHAINS_MAX // len(resources_needed(request)))
    return replace(DEFAULT_LIMITS, chains_max=min(DEFAULT_LIMITS.chains_max, share))


def _spent(once: Iterable[Revalidated], request: Request) -> frozenset[Once]:
    proofs = tuple(once)
    if not proofs:
        return _NO_ANSWERS
    digest = request_digest(request)
    return frozenset(proof.spend(digest) for proof in proofs)


_NO_ANSWERS: Final[frozenset[Once]] = frozenset()


def _about_time(
    problem: BrokenCredential, pool: Sequence[SignedCertificate], at: Instant
) -> BrokenCredential:
    """Say `expired` or `not yet valid` where that is what the search failed on: the requester may know."""
    if not isinstance(problem, NoChain) or problem.field != "validity":
        return problem
    for signed in pool:
        validity = signed.certificate.validity
        if signed.id == problem.certificate and not validity.contains(at):
            begun = validity.not_before is None or validity.not_before <= at
            kind = CertificateExpired if begun else CertificateNotYetValid
            return kind(problem.message, certificate=signed.id, field="validity")
    return problem
