"""How does one frame lie in one row of a table, and how is it put together again, byte for byte?

What Spark prunes by is in columns of its own. The bytes of each attribute
stand in a column named by its uid, or sealed together in the column `sealed`.
`header` is the message itself with holes where those bytes were: header and
columns alone give back exactly the bytes that were on the wire, whatever
fields later versions of the messages have. A message that cannot be laid out
so (two columns of one uid, say) is whole in `header`, and has no level. A sealed single
event is whole in `header` as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from maia.errors import ProtocolViolation
from maia.events import BadAttribute, attribute_uid
from maia.wire.codec import decode_recorded
from maia.wire.messages import Column, Recorded, Sealed, SealedColumn, Unblinded

SEALED_COLUMN: Final = "sealed"
"""The column with the bytes of a frame that is sealed as a whole."""

HEADER_COLUMNS: Final = (
    "position",
    "recorded_at",
    "level",
    "epoch",
    "publisher",
    "stream",
    "sequence",
    "published_at",
    "rows",
    "kept",
    "header",
)
_TAKEN: Final = frozenset((*HEADER_COLUMNS, SEALED_COLUMN, "type", "day"))
_ENCODER: Final = msgspec.msgpack.Encoder()
_SEALED_AT: Final = SealedColumn.__struct_fields__.index("sealed")
_DATA_AT: Final = Column.__struct_fields__.index("data")
_WHOLE: Final = 0
_PARTS: Final = 1


class BadRow(ProtocolViolation):
    """A row does not hold what a frame needs to be put together."""

    code = "LOG-ROW"


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded frame, as it lies in a table; `parts` by the name of their column."""

    position: int
    recorded_at: int
    level: int | None
    epoch: int | None
    publisher: bytes | None
    stream: bytes | None
    sequence: int | None
    published_at: int
    rows: int
    kept: Sequence[int]
    header: bytes = field(repr=False)
    parts: Mapping[str, bytes] = field(repr=False)


@lru_cache(maxsize=8192)
def column_name(uid: str) -> str:
    """Return the column of an attribute: its uid, or with `uid_` before it where a column has that name.

    No uid has an underscore, so no two attributes share a column. The empty uid means all.
    """
    if not uid:
        return SEALED_COLUMN
    return f"uid_{uid}" if uid in _TAKEN else uid


# ------------------------------------------------------------ taking apart


def row_of(message: bytes, *, position: int, recorded_at: int) -> Row:
    """Return the row of a recorded message."""
    try:
        frame = decode_recorded(message)
    except ProtocolViolation:
        return _unreadable(message, position=position, recorded_at=recorded_at)
    can_be_parted = _can_be_parted(frame)
    # A single event is proved by all of its ciphertexts, which are short: no reader does without one of them.
    is_parted = can_be_parted and not (isinstance(frame, Sealed) and not frame.block_rows)
    header, parts = _parted(message, frame) if is_parted else (_ENCODER.encode([_WHOLE, message]), {})
    publisher, stream, sequence = frame.publisher, frame.stream, frame.sequence
    if isinstance(frame, Unblinded):
        publisher, stream, sequence = frame.inner_publisher, frame.inner_stream, frame.inner_sequence
    return Row(
        position=position,
        recorded_at=recorded_at,
        level=_level(frame) if can_be_parted else None,
        epoch=frame.epoch if isinstance(frame, Sealed) else None,
        publisher=publisher,
        stream=stream,
        sequence=sequence,
        published_at=frame.published_at,
        rows=frame.rows,
        kept=frame.kept,
        header=header,
        parts=parts,
    )


def _level(frame: Recorded) -> int:
    return frame.level if isinstance(frame, Sealed) else 0


def _unreadable(message: bytes, *, position: int, recorded_at: int) -> Row:
    """Return a row for bytes that are no message of today, so that they are kept all the same."""
    whole = _ENCODER.encode([_WHOLE, message])
    return Row(position, recorded_at, None, None, None, None, None, recorded_at, 0, (), whole, {})


def _can_be_parted(frame: Recorded) -> bool:
    """Say whether each column of the frame has a column of its own in a table."""
    uids = [column.uid for column in frame.columns]
    if _level(frame) == 1:
        return uids == [""]
    return len(set(uids)) == len(uids) and all(map(_is_uid, uids))


@lru_cache(maxsize=8192)
def _is_uid(text: str) -> bool:
    try:
        attribute_uid(text)
    except BadAttribute:
        return False
    return True


def _parted(message: bytes, frame: Recorded) -> tuple[bytes, dict[str, bytes]]:
    """Return the message with holes where the bytes of columns were, and those bytes."""
    # One more than the field's place: the number of the message comes first.
    columns_at = frame.__struct_fields__.index("columns") + 1
    hole_at = _SEALED_AT if isinstance(frame, Sealed) else _DATA_AT
    skeleton = msgspec.msgpack.decode(message)
    parts: dict[str, bytes] = {}
    for column in skeleton[columns_at]:
        parts[column_name(column[0])] = column[hole_at]
        column[hole_at] = None
    return _ENCODER.encode([_PARTS, columns_at, hole_at, skeleton]), parts


# ------------------------------------------------------------ putting together


def message_of(header: bytes, parts: Mapping[str, bytes | None]) -> bytes:
    """Return the bytes of a message as they were on the wire; `parts` may hold columns of other frames."""
    try:
        match msgspec.msgpack.decode(header):
            case [0, bytes(message)]:
                return message
            case [1, int(columns_at), int(hole_at), list(skeleton)]:
                for column in skeleton[columns_at]:
                    column[hole_at] = _part(parts, column[0])
                return _ENCODER.encode(skeleton)
    except (msgspec.MsgspecError, UnicodeDecodeError, IndexError, TypeError, KeyError) as problem:
        raise BadRow("the header of a row is none") from problem
    raise BadRow("the header of a row has an unknown form")


def _part(parts: Mapping[str, bytes | None], uid: str) -> bytes:
    part = parts.get(column_name(uid))
    if part is None:
        raise BadRow(f"the bytes of attribute `{ascii(uid[:64])[1:-1]}` are missing from a row")
    return part
