"""What is inside a sealed column, byte by byte?

The kind of the attribute, where its blocks end, and the column as it travels
in the clear; padded, so that its length says little (A55). Sealers write it,
openers read it strictly, and both say of each block the same thing, which is
what is signed. Sealed as a whole, an event's columns stand in one list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from maia.errors import BrokenCredential
from maia.events import Value
from maia.sealing.blocks import (
    array_header,
    block_ends,
    blocks_in,
    pack_lengths,
    row_lengths,
    unpack_lengths,
)
from maia.sealing.frame_proof import leaf
from maia.types import SealingLevel
from maia.wire.columns import decode_column, kind_from_number
from maia.wire.messages import Column

__all__ = [
    "LEVEL_NUMBERS",
    "BadContent",
    "OpenColumn",
    "OpenPart",
    "column_to_seal",
    "leaves_of",
    "padded",
    "parts_of",
    "read_part",
    "unpadded",
]

PADDED_TO: Final = 64
"""Content is padded to a multiple of this; from a kilobyte on, to a multiple of about a sixteenth."""

_LENGTH_BYTES: Final = 4
_FIRST_LARGE: Final = 1024
_KINDS: Final = frozenset(range(1, 7))
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


class BadContent(BrokenCredential):
    """What was sealed is no column: somebody who holds the key sealed something else."""

    code = "SEALING-CONTENT"


LEVEL_NUMBERS: Final = {SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}
"""What stands for a level in a message."""


class OpenColumn(msgspec.Struct, frozen=True):
    """A column in the clear; `lengths` are those of its blocks here, if its frame was signed with several."""

    column: Column
    lengths: tuple[int, ...]


class OpenPart(msgspec.Struct, frozen=True):
    """What is sealed as one, in the clear: one column, or with an empty uid all of them."""

    uid: str
    content: bytes
    columns: list[OpenColumn]


def parts_of(columns: Sequence[OpenColumn], *, level: SealingLevel) -> list[OpenPart]:
    """Return what is sealed as one at this level."""
    if level is SealingLevel.EVENT:
        return [OpenPart("", _write_columns(columns), list(columns))]
    return [OpenPart(one.column.uid, _write_column(one), [one]) for one in columns]


def read_part(uid: str, content: bytes, *, blocks: int, rows: int) -> OpenPart:
    """Read what was sealed as one; `blocks` are those here, 0 if the frame was signed as one block."""
    if uid:
        return OpenPart(uid, content, [_read_column(uid, content, blocks=blocks, rows=rows)])
    return OpenPart(uid, content, _read_columns(content, blocks=blocks, rows=rows))


# ------------------------------------------------------------ padding


def padded(content: bytes) -> bytes:
    """Return content with its length in front and zeros behind, up to one of few lengths."""
    length = len(content)
    return length.to_bytes(_LENGTH_BYTES, "big") + content + bytes(_zeros(length))


def unpadded(plaintext: bytes) -> bytes:
    """Return the content; refuse a padding in any other form than its one."""
    length = int.from_bytes(plaintext[:_LENGTH_BYTES], "big")
    end, zeros = _LENGTH_BYTES + length, _zeros(length)
    if len(plaintext) != end + zeros or plaintext.count(0, end) != zeros:
        raise BadContent("what was sealed is not padded in its one form")
    return plaintext[_LENGTH_BYTES:end]


def _zeros(length: int) -> int:
    whole = length + _LENGTH_BYTES
    step = PADDED_TO if whole < _FIRST_LARGE else 1 << (whole.bit_length() - 5)
    return -whole % step


# ------------------------------------------------------------ one column, or all of a frame


def column_to_seal(column: Column, values: Sequence[Value] | None, rows: int) -> OpenColumn:
    """Return a column with the lengths of its blocks, as far as it has several."""
    if blocks_in(rows) == 1:
        return OpenColumn(column, ())
    kind = kind_from_number(column.kind)
    if values is None:
        values = decode_column(kind, column.data, rows)
    return OpenColumn(column, row_lengths(column.data, kind, values, rows))


def _write_column(opened: OpenColumn) -> bytes:
    """Return the content of one column."""
    column = opened.column
    return bytes((column.kind,)) + pack_lengths(opened.lengths) + column.data


def _read_column(uid: str, content: bytes, *, blocks: int, rows: int) -> OpenColumn:
    """Read a column of so many rows, in so many blocks; none of its values is looked at yet."""
    start = 1 + _LENGTH_BYTES * blocks
    if len(content) < start or content[0] not in _KINDS:
        raise BadContent("what was sealed is no column")
    lengths = unpack_lengths(content[1:start], blocks)
    data = content[start:]
    if not data.startswith(array_header(rows)) or (blocks and block_ends(data, lengths, rows) is None):
        raise BadContent("a sealed column does not hold the rows of its frame")
    return OpenColumn(Column(uid, content[0], data), lengths)


def _write_columns(opened: Sequence[OpenColumn]) -> bytes:
    """Return the content of all columns of a frame, to be sealed as one."""
    return _ENCODER.encode([(one.column.uid, _write_column(one)) for one in opened])


def _read_columns(content: bytes, *, blocks: int, rows: int) -> list[OpenColumn]:
    """Read all columns of a frame that were sealed as one."""
    try:
        found = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadContent("what was sealed is no list of columns") from problem
    if _ENCODER.encode(found) != content or len({uid for uid, _ in found}) != len(found):
        raise BadContent("sealed columns are not written in their one form")
    return [_read_column(uid, written, blocks=blocks, rows=rows) for uid, written in found]


# ------------------------------------------------------------ what is said about each block


def leaves_of(part: OpenPart, *, salting: bytes, blocks: Sequence[int], rows: int) -> list[bytes]:
    """Return the leaf of each block that is here.

    `blocks` are their numbers, empty if the frame was signed as one block, and
    `rows` counts the rows that are here.
    """
    if not blocks:
        return [leaf(salting, 0, part.content)]
    pieces = [_pieces(one, rows) for one in part.columns]
    if len(pieces) == 1:
        return [leaf(salting, block, piece) for block, piece in zip(blocks, pieces[0], strict=True)]
    return [leaf(salting, block, b"".join([of[at] for of in pieces])) for at, block in enumerate(blocks)]


def _pieces(opened: OpenColumn, rows: int) -> list[bytes]:
    """Return what a column adds to each block: its uid, kind and length, then its rows."""
    column, lengths = opened.column, opened.lengths
    head = bytes((len(column.uid),)) + column.uid.encode() + bytes((column.kind,))
    ends = accumulate(lengths, initial=len(array_header(rows)))
    data = column.data
    return [
        head + length.to_bytes(_LENGTH_BYTES, "big") + data[start : start + length]
        for start, length in zip(ends, lengths, strict=False)
    ]
