"""What does an MQTT client's packet lead to, and what is the client sent in return?

    session.handle(Received(data), now) -> [Write(...), ToBroker(...), WakeAt(...), ...]

One session of one client as a value, without clock and socket. It knows quality of service, packet
identifiers, wills, keep-alive, aliases and the differences of 5.0 and 3.1.1. It knows nothing of rights: the
broker decides what the client's own principal may publish and see, and the session passes refusals on. A
message is acknowledged to its publisher only after the broker has (`BrokerAnswered`), and to the broker only
after the subscriber has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

import msgspec

from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import Instant, seconds_after
from maia.gateway.mqtt.codec import PacketSplitter, decode, encode, encode_message, message_head, read_topic
from maia.gateway.mqtt.effects import (
    Acknowledge,
    Attached,
    BrokerAnswered,
    ClockTick,
    CloseConnection,
    CloseSubscription,
    Effect,
    Input,
    Lost,
    Messages,
    MqttLimits,
    OpenSubscription,
    QueryState,
    ReceivedBytes,
    SessionOver,
    SubscribedFilter,
    SubscriptionAnswered,
    SubscriptionEnded,
    ToBroker,
    WakeSessionAt,
    Write,
)
from maia.gateway.mqtt.in_flight import PACKET_IDS, InFlight
from maia.gateway.mqtt.packets import (
    NO_PROPERTIES,
    V5,
    Ack,
    ConnAck,
    Disconnect,
    MqttViolation,
    Packet,
    PingReq,
    PingResp,
    Properties,
    Property,
    PublishPacket,
    ReasonCode,
    SubAck,
    SubscribeOptions,
    SubscribePacket,
    Type,
    UnsubAck,
    Unsubscribe,
    Will,
    explained,
)
from maia.gateway.topic_table import (
    TOPIC_BYTES_MAX,
    BadTopic,
    Columns,
    NotDeclared,
    TopicInterest,
    TopicTable,
    check_filter,
)

_FOR_EVER: Final = 0xFFFFFFFF
UNANSWERED_MAX: Final = 1024
"""Messages of a client that the broker has not answered for, before the client is not read any more."""
UNANSWERED_BYTES: Final = 2 << 20
"""How many bytes these may have."""
SUBSCRIBING_MAX: Final = 64
"""Requests to subscribe that the broker has not answered for, before the client is not read any more."""
_ALIKE: Final = (0x30, 0x31, 0x32, 0x33)
"""How messages of QoS 0 and 1 begin that are not sent again."""
_PUBACK: Final = Type.PUBACK << 4
_RUN_MAX: Final = 256
_RUN_BYTES: Final = 512 << 10
_CLOSING_3: Final = {
    ReasonCode.UNSUPPORTED_VERSION: 1,
    ReasonCode.BAD_CLIENT_ID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}
"""What 3.1.1 calls the reasons that a CONNACK may have; all others are 5."""


# ------------------------------------------------------------ the session


class _Unanswered(msgspec.Struct):
    """Messages of the client that the broker has not answered for."""

    qos: int
    rows: int
    packet_ids: list[int]
    """Of those with QoS 1 or 2, in order."""
    size: int
    is_one: bool = False
    """Whether the rows are one publication on several topics, with one packet id."""


@dataclass(slots=True)
class _Subscribing:
    """A SUBSCRIBE that the broker has not answered for in full."""

    packet_id: int
    reasons: list[int | None]
    waiting: dict[int, int]
    """Which filter, by the number of its subscription."""
    problems: list[MaiaError] = field(default_factory=list)


class MqttSession:
    """One client's session, which may outlive its connections."""

    def __init__(self, client_id: str, table: TopicTable, limits: MqttLimits) -> None:
        """Make a session without a connection."""
        self.client_id, self.table, self._limits = client_id, table, limits
        self.subscriptions: dict[int, SubscribedFilter] = {}
        self.is_connected = False
        self.expiry_s = 0
        self.ends_at: Instant | None = None
        """When a session without a connection ends; None while it has one, or for ever."""
        self.has_published_retained = False
        self._version = V5
        self._splitter = PacketSplitter(limits.packet_bytes)
        self._out = bytearray()
        self._numbers = 0
        self._handles = 0
        self._answers: dict[int, _Unanswered] = {}
        """By their handles."""
        self._unanswered = 0
        """How many messages that are."""
        self._unanswered_bytes = 0
        self._unacknowledged = 0
        """How many of them have QoS 1 or 2."""
        self._received: dict[int, bool] = {}
        """Identifiers of QoS 2 messages that were not released; True once the broker has taken them on."""
        self._in_flight = InFlight()
        self._subscribing: list[_Subscribing] = []
        self._aliases: dict[int, str] = {}
        self._in_flight_most = limits.in_flight
        self._packet_most = 0
        self._will: Will | None = None
        self._will_at: Instant | None = None
        self._keep_alive_s = 0.0
        self._heard_at: Instant | None = None
        self._asked_at: Instant | None = None

    @property
    def room(self) -> int:
        """Return how many messages may be sent to the client now."""
        if not self.is_connected or self._in_flight.bytes >= self._limits.in_flight_bytes:
            return 0
        return self._in_flight_most - len(self._in_flight.messages)

    @property
    def wants_input(self) -> bool:
        """Return whether the client should be read from; QoS 0 and 3.1.1 know no other limit."""
        return (
            self._unanswered < UNANSWERED_MAX
            and self._unanswered_bytes < UNANSWERED_BYTES
            and len(self._subscribing) < SUBSCRIBING_MAX
        )

    @property
    def has_will(self) -> bool:
        """Return whether something is still to be published for the client."""
        return self._will is not None

    @property
    def is_persistent(self) -> bool:
        """Return whether the session outlives its connection."""
        return self.expiry_s > 0

    def restore(self, subscriptions: Mapping[str, tuple[int, int | None]]) -> None:
        """Take over the filters of a session that was kept on disk, with QoS and identifier of each."""
        for text, (qos, identifier) in subscriptions.items():
            group, levels = check_filter(text)
            self._numbers += 1
            interests = self.table.interests(levels)
            self.subscriptions[self._numbers] = SubscribedFilter(
                text, levels, group, SubscribeOptions(qos), identifier, interests, True, qos
            )

    # -------------------------------------------------------- one input

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on."""
        effects: list[Effect] = []
        try:
            match happened:
                case ReceivedBytes(data):
                    self._heard_at = now
                    self._receive(data, now, effects)
                case Messages():
                    self._deliver(happened, effects)
                case BrokerAnswered(answers):
                    for handle, rows, problem in answers:
                        self._broker_answered(handle, rows, problem, now, effects)
                case SubscriptionAnswered():
                    self._subscription_answered(happened, effects)
                case SubscriptionEnded(number, problem):
                    if self.subscriptions.pop(number, None) is not None:
                        self._end_connection(_reason_of(problem), problem, now, effects)
                case Attached():
                    self._attach(happened, now, effects)
                case Lost(reason, problem):
                    self._end_connection(reason, problem, now, effects)
                case ClockTick():
                    self._asked_at = None
                    self._tick(now, effects)
                case _:
                    assert_never(happened)
        except MqttViolation as problem:
            self._end_connection(problem.reason, problem, now, effects)
        self._flush(effects)
        self._ask_for_time(now, effects)
        return effects

    def _send(self, packet: Packet) -> None:
        self._out += encode(packet, self._version)

    def _flush(self, effects: list[Effect]) -> None:
        """Put what was written in front of a close, and behind everything else."""
        if not self._out:
            return
        written, self._out = bytes(self._out), bytearray()
        closing = [n for n, one in enumerate(effects) if type(one) is CloseConnection] if effects else ()
        effects.insert(closing[0] if closing else len(effects), Write(written))

    # -------------------------------------------------------- a connection begins and ends

    def _attach(self, attached: Attached, now: Instant, effects: list[Effect]) -> None:
        connect, limits = attached.connect, self._limits
        self._version = connect.version
        is_5 = connect.version == V5
        self._splitter = PacketSplitter(limits.packet_bytes)
        self._aliases.clear()
        self._subscribing.clear()
        self._answers.clear()
        self._unanswered = self._unanswered_bytes = self._unacknowledged = 0
        self._will, self._will_at, self.ends_at = connect.will, None, None
        self._keep_alive_s, self._heard_at = connect.keep_alive_s * 1.5, now
        asked = int(connect.properties.get(Property.SESSION_EXPIRY, 0))  # type: ignore[arg-type]  # a number
        if not is_5:
            asked = 0 if connect.clean_start else _FOR_EVER
        self.expiry_s = min(asked, limits.session_expiry_s)
        receive = int(connect.properties.get(Property.RECEIVE_MAXIMUM, PACKET_IDS))  # type: ignore[arg-type]
        self._in_flight_most = min(receive, limits.in_flight)
        self._packet_most = int(connect.properties.get(Property.MAXIMUM_PACKET_SIZE, 0))  # type: ignore[arg-type]
        is_present = bool(self.subscriptions or self._in_flight.messages or self._received)
        self.is_connected = True
        properties: dict[int, int | str] = {}
        if is_5:
            properties = {
                Property.RECEIVE_MAXIMUM: limits.receive_maximum,
                Property.MAXIMUM_PACKET_SIZE: limits.packet_bytes,
                Property.TOPIC_ALIAS_MAXIMUM: limits.topic_aliases,
                Property.SESSION_EXPIRY: self.expiry_s,
            }
            if attached.assigned_id is not None:
                properties[Property.ASSIGNED_CLIENT_ID] = attached.assigned_id
        self._send(ConnAck(is_present, ReasonCode.SUCCESS, properties))
        # What the broker had not answered for will be sent again by the client, under the same identifiers.
        self._received = {one: done for one, done in self._received.items() if done}
        for packet in self._in_flight.again():
            self._send(packet)
        effects.extend(
            OpenSubscription(number, one, wants_state=False) for number, one in self.subscriptions.items()
        )

    def _end_connection(
        self,
        reason: ReasonCode | None,
        problem: MaiaError | None,
        now: Instant,
        effects: list[Effect],
        *,
        keeps_will: bool = True,
    ) -> None:
        if not self.is_connected:
            return
        if reason is not None and self._version == V5:
            self._send(Disconnect(reason, NO_PROPERTIES if problem is None else explained(problem)))
        self.is_connected = False
        self._subscribing.clear()
        if self._will is not None and keeps_will:
            delay_s = int(self._will.properties.get(Property.WILL_DELAY, 0))  # type: ignore[arg-type]
            self._will_at = seconds_after(now, min(delay_s, self.expiry_s))
        else:
            self._will = None
        effects.append(CloseConnection(problem))
        if self.expiry_s != _FOR_EVER:
            self.ends_at = seconds_after(now, self.expiry_s)
        self._tick(now, effects)

    def _tick(self, now: Instant, effects: list[Effect]) -> None:
        if self.is_connected:
            if self._keep_alive_s and now >= self._silent_at():
                problem = Unavailable(
                    "UNAVAILABLE-GATEWAY-SILENT", "the client was silent for longer than its keep-alive time"
                )
                self._end_connection(ReasonCode.KEEP_ALIVE_TIMEOUT, problem, now, effects)
            return
        if self._will is not None and self._will_at is not None and now >= self._will_at:
            will, self._will, self._will_at = self._will, None, None
            self._publish_will(will, effects)
        if self.ends_at is not None and now >= self.ends_at:
            self._in_flight.drop(effects)
            self._received.clear()
            self.ends_at = None
            effects.append(SessionOver())

    def _publish_will(self, will: Will, effects: list[Effect]) -> None:
        """Publish it as the client would: the broker checks the right that its principal has now (A38)."""
        said = will.properties.get(Property.CONTENT_TYPE)
        try:
            row, columns = self.table.columns_of(
                will.topic, [will.payload], said if isinstance(said, str) else None
            )
        except BadInput:
            return  # a client learns of a mistake in its will from no packet
        if will.retain:
            self._note_retained(row)
        effects.append(ToBroker(0, row, columns, 1))

    def _silent_at(self) -> Instant:
        assert self._heard_at is not None  # noqa: S101 - set when the connection began
        return seconds_after(self._heard_at, self._keep_alive_s)

    def _ask_for_time(self, now: Instant, effects: list[Effect]) -> None:
        if self.is_connected:
            wanted = self._silent_at() if self._keep_alive_s else None
        else:
            moments = [one for one in (self._will_at, self.ends_at) if one is not None]
            wanted = min(moments, default=None)
        if wanted is None or (self._asked_at is not None and now < self._asked_at <= wanted):
            return
        self._asked_at = wanted
        effects.append(WakeSessionAt(wanted))

    # -------------------------------------------------------- packets of the client

    def _receive(self, data: bytes | memoryview, now: Instant, effects: list[Effect]) -> None:
        """Take packets on, one after the other; messages that begin alike together."""
        alike, run, size = (-1, b""), list[bytes](), 0
        try:
            for first, body in self._splitter.feed(data):
                if run:
                    size += len(body)
                    is_full = len(run) == _RUN_MAX or size > _RUN_BYTES
                    if first == alike[0] and not is_full and body.startswith(alike[1]):
                        run.append(body)
                        continue
                    self._publish_run(alike[0], run, now, effects)
                    run = []
                if not self.is_connected:
                    break
                if first in _ALIKE:
                    topic_ends = 2 + int.from_bytes(body[:2], "big")
                    alike, run, size = (first, body[:topic_ends]), [body], len(body)
                elif first != _PUBACK or not self._in_flight.end(body, effects):
                    self._packet(decode(first, body, self._version), now, effects)
        finally:
            if run:
                self._publish_run(alike[0], run, now, effects)

    def _packet(self, packet: Packet, now: Instant, effects: list[Effect]) -> None:
        match packet:
            case PublishPacket():
                self._publish(packet, now, effects)
            case Ack():
                self._acknowledged(packet, effects)
            case SubscribePacket():
                self._subscribe(packet, effects)
            case Unsubscribe(packet_id, filters):
                self._unsubscribe(packet_id, filters, effects)
            case PingReq():
                self._send(PingResp())
            case Disconnect(reason, properties):
                self._disconnected(reason, properties, now, effects)
            case _:
                raise MqttViolation("a client sends its CONNECT once", ReasonCode.PROTOCOL_ERROR)

    def _disconnected(self, reason: int, properties: Properties, now: Instant, effects: list[Effect]) -> None:
        asked = properties.get(Property.SESSION_EXPIRY)
        if isinstance(asked, int):
            if asked and not self.expiry_s:
                raise MqttViolation(
                    "a session that was to end with its connection", ReasonCode.PROTOCOL_ERROR
                )
            self.expiry_s = min(asked, self._limits.session_expiry_s)
        self._end_connection(None, None, now, effects, keeps_will=reason != ReasonCode.SUCCESS)

    # -------------------------------------------------------- messages of the client

    def _publish_run(self, first: int, run: list[bytes], now: Instant, effects: list[Effect]) -> None:
        """Take messages of one topic and QoS on; together if none of them needs an answer of its own."""
        if not self.is_connected:
            return
        begins = 2 + int.from_bytes(run[0][:2], "big") + (2 if first & 2 else 0)
        is_5 = self._version == V5
        has_room = not (is_5 and first & 2) or self._unacknowledged + len(run) <= self._limits.receive_maximum
        is_whole = has_room and len(min(run, key=len)) > begins
        if is_whole and (topic := read_topic(run[0][2 : begins - (first & 2)])):
            packet_ids = (
                [int.from_bytes(body[begins - 2 : begins], "big") for body in run] if first & 2 else []
            )
            if all(packet_ids) and not (is_5 and any(body[begins] for body in run)):
                try:
                    row, columns = self.table.columns_of(topic, [body[begins + is_5 :] for body in run], None)
                except BadInput:
                    pass  # one by one, then
                else:
                    waiting = _Unanswered(first >> 1 & 1, len(run), packet_ids, sum(map(len, run)))
                    self._to_broker(row, columns, waiting, retain=bool(first & 1), effects=effects)
                    return
        for body in run:
            if self.is_connected:
                self._packet(decode(first, body, self._version), now, effects)

    def _to_broker(
        self, row: int, columns: Columns, waiting: _Unanswered, *, retain: bool, effects: list[Effect]
    ) -> None:
        if retain:
            self._note_retained(row)
        self._handles += 1
        self._unanswered += waiting.rows
        self._unanswered_bytes += waiting.size
        self._unacknowledged += len(waiting.packet_ids)
        self._answers[self._handles] = waiting
        effects.append(ToBroker(self._handles, row, columns, waiting.rows, waiting.is_one))

    def _publish(self, packet: PublishPacket, now: Instant, effects: list[Effect]) -> None:
        topic = self._named(packet)
        packet_id, qos = packet.packet_id, packet.qos
        if qos:
            assert packet_id is not None  # noqa: S101 - the codec has seen to it
            if qos == 2 and packet_id in self._received:
                if self._received[packet_id]:
                    self._send(Ack(Type.PUBREC, packet_id))
                return  # the same message again, and not another one
            is_5 = self._version == V5
            most = self._limits.receive_maximum if is_5 else UNANSWERED_MAX
            unreleased = sum(self._received.values()) if qos == 2 else 0
            if unreleased >= most or (is_5 and self._unacknowledged >= most):
                problem = f"more than {most} messages wait for an answer, or to be released"
                raise MqttViolation(problem, ReasonCode.RECEIVE_MAXIMUM_EXCEEDED)
        said = packet.properties.get(Property.CONTENT_TYPE)
        content_type = said if isinstance(said, str) else None
        try:
            row, columns, rows = self.table.on_topics(
                (topic, *_further_topics(packet.properties)), packet.payload, content_type
            )
        except BadInput as problem:
            self._refuse(qos, packet_id, problem, now, effects)
            return
        if qos == 2 and packet_id is not None:
            self._received[packet_id] = False
        packet_ids = [] if packet_id is None else [packet_id]
        waiting = _Unanswered(qos, rows, packet_ids, len(packet.payload), is_one=rows > 1)
        self._to_broker(row, columns, waiting, retain=packet.retain, effects=effects)

    def _named(self, packet: PublishPacket) -> str:
        alias = packet.properties.get(Property.TOPIC_ALIAS)
        if not isinstance(alias, int):
            if not packet.topic:
                raise MqttViolation("a message has neither topic nor alias", ReasonCode.PROTOCOL_ERROR)
            return packet.topic
        if alias > self._limits.topic_aliases:
            raise MqttViolation("a topic alias is larger than allowed", ReasonCode.BAD_TOPIC_ALIAS)
        if packet.topic:
            self._aliases.pop(alias, None)
            if len(packet.topic) <= TOPIC_BYTES_MAX:  # a longer one is refused below, and not remembered
                self._aliases[alias] = packet.topic
            return packet.topic
        if alias not in self._aliases:
            raise MqttViolation("a topic alias has no topic", ReasonCode.PROTOCOL_ERROR)
        return self._aliases[alias]

    def _note_retained(self, row: int) -> None:
        if self.table.rows[row].is_retained:
            self.has_published_retained = True

    def _broker_answered(
        self, handle: int, rows: int, problem: MaiaError | None, now: Instant, effects: list[Effect]
    ) -> None:
        waiting = self._answers.get(handle)
        if waiting is None:
            return  # a will, or of an earlier connection
        waiting.rows -= rows
        self._unanswered -= rows
        if waiting.rows == 0:
            del self._answers[handle]
            self._unanswered_bytes -= waiting.size
        if waiting.is_one:  # the client hears once: when all is answered, or of the first problem
            rows = len(waiting.packet_ids) if waiting.rows == 0 or problem is not None else 0
        packet_ids, waiting.packet_ids = waiting.packet_ids[:rows], waiting.packet_ids[rows:]
        self._unacknowledged -= len(packet_ids)
        if problem is not None:
            for packet_id in packet_ids:
                self._refuse(waiting.qos, packet_id, problem, now, effects)
            return
        if waiting.qos == 2:
            self._received |= dict.fromkeys(packet_ids, True)
        if packet_ids and self.is_connected:
            kind = b"\x40\x02" if waiting.qos == 1 else b"\x50\x02"
            self._out += b"".join([kind + one.to_bytes(2, "big") for one in packet_ids])

    def _refuse(
        self, qos: int, packet_id: int | None, problem: MaiaError, now: Instant, effects: list[Effect]
    ) -> None:
        """Answer for a message that was not published: 3.1.1 cannot say so, and its connection ends."""
        if packet_id is None:
            return  # at most once: the client asked for no answer
        self._received.pop(packet_id, None)
        if not self.is_connected:
            return
        if self._version != V5:
            self._end_connection(None, problem, now, effects)
            return
        kind = Type.PUBACK if qos == 1 else Type.PUBREC
        self._send(Ack(kind, packet_id, _reason_of(problem), explained(problem)))

    # -------------------------------------------------------- messages to the client

    def _deliver(self, given: Messages, effects: list[Effect]) -> None:
        subscribed, token, count = self.subscriptions.get(given.number), given.token, len(given.messages)
        if subscribed is None or (subscribed.options.no_local and given.is_own):
            effects.append(Acknowledge(token, count))
            return
        qos = subscribed.granted
        if not self.is_connected:
            if qos == 0 or not subscribed.is_durable:
                effects.append(Acknowledge(token, count))
            return  # a durable one comes again
        first, done, packet_id = 0x30 | qos << 1 | given.is_retained, 0, None
        heads: dict[tuple[str, str | None], tuple[Properties, tuple[bytes, bytes]]] = {}
        for topic, payload, content_type in given.messages:
            known = heads.get((topic, content_type))
            if known is None:
                is_5 = self._version == V5
                said = self._properties_for(content_type, subscribed.identifier) if is_5 else NO_PROPERTIES
                known = heads[topic, content_type] = (said, message_head(topic, said if is_5 else None))
            if qos:
                packet_id = self._in_flight.free_id()
            written = encode_message(first, known[1], packet_id, payload)
            if self._packet_most and len(written) > self._packet_most:
                done += 1  # as if it had been sent (MQTT 5.0, 3.1.2.11.4)
                continue
            self._out += written
            if packet_id is None:
                done += 1
            else:
                publish = PublishPacket(topic, payload, qos, given.is_retained, False, packet_id, known[0])
                self._in_flight.put(packet_id, publish, token)
        if done and token is not None:
            effects.append(Acknowledge(token, done))

    @staticmethod
    def _properties_for(content_type: str | None, identifier: int | None) -> Properties:
        properties: dict[int, str | tuple[int, ...]] = {}
        if content_type is not None:
            properties[Property.CONTENT_TYPE] = content_type
        if identifier is not None:
            properties[Property.SUBSCRIPTION_ID] = (identifier,)
        return properties

    def _acknowledged(self, packet: Ack, effects: list[Effect]) -> None:
        if packet.type is Type.PUBREL:
            known = self._received.pop(packet.packet_id, None)
            missing = ReasonCode.PACKET_ID_NOT_FOUND if known is None else ReasonCode.SUCCESS
            self._send(Ack(Type.PUBCOMP, packet.packet_id, missing))
        elif (answer := self._in_flight.acknowledge(packet, effects)) is not None:
            self._send(answer)

    # -------------------------------------------------------- subscriptions

    def _subscribe(self, packet: SubscribePacket, effects: list[Effect]) -> None:
        identifier = packet.properties.get(Property.SUBSCRIPTION_ID)
        number_id = identifier if isinstance(identifier, int) else None
        asking = _Subscribing(packet.packet_id, [None] * len(packet.filters), {})
        for at, (text, options) in enumerate(packet.filters):
            try:
                self._subscribe_one(at, text, options, number_id, asking, effects)
            except BadTopic as problem:
                asking.reasons[at] = ReasonCode.BAD_TOPIC_FILTER
                asking.problems.append(problem)
            except NotDeclared as problem:
                asking.reasons[at] = ReasonCode.NOT_AUTHORIZED
                asking.problems.append(problem)
        if asking.waiting:
            self._subscribing.append(asking)
        else:
            self._answer(asking)

    def _subscribe_one(
        self,
        at: int,
        text: str,
        options: SubscribeOptions,
        identifier: int | None,
        asking: _Subscribing,
        effects: list[Effect],
    ) -> None:
        group, levels = check_filter(text)
        if group is not None and options.no_local:
            raise MqttViolation(
                "a shared subscription cannot leave out own messages", ReasonCode.PROTOCOL_ERROR
            )
        known = next(((n, one) for n, one in self.subscriptions.items() if one.filter == text), None)
        if known is not None:
            number, subscribed = known
            subscribed.options, subscribed.identifier = options, identifier
            subscribed.granted = self._granted(options.qos, subscribed.interests)
            asking.reasons[at] = subscribed.granted
            if options.retain_handling == 0 and group is None:
                effects.append(QueryState(number))
            return
        if len(self.subscriptions) >= self._limits.subscriptions:
            asking.reasons[at] = ReasonCode.QUOTA_EXCEEDED
            return
        interests = self.table.interests(levels)
        if not interests:
            raise NotDeclared("no topic that is declared here matches this filter")
        granted = self._granted(options.qos, interests)
        is_durable = granted > 0 and self.is_persistent
        self._numbers += 1
        subscribed = SubscribedFilter(
            text, levels, group, options, identifier, interests, is_durable, granted
        )
        self.subscriptions[self._numbers] = subscribed
        asking.waiting[self._numbers] = at
        wants_state = options.retain_handling < 2 and group is None
        effects.append(OpenSubscription(self._numbers, subscribed, wants_state))

    def _granted(self, qos: int, interests: tuple[TopicInterest, ...]) -> int:
        """Return the QoS that can be kept: a lasting session needs topics that the broker records."""
        is_kept = all(self.table.rows[one.row].is_durable for one in interests)
        return qos if is_kept or not self.is_persistent else 0

    def _subscription_answered(self, answered: SubscriptionAnswered, effects: list[Effect]) -> None:
        number, subscribed = answered.number, self.subscriptions.get(answered.number)
        problems = [one for one in answered.problems if one is not None]
        is_refused = len(problems) == len(answered.problems)
        if is_refused:
            self.subscriptions.pop(number, None)
        asking = next((one for one in self._subscribing if number in one.waiting), None)
        if asking is None:
            if is_refused and subscribed is not None and problems:
                # A session that was resumed has lost the right to this one: a SUBACK will not say so.
                effects.append(CloseSubscription(number))
            return
        asking.problems += problems
        at = asking.waiting.pop(number)
        if is_refused:
            asking.reasons[at] = _reason_of(problems[0]) if problems else ReasonCode.UNSPECIFIED
        else:
            asking.reasons[at] = 0 if subscribed is None else subscribed.granted
        if not asking.waiting:
            self._subscribing.remove(asking)
            self._answer(asking)

    def _answer(self, asking: _Subscribing) -> None:
        reasons = [ReasonCode.UNSPECIFIED if one is None else one for one in asking.reasons]
        properties: Properties = NO_PROPERTIES
        if self._version != V5:
            reasons = [one if one < 0x80 else ReasonCode.UNSPECIFIED for one in reasons]
        elif asking.problems:
            codes = tuple(("maia-code", one.code) for one in asking.problems[:16])
            said = asking.problems[0].message[:512]
            properties = {Property.REASON_STRING: said, Property.USER_PROPERTY: codes}
        self._send(SubAck(asking.packet_id, tuple(reasons), properties))

    def _unsubscribe(self, packet_id: int, filters: tuple[str, ...], effects: list[Effect]) -> None:
        reasons: list[int] = []
        for text in filters:
            known = next((n for n, one in self.subscriptions.items() if one.filter == text), None)
            if known is None:
                reasons.append(ReasonCode.NO_SUBSCRIPTION)
                continue
            del self.subscriptions[known]
            effects.append(CloseSubscription(known))
            reasons.append(ReasonCode.SUCCESS)
        self._send(UnsubAck(packet_id, tuple(reasons)))


def refused_connection(version: int, reason: ReasonCode, problem: MaiaError | None) -> bytes:
    """Return the CONNACK that says no."""
    if version != V5:
        return encode(ConnAck(False, _CLOSING_3.get(reason, 5)), version)
    return encode(ConnAck(False, reason, NO_PROPERTIES if problem is None else explained(problem)), version)


def _reason_of(problem: MaiaError) -> ReasonCode:
    """Return which of MQTT's reasons comes closest to a refusal of ours."""
    match problem:
        case NotDeclared() | BadTopic():
            return ReasonCode.BAD_TOPIC_NAME
        case BadInput():
            return ReasonCode.PAYLOAD_FORMAT
        case Unavailable():
            return ReasonCode.QUOTA_EXCEEDED if "QUOTA" in problem.code else ReasonCode.IMPLEMENTATION
        case _:
            return ReasonCode.NOT_AUTHORIZED


def _further_topics(properties: Properties) -> tuple[str, ...]:
    """Return the other topics of one publication: user properties called `topic`."""
    said = properties.get(Property.USER_PROPERTY, ())
    if not isinstance(said, tuple):
        return ()
    return tuple(pair[1] for pair in said if isinstance(pair, tuple) and pair[0] == "topic")
