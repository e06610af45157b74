"""Whatever is accepted is exactly what would have been sent; everything else is refused by name."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.errors import ProtocolViolation
from maia.events import (
    STRING_BYTES_MAX,
    AttributeUid,
    BadValue,
    Column,
    Frame,
    Instant,
    Kind,
    checked_value,
)
from maia.wire import (
    BadColumn,
    Splitter,
    columns_to_frame,
    decode,
    decode_column,
    encode,
    encode_column,
    frame_to_columns,
    framed,
    request_from_bytes,
    request_to_bytes,
)
from maia.wire.codec import encode_known
from maia.wire.columns import EventWriter
from maia.wire.messages import Publish
from support.wire import columns_of, frames, messages, mutated, plate_is, signed

pytestmark = pytest.mark.laws

SPEED, SEEN = AttributeUid("speed"), AttributeUid("seen")


def exactly(values):
    """Return values with their classes, because 1, 1.0 and True are equal in Python."""
    return [(type(value), value) for value in values]


@given(messages())
def test_a_message_is_read_as_it_was_sent(message):
    assert decode(encode(message)) == message


@given(st.data())
def test_a_changed_message_is_refused_or_is_another_message(data):
    changed = data.draw(mutated(encode(data.draw(messages()))))
    _refused_or_exact(changed)


@given(st.binary(max_size=200))
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\xdf\xff\xff\xff\xff")
@example(b"\x92\x32\xdd\xff\xff\xff\xff")
@example(b"\x91" * 150)
def test_any_bytes_are_refused_or_are_a_message(noise):
    _refused_or_exact(noise)


def _refused_or_exact(data):
    try:
        message = decode(data)
    except ProtocolViolation:
        return
    assert encode(message) == data


@given(st.sampled_from(Kind).flatmap(lambda kind: st.tuples(st.just(kind), columns_of(kind))))
def test_a_column_is_read_as_it_was_sent(case):
    kind, values = case
    back = decode_column(kind, encode_column(kind, values), len(values))
    assert exactly(back) == exactly(values)


@given(st.data())
def test_a_changed_column_is_refused_or_is_another_column(data):
    kind = data.draw(st.sampled_from(Kind))
    values = data.draw(columns_of(kind))
    changed = data.draw(mutated(encode_column(kind, values)))
    try:
        back = decode_column(kind, changed, len(values))
    except BadColumn:
        return
    assert encode_column(kind, back) == changed
    assert exactly(checked_value(value, kind) for value in back) == exactly(back)


ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.binary(max_size=5)
)


@given(st.sampled_from(Kind), st.lists(ANYTHING, max_size=6))
@example(Kind.FLOAT, [float("inf"), float("-inf")])
@example(Kind.FLOAT, [float("nan"), None])
@example(Kind.FLOAT, [-0.0, 0.0])
@example(Kind.INT, [2**63, -1])
@example(Kind.STRING, ["a", "\0"])
def test_a_column_takes_exactly_the_values_that_enter_one_by_one(kind, values):
    try:
        checked = [checked_value(value, kind) for value in values]
    except BadValue:
        with pytest.raises(BadValue):
            encode_column(kind, values)
        return
    back = decode_column(kind, encode_column(kind, values), len(values))
    assert exactly(back) == exactly(checked)
    assert "-0.0" not in map(str, back)


@given(st.sampled_from(Kind), ANYTHING | st.integers(-(10**15), 10**15).map(Instant))
@example(Kind.FLOAT, float("inf"))
@example(Kind.FLOAT, -0.0)
@example(Kind.INT, 2**63)
@example(Kind.INT, True)
@example(Kind.TIMESTAMP, 5)
@example(Kind.STRING, "a\0")
@example(Kind.STRING, "\ud800")
@example(Kind.STRING, "a" * (STRING_BYTES_MAX + 1))
@example(Kind.BYTES, b"a" * (STRING_BYTES_MAX + 1))
@example(Kind.BOOL, [])
def test_one_value_is_written_as_any_column_is(kind, value):
    alone = Frame(1, {SPEED: Column(kind, (value,))})

    def outcome(write):
        try:
            return write()
        except BadValue as problem:
            return problem.message

    written = outcome(lambda: encode_column(kind, (value,)))
    assert outcome(lambda: frame_to_columns(alone)[0].data) == written
    # What a client gives alone needs no frame: all columns are looked over together, and a null is left out.
    before = Frame(1, {} if value is None else {SPEED: Column(kind, (value,))})
    event = Frame(1, {**before.columns, SEEN: Column(Kind.TIMESTAMP, (Instant(7),))})
    writer = EventWriter({SPEED: kind, SEEN: Kind.TIMESTAMP})
    published = outcome(lambda: writer.columns_of((value, Instant(7))))
    assert published == outcome(lambda: frame_to_columns(event))


@given(frames())
def test_a_frame_is_read_as_it_was_sent(frame):
    columns = frame_to_columns(frame)
    if frame.rows:
        publication = Publish(1, 2, 3, frame.rows, columns)
        assert encode_known(publication) == encode(publication)
    back = columns_to_frame(columns, frame.rows, frame.kinds)
    assert back == frame
    for uid, column in frame.columns.items():
        assert exactly(back.columns[uid].values) == exactly(column.values)


@given(frames(), st.data())
def test_decoding_some_columns_is_decoding_all_and_keeping_some(frame, data):
    kept = data.draw(st.sets(st.sampled_from(sorted(frame.columns)))) if frame.columns else set()
    columns = frame_to_columns(frame)
    whole = columns_to_frame(columns, frame.rows)
    assert columns_to_frame(columns, frame.rows, only=kept) == whole.only(kept)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_messages_come_out_as_they_went_in_however_the_stream_was_cut(sent, data):
    stream, splitter, heard = b"".join(map(framed, sent)), Splitter(50), []
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        heard += splitter.feed(stream[start:end])
        assert splitter.held < 4 + 50
    assert heard == sent
    assert splitter.held == 0


@given(st.data())
def test_a_changed_request_is_refused_or_is_another_request(data):
    changed = data.draw(mutated(request_to_bytes(signed(wanted=plate_is("AE05 XYZ")))))
    try:
        request = request_from_bytes(changed)
    except ProtocolViolation:
        return
    assert request_to_bytes(request) == changed
