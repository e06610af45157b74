"""How do recorded frames become a Parquet file that Spark reads natively, and come back?

Rolling and compaction write, durable subscriptions read. One row is one frame,
in the order of positions. The file is made of bytes handed in and out; its
digest is in its name, so that a flipped bit is found before a row is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.errors import ProtocolViolation
from maia.events import Instant
from maia.log.format.errors import LogDamaged
from maia.log.format.names import DIGEST_BYTES, SegmentName
from maia.log.format.records import LogRecord, type_id_of
from maia.log.format.rows import HEADER_COLUMNS, Row, message_of

SEGMENT_COLUMNS_MAX: Final = 4096
"""How many attributes may have a column in one segment."""

ROWS_IN_GROUP: Final = 4096
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
_PRUNED_BY: Final = [name for name in HEADER_COLUMNS if name not in {"kept", "header"}]
_REPEATED: Final = ["level", "epoch", "publisher", "stream"]


def digest_of(data: bytes) -> bytes:
    """Return the digest that a segment's name carries."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


# ------------------------------------------------------------ writing


def table_of(rows: Sequence[Row]) -> pa.Table:
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
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({b"maia.type_id": type_id.hex().encode()}),
        sink,
        row_group_size=ROWS_IN_GROUP,
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
        return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
    except (pa.ArrowException, OSError) as problem:
        raise LogDamaged(name.path, 0, "it is no Parquet file") from problem


def records_in(data: bytes, name: SegmentName, *, from_position: int = 1) -> Iterator[LogRecord]:
    """Yield the records of a segment from a position on; refuse one that holds others than it says."""
    file = verified_file(data, name)
    before = name.first - 1
    for number in range(file.num_row_groups):
        if _last_position(file, number) < from_position:
            continue
        for record in _records(file.read_row_group(number), name):
            if not before < record.position <= name.last or type_id_of(record.message) != name.type_id:
                raise LogDamaged(name.path, 0, f"record {record.position} does not belong there")
            before = record.position
            if record.position >= from_position:
                yield record


def _last_position(file: pq.ParquetFile, number: int) -> int:
    return int(file.metadata.row_group(number).column(0).statistics.max)


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
