"""Two encodings of one predicate, or one encoding of two, must not exist."""

from __future__ import annotations

import pytest

from maia.canonical import read_canonical, write_canonical
from maia.errors import BadInput
from maia.predicates import (
    Comparison,
    Operator,
    parse_predicate,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.testing.refusals import raises


@pytest.mark.parametrize(
    ("kind", "spelling"),
    [
        ("int", spelling)
        for spelling in (
            b"05",
            b"+5",
            b"-0",
            b"5.0",
            b"5e0",
            b" 5",
            b"5 ",
            b"5_0",
            b"",
            b"0x5",
            b"-",
            b"\xd9\xa5",
        )
    ]
    + [
        ("float", spelling)
        for spelling in (
            b"5",
            b"5.00",
            b"05.0",
            b"+5.0",
            b"5e0",
            b"5E0",
            b"-0.0",
            b"0.10",
            b"1e22",
            b"1e+022",
        )
    ]
    + [
        ("float", spelling)
        for spelling in (b"nan", b"inf", b"-inf", b"1e999", b"1e-999", b"0.1000000000000000055", b"")
    ]
    + [("bool", spelling) for spelling in (b"True", b"1", b"", b"t", b"true ")]
    + [("timestamp", spelling) for spelling in (b"1970-01-01T00:00:00Z", b"0.0", b"-0", b"9" * 19)]
    + [("string", spelling) for spelling in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"a\x00")],
)
def test_another_spelling_of_a_literal_is_refused(kind, spelling):
    """A31, A34: 1, 1.0 and 1e0, minus zero, NaN, overlong UTF-8: exactly one form is read."""
    with raises("INPUT-PREDICATE-ENCODING"):
        predicate_from_expression((b"==", b"x", (kind.encode(), spelling)))


@pytest.mark.parametrize(
    "literals",
    [(b"2", b"1"), (b"1", b"1"), (b"10", b"9", b"9"), (b"9", b"10"), (b"1", b"01")],
)
def test_a_list_in_another_order_or_with_repetition_is_refused(literals):
    """A31: order and repetition of an `in` list."""
    with raises("INPUT-PREDICATE-ENCODING"):
        predicate_from_expression((b"in", b"x", b"int", *literals))


@pytest.mark.parametrize("number", ["2147483648", "9007199254740993", "-9223372036854775808"])
def test_large_ints_come_back_unchanged(number):
    """A34: integers beyond 2^53 survive exactly."""
    predicate = parse_predicate(f"x == {number}")
    octets = write_canonical(predicate_to_expression(predicate))
    assert predicate_from_expression(read_canonical(octets)).literal == int(number)


def test_strings_are_not_normalised_on_the_way():
    """A34: composed and decomposed spellings stay two different literals with two encodings."""
    composed, decomposed = Comparison("x", Operator.EQ, "é"), Comparison("x", Operator.EQ, "e\u0301")
    encodings = {write_canonical(predicate_to_expression(one)) for one in (composed, decomposed)}
    assert len(encodings) == 2
    for one in (composed, decomposed):
        assert predicate_from_expression(predicate_to_expression(one)) == one


def test_moving_a_boundary_between_fields_changes_the_predicate():
    """A32: `ab|c` and `a|bc` have different bytes."""
    one = predicate_to_expression(parse_predicate('prefix(ab, "c")'))
    other = predicate_to_expression(parse_predicate('prefix(a, "bc")'))
    assert write_canonical(one) != write_canonical(other)


def test_1_and_true_and_one_point_zero_are_encoded_apart():
    """A31, A58: Python takes them for equal; the encoding must not."""
    texts = ("x == 1", "x == 1.0", "x == true", 'x == "1"', "x == @1970-01-01T00:00:00.000001Z", 'x == x"31"')
    assert len({write_canonical(predicate_to_expression(parse_predicate(text))) for text in texts}) == len(
        texts
    )


@pytest.mark.parametrize("flip", range(0, 60, 3))
def test_damaged_bytes_are_refused_or_mean_something_that_writes_the_same_bytes(flip):
    """A31, A33: whatever is read back writes exactly the bytes that were read."""
    octets = bytearray(
        write_canonical(predicate_to_expression(parse_predicate('x in (1, 22) and prefix(y, "ab")')))
    )
    octets[flip % len(octets)] ^= 1 << (flip % 8)
    try:
        found = predicate_from_expression(read_canonical(bytes(octets)))
    except BadInput:
        return
    assert write_canonical(predicate_to_expression(found)) == octets
