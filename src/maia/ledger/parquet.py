"""How does a ledger become a table that Spark, DuckDB and others read?

One row for each recipient and run of rows of a frame, so that a question about rows is a
comparison with `first_row` and `last_row`, and a join with the event log is one on publisher, stream
and sequence. The ledger is verified as it is read.

A broker rolls each file of its ledger that is closed into a table of its own, as it does with its log. The
ledger stays: it is what is verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.ledger.files import LedgerFolder, disclosures_in, disclosures_of
from maia.ledger.records import Disclosure
from maia.private_files import create_private, make_private_folder

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


def export_ledger(folder: LedgerFolder, out: Path) -> int:
    """Write all deliveries of a ledger to one Parquet file; return how many rows it has."""
    return _written(_rows(disclosures_in(folder)), out)


def roll_ledger(closed: Iterable[Path], out: Path) -> list[Path]:
    """Write a table for each closed file of a ledger that has none yet in `out`; return the new ones."""
    make_private_folder(out)
    new = [(path, table) for path in closed if not (table := out / f"{path.stem}.parquet").exists()]
    for path, table in new:
        _written(_rows(disclosures_of(path)), table)
    return [table for _, table in new]


def _written(rows: Iterator[tuple[object, ...]], out: Path) -> int:
    # Readers of folders leave out what begins with a dot.
    written, unfinished = 0, out.with_name(f".{out.name}.unfinished")
    with create_private(unfinished) as file, pq.ParquetWriter(file, SCHEMA, compression="zstd") as writer:
        while some := list(islice(rows, _AT_ONCE)):
            columns = [
                pa.array(column, type=one.type)
                for one, column in zip(SCHEMA, zip(*some, strict=True), strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=SCHEMA))
            written += len(some)
    unfinished.replace(out)
    return written


def _rows(disclosures: Iterable[Disclosure]) -> Iterator[tuple[object, ...]]:
    for one in disclosures:
        by = one.broker, one.recipient, one.type_id, one.version, one.view, list(one.certificates)
        frame = one.publisher, one.stream, one.sequence
        for at in range(0, len(one.ranges), 2):
            first, last = one.ranges[at], one.ranges[at] + one.ranges[at + 1]
            yield (int(one.at), *by, *frame, first, last, list(one.attributes))
