"""A View that asks answers shows what it showed, wherever they are given, and nothing where they are not."""

from __future__ import annotations

from itertools import chain, combinations
from random import Random

import pytest

from maia.broker.audiences.local_subscribers import routed_filter
from maia.events import AttributeUid, frame_of
from maia.policy import View
from maia.policy.answers import (
    answered,
    answers_to,
    hidden_restriction,
    restriction_from_bytes,
    restriction_to_bytes,
    spelt_out,
    unanswered,
)
from maia.policy.view import Window, see
from maia.predicates import AllOf, attributes_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Comparison, Operator
from support.random_cases import usually
from support.view_cases import ROW, STORED, random_attributes, random_event, random_predicate

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
    given = answers_to(frame_of(events, STORED), asked)
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
    assert restriction_from_bytes(restriction_to_bytes(whole)) == whole
