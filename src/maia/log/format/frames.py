"""Are these bytes a frame on its way, and of which type?

The log asks before it records, and again for every record that a reader reads
by type. It reads the first bytes alone: whether the rest is a message was
decided by the recording broker, and is decided again by the reader.
"""

from __future__ import annotations

from typing import Final

from maia.log.format.errors import NotAFrame
from maia.log.format.names import TYPE_ID_BYTES
from maia.wire.framing import MESSAGE_BYTES_MAX
from maia.wire.messages import Carried, Sealed

__all__ = ["checked_frame", "type_id_of"]


_NUMBERS: Final = frozenset(message.__struct_config__.tag for message in (Carried, Sealed))
_SHORT_ARRAY: Final = range(0x90, 0xA0)
_LONG_ARRAY: Final = 0xDC
_TYPE_ID_FOLLOWS: Final = bytes((0xC4, TYPE_ID_BYTES))


def type_id_of(message: bytes) -> bytes | None:
    """Return the type id of a frame, or None if these bytes do not begin as one.

    How many fields follow is not checked: frames were recorded by older versions, too.
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
        raise NotAFrame(f"a frame of {len(message)} bytes is longer than the {MESSAGE_BYTES_MAX} allowed")
    if type_id_of(message) is None:
        raise NotAFrame("what was to be recorded is neither a carried nor a sealed frame")
    return message
