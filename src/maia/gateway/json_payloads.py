"""How are many JSON payloads of one row read and written at the least cost for each?

The meaning of a payload is in `topic_table.py`, value by value. What is read here has nothing odd in it and
means the same; every doubt is left to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from sys import float_info
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from maia.errors import MaiaError
from maia.events import INT_MAX, INT_MIN, SECOND, STRING_BYTES_MAX, Attribute, Instant, Kind, Value

_JSON_TYPES: Final[Mapping[Kind, Any]] = {  # Any: types, as msgspec takes them
    Kind.STRING: str,
    Kind.INT: Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)],
    Kind.FLOAT: Annotated[float, Meta(ge=-float_info.max, le=float_info.max)],
    Kind.BOOL: bool,
    Kind.TIMESTAMP: str,
    Kind.BYTES: str,
}
_BEFORE_NUMBERS: Final = frozenset((b":", b" ", b"\t", b"\n", b"\r"))


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


_FROM_TEXT: Final[Mapping[Kind, Callable[[str], Value]]] = {
    Kind.TIMESTAMP: _parse,
    Kind.BYTES: bytes.fromhex,
}


class JsonPayloads:
    """The payloads of one row, by column."""

    __slots__ = ("_decode", "_encode", "_names", "_numbers", "_shape", "_texts")

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
        self._texts = tuple((at, one.kind) for at, one in enumerate(carried) if one.kind in _FROM_TEXT)

    def read(self, payloads: Sequence[bytes]) -> dict[str, Sequence[Value]] | None:
        """Return the values by column; None if the payloads have to be looked at value by value."""
        together = b" ".join(payloads)
        if (b"\\" in together and b"\\u" in together) or max(map(len, payloads)) > STRING_BYTES_MAX:
            return None  # escapes may hold what no string may
        as_tuple, decode = msgspec.structs.astuple, self._decode
        try:
            columns: list[Sequence[Value]] = list(
                zip(*[as_tuple(decode(payload)) for payload in payloads], strict=True)
            )
            if any(0 in columns[at] for at in self._numbers) and any(
                before[-1:] in _BEFORE_NUMBERS for before in together.split(b"-0")[:-1]
            ):
                return None  # minus zero has another form
            for at, kind in self._texts:
                parse = _FROM_TEXT[kind]
                columns[at] = [None if one is None else parse(one) for one in columns[at]]  # type: ignore[arg-type]
        except (msgspec.MsgspecError, ValueError, RecursionError, MaiaError):
            return None
        return dict(zip(self._names, columns, strict=True))

    def write(self, columns: Mapping[str, Sequence[Value]], rows: int) -> list[bytes]:
        """Return a payload for each row; one without any value is empty."""
        nulls = (None,) * rows
        given: list[Sequence[Value]] = [columns.get(name, nulls) for name in self._names]
        for at, kind in self._texts:
            write: Callable[[Any], str] = _moment if kind is Kind.TIMESTAMP else bytes.hex
            given[at] = [None if one is None else write(one) for one in given[at]]
        encode = self._encode
        written = [encode(one) for one in map(self._shape, *given)]
        return [b"" if one == b"{}" else one for one in written]
