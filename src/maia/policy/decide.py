"""May this principal do this now, and what does it then see or write?

Every broker, executor and tool asks here and nowhere else. The answer depends
on the four arguments alone. Chains add up for a subscriber, one of them counts
for a publisher, bounds take away from both, and whatever is unknown grants
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product

from maia.credentials.authority import Action
from maia.credentials.names import ResourceName
from maia.events import Instant
from maia.policy.decision import Decision
from maia.policy.evidence import CHAINS_MAX, Evidence
from maia.policy.facts import Facts
from maia.policy.filters import filter_miss
from maia.policy.grants import Miss, grants_of, miss_of
from maia.policy.openings import Allowances, Opening, needed, opening_of
from maia.policy.outcomes import denied, permitted, type_miss
from maia.policy.publication import publisher_view, unmeetable_miss
from maia.policy.request import Request, resources_needed
from maia.policy.subscription import subscriber_view, with_room
from maia.policy.view import View

__all__ = ["decide"]


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
    wanted = needed(openings)
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
    # The first that go together count: shorter chains come first.
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


def _longest_lived(openings: Sequence[Opening]) -> Opening:
    def end(opening: Opening) -> float:
        last = opening.grant.validity.not_after
        return float("inf") if last is None else last

    return max(openings, key=end)
