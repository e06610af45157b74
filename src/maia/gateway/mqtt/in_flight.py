"""Which messages with QoS 1 and 2 has the server sent that the client has not acknowledged for good?

A session keeps them over connections. What the client has answered leads to an acknowledgement for the
broker's side and, with QoS 2, to the next packet of the exchange.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from maia.gateway.mqtt.effects import Acknowledge, Effect
from maia.gateway.mqtt.packets import Ack, MqttViolation, PublishPacket, ReasonCode, Type

PACKET_IDS: Final = 65_535


class _Outgoing(msgspec.Struct):
    """A message under way to the client; None once the client has it and only the release is missing."""

    publish: PublishPacket | None
    token: object


class InFlight:
    """Messages under way to one client, by their packet identifiers, in the order in which they were sent."""

    __slots__ = ("_last_id", "bytes", "messages")

    def __init__(self) -> None:
        """Begin with none."""
        self.messages: dict[int, _Outgoing] = {}
        self.bytes = 0
        """How many bytes their payloads have."""
        self._last_id = 0

    def free_id(self) -> int:
        """Return an identifier that no message has."""
        while True:
            self._last_id = self._last_id % PACKET_IDS + 1
            if self._last_id not in self.messages:
                return self._last_id

    def put(self, packet_id: int, publish: PublishPacket, token: object) -> None:
        """Keep a message until the client has it; `token` names it to the broker's side."""
        self.messages[packet_id] = _Outgoing(publish, token)
        self.bytes += len(publish.payload)

    def again(self) -> Iterator[PublishPacket | Ack]:
        """Yield what is sent again on a new connection."""
        for packet_id, one in self.messages.items():
            if one.publish is None:
                yield Ack(Type.PUBREL, packet_id)
            else:
                yield msgspec.structs.replace(one.publish, duplicate=True)

    def drop(self, effects: list[Effect]) -> None:
        """Forget all of them, with their session."""
        effects.extend(Acknowledge(one.token) for one in self.messages.values())
        self.messages.clear()
        self.bytes = 0

    def end(self, body: bytes, effects: list[Effect]) -> bool:
        """Take a PUBACK on that says no more than that a message with QoS 1 has arrived; False if not so."""
        packet_id = int.from_bytes(body, "big") if len(body) == 2 else 0
        outgoing = self.messages.get(packet_id)
        if outgoing is None or outgoing.publish is None or outgoing.publish.qos != 1:
            return False
        del self.messages[packet_id]
        self.bytes -= len(outgoing.publish.payload)
        if outgoing.token is not None:
            effects.append(Acknowledge(outgoing.token))
        return True

    def acknowledge(self, packet: Ack, effects: list[Effect]) -> Ack | None:
        """Take a PUBACK, PUBREC or PUBCOMP on; return what it is answered with, if it is."""
        packet_id = packet.packet_id
        outgoing = self.messages.get(packet_id)
        if outgoing is None:
            is_asked = packet.type is Type.PUBREC and packet.reason < 0x80
            return Ack(Type.PUBREL, packet_id, ReasonCode.PACKET_ID_NOT_FOUND) if is_asked else None
        sent = outgoing.publish
        match packet.type:
            case Type.PUBACK if sent is not None and sent.qos == 1:
                del self.messages[packet_id]
                self.bytes -= len(sent.payload)
                effects.append(Acknowledge(outgoing.token))
            case Type.PUBREC if sent is None or sent.qos == 2:
                if sent is not None:
                    effects.append(Acknowledge(outgoing.token))
                    self.bytes -= len(sent.payload)
                    outgoing.publish = None
                if packet.reason < 0x80:
                    return Ack(Type.PUBREL, packet_id)
                del self.messages[packet_id]
            case Type.PUBCOMP if sent is None:
                del self.messages[packet_id]
            case _:
                problem = "an acknowledgement is not the one that this message needs"
                raise MqttViolation(problem, ReasonCode.PROTOCOL_ERROR)
        return None
