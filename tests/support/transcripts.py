"""What a subscriber received, in a form in which two runs can be compared byte by byte.

Up to what is random by design: the nonce of a greeting, the labels of frames and the sealed positions
of the event log. Of those it is compared which are equal to each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from maia.wire.codec import encode
from maia.wire.messages import Deliver, DeliverLogged, Greeting, Message, Missed


@dataclass
class Transcript:
    """What one subscriber received in all of its sessions, with names in place of what is random."""

    lines: list[bytes] = field(default_factory=list)
    _names: dict[bytes, bytes] = field(default_factory=dict)

    def add(self, *messages: Message) -> None:
        self.lines += [encode(self._named(message)) for message in messages]

    def _named(self, message: Message) -> Message:
        match message:
            case Greeting():
                return replace(message, instance=bytes(16))
            case DeliverLogged():
                position, label = self._name(message.position), self._name(message.label)
                return replace(message, position=position, label=label)
            case Deliver():
                return replace(message, label=self._name(message.label))
            case Missed():
                return replace(message, position=self._name(message.position))
        return message

    def _name(self, random: bytes) -> bytes:
        """Return a number in the order of first appearance: equal ones stay equal, others different."""
        return self._names.setdefault(random, len(self._names).to_bytes(len(random)))
