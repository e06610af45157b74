"""What happens to an MQTT session, and what does it ask for in return?

The session (`session.py`) takes inputs and returns effects; the server performs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from maia.errors import MaiaError
from maia.events import Instant
from maia.gateway.mqtt.packets import ConnectPacket, ReasonCode, SubscribeOptions
from maia.gateway.topic_table import Columns, TopicInterest


@dataclass(frozen=True, slots=True)
class MqttLimits:
    """How much one MQTT client may hold at the gateway."""

    packet_bytes: int = 256 << 10
    """The longest packet that is read."""
    receive_maximum: int = 128
    """Messages of a client with QoS 1 or 2 that the broker has not answered for."""
    in_flight: int = 256
    """Messages to a client with QoS 1 or 2 that it has not acknowledged."""
    in_flight_bytes: int = 256 << 10
    """How many bytes these have; one message, however long, may always be under way."""
    unread_bytes: int = 16 << 20
    """Bytes of events that wait for one MQTT client or HTTP stream that does not read: beyond them
    subscriptions with QoS 1 or 2 and streams end, unless they are durable; with QoS 0, beyond a quarter of
    them messages are skipped."""
    topic_aliases: int = 64
    subscriptions: int = 64
    groups: int = 64
    """Share groups (`$share/…`) of one account, each with a connection to the broker."""
    session_expiry_s: int = 7 * 86_400
    """How long a session may outlive its connection."""
    client_id_bytes: int = 128


@dataclass(slots=True)
class SubscribedFilter:
    """One filter of a client."""

    filter: str
    levels: list[str]
    group: str | None
    options: SubscribeOptions
    identifier: int | None
    interests: tuple[TopicInterest, ...]
    is_durable: bool
    granted: int = 0


# ------------------------------------------------------------ inputs


@dataclass(frozen=True, slots=True)
class Attached:
    """A connection whose client has proved who it is goes on with this session."""

    connect: ConnectPacket
    assigned_id: str | None = None
    """The client identifier, if the gateway chose it."""


class ReceivedBytes(msgspec.Struct, frozen=True):
    """Bytes of the client."""

    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone, or has to go; `reason` is what a 5.0 client is sent before."""

    reason: ReasonCode | None = None
    problem: MaiaError | None = None


@dataclass(frozen=True, slots=True)
class ClockTick:
    """A moment that was asked for has come."""


class BrokerAnswered(msgspec.Struct, frozen=True):
    """The broker has taken events on, or not: of each handle so many more, in order, and why not."""

    answers: Sequence[tuple[int, int, MaiaError | None]]


@dataclass(frozen=True, slots=True)
class SubscriptionAnswered:
    """The broker has answered for every interest of a subscription; None for one that it accepted."""

    number: int
    problems: tuple[MaiaError | None, ...]


@dataclass(frozen=True, slots=True)
class SubscriptionEnded:
    """The broker has ended an accepted subscription, as after a revocation."""

    number: int
    problem: MaiaError


class Messages(msgspec.Struct, frozen=True):
    """Events for a subscription of this client, as many as it has room for or fewer.

    Each is a topic, a payload and its content type; `token` names each of them to the broker's side.
    """

    number: int
    messages: Sequence[tuple[str, bytes, str | None]]
    is_retained: bool
    is_own: bool
    """Published by this client; said if its subscription leaves such messages out."""
    token: object = None


Input: TypeAlias = (
    Attached
    | ReceivedBytes
    | Lost
    | ClockTick
    | BrokerAnswered
    | SubscriptionAnswered
    | SubscriptionEnded
    | Messages
)

# ------------------------------------------------------------ effects


@dataclass(frozen=True, slots=True)
class Write:
    """Send bytes to the client."""

    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close the connection after what was written; `problem` says why, if something was wrong."""

    problem: MaiaError | None = None


class ToBroker(msgspec.Struct, frozen=True):
    """Publish events of one row as the client's principal; `BrokerAnswered` is to follow."""

    handle: int
    row: int
    columns: Columns
    rows: int
    is_one: bool = False
    """Whether they are one publication, on several topics."""


@dataclass(frozen=True, slots=True)
class OpenSubscription:
    """Subscribe as the client's principal; `SubscriptionAnswered` is to follow."""

    number: int
    subscribed: SubscribedFilter
    wants_state: bool


@dataclass(frozen=True, slots=True)
class QueryState:
    """Bring the retained messages of a subscription once more."""

    number: int


@dataclass(frozen=True, slots=True)
class CloseSubscription:
    """End a subscription, with its place in the log if it has one."""

    number: int


class Acknowledge(msgspec.Struct, frozen=True):
    """The client has taken so many messages over for good."""

    token: object
    messages: int = 1


@dataclass(frozen=True, slots=True)
class WakeSessionAt:
    """Hand in a `Tick` at this moment or a little later."""

    at: Instant


@dataclass(frozen=True, slots=True)
class SessionOver:
    """The session has ended, and everything that belongs to it."""


Effect: TypeAlias = (
    Write
    | CloseConnection
    | ToBroker
    | OpenSubscription
    | QueryState
    | CloseSubscription
    | Acknowledge
    | WakeSessionAt
    | SessionOver
)
