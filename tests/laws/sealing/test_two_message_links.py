"""Whatever is altered, repeated, sent back, swapped or cut off on a statement link is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.errors import MaiaError, ProtocolViolation
from maia.sealing.two_message import Request, Responder
from maia.testing.refusals import raises
from maia.wire.replays import ReplayMemory
from support.two_message import (
    ANNAS,
    BROKER,
    BROKERS,
    EVE,
    NOON,
    OTHER_BROKER,
    chance,
    link_identity,
    open_links,
    responder,
    seconds,
)

pytestmark = pytest.mark.laws

REQUEST = Request(ANNAS, BROKER.principal, NOON, chance("Anna")).data
TEXTS = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=6)


def request() -> Request:
    return Request(ANNAS, BROKER.principal, NOON, chance("Anna"))


def altered(data: bytes, draw: st.DataObject) -> bytes:
    at = draw.draw(st.integers(0, len(data) - 1))
    change = draw.draw(st.integers(1, 255))
    return data[:at] + bytes((data[at] ^ change,)) + data[at + 1 :]


@given(st.data())
def test_a_request_with_any_changed_byte_is_refused(draw):
    with pytest.raises(MaiaError):
        responder().respond(BROKERS, altered(REQUEST, draw), NOON, chance("broker"))


@given(st.data())
def test_a_response_with_any_changed_byte_is_refused(draw):
    response, _ = responder().respond(BROKERS, REQUEST, NOON, chance("broker"))
    with pytest.raises(MaiaError):
        request().open(altered(response, draw), NOON)


@given(st.integers(0, len(REQUEST) - 1), st.binary(max_size=3))
def test_a_request_that_is_cut_off_or_goes_on_is_refused(end, more):
    for data in (REQUEST[:end], REQUEST + b"\0" + more):
        with pytest.raises(MaiaError):
            responder().respond(BROKERS, data, NOON, chance("broker"))


@given(st.binary(max_size=400))
def test_no_bytes_break_a_responder_a_request_or_an_open_link(data):
    for take in (
        lambda: responder().respond(BROKERS, data, NOON, chance("broker")),
        lambda: request().open(data, NOON),
    ):
        with pytest.raises(MaiaError):
            take()
    with suppress(ProtocolViolation):
        assert open_links()[0].feed(data) == b""  # the beginning of a record


@given(st.data(), st.integers(0, 120))
def test_no_request_opens_two_links(draw, entries_max):
    """Whatever the clock does, and however little the responder can remember."""
    identities = [link_identity(key, name, start=seconds(-600)) for key, name in ((BROKER, "b"), (EVE, "e"))]
    broker = link_identity(OTHER_BROKER, "broker", start=seconds(-600))
    requests = [
        Request(one, OTHER_BROKER.principal, seconds(30 * at), chance(f"{number} {at}")).data
        for number, one in enumerate(identities)
        for at in range(3)
    ]
    one = Responder(seconds(-300), ReplayMemory(entries_max=entries_max, per_principal_max=2))
    opened: set[bytes] = set()
    steps = st.lists(st.tuples(st.sampled_from(requests), st.integers(-90, 200)), max_size=20)
    for data, clock_s in draw.draw(steps):
        try:
            one.respond(broker, data, seconds(clock_s), chance("broker"))
        except MaiaError:
            continue
        assert data not in opened
        opened.add(data)


@given(TEXTS, st.data())
def test_records_arrive_as_they_were_sent_however_they_are_cut(texts, draw):
    dialled, accepted = open_links()
    for sender, receiver in ((dialled, accepted), (accepted, dialled)):
        stream = b"".join(sender.seal(text) for text in texts) + sender.seal_end()
        cuts = sorted(draw.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert b"".join(map(receiver.feed, pieces)) == b"".join(texts)
        assert receiver.has_ended
        receiver.check_end()


@given(TEXTS, st.data())
def test_an_altered_record_is_refused_or_never_completed(texts, draw):
    dialled, accepted = open_links()
    stream = b"".join(map(dialled.seal, texts))
    _refused_or_cut_off(accepted, altered(stream, draw), b"".join(texts))


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=2, max_size=6), st.data())
def test_records_that_are_swapped_repeated_or_left_out_are_refused(texts, draw):
    dialled, accepted = open_links()
    records = list(map(dialled.seal, texts))
    first = draw.draw(st.integers(0, len(records) - 2))
    match draw.draw(st.sampled_from(("swap", "repeat", "leave out"))):
        case "swap":
            records[first], records[first + 1] = records[first + 1], records[first]
        case "repeat":
            records.insert(first, records[first])
        case _:
            del records[first]
    with raises("PROTOCOL-LINK-RECORD"):
        accepted.feed(b"".join(records))


@given(st.binary(min_size=1, max_size=40))
def test_records_that_are_sent_back_or_to_another_link_are_refused(text):
    dialled, accepted = open_links("one")
    other, _ = open_links("other")
    sealed = dialled.seal(text)
    for side in (dialled, open_links("other")[1]):
        with raises("PROTOCOL-LINK-RECORD"):
            side.feed(sealed)
    with raises("PROTOCOL-LINK-RECORD"):
        accepted.feed(other.seal(text))


def _refused_or_cut_off(receiver, stream, sent):
    """What was handed on is the beginning of what was sent; the rest is refused, now or at the end."""
    received = b""
    with suppress(ProtocolViolation):
        for at in range(len(stream)):
            received += receiver.feed(stream[at : at + 1])
        receiver.check_end()
        pytest.fail("an altered stream was taken")
    assert sent.startswith(received)
    assert received != sent
