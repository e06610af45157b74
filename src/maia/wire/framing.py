"""Where does one message end and the next begin?

Every message follows its length, four bytes with the highest first. Whoever
reads a link asks a `Splitter`. It believes no length beyond the limit of the
moment: the limit is small until the peer has proved who it is, and is raised
after the handshake. It never holds more than one unfinished message and the
bytes of the last call, and nothing is reserved because a peer announced it.
"""

from __future__ import annotations

from typing import Final

from maia.errors import ProtocolViolation

HANDSHAKE_BYTES_MAX: Final = 256 << 10
"""How long a message may be before the peer's right to connect is verified."""

MESSAGE_BYTES_MAX: Final = 16 << 20
"""How long any message may be."""

LENGTH_BYTES: Final = 4


def length_prefix(message: bytes) -> bytes:
    """Return the bytes that go before `message`, to be written with it without a copy."""
    length = len(message)
    if not 0 < length <= MESSAGE_BYTES_MAX:
        _checked_length(length, MESSAGE_BYTES_MAX)  # says what is wrong with it
    return length.to_bytes(LENGTH_BYTES, "big")


def framed(message: bytes) -> bytes:
    """Return `message` with its length before it."""
    return length_prefix(message) + message


class Splitter:
    """The bytes of one link that are not a whole message yet.

    A length that is refused stays refused: every later call raises again,
    unless the limit was raised in between.
    """

    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = HANDSHAKE_BYTES_MAX) -> None:
        """Begin with messages of at most `limit` bytes."""
        self._buffer = bytearray()
        self._limit = _sane_limit(limit)

    @property
    def limit(self) -> int:
        """Return how long a message may be now."""
        return self._limit

    @property
    def held(self) -> int:
        """Return how many bytes wait for the rest of their message; a reader sets a deadline on it."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[bytes]:
        """Take what arrived, and return the messages that are now complete, in order.

        A bad length is raised once the messages before it have been returned,
        because the last of them may be the one that raises the limit.
        """
        if not self._buffer:
            length = len(data) - LENGTH_BYTES
            if 0 < length <= self._limit and int.from_bytes(data[:LENGTH_BYTES], "big") == length:
                return [bytes(data[LENGTH_BYTES:])]  # one message that came alone, and whole
            return self._complete_in(data)
        if len(self._buffer) >= LENGTH_BYTES:
            # A length that was refused is refused again, before more is held for it.
            _checked_length(int.from_bytes(self._buffer[:LENGTH_BYTES], "big"), self._limit)
        self._buffer += data
        return self._complete()

    def raise_limit(self, limit: int = MESSAGE_BYTES_MAX) -> list[bytes]:
        """Allow longer messages from here on, and return those that were waiting for it."""
        self._limit = max(self._limit, _sane_limit(limit))
        return self._complete()

    def _complete_in(self, data: bytes | memoryview) -> list[bytes]:
        """Split what arrived while nothing was held, and hold what is left of it."""
        try:
            messages, end = _split(data, self._limit)
        except ProtocolViolation:
            self._buffer += data  # so that a length that is refused stays refused
            raise
        if end < len(data):
            self._buffer += data[end:]
        return messages

    def _complete(self) -> list[bytes]:
        with memoryview(self._buffer) as view:
            messages, end = _split(view, self._limit)
        del self._buffer[:end]
        return messages


def _split(data: bytes | memoryview, limit: int) -> tuple[list[bytes], int]:
    """Return the whole messages at the beginning, and where they end."""
    messages: list[bytes] = []
    start, size = 0, len(data)
    while size - start >= LENGTH_BYTES:
        length = int.from_bytes(data[start : start + LENGTH_BYTES], "big")
        if messages and not 0 < length <= limit:
            break
        end = start + LENGTH_BYTES + _checked_length(length, limit)
        if end > size:
            break
        messages.append(bytes(data[start + LENGTH_BYTES : end]))
        start = end
    return messages, start


def _checked_length(length: int, limit: int) -> int:
    if length == 0:
        raise ProtocolViolation("PROTOCOL-EMPTY-MESSAGE", "a message has at least one byte")
    if length > limit:
        raise ProtocolViolation(
            "PROTOCOL-MESSAGE-TOO-LARGE",
            f"a message of {length} bytes is longer than the {limit} allowed here",
        )
    return length


def _sane_limit(limit: int) -> int:
    if not 0 < limit <= MESSAGE_BYTES_MAX:
        raise ValueError(f"a limit lies between 1 and {MESSAGE_BYTES_MAX} bytes")
    return limit
