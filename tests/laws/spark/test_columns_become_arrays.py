"""A column read as a whole says what it says value by value, and is refused where that is."""

from __future__ import annotations

from itertools import cycle, islice

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import Instant, Kind
from maia.spark.governed.arrow_columns import arrow_column, regular_columns
from maia.views.arrow_executor import ARROW_TYPES
from maia.wire.columns import BadColumn, decode_column, encode_column
from support.wire import values_of

BOUNDS = [
    0,
    1,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**32 - 1,
    2**32,
    2**63 - 1,
    -1,
    -32,
    -33,
    -129,
    -(2**31) - 1,
]
KINDS = st.sampled_from(list(Kind))


def plain(values):
    return [int(value) if isinstance(value, Instant) else value for value in values]


def found(array, kind):
    return (array.cast(pa.int64()) if kind is Kind.TIMESTAMP else array).to_pylist()


@st.composite
def columns(draw):
    kind = draw(KINDS)
    rows = draw(st.sampled_from([1, 15, 16, 17, 40, 600]))
    values = values_of(kind)
    if kind is Kind.INT:
        values |= st.sampled_from(BOUNDS)
    if kind is Kind.STRING:
        values |= st.integers(0, 300).map(lambda length: "x" * length) | st.just("é")
    few = draw(st.lists(st.none() | values, min_size=1, max_size=3))
    return kind, tuple(islice(cycle(few), rows))


@pytest.mark.laws
@given(columns())
def test_an_array_holds_the_values_of_its_column(column):
    kind, values = column
    data = encode_column(kind, values)
    array = arrow_column(kind, data, len(values))
    assert array.type == ARROW_TYPES[kind]
    array.validate(full=True)
    read = plain(decode_column(kind, data, len(values)))
    assert found(array, kind) == read
    assert [type(one) for one in found(array, kind)] == [type(one) for one in read]


@pytest.mark.laws
@given(st.lists(columns(), min_size=1, max_size=4), st.integers(1, 3))
def test_columns_of_several_frames_are_read_as_each_alone_or_not_at_all(some, times):
    kind, rows = some[0][0], len(some[0][1])
    written = [encode_column(kind, values) for other, values in some if other is kind and len(values) == rows]
    written = [one for one in written if len(one) == len(written[0])] * times
    array = regular_columns(kind, written, rows)
    if array is not None:
        array.validate(full=True)
        assert array.type == ARROW_TYPES[kind]
        alone = [value for one in written for value in plain(decode_column(kind, one, rows))]
        assert found(array, kind) == alone
    elif rows >= 16:  # then one of them is not read as a whole either
        assert any(regular_columns(kind, [one], rows) is None for one in written)


@pytest.mark.laws
@given(columns(), KINDS, st.integers(0, 2**16), st.integers(0, 255), st.integers(-1, 1))
@example((Kind.INT, (5,) * 20), Kind.BOOL, 4, 0xC2, 0)
@example((Kind.FLOAT, (1.0,) * 20), Kind.FLOAT, 4, 0x7F, 0)
def test_what_is_refused_value_by_value_is_refused_as_a_whole(column, kind, place, byte, change):
    _, values = column
    rows = len(values)
    data = bytearray(encode_column(*column))
    data[place % len(data)] = byte
    damaged = bytes(data[: len(data) + min(change, 0)]) + b"\xc0" * max(change, 0)
    try:
        read = plain(decode_column(kind, damaged, rows))
    except BadColumn:
        with pytest.raises(BadColumn):
            arrow_column(kind, damaged, rows)
    else:
        assert found(arrow_column(kind, damaged, rows), kind) == read


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        (Kind.INT, b"\xcf" + bytes(7) + b"\x05"),
        (Kind.INT, b"\xcc\x05"),
        (Kind.INT, b"\xcf\x80" + bytes(7)),
        (Kind.INT, b"\xc2"),
        (Kind.INT, b"\xe0"),
        (Kind.TIMESTAMP, b"\xcf\x7f" + b"\xff" * 7),
        (Kind.TIMESTAMP, b"\xc2"),
        (Kind.FLOAT, b"\xcb\x7f\xf0" + bytes(6)),
        (Kind.FLOAT, b"\xcb\x80" + bytes(7)),
        (Kind.BOOL, b"\x01"),
        (Kind.STRING, b"\xa2a\x00"),
        (Kind.STRING, b"\xa1\x80"),
        (Kind.STRING, b"\xd9\x01a"),
        (Kind.STRING, b"\xa2\xc3\xa9"),
        (Kind.BYTES, b"\xa1a"),
    ],
)
def test_columns_of_one_cell_many_times(kind, cell):
    data = b"\xdc\x00\x14" + cell * 20
    try:
        read = plain(decode_column(kind, data, 20))
    except BadColumn:
        with pytest.raises(BadColumn):
            arrow_column(kind, data, 20)
    else:
        assert found(arrow_column(kind, data, 20), kind) == read
