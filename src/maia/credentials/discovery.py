"""Which chain in this pool lets this principal do this, and if none does, what comes nearest?

Clients and brokers hold certificates in no order and do not want to sort them
(mission: "the system finds the chain by itself"). The search stays within
counted steps, whatever an attacker put into the pool: a cycle, a chain of ten
thousand, a diamond of a million paths, a name that never ends. Signatures are
checked only where a chain might pass, and each found chain is verified again
by the verifier, which alone builds proofs. Equal pools give equal answers,
in whatever order the certificates come.

The explanation of a failure is meant for the owner of the pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from maia.credentials.authority import Action
from maia.credentials.authority_algebra import covers_request
from maia.credentials.broken_chains import (
    BrokenChain,
    NoChain,
    SearchTooLarge,
    SuperfluousCertificate,
    WrongRoot,
    shown_id,
)
from maia.credentials.cache import VerificationCache
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate
from maia.credentials.chain import VerifiedChain, owner_chain, root_terminal, verify_chain
from maia.credentials.flows import (
    DEFAULT_LIMITS,
    Flow,
    FlowLimits,
    FlowSearch,
    Rules,
    at_least_as_good,
    certificates_of,
    flow_search,
)
from maia.credentials.local_names import Terminal
from maia.credentials.names import ResourceName
from maia.credentials.principals import Owner, Principal
from maia.credentials.quorum import VerifiedConstitution
from maia.errors import BrokenCredential
from maia.events import Instant

__all__ = ["find_chain", "find_chains"]

_WITHOUT_LENGTH: Final = 1 << 30


def find_chain(  # noqa: PLR0913 - every one is named at the call
    pool: Iterable[SignedCertificate],
    *,
    root: Owner,
    subject: Principal,
    action: Action,
    resource: ResourceName,
    at: Instant,
    cache: VerificationCache | None = None,
    constitutions: Iterable[VerifiedConstitution] = (),
    limits: FlowLimits = DEFAULT_LIMITS,
) -> VerifiedChain:
    """Return a shortest chain for the request; refuse with the nearest miss if there is none."""
    chains = find_chains(
        pool,
        root=root,
        subject=subject,
        action=action,
        resource=resource,
        at=at,
        cache=cache,
        constitutions=constitutions,
        limits=replace(limits, chains_max=1),
    )
    return chains[0]


def find_chains(  # noqa: PLR0913 - every one is named at the call
    pool: Iterable[SignedCertificate],
    *,
    root: Owner,
    subject: Principal,
    action: Action,
    resource: ResourceName,
    at: Instant,
    cache: VerificationCache | None = None,
    constitutions: Iterable[VerifiedConstitution] = (),
    limits: FlowLimits = DEFAULT_LIMITS,
) -> tuple[VerifiedChain, ...]:
    """Return the chains for the request that grant something no other found chain grants.

    At least one, at most `limits.chains_max`, the short ones first. Several
    matter where one shows attributes that another hides.
    """
    if resource.owner != root:
        raise WrongRoot(f"the resource belongs to `{resource.owner}`, not to `{root}`")
    if root == subject:
        return (owner_chain(subject, at),)
    quest = _Quest(
        pool=_ordered(pool, limits),
        root=root,
        terminal=root_terminal(root, constitutions := tuple(constitutions)),
        subject=subject,
        action=action,
        resource=resource,
        at=at,
        cache=VerificationCache() if cache is None else cache,
        constitutions=constitutions,
        limits=limits,
    )
    flows = quest.flows()
    if not flows:
        raise quest.nearest_miss()
    return tuple(quest.proved(certificates_of(flow)) for flow in flows)


def _ordered(pool: Iterable[SignedCertificate], limits: FlowLimits) -> tuple[SignedCertificate, ...]:
    """Return the pool in an order of its own, each certificate once.

    By signature as well as by id: a bad signature must not hide a good one.
    """
    certificates: dict[tuple[bytes, bytes], SignedCertificate] = {}
    for signed in pool:
        certificates.setdefault((signed.id, signed.signature), signed)
        if len(certificates) > limits.pool_max:
            raise SearchTooLarge(f"a search looks at no more than {limits.pool_max} certificates")
    return tuple(certificates[key] for key in sorted(certificates))


@dataclass(frozen=True, slots=True)
class _Quest:
    """One request and everything that may help it."""

    pool: tuple[SignedCertificate, ...]
    root: Owner
    terminal: Terminal
    subject: Principal
    action: Action
    resource: ResourceName
    at: Instant
    cache: VerificationCache
    constitutions: tuple[VerifiedConstitution, ...]
    limits: FlowLimits

    def flows(self) -> list[Flow]:
        """Return the flows that no other found flow makes needless."""
        found: list[Flow] = []
        try:
            for flow in self._search(_Bent()).run():
                found.append(flow)
                if len(found) >= self.limits.chains_max:
                    break
        except SearchTooLarge:
            if not found:
                raise
        return [flow for flow in found if not any(_makes_needless(one, flow) for one in found)]

    def proved(self, certificates: tuple[SignedCertificate, ...]) -> VerifiedChain:
        """Return the proof; where thresholds met, leave out what turns out not to be needed."""
        while True:
            try:
                return verify_chain(
                    certificates,
                    root=self.root,
                    subject=self.subject,
                    at=self.at,
                    cache=self.cache,
                    constitutions=self.constitutions,
                    limits=self.limits,
                )
            except SuperfluousCertificate as extra:
                certificates = tuple(one for one in certificates if one.id != extra.certificate)

    def nearest_miss(self) -> NoChain:
        """Return the refusal; it names the one rule that, bent, would have let a chain through."""
        request = f"no chain lets `{self.subject}` {self.action.value} {self.resource}"
        for bent in _BENT_ONE_BY_ONE:
            certificates = self._first(bent)
            if certificates:
                problem = self._problem_of(certificates)
                return NoChain(
                    f"{request}; the nearest one fails: {problem.message}",
                    certificate=problem.certificate,
                    field=problem.field,
                )
        return NoChain(f"{request}: no path of certificates leads from `{self.root}` to that principal")

    def _first(self, bent: _Bent) -> tuple[SignedCertificate, ...]:
        try:
            flow = next(self._search(bent).run(), None)
        except SearchTooLarge:
            return ()
        return () if flow is None else certificates_of(flow)

    def _problem_of(self, certificates: tuple[SignedCertificate, ...]) -> BrokenChain:
        try:
            self.proved(certificates)
        except BrokenChain as problem:
            return problem
        except BrokenCredential as problem:
            return BrokenChain(problem.message, field="signature")
        return self._not_about_this(certificates)

    def _not_about_this(self, certificates: tuple[SignedCertificate, ...]) -> BrokenChain:
        for signed in certificates:
            if isinstance(signed.certificate, AuthorisationCertificate) and not self._covers(signed):
                return BrokenChain(
                    f"certificate {shown_id(signed.id)} does not grant this action on this resource",
                    certificate=signed.id,
                    field="authority",
                )
        return BrokenChain("the certificates grant nothing in common", field="authority")

    # ------------------------------------------------------------ the rules of a search

    def _search(self, bent: _Bent) -> FlowSearch:
        limits = replace(self.limits, certificates_max=_WITHOUT_LENGTH) if bent.length else self.limits
        trust = _Trust(self.cache, self.limits.signatures_max, forgiving=bent.signature)
        helpful = {signed.certificate.issuer for signed in self.pool} | {self.subject}

        def admits(signed: SignedCertificate) -> bool:
            in_time = bent.validity or signed.certificate.validity.contains(self.at)
            return in_time and (bent.right or self._covers(signed))

        def accepts_name(signed: SignedCertificate) -> bool:
            # Of a group of a thousand, only those who could be on the way are worth a signature check.
            means = signed.certificate.subject
            if isinstance(means, Principal) and means not in helpful:
                return False
            in_time = bent.validity or signed.certificate.validity.contains(self.at)
            return in_time and trust.of(signed)

        rules = Rules(
            admits, trust.of, needs_delegation=not bent.delegation, weighs_authority=not bent.authority
        )
        return flow_search(self.pool, self.terminal, self.subject, rules, limits, accepts_name)

    def _covers(self, signed: SignedCertificate) -> bool:
        certificate = signed.certificate
        return isinstance(certificate, AuthorisationCertificate) and covers_request(
            certificate.authority, self.action, self.resource
        )


@dataclass(slots=True)
class _Trust:
    """Signature checks on demand, each once, up to a number."""

    cache: VerificationCache
    left: int
    forgiving: bool
    refused: set[tuple[bytes, bytes]] = field(default_factory=set)

    def of(self, signed: SignedCertificate) -> bool:
        """Say whether the signature holds."""
        if self.forgiving or self.cache.knows(signed):
            return True
        if (signed.id, signed.signature) in self.refused:
            return False
        self.left -= 1
        if self.left < 0:
            raise SearchTooLarge("the search for a chain reached its limit of signature checks")
        try:
            self.cache.check(signed)
        except BrokenCredential:
            self.refused.add((signed.id, signed.signature))
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Bent:
    """Which rules to forget, in order to see what a request missed. A real search forgets none."""

    validity: bool = False
    delegation: bool = False
    authority: bool = False
    right: bool = False
    signature: bool = False
    length: bool = False


_BENT_ONE_BY_ONE: Final = (
    _Bent(authority=True, validity=True),
    _Bent(authority=True, delegation=True),
    _Bent(authority=True),
    _Bent(authority=True, right=True),
    _Bent(authority=True, signature=True),
    _Bent(authority=True, length=True, signature=True),
)


def _makes_needless(one: Flow, other: Flow) -> bool:
    if one is other or not at_least_as_good(one, other):
        return False
    # Of two that are equally good, the first found stays: it is the shorter one.
    return not at_least_as_good(other, one) or one.length < other.length
