"""Filters of any size and shape end in a predicate or in one of our errors."""

from __future__ import annotations

import sys

import pytest

from maia.errors import BadInput
from maia.events import ATTRIBUTES_MAX, BadAttribute, Kind, checked_event
from maia.predicates import (
    NODES_MAX,
    AllOf,
    BadPredicateText,
    Comparison,
    Exists,
    Not,
    Operator,
    PredicateTooLarge,
    admits,
    checked_size,
    covers,
    format_predicate,
    parse_predicate,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.testing.refusals import raises


@pytest.mark.parametrize(
    "text",
    [
        'plate ~ "(a+)+$"',
        'plate =~ "x"',
        'plate matches "x"',
        'plate like "%x%"',
        'plate rlike "x"',
        'matches(plate, "x")',
        'regexp(plate, "x")',
    ],
)
def test_there_are_no_regular_expressions_and_the_error_says_so(text):
    """A63: no pattern language, so nothing can backtrack and no two engines can differ."""
    with pytest.raises(BadPredicateText, match=r"there are no (regular expressions|patterns) here"):
        parse_predicate(text)


def test_characters_that_a_pattern_would_interpret_stand_for_themselves():
    """A63: `.*`, `%`, `_` and `\\` in prefix, suffix and contains."""
    for text in (".*", "a%", "_", "[a-z]+", "(a+)+$", "\\"):
        written = text.replace("\\", "\\\\")
        for test in ("prefix", "suffix", "contains"):
            predicate = parse_predicate(f'{test}(x, "{written}")')
            assert admits(predicate, {"x": text})
            assert not admits(predicate, {"x": "aaa"})


def test_a_pattern_of_a_megabyte_is_refused():
    """A63: a very long text in a test."""
    with pytest.raises(PredicateTooLarge):
        parse_predicate(f'contains(x, "{"a" * 1_000_000}")')


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "(" * 30_000 + "true" + ")" * 30_000,
        "not " * 15_000 + "true",
        "not(" * 15_000,
        "all(" * 15_000,
        "any(not(" * 7_000,
        "true and (" * 6_000,
        "true or " * 8_000,
        "exists(" * 9_000,
        "x in (" + "1," * 30_000,
        "x in (" + ",".join(map(str, range(11_000))) + ")",
        '"' * 60_000,
        "\\" * 60_000,
        'x == "' + "\\u{41}" * 10_000,
        "-" * 60_000,
        "x == " + "1" * 60_000,
        "x == 1e" + "9" * 60_000,
        "x == 0x" + "f" * 60_001,
        "x == @" + "2" * 60_000,
        "#" * 60_000,
        "f" * 60_000 + "(x)",
        "f" * 60_000 + " == 1",
        "\ud800" * 10,
        "\0" * 10,
        " " * 65_536,
        "é" * 40_000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_deep_long_and_broken_texts_are_refused_in_our_words(text):
    """A64: deep nesting, very many terms, huge lists: a limit, and never a RecursionError."""
    with pytest.raises(BadInput) as refused:
        parse_predicate(text)
    assert len(refused.value.message) < 500


def test_the_largest_texts_are_read():
    """A64: the limit is where it says, and reading up to it takes steps in proportion."""
    many = parse_predicate(" and ".join(["x==1"] * 7_000))
    assert len(many.parts) == 7_000
    numbers = ",".join(map(str, range(9_000)))
    assert len(parse_predicate(f"x in ({numbers})").literals) == 9_000


def test_predicates_built_by_programs_meet_the_same_limits():
    """A64: an object nested 10^5 deep or with 10^6 parts is refused before anything recurses."""
    deep = Exists("x")
    for _ in range(100_000):
        deep = Not(deep)
    wide = AllOf((Exists("x"),) * 1_000_000)
    for predicate in (deep, wide):
        for use in (
            checked_size,
            predicate_to_expression,
            format_predicate,
            lambda one: covers(wide=one, narrow=one),
        ):
            with pytest.raises(PredicateTooLarge):
                use(predicate)


def test_deep_expressions_are_refused_before_anything_recurses():
    """A64: an S-expression nested 10^5 deep."""
    expression = (b"exists", b"x")
    for _ in range(100_000):
        expression = (b"not", expression)
    with pytest.raises(PredicateTooLarge):
        predicate_from_expression(expression)


def test_the_deepest_allowed_text_needs_a_modest_stack():
    """A64: parsing, printing and comparing at the limit leave room on Python's default stack."""
    text = "(exists(a) and (exists(b) or " * 31 + "true" + "))" * 31
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(_frames() + 600)
    try:
        predicate = parse_predicate(text)
        assert parse_predicate(format_predicate(predicate)) == predicate
        assert covers(wide=predicate, narrow=predicate)
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1
    return count


def test_an_event_cannot_bring_more_attributes_than_were_declared():
    """A76: huge maps and many tiny attributes stop at the first one that is not declared."""
    kinds = {f"u{index}": Kind.INT for index in range(ATTRIBUTES_MAX)}
    flood = {f"v{index}": 1 for index in range(100_000)}
    with raises("INPUT-UNKNOWN-ATTRIBUTE"):
        checked_event(flood, kinds)


def test_names_that_collide_in_a_hash_table_are_limited_by_number_and_length():
    """A76: uids are at most 64 characters and a predicate has at most so many of them."""
    with pytest.raises((BadAttribute, BadInput)):
        parse_predicate("x" * 65 + " == 1")
    many = AllOf(tuple(Comparison(f"u{index}", Operator.EQ, 1) for index in range(NODES_MAX - 1)))
    assert not admits(many, {})
    assert covers(wide=many, narrow=many)
    assert not covers(wide=many, narrow=Exists("u0"))
