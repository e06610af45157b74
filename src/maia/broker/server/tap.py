"""What did a broker hear? Whoever wants to know is shown every message before the broker is.

Demonstrations and tests ask, of brokers that they run themselves. A broker of
an operator never writes down what it hears.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from maia.broker import Broker
from maia.events import Instant
from maia.wire.effects import Effect, Input, Received

__all__ = ["HEARD_BYTES_MAX", "TappedMessage", "TapFile", "TappedBroker", "read_heard"]

HEARD_BYTES_MAX: Final = 64 << 20
"""How much is written down; then a mark says that there was more."""

_PREFIX: Final = struct.Struct(">I")
_MORE: Final = 0xFFFFFFFF


class TappedBroker:
    """A broker whose messages somebody else is shown too."""

    __slots__ = ("_broker", "_show", "signed")

    def __init__(self, broker: Broker, show: Callable[[bytes], None]) -> None:
        """Show each message of `broker` to `show` first."""
        self._broker, self._show = broker, show
        self.signed = broker.signed

    def handle(self, happened: Input, now: Instant, /) -> list[Effect]:
        """Take one input on."""
        self._show_received(happened)
        return self._broker.handle(happened, now)

    def _show_received(self, happened: Input) -> None:
        if isinstance(happened, Received):
            self._show(bytes(happened.data))

    def take_on(self, happened: Input, now: Instant, /) -> list[Effect]:
        """Take one of several inputs of a turn on."""
        self._show_received(happened)
        return self._broker.take_on(happened, now)

    def go_on(self, now: Instant, /) -> list[Effect] | None:
        """Do more of what the last input left to do."""
        return self._broker.go_on(now)


class TapFile:
    """Messages one behind the other in a file, each in the file before its broker has seen it."""

    __slots__ = ("_file", "_room")

    def __init__(self, path: Path, *, bytes_max: int = HEARD_BYTES_MAX) -> None:
        """Begin a new file."""
        self._file = path.open("wb", buffering=0)
        self._room = bytes_max

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self._file.close()

    def write(self, message: bytes) -> None:
        """Append a message, or the mark that some are missing."""
        if self._room < 0:
            return
        self._room -= len(message) + _PREFIX.size
        self._file.write(_PREFIX.pack(len(message)) + message if self._room >= 0 else _PREFIX.pack(_MORE))


@dataclass(frozen=True, slots=True)
class TappedMessage:
    """What was written down, and whether it is everything."""

    messages: tuple[bytes, ...]
    is_whole: bool


def read_heard(path: Path) -> TappedMessage:
    """Return the messages of a file; one that its writer could not finish counts as missing."""
    data = path.read_bytes()
    messages = tuple(_messages(data))
    return TappedMessage(messages, sum(len(one) + _PREFIX.size for one in messages) == len(data))


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _PREFIX.size <= len(data):
        (size,) = _PREFIX.unpack_from(data, at)
        at += _PREFIX.size
        if at + size > len(data):
            return
        yield data[at : at + size]
        at += size
