"""Which bytes are one record of a journal, and are they the bytes that were written?

A record is a head of fixed size and a payload. The head has a checksum of its
own, so that a flipped bit in a length is distinguished from a file that ends too early.
The payload's checksum also covers the head and the record before, so that
records cannot change places or go missing between others.

    marker · length · position · recorded_at · batch · check · CRC-32 of the head · payload · end

The end is one byte that is not zero, so that a write which was cut short shows.
The marker is eight random bytes of the file's own, which a publisher
cannot know: no payload can pretend to hold records. `batch` is the first
position of those that were made safe together: a reader that finds a record of a
later batch knows that everything before it was safe.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.log.format.names import TYPE_ID_BYTES
from maia.wire.framing import MESSAGE_BYTES_MAX
from maia.wire.messages import (
    Carried,
    CarriedSigned,
    CarriedWithAuthor,
    Released,
    Sealed,
    SealedWithAuthor,
    Unblinded,
)

MARKER_BYTES: Final = 8
END: Final = b"\xa5"
CHECK_BYTES: Final = 16
NO_CHECK: Final = bytes(CHECK_BYTES)
"""The check before the first record of all."""

PAYLOAD_BYTES_MAX: Final = 128 << 20
"""A change of a manifest may be longer than any message."""

POSITION_MAX: Final = (1 << 63) - 1

_COVERED: Final = struct.Struct(">8sIQqQ")
_WHOLE: Final = struct.Struct(">8sIQqQ16sI")
HEAD_BYTES: Final = _WHOLE.size
_CRC_FROM: Final = HEAD_BYTES - 4


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One recorded message: its position, when it was recorded, and its bytes on the wire."""

    position: int
    recorded_at: Instant
    message: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RecordHead:
    """What a record says before its payload. Only `read_head` makes one, of bytes that hold together."""

    marker: bytes
    length: int
    position: int
    recorded_at: int
    batch: int
    check: bytes

    @property
    def covered(self) -> bytes:
        """Return what the payload's checksum covers of the head."""
        return _COVERED.pack(self.marker, self.length, self.position, self.recorded_at, self.batch)


def record_bytes(
    payload: bytes, *, marker: bytes, position: int, recorded_at: int, batch: int, before: bytes
) -> tuple[bytes, bytes]:
    """Return a record's head, and its check: what the next record is chained to."""
    covered = _COVERED.pack(marker, len(payload), position, recorded_at, batch)
    check = check_of(covered, payload, before=before)
    unfinished = covered + check
    return unfinished + zlib.crc32(unfinished).to_bytes(4, "big"), check


def batch_bytes(
    payloads: Sequence[bytes], *, marker: bytes, first: int, recorded_at: int, before: bytes
) -> tuple[bytes, bytes]:
    """Return the bytes of records that are made safe together, and the check of the last one."""
    parts: list[bytes] = []
    for position, payload in enumerate(payloads, start=first):
        head, before = record_bytes(
            payload, marker=marker, position=position, recorded_at=recorded_at, batch=first, before=before
        )
        parts += (head, payload, END)
    return b"".join(parts), before


def check_of(covered: bytes, payload: bytes, *, before: bytes) -> bytes:
    """Return the checksum of a record: of the one before, its head, and its payload."""
    hashed = blake2b(before, digest_size=CHECK_BYTES)
    hashed.update(covered)
    hashed.update(payload)
    return hashed.digest()


def read_head(data: bytes, marker: bytes) -> RecordHead | None:
    """Return the head that these bytes are in the file of this marker, or None if they are none."""
    if len(data) != HEAD_BYTES:
        return None
    found, length, position, recorded_at, batch, check, crc = _WHOLE.unpack(data)
    if found != marker or crc != zlib.crc32(data[:_CRC_FROM]):
        return None
    if length > PAYLOAD_BYTES_MAX or not batch <= position <= POSITION_MAX:
        return None
    if not INSTANT_MIN <= recorded_at <= INSTANT_MAX:
        return None
    return RecordHead(marker, length, position, recorded_at, batch, check)


# ------------------------------------------------------------ the frame in a record

# The log reads the first bytes alone, for the type: whether the rest is a message was decided by the broker
# that hands it over, and is decided again by each reader.


_FRAMES: Final = (Carried, CarriedWithAuthor, CarriedSigned, Released, Sealed, SealedWithAuthor, Unblinded)
_NUMBERS: Final = frozenset(message.__struct_config__.tag for message in _FRAMES)
_SHORT_ARRAY: Final = range(0x90, 0xA0)
_LONG_ARRAY: Final = 0xDC
_TYPE_ID_FOLLOWS: Final = bytes((0xC4, TYPE_ID_BYTES))


def type_id_of(message: bytes) -> bytes | None:
    """Return the type id of a frame, or None if these bytes do not begin as one.

    How many fields follow is not looked at: frames were recorded by older versions, too.
    """
    if not message:
        return None
    number_at = 1 if message[0] in _SHORT_ARRAY else 3 if message[0] == _LONG_ARRAY else len(message)
    start = number_at + 1 + len(_TYPE_ID_FOLLOWS)
    if len(message) <= start + TYPE_ID_BYTES or message[number_at] not in _NUMBERS:
        return None
    return (
        message[start : start + TYPE_ID_BYTES] if message[number_at + 1 : start] == _TYPE_ID_FOLLOWS else None
    )


def checked_frame(message: bytes) -> bytes:
    """Return bytes that begin as a frame does; refuse what a log does not record."""
    if len(message) > MESSAGE_BYTES_MAX:
        raise BadInput(
            "LOG-NOT-A-FRAME",
            f"a frame of {len(message)} bytes is longer than the {MESSAGE_BYTES_MAX} allowed",
        )
    if type_id_of(message) is None:
        raise BadInput("LOG-NOT-A-FRAME", "what was to be recorded is neither a carried nor a sealed frame")
    return message
