"""Through which certificates does authority flow from an owner to a principal?

Chains with thresholds are verified here, and searches in a pool of unknown
order run here, in three passes. The first marks the principals on some path from
the owner to the requester, without signatures. The second checks signatures on
these ways from the owner on: behind a forged certificate nothing is looked
at, so strangers cost one check for each certificate that they forge in the
owner's name. The third follows flows backwards from the principal, who holds
everything it is given, to the owner. A threshold has a flow when enough of
its members have one. A subject keeps a bounded number of flows, none of which
another one makes needless, so a diamond of 2^20 paths costs as much as its
edges, a cycle stops by itself, and memory grows with the certificates. All
work is counted in steps.

Nothing here is a proof. `chains/chain.py` turns what was found into one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from maia.credentials.authority import Authority, AuthorityTooLarge, composed, intersect, terms_in, terms_of
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, SignedCertificate, Validity
from maia.credentials.chains.quorum import Tries, checked_threshold, disjoint_choices
from maia.credentials.chains.reduction import (
    Budget,
    Meaning,
    NameBook,
    SearchTooLarge,
    Terminal,
    includes,
    name_book,
)
from maia.credentials.keys import Principal, Threshold
from maia.errors import BadInput


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """How far a verifier or a search goes. Each limit is a count, so a verdict never depends on load."""

    certificates_max: int = 64
    """In one chain, name certificates included."""
    pool_max: int = 20_000
    steps_max: int = 200_000
    signatures_max: int = 2_000
    flows_per_subject_max: int = 256
    """Grants that add up for one holder; what was left out is reported to the requester."""
    tries_per_share_max: int = 500
    """Combinations tried when a member of a threshold turns out to agree."""
    chains_max: int = 256

    def budget(self) -> Budget:
        """Return what one search may use that shares with no other one."""
        return Budget(self.steps_max, self.signatures_max)


DEFAULT_LIMITS: Final = FlowLimits()

_BARREN_MAX: Final = 16
"""Combinations in a row that add nothing, after which a threshold tries no more of them."""
_LOOKED_AT_PER_STEP: Final = 16
_REPLACED: Final = 1 << 30
_EDGES_COMPARED: Final = 16
"""Earlier certificates of the same issuer to the same holder that a certificate is compared with."""


class Flow(NamedTuple):
    """What reaches the principal from one subject, and how.

    `step` is the certificate the subject issued (none for a threshold and for
    the principal itself), `names` lead from its subject to the next holder,
    and `onward` continues: one flow, or one per share of a threshold. Without
    it, this is what one certificate passes on of all that its holder has.
    A tuple and no dataclass: a search builds many.
    """

    authority: Authority | None
    """None: everything, as nothing has cut it yet."""
    validity: Validity
    may_delegate: bool
    behind: frozenset[Principal]
    length: int
    is_passed_on: bool
    """Some holder issued a certificate, so the grant to that holder must allow delegation."""
    terms: int = 0
    """How many parts the terms of `authority` have: what it costs to compare it with another."""
    step: SignedCertificate | None = None
    names: tuple[SignedCertificate, ...] = ()
    onward: tuple[Flow, ...] = ()
    hinges: frozenset[object] = frozenset()
    """All that may take it away, or an event from it: each term of its restriction, each condition with the
    issuer whose facts count for it, and each doubtful certificate. What hangs on less is better.
    """


@dataclass(frozen=True, slots=True)
class Rules:
    """Which certificates may take part. A search that looks for the nearest miss bends one of these."""

    admits: Callable[[SignedCertificate], bool]
    """Asked once of each certificate that the owner could reach: right, time."""
    trusts: Callable[[SignedCertificate], bool] = lambda _signed: True
    """Asked of a certificate only where everything from the owner up to it is trusted: the signature."""
    admits_name: Callable[[SignedCertificate], bool] = lambda _signed: True
    """The same as `admits`, of name certificates; `trusts` is asked of them too."""
    needs_delegation: bool = True
    weighs_authority: bool = True
    doubtful: frozenset[bytes] = frozenset()
    """The ids of certificates that may turn out to grant less, or nothing: see `find_chains`."""


@dataclass(slots=True)
class FlowSearch:
    """One search, from one owner's threshold or key to one principal."""

    root: Terminal
    subject: Principal
    issued: dict[Principal, list[SignedCertificate]]
    said: NameBook
    """What names mean if all signatures are good."""
    book: NameBook
    """What names mean by signatures that were checked."""
    rules: Rules
    limits: FlowLimits
    budget: Budget
    flows: dict[Terminal, list[Flow]] = field(default_factory=dict)
    _admitted: dict[Principal, list[SignedCertificate]] = field(default_factory=dict)
    _into: dict[Terminal, list[Flow]] = field(default_factory=dict)
    _shares: dict[Terminal, list[tuple[Threshold, int, Meaning]]] = field(default_factory=dict)
    _offers: dict[Threshold, list[list[Flow]]] = field(default_factory=dict)
    _is_laid_out: bool = False
    _compared: dict[int, int] = field(default_factory=dict)
    """With how many flows of its issuer an edge was compared, which the search keeps alive."""
    _passed: dict[Terminal, int] = field(default_factory=dict)
    _waiting: deque[tuple[Terminal, Flow]] = field(default_factory=deque)
    _crowded_out: list[tuple[Terminal, Flow]] = field(default_factory=list)

    @property
    def left_out(self) -> int:
        """Return how many flows were found and not followed, because their holder had enough others."""
        return sum(
            not any(at_least_as_good(one, flow) for one in self.flows[holder])
            for holder, flow in self._crowded_out
        )

    def run(self) -> Iterator[Flow]:
        """Yield the flows that reach the owner, in a fixed order, the short ones first."""
        cut: SearchTooLarge | None = None
        if not self._is_laid_out:
            try:
                self._lay_out(self._on_the_way())
                self._is_laid_out = True
            except SearchTooLarge as problem:
                cut = problem  # what was laid out before may be enough
        self._add(self.subject, _arrived(self.subject))
        while self._waiting:
            here, flow = self._waiting.popleft()
            if here == self.root:
                yield flow
                continue
            for edge in self._edges_into(here):
                self._through_certificate(edge, flow)
            for threshold, place, meaning in self._shares.get(here, ()):
                self._through_threshold(threshold, place, meaning, flow)
        if cut is not None:
            raise cut

    def again(self, limits: FlowLimits, budget: Budget) -> FlowSearch:
        """Return a search of the same pool within other limits on flows; what was laid out stays."""
        return replace(
            self,
            limits=limits,
            budget=budget,
            flows={},
            _offers={threshold: [[] for _ in offers] for threshold, offers in self._offers.items()},
            _compared={},
            _passed={},
            _waiting=deque(),
            _crowded_out=[],
        )

    # ------------------------------------------------------------ principals on the way, without signatures

    def _on_the_way(self) -> set[Terminal]:
        """Return the holders that a chain of allowed length could lead through."""
        before: dict[Terminal, list[Terminal]] = {}
        from_root = _distances(self.root, lambda here: self._possible_holders(here, before))
        to_subject = _distances(self.subject, lambda here: self._counted_back(here, before))
        most = self.limits.certificates_max
        return {
            here for here, more in to_subject.items() if here in from_root and from_root[here] + more <= most
        }

    def _possible_holders(
        self, here: Terminal, before: dict[Terminal, list[Terminal]]
    ) -> Iterator[tuple[Terminal, int]]:
        """Yield whom a holder may pass authority to, and how many certificates that takes at least."""
        for there in self._said_by(here):
            self.budget.spend()
            before.setdefault(there, []).append(here)
            yield there, 0 if isinstance(here, Threshold) else 1

    def _said_by(self, here: Terminal) -> Iterator[Terminal]:
        if isinstance(here, Threshold):
            for member in here.members if _is_sound(here) else ():
                yield from (meaning.subject for meaning in self.said.meanings(member, self.budget))
            return
        if here == self.subject:
            return  # it holds everything it is given: what it issued itself gives it nothing
        admitted = self._admitted[here] = []
        for signed in self.issued.get(here, ()):
            self.budget.spend()
            if self.rules.admits(signed):
                admitted.append(signed)
                meanings = self.said.meanings(signed.certificate.subject, self.budget)
                yield from (meaning.subject for meaning in meanings)

    def _counted_back(
        self, here: Terminal, before: dict[Terminal, list[Terminal]]
    ) -> Iterator[tuple[Terminal, int]]:
        for there in before.get(here, ()):
            self.budget.spend()
            yield there, 0 if isinstance(there, Threshold) else 1

    # ------------------------------------------------------------ forwards: whom the owner surely reaches

    def _lay_out(self, on_the_way: set[Terminal]) -> None:
        """Lay out what is trusted, nearest to the owner first."""
        if self.root not in on_the_way:
            return
        passes_on = {self.root: True}
        waiting: deque[Terminal] = deque(passes_on)
        laid_out: set[Terminal] = set()
        while waiting:
            here = waiting.popleft()
            if isinstance(here, Principal):
                # A holder that may not delegate has nothing to issue.
                if here in laid_out or not passes_on[here]:
                    continue
                laid_out.add(here)
            for there, is_delegable in self._next_holders(here, on_the_way):
                self.budget.spend()
                may_pass_on = is_delegable and passes_on[here]
                if there not in passes_on or (may_pass_on and not passes_on[there]):
                    passes_on[there] = may_pass_on
                    waiting.append(there)

    def _next_holders(self, here: Terminal, on_the_way: set[Terminal]) -> Iterator[tuple[Terminal, bool]]:
        if isinstance(here, Threshold):
            yield from ((there, True) for there in self._members(here, on_the_way))
            return
        for signed in self._admitted.get(here, ()):
            certificate = signed.certificate
            self.budget.spend()
            said = self.said.meanings(certificate.subject, self.budget)
            if all(meaning.subject not in on_the_way for meaning in said) or not self.rules.trusts(signed):
                continue
            is_delegable = not self.rules.needs_delegation or (
                isinstance(signed.certificate, AuthorisationCertificate) and signed.certificate.may_delegate
            )
            for meaning in self.book.meanings(certificate.subject, self.budget):
                if meaning.subject in on_the_way:
                    self._lay_edge(signed, meaning)
                    yield meaning.subject, is_delegable

    def _lay_edge(self, signed: SignedCertificate, meaning: Meaning) -> None:
        """Lay out what a certificate passes on."""
        certificate = signed.certificate
        if not isinstance(certificate, AuthorisationCertificate):
            return
        authority = certificate.authority if self.rules.weighs_authority else None
        edge = Flow(
            authority=authority,
            validity=certificate.validity.intersection(meaning.validity),
            may_delegate=certificate.may_delegate,
            behind=frozenset((certificate.issuer,)),
            length=1 + len(meaning.through),
            is_passed_on=True,
            terms=0 if authority is None else terms_in(authority),
            step=signed,
            names=meaning.through,
            hinges=self._hinges(certificate, (signed, *meaning.through)),
        )
        self._into.setdefault(meaning.subject, []).append(edge)

    def _members(self, threshold: Threshold, on_the_way: set[Terminal]) -> Iterator[Terminal]:
        if not _is_sound(threshold):
            return  # a threshold that counts a principal twice grants nothing
        is_new = threshold not in self._offers
        self._offers.setdefault(threshold, [[] for _ in threshold.members])
        for place, member in enumerate(threshold.members):
            for meaning in self.book.meanings(member, self.budget):
                if meaning.subject in on_the_way:
                    if is_new:
                        self._shares.setdefault(meaning.subject, []).append((threshold, place, meaning))
                    yield meaning.subject

    # ------------------------------------------------------------ backwards: what reaches the principal

    def _edges_into(self, here: Terminal) -> list[Flow]:
        """Return the certificates to a holder; from its second flow on, those that are worth another try.

        Not those to which an earlier one of the same issuer is as good in every way: whatever passes
        through them passes through that one first, and is then as good. Nor those of an issuer that has
        by now a flow with all that they can pass on. Nothing is lost by that, and a holder that is granted
        more and more is not searched longer and longer for it.
        """
        edges = self._into.get(here, [])
        self._passed[here] = passed = self._passed.get(here, 0) + 1
        if passed == 1:
            return edges  # most holders have one flow
        if passed == 2:
            by_issuer: dict[frozenset[Principal], list[Flow]] = {}
            worth: list[Flow] = []
            for edge in edges:
                earlier = by_issuer.setdefault(edge.behind, [])
                shorter = [one for one in earlier if one.length <= edge.length]
                if not self._is_replaced(edge, shorter):
                    worth.append(edge)
                    if len(earlier) < _EDGES_COMPARED:
                        earlier.append(edge)
            self._into[here] = edges = worth
        return edges

    def _is_replaced(self, edge: Flow, by: Iterable[Flow]) -> bool:
        """Return whether one of these is as good as an edge, and what is left of it as what is left of that.

        That is certain of grants of one resource without transformations, however they go on.
        """
        rivals = [one for one in by if one.hinges <= edge.hinges]
        self.budget.spend(len(rivals), terms=sum(one.terms + edge.terms for one in rivals))
        return any(at_least_as_good(one, edge) and _is_plain(one.authority, edge.authority) for one in rivals)

    def _through_certificate(self, edge: Flow, flow: Flow) -> None:
        self.budget.spend()
        (issuer,) = edge.behind
        length = edge.length + flow.length
        if length > self.limits.certificates_max or self._adds_nothing(edge, issuer, flow):
            return
        if flow.is_passed_on and self.rules.needs_delegation and not edge.may_delegate:
            return
        authority, terms = None, 0
        if edge.authority is not None:
            self.budget.spend(0, terms=edge.terms + flow.terms)
            authority = _continued(edge.authority, flow.authority)
            if authority is None:
                return
            terms = edge.terms if authority is edge.authority else terms_in(authority)
        reached = Flow(
            authority=authority,
            validity=edge.validity.intersection(flow.validity),
            may_delegate=edge.may_delegate and flow.may_delegate,
            behind=edge.behind,
            length=length,
            is_passed_on=True,
            terms=terms,
            step=edge.step,
            names=edge.names,
            onward=(flow,),
            hinges=flow.hinges | edge.hinges,
        )
        self._add(issuer, reached)

    def _adds_nothing(self, edge: Flow, issuer: Principal, flow: Flow) -> bool:
        """Return whether its issuer has by now a flow that grants all that a certificate can pass on."""
        kept = self.flows.get(issuer, [])
        compared = self._compared.get(id(edge))
        if compared is None:  # nothing has passed yet
            self._compared[id(edge)] = 0
            return False
        if compared < len(kept):
            is_replaced = self._is_replaced(edge, kept[compared:])
            self._compared[id(edge)] = compared = _REPLACED if is_replaced else len(kept)
        return compared == _REPLACED and _is_plain(edge.authority, flow.authority)

    def _hinges(
        self, certificate: AuthorisationCertificate | None, used: Iterable[SignedCertificate]
    ) -> frozenset[object]:
        """Return what is asked of those who rely on these certificates, now or later."""
        doubtful = self.rules.doubtful.intersection(one.id for one in used) if self.rules.doubtful else ()
        weighs = certificate is not None and self.rules.weighs_authority
        return frozenset((*doubtful, *(hinges_of(certificate) if weighs and certificate else ())))

    def _through_threshold(self, threshold: Threshold, place: int, meaning: Meaning, flow: Flow) -> None:
        """Add the flows of a threshold in which the newly found share takes part."""
        share = Flow(
            authority=flow.authority,
            validity=flow.validity.intersection(meaning.validity),
            may_delegate=flow.may_delegate,
            behind=flow.behind,
            length=flow.length + len(meaning.through),
            is_passed_on=flow.is_passed_on,
            terms=flow.terms,
            names=meaning.through,
            onward=(flow,),
            hinges=flow.hinges | self._hinges(None, meaning.through),
        )
        offers = self._offers[threshold]
        others = [
            [] if other == place else [(offer.behind, (other, offer)) for offer in offered]
            for other, offered in enumerate(offers)
        ]
        offers[place].append(share)
        tries, barren = Tries(self.limits.tries_per_share_max), 0
        for chosen in disjoint_choices(
            others, needed=threshold.needed - 1, besides=share.behind, tries=tries
        ):
            shares = tuple(offer for _, offer in sorted([*chosen, (place, share)], key=_place_of))
            barren = 0 if self._join_shares(threshold, shares) else barren + 1
            # Of 10^18 ways to choose 32 of 64, nearly all grant what the first one grants.
            if barren > _BARREN_MAX:
                break
        self.budget.spend(self.limits.tries_per_share_max - max(tries.left, 0))

    def _join_shares(self, threshold: Threshold, shares: tuple[Flow, ...]) -> bool:
        """Add the flow of a threshold whose shares are these; say whether it was worth keeping."""
        length = sum(share.length for share in shares)
        authority = None
        if self.rules.weighs_authority:
            self.budget.spend(0, terms=sum(share.terms for share in shares))
            authority = _common(share.authority for share in shares)
            if authority is None and any(share.authority is not None for share in shares):
                return False
        if length > self.limits.certificates_max:
            return False
        validity = UNBOUNDED
        for share in shares:
            validity = validity.intersection(share.validity)
        joined = Flow(
            authority=authority,
            validity=validity,
            may_delegate=all(share.may_delegate for share in shares),
            behind=self._counted(threshold, shares),
            length=length,
            is_passed_on=any(share.is_passed_on for share in shares),
            terms=0 if authority is None else terms_in(authority),
            onward=shares,
            hinges=frozenset[object]().union(*(share.hinges for share in shares)),
        )
        return self._add(threshold, joined)

    def _counted(self, threshold: Threshold, shares: tuple[Flow, ...]) -> frozenset[Principal]:
        """Return who must not count again: it matters only where this threshold is a member itself."""
        if threshold not in self._shares:
            return frozenset()
        return frozenset[Principal]().union(*(share.behind for share in shares))

    def _add(self, holder: Terminal, flow: Flow) -> bool:
        """Keep a flow unless a kept one is at least as good, or the subject has enough of them."""
        kept = self.flows.setdefault(holder, [])
        # Hinges tell narrow grants apart by looking into a set; only the others are compared part by part.
        rivals = [one for one in kept if one.hinges <= flow.hinges]
        terms = sum(one.terms + flow.terms for one in rivals)
        self.budget.spend(1 + len(kept) // _LOOKED_AT_PER_STEP + len(rivals), terms=terms)
        if any(at_least_as_good(one, flow) for one in rivals):
            return False
        if len(kept) >= self.limits.flows_per_subject_max:
            kept[:] = [one for one in kept if not at_least_as_good(flow, one)]
            if len(kept) >= self.limits.flows_per_subject_max:
                self._crowded_out.append((holder, flow))
                return False
        kept.append(flow)
        self._waiting.append((holder, flow))
        return True


def flow_search(
    certificates: Iterable[SignedCertificate],
    terminal: Terminal,
    subject: Principal,
    rules: Rules,
    limits: FlowLimits,
    budget: Budget,
) -> FlowSearch:
    """Lay out a search over `certificates`, in the order given."""
    pool = tuple(certificates)
    issued: dict[Principal, list[SignedCertificate]] = {}
    for signed in pool:
        if isinstance(signed.certificate, AuthorisationCertificate):
            issued.setdefault(signed.certificate.issuer, []).append(signed)
    said = name_book(pool, rules.admits_name, rules.doubtful)
    book = NameBook(
        said.definitions, lambda signed: rules.admits_name(signed) and rules.trusts(signed), rules.doubtful
    )
    return FlowSearch(terminal, subject, issued, said, book, rules, limits, budget)


def at_least_as_good(one: Flow, other: Flow) -> bool:
    """Return whether `one` surely grants all that `other` grants, for as long and to the same holders.

    And hanging on nothing that `other` is free of, such as a condition or a bound: whether those hold is
    asked later, and grants add up then. Asked first: it tells most pairs of narrow grants apart at once.
    """
    if not one.hinges <= other.hinges:
        return False
    if other.may_delegate and not one.may_delegate:
        return False
    if one.validity is not other.validity and not one.validity.outlasts(other.validity):
        return False
    if one.behind != other.behind or (one.is_passed_on and not other.is_passed_on):
        return False
    if one.authority is None:
        return True
    return other.authority is not None and includes(wide=one.authority, narrow=other.authority)


def needed(flows: Iterable[Flow]) -> list[Flow]:
    """Return the flows that no other one makes needless, in their order."""
    kept: list[Flow] = []
    for flow in flows:
        if not any(at_least_as_good(one, flow) for one in kept):
            kept = [one for one in kept if not at_least_as_good(flow, one)]
            kept.append(flow)
    return kept


def hinges_of(certificate: AuthorisationCertificate) -> frozenset[object]:
    """Return the terms of a certificate that may take an event, or the whole grant, away."""
    terms = certificate.authority
    conditions = ((certificate.issuer, one) for one in terms_of(terms.condition))
    return frozenset((*terms_of(terms.restriction), *conditions, *terms.bounds))


def _is_plain(one: Authority | None, other: Authority | None) -> bool:
    """Return whether two grants are of one resource, and transform nothing."""
    if one is None or other is None:
        return True
    return not one.transformations and not other.transformations and one.resources == other.resources


def certificates_of(flow: Flow) -> tuple[SignedCertificate, ...]:
    """Return the certificates of a flow from the owner to the principal, each once.

    Names follow the certificate whose subject they resolve; the shares of a
    threshold follow one another in the order of its members.
    """
    ordered: dict[tuple[bytes, bytes], SignedCertificate] = {}
    waiting = [flow]
    while waiting:
        here = waiting.pop()
        for signed in (*((here.step,) if here.step is not None else ()), *here.names):
            ordered.setdefault((signed.id, signed.signature), signed)
        waiting.extend(reversed(here.onward))
    return tuple(ordered.values())


def _arrived(subject: Principal) -> Flow:
    behind = frozenset((subject,))
    return Flow(None, UNBOUNDED, may_delegate=True, behind=behind, length=0, is_passed_on=False)


def _distances(
    start: Terminal, neighbours: Callable[[Terminal], Iterator[tuple[Terminal, int]]]
) -> dict[Terminal, int]:
    """Return whom one can get to from `start`, and in how many certificates at least."""
    found: dict[Terminal, int] = {}
    waiting = deque([(start, 0)])
    while waiting:
        here, length = waiting.popleft()
        if here in found:
            continue
        found[here] = length
        for there, more in neighbours(here):
            # Those at no distance go first, so that each principal is met at the shortest one.
            (waiting.append if more else waiting.appendleft)((there, length + more))
    return found


def _is_sound(threshold: Threshold) -> bool:
    try:
        checked_threshold(threshold)
    except BadInput:
        return False
    return True


def _continued(first: Authority, rest: Authority | None) -> Authority | None:
    """Return what the links behind a certificate leave of it; None for nothing."""
    try:
        return first if rest is None else composed(first, rest)
    except AuthorityTooLarge:
        return None


def _common(authorities: Iterable[Authority | None]) -> Authority | None:
    """Return what all of them grant; None means everything as input and nothing as output."""
    common: Authority | None = None
    for authority in authorities:
        if authority is None:
            continue
        try:
            common = authority if common is None else intersect(common, authority)
        except AuthorityTooLarge:
            return None
        if common is None:
            return None
    return common


def _place_of(entry: tuple[int, Flow]) -> int:
    return entry[0]
