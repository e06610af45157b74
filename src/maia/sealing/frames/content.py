"""What is inside a sealed column, byte by byte?

The kind of the attribute, where its blocks end, and the column as it travels
in the clear; padded, so that its length says little (A55). Sealers write it,
openers read it strictly, and both say of each block the same thing, which is
what is signed. Sealed as a whole, an event's columns are in one list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from struct import Struct
from typing import Final

import msgspec

from maia.errors import BrokenCredential
from maia.events import BadAttribute, Value, attribute_uid
from maia.sealing.frames.blocks import (
    BLOCKS_MAX,
    Division,
    array_header,
    equal_lengths,
    pack_lengths,
    row_lengths,
    unpack_lengths,
)
from maia.sealing.frames.ciphers import Cipher
from maia.types import SealingLevel
from maia.wire.columns import EventsColumn, decode_column, kind_from_number
from maia.wire.messages import Column

LEVEL_NUMBERS: Final = {SealingLevel.EVENT: 1, SealingLevel.ATTRIBUTE: 2}
"""The number of a level in a message."""

PADDED_TO: Final = 64
"""Content is padded to a multiple of this; from a kilobyte on, to a multiple of about a sixteenth."""

_LENGTH_BYTES: Final = 4
_LENGTH: Final = Struct(">I")
_LENGTH_AND_KIND: Final = Struct(">IB")
_FIRST_LARGE: Final = 1024
_ZEROS: Final = [bytes(length) for length in range(PADDED_TO)]
_KIND_BYTES: Final = [bytes((number,)) for number in range(16)]
_KINDS: Final = frozenset(range(1, 7))
_BLOCK_NUMBERS: Final = [number.to_bytes(2, "big") for number in range(BLOCKS_MAX)]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[tuple[str, bytes]])


class BadContent(BrokenCredential):
    """What was sealed is no column: a holder of the key sealed something else."""

    code = "SEALING-CONTENT"


class OpenColumn(msgspec.Struct, frozen=True, gc=False):
    """A column in the clear; `lengths` are those of its blocks here, if its frame was signed with several."""

    column: Column
    lengths: tuple[int, ...] = ()


class OpenPart(msgspec.Struct, frozen=True, gc=False):
    """What is sealed as one, in the clear: one column, or with an empty uid all of them."""

    uid: str
    columns: list[OpenColumn]


def parts_of(columns: Sequence[OpenColumn], *, level: SealingLevel) -> list[OpenPart]:
    """Return what is sealed as one at this level."""
    if level is SealingLevel.EVENT:
        return [OpenPart("", list(columns))]
    return [OpenPart(one.column.uid, [one]) for one in columns]


def column_to_seal(column: Column, values: Sequence[Value] | None, divided: Division) -> OpenColumn:
    """Return a column with the lengths of its blocks, as far as it has several."""
    if not divided.numbers:
        return OpenColumn(column)
    lengths = equal_lengths(column.data, divided)
    if lengths is None:
        kind = kind_from_number(column.kind)
        known = decode_column(kind, column.data, divided.rows) if values is None else values
        lengths = row_lengths(column.data, kind, known, divided)
    return OpenColumn(column, lengths)


def _padding(length: int) -> bytes:
    whole = length + _LENGTH_BYTES
    if whole < _FIRST_LARGE:
        return _ZEROS[-whole % PADDED_TO]
    return bytes(-whole % (1 << (whole.bit_length() - 5)))


@lru_cache(maxsize=8192)
def is_uid(text: str) -> bool:
    """Say whether a text can be the uid of an attribute."""
    try:
        attribute_uid(text)
    except BadAttribute:
        return False
    return True


# ------------------------------------------------------------ writing and reading


def plaintext_of(part: OpenPart) -> bytes:
    """Return what is sealed: the content, with its length in front and zeros behind."""
    if not part.uid:
        content = content_of(part)
        length = len(content)
        return b"".join((length.to_bytes(_LENGTH_BYTES, "big"), content, _padding(length)))
    one = part.columns[0]
    column, lengths = one.column, pack_lengths(one.lengths)
    length = 1 + len(lengths) + len(column.data)
    head = _LENGTH_AND_KIND.pack(length, column.kind)
    return b"".join((head, lengths, column.data, _padding(length)))


def event_plaintext(columns: Sequence[Column]) -> bytes:
    """Return the same for all columns of a frame of one block."""
    return plaintext_of(OpenPart("", [OpenColumn(column) for column in columns]))


def whole_plaintexts(columns: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Yield the same for columns of one block, each given by its kind and bytes.

    One is written when the one before is sealed: a long one then lies where that was, and close by.
    """
    known, size, front, padding = -1, -1, b"", b""
    for kind, data in columns:
        if len(data) != size or kind != known:  # many are as long as the one before
            known, size = kind, len(data)
            front, padding = _LENGTH_AND_KIND.pack(1 + size, kind), _padding(1 + size)
        yield b"".join((front, data, padding))


def events_plaintexts(columns: Sequence[EventsColumn], level: SealingLevel) -> dict[str, Iterable[bytes]]:
    """Return the same for single events, what is sealed as one of each by its uid."""
    if level is SealingLevel.EVENT:
        of_each = zip(*[[(uid, _KIND_BYTES[kind] + one) for one in data] for uid, kind, data in columns])  # noqa: B905 - as many
        return {"": _padded(b"", list(map(_ENCODER.encode, of_each)))}
    return {uid: _padded(_KIND_BYTES[kind], data) for uid, kind, data in columns}


def _padded(kind: bytes, contents: Sequence[bytes]) -> Iterable[bytes]:
    """Return contents behind their length and kind, and with zeros behind them."""
    sizes = set(map(len, contents))
    ends = {one: (_LENGTH.pack(len(kind) + one) + kind, _padding(len(kind) + one)) for one in sizes}
    if len(ends) > 1:
        return [b"".join((ends[len(one)][0], one, ends[len(one)][1])) for one in contents]
    ((front, padding),) = ends.values()
    return map(b"".join, zip(repeat(front), contents, repeat(padding)))


def read_events(uid: str, plaintexts: Sequence[bytes]) -> EventsColumn:
    """Read one attribute of single events that were signed as one block each; refuse several kinds."""
    first, (starts, stop) = plaintexts[0], column_starts(1)
    end, data, kinds = _end_of_content(first), list[bytes](), {starts.get(first[_LENGTH_BYTES:stop], 0)}
    if end >= stop:  # many begin and end as the first, which is seen when they are written again
        data = [one[stop - 1 : end] for one in plaintexts]
        front, header, padding = first[: stop - 1], data[0][:1], first[end:]
        again = list(map(b"".join, zip(repeat(front), data, repeat(padding))))
        if again != plaintexts or b"".join(data)[:: len(data[0])] != header * len(data):
            data = []
    if not data:
        known = {one[:stop]: one for one in plaintexts}
        kinds = {starts.get(start[_LENGTH_BYTES:], 0) for start in known}
        ends = {start: (_end_of_content(one), one) for start, one in known.items()}
        for one in plaintexts:
            end, alike = ends[one[:stop]]
            if len(one) != len(alike) or one[end:] != alike[end:]:
                raise BadContent("what was sealed is not padded in its one form")
            data.append(one[stop - 1 : end])
    if len(kinds) > 1 or 0 in kinds:
        raise BadContent("what was sealed are no columns of one kind")
    return EventsColumn(uid, kinds.pop(), data)


def read_plaintext(uid: str, plaintext: bytes, *, blocks: int, rows: int) -> OpenPart:
    """Read what was sealed as one; `blocks` are those here, 0 if the frame was signed as one block."""
    end = _end_of_content(plaintext)
    if uid:
        return OpenPart(uid, [_read_column(uid, plaintext, _LENGTH_BYTES, end, blocks=blocks, rows=rows)])
    return read_content(uid, plaintext[_LENGTH_BYTES:end], blocks=blocks, rows=rows)


def read_whole_columns(uids: Iterable[str], plaintexts: Iterable[bytes], rows: int) -> list[Column]:
    """Read columns that were sealed as one each, in frames of so many rows that were signed as one block."""
    starts, stop = column_starts(rows)
    read, start, size, kind, end, padding = [], b"", -1, 0, 0, b""
    for uid, plaintext in zip(uids, plaintexts):  # noqa: B905 - the uid may be one for all
        if len(plaintext) != size or not plaintext.startswith(start):
            start, size, end = plaintext[:stop], len(plaintext), _end_of_content(plaintext)
            kind, padding = starts.get(start[_LENGTH_BYTES:], 0), plaintext[end:]
            if not kind:
                raise BadContent("what was sealed is no column of its frame")
        elif not plaintext.endswith(padding):  # many begin, and end, as the one before
            raise BadContent("what was sealed is not padded in its one form")
        read.append(Column(uid, kind, plaintext[5:end]))
    return read


@lru_cache(maxsize=4096)
def column_starts(rows: int) -> tuple[Mapping[bytes, int], int]:
    """Return how a column of so many rows may begin, with the kind that it has then, and where that ends."""
    header = array_header(rows)
    return {_KIND_BYTES[kind] + header: kind for kind in _KINDS}, _LENGTH_BYTES + 1 + len(header)


def _end_of_content(plaintext: bytes) -> int:
    """Return where the padding begins; refuse any but the one that there is."""
    if len(plaintext) < _LENGTH_BYTES:
        raise BadContent("what was sealed is not padded in its one form")
    length: int = _LENGTH.unpack_from(plaintext)[0]
    end = _LENGTH_BYTES + length
    if end > len(plaintext) or plaintext[end:] != _padding(length):
        raise BadContent("what was sealed is not padded in its one form")
    return end


def content_of(part: OpenPart) -> bytes:
    """Return a part in the clear, as it travels beside its ciphertext."""
    if part.uid:
        return _written(part.columns[0])
    return _ENCODER.encode([(one.column.uid, _written(one)) for one in part.columns])


def _written(one: OpenColumn) -> bytes:
    return _KIND_BYTES[one.column.kind] + pack_lengths(one.lengths) + one.column.data


def read_content(uid: str, content: bytes, *, blocks: int, rows: int) -> OpenPart:
    """Read what `content_of` wrote."""
    if uid:
        return OpenPart(uid, [_read_column(uid, content, 0, len(content), blocks=blocks, rows=rows)])
    try:
        found = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadContent("what was sealed is no list of columns") from problem
    if _ENCODER.encode(found) != content or len({uid for uid, _ in found}) != len(found):
        raise BadContent("sealed columns are not written in their one form")
    if not all(is_uid(uid) for uid, _ in found):
        raise BadContent("a sealed column belongs to no attribute")
    return OpenPart(
        uid, [_read_column(uid, each, 0, len(each), blocks=blocks, rows=rows) for uid, each in found]
    )


def _read_column(uid: str, content: bytes, at: int, end: int, *, blocks: int, rows: int) -> OpenColumn:
    """Read a column between two places; none of its values is read yet."""
    start = at + 1 + _LENGTH_BYTES * blocks
    header = array_header(rows)
    if end < start or (kind := content[at]) not in _KINDS or not content.startswith(header, start):
        raise BadContent("what was sealed is no column of its frame")
    data = content[start:end]
    if not blocks:
        return OpenColumn(Column(uid, kind, data))
    lengths = unpack_lengths(content, at + 1, blocks)
    if sum(lengths) + len(header) != len(data):
        raise BadContent("the blocks of a sealed column are not all of it")
    return OpenColumn(Column(uid, kind, data), lengths)


# ------------------------------------------------------------ what is said about each block


def leaves_of(
    part: OpenPart, salt: bytes, counter: bytes, *, blocks: Sequence[int], start: int
) -> list[bytes]:
    """Return the hash of each block that is here.

    `salt` and `counter` are of one length each. `blocks` are their numbers, empty if
    the frame was signed as one block, and `start` is where the rows of a column begin.
    """
    if not part.uid:
        return _leaves_of_several(part.columns, salt + counter, blocks or (0,), start)
    one = part.columns[0]
    data, salted = one.column.data, b"".join((salt, counter, _head(part.uid, one.column.kind)))
    if not blocks:
        return [sha256(b"".join((salted, _BLOCK_NUMBERS[0], data[start:]))).digest()]
    # What all blocks share is hashed once.
    leaves, copy = [], sha256(salted).copy
    for block, length in zip(blocks, one.lengths, strict=True):
        leaf = copy()
        end = start + length
        leaf.update(_BLOCK_NUMBERS[block] + data[start:end])
        leaves.append(leaf.digest())
        start = end
    return leaves


def leaves_of_parts(
    parts: Sequence[OpenPart], ciphers: Sequence[Cipher], counter: bytes, *, blocks: Sequence[int], start: int
) -> list[list[bytes]]:
    """Return the same for all parts of a frame, each with the salt of its cipher."""
    if blocks or (parts and not parts[0].uid):
        return [
            leaves_of(part, cipher.salt, counter, blocks=blocks, start=start)
            for part, cipher in zip(parts, ciphers, strict=True)
        ]
    columns = [part.columns[0].column for part in parts]
    return [[one] for one in whole_commitments(columns, ciphers, counter, start)]


def _leaves_of_several(
    columns: Sequence[OpenColumn], salting: bytes, blocks: Sequence[int], start: int
) -> list[bytes]:
    starts = [start] * len(columns)
    leaves = []
    for at, block in enumerate(blocks):
        message = [salting, _BLOCK_NUMBERS[block]]
        for number, one in enumerate(columns):
            column = one.column
            begin = starts[number]
            length = one.lengths[at] if one.lengths else len(column.data) - begin
            starts[number] = begin + length
            message += (_head(column.uid, column.kind), length.to_bytes(_LENGTH_BYTES, "big"))
            message.append(column.data[begin : begin + length])
        leaves.append(sha256(b"".join(message)).digest())
    return leaves


def whole_commitments(
    columns: Sequence[Column], ciphers: Sequence[Cipher], counter: bytes, start: int
) -> list[bytes]:
    """Return the same for the columns of a frame of one block: one hash each, which is the commitment."""
    return [
        sha256(b"".join((by.salt, counter, whole_head(one.uid, one.kind), one.data[start:]))).digest()
        for one, by in zip(columns, ciphers, strict=True)
    ]


@lru_cache(maxsize=8192)
def whole_head(uid: str, kind: int) -> bytes:
    """Return what is hashed between the salt of a column's only block and its values."""
    return _head(uid, kind) + _BLOCK_NUMBERS[0]


@lru_cache(maxsize=8192)
def _head(uid: str, kind: int) -> bytes:
    return bytes((len(uid),)) + uid.encode() + bytes((kind,))
