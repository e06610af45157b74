"""How is an event written as CBOR (RFC 8949), or as JSON, and read from it?

Payloads of MQTT messages ask. Only what an event can hold is read: one map from texts to numbers,
texts, bytes, booleans and null, in definite lengths; a timestamp is tag 0 with a text or a plain text.
Everything else, and a byte behind the map, is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from sys import float_info
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from maia.errors import BadInput, MaiaError
from maia.events import INT_MAX, INT_MIN, SECOND, STRING_BYTES_MAX, Attribute, Instant, Kind, Value

_ENTRIES_MAX: Final = 1024
_TIME_TEXT: Final = 0
_FLOATS: Final = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE: Final[dict[int, bool | None]] = {20: False, 21: True, 22: None, 23: None}


def decode_map(data: bytes) -> dict[str, object]:
    """Read one map; raise `INPUT-CBOR` for anything else."""
    try:
        major, count, at = _head(data, 0)
        if major != 5 or count > _ENTRIES_MAX:
            raise BadInput("INPUT-CBOR", f"the payload is not a CBOR map of at most {_ENTRIES_MAX} entries")
        found: dict[str, object] = {}
        for _ in range(count):
            name, at = _item(data, at)
            if not isinstance(name, str) or name in found:
                raise BadInput("INPUT-CBOR", "a CBOR map has an entry whose name is no text, or comes twice")
            found[name], at = _item(data, at)
    except (IndexError, struct.error, UnicodeDecodeError) as problem:
        raise BadInput(
            "INPUT-CBOR", "the payload ends in the middle of a CBOR value, or a text is not UTF-8"
        ) from problem
    if at != len(data):
        raise BadInput("INPUT-CBOR", "the payload goes on behind its CBOR map")
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
        raise BadInput("INPUT-CBOR", "indefinite lengths are not read")
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
        raise BadInput("INPUT-CBOR", "a CBOR value is of no kind that an attribute has")
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
            raise BadInput("INPUT-CBOR", "a CBOR value is of no kind that an attribute has")


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
    raise BadInput("INPUT-CBOR", "a number has more than 64 bits")


# Many JSON payloads of one row are read and written at the least cost for each.
#
# The meaning of a payload is in `topic_table.py`, value by value. What is read here has nothing odd in it and
# means the same; every doubt is left to that.


_JSON_TYPES: Final[Mapping[Kind, Any]] = {  # Any: types, as msgspec takes them
    Kind.STRING: str,
    Kind.INT: Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)],
    Kind.FLOAT: Annotated[float, Meta(ge=-float_info.max, le=float_info.max)],
    Kind.BOOL: bool,
    Kind.TIMESTAMP: str,
    Kind.BYTES: str,
}
_MINUS_ZERO: Final = re.compile(rb"[: \t\n\r]-0")
"""How a number begins that may be minus zero."""


# Events of one time share their second.
@lru_cache(maxsize=256)
def _second(number: int) -> str:
    return str(Instant(number * SECOND))[:-1]


def _moment(moment: int) -> str:
    """Return what `str` of an Instant does."""
    second, rest = divmod(moment, SECOND)
    return f"{_second(second)}.{rest:06d}Z" if rest else f"{_second(second)}Z"


_parsed = lru_cache(maxsize=256)(Instant.parse)


def _parse(text: str) -> Instant:
    """Return what `Instant.parse` does; most texts are such as `2026-11-15T08:30:00.250000Z`."""
    if len(text) == 27 and text[16] == ":" and text[19] == "." and text[26] == "Z":
        rest = text[20:26]
        if rest.isascii() and rest.isdigit():
            return Instant(_parsed(f"{text[:19]}Z") + int(rest))
    return Instant.parse(text)


_FROM_TEXT: Final[Mapping[Kind, Callable[[str], Value]]] = {Kind.TIMESTAMP: _parse, Kind.BYTES: bytes.fromhex}
_TO_TEXT: Final[Mapping[Kind, Callable[[Any], str]]] = {Kind.TIMESTAMP: _moment, Kind.BYTES: bytes.hex}


class JsonPayloads:
    """The payloads of one row, by column."""

    __slots__ = ("_decode", "_encode", "_names", "_numbers", "_shape", "_texts", "_written")

    def __init__(self, carried: Sequence[Attribute]) -> None:
        """Read and write these attributes; an absent one is null."""
        fields = [(f"f{at}", _JSON_TYPES[one.kind] | None, None) for at, one in enumerate(carried)]
        names = {f"f{at}": one.name for at, one in enumerate(carried)}
        shape = msgspec.defstruct(
            "Payload", fields, rename=names, forbid_unknown_fields=True, omit_defaults=True, gc=False
        )
        self._shape: Callable[..., msgspec.Struct] = shape
        self._decode: Callable[[bytes], msgspec.Struct] = msgspec.json.Decoder(shape).decode
        self._encode = msgspec.json.Encoder().encode
        self._names = tuple(one.name for one in carried)
        numbers = (Kind.INT, Kind.FLOAT)
        self._numbers = tuple(at for at, one in enumerate(carried) if one.kind in numbers)
        texts = [(at, one.kind) for at, one in enumerate(carried) if one.kind in _FROM_TEXT]
        self._texts = tuple((at, _FROM_TEXT[kind]) for at, kind in texts)
        self._written = tuple((at, _TO_TEXT[kind]) for at, kind in texts)

    def read(self, payloads: Sequence[bytes]) -> dict[str, Sequence[Value]] | None:
        """Return the values by column; None if the payloads have to be looked at value by value."""
        together = b" ".join(payloads)
        if (b"\\" in together and b"\\u" in together) or max(map(len, payloads)) > STRING_BYTES_MAX:
            return None  # escapes may hold what no string may
        try:
            found = map(msgspec.structs.astuple, map(self._decode, payloads))
            columns: list[Sequence[Value]] = list(zip(*found, strict=True))
            if (
                b"-0" in together
                and _MINUS_ZERO.search(together)
                and any(0 in columns[at] for at in self._numbers)
            ):
                return None  # minus zero has another form
            for at, parse in self._texts:
                values = columns[at]
                if None in values:
                    columns[at] = [None if one is None else parse(one) for one in values]  # type: ignore[arg-type]
                else:
                    columns[at] = tuple(map(parse, values))  # type: ignore[arg-type]  # all are texts
        except (msgspec.MsgspecError, ValueError, RecursionError, MaiaError):
            return None
        return dict(zip(self._names, columns, strict=True))

    def write(self, columns: Mapping[str, Sequence[Value]], rows: int) -> list[bytes]:
        """Return a payload for each row; one without any value is `{}`."""
        nulls = (None,) * rows
        given: list[Sequence[Value]] = [columns.get(name, nulls) for name in self._names]
        for at, write in self._written:
            values = given[at]
            if None in values:
                given[at] = [None if one is None else write(one) for one in values]
            else:
                given[at] = tuple(map(write, values))
        if not given:
            return [b"{}"] * rows
        return list(map(self._encode, map(self._shape, *given)))
