"""Which packets does MQTT have, and what are their fields called?

The names are those of the OASIS standards (MQTT 5.0, MQTT 3.1.1). A packet of
version 3.1.1 has no properties and no reasons; here it has none or the plain ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from maia.errors import MaiaError, ProtocolViolation

V3: Final = 4
"""The protocol level of MQTT 3.1.1."""
V5: Final = 5


class Type(IntEnum):
    """The kinds of packets, as in the first four bits of each."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


class ReasonCode(IntEnum):
    """The reason codes of MQTT 5.0 that this gateway sends or understands."""

    SUCCESS = 0x00
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION = 0x83
    UNSUPPORTED_VERSION = 0x84
    BAD_CLIENT_ID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    BAD_TOPIC_FILTER = 0x8F
    BAD_TOPIC_NAME = 0x90
    PACKET_ID_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    BAD_TOPIC_ALIAS = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    PAYLOAD_FORMAT = 0x99


class Property(IntEnum):
    """The properties of MQTT 5.0 that a client may send, or this gateway sends."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27


PropertyValue: TypeAlias = int | str | bytes | tuple[tuple[str, str], ...] | tuple[int, ...]
Properties: TypeAlias = Mapping[int, PropertyValue]
"""Values by property; user properties are pairs of texts, and subscription identifiers numbers."""
NO_PROPERTIES: Final[Properties] = {}


class MqttViolation(ProtocolViolation):
    """An MQTT client sent what its version of the protocol does not allow; `reason` is MQTT's own code."""

    code = "PROTOCOL-MQTT"

    def __init__(self, message: str, reason: ReasonCode = ReasonCode.MALFORMED) -> None:
        super().__init__(message)
        self.reason = reason


class Will(msgspec.Struct, frozen=True):
    """What is to be published for a client that vanishes."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = NO_PROPERTIES


class ConnectPacket(msgspec.Struct, frozen=True):
    """The first packet of a client."""

    version: int
    client_id: str
    clean_start: bool
    keep_alive_s: int
    user_name: str | None
    password: bytes | None
    will: Will | None
    properties: Properties = NO_PROPERTIES

    def __repr__(self) -> str:
        """Leave the password out."""
        return f"Connect({self.version}, {self.client_id!r}, {self.user_name!r})"


class ConnAck(msgspec.Struct, frozen=True):
    """The answer to the first packet."""

    session_present: bool
    reason: int
    properties: Properties = NO_PROPERTIES


class PublishPacket(msgspec.Struct, frozen=True):
    """A message, in either direction."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    duplicate: bool
    packet_id: int | None
    properties: Properties = NO_PROPERTIES


class Ack(msgspec.Struct, frozen=True):
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""

    type: Type
    packet_id: int
    reason: int = 0
    properties: Properties = NO_PROPERTIES


class SubscribeOptions(msgspec.Struct, frozen=True):
    """How one filter of a SUBSCRIBE is to be served."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class SubscribePacket(msgspec.Struct, frozen=True):
    """A request for messages by filters."""

    packet_id: int
    filters: tuple[tuple[str, SubscribeOptions], ...]
    properties: Properties = NO_PROPERTIES


class SubAck(msgspec.Struct, frozen=True):
    """The answer, one reason for each filter."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True):
    """The end of some filters."""

    packet_id: int
    filters: tuple[str, ...]


class UnsubAck(msgspec.Struct, frozen=True):
    """The answer to that."""

    packet_id: int
    reasons: tuple[int, ...]


class PingReq(msgspec.Struct, frozen=True):
    """A sign of life."""


class PingResp(msgspec.Struct, frozen=True):
    """The answer to it."""


class Disconnect(msgspec.Struct, frozen=True):
    """The last packet of a connection, in either direction (from a server only in 5.0)."""

    reason: int = 0
    properties: Properties = NO_PROPERTIES


Packet: TypeAlias = (
    ConnectPacket
    | ConnAck
    | PublishPacket
    | Ack
    | SubscribePacket
    | SubAck
    | Unsubscribe
    | UnsubAck
    | PingReq
    | PingResp
    | Disconnect
)


def explained(problem: MaiaError) -> Properties:
    """Return a refusal as 5.0 can carry it: a sentence for people, and Maia's code for programs."""
    return {
        Property.REASON_STRING: problem.message[:512],
        Property.USER_PROPERTY: (("maia-code", problem.code),),
    }
