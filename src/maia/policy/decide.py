"""May this principal do this now, and what does it then see or write?

Every broker, executor and tool asks here and nowhere else. The answer depends
on the four arguments alone. Chains add up for a subscriber, one of them counts
for a publisher, bounds take away from both, and whatever is unknown grants
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from typing import Final

from maia.credentials.authority import ALL_ATTRIBUTES, Action, AttributeSet, Transformation, both_attributes
from maia.credentials.certificate import Validity, steady_period
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.chains.reduction import BrokenChain, CertificateExpired, CertificateNotYetValid
from maia.credentials.names import ResourceName
from maia.credentials.statements import (
    CertificateNotRevalidated,
    CertificateRevoked,
    CertificateStale,
    CertificateTestedOnce,
)
from maia.errors import BrokenCredential
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant, Kind
from maia.expressions.language import format_rule
from maia.expressions.summary_text import format_summary
from maia.expressions.syntax import Scope
from maia.policy.answers import needed_answers, needed_part
from maia.policy.decision import (
    Decision,
    Denial,
    Explanation,
    Permit,
    Reason,
    Request,
    for_both,
    for_owner,
    resources_needed,
)
from maia.policy.endings import ended
from maia.policy.evidence import CHAINS_MAX, Evidence
from maia.policy.facts import Facts, about_the_world, steady_clock
from maia.policy.grants import (
    Allowances,
    Grant,
    Miss,
    Opening,
    Step,
    authorities_in,
    conjoined,
    filter_miss,
    grants_of,
    is_as_wide,
    kinds_of,
    miss_of,
    names_of,
    needed,
    opening_of,
    seeing_the_world,
    unread_terms,
    usable_kinds,
)
from maia.policy.restrictions import forced_values, unmeetable, with_super_topics
from maia.policy.view import (
    WINDOWS_MAX,
    View,
    Window,
    converts_to,
    is_for_one,
    is_summarised,
    keeps,
    kinds_shown,
    window_size,
)
from maia.predicates.covering.covers import union
from maia.predicates.language.parser import format_predicate
from maia.predicates.language.writer import format_literal
from maia.predicates.syntax import (
    ALWAYS,
    NODES_MAX,
    Predicate,
    PredicateTooLarge,
    attributes_of,
    mistyped,
    size_of,
)
from maia.types.definition import TOPIC, SealingLevel, tree_root


def decide(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
    """Decide a request from its evidence, the facts and the moment."""
    outdated = type_miss(request, now)
    if outdated is not None:
        return denied([outdated], request, evidence, now)
    match request.action:
        case Action.SUBSCRIBE:
            return _decide_subscription(request, evidence, facts, now)
        case Action.PUBLISH:
            return _decide_publication(request, evidence, facts, now)
        case _:
            return _decide_right(request, evidence, facts, now)


def _decide_subscription(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
    openings, misses = _tried(request, request.resource, evidence, facts, now)
    if not openings:
        return denied(misses, request, evidence, now)
    wanted = of_one_type(request, needed(openings))
    if not wanted:
        return denied([_NOT_OF_ITS_KIND], request, evidence, now)
    used, view = with_room(request, wanted)
    cut = len(wanted) - len(used)
    refused = filter_miss(request, used)
    if refused is not None:
        return denied([refused], request, evidence, now, cut=cut)
    return permitted(view, used, request, evidence, now, cut=cut)


def _decide_publication(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
    levels: list[tuple[Opening, ...]] = []
    for resource in resources_needed(request):
        openings, misses = _tried(request, resource, evidence, facts, now)
        writable, unmeetable = _meetable(request, openings)
        if not writable:
            return denied([*misses, *unmeetable], request, evidence, now)
        levels.append(needed(writable))
    # The first that go together count: the wider before the narrower even if it ends before it, shorter
    # chains before longer ones, and those that convert last, as they let a publisher write another type.
    levels = [tuple(sorted(_widest_first(level), key=_converts_on_publication)) for level in levels]
    refusals: list[Miss] = []
    for used in islice(product(*levels), CHAINS_MAX):
        refused = unmeetable_miss(request, used) or filter_miss(request, used)
        if refused is None:
            return permitted(publisher_view(request, used), used, request, evidence, now)
        refusals.append(refused)
    return denied(refusals[:1], request, evidence, now)


def publisher_views(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> tuple[View, ...]:
    """Return every View under which its holder may publish a type, one at a time."""
    openings, _ = _tried(request, request.resource, evidence, facts, now)
    return tuple(publisher_view(request, [one]) for one in _meetable(request, openings)[0])


def _decide_right(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
    openings, misses = _tried(request, request.resource, evidence, facts, now)
    if not openings:
        return denied(misses, request, evidence, now)
    # One chain is enough, so the longest-lived one counts; a View without windows shows nothing.
    used = [_longest_lived(openings)]
    return permitted(View((), until=_end(request, used)), used, request, evidence, now)


def _tried(
    request: Request, resource: ResourceName, evidence: Evidence, facts: Facts, now: Instant
) -> tuple[list[Opening], list[Miss]]:
    """Ask every grant at hand, then the bounds on it; sort what opens from what misses."""
    allowances = Allowances(evidence.bounds, request.filter)
    openings: list[Opening] = []
    misses: list[Miss] = []
    for grant in grants_of(request, evidence):
        outcome = miss_of(grant, request=request, resource=resource, facts=facts, now=now) or opening_of(
            seeing_the_world(grant, facts, now), request, allowances
        )
        if isinstance(outcome, Miss):
            misses.append(outcome)
        else:
            openings.append(outcome)
    return openings, misses


def _meetable(request: Request, openings: Sequence[Opening]) -> tuple[list[Opening], list[Miss]]:
    found = [(opening, unmeetable_miss(request, [opening])) for opening in openings]
    return [one for one, miss in found if miss is None], [miss for _, miss in found if miss is not None]


def _widest_first(openings: Sequence[Opening]) -> list[Opening]:
    def wider(narrow: Opening) -> int:
        return sum(is_as_wide(one, narrow) and not is_as_wide(narrow, one) for one in openings)

    return sorted(openings, key=wider)


def _converts_on_publication(opening: Opening) -> bool:
    return any(step.result is not None for step in opening.grant.authority.transformations)


def _longest_lived(openings: Sequence[Opening]) -> Opening:
    def end(opening: Opening) -> float:
        last = opening.grant.validity.not_after
        return float("inf") if last is None else last

    return max(openings, key=end)


# Explaining a decision, and how long it holds.
#
# `decide` finds out what is granted; here it becomes a permit or a denial with
# reasons for both audiences. The owner reads every miss, the nearest first, and
# every restriction behind a View. The requester reads its own nearest miss, or
# what it may see.


_ATTRIBUTES = "authority.attributes"
_NO_CHAIN = Reason("chain", "no certificates at hand lead from the owner of the resource to you")


def type_miss(request: Request, now: Instant) -> Miss | None:
    """Return whether the proof behind the event type has lapsed since it was made."""
    if request.event_type is None or request.event_type.validity.contains(now):
        return None
    reason = Reason("type", "the definition of the event type is not valid at this moment")
    return Miss(Step.RESTRICTION, "POLICY-TYPE-NOT-VALID", for_both(reason))


def denied(
    misses: Sequence[Miss], request: Request, evidence: Evidence, now: Instant, *, cut: int = 0
) -> Denial:
    """Return the denial that the nearest miss explains; without a miss, no chain was there.

    `cut` is how many of the chains a View had no room for.
    """
    nearest_first = sorted((*misses, *map(_miss_of_broken, evidence.broken)), key=lambda miss: -miss.step)
    owner = tuple(reason for miss in nearest_first for reason in miss.explanation.owner)
    first_shown = next((miss for miss in nearest_first if miss.explanation.requester), None)
    code = "POLICY-NO-CHAIN" if first_shown is None else first_shown.code
    requester = (_NO_CHAIN,) if first_shown is None else first_shown.explanation.requester
    explanation = Explanation(owner or (_NO_CHAIN,), requester)
    limit = left_out(evidence, cut)
    explanation += Explanation() if limit is None else for_both(limit)
    return Denial(code, explanation, stable_period(request, evidence, now))


def permitted(
    view: View,
    openings: Sequence[Opening],
    request: Request,
    evidence: Evidence,
    now: Instant,
    *,
    cut: int = 0,
) -> Permit:
    """Return the permit for a View.

    `cut` is how many of the chains the View had no room for.
    """
    limit = left_out(evidence, cut)
    explain = partial(_explained, view, openings, request, limit)
    return Permit(view, explain, stable_period(request, evidence, now), limit)


def _explained(
    view: View, openings: Sequence[Opening], request: Request, limit: Reason | None
) -> Explanation:
    parts = [_why(opening, request) for opening in openings]
    explanation = Explanation(
        tuple(reason for part in parts for reason in part.owner),
        tuple(reason for part in parts for reason in part.requester),
    )
    explanation += _what_is_seen(view, openings, request)
    return explanation if limit is None else explanation + for_both(limit)


def left_out(evidence: Evidence, cut: int = 0) -> Reason | None:
    """Say that a limit has kept grants from being counted, if one has: `cut` had no room in a View."""
    missing = evidence.left_out + cut
    if not missing:
        return None
    counted = len(evidence.chains) - cut
    sentence = f"only {counted} of at least {counted + missing} grants were counted, because of a limit here"
    return Reason("limit", sentence)


def stable_period(request: Request, evidence: Evidence, now: Instant) -> Validity:
    """Return the moments around `now` at which no certificate at hand begins or ends.

    A decision may be remembered within it: time changes nothing else. Where a
    condition asks for the time, it ends when its answer may become another.
    """
    periods = [chain.validity for chain in evidence.chains]
    if request.event_type is not None:
        periods.append(request.event_type.validity)
    around = steady_period(periods, now)
    since, until = around.not_before, around.not_after
    steady = Validity(None if since == INSTANT_MIN else since, None if until == INSTANT_MAX else until)
    for chain in evidence.chains:
        if _is_conditional(chain):
            steady = steady.intersection(steady_clock(about_the_world(chain.authority), now))
    return steady


def _is_conditional(chain: VerifiedChain) -> bool:
    asked = about_the_world(chain.authority)
    return asked is not ALWAYS and asked != ALWAYS


def _miss_of_broken(broken: BrokenCredential) -> Miss:
    blamed, field = (broken.certificate, broken.field) if isinstance(broken, BrokenChain) else (None, None)
    owner = Reason("credential", f"a chain does not hold: {broken.message} [{broken.code}]", blamed, field)
    code, for_requester = _validity_reason(broken)
    step = Step.ROOT if for_requester is None else Step.VALIDITY
    return Miss(step, code, for_owner(owner, instead=for_requester))


def _validity_reason(broken: BrokenCredential) -> tuple[str, Reason | None]:
    match broken:
        case CertificateExpired(signed=signed):
            return "POLICY-EXPIRED", ended(signed)
        case CertificateNotYetValid():
            return "POLICY-NOT-YET-VALID", Reason(
                "validity", "a certificate that you rely on is not yet valid, or a clock is wrong"
            )
        case CertificateRevoked() | CertificateNotRevalidated():
            return "POLICY-REVOKED", Reason("validity", "a certificate that you rely on was revoked")
        case CertificateStale():
            sentence = (
                "a certificate that you rely on has no valid statement for this moment: "
                "the server of its domain may not run"
            )
            return "POLICY-STALE", Reason("validity", sentence)
        case CertificateTestedOnce():
            sentence = "a certificate that you rely on must be confirmed anew for each request"
            return "POLICY-ONE-TIME", Reason("validity", sentence)
        case _:
            return "POLICY-NO-CHAIN", None


def _why(opening: Opening, request: Request) -> Explanation:
    grant = opening.grant
    if grant.chain is None or not grant.certificates:
        if request.principal != request.resource.owner:
            return for_both(Reason("public", "validity statements are public"))
        return for_both(Reason("owner", "the requester owns the resource"))
    length = len(grant.certificates)
    granted = f"`{request.action.value}` is granted by {_counted(length)} from {grant.chain.root}"
    explanation = for_both(Reason("chain", granted, grant.certificates[-1].id, "authority.actions"))
    return explanation + Explanation(owner=(*_terms(grant, request), *_bounds(opening, request)))


def _terms(grant: Grant, request: Request) -> Iterator[Reason]:
    """Yield, for the owner, what each certificate of a grant adds to its terms."""
    names = names_of(request)
    unread = list(unread_terms(grant, request.action))
    for identifier, part in authorities_in(grant):
        if part.attributes is not ALL_ATTRIBUTES:
            listed = _listed(sorted(part.attributes), names)
            yield Reason("attributes", f"attributes are limited to {listed}", identifier, _ATTRIBUTES)
        if part.restriction != ALWAYS:
            spoken = sorted(attributes_of(part.restriction))
            sentence = f"events are restricted to `{format_predicate(part.restriction, names)}`"
            only = spoken[0] if len(spoken) == 1 else None
            yield Reason("restriction", sentence, identifier, "authority.restriction", only)
        for uid in (uid for by, uid in unread if by == identifier):
            sentence = f"its issuer may not {_verb(request)} `{names.get(uid, uid)}`, which is missing for it"
            yield Reason("unread", sentence, identifier, "authority.restriction", uid)
        for step in part.transformations:
            rules = "; ".join(format_rule(rule, names) for rule in step.rules)
            if step.summary is not None:
                every, per, assigned = format_summary(step.summary, names)
                rules = "; ".join((f"every {every}", *(f"per {one}" for one in per), *assigned))
            become = "" if step.result is None else f" into `{step.result.name}`"
            sentence = f"events are transformed{become}: `{rules}`"
            yield Reason("transformation", sentence, identifier, "authority.transformations")
        if part.condition != ALWAYS:
            sentence = f"the condition `{format_predicate(part.condition)}` holds"
            yield Reason("condition", sentence, identifier, "authority.condition")


def _bounds(opening: Opening, request: Request) -> Iterator[Reason]:
    for rule in opening.bounds:
        bound = format_predicate(rule.filter, names_of(request))
        holder = rule.holder if isinstance(rule.holder, bytes) else None
        rule_name = f"{rule.bound.value} bound"
        yield Reason(rule_name, f"inside the {rule_name} `{bound}`", holder, "bound")


def _what_is_seen(view: View, openings: Sequence[Opening], request: Request) -> Explanation:
    explanation = Explanation()
    if view.windows and request.event_type is not None:
        explanation += _attributes(openings, request)
    explanation += _answered_by_others(view, request)
    for uid, value in sorted(view.forced.items()):
        explanation += for_owner(
            Reason("forced", f"the value is always `{format_literal(value)}`", attribute=uid)
        )
    if view.until is not None:
        explanation += for_both(Reason("until", f"this holds until {view.until}"))
    return explanation


def _answered_by_others(view: View, request: Request) -> Explanation:
    """Say what follows where a right to a sealed type is about attributes that it does not show."""
    event_type = request.event_type
    sealing = None if event_type is None else event_type.sealing
    if event_type is None or sealing is None or request.action is not Action.SUBSCRIBE:
        return Explanation()
    readable = frozenset(uid for uid in event_type.kinds if any(keeps(one, uid) for one in view.windows))
    kinds, to, windows = event_type.kinds, view.recipient, view.windows
    if sealing.level is SealingLevel.ATTRIBUTE:
        is_made = any(needed_answers(window, readable, kinds, to) for window in windows)
    else:
        is_made = not sealing.blinded and all(needed_part(window, kinds, to) for window in windows)
    if not is_made:
        return Explanation()
    sentence = (
        "what is shown is made of attributes that stay hidden: publishers' brokers make it, from the "
        "moment on at which the key server knows of this right, and what was recorded before is not shown"
    )
    return for_both(Reason("sealed", sentence))


def _attributes(openings: Sequence[Opening], request: Request) -> Explanation:
    """Name what is shown to the requester; to the owner, what is hidden as well."""
    names, declared = names_of(request), list(names_of(request))
    if any(converts_to(opening.window) for opening in openings):
        declared = sorted({uid for one in openings for uid in kinds_shown(one.window, kinds_of(request))})
        names = {}
    usable = usable_kinds(request, [opening.window for opening in openings])
    shown = [uid for uid in declared if uid in usable]
    hidden = [uid for uid in declared if uid not in shown]
    owner = f"the requester may {_verb(request)} {_listed(shown, names)}"
    owner += f" and not {_listed(hidden, names)}" if hidden else ""
    requester = f"you may {_verb(request)} {_listed(shown, names)}"
    return for_owner(Reason("attributes", owner), instead=Reason("attributes", requester))


def _verb(request: Request) -> str:
    return "write" if request.action is Action.PUBLISH else "read"


def _counted(certificates: int) -> str:
    return "one certificate" if certificates == 1 else f"a chain of {certificates} certificates"


def _listed(uids: Sequence[AttributeUid], names: Mapping[AttributeUid, str]) -> str:
    return ", ".join(f"`{names.get(uid, uid)}`" for uid in uids) or "nothing"


_NOT_OF_ITS_KIND: Final = Miss(
    Step.RESTRICTION,
    "POLICY-GRANT-UNMEETABLE",
    for_both(Reason("transformation", "a transformation gives an attribute another kind than it has")),
)


# What a publisher may write.


def publisher_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of one window in which every opening holds.

    There is one opening for a type, and one for each level of a topic, whose
    restrictions all apply (dissertation 5.5). Where the type is a tree of topics,
    the restriction has to hold on each of its levels. A transformation is of a type, so of one opening.
    """
    attributes: AttributeSet = ALL_ATTRIBUTES
    for opening in openings:
        attributes = both_attributes(attributes, opening.window.attributes)
    admits = conjoined(opening.window.admits for opening in openings)
    if (root := _tree_of(request)) is not None:
        admits = with_super_topics(admits, TOPIC.uid, root)
    restriction = conjoined(opening.grant.authority.restriction for opening in openings)
    steps = tuple(step for opening in openings for step in opening.grant.authority.transformations)
    recipient = request.principal.key if any(step.is_keyed(Scope.RECIPIENT) for step in steps) else b""
    return View(
        (Window(admits, attributes),),
        forced=forced_values(restriction),
        until=_end(request, openings),
        recipient=recipient,
        on_publication=steps,
    )


def unmeetable_miss(request: Request, openings: Sequence[Opening]) -> Miss | None:
    """Say why no event of this publisher could ever pass, if that is known beforehand."""
    view = publisher_view(request, openings)
    (window,) = view.windows
    if not _makes_its_type(request, view):
        return _NOT_OF_ITS_KIND
    found = unmeetable(window.admits, writable=_writable(request, window), kinds=kinds_of(request))
    if found is None:
        return None
    last = openings[-1].grant.certificates
    owner = Reason(
        "restriction", found.why, last[-1].id if last else None, "authority.restriction", found.attribute
    )
    sentence = "no event that you may write can satisfy your certificates"
    if _tree_of(request) is not None:
        sentence += ": publishing on a topic needs the right on every topic above it"
    requester = Reason("restriction", sentence)
    return Miss(Step.RESTRICTION, "POLICY-GRANT-UNMEETABLE", for_owner(owner, instead=requester))


def _makes_its_type(request: Request, view: View) -> bool:
    """Return whether what is made on publication has only attributes of the version, in their kinds."""
    declared = kinds_of(request)
    made = kinds_shown(Window(ALWAYS, ALL_ATTRIBUTES, view.on_publication), declared)
    return not view.on_publication or all(declared.get(uid) is kind for uid, kind in made.items())


def _tree_of(request: Request) -> str | None:
    return None if request.event_type is None else tree_root(request.event_type.name.name)


def _writable(request: Request, window: Window) -> AttributeSet:
    if request.event_type is None:
        return window.attributes
    return both_attributes(window.attributes, frozenset(request.event_type.kinds))


# What a subscriber sees.


def with_room(request: Request, openings: Sequence[Opening]) -> tuple[tuple[Opening, ...], View]:
    """Return the openings that a View has room for, as executors compile it: one at least; and the View."""
    view = _subscriber_view(request, openings)
    left = NODES_MAX - size_of(request.filter)
    if len(view.windows) <= WINDOWS_MAX and sum(map(window_size, view.windows)) <= left:
        return tuple(openings), view
    counted = 0
    for opening in openings[:WINDOWS_MAX]:
        left -= window_size(opening.window)
        if left < 0:
            break
        counted += 1
    used = tuple(openings[: max(1, counted)])
    return used, _subscriber_view(request, used)


def _subscriber_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of all windows, the filter as its interest."""
    windows = _merged([opening.window for opening in openings])
    recipient = request.principal.key if any(map(is_for_one, windows)) else b""
    return View(windows, interest=request.filter, until=_end(request, openings), recipient=recipient)


def _end(request: Request, openings: Sequence[Opening]) -> Instant | None:
    """Return the last moment of every grant and of the type behind a View."""
    ends = [opening.grant.validity.not_after for opening in openings]
    if request.event_type is not None:
        ends.append(request.event_type.validity.not_after)
    return min((end for end in ends if end is not None), default=None)


@dataclass(frozen=True, slots=True)
class PermittedFilters:
    """The filters with which a subscriber is given one View, but for its interest, and one explanation."""

    kinds: Mapping[AttributeUid, Kind]
    """What they may name."""
    size_max: int

    def __contains__(self, wanted: Predicate) -> bool:
        """Return whether a filter is one of them; others have to be decided upon."""
        return (
            mistyped(wanted, self.kinds) is None
            and attributes_of(wanted) <= self.kinds.keys()
            and size_of(wanted) <= self.size_max
        )


def permitted_filters(request: Request, evidence: Evidence, permit: Permit) -> PermittedFilters | None:
    """Return which other filters a request could have had, with the same answer throughout `permit.stable`.

    None where more depends on the filter, or on facts: under a bound, a condition or a limit. A client
    that asks for a type again, with another filter, needs no decision for those that are permitted.
    """
    if request.action is not Action.SUBSCRIBE or request.event_type is None:
        return None
    if evidence.bounds or permit.limit is not None:
        return None
    if any(_is_conditional(one) or one.authority.bounds for one in evidence.chains):
        return None
    windows = permit.view.windows
    return PermittedFilters(usable_kinds(request, windows), NODES_MAX - sum(map(window_size, windows)))


def of_one_type(request: Request, openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Return the openings that show events of one type, those without transformations first.

    A View shows one type. What a holder sees as it was published is more than what becomes of it, so
    windows that convert count only if no other is there. Those that summarise count only alone, and only
    if they do so in the same way: then one summary is made of the events of all. So that an attribute has
    one kind, a window that gives it another than the version, or than a window before it, does not count.
    """
    if not any(opening.window.transformations for opening in openings):
        return tuple(openings)
    ordered = sorted(openings, key=lambda one: (_summarises(one), bool(one.window.transformations)))
    if ordered and _summarises(ordered[0]):
        first = replace(ordered[0].window, admits=ALWAYS)
        return tuple(one for one in ordered if replace(one.window, admits=ALWAYS) == first)
    results = [converts_to(one.window) for one in ordered]
    result = None if None in results else results[0]
    declared = kinds_of(request)
    kinds: dict[AttributeUid, Kind] = dict(declared) if result is None else {}
    used: list[Opening] = []
    for opening, own in zip(ordered, results, strict=True):
        shown = kinds_shown(opening.window, declared) if opening.window.transformations else {}
        is_odd = any(kinds.get(uid, kind) is not kind for uid, kind in shown.items())
        if own == result and not is_odd and not _summarises(opening):
            kinds = {**shown, **kinds}
            used.append(opening)
    return tuple(used)


def _summarises(opening: Opening) -> bool:
    return any(step.summary is not None for step in opening.window.transformations)


def _merged(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Return windows that show the same of the same events, one for each set of attributes.

    Forty windows of which each opens one car would be asked one by one; one window opens a list of cars.
    """
    if len(windows) == 1:
        return (windows[0],)
    alike: dict[tuple[AttributeSet, tuple[Transformation, ...]], list[Predicate]] = {}
    for window in windows:
        alike.setdefault((window.attributes, window.transformations), []).append(window.admits)
    try:
        return tuple(
            Window(admits[0] if len(admits) == 1 else union(admits), *shown)
            for shown, admits in alike.items()
        )
    except PredicateTooLarge:
        # A summary is of the events of one window.
        return tuple(windows[:1]) if is_summarised(View((windows[0],))) else tuple(windows)
