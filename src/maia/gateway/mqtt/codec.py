"""Which packet do these bytes hold, and how is a packet written?

The server's half of MQTT 5.0 and 3.1.1: packets of clients are read, packets
of the server written. A packet has exactly one reading; a length that lies, a
flag that is reserved, a text that is not UTF-8 or holds a NUL, a property that
does not belong or comes twice is refused (`MqttViolation`) with MQTT's own
reason. Nothing is kept of a packet that is longer than the limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from maia.gateway.mqtt.packets import (
    NO_PROPERTIES,
    V3,
    V5,
    Ack,
    ConnAck,
    ConnectPacket,
    Disconnect,
    MqttViolation,
    Packet,
    PingReq,
    PingResp,
    Properties,
    Property,
    PropertyValue,
    PublishPacket,
    ReasonCode,
    SubAck,
    SubscribeOptions,
    SubscribePacket,
    Type,
    UnsubAck,
    Unsubscribe,
    Will,
)

_TOPIC_REMEMBERED_BYTES: Final = 256
_FILTERS_MAX: Final = 64
"""Filters of one SUBSCRIBE or UNSUBSCRIBE."""
_USER_PROPERTIES_MAX: Final = 32

_BYTE, _TWO, _FOUR, _VARINT, _TEXT, _BINARY, _PAIR = range(7)
_PROPERTIES: Final = {
    Property.PAYLOAD_FORMAT: (_BYTE, "message will"),
    Property.MESSAGE_EXPIRY: (_FOUR, "message will"),
    Property.CONTENT_TYPE: (_TEXT, "message will"),
    Property.RESPONSE_TOPIC: (_TEXT, "message will"),
    Property.CORRELATION_DATA: (_BINARY, "message will"),
    Property.SUBSCRIPTION_ID: (_VARINT, "subscribe"),
    Property.SESSION_EXPIRY: (_FOUR, "connect disconnect"),
    Property.ASSIGNED_CLIENT_ID: (_TEXT, ""),
    Property.AUTHENTICATION_METHOD: (_TEXT, "connect"),
    Property.AUTHENTICATION_DATA: (_BINARY, "connect"),
    Property.REQUEST_PROBLEM_INFORMATION: (_BYTE, "connect"),
    Property.WILL_DELAY: (_FOUR, "will"),
    Property.REQUEST_RESPONSE_INFORMATION: (_BYTE, "connect"),
    Property.REASON_STRING: (_TEXT, "ack disconnect"),
    Property.RECEIVE_MAXIMUM: (_TWO, "connect"),
    Property.TOPIC_ALIAS_MAXIMUM: (_TWO, "connect"),
    Property.TOPIC_ALIAS: (_TWO, "message"),
    Property.USER_PROPERTY: (_PAIR, "connect message will subscribe unsubscribe ack disconnect"),
    Property.MAXIMUM_PACKET_SIZE: (_FOUR, "connect"),
}
"""How each property is written, and in which packets of a client it may be."""
_ALLOWED: Final = {
    where: frozenset({name for name, (_, places) in _PROPERTIES.items() if where in places.split()})
    for where in ("connect", "message", "will", "subscribe", "unsubscribe", "ack", "disconnect")
}
_NOT_ZERO: Final = frozenset(
    {Property.RECEIVE_MAXIMUM, Property.MAXIMUM_PACKET_SIZE, Property.SUBSCRIPTION_ID, Property.TOPIC_ALIAS}
)
_PACKET_NAMES: Final = ((V3, b"MQTT"), (V5, b"MQTT"))


# ------------------------------------------------------------ bytes into packets


class PacketSplitter:
    """Cuts what arrives into packets, none longer than a limit."""

    __slots__ = ("_buffer", "_most")

    def __init__(self, most: int) -> None:
        """Hold nothing yet; `most` is the longest packet, its first bytes included."""
        self._buffer = bytearray()
        self._most = most

    def take_rest(self) -> bytes:
        """Return what has arrived and was not cut off, and hold it no more."""
        rest, self._buffer = bytes(self._buffer), bytearray()
        return rest

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[int, bytes]]:
        """Yield the first byte and the body of each packet that is complete."""
        buffer = self._buffer
        waits = bool(buffer)
        if waits:
            buffer += data
        whole: bytes | bytearray = buffer if waits else bytes(data)
        start, size = 0, len(whole)
        try:
            while start < size:
                length, at, shift = 0, start + 1, 0
                while True:
                    if at >= size:
                        return
                    byte = whole[at]
                    length |= (byte & 0x7F) << shift
                    at, shift = at + 1, shift + 7
                    if byte < 0x80:
                        break
                    if shift > 21:
                        raise MqttViolation("the length of a packet has more than four bytes")
                if byte == 0 and shift > 7:
                    raise MqttViolation("the length of a packet is not written in its shortest form")
                if at - start + length > self._most:
                    problem = f"a packet of {length} bytes is longer than the {self._most} that are read"
                    raise MqttViolation(problem, ReasonCode.PACKET_TOO_LARGE)
                if at + length > size:
                    return
                first, body = whole[start], bytes(whole[at : at + length])
                start = at + length
                yield first, body
        finally:
            if waits:
                del buffer[:start]
            else:
                buffer += whole[start:]


def _text(data: bytes) -> str:
    try:
        found = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise MqttViolation("a text is not UTF-8") from problem
    if "\x00" in found:
        raise MqttViolation("a text holds a NUL")
    return found


# A client publishes on few topics, again and again, and so do many at once.
_topic = lru_cache(maxsize=256)(_text)


def read_topic(data: bytes) -> str:
    """Return the topic that these bytes are."""
    return _topic(data) if len(data) <= _TOPIC_REMEMBERED_BYTES else _text(data)


class _PacketReader:
    """The fields of one packet, in order; reading beyond its end is refused."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def is_done(self) -> bool:
        return self.at >= len(self.data)

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.data):
            raise MqttViolation("a packet ends in the middle of a field")
        found, self.at = self.data[self.at : end], end
        return found

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise MqttViolation("a number is not written in its shortest form")
                return value
            shift += 7
            if shift > 21:
                raise MqttViolation("a number has more than four bytes")

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        return _text(self.binary())

    def packet_id(self) -> int:
        found = self.number(2)
        if found == 0:
            raise MqttViolation("a packet identifier is zero")
        return found

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    def properties(self, where: str) -> Properties:  # noqa: PLR0912 - one a form
        length = self.varint()
        if length == 0:
            return NO_PROPERTIES
        inside = _PacketReader(self.take(length))
        found: dict[int, PropertyValue] = {}
        pairs: list[tuple[str, str]] = []
        while not inside.is_done():
            name = inside.varint()
            if name not in _ALLOWED[where]:
                raise MqttViolation(f"the property 0x{name:02x} does not belong in this packet")
            form = _PROPERTIES[Property(name)][0]
            if form == _PAIR:
                pairs.append((inside.text(), inside.text()))
                if len(pairs) > _USER_PROPERTIES_MAX:
                    problem = f"a packet has more than {_USER_PROPERTIES_MAX} user properties"
                    raise MqttViolation(problem, ReasonCode.PACKET_TOO_LARGE)
                continue
            if name in found:
                raise MqttViolation(f"the property 0x{name:02x} comes twice", ReasonCode.PROTOCOL_ERROR)
            value: int | str | bytes
            if form == _TEXT:
                value = inside.text()
            elif form == _BINARY:
                value = inside.binary()
            elif form == _VARINT:
                value = inside.varint()
            else:
                value = inside.number({_BYTE: 1, _TWO: 2, _FOUR: 4}[form])
                if form == _BYTE and value > 1:
                    raise MqttViolation(
                        f"the property 0x{name:02x} is neither 0 nor 1", ReasonCode.PROTOCOL_ERROR
                    )
            if value == 0 and name in _NOT_ZERO:
                reason = (
                    ReasonCode.BAD_TOPIC_ALIAS if name == Property.TOPIC_ALIAS else ReasonCode.PROTOCOL_ERROR
                )
                raise MqttViolation(f"the property 0x{name:02x} is zero", reason)
            found[name] = value
        if pairs:
            found[Property.USER_PROPERTY] = tuple(pairs)
        return found


def decode(first: int, body: bytes, version: int) -> Packet:
    """Return the packet that a client sent; `version` is what its CONNECT said (0 before)."""
    kind, flags = first >> 4, first & 0x0F
    if kind == Type.PUBLISH:
        return _publish(flags, body, version)
    wanted = 0b0010 if kind in (Type.PUBREL, Type.SUBSCRIBE, Type.UNSUBSCRIBE) else 0
    if flags != wanted:
        raise MqttViolation("a reserved flag of a packet has another value than it must have")
    reader = _PacketReader(body)
    packet: Packet
    match kind:
        case Type.PUBACK | Type.PUBREC | Type.PUBREL | Type.PUBCOMP:
            packet = _ack(Type(kind), reader, version)
        case Type.CONNECT:
            packet = _connect(reader)
        case Type.SUBSCRIBE:
            packet = _subscribe(reader, version)
        case Type.UNSUBSCRIBE:
            packet = _unsubscribe(reader, version)
        case Type.PINGREQ:
            packet = PingReq()
        case Type.DISCONNECT:
            packet = _disconnect(reader, version)
        case Type.AUTH if version == V5:
            problem = "extended authentication is not offered"
            raise MqttViolation(problem, ReasonCode.BAD_AUTHENTICATION_METHOD)
        case _:
            raise MqttViolation(f"a client sends no packet of type {kind}", ReasonCode.PROTOCOL_ERROR)
    if not reader.is_done():
        raise MqttViolation("a packet is longer than its fields")
    return packet


def _publish(flags: int, body: bytes, version: int) -> PublishPacket:
    qos = (flags >> 1) & 3
    if qos == 3 or (qos == 0 and flags & 8):
        raise MqttViolation("a message has a quality of service that does not exist")
    reader = _PacketReader(body)
    topic = read_topic(reader.binary())
    packet_id = reader.packet_id() if qos else None
    properties = reader.properties("message") if version == V5 else NO_PROPERTIES
    return PublishPacket(topic, reader.rest(), qos, bool(flags & 1), bool(flags & 8), packet_id, properties)


def _ack(kind: Type, reader: _PacketReader, version: int) -> Ack:
    packet_id = reader.packet_id()
    if version != V5 or reader.is_done():
        return Ack(kind, packet_id)
    reason = reader.number(1)
    return Ack(kind, packet_id, reason, NO_PROPERTIES if reader.is_done() else reader.properties("ack"))


def _connect(reader: _PacketReader) -> ConnectPacket:
    name, version = reader.binary(), reader.number(1)
    if (version, name) not in _PACKET_NAMES:
        problem = "the client speaks neither MQTT 5.0 nor MQTT 3.1.1"
        raise MqttViolation(problem, ReasonCode.UNSUPPORTED_VERSION)
    flags, keep_alive_s = reader.number(1), reader.number(2)
    will_qos, has_will = (flags >> 3) & 3, bool(flags & 4)
    if flags & 1 or will_qos == 3 or (not has_will and flags & 0b0011_1000):
        raise MqttViolation("the flags of a CONNECT do not fit together")
    if version == V3 and flags & 0x40 and not flags & 0x80:
        raise MqttViolation("a CONNECT has a password without a user name")
    properties = reader.properties("connect") if version == V5 else NO_PROPERTIES
    client_id, will = reader.text(), None
    if has_will:
        said = reader.properties("will") if version == V5 else NO_PROPERTIES
        will = Will(reader.text(), reader.binary(), will_qos, bool(flags & 0x20), said)
    user_name = reader.text() if flags & 0x80 else None
    password = reader.binary() if flags & 0x40 else None
    return ConnectPacket(
        version, client_id, bool(flags & 2), keep_alive_s, user_name, password, will, properties
    )


def _subscribe(reader: _PacketReader, version: int) -> SubscribePacket:
    packet_id = reader.packet_id()
    properties = reader.properties("subscribe") if version == V5 else NO_PROPERTIES
    filters: list[tuple[str, SubscribeOptions]] = []
    while not reader.is_done():
        text, options = reader.text(), reader.number(1)
        reserved = 0b1100_0000 if version == V5 else 0b1111_1100
        if options & reserved or options & 3 == 3 or (options >> 4) & 3 == 3:
            raise MqttViolation("the options of a subscription have a reserved value")
        filters.append(
            (text, SubscribeOptions(options & 3, bool(options & 4), bool(options & 8), (options >> 4) & 3))
        )
        _check_number(len(filters))
    if not filters:
        raise MqttViolation("a SUBSCRIBE has no filter", ReasonCode.PROTOCOL_ERROR)
    return SubscribePacket(packet_id, tuple(filters), properties)


def _unsubscribe(reader: _PacketReader, version: int) -> Unsubscribe:
    packet_id = reader.packet_id()
    if version == V5:
        reader.properties("unsubscribe")
    filters: list[str] = []
    while not reader.is_done():
        filters.append(reader.text())
        _check_number(len(filters))
    if not filters:
        raise MqttViolation("an UNSUBSCRIBE has no filter", ReasonCode.PROTOCOL_ERROR)
    return Unsubscribe(packet_id, tuple(filters))


def _check_number(filters: int) -> None:
    if filters > _FILTERS_MAX:
        raise MqttViolation(f"a packet has more than {_FILTERS_MAX} filters", ReasonCode.PACKET_TOO_LARGE)


def _disconnect(reader: _PacketReader, version: int) -> Disconnect:
    if version != V5 or reader.is_done():
        return Disconnect()
    reason = reader.number(1)
    return Disconnect(reason, NO_PROPERTIES if reader.is_done() else reader.properties("disconnect"))


# ------------------------------------------------------------ packets into bytes


def encode(packet: Packet, version: int) -> bytes:
    """Return a packet of the server as it travels to a client of this version."""
    is_5 = version == V5
    match packet:
        case PublishPacket():
            return encode_publish(packet, is_5=is_5)
        case Ack(kind, packet_id, reason, properties):
            first = kind << 4 | (2 if kind is Type.PUBREL else 0)
            number = packet_id.to_bytes(2, "big")
            if not is_5 or (reason == 0 and not properties):
                return b"%c\x02%b" % (first, number)
            body = b"%b%c%b" % (number, reason, _properties(properties))
            return b"%c%b%b" % (first, _varint(len(body)), body)
        case ConnAck(session_present, reason, properties):
            body = b"%c%c%b" % (session_present, reason, _properties(properties) if is_5 else b"")
            return b"\x20%b%b" % (_varint(len(body)), body)
        case SubAck(packet_id, reasons, properties):
            said = _properties(properties) if is_5 else b""
            body = packet_id.to_bytes(2, "big") + said + bytes(reasons)
            return b"\x90%b%b" % (_varint(len(body)), body)
        case UnsubAck(packet_id, reasons):
            body = packet_id.to_bytes(2, "big") + (b"\x00" + bytes(reasons) if is_5 else b"")
            return b"\xb0%b%b" % (_varint(len(body)), body)
        case PingResp():
            return b"\xd0\x00"
        case Disconnect(reason, properties) if is_5:
            body = b"%c%b" % (reason, _properties(properties))
            return b"\xe0%b%b" % (_varint(len(body)), body)
        case _:
            raise MqttViolation("a server sends no such packet", ReasonCode.PROTOCOL_ERROR)


def encode_publish(packet: PublishPacket, *, is_5: bool) -> bytes:
    """Return a message as it travels to a client."""
    first = 0x30 | (8 if packet.duplicate else 0) | packet.qos << 1 | packet.retain
    properties = packet.properties if is_5 else None
    return encode_message(first, message_head(packet.topic, properties), packet.packet_id, packet.payload)


def message_head(topic: str, properties: Properties | None) -> tuple[bytes, bytes]:
    """Return what stands before and behind the packet identifier of a message; 3.1.1 has no properties."""
    name = _written_topic(topic) if len(topic) <= _TOPIC_REMEMBERED_BYTES else _short(topic.encode())
    return name, b"" if properties is None else _properties(properties)


def encode_message(first: int, head: tuple[bytes, bytes], packet_id: int | None, payload: bytes) -> bytes:
    """Return a message by its parts; most of what is sent is one."""
    name, properties = head
    number = b"" if packet_id is None else packet_id.to_bytes(2, "big")
    size = len(name) + len(number) + len(properties) + len(payload)
    return b"%c%b%b%b%b%b" % (first, _varint(size), name, number, properties, payload)


@lru_cache(maxsize=256)
def _written_topic(topic: str) -> bytes:
    return _short(topic.encode())


@lru_cache(maxsize=1024)
def _varint(number: int) -> bytes:
    if number < 0x80:
        return b"%c" % number
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _properties(properties: Properties) -> bytes:
    if not properties:
        return b"\x00"
    written = bytearray()
    for name, value in properties.items():
        form = _PROPERTIES[Property(name)][0]
        several = value if isinstance(value, tuple) else (value,)
        for one in several:
            written.append(name)
            match one:
                case (key, text):
                    written += _short(key.encode()) + _short(text.encode())
                case str():
                    written += _short(one.encode())
                case bytes():
                    written += _short(one)
                case int():
                    written += (
                        _varint(one)
                        if form == _VARINT
                        else one.to_bytes({_BYTE: 1, _TWO: 2, _FOUR: 4}[form], "big")
                    )
    return _varint(len(written)) + bytes(written)


def _short(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data
