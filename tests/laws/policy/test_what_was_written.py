"""E10: whoever reads a frame refuses what its writer may not say, and nothing that it may."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials.authority import ALL_ATTRIBUTES, AllAttributes
from maia.events import AttributeUid, Frame, Kind, frame_of
from maia.policy import PublicationRefused, View, Window, see, shape
from maia.policy.restrictions import forced_values
from maia.policy.view import is_for_one
from maia.policy.written import brought_about, written_under
from maia.predicates import ALWAYS
from maia.predicates.syntax import mistyped
from support.view_cases import (
    KEYS,
    STORED,
    random_attributes,
    random_chain,
    random_event,
    random_predicate,
    random_transformation,
    random_view,
)

KINDS = {**STORED, AttributeUid("added-later"): Kind.STRING}
SEEDS = st.integers(0, 2**32)


def a_right(random: Random, *, steps: bool = True) -> View:
    """Return a View for publishing; many admit some of the events."""
    admits = random_predicate(random, depth=2) if random.random() < 0.7 else ALWAYS
    admits = ALWAYS if mistyped(admits, KINDS) else admits
    several = tuple(random_transformation(random) for _ in range(random.choice((0, 1, 2)) if steps else 0))
    several = tuple(replace(one, result=None) if random.random() < 0.7 else one for one in several)
    window = Window(admits, random_attributes(random))
    return View((window,), forced=forced_values(admits), on_publication=several, recipient=b"r" * 32)


def published(random: Random, right: View) -> Frame | None:
    """Return what is published of some events under a right; None if nothing is."""
    rows = []
    for row in range(8):
        try:
            rows.append(shape(right, random_event(random, row), KEYS))
        except PublicationRefused:
            continue
    return frame_of(rows, KINDS) if rows else None


def seen(view: View, frame: Frame) -> Frame | None:
    parts = [part for event in frame.events() if (part := see(view, event, KEYS)) is not None]
    return frame_of(parts, KINDS) if parts else None


@pytest.mark.laws
@given(SEEDS)
def test_what_a_right_lets_its_holder_publish_is_read_whole_cut_and_in_part(seed):
    random = Random(seed)  # noqa: S311 - a case, no secret
    right = a_right(random)
    frame = published(random, right)
    if frame is None:
        return
    assert written_under([right]).holds(frame)
    some = [uid for uid in frame.columns if random.random() < 0.5]
    assert written_under([right]).holds(frame.only(some), is_cut=True)
    hidden = frozenset(frame.columns.keys() - set(some))
    assert written_under([right]).holds(frame.only(some), hidden=hidden)
    assert written_under([a_right(random), right, a_right(random)]).holds(frame), "rights add up"


@pytest.mark.laws
@given(SEEDS)
def test_what_a_border_makes_of_it_is_read_for_the_class_that_it_was_made_for(seed):
    random = Random(seed)  # noqa: S311 - a case, no secret
    right = a_right(random)
    drawn = random_chain(random) if random.random() < 0.3 else random_view(random, transforms=True)
    view = replace(drawn, interest=ALWAYS)
    frame = published(random, right)
    made = None if frame is None or not view.windows else seen(view, frame)
    if made is None:
        return
    assert written_under([right]).holds(made, view), (right, view)
    some = [uid for uid in made.columns if random.random() < 0.5]
    assert written_under([right]).holds(made.only(some), view, is_cut=True)


@pytest.mark.laws
@given(SEEDS)
def test_of_a_whole_event_exactly_what_its_writer_could_have_published_is_read(seed):
    random = Random(seed)  # noqa: S311 - a case, no secret
    right = a_right(random, steps=False)
    event = {uid: value for uid, value in random_event(random, 1).items() if random.random() < 0.7}
    try:
        is_as_published = shape(right, event) == event
    except PublicationRefused:
        is_as_published = False
    assert written_under([right]).holds(frame_of([event], KINDS)) is is_as_published


@pytest.mark.laws
@given(SEEDS)
def test_a_view_makes_of_some_attributes_what_it_is_said_to_make_of_them_and_no_more(seed):
    random = Random(seed)  # noqa: S311 - a case, no secret
    view = replace(random_view(random, transforms=True), interest=ALWAYS)
    writes = random_attributes(random)
    for window in view.windows:
        alone = View((window,), recipient=b"r" * 32 if is_for_one(window) else b"")
        event = random_event(random, 1)
        if not isinstance(writes, AllAttributes):
            event = {uid: value for uid, value in event.items() if uid in writes}
        part = see(alone, event, KEYS) or {}
        come = brought_about(window, writes)
        assert come is ALL_ATTRIBUTES or part.keys() <= come, (window, event)
