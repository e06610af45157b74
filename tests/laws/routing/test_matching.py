"""Whatever filters come and go, the index says what `admits` says of each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import AttributeUid, Column, Event, Frame, Instant, Kind
from maia.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    admits,
)
from maia.predicates.covering.normal_form import alternatives_of, satisfies
from maia.routing.matching import index as matching
from maia.routing.matching.index import MatchIndex
from support.predicates import KINDS, POOLS, UIDS, conjunctions, events, predicates, wild_values

pytestmark = pytest.mark.laws

SPEED = AttributeUid("speed")


@pytest.fixture(autouse=True, scope="module")
def five_rows_are_a_frame():
    """Frames as short as those here are matched by their columns, as longer ones are, and not one by one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "FEW_ROWS_OF_FEW", matching.FEW_ROWS)
        yield


def by_reading(filters: Mapping[int, Predicate], event: Event) -> set[int]:
    """Ask every filter, one after the other."""
    return {number for number, one in filters.items() if admits(one, event)}


def rows_by_reading(filters: Mapping[int, Predicate], rows: Sequence[Event]) -> dict[int, list[int]]:
    found = {
        number: [at for at, event in enumerate(rows) if admits(one, event)] for number, one in filters.items()
    }
    return {number: at for number, at in found.items() if at}


def index_of(filters: Mapping[int, Predicate], *, cells_max: int = 4096) -> MatchIndex[int]:
    index: MatchIndex[int] = MatchIndex(cells_max=cells_max)
    for number, one in filters.items():
        index.add(number, one)
    return index


def settled(index: MatchIndex[int]) -> MatchIndex[int]:
    """Ask until nothing waits, so that blocks answer."""
    for _ in range(matching.READINGS_MAX + 1):
        index.match({})
        if not index._waiting:
            break
    return index


def frame_by_columns(rows: Sequence[Event], kinds: Mapping[AttributeUid, Kind]) -> Frame:
    """Store events by column, without the check that `frame_of` makes."""
    return Frame(
        len(rows), {uid: Column(kind, tuple(row.get(uid) for row in rows)) for uid, kind in kinds.items()}
    )


def any_filters() -> st.SearchStrategy[dict[int, Predicate]]:
    return st.lists(predicates() | conjunctions(), max_size=12).map(lambda some: dict(enumerate(some)))


def typed_filters(*, wild: bool = False) -> st.SearchStrategy[dict[int, Predicate]]:
    return st.lists(predicates(KINDS, wild=wild) | conjunctions(KINDS), max_size=12).map(
        lambda some: dict(enumerate(some))
    )


@given(any_filters(), st.lists(events(), min_size=1, max_size=4), st.sampled_from([1, 4, 9, 4096]))
@example(
    {
        0: Comparison(SPEED, Operator.EQ, 1),
        1: Comparison(SPEED, Operator.EQ, 1.0),
        2: Comparison(SPEED, Operator.EQ, True),
        3: Comparison(SPEED, Operator.EQ, Instant(1)),
    },
    [{SPEED: 1}, {SPEED: 1.0}, {SPEED: True}, {SPEED: Instant(1)}],
    4096,
)
def test_one_event_matches_the_filters_that_admit_it(filters, some, cells_max):
    index = settled(index_of(filters, cells_max=cells_max))
    for event in some:
        assert index.match(event) == by_reading(filters, event)


@given(typed_filters(), st.lists(events(KINDS), max_size=12), st.sampled_from([1, 4, 9, 20, 4096]))
def test_a_frame_matches_row_by_row(filters, rows, cells_max):
    index = settled(index_of(filters, cells_max=cells_max))
    frame = frame_by_columns(rows, KINDS)
    assert index.match_frame(frame) == rows_by_reading(filters, rows)


@given(any_filters(), st.lists(events(), min_size=5, max_size=12), st.sampled_from(list(Kind)))
def test_a_column_that_lies_about_its_kind_changes_nothing(filters, rows, kind):
    frame = frame_by_columns(rows, dict.fromkeys(UIDS, kind))
    assert settled(index_of(filters)).match_frame(frame) == rows_by_reading(filters, rows)


@given(typed_filters(wild=True), st.data())
def test_values_from_all_over_a_kind_are_matched_exactly(filters, data):
    literals = {
        uid: wild_values(kind) | st.sampled_from(POOLS[kind]) | st.none() for uid, kind in KINDS.items()
    }
    rows = data.draw(st.lists(st.fixed_dictionaries(literals), min_size=5, max_size=8))
    index = settled(index_of(filters, cells_max=data.draw(st.sampled_from([12, 40, 4096]))))
    assert index.match_frame(frame_by_columns(rows, KINDS)) == rows_by_reading(filters, rows)
    assert index.match(rows[0]) == by_reading(filters, rows[0])


@given(st.data())
def test_filters_come_and_go_between_questions(data):
    index: MatchIndex[int] = MatchIndex(cells_max=data.draw(st.sampled_from([8, 4096])))
    known: dict[int, Predicate] = {}
    for _ in range(data.draw(st.integers(1, 8))):
        new = st.tuples(st.integers(0, 12), conjunctions() | predicates())
        for number, one in data.draw(st.lists(new, max_size=4)):
            index.add(number, one)
            known[number] = one
        for number in data.draw(st.lists(st.sampled_from(sorted(known)), unique=True)) if known else ():
            index.remove(number)
            del known[number]
        if data.draw(st.booleans()):
            settled(index)
        assert len(index) == len(known)
        event = data.draw(events())
        assert index.match(event) == by_reading(known, event)
        rows = data.draw(st.lists(events(), min_size=5, max_size=6))
        assert index.match_frame(frame_by_columns(rows, dict.fromkeys(UIDS, Kind.INT))) == rows_by_reading(
            known, rows
        )


@given(predicates(max_leaves=12), events())
@example(
    AnyOf(tuple(AllOf((Comparison(SPEED, Operator.EQ, n), Exists(UIDS[0]))) for n in range(40))), {SPEED: 1}
)
@example(Not(TextMatch(SPEED, TextTest.CONTAINS, "a")), {SPEED: 1})
def test_alternatives_hold_every_admitted_event(predicate, event):
    fitting = [one for one in alternatives_of(predicate) if satisfies(event, one.values)]
    if admits(predicate, event):
        assert fitting
    else:
        assert not any(one.is_exact for one in fitting)
