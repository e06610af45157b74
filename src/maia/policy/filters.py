"""May the author of this filter use these attributes, in this way?

Delivery answers the questions of a filter. A filter on a hidden attribute
would therefore read it, one bit at a time, so it is refused when it is made.
The author of an advertisement, too, only names what it may write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.credentials.authority import Action
from maia.events import AttributeUid, Kind
from maia.policy.decision import (
    AttributeNotReadable,
    AttributeNotWritable,
    FilterMistyped,
    PolicyRefusal,
    Reason,
    for_both,
)
from maia.policy.grants import Miss, Opening, Step, kinds_of
from maia.policy.request import Request
from maia.policy.restrictions import mistyped
from maia.policy.view import converts_to, kinds_shown, shows
from maia.predicates.syntax import attributes_of

__all__ = ["accessible", "filter_miss"]

_WORDS: Final[dict[Action, tuple[type[PolicyRefusal], str]]] = {
    Action.SUBSCRIBE: (AttributeNotReadable, "readable"),
    Action.PUBLISH: (AttributeNotWritable, "writable"),
}


def filter_miss(request: Request, openings: Sequence[Opening]) -> Miss | None:
    """Say why the filter of a subscriber, or the advertisement of a publisher, is refused, if it is.

    One sentence serves for an attribute that is hidden and for one that does
    not exist: the difference is not the requester's to learn. Kinds are
    checked afterwards, when every attribute is known to be accessible.
    """
    outside = sorted(uid for uid in attributes_of(request.filter) if not accessible(uid, request, openings))
    if outside:
        kind, word = _WORDS[request.action]
        sentence = f"the filter names an attribute that is not {word} or does not exist"
        reason = Reason(word, sentence, field="filter", attribute=outside[0])
        return Miss(Step.RESTRICTION, kind, for_both(reason))
    kinds = _kinds(request, openings)
    wrong = mistyped(request.filter, kinds)
    if wrong is not None:
        declared = kinds[wrong].value
        sentence = f"the filter compares an attribute with another kind of value than its own, {declared}"
        reason = Reason("kind", sentence, field="filter", attribute=wrong)
        return Miss(Step.RESTRICTION, FilterMistyped, for_both(reason))
    return None


def accessible(uid: AttributeUid, request: Request, openings: Sequence[Opening]) -> bool:
    """Say whether some window shows the attribute, and the version, or the type it becomes, has it."""
    declared = request.event_type is None or uid in _kinds(request, openings)
    return declared and any(shows(opening.window, uid) for opening in openings)


def _kinds(request: Request, openings: Sequence[Opening]) -> dict[AttributeUid, Kind]:
    """Return the kinds of what the filter is asked of: of the outcome, where events are converted."""
    kinds = kinds_of(request)
    if not any(converts_to(opening.window) for opening in openings):
        return kinds
    found: dict[AttributeUid, Kind] = {}
    for opening in openings:
        found = {**kinds_shown(opening.window, kinds), **found}
    return found
