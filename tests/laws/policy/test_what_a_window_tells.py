"""C16: of which attributes does a right tell something? A broker has to hold as much as its clients."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from maia.credentials.authority import AllAttributes
from maia.events import AttributeUid
from maia.policy import View, Window, see
from maia.policy.view import attributes_told, has_as_many
from maia.predicates import ALWAYS
from support.view_cases import KEYS, STORED, random_attributes, random_event, random_transformation

SEEDS = st.integers(0, 2**32)
DEFINED = frozenset(STORED)


def a_window(random: Random) -> Window:
    """Return a window of some steps; which events it admits is another question."""
    steps = tuple(random_transformation(random) for _ in range(random.choice((0, 1, 2, 3))))
    return Window(ALWAYS, random_attributes(random), steps)


def told(window: Window) -> frozenset[AttributeUid]:
    found = attributes_told((window,))
    return DEFINED if isinstance(found, AllAttributes) else found


@given(SEEDS)
def test_of_other_attributes_nothing_shows(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - cases
    window, one, other = a_window(random), random_event(random, 1), random_event(random, 1)
    mixed = {uid: value for uid, value in other.items() if uid not in told(window)}
    mixed |= {uid: value for uid, value in one.items() if uid in told(window)}
    view = View((window,), recipient=b"r" * 32)
    shown = see(view, one, KEYS), see(view, mixed, KEYS)
    assert None in shown or shown[0] == shown[1]  # whether a step lets an event through, it does not say


@given(SEEDS)
def test_a_right_that_is_passed_on_tells_of_no_more(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - cases
    window = a_window(random)
    attributes = window.attributes if random.random() < 0.5 else random_attributes(random)
    if not isinstance(window.attributes, AllAttributes) and not isinstance(attributes, AllAttributes):
        attributes &= window.attributes
    steps = (*window.transformations, *(random_transformation(random) for _ in range(random.choice((1, 2)))))
    narrower = replace(window, attributes=attributes, transformations=steps)
    if has_as_many(window.attributes, attributes, DEFINED):
        assert has_as_many(attributes_told((window,)), attributes_told((narrower,)), DEFINED)
