"""Claims about which Python objects are values, and of which kind."""

from __future__ import annotations

import decimal
import math

import numpy
import pytest

from maia.events import (
    INT_MAX,
    INT_MIN,
    STRING_BYTES_MAX,
    BadValue,
    Instant,
    Kind,
    checked_event,
    checked_value,
    kind_of,
)
from maia.testing.refusals import raises

ONE_OF_EACH = {
    Kind.STRING: "1",
    Kind.INT: 1,
    Kind.FLOAT: 1.0,
    Kind.BOOL: True,
    Kind.TIMESTAMP: Instant(1),
    Kind.BYTES: b"1",
}


@pytest.mark.parametrize("kind", Kind)
def test_a_value_is_accepted_as_its_own_kind_and_as_no_other(kind):
    for found, value in ONE_OF_EACH.items():
        if found is kind:
            assert checked_value(value, kind) is value or checked_value(value, kind) == value
            assert type(checked_value(value, kind)) is type(value)
        else:
            with pytest.raises(BadValue):
                checked_value(value, kind)


@pytest.mark.parametrize("kind", Kind)
def test_null_is_a_value_of_every_kind(kind):
    assert checked_value(None, kind) is None


@pytest.mark.parametrize("number", [math.nan, -math.nan, math.inf, -math.inf])
def test_what_is_not_a_number_is_refused(number):
    with pytest.raises(BadValue):
        checked_value(number, Kind.FLOAT)


def test_minus_zero_becomes_zero():
    assert math.copysign(1, checked_value(-0.0, Kind.FLOAT)) == 1


@pytest.mark.parametrize("number", [5e-324, -5e-324, 1.7976931348623157e308, 0.1])
def test_every_other_float_stays_as_it_is(number):
    assert checked_value(number, Kind.FLOAT).hex() == number.hex()


@pytest.mark.parametrize("edge", [INT_MIN, INT_MAX])
def test_ints_end_at_64_bits(edge):
    assert checked_value(edge, Kind.INT) == edge
    with pytest.raises(BadValue):
        checked_value(edge + (1 if edge > 0 else -1), Kind.INT)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "\udfff a"])
def test_a_string_that_is_not_text_everywhere_is_refused(text):
    with pytest.raises(BadValue):
        checked_value(text, Kind.STRING)


def test_a_string_is_not_normalised():
    for text in ("é", "e\u0301", "ﬁ", "I", "ı"):
        assert checked_value(text, Kind.STRING) == text


def test_long_strings_are_measured_in_bytes():
    assert checked_value("é" * (STRING_BYTES_MAX // 2), Kind.STRING)
    with pytest.raises(BadValue):
        checked_value("é" * (STRING_BYTES_MAX // 2) + "x", Kind.STRING)
    with pytest.raises(BadValue):
        checked_value(b"x" * (STRING_BYTES_MAX + 1), Kind.BYTES)


class Cheat(str):
    """A string that says that it equals everything."""

    __slots__ = ()

    def __eq__(self, other):
        return True

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "stranger",
    [
        Cheat("x"),
        numpy.int64(1),
        numpy.float64(1.0),
        decimal.Decimal(1),
        1j,
        bytearray(b"x"),
        [],
        {},
        object(),
    ],
    ids=lambda stranger: type(stranger).__name__,
)
def test_objects_of_other_classes_are_no_values_even_if_they_look_like_one(stranger):
    for kind in Kind:
        with pytest.raises(BadValue):
            checked_value(stranger, kind)
    with pytest.raises(BadValue):
        kind_of(stranger)


def test_a_checked_event_leaves_nulls_out():
    kinds = {"plate": Kind.STRING, "speed": Kind.INT}
    assert checked_event({"plate": None, "speed": 3}, kinds) == {"speed": 3}


def test_a_bad_value_in_an_event_is_blamed_on_its_attribute():
    with pytest.raises(BadValue, match="`speed`"):
        checked_event({"speed": "3"}, {"speed": Kind.INT})


def test_an_attribute_that_is_not_declared_is_refused_and_shown_safely():
    with raises("INPUT-UNKNOWN-ATTRIBUTE") as refused:
        checked_event({"\x1b" + "x" * 500: 1}, {})
    assert "\x1b" not in refused.value.message
    assert len(refused.value.message) < 120
