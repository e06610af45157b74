"""The matching index: what it answers, when it builds, and what it keeps."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from maia.events import INT_MAX, INT_MIN, AttributeUid, BadValue, Column, Frame, Instant, Kind, frame_of
from maia.predicates import (
    ALWAYS,
    NEVER,
    NODES_MAX,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    admits,
)
from maia.routing.matching import index as matching
from maia.routing.matching.index import MatchIndex

ONE_BY_ONE, TOGETHER = matching.FEW_ROWS_OF_FEW, matching.FEW_ROWS_OF_FEW + 1
"""Rows of a frame, which are matched by themselves or by its columns."""

SPEED, LANE, PLATE, ROAD = map(AttributeUid, ("speed", "lane", "plate", "road"))
KINDS = {SPEED: Kind.INT, LANE: Kind.INT, PLATE: Kind.STRING}


def blocks_of(index):
    """Return the blocks that filters were built into."""
    return index._blocks


def waiting_in(index):
    """Return the filters that are in no block yet."""
    return index._waiting


def faster_than(speed: int) -> Predicate:
    return Comparison(SPEED, Operator.GT, speed)


def index_of(*filters: Predicate, cells_max: int = 2048) -> MatchIndex[int]:
    index: MatchIndex[int] = MatchIndex(cells_max=cells_max)
    for number, one in enumerate(filters):
        index.add(number, one)
    return index


def many_filters(count: int, seed: int = 9) -> list[Predicate]:
    """Ranges, words and lists over three attributes, most of them different from each other."""
    rng = random.Random(seed)  # noqa: S311 - test data

    def one() -> Predicate:
        low = rng.randrange(1000)
        parts: list[Predicate] = [
            Comparison(SPEED, Operator.GE, low),
            Comparison(SPEED, Operator.LT, low + rng.randrange(200)),
        ]
        if rng.random() < 0.5:
            parts.append(Membership(LANE, frozenset(rng.sample(range(30), 3))))
        if rng.random() < 0.3:
            test = rng.choice(list(TextTest))
            text = rng.choice("abc")
            parts.append(TextMatch(PLATE, test, f"/{text}" if test is TextTest.LEVELS else text))
        if rng.random() < 0.1:
            return AnyOf((AllOf(tuple(parts)), Comparison(SPEED, Operator.EQ, rng.randrange(1000))))
        return AllOf(tuple(parts))

    return [one() for _ in range(count)]


def many_rows(count: int, seed: int = 10) -> Frame:
    rng = random.Random(seed)  # noqa: S311 - test data
    rows = [
        {
            SPEED: rng.randrange(1200),
            LANE: rng.choice([None, *range(30)]),
            PLATE: rng.choice(["a b", "abc", "", "c", None]),
        }
        for _ in range(count)
    ]
    return frame_of(rows, KINDS)


def by_reading(filters: list[Predicate], frame: Frame) -> dict[int, list[int]]:
    events = list(frame.events())
    found = {
        number: [row for row, event in enumerate(events) if admits(one, event)]
        for number, one in enumerate(filters)
    }
    return {number: rows for number, rows in found.items() if rows}


@pytest.mark.parametrize("cells_max", [1, 16, 60, 2048])
def test_some_hundred_filters_of_every_shape_are_matched_exactly(cells_max):
    filters = many_filters(400)
    frame = many_rows(50)
    index = index_of(*filters, cells_max=cells_max)
    expected = by_reading(filters, frame)
    assert index.match_frame(frame) == expected
    for row, event in enumerate(frame.events()):
        assert index.match(event) == {number for number, rows in expected.items() if row in rows}


@pytest.mark.parametrize("rows", [ONE_BY_ONE, TOGETHER])
def test_matching_is_the_same_while_filters_stream_in_and_out(rows):
    filters = many_filters(400)
    frame = many_rows(rows)
    index: MatchIndex[int] = MatchIndex()
    live: dict[int, Predicate] = {}
    rng = random.Random(3)  # noqa: S311 - test data
    for number, one in enumerate(filters):
        index.add(number, one)
        live[number] = one
        if rng.random() < 0.4:
            gone = rng.choice(sorted(live))
            index.remove(gone)
            del live[gone]
        if number % 20 == 0:
            expected = by_reading(filters, frame)
            assert index.match_frame(frame) == {key: rows for key, rows in expected.items() if key in live}
    assert len(index) == len(live)


@pytest.mark.parametrize("asked_before", [0, matching.READINGS_MAX], ids=["waiting", "in a block"])
@pytest.mark.parametrize("rows", [1, 5, TOGETHER])
def test_filters_are_found_in_the_order_in_which_they_came_whatever_the_process_makes_of_sets(
    asked_before, rows
):
    keys = [b"key %d" % number for number in range(40)]
    index: MatchIndex[bytes] = MatchIndex()
    for number, key in enumerate(keys):
        index.add(key, faster_than(number % 7))
    for _ in range(asked_before // len(keys) + 1 if asked_before else 0):
        index.match({SPEED: 5})
    found = list(index.match_frame(frame_of([{SPEED: 50}] * rows, KINDS)))
    assert found == keys == list(index.match({SPEED: 50}))


def test_blocks_stay_few_and_each_is_much_larger_than_the_next():
    index: MatchIndex[int] = MatchIndex()
    for number in range(2000):
        index.add(number, faster_than(number))
        index.match({SPEED: 5})
    sizes = [block.live for block in blocks_of(index)]
    assert sum(sizes) + len(waiting_in(index)) == 2000
    assert all(larger > 2 * smaller for larger, smaller in pairwise(sizes))


def test_a_block_that_most_filters_have_left_is_built_again():
    index = index_of(*map(faster_than, range(1000)))
    index.match({})
    for number in range(600):
        index.remove(number)
    assert index.match({SPEED: 605}) == set(range(600, 605))
    assert [len(block) for block in blocks_of(index)] == [400]
    for number in range(600, 1000):
        index.remove(number)
    assert index.match({SPEED: 605}) == set()
    assert blocks_of(index) == []


def test_the_neighbours_of_pages_that_became_empty_are_still_found():
    index = index_of(*[Comparison(SPEED, Operator.EQ, number) for number in range(1000)])
    index.match({})
    for number in range(300):
        index.remove(number)
    assert [len(block) for block in blocks_of(index)] == [1000]
    frame = Frame(1000, {SPEED: Column(Kind.INT, tuple(range(1000)))})
    assert index.match_frame(frame) == {number: [number] for number in range(300, 1000)}
    assert index.match({SPEED: 299}) == set()
    assert index.match({SPEED: 300}) == {300}


def test_a_range_with_ends_of_two_kinds_holds_nothing():
    mixed = AllOf((Comparison(SPEED, Operator.GE, 1), Comparison(SPEED, Operator.LE, 2.0)))
    index = index_of(*[mixed, ALWAYS] * 50)
    everybody_else = set(range(1, 100, 2))
    for value in (1, 2, 1.5, True):
        assert index.match({SPEED: value}) == everybody_else


def test_a_filter_added_again_takes_the_place_of_the_old_one():
    index = index_of(*map(faster_than, range(100)))
    index.match({})
    index.add(7, faster_than(500))
    assert len(index) == 100
    assert 7 not in index.match({SPEED: 400})
    assert 7 in index.match({SPEED: 501})


def test_removing_what_is_not_there_is_a_mistake():
    with pytest.raises(KeyError):
        index_of(ALWAYS).remove(5)


def test_filters_that_admit_nothing_are_kept_and_never_found():
    index = index_of(NEVER, AllOf((faster_than(5), Not(faster_than(3)))), faster_than(INT_MAX), ALWAYS)
    for _ in range(matching.READINGS_MAX):
        assert index.match({SPEED: 5}) == {3}
    assert 0 in index
    assert len(index) == 4
    index.remove(0)
    assert 0 not in index


def test_a_filter_with_many_alternatives_is_found_once_per_row():
    either = AnyOf((faster_than(5), faster_than(3), Exists(LANE)))
    index = index_of(*[either] * 100)
    frame = frame_of([{SPEED: 9, LANE: 1}] * 6, KINDS)
    assert index.match_frame(frame) == {number: [0, 1, 2, 3, 4, 5] for number in range(100)}


@pytest.mark.parametrize("first", [INT_MIN, -7, 0, INT_MAX - 99])
@pytest.mark.parametrize("step", [1, 3, 4, 5])
def test_numbers_that_lie_close_together_and_those_around_them_are_matched_exactly(first, step):
    limits = [first + number for number in range(0, 100, step)]
    filters = [Comparison(SPEED, operator, limit) for limit in limits for operator in Operator]
    index = index_of(*filters)
    asked = [number for number in range(first - 2, first + 102) if INT_MIN <= number <= INT_MAX]
    for value in (*asked, INT_MIN, INT_MAX, True, 1.0, Instant(1), None):
        wanted = {number for number, one in enumerate(filters) if admits(one, {SPEED: value})}
        assert index.match({SPEED: value}) == wanted


def test_an_empty_frame_matches_nothing():
    assert index_of(*[ALWAYS] * 100).match_frame(Frame(0, {})) == {}
    assert MatchIndex[int]().match_frame(many_rows(9)) == {}


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, float("nan"), float("inf"), [1]])
def test_what_is_no_value_is_refused(rows, value):
    index = index_of(
        *[faster_than(n) for n in range(100)], *[Comparison(SPEED, Operator.GT, n / 2) for n in range(100)]
    )
    kind = Kind.FLOAT if isinstance(value, float) else Kind.INT
    with pytest.raises(BadValue):
        index.match_frame(Frame(rows, {SPEED: Column(kind, (value,) * rows)}))


def test_a_filter_beyond_the_language_is_refused_at_the_door():
    index = index_of(ALWAYS)
    with pytest.raises(PredicateTooLarge):
        index.add(1, AllOf((ALWAYS,) * (NODES_MAX + 1)))
    assert len(index) == 1


@pytest.mark.parametrize("rows", [ONE_BY_ONE, TOGETHER])
@pytest.mark.parametrize("seed", range(2))
def test_answers_stay_exact_while_a_large_block_is_built_in_steps(monkeypatch, seed, rows):
    monkeypatch.setattr(matching, "AHEAD", 16)
    monkeypatch.setattr(matching, "AT_ONCE_MAX", 40)
    rng = random.Random(seed)  # noqa: S311 - test data
    filters, standing = many_filters(300, seed), dict[int, Predicate]()
    index, frame = MatchIndex[int](), many_rows(rows, seed)
    index.match({SPEED: 1})
    was_growing = 0
    for number, one in enumerate(filters):
        index.add(number, one)
        standing[number] = one
        if rng.random() < 0.4:
            gone = rng.choice(list(standing))
            index.remove(gone)
            del standing[gone]
        if rng.random() < 0.1:
            again = rng.choice(list(standing))
            standing[again] = rng.choice(filters)
            index.add(again, standing[again])
        was_growing += index._growth is not None
        if rng.random() < 0.05:
            expected = by_reading(list(standing.values()), frame)
            keys = list(standing)
            assert index.match_frame(frame) == {keys[at]: rows for at, rows in expected.items()}
            assert len(index) == len(standing)
    assert was_growing > 20
    assert len(blocks_of(index)) < 24


@pytest.mark.parametrize("rows", [1, TOGETHER])
def test_filters_of_topics_in_two_attributes_and_others_are_found_together(rows):
    road, car = (TextMatch(uid, TextTest.LEVELS, "/a") for uid in (PLATE, ROAD))
    frame = frame_of([{SPEED: 50, PLATE: "/a", ROAD: "/a"}] * rows, {**KINDS, ROAD: Kind.STRING})
    found = list(range(rows))
    assert index_of(road, car).match_frame(frame) == {0: found, 1: found}
    assert index_of(faster_than(5), road, car).match_frame(frame) == {0: found, 1: found, 2: found}


def test_no_block_is_built_for_an_index_that_no_broker_asks():
    index = index_of(*many_filters(1000))
    assert blocks_of(index) == []


def test_filters_that_come_after_the_first_question_are_built_before_the_next_one():
    index = index_of(faster_than(1))
    index.match({SPEED: 5})
    for number, one in enumerate(many_filters(2000), start=1):
        index.add(number, one)
        assert len(waiting_in(index)) < matching.AHEAD
