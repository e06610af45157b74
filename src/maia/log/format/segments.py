"""How do recorded frames become a Parquet file that Spark reads natively, and come back?

Rolling and compaction write, durable subscriptions read. One row is one frame,
in the order of positions. The file is made of bytes handed in and out; its
digest is in its name, so that a flipped bit is found before a row is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from maia.errors import ProtocolViolation
from maia.events import BadAttribute, Instant, attribute_uid
from maia.log.format.errors import LogDamaged
from maia.log.format.names import DIGEST_BYTES, SegmentName
from maia.log.format.records import LogRecord, type_id_of
from maia.wire.codec import decode_recorded
from maia.wire.messages import Column, Recorded, Sealed, SealedColumn, Unblinded

# One frame in one row of a table, and put together again, byte for byte.
#
# What Spark prunes by is in columns of its own. The bytes of each attribute
# stand in a column named by its uid, or sealed together in the column `sealed`.
# `header` is the message itself with holes where those bytes were: header and
# columns alone give back exactly the bytes that were on the wire, whatever
# fields later versions of the messages have. A message that cannot be laid out
# so (two columns of one uid, say) is whole in `header`, and has no level. A sealed
# single event is whole in `header` as well.


SEALED_COLUMN: Final = "sealed"
"""The column with the bytes of a frame that is sealed as a whole."""

_TIME: Final = pa.timestamp("us", tz="UTC")
_SCHEMA: Final = pa.schema(
    [
        pa.field("position", pa.int64(), nullable=False),
        pa.field("recorded_at", _TIME, nullable=False),
        pa.field("level", pa.int8()),
        pa.field("epoch", pa.int64()),
        pa.field("publisher", pa.binary()),
        pa.field("stream", pa.binary()),
        pa.field("sequence", pa.int64()),
        pa.field("published_at", _TIME, nullable=False),
        pa.field("rows", pa.int32(), nullable=False),
        pa.field("kept", pa.list_(pa.int32()), nullable=False),
        pa.field("header", pa.binary(), nullable=False),
    ]
)
HEADER_COLUMNS: Final = tuple(_SCHEMA.names)
_TAKEN: Final = frozenset((*HEADER_COLUMNS, SEALED_COLUMN, "type", "day"))
_ENCODER: Final = msgspec.msgpack.Encoder()
_SEALED_AT: Final = SealedColumn.__struct_fields__.index("sealed")
_DATA_AT: Final = Column.__struct_fields__.index("data")
_WHOLE: Final = 0
_PARTS: Final = 1


@dataclass(frozen=True, slots=True)
class SegmentRow:
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


def row_of(message: bytes, *, position: int, recorded_at: int) -> SegmentRow:
    try:
        frame = decode_recorded(message)
    except ProtocolViolation:
        # Bytes that are no message of today are kept all the same.
        whole = _ENCODER.encode([_WHOLE, message])
        return SegmentRow(position, recorded_at, None, None, None, None, None, recorded_at, 0, (), whole, {})
    can_be_parted = _can_be_parted(frame)
    # A single event is proved by all of its ciphertexts, which are short: no reader does without one of them.
    is_parted = can_be_parted and not (isinstance(frame, Sealed) and not frame.is_committed)
    header, parts = _parted(message, frame) if is_parted else (_ENCODER.encode([_WHOLE, message]), {})
    publisher, stream, sequence = frame.publisher, frame.stream, frame.sequence
    if isinstance(frame, Unblinded):
        publisher, stream, sequence = frame.inner_publisher, frame.inner_stream, frame.inner_sequence
    return SegmentRow(
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


def _can_be_parted(frame: Recorded) -> bool:
    """Return whether each column of the frame has a column of its own in a table."""
    uids = [column.uid for column in frame.columns]
    if _level(frame) == 1:
        return uids[:1] == [""] and len(set(uids)) == len(uids) and all(map(_is_uid, uids[1:]))
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
    except (
        msgspec.MsgspecError,
        UnicodeDecodeError,
        IndexError,
        TypeError,
        KeyError,
        RecursionError,
    ) as problem:
        raise ProtocolViolation("LOG-ROW", "the header of a row is none") from problem
    raise ProtocolViolation("LOG-ROW", "the header of a row has an unknown form")


def _part(parts: Mapping[str, bytes | None], uid: str) -> bytes:
    part = parts.get(column_name(uid))
    if part is None:
        raise ProtocolViolation(
            "LOG-ROW", f"the bytes of attribute `{ascii(uid[:64])[1:-1]}` are missing from a row"
        )
    return part


SEGMENT_COLUMNS_MAX: Final = 4096
"""How many attributes may have a column in one segment."""

ROWS_IN_GROUP: Final = 4096
GROUP_BYTES: Final = 2 << 20
"""A row group has at most so many frames, and about so many bytes: it is the least that a task can read."""
_PRUNED_BY: Final = [name for name in HEADER_COLUMNS if name not in {"kept", "header"}]
_REPEATED: Final = ["level", "epoch", "publisher", "stream"]


def digest_of(data: bytes) -> bytes:
    """Return the digest that a segment's name carries."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


# ------------------------------------------------------------ writing


def table_of(rows: Sequence[SegmentRow]) -> pa.Table:
    """Return frames as a table; the columns of attributes follow in the order of their names."""
    names = sorted({name for row in rows for name in row.parts})
    arrays = [pa.array([getattr(row, field.name) for row in rows], type=field.type) for field in _SCHEMA]
    arrays += [pa.array([row.parts.get(name) for row in rows], type=pa.binary()) for name in names]
    return pa.Table.from_arrays(arrays, schema=_schema(names))


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return several tables, in the order of their positions, as one with the columns of all."""
    names = sorted({name for table in tables for name in table.column_names} - set(HEADER_COLUMNS))
    schema = _schema(names)
    return pa.concat_tables([_widened(table, schema) for table in tables]).combine_chunks()


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    arrays = [
        table.column(field.name)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, type=field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([*_SCHEMA, *(pa.field(name, pa.binary()) for name in names)])


def parquet_bytes(table: pa.Table, type_id: bytes) -> bytes:
    """Return a Parquet file. Its pages have checksums; statistics are kept of what is pruned by."""
    rows = _rows_in_group(table, table.nbytes)
    data = _in_groups(table, type_id, rows)
    # What is sealed does not become smaller. What does is written again, if its groups may then be larger.
    larger = _rows_in_group(table, len(data))
    return _in_groups(table, type_id, larger) if larger > 2 * rows else data


def _rows_in_group(table: pa.Table, size: int) -> int:
    rows: int = table.num_rows * GROUP_BYTES // max(size, GROUP_BYTES)
    return min(max(1, rows), ROWS_IN_GROUP)


def _in_groups(table: pa.Table, type_id: bytes, rows: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({b"maia.type_id": type_id.hex().encode()}),
        sink,
        row_group_size=rows,
        compression="zstd",
        use_dictionary=_REPEATED,
        write_statistics=_PRUNED_BY,
        write_page_checksum=True,
        store_schema=False,
    )
    data: bytes = sink.getvalue().to_pybytes()
    return data


# ------------------------------------------------------------ reading


def verified_file(data: bytes, name: SegmentName) -> pq.ParquetFile:
    """Return a file whose bytes are those that were written; refuse any other."""
    if digest_of(data) != name.digest:
        raise LogDamaged(name.path, 0, "it does not match the digest in its name")
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        found = file.schema_arrow.remove_metadata()
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise LogDamaged(name.path, 0, "it is no Parquet file") from problem
    if found != _schema([one for one in found.names if one not in HEADER_COLUMNS]):
        raise LogDamaged(name.path, 0, "it has other columns than a segment")
    return file


def records_in(data: bytes, name: SegmentName, *, from_position: int = 1) -> Iterator[LogRecord]:
    """Yield the records of a segment from a position on; refuse one that holds others than it says."""
    file = verified_file(data, name)
    before = name.first - 1
    for number in range(file.num_row_groups):
        try:
            # Not by the statistics: Arrow ends the process where a file lies about the kind of a column.
            if from_position > 1:
                positions = file.read_row_group(number, columns=["position"]).column(0).to_pylist()
                if max(positions, default=0) < from_position:
                    continue
            table = file.read_row_group(number)
        except (pa.ArrowException, OSError, ValueError) as problem:
            raise LogDamaged(name.path, 0, "a part of it cannot be read") from problem
        for record in _records(table, name):
            if not before < record.position <= name.last or type_id_of(record.message) != name.type_id:
                raise LogDamaged(name.path, 0, f"record {record.position} does not belong there")
            before = record.position
            if record.position >= from_position:
                yield record


def _records(table: pa.Table, name: SegmentName) -> Iterator[LogRecord]:
    positions = table.column("position").to_pylist()
    recorded = table.column("recorded_at").cast(pa.int64()).to_pylist()
    headers = table.column("header").to_pylist()
    columns = [one for one in table.column_names if one not in HEADER_COLUMNS]
    values = [table.column(one).to_pylist() for one in columns]
    # Any: what a column of binaries holds, which Arrow does not say.
    rows: Iterator[tuple[Any, ...]] = zip(*values, strict=True) if values else iter([()] * len(positions))
    for position, at, header, row in zip(positions, recorded, headers, rows, strict=True):
        try:
            message = message_of(header, dict(zip(columns, row, strict=True)))
        except ProtocolViolation as problem:
            raise LogDamaged(name.path, 0, f"record {position}: {problem.message}") from problem
        yield LogRecord(position, Instant(at), message)
