"""Every message has one form, and complaints can always be sent."""

from __future__ import annotations

import msgspec
import pytest

from maia.events import INSTANT_MAX
from maia.testing.refusals import raises
from maia.wire import (
    MESSAGE_BYTES_MAX,
    Accepted,
    Bye,
    Ended,
    Failed,
    Hello,
    Ping,
    Publish,
    Resync,
    Unsendable,
    Welcome,
    WireColumn,
    decode,
    encode,
    is_welcome,
    sendable_text,
)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x92\x05",
        b"\x91\x05",
        b"\x93\x05\x07\x07",
        b"\x92\x05\x07\x07",
        b"\x92\x05\xff",
        b"\x92\x05\xc0",
        b"\x92\x05\xc3",
        b"\x92\x63\x07",
        b"\x90",
        b"\x05",
        b"\xc0",
        b"\xc1",
        b"\x81\x05\x07",
        b"\x82\x05\x07\x05\x07",
        b"\x92\xa1\x05\x07",
        b"\x92\x05\xcf\x80\x00\x00\x00\x00\x00\x00\x00",
    ],
    ids=lambda data: data.hex() or "nothing",
)
def test_a_field_more_or_less_or_out_of_range_is_refused(data):
    with raises("PROTOCOL-MESSAGE"):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [b"\x92\xcc\x05\x07", b"\x92\x05\xcc\x07", b"\x92\x05\xd3" + bytes(7) + b"\x07", b"\xdc\x00\x02\x05\x07"],
    ids=bytes.hex,
)
def test_another_spelling_of_the_same_message_is_refused(data):
    with raises("PROTOCOL-MESSAGE-FORM"):
        decode(data)


def test_text_that_is_not_text_is_refused():
    good = encode(Bye("PROTOCOL", "abc"))
    with raises("PROTOCOL-MESSAGE"):
        decode(good.replace(b"abc", b"\xed\xa0\x80"))


def test_a_complaint_of_a_peer_cannot_move_the_cursor():
    raw = msgspec.msgpack.encode(Bye("PROTOCOL", "red \x1b[31m"))
    with raises("PROTOCOL-MESSAGE"):
        decode(raw)


@pytest.mark.parametrize("code", ["", "lower", "A" * 65, "A\n", "A B"])
def test_a_code_is_a_code(code):
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode(Failed(1, code, "")))


@pytest.mark.parametrize("address", ["", "a b", "host:1\n", "é:1", "x" * 257])
def test_an_address_is_plain_and_short(address):
    hello = Hello(1, b"", [], b"i" * 16, address)
    with raises("PROTOCOL-MESSAGE"):
        decode(msgspec.msgpack.encode(hello))


@pytest.mark.parametrize("complaint", [Bye, lambda c, m: Failed(1, c, m), lambda c, m: Ended([1], c, m)])
@pytest.mark.parametrize("text", ["x" * 5000, "a\nb\x1b[0m", "\ud800", "\u202e" * 1024, ""])
def test_a_complaint_can_always_be_sent(complaint, text):
    heard = decode(encode(complaint("PROTOCOL", text)))
    assert heard.message == sendable_text(text)


@pytest.mark.parametrize(
    "message",
    [
        Ping(-1),
        Ping(2**64),
        Ping("7"),
        Accepted(1, INSTANT_MAX + 1),
        Publish(1, 1, 0, 0, []),
        Publish(1, 1, 0, 1, [WireColumn("a" * 65, 1, b"")]),
        Bye("lower case", ""),
    ],
)
def test_what_a_peer_would_refuse_is_not_sent(message):
    with pytest.raises(Unsendable):
        encode(message)


def test_a_message_that_is_too_long_is_not_sent_and_not_read():
    column = WireColumn("a", 1, bytes(MESSAGE_BYTES_MAX))
    with pytest.raises(Unsendable):
        encode(Publish(1, 1, 0, 1, [column]))
    with raises("PROTOCOL-MESSAGE-TOO-LARGE"):
        decode(bytes(MESSAGE_BYTES_MAX + 1))


def test_only_a_welcome_looks_like_one():
    assert is_welcome(encode(Welcome(60)))
    assert not any(map(is_welcome, (encode(Ping(3)), encode(Resync()), b"", b"\x92")))
