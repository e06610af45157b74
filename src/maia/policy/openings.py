"""What does a grant open for this request, once bounds have taken their part away?

A grant that has passed every question becomes an opening: one window of a
View, together with the grant and the bounds behind it, so that the decision
can be explained. A grant whose bounds do not allow the filter is a miss.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from maia.credentials.authority import ALL_ATTRIBUTES, Action, AttributeSet
from maia.events import AttributeUid, Kind
from maia.policy.bounds import Bound, BoundRule, passes_for_notifications, permits, screens
from maia.policy.grants import Grant, Miss, Step
from maia.policy.reasons import Reason, for_owner
from maia.policy.refusals import (
    AdvertisementOutOfBounds,
    PolicyRefusal,
    SubscriptionTooNarrow,
    SubscriptionTooWide,
)
from maia.policy.request import Request
from maia.policy.restrictions import conjuncts
from maia.policy.view import Window
from maia.predicates.language.parser import format_predicate
from maia.predicates.syntax import ALWAYS, AllOf, Predicate, attributes_of

__all__ = [
    "Allowances",
    "Opening",
    "common_attributes",
    "conjoined",
    "includes",
    "kinds_of",
    "names_of",
    "needed",
    "opening_of",
]


class Allowances:
    """Which bounds allow the filter of one request; each bound is asked once, for however many chains."""

    __slots__ = ("_answers", "_filter", "bounds")

    def __init__(self, bounds: tuple[BoundRule, ...], requested: Predicate) -> None:
        """Remember the bounds and the filter; nothing is asked yet."""
        self.bounds = bounds
        self._filter = requested
        self._answers: dict[int, bool] = {}

    def permits(self, rule: BoundRule) -> bool:
        """Say whether one of the bounds allows the filter."""
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
        rule
        for rule in allowances.bounds
        if rule.applies_to(request.principal, grant.ids, request.action, request.resource)
    )
    for rule in rules:
        if not allowances.permits(rule):
            return _outside(rule, request)
    window = _window(grant, request, rules)
    return Opening(window, frozenset(conjuncts(window.admits)), grant, rules)


def common_attributes(one: AttributeSet, other: AttributeSet) -> AttributeSet:
    """Return the attributes in both sets."""
    if one is ALL_ATTRIBUTES:
        return other
    return one if other is ALL_ATTRIBUTES else one & other


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
    """Say whether one opening visibly shows all that another shows, for at least as long.

    Visibly: every term of the wide restriction is also a term of the narrow
    one. `covers` would find more, at a price that a requester with many
    certificates could drive up; a window too many does no harm.
    """
    wide_end, narrow_end = wide.grant.validity.not_after, narrow.grant.validity.not_after
    lives_on = wide_end is None or (narrow_end is not None and narrow_end <= wide_end)
    return (
        lives_on
        and _shows_all(wide.window.attributes, narrow.window.attributes)
        and wide.terms <= narrow.terms
    )


def needed(openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Leave out every opening that another one includes; of equal ones the first stays.

    An opening is looked up by the rarest of its terms. What it includes has that term too, so that
    hundreds of narrow openings are not all compared with each other.
    """
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
    for rule in rules:
        if request.action is Action.PUBLISH:
            admits = conjoined((admits, passes_for_notifications(rule, kinds_of(request))))
            if request.event_type is None and rule.bound is not Bound.UPPER:
                # A topic declares no attributes: that all others are absent is made true by nulling them.
                attributes = common_attributes(attributes, attributes_of(rule.filter))
        elif screens(rule):
            attributes = common_attributes(attributes, attributes_of(request.filter))
    return Window(admits, attributes)


def _outside(rule: BoundRule, request: Request) -> Miss:
    kind, sentence = _words_for(rule)
    bound = format_predicate(rule.filter, names_of(request))
    owner = Reason(f"{rule.bound.value} bound", f"{sentence} `{bound}`", _certificate_of(rule), "bound")
    requester = Reason(f"{rule.bound.value} bound", f"{sentence} set for you")
    return Miss(Step.BOUND, kind, for_owner(owner, instead=requester))


def _words_for(rule: BoundRule) -> tuple[type[PolicyRefusal], str]:
    bound = f"the {rule.bound.value} bound"
    if rule.action is Action.PUBLISH:
        return AdvertisementOutOfBounds, f"the advertisement lies outside {bound}"
    if rule.bound in (Bound.LOWER, Bound.STRICT_LOWER):
        return SubscriptionTooNarrow, f"the filter lies outside {bound}"
    return SubscriptionTooWide, f"the filter is wider than {bound}"


def _certificate_of(rule: BoundRule) -> bytes | None:
    return rule.holder if isinstance(rule.holder, bytes) else None
