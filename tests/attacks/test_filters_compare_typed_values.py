"""Filters compare values of one kind, in one logic, and nothing passes by accident."""

from __future__ import annotations

import math

import pytest

from maia.errors import BadInput
from maia.events import (
    Attribute,
    BadValue,
    Instant,
    Kind,
    attribute_uid,
    checked_event,
    frame_of,
    vocabulary_of,
)
from maia.predicates import (
    BadPredicate,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    WrongLiteral,
    admits,
    covers,
    parse_predicate,
    predicate_from_expression,
    verdict,
)

VOCABULARY = vocabulary_of(Attribute(kind.value, attribute_uid(f"u-{kind.value}"), kind) for kind in Kind)
NOT_NUMBERS = (math.nan, -math.nan, math.inf, -math.inf)
ONE_OF_EACH = ("1", 1, 1.0, True, Instant(1), b"1")


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_what_is_not_a_number_enters_no_event(number):
    """A56: NaN in an event and in a frame."""
    with pytest.raises(BadValue):
        checked_event({"x": number}, {"x": Kind.FLOAT})
    with pytest.raises(BadValue):
        frame_of([{"x": number}], {"x": Kind.FLOAT})


@pytest.mark.parametrize("number", NOT_NUMBERS)
def test_what_is_not_a_number_enters_no_filter(number):
    """A56: NaN in a filter, as an object, in a list, in text and in bytes."""
    with pytest.raises(BadPredicate):
        Comparison("x", Operator.LT, number)
    with pytest.raises(BadPredicate):
        Membership("x", frozenset({1.0, number}))
    for text in (f"float < {number}", "float < 1e999", "float < -1e400"):
        with pytest.raises(BadInput):
            parse_predicate(text, VOCABULARY)
    with pytest.raises(BadInput):
        predicate_from_expression((b"<", b"x", (b"float", repr(number).encode())))


def test_an_int_beyond_2_to_the_53_never_meets_the_double_below_it():
    """A57: 2^53 + 1 as an int and 2^53 as a float are never compared."""
    exact, rounded = 2**53 + 1, float(2**53)
    assert verdict(Comparison("x", Operator.EQ, exact), {"x": rounded}) is None
    assert verdict(Comparison("x", Operator.EQ, rounded), {"x": exact}) is None
    assert not covers(wide=Comparison("x", Operator.GE, rounded), narrow=Comparison("x", Operator.EQ, exact))
    assert admits(Comparison("x", Operator.GT, 2**53), {"x": exact})


def test_a_literal_that_no_float_equals_is_refused_not_rounded():
    """A57: the text `9007199254740993` for a float attribute."""
    with pytest.raises(WrongLiteral, match="no float equals"):
        parse_predicate("float == 9007199254740993", VOCABULARY)
    assert parse_predicate("float == 9007199254740994", VOCABULARY).literal == 9007199254740994.0


@pytest.mark.parametrize("literal", ONE_OF_EACH, ids=lambda literal: type(literal).__name__)
def test_a_value_of_another_kind_is_unknown_under_every_operator_and_under_not(literal):
    """A58: `'10' = 10`, `True == 1`: typed comparison only."""
    for found in ONE_OF_EACH:
        if type(found) is type(literal):
            continue
        for atom in (
            Comparison("x", Operator.EQ, literal),
            Comparison("x", Operator.NE, literal),
            Membership("x", frozenset({literal})),
        ):
            assert verdict(atom, {"x": found}) is None
            assert verdict(Not(atom), {"x": found}) is None
            same = Comparison("x", Operator.EQ, found)
            assert not covers(wide=atom, narrow=same)
            assert not covers(wide=Not(atom), narrow=same)


@pytest.mark.parametrize(
    "text", ['int == "10"', 'int == "10 "', "string == 10", "int == true", "bool == 1", "bool == 0"]
)
def test_a_literal_of_another_kind_is_refused_when_the_filter_is_made(text):
    """A58: the author learns of it instead of owning a filter that never matches."""
    with pytest.raises(WrongLiteral):
        parse_predicate(text, VOCABULARY)


@pytest.mark.parametrize(
    "text",
    [
        "not (x == 1)",
        "x != 1",
        "x not in (1)",
        'not prefix(x, "a")',
        "not (x == 1 and y == 1)",
        "not (x < 1)",
    ],
)
@pytest.mark.parametrize("event", [{}, {"x": None}, {"x": None, "y": 2.5}])
def test_a_negation_does_not_admit_what_is_missing(text, event):
    """A59: `NOT(x = 1)` must not admit unknown."""
    predicate = parse_predicate(text)
    assert not admits(predicate, event)
    assert not admits(Not(predicate), event)


def test_missing_null_and_empty_are_distinguished_as_sql_does():
    """A59: null is missing; the empty string, zero and false are values."""
    for value in ("", 0, 0.0, False, b"", Instant(0)):
        assert admits(Exists("x"), {"x": value})
    assert not admits(Exists("x"), {"x": None})
    assert not covers(wide=parse_predicate('x == ""'), narrow=parse_predicate("not exists(x)"))


def test_a_tautology_of_two_valued_logic_does_not_cover_everything():
    """A59: `x == 1 or x != 1` is not `true` where x may be missing."""
    assert not covers(wide=parse_predicate("x == 1 or x != 1"), narrow=parse_predicate("true"))
    assert not covers(wide=parse_predicate("x == 1 or not (x == 1)"), narrow=parse_predicate("not exists(x)"))


def test_spellings_of_one_letter_are_different_strings():
    """A60: composed and decomposed, case, ligatures, Turkish i: by code point, never folded."""
    spellings = ("é", "e\u0301", "É", "ﬁ", "fi", "I", "i", "İ", "ı", "ß", "ss", "K", "\u212a")
    for one in spellings:
        predicate = Comparison("x", Operator.EQ, one)
        assert [found for found in spellings if admits(predicate, {"x": found})] == [one]


def test_strings_are_ordered_by_code_point_and_not_by_utf_16_unit():
    """A60: U+FFFD is below U+10000, though its UTF-16 unit is above a surrogate."""
    below = parse_predicate('x < "\\u{10000}"')
    assert admits(below, {"x": "\ufffd"})
    assert not admits(below, {"x": "\U00010001"})
    assert covers(wide=below, narrow=parse_predicate('prefix(x, "\\u{fffd}")'))
    assert covers(wide=parse_predicate('x < "\\u{e000}"'), narrow=parse_predicate('prefix(x, "\\u{d7ff}")'))


def test_spaces_that_only_look_like_spaces_do_not_separate_tokens():
    """A60: U+00A0, tab and newline are part of a word."""
    red = parse_predicate('token(x, "red")')
    assert [admits(red, {"x": f"a{gap}red"}) for gap in (" ", "\u00a0", "\t", "\n", "\u2003")] == [
        True, False, False, False, False,
    ]  # fmt: skip


def test_minus_zero_is_zero_everywhere():
    """A61: -0.0 in an event, in a literal, in a list and at the edge of a comparison."""
    event = checked_event({"x": -0.0}, {"x": Kind.FLOAT})
    assert math.copysign(1, event["x"]) == 1
    for text in ("x == 0.0", "x == -0.0", "x in (-0.0)", "x >= 0.0", "not (x < -0.0)"):
        assert admits(parse_predicate(text), event)
    assert parse_predicate("x == -0.0") == parse_predicate("x == 0.0")


def test_the_neighbours_of_zero_and_of_the_largest_numbers_are_exact():
    """A61: subnormal and largest floats, and the ends of the 64-bit range."""
    assert covers(wide=parse_predicate("x >= 5e-324"), narrow=parse_predicate("x > 0.0"))
    assert covers(wide=parse_predicate("x <= 0.0"), narrow=parse_predicate("x < 5e-324"))
    assert covers(wide=parse_predicate("x <= 1.7976931348623157e308"), narrow=parse_predicate("x > 0.0"))
    assert covers(
        wide=parse_predicate("x == 9223372036854775807"), narrow=parse_predicate("x > 9223372036854775806")
    )
    assert covers(wide=parse_predicate("false"), narrow=parse_predicate("x > 9223372036854775807"))


def test_one_moment_in_two_zones_is_one_literal():
    """A61: time zones, and moments without one."""
    one = parse_predicate('timestamp == "2026-11-15T00:30:00+01:00"', VOCABULARY)
    assert one == parse_predicate('timestamp == "2026-11-14T23:30:00Z"', VOCABULARY)
    for text in ("2026-11-15T00:30:00", "2026-11-15", "2026-06-30T23:59:60Z", "10000-01-01T00:00:00Z"):
        with pytest.raises(WrongLiteral):
            parse_predicate(f'timestamp == "{text}"', VOCABULARY)
