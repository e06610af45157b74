"""A View that asks answers shows what it showed, wherever they are given, and nothing where they are not."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, combinations
from random import Random

import pytest

from maia.broker.audiences.local_subscribers import routed_filter
from maia.credentials.authority import ALL_ATTRIBUTES, Transformation
from maia.events import AttributeUid, Event, Kind, PresentValue, frame_of
from maia.policy import View
from maia.policy.answers import (
    PART_PREFIX,
    Said,
    Shown,
    answer_to,
    answered,
    hidden_restriction,
    needed_answers,
    needed_part,
    part_of,
    read_for,
    said_from_bytes,
    said_to_bytes,
    spelt_out,
    unanswered,
    with_columns,
)
from maia.policy.view import Window, keeps, see
from maia.policy.view_bytes import view_from_bytes, view_to_bytes
from maia.predicates import ALWAYS, AllOf, attributes_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Comparison, Operator
from support.random_cases import usually
from support.view_cases import (
    KEYS,
    ROW,
    STORED,
    random_attributes,
    random_event,
    random_predicate,
    random_transformation,
)

UIDS = sorted(STORED)


def random_restricted_view(random: Random) -> View:
    """Return a View whose windows are restricted by up to three terms each."""
    terms = [[random_predicate(random, depth=2) for _ in range(random.randint(1, 3))] for _ in range(2)]
    return View(tuple(Window(AllOf(tuple(some)), random_attributes(random)) for some in terms))


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(20, laws=60)))
def test_answers_change_nothing_of_what_is_shown(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - cases, not secrets
    view, readable = random_restricted_view(random), frozenset(random.sample(UIDS, random.randint(0, 3)))
    hidden = [hidden_restriction(window, readable) for window in view.windows]
    asked = {AttributeUid(f"answer-{at}"): one for at, one in enumerate(hidden) if one is not None}
    asking = answered(view, asked, readable)
    assert unanswered(view, asked, readable) == frozenset()
    assert (
        frozenset().union(*(attributes_of(one.admits) for one in asking.windows)) <= readable | asked.keys()
    )
    events = [random_event(random, row) for row in range(40)]
    frame = frame_of(events, STORED)
    given = {uid: answer_to(said, frame) for uid, said in asked.items()}
    wanted = routed_filter(asking)
    for row, event in enumerate(events):
        known = {uid: value for uid, value in event.items() if uid in readable}
        known |= {uid: values[row] for uid, values in given.items() if values[row] is not None}
        shown = see(asking, {**event, **known})
        assert shown is None or not asked.keys() & shown.keys() or see(view, event) is not None
        assert (shown is None) == (see(view, event) is None)
        # Whoever can read everything matches by the restriction, and whoever cannot, by its answer.
        assert admits(spelt_out(wanted, asked), event) == admits(wanted, known)
        if asked:
            without = {uid: value for uid, value in known.items() if uid not in asked}
            for window, one in zip(asking.windows, hidden, strict=True):
                assert one is None or not admits(window.admits, without)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(20, laws=60)))
def test_what_a_member_is_shown_transformed_is_restricted_by_what_its_organisation_was_answered(
    seed: int,
) -> None:
    random = Random(seed)  # noqa: S311 - cases, not secrets
    steps = random_steps(random, 1)
    read = read_for_window(Window(ALWAYS, ALL_ATTRIBUTES, steps)).union(random.sample(UIDS, 2))
    held = Window(random_predicate(random, depth=2), read)
    hidden = hidden_restriction(held, read)
    answers = {} if hidden is None else {AttributeUid("answer-0"): hidden}
    view = View((replace(held, transformations=steps),), recipient=b"m" * 32)
    asking = answered(view, answers, read)
    assert unanswered(view, answers, read) == frozenset()
    for event in (random_event(random, row) for row in range(20)):
        opened = {uid: value for uid, value in event.items() if uid in read}
        if hidden is not None and answer_to(hidden, frame_of([event], STORED))[0]:
            opened[AttributeUid("answer-0")] = True
        assert see(asking, opened, KEYS) == see(view, event, KEYS)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(8, laws=20)))
def test_part_of_the_answers_is_no_answer(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - cases, not secrets
    view = View((Window(AllOf(tuple(random_predicate(random, depth=1) for _ in range(3))), frozenset()),))
    whole = hidden_restriction(view.windows[0], frozenset())
    assert whole is not None
    terms = whole.parts if isinstance(whole, AllOf) else (whole,)
    for some in chain.from_iterable(combinations(terms, size) for size in range(len(terms))):
        partial = {AttributeUid("answer-0"): AllOf(some)} if some else {}
        assert answered(view, partial, frozenset()) == view
    # An answer to more than the right asks is another restriction's.
    other = AllOf((*terms, Comparison(ROW, Operator.EQ, 7_000_001)))
    assert answered(view, {AttributeUid("answer-0"): other}, frozenset()) == view
    assert said_from_bytes(said_to_bytes(whole)) == whole


def random_steps(random: Random, count: int) -> tuple[Transformation, ...]:
    return tuple(replace(random_transformation(random), result=None) for _ in range(count))


def made_for(said: Said, event: Event) -> PresentValue | None:
    """Return what the broker of a publisher answers of an event."""
    assert isinstance(said, Shown)
    shown = see(view_from_bytes(said.seen), event, KEYS)
    return None if shown is None else True if said.uid is None else shown.get(said.uid)


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(40, laws=400)))
def test_a_right_that_transforms_shows_the_same_from_answers_without_the_keys_of_what_it_is_made_of(
    seed: int,
) -> None:
    """X8: of the organisation, and of a member that is shown less by one link more."""
    random = Random(seed)  # noqa: S311 - cases, not secrets
    held = Window(
        random_predicate(random, depth=2), ALL_ATTRIBUTES, random_steps(random, random.choice((1, 2)))
    )
    less = replace(held, transformations=(*held.transformations, *random_steps(random, 1)))
    holder = b"r" * 32
    readable = frozenset(uid for uid in STORED if keeps(held, uid))
    needed = needed_answers(held, readable, STORED, holder)
    assert needed or frozenset(read_for_window(held)) <= readable
    answers = {AttributeUid(f"answer-{at}"): said for at, said in enumerate(needed)}
    assert all(said_from_bytes(said_to_bytes(said)) == said for said in needed)
    for window in (held, less):
        view = View((window,), recipient=holder)
        asking = answered(view, answers, readable)
        assert not answers or asking != view
        for event in (random_event(random, row) for row in range(20)):
            opened = {uid: value for uid, value in event.items() if uid in readable}
            made = {uid: made_for(said, event) for uid, said in answers.items()}
            opened |= {uid: value for uid, value in made.items() if value is not None}
            assert see(asking, opened, KEYS) == see(view, event, KEYS)
            assert not answers or see(asking, {**event}, KEYS) is None, "without the answers it shows nothing"
            if see(view, event, KEYS) is not None:
                assert admits(spelt_out(routed_filter(asking), answers), event), "it is sent that way"


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(usually(40, laws=400)))
def test_a_right_that_transforms_shows_the_same_from_a_part_without_any_key_of_the_event(seed: int) -> None:
    """X8, where events are sealed as a whole."""
    random = Random(seed)  # noqa: S311 - cases, not secrets
    steps = random_steps(random, random.choice((1, 2)))
    held = Window(random_predicate(random, depth=2), random_attributes(random), steps)
    less = replace(held, transformations=(*held.transformations, *random_steps(random, 1)))
    holder, part = b"r" * 32, AttributeUid(PART_PREFIX + "0" * 32)
    (said,) = needed_part(held, STORED, holder)
    assert said_from_bytes(said_to_bytes(said)) == said
    answers = with_columns({part: said})
    assert {part_of(uid) for uid in answers} == {part}
    for window in (held, less):
        view = View((window,), recipient=holder)
        assert answered(view, answers, {None, *answers}) == view, "who reads whole events needs no part"
        asking = answered(view, answers, answers.keys())
        for event in (random_event(random, row) for row in range(20)):
            made = {uid: made_for(said, event) for uid, said in answers.items()}
            opened = {uid: value for uid, value in made.items() if value is not None}
            assert see(asking, opened, KEYS) == see(view, event, KEYS)
            assert see(asking, {**event}, KEYS) is None, "without the part it shows nothing"
            if see(view, event, KEYS) is not None:
                assert admits(spelt_out(routed_filter(asking), answers), event), "it is sent that way"


def read_for_window(window: Window) -> frozenset[AttributeUid]:
    return read_for(Shown(view_to_bytes(View((window,))), None, Kind.BOOL))
