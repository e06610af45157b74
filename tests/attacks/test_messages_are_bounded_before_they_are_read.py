"""What a stranger can make a node hold, reserve or compute, by bytes alone."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from maia.errors import ProtocolViolation
from maia.events import ATTRIBUTES_MAX, ROWS_MAX, Kind
from maia.testing.refusals import raises
from maia.wire import (
    HANDSHAKE_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    Accepted,
    BadColumn,
    BadColumns,
    Carried,
    Deliver,
    Ping,
    Publish,
    Splitter,
    Welcome,
    WireColumn,
    columns_to_frame,
    decode,
    decode_column,
    encode,
    framed,
)

MIB = 1 << 20


def peak_of(attempt) -> int:
    """Return how many bytes were held at most while `attempt` ran and was refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolViolation):
            attempt()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [HANDSHAKE_BYTES_MAX + 1, MESSAGE_BYTES_MAX, 2**31, 2**32 - 1])
def test_a_length_that_lies_is_refused_with_its_fourth_byte(length):
    """A74: nothing is waited for, and nothing reserved, because of a length that a stranger announced."""
    splitter = Splitter()
    header = length.to_bytes(4, "big")
    assert splitter.feed(header[:3]) == []
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        splitter.feed(header[3:])


def test_a_partial_message_is_held_within_the_limit():
    """A74: a peer that never ends its message makes us hold that message and no more."""
    splitter = Splitter()
    splitter.feed(HANDSHAKE_BYTES_MAX.to_bytes(4, "big"))
    for _ in range(HANDSHAKE_BYTES_MAX // 1024 - 1):
        assert splitter.feed(bytes(1024)) == []
        assert splitter.held <= HANDSHAKE_BYTES_MAX + 4
    assert len(splitter.feed(bytes(1024))[0]) == HANDSHAKE_BYTES_MAX
    assert splitter.held == 0


def test_announcing_a_long_message_reserves_nothing():
    """A74: 16 MiB announced and eight bytes sent cost eight bytes, not 16 MiB."""
    tracemalloc.start()
    splitter = Splitter(MESSAGE_BYTES_MAX)
    splitter.feed(MESSAGE_BYTES_MAX.to_bytes(4, "big") + b"x" * 8)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < MIB


def test_a_peer_that_was_refused_cannot_make_us_hold_more():
    """A74: a peer that ignores the refusal and goes on feeding does not grow the buffer."""
    splitter = Splitter(16)
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        splitter.feed(b"\xff" * 4)
    for _ in range(100):
        with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
            splitter.feed(bytes(1 << 16))
    assert splitter.held == 4


@pytest.mark.parametrize(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff\x05",
        b"\x95\x01\x01\xc4\x00\xdd\xff\xff\xff\xff",
        b"\x95\x01\x01\xc6\xff\xff\xff\xff",
        b"\x93\x04\xdb\xff\xff\xff\xff\xa0",
        b"\x94\x32\xc4\x20" + bytes(32) + b"\xdd\xff\xff\xff\xff\x90",
    ],
    ids=bytes.hex,
)
def test_a_count_inside_a_message_reserves_nothing(data):
    """A74: arrays, maps, strings and bytes that claim four thousand million elements cost nothing."""
    assert peak_of(lambda: decode(data)) < MIB


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("rows", [1, ROWS_MAX])
def test_a_count_inside_a_column_reserves_nothing(kind, rows):
    """A74: a column that claims more rows than it has bytes is refused, and nothing is reserved for them."""
    data = b"\xdd\xff\xff\xff\xff\xc0"
    assert peak_of(lambda: decode_column(kind, data, rows)) < MIB
    short = b"\xdd\x00\x01\x00\x00" + b"\xc0" * 100
    assert peak_of(lambda: decode_column(kind, short, ROWS_MAX)) < MIB // 16


def test_many_small_values_do_not_become_a_large_memory():
    """A74: three bytes of text are eighty in Python; the number of values in a frame is bounded."""
    column = msgspec.msgpack.encode(["ab"] * ROWS_MAX)
    columns = [WireColumn(f"a{number}", 1, column) for number in range(80)]
    assert sum(len(column.data) for column in columns) <= MESSAGE_BYTES_MAX
    with raises("PROTOCOL-TOO-MANY-VALUES"):
        columns_to_frame(columns, ROWS_MAX)


def test_nothing_on_the_wire_unpacks():
    """A74: there is no compression, so a message is never longer than the bytes that were counted."""
    message = Publish(1, 1, 0, 1, [WireColumn("a", 1, b"\x91\xa1x")])
    assert sum(len(column.data) for column in decode(encode(message)).columns) < len(encode(message))


def test_nesting_is_refused_where_it_begins():
    """A74: deep arrays end in a refusal and not in a full stack."""
    for data in (b"\x91" * MIB, b"\x92\x05" + b"\x91" * MIB, b"\x81\x05" * 100_000):
        with raises("PROTOCOL-MESSAGE"):
            decode(data)
    with pytest.raises(BadColumn):
        decode_column(Kind.STRING, b"\x91" * MIB, 1)


BIG = [-1, -(2**63), 2**63, 2**64 - 1]
KEY, TOKEN = b"k" * 32, b"t" * 16


@pytest.mark.parametrize("number", BIG)
@pytest.mark.parametrize(
    "build",
    [
        Ping,
        Welcome,
        lambda n: Accepted(n, None),
        lambda n: Accepted(1, n if abs(n) > 2**62 else 2**62),
        lambda n: Publish(n, 1, 0, 1, []),
        lambda n: Publish(1, n, 0, 1, []),
        lambda n: Publish(1, 1, n if abs(n) > 2**62 else 2**62, 1, []),
        lambda n: Publish(1, 1, 0, n, []),
        lambda n: Publish(1, 1, 0, 1, [WireColumn("a", n, b"")]),
        lambda n: Deliver([n], KEY, TOKEN, TOKEN, 0, 1, []),
        lambda n: Deliver([1], KEY, TOKEN, TOKEN, 0, n, []),
        lambda n: Carried(KEY, KEY, TOKEN, 1, 0, 1, [n], []),
        lambda n: Carried(KEY, KEY, TOKEN, n, 0, 1, [], []),
    ],
)
def test_numbers_that_are_negative_or_too_large_are_refused(build, number):
    """A75: lengths, sequences, references, rows, moments and kinds stay in their range."""
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode(build(number)))


@pytest.mark.parametrize("rows", [0, ROWS_MAX + 1, 2**32, 2**63 - 1])
def test_a_frame_has_a_sensible_number_of_rows(rows):
    """A75: rows of none, and rows beyond the limit, are refused with the message."""
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode(Publish(1, 1, 0, rows, [])))


@pytest.mark.parametrize("number", [True, 1.0, "1", b"1", None, [1]])
def test_a_number_is_a_number(number):
    """A75: nothing is coerced into a length or a sequence."""
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode([5, number]))


@pytest.mark.parametrize("length", [-1, 0])
def test_a_length_of_nothing_or_less_makes_no_message(length):
    """A75: four bytes cannot say less than nothing: minus one is too much, and zero is refused."""
    with pytest.raises(ProtocolViolation):
        Splitter().feed((length & 0xFFFF_FFFF).to_bytes(4, "big"))


def test_a_frame_has_at_most_so_many_attributes():
    """A76: many tiny attributes are refused with the message; as many as allowed pass."""
    columns = [WireColumn(f"a{number}", 4, b"\x91\xc3") for number in range(ATTRIBUTES_MAX + 1)]
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode(Publish(1, 1, 0, 1, columns)))
    fits = decode(encode(Publish(1, 1, 0, 1, columns[:-1])))
    assert len(columns_to_frame(fits.columns, 1).columns) == ATTRIBUTES_MAX


def test_a_map_is_no_message_however_large():
    """A76: no message and no column is a map, so no peer chooses the keys of a dictionary of ours."""
    for data in (
        msgspec.msgpack.encode({number * (2**61 - 1): 0 for number in range(8)}),
        msgspec.msgpack.encode([5, {"a": 1}]),
        b"\xdf\x00\x01\x00\x00" + b"\x01\xc0" * 65_536,
    ):
        with raises("PROTOCOL-MESSAGE"):
            decode(data)
    with pytest.raises(BadColumn):
        decode_column(Kind.INT, msgspec.msgpack.encode({1: 1}), 1)


def test_one_attribute_twice_is_refused_and_not_overwritten():
    """A76: a checked column cannot be replaced by a second one of the same uid."""
    column = WireColumn("a", 4, b"\x91\xc3")
    with pytest.raises(BadColumns):
        columns_to_frame([column, column], 1)


def test_lists_of_a_message_are_bounded():
    """A76: credentials, references and kept rows beyond their number are refused with the message."""
    for message in (
        Deliver([1] * 65_537, KEY, TOKEN, TOKEN, 0, 1, []),
        Carried(KEY, KEY, TOKEN, 1, 0, 1, [0] * 65_537, []),
    ):
        with raises("PROTOCOL-MESSAGE"):
            decode(msgspec.msgpack.encode(message))


def test_a_hostile_stream_does_not_spoil_the_messages_before_it():
    """A74: what was said in order and in bounds is still received."""
    splitter = Splitter()
    assert splitter.feed(framed(encode(Ping(1))) + b"\xff\xff\xff\xff") == [encode(Ping(1))]
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        splitter.feed(b"")
