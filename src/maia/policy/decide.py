"""May this principal do this now, and what does it then see or write?

Every broker, executor and tool asks here and nowhere else. The answer depends
on the four arguments alone. Chains add up for a subscriber, one of them counts
for a publisher, bounds take away from both, and whatever is unknown grants
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Final

from maia.credentials.authority import ALL_ATTRIBUTES, Action, AttributeSet, Transformation
from maia.credentials.names import ResourceName
from maia.events import AttributeUid, Instant, Kind
from maia.expressions.syntax import Scope
from maia.policy.decision import Decision, GrantUnmeetable, Reason, for_both, for_owner
from maia.policy.evidence import CHAINS_MAX, Evidence
from maia.policy.facts import Facts
from maia.policy.filters import filter_miss
from maia.policy.grants import (
    Allowances,
    Miss,
    Opening,
    Step,
    common_attributes,
    conjoined,
    grants_of,
    is_as_wide,
    kinds_of,
    miss_of,
    needed,
    opening_of,
)
from maia.policy.outcomes import denied, permitted, type_miss
from maia.policy.request import Request, resources_needed
from maia.policy.restrictions import forced_values, unmeetable
from maia.policy.summaries import is_summarised
from maia.policy.super_topics import with_super_topics
from maia.policy.view import (
    WINDOWS_MAX,
    View,
    Window,
    converts_to,
    is_for_one,
    kinds_shown,
    parts_of,
    window_size,
)
from maia.predicates.covering.covers import union
from maia.predicates.syntax import ALWAYS, NODES_MAX, Predicate, PredicateTooLarge
from maia.types.topics import TOPIC, tree_root

_NOT_OF_ITS_KIND: Final = Miss(
    Step.RESTRICTION,
    GrantUnmeetable,
    for_both(Reason("transformation", "a transformation gives an attribute another kind than it has")),
)


# What may a publisher write?


def publisher_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of one window in which every opening holds.

    There is one opening for a type, and one for each level of a topic, whose
    restrictions all apply (dissertation 5.5). Where the type is a tree of topics,
    the restriction has to hold on each of its levels. A transformation is of a type, so of one opening.
    """
    attributes: AttributeSet = ALL_ATTRIBUTES
    for opening in openings:
        attributes = common_attributes(attributes, opening.window.attributes)
    admits = conjoined(opening.window.admits for opening in openings)
    if (root := _tree_of(request)) is not None:
        admits = with_super_topics(admits, TOPIC.uid, root)
    restriction = conjoined(opening.grant.authority.restriction for opening in openings)
    steps = tuple(step for opening in openings for step in opening.grant.authority.transformations)
    recipient = request.principal.key if any(step.is_keyed(Scope.RECIPIENT) for step in steps) else b""
    return View(
        (Window(admits, attributes),),
        forced=forced_values(restriction),
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
    return Miss(Step.RESTRICTION, GrantUnmeetable, for_owner(owner, instead=requester))


def _makes_its_type(request: Request, view: View) -> bool:
    """Say whether what is made on publication has only attributes of the version, in their kinds."""
    declared = kinds_of(request)
    made = kinds_shown(Window(ALWAYS, ALL_ATTRIBUTES, view.on_publication), declared)
    return not view.on_publication or all(declared.get(uid) is kind for uid, kind in made.items())


def _tree_of(request: Request) -> str | None:
    return None if request.event_type is None else tree_root(request.event_type.name.name)


def _writable(request: Request, window: Window) -> AttributeSet:
    if request.event_type is None:
        return window.attributes
    return common_attributes(window.attributes, frozenset(request.event_type.kinds))


# What does a subscriber see?


def with_room(request: Request, openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Return the first openings, as many as make a View that every executor compiles; one at least."""
    if _is_compiled(subscriber_view(request, openings)):
        return tuple(openings)
    left = NODES_MAX - parts_of(request.filter)
    counted = 0
    for opening in openings[:WINDOWS_MAX]:
        left -= window_size(opening.window)
        if left < 0:
            break
        counted += 1
    return tuple(openings[: max(1, counted)])


def subscriber_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of all windows, the filter as its interest; `until` is set by the decision."""
    windows = _merged([opening.window for opening in openings])
    recipient = request.principal.key if any(map(is_for_one, windows)) else b""
    return View(windows, interest=request.filter, recipient=recipient)


def of_one_type(
    request: Request, openings: Sequence[Opening]
) -> tuple[tuple[Opening, ...], tuple[Opening, ...]]:
    """Return the openings that show events of one type, those without transformations first, and the rest.

    A View shows one type. What a holder sees as it was published is more than what becomes of it, so
    windows that convert count only if no other is there. Those that summarise count only alone, and only
    if they do so in the same way: then one summary is made of the events of all. So that an attribute has
    one kind, a window that gives it another than the version, or than a window before it, does not count.
    """
    ordered = sorted(openings, key=lambda one: (_summarises(one), bool(one.window.transformations)))
    if ordered and _summarises(ordered[0]):
        first = replace(ordered[0].window, admits=ALWAYS)
        alike = [replace(one.window, admits=ALWAYS) == first for one in ordered]
        pairs = tuple(zip(ordered, alike, strict=True))
        return tuple(one for one, same in pairs if same), tuple(one for one, same in pairs if not same)
    results = [converts_to(one.window) for one in ordered]
    result = None if None in results else results[0]
    declared = kinds_of(request)
    kinds: dict[AttributeUid, Kind] = dict(declared) if result is None else {}
    used: list[Opening] = []
    unused: list[Opening] = []
    for opening, own in zip(ordered, results, strict=True):
        shown = kinds_shown(opening.window, declared) if opening.window.transformations else {}
        is_odd = any(kinds.get(uid, kind) is not kind for uid, kind in shown.items())
        if own != result or is_odd or _summarises(opening):
            unused.append(opening)
            continue
        kinds = {**shown, **kinds}
        used.append(opening)
    return tuple(used), tuple(unused)


def _summarises(opening: Opening) -> bool:
    return any(step.summary is not None for step in opening.window.transformations)


def _merged(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Return windows that show the same of the same events, one for each set of attributes.

    Forty windows of which each opens one car would be asked one by one; one window opens a list of cars.
    """
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


def _is_compiled(view: View) -> bool:
    size = parts_of(view.interest) + sum(window_size(window) for window in view.windows)
    return len(view.windows) <= WINDOWS_MAX and size <= NODES_MAX


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
    wanted, _ = of_one_type(request, needed(openings))
    if not wanted:
        return denied([_NOT_OF_ITS_KIND], request, evidence, now)
    used = with_room(request, wanted)
    cut = len(wanted) - len(used)
    refused = filter_miss(request, used)
    if refused is not None:
        return denied([refused], request, evidence, now, cut=cut)
    return permitted(subscriber_view(request, used), used, request, evidence, now, cut=cut)


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


def _decide_right(request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
    openings, misses = _tried(request, request.resource, evidence, facts, now)
    if not openings:
        return denied(misses, request, evidence, now)
    # One chain is enough, so the longest-lived one counts; a View without windows shows nothing.
    return permitted(View(windows=()), [_longest_lived(openings)], request, evidence, now)


def _tried(
    request: Request, resource: ResourceName, evidence: Evidence, facts: Facts, now: Instant
) -> tuple[list[Opening], list[Miss]]:
    """Ask every grant at hand, then the bounds on it; sort what opens from what misses."""
    allowances = Allowances(evidence.bounds, request.filter)
    openings: list[Opening] = []
    misses: list[Miss] = []
    for grant in grants_of(request, evidence):
        outcome = miss_of(grant, request=request, resource=resource, facts=facts, now=now) or opening_of(
            grant, request, allowances
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


__all__ = ["publisher_view", "unmeetable_miss", "subscriber_view", "with_room", "decide"]
