"""Which chain in this pool lets this principal do this, and if none does, what comes nearest?

Clients and brokers hold certificates in no order and do not want to sort them
(mission: "the system finds the chain by itself"). The search stays within
counted steps, whatever an attacker put into the pool: a cycle, a chain of ten
thousand, a diamond of a million paths, a name that never ends. Signatures are
checked only where a chain might pass, from the owner on, and each found chain
is verified again by the verifier, which alone builds proofs. Equal pools give equal answers,
in whatever order the certificates come.

The explanation of a failure is meant for the owner of the pool.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from maia.credentials.authority import Action, covers_request
from maia.credentials.certificate import (
    AuthorisationCertificate,
    Certificate,
    NameCertificate,
    SignedCertificate,
)
from maia.credentials.chains.chain import (
    VerificationCache,
    VerifiedChain,
    owner_chain,
    root_terminal,
    verify_chain,
    verify_needed,
)
from maia.credentials.chains.flows import (
    DEFAULT_LIMITS,
    Flow,
    FlowLimits,
    FlowSearch,
    Rules,
    certificates_of,
    flow_search,
    needed,
)
from maia.credentials.chains.quorum import VerifiedConstitution, leaves
from maia.credentials.chains.reduction import (
    BrokenChain,
    Budget,
    NoChain,
    SearchTooLarge,
    Terminal,
    UnknownQuorum,
    shown_id,
)
from maia.credentials.encoding.certificates import signed_part
from maia.credentials.keys import BadSignature, LocalName, Owner, Principal, Subject, Threshold
from maia.credentials.names import ResourceName
from maia.errors import BrokenCredential
from maia.events import Instant

_WITHOUT_LENGTH: Final = 1 << 30
_NO_CHAIN: Final = "no chain leads to that principal"
_FLOWS_AT_FIRST: Final = 16
"""Flows per subject of the first search; only where that leaves some out is there a wider one."""


@dataclass(slots=True)
class LeftOut:
    """How many grants searches came upon and did not return, because of a limit; there may be more."""

    count: int = 0


# Any: what is asked is what `find_chains` is asked, and it says which arguments these are.
def find_chain(
    pool: Iterable[SignedCertificate], *, limits: FlowLimits = DEFAULT_LIMITS, **asked: Any
) -> VerifiedChain:
    """Return a shortest chain for the request; refuse with the nearest miss if there is none."""
    return find_chains(pool, limits=replace(limits, chains_max=1), **asked)[0]


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
    doubtful: frozenset[bytes] = frozenset(),
    left_out: LeftOut | None = None,
    budget: Budget | None = None,
    explains: bool = True,
) -> tuple[VerifiedChain, ...]:
    """Return the chains for the request that grant something no other found chain grants.

    At least one, at most `limits.chains_max`, the short ones first. Several
    matter where one shows attributes that another hides, and where one hangs
    on something that another is free of: a condition, or a certificate that
    is `doubtful`. The caller names the ids of those: bounds lie on them, or
    another verifier may know that they are revoked. `left_out` counts the
    grants that the limits kept from being returned.

    A server hands in a `budget`, which all its searches for one answer share.
    Of a miss it then finds no more than what a requester may know:
    a right that has ended, or not begun. A caller that knows better what to
    blame has no miss explained.
    """
    if resource.owner != root:
        raise BrokenChain(
            "CREDENTIAL-WRONG-ROOT", f"the resource belongs to `{resource.owner}`, not to `{root}`"
        )
    if root == subject:
        return (owner_chain(subject, at),)
    ordered = _ordered(pool, limits)
    terminal = root_terminal(root, constitutions := tuple(constitutions))
    if not explains and isinstance(terminal, Principal):
        # Every chain begins with a certificate of the owner's: where the last one was revoked, that is all.
        owners = (one.certificate for one in ordered if one.certificate.issuer == terminal)
        if not any(_is_about(one, action, resource) for one in owners):
            raise NoChain(_NO_CHAIN)
    quest = _Quest(
        pool=ordered,
        root=root,
        terminal=terminal,
        subject=subject,
        action=action,
        resource=resource,
        at=at,
        cache=VerificationCache() if cache is None else cache,
        constitutions=constitutions,
        limits=limits,
        doubtful=doubtful,
        shared=budget,
    )
    flows = quest.flows_in_doubt(LeftOut() if left_out is None else left_out)
    if not flows:
        raise quest.nearest_miss() if explains else NoChain(_NO_CHAIN)
    return tuple(quest.proved(certificates_of(flow)) for flow in flows)


def _ordered(pool: Iterable[SignedCertificate], limits: FlowLimits) -> tuple[SignedCertificate, ...]:
    """Return the pool in an order of its own, each certificate once.

    By signature as well as by id: a bad signature must not hide a good one.
    """
    certificates: dict[tuple[bytes, bytes], SignedCertificate] = {}
    for signed in pool:
        certificates.setdefault((signed.id, signed.signature), signed)
        if len(certificates) > limits.pool_max:
            raise SearchTooLarge(f"a search takes no more than {limits.pool_max} certificates")
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
    doubtful: frozenset[bytes]
    shared: Budget | None

    def flows_in_doubt(self, left_out: LeftOut) -> list[Flow]:
        """Return the flows, with others beside what is doubtful unless that takes too many steps."""
        budget = self._budget()
        if not self.doubtful:
            return self.flows(left_out, budget)
        with suppress(SearchTooLarge), budget.all_but(2) as part:
            return self.flows(left_out, part)
        left_out.count += 1
        return replace(self, doubtful=frozenset()).flows(left_out, budget)

    def flows(self, left_out: LeftOut, budget: Budget) -> list[Flow]:
        """Return the flows that no other found flow makes needless.

        A pool of a million different paths would use up the steps before the first of them is at the
        owner, so the search is a narrow one first.
        """
        widest = self.limits.flows_per_subject_max
        limits = replace(self.limits, flows_per_subject_max=min(_FLOWS_AT_FIRST, widest))
        search = self._search(_Bent(), limits, budget)
        found, missing = self._found_by(search)
        if missing and limits.flows_per_subject_max < widest and self.limits.chains_max > 1:
            with budget.all_but(8) as part:
                more, missing = self._found_by(search.again(self.limits, part), found)
            found = [*more, *found]
        best = sorted(needed(found), key=lambda flow: flow.length)
        left_out.count += missing + max(0, len(best) - self.limits.chains_max)
        return best[: self.limits.chains_max]

    def _found_by(self, search: FlowSearch, besides: Sequence[Flow] = ()) -> tuple[list[Flow], int]:
        """Return what reaches the owner, and how much more there is at least."""
        try:
            for flow in search.run():
                if self.limits.chains_max == 1:
                    return [flow], 0
        except SearchTooLarge:
            found = search.flows.get(self.terminal, [])
            if not found and not besides:
                raise
            return found, max(1, search.left_out)
        return search.flows.get(self.terminal, []), search.left_out

    def proved(self, certificates: tuple[SignedCertificate, ...]) -> VerifiedChain:
        """Return the proof; where thresholds met, leave out what turns out not to be needed."""
        verify = partial(
            verify_chain,
            root=self.root,
            subject=self.subject,
            at=self.at,
            cache=self.cache,
            constitutions=self.constitutions,
            limits=self.limits,
            budget=self._budget(),
        )
        return verify_needed(certificates, verify)

    def nearest_miss(self) -> NoChain:
        """Return the refusal; it names the one rule that, bent, would have let a chain through."""
        request = f"no chain lets `{self.subject}` {self.action.value} {self.resource}"
        for bent in _BENT_ONE_BY_ONE if self.shared is None else _BENT_FOR_REQUESTERS:
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
            certificate = signed.certificate
            if isinstance(certificate, AuthorisationCertificate) and not _is_about(
                certificate, self.action, self.resource
            ):
                return BrokenChain(
                    f"certificate {shown_id(signed.id)} does not grant this action on this resource",
                    certificate=signed.id,
                    field="authority",
                )
        return BrokenChain("the certificates grant nothing in common", field="authority")

    # ------------------------------------------------------------ the rules of a search

    def _budget(self) -> Budget:
        return self.limits.budget() if self.shared is None else self.shared

    def _search(
        self, bent: _Bent, limits: FlowLimits | None = None, budget: Budget | None = None
    ) -> FlowSearch:
        limits = self.limits if limits is None else limits
        limits = replace(limits, certificates_max=_WITHOUT_LENGTH) if bent.length else limits
        budget = self._budget() if budget is None else budget
        trust = _Trust(self.cache, budget, forgiving=bent.signature)
        helpful = {signed.certificate.issuer for signed in self.pool} | {self.subject}

        def admits(signed: SignedCertificate) -> bool:
            in_time = bent.validity or signed.certificate.validity.contains(self.at)
            return in_time and (bent.right or _is_about(signed.certificate, self.action, self.resource))

        def admits_name(signed: SignedCertificate) -> bool:
            # Of a group of a thousand, only those who could be on the way are worth a signature check.
            means = signed.certificate.subject
            if isinstance(means, Principal) and means not in helpful:
                return False
            return bent.validity or signed.certificate.validity.contains(self.at)

        rules = Rules(
            admits,
            trust.of,
            admits_name,
            needs_delegation=not bent.delegation,
            weighs_authority=not bent.authority,
            doubtful=self.doubtful,
        )
        return flow_search(self.pool, self.terminal, self.subject, rules, limits, budget)


def _is_about(certificate: Certificate, action: Action, resource: ResourceName) -> bool:
    """Return whether a certificate grants this action on this resource, if it grants anything."""
    return isinstance(certificate, AuthorisationCertificate) and covers_request(
        certificate.authority, action, resource
    )


@dataclass(slots=True)
class _Trust:
    """Signature checks on demand, each once, up to a number."""

    cache: VerificationCache
    budget: Budget
    forgiving: bool

    def of(self, signed: SignedCertificate) -> bool:
        """Return whether the signature holds."""
        if self.forgiving or self.cache.knows(signed):
            return True
        if (signed.id, signed.signature) in self.budget.refused:
            return False
        self.budget.spend_check()
        try:
            self.cache.check(signed)
        except BrokenCredential:
            self.budget.refused.add((signed.id, signed.signature))
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

_BENT_FOR_REQUESTERS: Final = _BENT_ONE_BY_ONE[:1]
"""What is wrong in every other way is the business of the pool's owner, who can search for it itself."""


# What an owner's signatures lead to, of all that a stranger shows.


FORGED_MAX: Final = 8
"""Bad signatures that a pool may have before the rest of it is left unread: an honest one has none."""


def read_from_owner(
    shown: Iterable[bytes],
    *,
    root: Owner,
    cache: VerificationCache,
    budget: Budget,
    constitutions: Iterable[VerifiedConstitution] = (),
) -> dict[bytes, SignedCertificate]:
    """Return the certificates that signatures lead to from `root` on, by their bytes, in that order.

    What the budget does not reach is left out. Bytes that are framed like no
    certificate are refused.
    """
    by_issuer: dict[bytes, list[bytes]] = {}
    for data in dict.fromkeys(shown):
        by_issuer.setdefault(signed_part(data).issuer, []).append(data)
    try:
        waiting = deque(_keys_in(root_terminal(root, constitutions), may_pass_on=True))
    except UnknownQuorum:
        return {}
    read: dict[bytes, SignedCertificate] = {}
    forged = 0
    while waiting and forged <= FORGED_MAX:
        for data in by_issuer.pop(waiting.popleft(), ()):
            try:
                signed = cache.read_checked(data, budget)
            except SearchTooLarge:
                return read
            except BadSignature:
                forged += 1
                if forged > FORGED_MAX:
                    break
            else:
                read[data] = signed
                waiting.extend(_led_to(signed.certificate))
    return read


def _led_to(certificate: Certificate) -> Iterator[bytes]:
    """Yield the keys whose certificates may matter because of this one."""
    may_pass_on = isinstance(certificate, NameCertificate) or certificate.may_delegate
    return _keys_in(certificate.subject, may_pass_on=may_pass_on)


def _keys_in(subject: Subject, *, may_pass_on: bool) -> Iterator[bytes]:
    for member in leaves(subject) if isinstance(subject, Threshold) else (subject,):
        match member:
            case LocalName(space, _):
                yield space.key  # it says whom the name means
            case Principal(key) if may_pass_on:
                yield key
