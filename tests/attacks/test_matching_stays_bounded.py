"""Filters chosen by an attacker fill no more memory than they are worth, and change no answer."""

from __future__ import annotations

import random

from maia.events import AttributeUid, Column, Frame, Kind
from maia.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
    admits,
)
from maia.routing.matching import search as match_search
from maia.routing.matching.bitmaps import CELLS_MAX, MAPPED_MAX
from maia.routing.matching.block import KNOWN_MAX
from maia.routing.matching.index import MatchIndex

SPEED, PLATE = AttributeUid("speed"), AttributeUid("plate")


def blocks_of(index):
    """Return the blocks that filters were built into."""
    return index._blocks


def waiting_in(index):
    """Return the filters that are in no block yet."""
    return index._waiting


def settled(filters: list[Predicate]) -> MatchIndex[int]:
    index: MatchIndex[int] = MatchIndex()
    for number, one in enumerate(filters):
        index.add(number, one)
    index.match({})
    assert not waiting_in(index)
    return index


def bytes_of_bits(index: MatchIndex[int]) -> int:
    return sum(one.words.nbytes + one.pages.nbytes for block in blocks_of(index) for one in block._mapped)


def assert_exact(
    index: MatchIndex[int], filters: list[Predicate], events: list[dict[AttributeUid, object]]
) -> None:
    for event in events:
        assert index.match(event) == {number for number, one in enumerate(filters) if admits(one, event)}


def test_every_filter_with_ends_of_its_own():
    """A76: as many ends of ranges as filters can have; the bits per filter stay the same."""
    rng = random.Random(1)  # noqa: S311 - test data
    filters: list[Predicate] = [
        AllOf((Comparison(SPEED, Operator.GE, low), Comparison(SPEED, Operator.LE, low + rng.random())))
        for low in (rng.random() for _ in range(5_000))
    ]
    index = settled(filters)
    assert bytes_of_bits(index) <= 5_100 * CELLS_MAX / 8 * 1.1
    assert_exact(index, filters, [{SPEED: rng.random()} for _ in range(3)])


def test_long_lists_of_literals():
    """A76: filters that each list thousands of values."""
    rng = random.Random(2)  # noqa: S311 - test data
    filters: list[Predicate] = [
        Membership(PLATE, frozenset(str(rng.randrange(10**6)) for _ in range(1_500))) for _ in range(80)
    ]
    index = settled(filters)
    assert bytes_of_bits(index) <= 2 * 128 * CELLS_MAX / 8
    listed = [{PLATE: next(iter(one.literals))} for one in filters[:5] if isinstance(one, Membership)]
    assert_exact(index, filters, [*listed, {PLATE: "no such plate"}, {PLATE: ""}])


def test_many_tiny_attributes():
    """A76: filters that each name attributes no other peer names."""
    uids = [AttributeUid(f"a{number}") for number in range(KNOWN_MAX + 900)]
    filters: list[Predicate] = [
        AllOf(tuple(Comparison(uid, Operator.EQ, 1) for uid in uids[at : at + 50]))
        for at in range(0, len(uids), 50)
    ]
    index = settled(filters)
    assert sum(len(block._mapped) for block in blocks_of(index)) <= MAPPED_MAX
    assert sum(len(block.contents.spans) for block in blocks_of(index)) <= KNOWN_MAX
    events = [dict.fromkeys(uids[at : at + 50], 1) for at in (0, 50, 2_000, len(uids) - 50)]
    assert_exact(index, filters, [*events, dict.fromkeys(uids, 1), dict.fromkeys(uids, True), {}])


def test_alternatives_that_would_multiply():
    """A76: a small text whose alternatives are 3 to the power of 12."""
    uids = [AttributeUid(f"a{number}") for number in range(12)]
    spreading = AllOf(
        tuple(AnyOf(tuple(Comparison(uid, Operator.EQ, n) for n in (1, 2.0, "3"))) for uid in uids)
    )
    crossing = AllOf(
        tuple(
            AnyOf((Exists(one), Exists(other), TextMatch(one, TextTest.SUFFIX, "x")))
            for one in uids
            for other in uids
        )
    )
    filters: list[Predicate] = [spreading, crossing] * 4 + [Exists(SPEED)] * 60
    index = settled(filters)
    assert sum(len(block) for block in blocks_of(index)) <= len(filters) * 16
    assert_exact(
        index, filters, [dict.fromkeys(uids, 1), dict.fromkeys(uids, True), dict.fromkeys(uids[:4], "3"), {}]
    )


def test_every_row_matches_every_filter(monkeypatch):
    """A76: answers are made in bounded steps, and the seams do not show."""
    monkeypatch.setattr(match_search, "_WORDS_AT_ONCE", 16)
    monkeypatch.setattr(match_search, "_SPREAD_AT_ONCE", 3)
    filters: list[Predicate] = [Comparison(SPEED, Operator.GE, number // 50) for number in range(500)]
    frame = Frame(40, {SPEED: Column(Kind.INT, tuple(range(40)))})
    index = settled(filters)
    assert index.match_frame(frame) == {number: list(range(number // 50, 40)) for number in range(500)}
