"""Whatever bytes arrive, an MQTT session answers within bounds, and what it carries stays what it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import SigningKey, TypeName
from maia.errors import BadInput
from maia.events import Attribute, AttributeUid, Instant, Kind, Value
from maia.gateway.mqtt.codec import PacketSplitter, decode
from maia.gateway.mqtt.effects import (
    Attached,
    BrokerAnswered,
    CloseConnection,
    Effect,
    Messages,
    MqttLimits,
    OpenSubscription,
    ReceivedBytes,
    SubscriptionAnswered,
    ToBroker,
    Write,
)
from maia.gateway.mqtt.packets import V3, V5, ConnectPacket, MqttViolation
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.payloads import decode_map, encode_map
from maia.gateway.topic_table import PayloadForm, TopicTable, check_filter, matches, row_of
from maia.types import TypeDefinition, sign_definition, verify_definition

pytestmark = pytest.mark.laws

NOW = Instant.parse("2026-11-16T09:00:00Z")
OWNER = SigningKey.from_seed(b"o" * 32)
KINDS = tuple(
    Attribute(kind.value, AttributeUid(kind.value), kind)
    for kind in (Kind.STRING, Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TIMESTAMP, Kind.BYTES)
)
TYPE = verify_definition(
    sign_definition(TypeDefinition(TypeName(OWNER.principal, "All", "0"), None, KINDS), OWNER), at=NOW
)
ROWS = {
    form: row_of(
        mqtt="all/{string}/{int}",
        event_type=TYPE,
        form=form,
        attribute=None,
        is_durable=True,
        is_retained=True,
    )
    for form in (PayloadForm.JSON, PayloadForm.CBOR)
}
LIMITS = MqttLimits(receive_maximum=4, in_flight=4, subscriptions=3, packet_bytes=4096)
texts = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
values = st.fixed_dictionaries(
    {},
    optional={
        "string": texts.filter(bool),
        "int": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(allow_nan=False, allow_infinity=False).map(lambda one: one + 0.0),
        "bool": st.booleans(),
        "timestamp": st.integers(0, 2**50).map(Instant),
        "bytes": st.binary(max_size=12),
    },
)
levels = st.sampled_from(["a", "b", "+", "", "all"])
filters = st.lists(levels, min_size=1, max_size=4).map("/".join) | st.just("all/#") | st.just("#")


def packet(first: int, body: bytes) -> bytes:
    return bytes([first, len(body)]) + body if len(body) < 128 else b""


def text(words: str) -> bytes:
    return len(words.encode()).to_bytes(2, "big") + words.encode()


ids = st.integers(1, 6).map(lambda one: one.to_bytes(2, "big"))
whole = st.one_of(
    st.builds(lambda f, i: packet(0x82, i + b"\x00" + text(f) + b"\x01"), filters, ids),
    st.builds(
        lambda q, i, t: packet(0x30 | q << 1, text(t) + (i if q else b"") + b'\x00{"bool": true}'),
        st.integers(0, 2),
        ids,
        st.sampled_from(["all/x/1", "all/x/y", "none"]),
    ),
    st.builds(packet, st.sampled_from([0x40, 0x50, 0x62, 0x70]), ids),
    st.sampled_from([b"\xc0\x00", b"\xe0\x00"]),
    st.binary(max_size=24),
)


def written(effects: Iterable[Effect]) -> bytes:
    return b"".join(one.data for one in effects if isinstance(one, Write))


@given(st.lists(whole, max_size=24), st.sampled_from([V3, V5]), st.randoms(use_true_random=False))
def test_a_session_survives_every_client_and_answers_within_its_limits(
    sent: list[bytes], version: int, chance: object
) -> None:
    """A74, A101: malformed packets and used-up identifiers end a connection, and nothing else."""
    session = MqttSession("one", TopicTable(ROWS.values()), LIMITS)
    connect = ConnectPacket(version, "one", True, 0, None, None, None)
    effects = session.handle(Attached(connect), NOW)
    waiting: list[int] = []
    subscriptions: set[int] = set()
    under_way = 0
    for data in sent:
        effects = session.handle(ReceivedBytes(data), NOW)
        waiting += [one.handle for one in effects if isinstance(one, ToBroker)]
        for one in effects:
            if isinstance(one, OpenSubscription):
                subscriptions.add(one.number)
                session.handle(SubscriptionAnswered(one.number, (None,) * len(one.subscribed.interests)), NOW)
        if session.room and session.subscriptions and chance.random() < 0.5:  # type: ignore[attr-defined]
            number = chance.choice(list(session.subscriptions))  # type: ignore[attr-defined]
            session.handle(Messages(number, [("all/x/1", b"x", None)], False, False), NOW)
        if waiting and chance.random() < 0.5:  # type: ignore[attr-defined]
            session.handle(BrokerAnswered([(waiting.pop(0), 1, None)]), NOW)
        under_way = max(under_way, len(session._in_flight.messages))
        assert len(session.subscriptions) <= LIMITS.subscriptions
        if any(isinstance(one, CloseConnection) for one in effects):
            assert not session.is_connected
            assert session.handle(ReceivedBytes(data), NOW) == []
            break
    assert under_way <= LIMITS.in_flight
    if version == V5:
        assert session._unacknowledged <= LIMITS.receive_maximum


payloads = st.sampled_from(
    [b'{"bool": true}', b'{"float": 1}', b'{"bytes": "00"}', b"{}", b"", b"{", b'{"bool": 1}']
)
messages = st.builds(
    lambda q, r, i, t, p, v: (
        lambda is_5: packet(0x30 | q << 1 | r, text(t) + (i if q else b"") + (v if is_5 else b"") + p)
    ),
    st.sampled_from([0, 1, 1, 1, 2]),
    st.booleans(),
    ids,
    st.sampled_from(["all/x/1", "all/x/1", "all/x/1", "all/x/2", "none"]),
    payloads,
    st.sampled_from([b"\x00", b"\x00", b"\x02\x01\x01"]),
)


@given(st.lists(messages | whole.map(lambda one: lambda _: one), max_size=12), st.sampled_from([V3, V5]))
def test_messages_that_arrive_together_mean_what_they_mean_one_by_one(
    parts: list[Callable[[bool], bytes]], version: int
) -> None:
    def outcome(reads: Iterable[bytes]) -> tuple[list[tuple[int, dict[str, Value]]], bytes, bool]:
        session = MqttSession("one", TopicTable(ROWS.values()), LIMITS)
        session.handle(Attached(ConnectPacket(version, "one", True, 0, None, None, None)), NOW)
        effects = [one for data in reads for one in session.handle(ReceivedBytes(data), NOW)]
        given = [one for one in effects if isinstance(one, ToBroker)]
        events = [
            (one.row, {name: c[at] for name, c in sorted(one.columns.items()) if c[at] is not None})
            for one in given
            for at in range(one.rows)
        ]
        answers = session.handle(BrokerAnswered([(one.handle, one.rows, None) for one in given]), NOW)
        return events, written([*effects, *answers]), session.is_connected

    sent = [one for part in parts if len(one := part(version == V5)) > 1 and len(one) == one[1] + 2]
    assert outcome([b"".join(sent)]) == outcome(sent)


@given(st.binary(max_size=64), st.lists(st.integers(1, 9), max_size=8))
def test_packets_are_the_same_however_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    """A74: a length that lies is found out, whatever arrives with it."""

    def packets(pieces: Iterable[bytes]) -> tuple[list[object], str]:
        splitter, found = PacketSplitter(256), []
        try:
            for piece in pieces:
                for first, body in splitter.feed(piece):
                    found.append(decode(first, body, V5))
        except MqttViolation as problem:
            return found, problem.reason.name
        return found, ""

    pieces, rest = [], data
    for cut in cuts:
        pieces.append(rest[:cut])
        rest = rest[cut:]
    assert packets([*pieces, rest]) == packets([data])


@pytest.mark.parametrize("form", ROWS)
@given(values)
def test_an_event_is_the_same_after_it_was_a_message(form: PayloadForm, event: dict[str, Value]) -> None:
    """A3, A34: no value of an attribute changes the topic's levels, or becomes another value."""
    row = ROWS[form]
    topic, payload, _ = row.message_of(event)
    assert topic.count("/") == 2
    assert not any(one in topic for one in "+#")
    number, columns = TopicTable([row]).columns_of(topic, [payload], None)
    assert (number, {name: one for name, (one,) in columns.items() if one is not None}) == (0, event)
    assert matches(check_filter("all/#")[1], topic.split("/"))


@given(st.binary(max_size=40))
def test_cbor_is_read_within_its_bounds(data: bytes) -> None:
    try:
        found = decode_map(data)
    except BadInput as problem:
        if problem.code != "INPUT-CBOR":
            raise
        return
    assert len(found) <= len(data)


@given(values)
def test_cbor_is_read_as_it_was_written(event: dict[str, Value]) -> None:
    found = decode_map(encode_map(event))
    assert {name: str(one) if isinstance(one, Instant) else one for name, one in event.items()} == found
