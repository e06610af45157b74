"""What does a subscriber see?

Several chains add up: each opens its own window. Restrictions are added
without a word to the subscriber (dissertation 5.2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

from maia.policy.openings import Opening, includes
from maia.policy.request import Request
from maia.policy.view import View

__all__ = ["needed", "subscriber_view"]


def needed(openings: Sequence[Opening]) -> tuple[Opening, ...]:
    """Leave out every opening whose window another one includes for at least as long."""
    kept: list[Opening] = []
    for opening in openings:
        if not any(includes(other, opening) for other in kept):
            kept = [other for other in kept if not includes(opening, other)]
            kept.append(opening)
    return tuple(kept)


def subscriber_view(request: Request, openings: Sequence[Opening]) -> View:
    """Return the View of all windows, the filter as its interest; `until` is set by the decision."""
    return View(tuple(opening.window for opening in openings), interest=request.filter)
