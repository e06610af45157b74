"""Reading all columns of a frame at once refuses and returns what reading them one by one does."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.errors import MaiaError
from maia.events import Frame, Instant, Kind
from maia.wire.columns import (
    FrameReader,
    _read_one_by_one,
    columns_to_frame,
    decode_column,
    encode_column,
    kind_from_number,
    kind_to_number,
    layout_key,
)
from maia.wire.messages import Column

pytestmark = pytest.mark.laws

VALUES = {
    Kind.STRING: st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=40),
    Kind.INT: st.integers(-(2**63), 2**63 - 1),
    Kind.FLOAT: st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
    Kind.BOOL: st.booleans(),
    Kind.TIMESTAMP: st.integers(-(10**15), 10**15).map(Instant),
    Kind.BYTES: st.binary(max_size=40),
}


@st.composite
def columns(draw) -> tuple[int, list[Column]]:
    rows = draw(st.sampled_from([1, 2, 3, 15, 16, 17]))
    kinds = draw(st.lists(st.sampled_from(list(Kind)), min_size=1, max_size=5))
    return rows, [
        Column(
            f"uid-{draw(st.integers(0, 9))}",
            kind_to_number(kind),
            encode_column(kind, draw(st.lists(st.none() | VALUES[kind], min_size=rows, max_size=rows))),
        )
        for kind in kinds
    ]


def _outcome(read, columns: list[Column], rows: int) -> object:
    try:
        frame = read(columns, rows)
    except MaiaError as problem:
        return type(problem), problem.message
    return {
        uid: (column.kind, [*map(type, column.values)], column.values)
        for uid, column in frame.columns.items()
    }


def _together(events: list[list[Column]]) -> Frame | None:
    """Return events as the reader of a stream reads them together; None if it does not."""
    return FrameReader(None).read(events, 1) if len(events) > 1 else None


def _read_slowly(columns: list[Column], rows: int):
    return _read_one_by_one(columns, rows, None, None)


@given(columns())
def test_good_columns_are_read_alike(given_columns):
    rows, some = given_columns
    assert _outcome(columns_to_frame, some, rows) == _outcome(_read_slowly, some, rows)


@given(columns(), st.data())
def test_damaged_columns_are_read_alike(given_columns, data):
    rows, some = given_columns
    at = data.draw(st.integers(0, len(some) - 1))
    column = some[at]
    place = data.draw(st.integers(0, len(column.data) - 1))
    cut = data.draw(st.integers(0, 3))
    put = data.draw(st.binary(max_size=3))
    some[at] = Column(column.uid, column.kind, column.data[:place] + put + column.data[place + cut :])
    assert _outcome(columns_to_frame, some, rows) == _outcome(_read_slowly, some, rows)


@given(columns(), st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99), st.binary(max_size=2)))
def test_single_events_are_read_together_as_one_by_one(given_columns, damage):
    rows, some = given_columns
    kinds = [kind_from_number(one.kind) for one in some]
    values = [decode_column(kind, one.data, rows) for kind, one in zip(kinds, some, strict=True)]
    events = [
        [
            Column(one.uid, one.kind, encode_column(kind, (found[row],)))
            for kind, one, found in zip(kinds, some, values, strict=True)
        ]
        for row in range(rows)
    ]
    if damage is not None:
        at, place, put = damage
        event = events[at % rows]
        hit = event[at % len(event)]
        start = place % len(hit.data)
        changed = hit.data[:start] + put + hit.data[start + 1 :]
        event[at % len(event)] = Column(hit.uid, hit.kind, changed)
    together = _together(events)
    alone = [_outcome(_read_slowly, event, 1) for event in events]
    reader = FrameReader(None)
    for event, outcome in zip(events, alone, strict=True):
        assert _outcome(lambda columns, rows: reader.read([columns], rows), event, 1) == outcome
    if together is not None:
        assert [_outcome(lambda _, __, row=row: together.take([row]), [], 1) for row in range(rows)] == alone
    elif rows > 1:  # only for a reason
        has_twins = len({one.uid for one in some}) < len(some)
        assert has_twins or damage is not None or Kind.FLOAT in kinds


def test_events_with_other_columns_are_not_read_together():
    number, other = kind_to_number(Kind.INT), kind_to_number(Kind.TIMESTAMP)
    one, two = Column("uid-1", number, b"\x91\x01"), Column("uid-2", number, b"\x91\x01")
    strange = [two, one], [one], [one, two, two], [one, Column("uid-2", other, two.data)], []
    assert _together([[one, two], [one, two]]) is not None
    for event in strange:
        assert _together([[one, two], event]) is None
        last = layout_key([one, two])
        assert layout_key(event, last) == layout_key(event) != last == layout_key([one, two], last)


# The same bytes cut at another place: one column lacks what the next one has too much of.
@given(st.integers(0, 6), st.sampled_from([1, 6]))
@example(3, 1)
@example(3, 6)
def test_bytes_that_move_from_one_column_to_the_next_are_refused(place, number):
    kind = Kind.STRING if number == 1 else Kind.BYTES
    value = "ab" if kind is Kind.STRING else b"\x91\x91"
    whole = encode_column(kind, (value,)) + encode_column(kind, (value,))
    some = [Column("uid-1", number, whole[:place]), Column("uid-2", number, whole[place:])]
    half = len(whole) // 2
    outcome = _outcome(columns_to_frame, some, 1)
    assert isinstance(outcome, dict) is (place == half)
    assert outcome == _outcome(_read_slowly, some, 1)


def test_a_text_that_lends_the_first_byte_of_the_next_column_is_refused():
    # The first text ends in the middle of a character, which the next column's header would complete.
    lacking = Column("uid-1", 1, b"\x91\xa2\xc2")
    lending = Column("uid-2", 1, b"\x91\x91\xa1x")
    assert not isinstance(_outcome(columns_to_frame, [lacking, lending], 1), dict)
