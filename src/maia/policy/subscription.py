"""What does a subscriber see?

Several chains add up: each opens its own window, and windows that show the
same attributes become one. Restrictions are added without a word to the
subscriber (dissertation 5.2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from maia.credentials.authority import AttributeSet
from maia.policy.openings import Opening
from maia.policy.request import Request
from maia.policy.view import WINDOWS_MAX, View, Window, parts_of
from maia.predicates.covering.covers import union
from maia.predicates.syntax import NODES_MAX, Predicate, PredicateTooLarge

__all__ = ["subscriber_view", "with_room"]


def with_room(request: Request, openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Return the first openings, as many as make a View that every executor compiles; one at least."""
    if _is_compiled(subscriber_view(request, openings)):
        return tuple(openings)
    left = NODES_MAX - parts_of(request.filter)
    counted = 0
    for opening in openings[:WINDOWS_MAX]:
        left -= parts_of(opening.window.admits)
        if left < 0:
            break
        counted += 1
    return tuple(openings[: max(1, counted)])


def subscriber_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of all windows, the filter as its interest; `until` is set by the decision."""
    return View(_merged([opening.window for opening in openings]), interest=request.filter)


def _merged(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Return windows that show the same of the same events, one for each set of attributes.

    Forty windows of which each opens one car would be asked one by one; one window opens a list of cars.
    """
    alike: dict[AttributeSet, list[Predicate]] = {}
    for window in windows:
        alike.setdefault(window.attributes, []).append(window.admits)
    try:
        return tuple(
            Window(admits[0] if len(admits) == 1 else union(admits), attributes)
            for attributes, admits in alike.items()
        )
    except PredicateTooLarge:
        return tuple(windows)


def _is_compiled(view: View) -> bool:
    size = parts_of(view.interest) + sum(parts_of(window.admits) for window in view.windows)
    return len(view.windows) <= WINDOWS_MAX and size <= NODES_MAX
