"""Which evidence for this request is in a pool of certificates?

A broker holds certificates that its domain gave it and that clients showed
it; a person has a folder of files. Both ask here before they ask `decide`.
What was found is verified, and what was not found is remembered as the
nearest miss, for the owner to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from maia.credentials.broken_chains import CertificateExpired, CertificateNotYetValid, NoChain
from maia.credentials.cache import VerificationCache
from maia.credentials.certificate import SignedCertificate
from maia.credentials.chain import VerifiedChain
from maia.credentials.discovery import find_chains
from maia.credentials.flows import DEFAULT_LIMITS
from maia.credentials.quorum import VerifiedConstitution
from maia.errors import BrokenCredential
from maia.events import Instant
from maia.policy.bounds import BoundRule
from maia.policy.evidence import CHAINS_MAX, Evidence
from maia.policy.request import Request, resources_needed

__all__ = ["gather_evidence"]


def gather_evidence(
    request: Request,
    pool: Sequence[SignedCertificate],
    *,
    at: Instant,
    bounds: Iterable[BoundRule] = (),
    cache: VerificationCache | None = None,
    constitutions: Sequence[VerifiedConstitution] = (),
) -> Evidence:
    """Return the verified chains in `pool` that speak for `request` at `at`, and why there are no more."""
    chains: dict[tuple[bytes, ...], VerifiedChain] = {}
    broken: list[BrokenCredential] = []
    resources = resources_needed(request)
    # All levels of a topic share what one decision looks at.
    share = max(1, CHAINS_MAX // len(resources))
    limits = replace(DEFAULT_LIMITS, chains_max=min(DEFAULT_LIMITS.chains_max, share))
    for resource in resources:
        try:
            found = find_chains(
                pool,
                root=resource.owner,
                subject=request.principal,
                action=request.action,
                resource=resource,
                at=at,
                cache=cache,
                constitutions=constitutions,
                limits=limits,
            )
        except BrokenCredential as problem:
            broken.append(_about_time(problem, pool, at))
        else:
            chains |= {tuple(signed.id for signed in one.certificates): one for one in found}
    return Evidence(tuple(chains.values()), tuple(bounds), tuple(broken))


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
