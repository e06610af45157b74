"""What does a View show of what another one has shown already?

An organisation's broker behind a border is sent what the organisation may see. Its members are shown that or
less, because their rights were made from the organisation's. So what a member sees can be made of what
the broker has; here is how, for Views of which that can be said by comparing them.
"""

from __future__ import annotations

from dataclasses import replace

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid
from maia.policy.grants import conjoined
from maia.policy.view import View, Window, is_among, is_for_one, is_summarised
from maia.predicates import ALWAYS, attributes_of
from maia.predicates.syntax import conjuncts

_AS_IT_IS = Window(ALWAYS, ALL_ATTRIBUTES)


def refined(shown: View, view: View) -> View | None:
    """Return a View that makes of what `shown` shows what `view` makes of events; None if not known."""
    if any(map(is_for_one, shown.windows)) and shown.recipient != view.recipient:
        return None
    if shown.windows == view.windows:
        return replace(view, windows=(_AS_IT_IS,))
    if len(shown.windows) != 1 or is_summarised(shown):
        return None
    rest = [_rest(shown.windows[0], window) for window in view.windows]
    found = tuple(one for one in rest if one is not None)
    return replace(view, windows=found) if found and len(found) == len(rest) else None


def _rest(first: Window, window: Window) -> Window | None:
    """Return what is left to do of a window behind the first one."""
    steps = window.transformations
    if first.transformations:
        count = len(first.transformations)
        begins = replace(window, transformations=steps[:count])
        return replace(_AS_IT_IS, transformations=steps[count:]) if begins == first else None
    terms, before = dict.fromkeys(conjuncts(window.admits)), frozenset(conjuncts(first.admits))
    left = [term for term in terms if term not in before]
    asked = frozenset[AttributeUid]().union(*map(attributes_of, left))
    if not before <= terms.keys() or not all(is_among(uid, first.attributes) for uid in asked):
        return None
    if first.attributes is not ALL_ATTRIBUTES and (
        window.attributes is ALL_ATTRIBUTES or not window.attributes <= first.attributes
    ):
        return None
    return Window(conjoined(left), window.attributes, steps)
