"""Which chains support a request, and which bounds limit it?

Verified chains support a requester; bounds limit it; chains that did not
verify explain a denial to the owner and grant nothing. Where a limit has kept
chains out, the evidence says so, and so does the decision. Evidence cannot change:
new evidence is a new object, and a decision remembered for the old one does
not survive it.

A domain sets bounds on what its members may ask for or announce, on top of
what certificates grant (Miklós, sections 3.3 to 3.5). An upper bound must
cover the filter, a lower bound must cover it as an advertisement does, and
their strict forms leave no attribute unspoken. Bounds only ever take away:
each one that applies must hold (docs/decisions/views.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from maia.credentials.authority import (
    Action,
    AnyResource,
    Authority,
    Bound,
    FilterBound,
    ResourcePattern,
    covers_request,
)
from maia.credentials.certificate import AuthorisationCertificate, SignedCertificate
from maia.credentials.chains.chain import VerificationCache, VerifiedChain
from maia.credentials.chains.discovery import LeftOut, find_chains
from maia.credentials.chains.flows import DEFAULT_LIMITS, FlowLimits
from maia.credentials.chains.quorum import VerifiedConstitution
from maia.credentials.chains.reduction import (
    Budget,
    CertificateExpired,
    CertificateNotYetValid,
    NoChain,
    SearchTooLarge,
)
from maia.credentials.keys import Principal
from maia.credentials.names import ResourceName
from maia.errors import BadInput, BrokenCredential
from maia.events import AttributeUid, Instant, Kinds
from maia.policy.decision import Reason, Request, TooMuchToSearch, resources_needed
from maia.predicates.covering.covers import covers
from maia.predicates.relations import (
    advertisement_covers_advertisement,
    advertisement_strictly_covers_advertisement,
    filter_strictly_covers_filter,
)
from maia.predicates.syntax import AllOf, AnyOf, Exists, Not, NotAConstraintFilter, Predicate, constraints_of
from maia.validity import Monitor, Once, Tester

Holder: TypeAlias = Principal | bytes
"""The holder of a bound: a principal, or every chain with the certificate of this id."""


@dataclass(frozen=True, slots=True)
class BoundRule:
    """`holder` may `action` on `resources` only with filters inside the bound `filter`."""

    holder: Holder
    action: Action
    bound: Bound
    filter: Predicate
    resources: ResourcePattern = field(default_factory=AnyResource)

    def __post_init__(self) -> None:
        """Refuse a bound on an action without filter, and one that is no collection of constraints."""
        if self.action not in (Action.PUBLISH, Action.SUBSCRIBE):
            raise BadInput("INPUT-BOUND", f"`{self.action.value}` has no filter to put a bound on")
        if self.bound is not Bound.UPPER:
            constraints_of(self.filter)

    def applies_to(
        self, principal: Principal, certificates: frozenset[bytes], action: Action, resource: ResourceName
    ) -> bool:
        """Return whether the rule limits this principal, who relies on these certificates."""
        held = self.holder == principal if isinstance(self.holder, Principal) else self.holder in certificates
        if not held or action is not self.action:
            return False
        if isinstance(self.resources, AnyResource):
            # A bound takes away, so one on everything is on reserved names too: grants alone must spell them.
            return self.resources.owner in (None, resource.owner)
        return covers_request(Authority(self.resources, frozenset({action})), action, resource)


def permits(rule: BoundRule | FilterBound, requested: Predicate) -> bool:
    """Return whether a filter, or an advertisement, stays inside the bound; a cautious no if not proved."""
    try:
        return _RELATIONS[rule.bound](rule.filter, requested)
    except NotAConstraintFilter:
        return False


def screens(rule: BoundRule) -> bool:
    """Return whether the bound's holder sees only attributes in its own filter (section 3.5)."""
    return rule.action is Action.SUBSCRIBE and rule.bound in (Bound.STRICT_UPPER, Bound.STRICT_LOWER)


def passes_for_notifications(rule: BoundRule | FilterBound, kinds: Kinds) -> Predicate:
    """Return what each published event must satisfy under the bound, as a predicate on the whole event.

    `kinds` are the attributes that an event of the type can have; those the
    bound does not name must be absent where the definitions say so.
    """
    if rule.bound is Bound.UPPER:
        return rule.filter
    spoken = constraints_of(rule.filter)
    silent = tuple(Not(Exists(uid)) for uid in sorted(kinds.keys() - spoken.keys()))
    if rule.bound is Bound.LOWER:
        return AllOf((*_absent_or_covered(spoken), *silent))
    return AllOf((rule.filter, *silent))


def _absent_or_covered(spoken: Mapping[AttributeUid, tuple[Predicate, ...]]) -> tuple[Predicate, ...]:
    # Definition 5: whatever is present meets some constraint; nothing has to be present.
    return tuple(AnyOf((Not(Exists(uid)), *constraints)) for uid, constraints in spoken.items())


def _upper(bound: Predicate, requested: Predicate) -> bool:
    # The general relation equals definition 3 for conjunctions, and also reads filters with `or`.
    return covers(wide=bound, narrow=requested)


_RELATIONS: Final[Mapping[Bound, Callable[[Predicate, Predicate], bool]]] = {
    Bound.UPPER: _upper,
    Bound.LOWER: lambda bound, requested: advertisement_covers_advertisement(wide=bound, narrow=requested),
    Bound.STRICT_UPPER: lambda bound, requested: filter_strictly_covers_filter(wide=bound, narrow=requested),
    Bound.STRICT_LOWER: lambda bound, requested: advertisement_strictly_covers_advertisement(
        wide=bound, narrow=requested
    ),
}


CHAINS_MAX: Final = 1024
CHAINS_COUNTED: Final = 256
"""Chains of one principal to one resource that add up, unless configured otherwise."""
CERTIFICATES_MAX: Final = 256
"""Certificates behind one decision: as many as a message between brokers has room for to prove it."""
BOUNDS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Evidence:
    """Chains in the order of the requester's preference, bounds, and what failed to verify."""

    chains: tuple[VerifiedChain, ...] = ()
    bounds: tuple[BoundRule, ...] = ()
    broken: tuple[BrokenCredential, ...] = ()
    left_out: int = 0
    """How many chains there are besides, at least, that a limit kept from being counted."""
    missed: tuple[SignedCertificate, ...] = ()
    """Where there is no chain: the certificates which would make one if they counted."""

    def __post_init__(self) -> None:
        """Refuse more than a decision takes: silence about the rest would be a wrong answer."""
        if len(self.chains) + len(self.broken) > CHAINS_MAX:
            raise BadInput("INPUT-EVIDENCE-SIZE", f"a decision takes no more than {CHAINS_MAX} chains")
        if len(self.bounds) > BOUNDS_MAX:
            raise BadInput("INPUT-EVIDENCE-SIZE", f"a decision takes no more than {BOUNDS_MAX} bounds")


NO_EVIDENCE: Final = Evidence()
"""No chain: only an owner may do anything."""


# The evidence in a pool of certificates.


def gather_evidence(  # noqa: PLR0913 - every one is named at the call
    request: Request,
    pool: Sequence[SignedCertificate],
    *,
    at: Instant,
    bounds: Iterable[BoundRule] = (),
    cache: VerificationCache | None = None,
    constitutions: Sequence[VerifiedConstitution] = (),
    standing: Tester | None = None,
    once: Collection[Once] = (),
    chains_max: int = CHAINS_COUNTED,
    doubtful: Iterable[bytes] = (),
    budget: Budget | None = None,
) -> Evidence:
    """Return the verified chains in `pool` that support `request` at `at`, and why there are no more.

    `standing` knows what is revoked and whose statements hold; without one
    no statement was received. `once` are the certificates that their testers have
    confirmed for this very request (`request_digest` names it). No more than
    `chains_max` chains are counted; the evidence says how many were not. What
    others grant is found beside what certificates grant that are `doubtful`,
    by their ids, as it is beside those that bounds lie on. A server hands in
    the `budget` of the answer: it is not exceeded, and a refusal is explained
    no further than a requester may know.
    """
    bounds = tuple(bounds)
    tested = _Tested(pool, standing, at, once)
    limits, hinges = _limits_of(request, chains_max), _bounded(bounds).union(doubtful)
    search = _Search(request, at, cache, constitutions, limits, hinges, budget)
    chains: dict[tuple[bytes, ...], VerifiedChain] = {}
    left_out = LeftOut()
    broken: list[BrokenCredential] = []
    missed: dict[bytes, SignedCertificate] = {}
    for resource in resources_needed(request):
        try:
            found = search.chains(tested.good, resource, left_out, explains=not tested.problems)
        except BrokenCredential as problem:
            if budget is not None and isinstance(problem, SearchTooLarge):
                raise TooMuchToSearch(TooMuchToSearch.code, (_TOO_MUCH,)) from problem
            blamed = search.blamed(tested, resource)
            missed |= blamed
            broken += [tested.problems[one] for one in blamed] or [
                _about_time(search.miss(tested, resource, problem), tested.good, at)
            ]
        else:
            chains |= {tuple(signed.id for signed in one.certificates): one for one in found}
    counted = _with_room(chains.values())
    left_out.count += len(chains) - len(counted)
    # A domain sets bounds for many; a decision takes those on this principal and its certificates.
    holders = {request.principal, *(signed.id for signed in pool)}
    concerned = tuple(rule for rule in bounds if rule.holder in holders)
    failed = tuple(broken[: CHAINS_MAX - len(counted)])
    return Evidence(counted, concerned, failed, left_out.count, () if counted else tuple(missed.values()))


class _Tested:
    """A pool, without revoked and stale certificates."""

    __slots__ = ("good", "pool", "problems")

    def __init__(
        self, pool: Sequence[SignedCertificate], standing: Tester | None, at: Instant, once: Collection[Once]
    ) -> None:
        self.pool = pool
        self.problems: dict[bytes, BrokenCredential] = {}
        asked = pool
        if standing is None:  # no list is known: only a certificate that demands a test can have a problem
            standing, asked = _NOTHING_HEARD, [one for one in pool if one.certificate.validity.tests]
        for signed in asked:
            problem = standing.check(signed, at, once=once)
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
    doubtful: frozenset[bytes]
    budget: Budget | None

    def chains(
        self,
        pool: Sequence[SignedCertificate],
        resource: ResourceName,
        left_out: LeftOut | None = None,
        *,
        explains: bool = False,
    ) -> tuple[VerifiedChain, ...]:
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
            doubtful=self.doubtful,
            left_out=left_out,
            budget=self.budget,
            explains=explains,
        )

    def blamed(self, tested: _Tested, resource: ResourceName) -> dict[bytes, SignedCertificate]:
        """Return, by their ids, those certificates that have a problem and would make a chain without it."""
        if not tested.problems:
            return {}
        if (granted := self._granted_directly(tested, resource)) is not None:
            return granted
        in_doubt = replace(self, doubtful=self.doubtful.union(tested.problems))
        try:
            chains = in_doubt.chains(tested.pool, resource)
        except BrokenCredential:
            return {}
        used = (signed for chain in chains for signed in chain.certificates)
        return {signed.id: signed for signed in used if signed.id in tested.problems}

    def _granted_directly(
        self, tested: _Tested, resource: ResourceName
    ) -> dict[bytes, SignedCertificate] | None:
        """Return the same where all certificates about the request are the owner's to the requester, and
        have a problem: then each of them is a chain. None where that takes a search.
        """
        found: dict[bytes, SignedCertificate] = {}
        for signed in tested.pool:
            certificate, action = signed.certificate, self.request.action
            if not isinstance(certificate, AuthorisationCertificate) or not covers_request(
                certificate.authority, action, resource
            ):
                continue
            is_direct = certificate.issuer == resource.owner and certificate.subject == self.request.principal
            is_good = (
                certificate.validity.contains(self.at) and self.cache is not None and self.cache.knows(signed)
            )
            if not is_direct or not is_good or signed.id not in tested.problems:
                return None
            found[signed.id] = signed
        return dict(sorted(found.items())) if len(found) <= self.limits.chains_max else None

    def miss(self, tested: _Tested, resource: ResourceName, problem: BrokenCredential) -> BrokenCredential:
        """Return why certificates without a problem make no chain: `problem`, if there are no others."""
        if tested.problems:
            try:
                self.chains(tested.good, resource, explains=True)
            except BrokenCredential as explained:
                return explained
        return problem


_NOTHING_HEARD: Final = Monitor()
_TOO_MUCH: Final = Reason(
    "limits", "among so many certificates no chain was found within the work for one answer: show fewer"
)


def _limits_of(request: Request, chains_max: int) -> FlowLimits:
    # All levels of a topic share the limit of one decision.
    share = max(1, min(chains_max, CHAINS_MAX // len(resources_needed(request))))
    return replace(DEFAULT_LIMITS, chains_max=share, flows_per_subject_max=share)


def _bounded(bounds: Iterable[BoundRule]) -> frozenset[bytes]:
    return frozenset(rule.holder for rule in bounds if isinstance(rule.holder, bytes))


def _with_room(chains: Iterable[VerifiedChain]) -> tuple[VerifiedChain, ...]:
    """Return the first chains, as many as fit into the certificates of one decision."""
    counted: list[VerifiedChain] = []
    used: set[bytes] = set()
    for chain in chains:
        more = used.union(signed.id for signed in chain.certificates)
        if len(more) <= CERTIFICATES_MAX or not counted:
            counted.append(chain)
            used = more
    return tuple(counted)


def _about_time(
    problem: BrokenCredential, pool: Sequence[SignedCertificate], at: Instant
) -> BrokenCredential:
    """Say `expired` or `not yet valid` where that is what the search failed on: the requester may know."""
    if not isinstance(problem, NoChain) or problem.field != "validity":
        return problem
    for signed in pool:
        validity = signed.certificate.validity
        if signed.id == problem.certificate and not validity.contains(at):
            if validity.not_before is None or validity.not_before <= at:
                return CertificateExpired(problem.message, signed)
            return CertificateNotYetValid(problem.message, certificate=signed.id, field="validity")
    return problem
