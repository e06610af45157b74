"""One MQTT session as a value: identifiers, repeats, aliases, keep-alive, wills and expiry."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from maia.credentials import SigningKey, TypeName
from maia.errors import Refusal
from maia.events import Attribute, AttributeUid, Instant, Kind, seconds_after
from maia.gateway.mqtt.codec import PacketSplitter
from maia.gateway.mqtt.effects import (
    Acknowledge,
    Attached,
    BrokerAnswered,
    ClockTick,
    CloseConnection,
    Effect,
    Lost,
    Messages,
    MqttLimits,
    OpenSubscription,
    ReceivedBytes,
    SessionOver,
    SubscriptionAnswered,
    ToBroker,
    Write,
)
from maia.gateway.mqtt.packets import V3, V5, ConnectPacket, Property, ReasonCode, Type, Will
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.topic_table import PayloadForm, TopicTable, row_of
from maia.types import TypeDefinition, sign_definition, verify_definition

NOW = Instant.parse("2026-11-16T09:00:00Z")
OWNER = SigningKey.from_seed(b"o" * 32)
TYPE = verify_definition(
    sign_definition(
        TypeDefinition(
            TypeName(OWNER.principal, "Text", "0"),
            None,
            (Attribute("text", AttributeUid("text"), Kind.STRING),),
        ),
        OWNER,
    ),
    at=NOW,
)
TABLE = TopicTable(
    [
        row_of(
            mqtt="t",
            event_type=TYPE,
            form=PayloadForm.PLAIN,
            attribute="text",
            is_durable=True,
            is_retained=False,
        )
    ]
)


def session(
    version: int = V5, *, keep_alive_s: int = 0, will: Will | None = None, expiry_s: int = 0
) -> MqttSession:
    one = MqttSession("c", TABLE, MqttLimits(receive_maximum=2, in_flight=2, topic_aliases=1))
    properties = {Property.SESSION_EXPIRY: expiry_s} if version == V5 else {}
    one.handle(Attached(ConnectPacket(version, "c", True, keep_alive_s, None, None, will, properties)), NOW)
    return one


def packets(effects: Iterable[Effect]) -> list[tuple[int, bytes]]:
    written = b"".join(one.data for one in effects if isinstance(one, Write))
    return [(first >> 4, body) for first, body in PacketSplitter(1 << 20).feed(written)]


def published(effects: Iterable[Effect]) -> list[int]:
    return [one.handle for one in effects if isinstance(one, ToBroker)]


def publish(
    packet_id: int, qos: int, *, topic: bytes = b"\x00\x01t", properties: bytes = b"\x00", dup: bool = False
) -> ReceivedBytes:
    body = topic + packet_id.to_bytes(2, "big") + properties + b"x"
    return ReceivedBytes(bytes([0x30 | qos << 1 | (8 if dup else 0), len(body)]) + body)


def test_a_message_is_acknowledged_when_the_broker_has_taken_it_on_and_published_once() -> None:
    one = session()
    (handle,) = published(one.handle(publish(7, 2), NOW))
    assert published(one.handle(publish(7, 2, dup=True), NOW)) == []
    assert packets(one.handle(BrokerAnswered([(handle, 1, None)]), NOW)) == [(Type.PUBREC, b"\x00\x07")]
    again = one.handle(publish(7, 2, dup=True), NOW)
    assert (published(again), packets(again)) == ([], [(Type.PUBREC, b"\x00\x07")])
    assert packets(one.handle(ReceivedBytes(b"\x62\x02\x00\x07"), NOW)) == [(Type.PUBCOMP, b"\x00\x07")]
    assert len(published(one.handle(publish(7, 2), NOW))) == 1, "the identifier is free again"


@pytest.mark.parametrize("version", [V3, V5])
def test_a_refusal_is_an_answer_in_5_and_the_end_in_3(version: int) -> None:
    one = session(version)
    body = b"\x00\x01t\x00\x09" + (b"\x00" if version == V5 else b"") + b"x"
    (handle,) = published(one.handle(ReceivedBytes(bytes([0x32, len(body)]) + body), NOW))
    effects = one.handle(BrokerAnswered([(handle, 1, Refusal("no"))]), NOW)
    if version == V5:
        ((kind, said),) = packets(effects)
        assert (kind, said[2]) == (Type.PUBACK, ReasonCode.NOT_AUTHORIZED)
        assert b"maia-code" in said
    else:
        assert any(isinstance(effect, CloseConnection) for effect in effects)
        assert packets(effects) == []


def test_limits_end_a_connection_with_their_reason() -> None:
    one = session()
    effects = [effect for number in (1, 2, 3) for effect in one.handle(publish(number, 1), NOW)]
    ((kind, said),) = packets(effects)
    assert (kind, said[0]) == (Type.DISCONNECT, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)
    for alias, reason in (
        (b"\x03\x23\x00\x02", ReasonCode.BAD_TOPIC_ALIAS),
        (b"\x03\x23\x00\x01", ReasonCode.PROTOCOL_ERROR),
    ):
        ((kind, said),) = packets(session().handle(publish(1, 1, topic=b"\x00\x00", properties=alias), NOW))
        assert (kind, said[0]) == (Type.DISCONNECT, reason)
    one = session()
    assert published(one.handle(publish(1, 1, properties=b"\x03\x23\x00\x01"), NOW))
    assert published(one.handle(publish(2, 1, topic=b"\x00\x00", properties=b"\x03\x23\x00\x01"), NOW))


def test_a_topic_too_long_to_be_one_is_no_alias() -> None:
    """A116: sixty-four names of 64 kB would be four megabytes for each connection of an account."""
    one, alias = session(), b"\x03\x23\x00\x01"
    long = (2000).to_bytes(2, "big") + b"t" * 2000 + b"\x00\x01" + alias
    ((kind, said),) = packets(one.handle(ReceivedBytes(b"\x32\xd9\x0f" + long + b"x"), NOW))
    assert (kind, said[2]) == (Type.PUBACK, ReasonCode.BAD_TOPIC_NAME)
    ((kind, said),) = packets(one.handle(publish(2, 1, topic=b"\x00\x00", properties=alias), NOW))
    assert (kind, said[0]) == (Type.DISCONNECT, ReasonCode.PROTOCOL_ERROR)


@pytest.mark.parametrize(("version", "most"), [(V5, 2), (V3, 1024)])
def test_messages_that_are_never_released_are_bounded(version: int, most: int) -> None:
    """A116: of QoS 2 an identifier is remembered until its client releases it, for lasting sessions too."""
    one = session(version)
    properties = b"\x00" if version == V5 else b""
    for number in range(1, most + 1):
        (handle,) = published(one.handle(publish(number, 2, properties=properties), NOW))
        one.handle(BrokerAnswered([(handle, 1, None)]), NOW)
    assert one.is_connected
    effects = one.handle(publish(most + 1, 2, properties=properties), NOW)
    assert published(effects) == []
    assert not one.is_connected


def test_a_client_is_not_read_while_many_of_its_subscriptions_wait() -> None:
    """A116: each of them waits for the broker, also when it has been taken back meanwhile."""
    one = session()
    pair = b"\x82\x07\x00\x01\x00\x00\x01t\x00", b"\xa2\x06\x00\x02\x00\x00\x01t"
    opened = [
        effect
        for data in pair * 100
        for effect in one.handle(ReceivedBytes(data), NOW)
        if isinstance(effect, OpenSubscription)
    ]
    assert len(opened) == 100
    assert not one.wants_input
    for effect in opened:
        one.handle(SubscriptionAnswered(effect.number, (None,)), NOW)
    assert one.wants_input


def test_silence_is_the_end_and_a_will_waits_for_its_delay() -> None:
    will = Will("t", b"gone", 1, False, {Property.WILL_DELAY: 30})
    one = session(keep_alive_s=10, will=will, expiry_s=60)
    assert packets(one.handle(ClockTick(), seconds_after(NOW, 14))) == []
    effects = one.handle(ClockTick(), seconds_after(NOW, 15))
    ((kind, said),) = packets(effects)
    assert (kind, said[0]) == (Type.DISCONNECT, ReasonCode.KEEP_ALIVE_TIMEOUT)
    assert published(effects) == []
    assert published(one.handle(ClockTick(), seconds_after(NOW, 44))) == []
    assert len(published(one.handle(ClockTick(), seconds_after(NOW, 45)))) == 1
    assert SessionOver() in one.handle(ClockTick(), seconds_after(NOW, 75))
    # A client that comes back in time has no will to be published.
    one = session(will=will, expiry_s=60)
    one.handle(Lost(), NOW)
    one.handle(Attached(ConnectPacket(V5, "c", False, 0, None, None, None)), seconds_after(NOW, 5))
    assert published(one.handle(ClockTick(), seconds_after(NOW, 40))) == []


def test_what_a_client_had_not_acknowledged_comes_again_under_its_identifier() -> None:
    one = session(expiry_s=60)
    body = b"\x00\x01\x00\x00\x01t\x02"
    (opening,) = (
        effect
        for effect in one.handle(ReceivedBytes(bytes([0x82, len(body)]) + body), NOW)
        if isinstance(effect, OpenSubscription)
    )
    one.handle(SubscriptionAnswered(opening.number, (None,)), NOW)
    for text in (b"first", b"second"):
        one.handle(Messages(opening.number, [("t", text, None)], False, False, text), NOW)
    assert one.room == 0
    effects = one.handle(ReceivedBytes(b"\x50\x02\x00\x01"), NOW)  # the client has the first
    assert Acknowledge(b"first") in effects
    assert packets(effects) == [(Type.PUBREL, b"\x00\x01")]
    one.handle(Lost(), NOW)
    again = one.handle(Attached(ConnectPacket(V5, "c", False, 0, None, None, None)), NOW)
    kinds = [(kind, said[:2] if kind == Type.PUBREL else said[3:5]) for kind, said in packets(again)][1:]
    assert kinds == [(Type.PUBREL, b"\x00\x01"), (Type.PUBLISH, b"\x00\x02")]
    assert packets(again)[0][1][0] == 1, "the session is present"
