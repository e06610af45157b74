"""How does a ledger become a table that Spark, DuckDB and others read?

One row for each recipient and run of rows of a frame, so that a question about rows is a
comparison with `first_row` and `last_row`, and a join with the event log is one on publisher, stream
and sequence. The ledger is verified as it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.ledger.files import disclosures_in

__all__ = ["SCHEMA", "export_ledger"]

SCHEMA: Final = pa.schema(
    [
        ("delivered_at", pa.timestamp("us", tz="UTC")),
        ("broker", pa.binary()),
        ("recipient", pa.binary()),
        ("type_id", pa.binary()),
        ("version_id", pa.binary()),
        ("view", pa.binary()),
        ("certificates", pa.list_(pa.binary())),
        ("publisher", pa.binary()),
        ("stream", pa.binary()),
        ("sequence", pa.int64()),
        ("first_row", pa.int64()),
        ("last_row", pa.int64()),
        ("attributes", pa.list_(pa.string())),
    ]
)
_AT_ONCE: Final = 65_536


def export_ledger(folder: Path, out: Path) -> int:
    """Write all deliveries of a ledger to one Parquet file; return how many rows it has."""
    written, rows = 0, _rows(folder)
    unfinished = out.with_name(out.name + ".unfinished")
    with pq.ParquetWriter(unfinished, SCHEMA, compression="zstd") as writer:
        while some := list(islice(rows, _AT_ONCE)):
            columns = [
                pa.array(column, type=one.type)
                for one, column in zip(SCHEMA, zip(*some, strict=True), strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
            written += len(some)
    unfinished.replace(out)
    return written


def _rows(folder: Path) -> Iterator[tuple[object, ...]]:
    for one in disclosures_in(folder):
        by = one.broker, one.recipient, one.type_id, one.version, one.view, list(one.certificates)
        frame = one.publisher, one.stream, one.sequence
        for at in range(0, len(one.ranges), 2):
            first, last = one.ranges[at], one.ranges[at] + one.ranges[at + 1]
            yield (int(one.at), *by, *frame, first, last, list(one.attributes))
