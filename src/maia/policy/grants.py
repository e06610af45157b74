"""Does this chain grant this request, and if not, how near did it come?

Each chain is asked the same questions in the same order: does it begin at the
owner, end at the requester, name the resource and the action, hold now,
and is its condition met? The first no is its miss. `decide` uses the chains
without a miss, and explains a denial by the chain that came nearest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from maia.credentials.authority import (
    ALL_ACTIONS,
    ALL_ATTRIBUTES,
    Action,
    AnyResource,
    AttributeSet,
    Authority,
    Bound,
    FilterBound,
    both_attributes,
    composed,
    covers_request,
    terms_of,
)
from maia.credentials.certificate import UNBOUNDED, AuthorisationCertificate, SignedCertificate, Validity
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.names import ResourceName
from maia.events import AttributeUid, Instant, Kind
from maia.policy.decision import Explanation, Reason, Request, for_both, for_owner
from maia.policy.endings import ended
from maia.policy.evidence import BoundRule, Evidence, passes_for_notifications, permits, screens
from maia.policy.facts import Facts, about_the_world
from maia.policy.view import Window, converts_to, kinds_shown, shows
from maia.predicates.language.parser import format_predicate
from maia.predicates.syntax import ALWAYS, NEVER, AllOf, Predicate, attributes_of, conjuncts, mistyped
from maia.types import VerifiedType, is_validity_stream
from maia.types.verified import for_subject, is_certificate_stream


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
    code: str
    explanation: Explanation


def grants_of(request: Request, evidence: Evidence) -> Iterator[Grant]:
    """Yield the grants at hand: the owner's own authority first, then the chains in their order.

    A public type needs no chain (docs/decisions/revocation.md), nor do certificates that are pushed to the
    requester itself (docs/decisions/pushed-certificates.md).
    """
    if request.principal == request.resource.owner:
        yield Grant(Authority(AnyResource(), ALL_ACTIONS), UNBOUNDED, chain=None)
    elif request.action is Action.SUBSCRIBE and _is_public(request.event_type):
        yield Grant(Authority(AnyResource(), frozenset((Action.SUBSCRIBE,))), UNBOUNDED, chain=None)
    elif request.action is Action.SUBSCRIBE and _is_for_subjects(request.event_type):
        own = for_subject(request.principal)
        authority = Authority(AnyResource(), frozenset((Action.SUBSCRIBE,)), restriction=own)
        yield Grant(authority, UNBOUNDED, chain=None)
    for chain in evidence.chains:
        yield Grant(chain.authority, chain.validity, chain)


def _is_public(event_type: VerifiedType | None) -> bool:
    return event_type is not None and is_validity_stream(event_type)


def _is_for_subjects(event_type: VerifiedType | None) -> bool:
    return event_type is not None and is_certificate_stream(event_type)


def miss_of(
    grant: Grant, *, request: Request, resource: ResourceName, facts: Facts, now: Instant
) -> Miss | None:
    """Ask a grant every question in order; return its first no, or None if it grants the request."""
    return (
        _wrong_root(grant, resource)
        or _wrong_subject(grant, request)
        or _not_granted(grant, request, resource)
        or _not_now(grant, now)
        or _condition_fails(grant, facts, now)
        or _asks_for_the_unread(grant, request)
    )


def seeing_the_world(grant: Grant, facts: Facts, now: Instant) -> Grant:
    """Return a grant whose rules ask no more of the world than is left unknown at this moment."""
    authority = grant.authority
    if not authority.transformations or about_the_world(authority) is authority.condition:
        return grant
    steps = tuple(
        replace(
            step,
            rules=tuple(
                replace(rule, condition=facts.resolved(rule.condition, of=step.by, now=now))
                for rule in step.rules
            ),
        )
        for step in authority.transformations
    )
    return replace(grant, authority=replace(authority, transformations=steps))


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
    return Miss(Step.ROOT, "POLICY-NO-CHAIN", for_owner(Reason("root", sentence, _first_id(grant), "issuer")))


def _wrong_subject(grant: Grant, request: Request) -> Miss | None:
    if grant.chain is None or grant.chain.subject == request.principal:
        return None
    sentence = f"a chain ends at {grant.chain.subject}, and the requester is {request.principal}"
    return Miss(
        Step.SUBJECT, "POLICY-NO-CHAIN", for_owner(Reason("subject", sentence, _last_id(grant), "subject"))
    )


def _not_granted(grant: Grant, request: Request, resource: ResourceName) -> Miss | None:
    if grant.chain is None or covers_request(grant.authority, request.action, resource):
        return None
    if not _speaks_of(grant.authority, resource):
        culprit = _blamed(grant, lambda part: _speaks_of(part, resource))
        sentence = "your certificates are about other resources"
        reason = Reason("resource", sentence, culprit, "authority.resources")
        return Miss(Step.RESOURCE, "POLICY-RESOURCE-NOT-GRANTED", for_both(reason))
    culprit = _blamed(grant, lambda part: request.action in part.actions)
    reason = Reason("action", f"`{request.action.value}` is not granted", culprit, "authority.actions")
    return Miss(Step.ACTION, "POLICY-ACTION-NOT-GRANTED", for_both(reason))


def _not_now(grant: Grant, now: Instant) -> Miss | None:
    validity = grant.validity
    if validity.contains(now):
        return None
    if validity.not_before is not None and now < validity.not_before:
        culprit = _bounding(grant, lambda part: part.not_before == validity.not_before)
        reason = Reason("validity", f"valid from {validity.not_before} on", culprit.id, "validity.not_before")
        return Miss(Step.VALIDITY, "POLICY-NOT-YET-VALID", for_both(reason))
    culprit = _bounding(grant, lambda part: part.not_after == validity.not_after)
    return Miss(Step.VALIDITY, "POLICY-EXPIRED", for_both(ended(culprit)))


def _condition_fails(grant: Grant, facts: Facts, now: Instant) -> Miss | None:
    condition = grant.authority.condition
    if condition is ALWAYS or condition == ALWAYS:
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
            return Miss(Step.CONDITION, "POLICY-CONDITION-NOT-MET", for_owner(owner, instead=requester))
    return None


def _asks_for_the_unread(grant: Grant, request: Request) -> Miss | None:
    """Return whether a restriction admits nothing, since its issuer may not read what it asks for (A104)."""
    restriction, steps = grant.authority.restriction, grant.authority.transformations
    if request.action not in _WORDS or (restriction is ALWAYS and not steps):
        return None
    if not any(NEVER in terms_of(one) for one in (restriction, *(step.restriction for step in steps))):
        return None
    for identifier, uid in unread_terms(grant, request.action):
        code, word = _WORDS[request.action]
        sentence = f"a restriction is about an attribute that is not {word} for the issuer of its certificate"
        owner = Reason(word, sentence, identifier, "authority.restriction", uid)
        return Miss(Step.RESTRICTION, code, for_owner(owner, instead=Reason(word, sentence)))
    return None


def unread_terms(grant: Grant, action: Action) -> Iterator[tuple[bytes, AttributeUid]]:
    """Yield each certificate, and attribute, whose restriction asks for what the links before do not show.

    Such an attribute is missing for that restriction (`credentials/authority.py::composed`).
    """
    before: Authority | None = None
    for identifier, part in authorities_in(grant):
        if before is not None:
            steps = () if action is Action.PUBLISH else before.transformations
            window = Window(ALWAYS, before.attributes, steps)
            for uid in sorted(attributes_of(part.restriction)):
                if not shows(window, uid):
                    yield identifier, uid
        before = part if before is None else composed(before, part)


def unread_in(evidence: Evidence, action: Action) -> frozenset[AttributeUid]:
    """Return what restrictions of some chain ask for although the links before them do not show it."""
    grants = (Grant(chain.authority, chain.validity, chain) for chain in evidence.chains)
    return frozenset(uid for grant in grants for _, uid in unread_terms(grant, action))


def _speaks_of(authority: Authority, resource: ResourceName) -> bool:
    return any(covers_request(authority, action, resource) for action in authority.actions)


def _blamed(grant: Grant, holds: Callable[[Authority], bool]) -> bytes | None:
    """Return the first certificate whose own authority fails, or the last one if only together they do."""
    failing = (identifier for identifier, part in authorities_in(grant) if not holds(part))
    return next(failing, _last_id(grant))


def _bounding(grant: Grant, sets_it: Callable[[Validity], bool]) -> SignedCertificate:
    """Return the first certificate that sets the bound in question: the same one, whenever it is asked.

    Without certificates there is no bound: what an owner may do does not end.
    """
    setting = (signed for signed in grant.certificates if sets_it(signed.certificate.validity))
    return next(setting, grant.certificates[-1])


def _first_id(grant: Grant) -> bytes | None:
    return grant.certificates[0].id if grant.certificates else None


def _last_id(grant: Grant) -> bytes | None:
    return grant.certificates[-1].id if grant.certificates else None


# What a grant opens, within the bounds.


class Allowances:
    """Which bounds allow the filter of one request; each bound is asked once, for however many chains."""

    __slots__ = ("_answers", "_carried", "_filter", "bounds")

    def __init__(self, bounds: tuple[BoundRule, ...], requested: Predicate) -> None:
        """Remember the bounds and the filter; nothing is asked yet."""
        self.bounds = bounds
        self._filter = requested
        self._answers: dict[int, bool] = {}
        self._carried: dict[FilterBound, BoundRule] = {}

    def carried(self, one: FilterBound, request: Request) -> BoundRule:
        """Return a bound that a right carries as one that is set on whoever relies on it."""
        known = self._carried.get(one)
        if known is None:
            known = BoundRule(request.principal, request.action, one.bound, one.filter)
            self._carried[one] = known
        return known

    def permits(self, rule: BoundRule) -> bool:
        """Return whether one of the bounds allows the filter."""
        # By identity: the rules live as long as the tuple does, and a deep predicate is slow to hash.
        answer = self._answers.get(id(rule))
        if answer is None:
            answer = self._answers[id(rule)] = permits(rule, self._filter)
        return answer


@dataclass(frozen=True, slots=True)
class Opening:
    """One window, the terms that its events satisfy, the grant that opens it, and the bounds applied."""

    window: Window
    terms: frozenset[Predicate]
    grant: Grant
    bounds: tuple[BoundRule, ...]


def opening_of(grant: Grant, request: Request, allowances: Allowances) -> Opening | Miss:
    """Return what `grant` opens under the bounds that apply to it, or the bound that forbids it."""
    rules = tuple(
        [
            rule
            for rule in allowances.bounds
            if rule.applies_to(request.principal, grant.ids, request.action, request.resource)
        ]
    )
    rules += tuple(allowances.carried(one, request) for one in grant.authority.bounds)
    for rule in rules:
        if not allowances.permits(rule):
            return _outside(rule, request)
    window = _window(grant, request, rules)
    return Opening(window, frozenset(conjuncts(window.admits)), grant, rules)


def conjoined(parts: Iterable[Predicate]) -> Predicate:
    """Return the conjunction of some predicates, in its shortest form."""
    said = tuple(dict.fromkeys(part for part in parts if part != ALWAYS))
    return said[0] if len(said) == 1 else AllOf(said)


def kinds_of(request: Request) -> dict[AttributeUid, Kind]:
    """Return the declared attributes of the requester's version; a topic declares none."""
    return {} if request.event_type is None else dict(request.event_type.kinds)


def names_of(request: Request) -> dict[AttributeUid, str]:
    """Return the names of those attributes."""
    attributes = () if request.event_type is None else request.event_type.attributes
    return {attribute.uid: attribute.name for attribute in attributes}


def includes(wide: Opening, narrow: Opening) -> bool:
    """Return whether one opening visibly shows all that another shows, for at least as long."""
    wide_end, narrow_end = wide.grant.validity.not_after, narrow.grant.validity.not_after
    lives_on = wide_end is None or (narrow_end is not None and narrow_end <= wide_end)
    return lives_on and is_as_wide(wide, narrow)


def is_as_wide(wide: Opening, narrow: Opening) -> bool:
    """Return whether one opening visibly shows all that another shows, for as long as it lasts.

    Visibly: every term of the wide restriction is also a term of the narrow
    one. `covers` would find more, at a price that a requester with many
    certificates could drive up; a window too many does no harm.
    """
    return (
        wide.window.transformations == narrow.window.transformations
        and wide.grant.authority.transformations == narrow.grant.authority.transformations
        and _shows_all(wide.window.attributes, narrow.window.attributes)
        and wide.terms <= narrow.terms
    )


def needed(openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Leave out every opening that another one includes; of equal ones the first stays.

    An opening is looked up by the rarest of its terms. What it includes has that term too, so that
    hundreds of narrow openings are not all compared with each other.
    """
    if len(openings) == 1:
        return tuple(openings)
    frequency = Counter(term for opening in openings for term in opening.terms)
    by_term: dict[Predicate | None, list[int]] = {}
    for place, opening in enumerate(openings):
        by_term.setdefault(min(opening.terms, key=frequency.__getitem__, default=None), []).append(place)

    def is_needless(place: int, narrow: Opening) -> bool:
        others = (other for term in (None, *narrow.terms) for other in by_term.get(term, ()))
        return any(
            other != place
            and includes(openings[other], narrow)
            and (other < place or not includes(narrow, openings[other]))
            for other in others
        )

    return tuple(one for place, one in enumerate(openings) if not is_needless(place, one))


def _shows_all(wide: AttributeSet, narrow: AttributeSet) -> bool:
    return wide is ALL_ATTRIBUTES or (narrow is not ALL_ATTRIBUTES and narrow <= wide)


def _window(grant: Grant, request: Request, rules: tuple[BoundRule, ...]) -> Window:
    admits, attributes = grant.authority.restriction, grant.authority.attributes
    # What a publisher writes is transformed before its window is asked.
    steps = () if request.action is Action.PUBLISH else grant.authority.transformations
    for rule in rules:
        if request.action is Action.PUBLISH:
            admits = conjoined((admits, passes_for_notifications(rule, kinds_of(request))))
            if request.event_type is None and rule.bound is not Bound.UPPER:
                # A topic declares no attributes: that all others are absent is made true by nulling them.
                attributes = both_attributes(attributes, attributes_of(rule.filter))
        elif screens(rule) and steps:
            shown = both_attributes(steps[-1].attributes, attributes_of(request.filter))
            steps = (*steps[:-1], replace(steps[-1], attributes=shown))
        elif screens(rule):
            attributes = both_attributes(attributes, attributes_of(request.filter))
    return Window(admits, attributes, steps)


def _outside(rule: BoundRule, request: Request) -> Miss:
    code, sentence = _words_for(rule)
    bound = format_predicate(rule.filter, names_of(request))
    owner = Reason(f"{rule.bound.value} bound", f"{sentence} `{bound}`", _certificate_of(rule), "bound")
    requester = Reason(f"{rule.bound.value} bound", f"{sentence} set for you")
    return Miss(Step.BOUND, code, for_owner(owner, instead=requester))


def _words_for(rule: BoundRule) -> tuple[str, str]:
    bound = f"the {rule.bound.value} bound"
    if rule.action is Action.PUBLISH:
        return "POLICY-ADVERTISEMENT-OUT-OF-BOUNDS", f"the advertisement lies outside {bound}"
    if rule.bound in (Bound.LOWER, Bound.STRICT_LOWER):
        return "POLICY-SUBSCRIPTION-TOO-NARROW", f"the filter lies outside {bound}"
    return "POLICY-SUBSCRIPTION-TOO-WIDE", f"the filter is wider than {bound}"


def _certificate_of(rule: BoundRule) -> bytes | None:
    return rule.holder if isinstance(rule.holder, bytes) else None


# The attributes that the author of a filter may use.
#
# Delivery answers the questions of a filter. A filter on a hidden attribute
# would therefore read it, one bit at a time, so it is refused when it is made.
# The author of an advertisement, too, only names what it may write.


_WORDS: Final[dict[Action, tuple[str, str]]] = {
    Action.SUBSCRIBE: ("POLICY-ATTRIBUTE-NOT-READABLE", "readable"),
    Action.PUBLISH: ("POLICY-ATTRIBUTE-NOT-WRITABLE", "writable"),
}


def filter_miss(request: Request, openings: Sequence[Opening]) -> Miss | None:
    """Say why the filter of a subscriber, or the advertisement of a publisher, is refused, if it is.

    One sentence serves for an attribute that is hidden and for one that does
    not exist: the difference is not the requester's to learn. Kinds are
    checked afterwards, when every attribute is known to be accessible.
    """
    windows = [opening.window for opening in openings]
    kinds, named = usable_kinds(request, windows), attributes_of(request.filter)
    outside = sorted(named - kinds.keys())
    if request.event_type is None:  # a topic declares nothing, so whatever is shown may be named
        outside = [uid for uid in outside if not any(shows(window, uid) for window in windows)]
    if outside:
        code, word = _WORDS[request.action]
        sentence = f"the filter names an attribute that is not {word} or does not exist"
        reason = Reason(word, sentence, field="filter", attribute=outside[0])
        return Miss(Step.RESTRICTION, code, for_both(reason))
    wrong = mistyped(request.filter, kinds)
    if wrong is not None:
        declared = kinds[wrong].value
        sentence = f"the filter compares an attribute with another kind of value than its own, {declared}"
        reason = Reason("kind", sentence, field="filter", attribute=wrong)
        return Miss(Step.RESTRICTION, "POLICY-FILTER-MISTYPED", for_both(reason))
    return None


def usable_kinds(request: Request, windows: Sequence[Window]) -> dict[AttributeUid, Kind]:
    """Return what a filter may name, with its kinds: what some window shows of the version that is asked for,
    or of what its events become where they are converted.
    """
    kinds = kinds_of(request)
    if any(window.transformations and converts_to(window) for window in windows):
        found: dict[AttributeUid, Kind] = {}
        for window in windows:
            found = {**kinds_shown(window, kinds), **found}
        kinds = found
    return {uid: kind for uid, kind in kinds.items() if any(shows(window, uid) for window in windows)}
