"""How is one event written as CBOR (RFC 8949), and read from it?

Payloads of MQTT messages ask. Only what an event can hold is read: one map from texts to numbers,
texts, bytes, booleans and null, in definite lengths; a timestamp is tag 0 with a text or a plain text.
Everything else, and a byte behind the map, is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from maia.errors import BadInput
from maia.events import Instant, Value

_ENTRIES_MAX: Final = 1024
_TIME_TEXT: Final = 0
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE: Final[dict[int, bool | None]] = {20: False, 21: True, 22: None, 23: None}


class BadCbor(BadInput):
    """A payload is not one CBOR map of plain values."""

    code = "INPUT-CBOR"


def decode_map(data: bytes) -> dict[str, object]:
    """Read one map; raise BadCbor for anything else."""
    try:
        major, count, at = _head(data, 0)
        if major != 5 or count > _ENTRIES_MAX:
            raise BadCbor(f"the payload is not a CBOR map of at most {_ENTRIES_MAX} entries")
        found: dict[str, object] = {}
        for _ in range(count):
            name, at = _item(data, at)
            if not isinstance(name, str) or name in found:
                raise BadCbor("a CBOR map has an entry whose name is no text, or comes twice")
            found[name], at = _item(data, at)
    except (IndexError, struct.error, UnicodeDecodeError) as problem:
        raise BadCbor("the payload ends in the middle of a CBOR value, or a text is not UTF-8") from problem
    if at != len(data):
        raise BadCbor("the payload goes on behind its CBOR map")
    return found


def encode_map(event: Mapping[str, Value]) -> bytes:
    """Write values by name, in the order given."""
    written = bytearray(_written_head(5, len(event)))
    for name, value in event.items():
        _write(written, name)
        _write(written, value)
    return bytes(written)


def _head(data: bytes, at: int) -> tuple[int, int, int]:
    first = data[at]
    major, short = first >> 5, first & 31
    if short < 24:
        return major, short, at + 1
    if short > 27:
        raise BadCbor("indefinite lengths are not read")
    size = 1 << (short - 24)
    return major, struct.unpack_from((">B", ">H", ">I", ">Q")[short - 24], data, at + 1)[0], at + 1 + size


def _item(data: bytes, at: int) -> tuple[object, int]:
    first = data[at]
    if first >> 5 == 7:
        short = first & 31
        if short in _SIMPLE:
            return _SIMPLE[short], at + 1
        if short in _FLOATS:
            return struct.unpack_from(_FLOATS[short], data, at + 1)[0], at + 1 + (2 << (short - 25))
        raise BadCbor("a CBOR value is of no kind that an attribute has")
    major, number, behind = _head(data, at)
    match major:
        case 0:
            return number, behind
        case 1:
            return -1 - number, behind
        case 2 | 3:
            if behind + number > len(data):
                raise IndexError
            found = data[behind : behind + number]
            return (found if major == 2 else found.decode("utf-8")), behind + number
        case 6 if number == _TIME_TEXT and behind < len(data) and data[behind] >> 5 == 3:
            return _item(data, behind)
        case _:
            raise BadCbor("a CBOR value is of no kind that an attribute has")


def _write(written: bytearray, value: Value) -> None:
    match value:
        case None:
            written.append(0xF6)
        case bool():
            written.append(0xF5 if value else 0xF4)
        case Instant():
            written.append(0xC0)
            _write(written, str(value))
        case int():
            written += _written_head(0, value) if value >= 0 else _written_head(1, -1 - value)
        case float():
            written += b"\xfb" + struct.pack(">d", value)
        case bytes():
            written += _written_head(2, len(value)) + value
        case str():
            text = value.encode()
            written += _written_head(3, len(text)) + text


def _written_head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    for short, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if number < 1 << (8 * size):
            return bytes([major << 5 | short]) + number.to_bytes(size, "big")
    raise BadCbor("a number has more than 64 bits")
