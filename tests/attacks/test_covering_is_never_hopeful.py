"""Covering says yes only where it is true, whatever the predicates are."""

from __future__ import annotations

from itertools import product

import pytest

from maia.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Not,
    Operator,
    admits,
    counterexample,
    covers,
    may_overlap,
    parse_predicate,
    provably_empty,
)
from reference.covering_by_enumeration import all_events, covers_in_world

EVERYTHING = [
    *(Comparison("x", operator, literal) for operator in Operator for literal in (0, 1)),
    *(Comparison("x", operator, True) for operator in (Operator.EQ, Operator.NE)),
    Exists("x"),
    parse_predicate('prefix(x, "a")'),
    parse_predicate("x in (0, 1)"),
]
LITERALS = [*EVERYTHING, *map(Not, EVERYTHING)]
EVENTS = list(all_events({"x": (None, -1, 0, 1, 2, True, False, 0.0, "", "a", "ab", "b", b"a")}))


def test_every_pair_of_small_filters_agrees_with_enumeration():
    """A62: covers against brute force, over all pairs of two literals on each side."""
    pairs = [AllOf(pair) for pair in product(LITERALS[::2], LITERALS[1::3])]
    for wide, narrow in product(pairs[::5], pairs[::7]):
        expected = covers_in_world(wide=wide, narrow=narrow, events=EVENTS)
        assert covers(wide=wide, narrow=narrow) is expected, (wide, narrow)


@pytest.mark.parametrize("wide", LITERALS)
def test_single_literals_agree_with_enumeration_alone_and_as_alternatives(wide):
    """A62: one literal against one, and against the alternative of two."""
    for narrow in LITERALS:
        assert covers(wide=wide, narrow=narrow) is covers_in_world(wide=wide, narrow=narrow, events=EVENTS)
        both = AnyOf((wide, Not(narrow)))
        for third in LITERALS[::4]:
            assert covers(wide=both, narrow=third) is covers_in_world(wide=both, narrow=third, events=EVENTS)


def test_the_empty_filter_and_the_empty_event():
    """A62: a filter without parts admits the empty event; one with a comparison does not."""
    assert admits(parse_predicate("true"), {})
    assert not admits(parse_predicate("x != 1"), {})
    assert not covers(wide=parse_predicate("x != 1"), narrow=parse_predicate("true"))
    assert counterexample(wide=parse_predicate("exists(x)"), narrow=parse_predicate("true")) == {}


def test_a_contradiction_is_covered_by_everything_and_covers_nothing():
    """A62: vacuous truth goes one way only."""
    contradiction = parse_predicate("x < 1 and x > 1")
    assert provably_empty(contradiction)
    assert covers(wide=parse_predicate("y == 7"), narrow=contradiction)
    assert not covers(wide=contradiction, narrow=parse_predicate("y == 7"))
    assert not may_overlap(contradiction, parse_predicate("true"))


def _hard(size: int):
    """A narrow filter whose truth needs 2^size cases, each of which the wide one misses by a little."""
    narrow = AllOf(tuple(AnyOf((Exists(f"a{i}"), Exists(f"b{i}"))) for i in range(size)))
    wide = AnyOf(tuple(AllOf((Exists(f"a{i}"), Exists(f"b{i}"))) for i in range(size)))
    return wide, narrow


@pytest.mark.parametrize("size", [1, 4, 8, 30, 200])
def test_a_question_that_would_take_forever_is_answered_no(size):
    """A62, A64, A80: the cautious answer, after a number of steps and not of seconds."""
    wide, narrow = _hard(size)
    assert not covers(wide=wide, narrow=narrow)
    assert may_overlap(wide, narrow)


def test_questions_about_text_that_would_take_forever_are_answered_no():
    """A62, A63: a product of many automata stops at its step limit."""
    words = ["".join(letters) for letters in product("ab", repeat=5)]
    narrow = parse_predicate(" and ".join(f'contains(n, "{word}")' for word in words))
    assert not covers(wide=parse_predicate(f'contains(n, "{"ab" * 40}")'), narrow=narrow)
    assert not provably_empty(narrow)
    repeated = parse_predicate(f'contains(n, "{"a" * 20_000}b") and not suffix(n, "{"a" * 20_000}")')
    assert not provably_empty(repeated)
