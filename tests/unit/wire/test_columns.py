"""Nothing enters through a column that would not enter as a value."""

from __future__ import annotations

import math

import msgspec
import pytest

from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    ROWS_MAX,
    STRING_BYTES_MAX,
    AttributeUid,
    BadAttribute,
    BadFrame,
    BadValue,
    Column,
    Frame,
    Instant,
    Kind,
)
from maia.testing.refusals import raises
from maia.types import TransitKindMismatch
from maia.wire import (
    BadColumn,
    BadColumns,
    WireColumn,
    columns_to_frame,
    decode_column,
    encode_column,
    frame_to_columns,
    kind_from_number,
    kind_to_number,
    kinds_of_columns,
)

A, B = AttributeUid("a"), AttributeUid("b")

CORNERS = {
    Kind.STRING: ("", "a", "é", "\U0010ffff", "\x7f", "x" * 31, "x" * 32, "x" * 256, "x" * 65_536, None),
    Kind.INT: (0, 1, -1, 127, 128, -32, -33, 255, 256, 2**16, 2**32, -(2**31) - 1, INT_MAX, INT_MIN, None),
    Kind.FLOAT: (0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308, -1.7976931348623157e308, None),
    Kind.BOOL: (True, False, None),
    Kind.TIMESTAMP: (Instant(0), Instant(INSTANT_MIN), Instant(INSTANT_MAX), None),
    Kind.BYTES: (b"", b"\0", b"\xff" * 300, b"x" * 65_536, None),
}

BAD = [
    (Kind.STRING, "a\0b"),
    (Kind.STRING, "\0"),
    (Kind.STRING, "x" * (STRING_BYTES_MAX + 1)),
    (Kind.STRING, "é" * (STRING_BYTES_MAX // 2 + 1)),
    (Kind.INT, INT_MAX + 1),
    (Kind.FLOAT, math.nan),
    (Kind.FLOAT, math.inf),
    (Kind.FLOAT, -math.inf),
    (Kind.BYTES, b"x" * (STRING_BYTES_MAX + 1)),
]

WRONG_CLASS = [
    (Kind.STRING, b"a"),
    (Kind.STRING, 1),
    (Kind.INT, True),
    (Kind.INT, 1.0),
    (Kind.INT, "1"),
    (Kind.FLOAT, 1),
    (Kind.FLOAT, "1"),
    (Kind.BOOL, 1),
    (Kind.BOOL, 0),
    (Kind.TIMESTAMP, 1.0),
    (Kind.TIMESTAMP, "x"),
    (Kind.BYTES, "a"),
]


def raw(*values: object) -> bytes:
    return msgspec.msgpack.encode(values)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("rows", [0, 1, 15, 16, 65_535, 65_536])
def test_every_number_of_rows_has_its_own_form(kind, rows):
    values = (None,) * rows
    assert decode_column(kind, encode_column(kind, values), rows) == values


@pytest.mark.parametrize(("kind", "value"), BAD, ids=lambda case: repr(case)[:20])
@pytest.mark.parametrize("beside", [(), (None,)], ids=["alone", "beside null"])
def test_a_value_that_is_none_is_neither_sent_nor_believed(kind, value, beside):
    with pytest.raises(BadValue):
        encode_column(kind, (value, *beside))
    with pytest.raises(BadColumn):
        decode_column(kind, raw(value, *beside), 1 + len(beside))


@pytest.mark.parametrize(("kind", "value"), WRONG_CLASS, ids=repr)
def test_kinds_never_mix(kind, value):
    with pytest.raises(BadValue):
        encode_column(kind, (None, value))
    with pytest.raises(BadColumn):
        decode_column(kind, raw(None, value), 2)


@pytest.mark.parametrize("number", [INSTANT_MIN - 1, INSTANT_MAX + 1, 2**63, 2**64 - 1])
def test_a_moment_outside_the_years_is_refused(number):
    with pytest.raises(BadColumn):
        decode_column(Kind.TIMESTAMP, raw(0, number), 2)


def test_an_int_beyond_64_bits_is_refused():
    for number in (2**64, INT_MIN - 1):
        with pytest.raises(BadValue):
            encode_column(Kind.INT, (number,))
    with pytest.raises(BadColumn):
        decode_column(Kind.INT, raw(2**64 - 1), 1)


def test_an_instant_that_evaded_its_check_is_still_refused():
    with pytest.raises(BadValue):
        encode_column(Kind.TIMESTAMP, (int.__new__(Instant, 2**80),))


def test_lone_surrogates_are_refused_in_both_directions():
    with pytest.raises(BadValue):
        encode_column(Kind.STRING, ("\ud800",))
    with pytest.raises(BadColumn):
        decode_column(Kind.STRING, b"\x91\xa3\xed\xa0\x80", 1)


def test_minus_zero_becomes_zero_when_sent_and_is_refused_when_it_arrives():
    assert encode_column(Kind.FLOAT, (-0.0,)) == encode_column(Kind.FLOAT, (0.0,))
    with pytest.raises(BadColumn):
        decode_column(Kind.FLOAT, raw(-0.0, 1.0), 2)


@pytest.mark.parametrize(("kind", "value"), [*BAD, (Kind.FLOAT, -0.0)])
@pytest.mark.parametrize("rows", [1, 2, 256])
def test_what_is_no_value_is_refused_in_any_column_of_a_frame(kind, value, rows):
    good = CORNERS[kind][1]
    clean = WireColumn("a", kind_to_number(kind), raw(*[good] * rows))
    for at in {0, rows - 1}:
        odd = WireColumn("b", clean.kind, raw(*[value if row == at else None for row in range(rows)]))
        assert columns_to_frame([clean], rows).columns[A].values == (good,) * rows
        for columns in ([odd], [clean, odd], [odd, clean]):
            with pytest.raises(BadColumn):
                columns_to_frame(columns, rows)


def test_a_nul_hides_neither_behind_a_long_string_nor_in_a_long_column():
    clean = ("x" * 65_536, *(str(row) for row in range(300)))
    assert decode_column(Kind.STRING, encode_column(Kind.STRING, clean), 301) == clean
    with pytest.raises(BadColumn):
        decode_column(Kind.STRING, raw(*clean, "\0"), 302)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Kind.STRING, b"\x91\xd9\x01a"),
        (Kind.STRING, b"\xdc\x00\x01\xa1a"),
        (Kind.INT, b"\x91\xcc\x01"),
        (Kind.INT, b"\x91\xd0\x01"),
        (Kind.FLOAT, b"\x91\xca\x3f\x80\x00\x00"),
        (Kind.FLOAT, b"\x91\x01"),
        (Kind.TIMESTAMP, b"\x91\xd3" + bytes(8)),
        (Kind.BYTES, b"\x91\xc5\x00\x01a"),
        (Kind.BOOL, b"\x91\xc3\xc3"),
        (Kind.BOOL, b"\x91"),
        (Kind.BOOL, b""),
        (Kind.BOOL, b"\x92\xc3\xc3"),
        (Kind.BOOL, b"\x81\xc3\xc3"),
    ],
)
def test_a_column_has_one_form(kind, data):
    with pytest.raises(BadColumn):
        decode_column(kind, data, 1)


@pytest.mark.parametrize("rows", [-1, ROWS_MAX + 1, 2**63, 2**80])
def test_a_number_of_rows_that_cannot_be_is_refused(rows):
    with pytest.raises(BadColumn):
        decode_column(Kind.BOOL, b"\x91\xc3", rows)
    with pytest.raises(BadColumns):
        columns_to_frame([], rows)


def test_a_column_that_is_too_long_is_not_sent():
    with pytest.raises(BadFrame):
        encode_column(Kind.BOOL, (None,) * (ROWS_MAX + 1))


def test_numbers_of_kinds_are_kept_for_ever():
    assert [kind_to_number(kind) for kind in Kind] == [1, 2, 3, 4, 5, 6]
    assert [kind_from_number(kind_to_number(kind)) for kind in Kind] == list(Kind)
    for number in (0, 7, 15, -1):
        with pytest.raises(BadColumns):
            kind_from_number(number)


FRAME = Frame(2, {A: Column(Kind.STRING, ("x", None)), B: Column(Kind.INT, (1, 2))})


def test_kinds_are_read_without_decoding():
    assert kinds_of_columns(frame_to_columns(FRAME)) == FRAME.kinds


def test_a_foreign_attribute_or_another_kind_is_refused():
    columns = frame_to_columns(FRAME)
    with pytest.raises(BadColumns, match="`b`"):
        columns_to_frame(columns, 2, {A: Kind.STRING})
    with pytest.raises(TransitKindMismatch):
        columns_to_frame(columns, 2, {A: Kind.STRING, B: Kind.FLOAT})


@pytest.mark.parametrize("uid", ["", "A", "a b", "-a", "a\0", "é", "a" * 65])
def test_a_uid_is_a_uid(uid):
    with pytest.raises(BadColumns):
        columns_to_frame([WireColumn(uid, 1, b"\x91\xc0")], 1)
    with pytest.raises(BadAttribute):
        frame_to_columns(Frame(1, {AttributeUid(uid): Column(Kind.BOOL, (None,))}))


def test_a_frame_carries_a_bounded_number_of_values():
    values = (None,) * ROWS_MAX
    fits = {AttributeUid(f"a{number}"): Column(Kind.BOOL, values) for number in range(16)}
    columns = frame_to_columns(Frame(ROWS_MAX, fits))
    one_more = [*columns, WireColumn("b", 4, columns[0].data)]
    with raises("PROTOCOL-TOO-MANY-VALUES"):
        columns_to_frame(one_more, ROWS_MAX)
    with raises("PROTOCOL-TOO-MANY-VALUES"):
        frame_to_columns(Frame(ROWS_MAX, {**fits, B: Column(Kind.BOOL, values)}))
    assert columns_to_frame(one_more, ROWS_MAX, only={B}).rows == ROWS_MAX
