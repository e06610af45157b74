"""Which frames does a batch of derived events become, however often it is computed?

Spark may compute a batch again: after a death between publication and its own
commit, the same rows come back, in other partitions and in another order. So
the rows are put in one order that depends on nothing but themselves, cut into
frames that depend on nothing but the rows, and numbered from the batch's own
number. The network knows a frame by publisher, stream and number, and takes
the second time for what it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from maia.errors import BadInput

__all__ = [
    "FRAMES_PER_BATCH_MAX",
    "BatchTooLarge",
    "first_number",
    "frames_of",
    "in_one_order",
    "stream_of",
]

_FRAME_ROWS: Final = 1024
_FRAME_BYTES: Final = 1 << 19
"""Half of what a client puts into one frame: no frame is cut again on its way."""
_NUMBERS: Final = 20
FRAMES_PER_BATCH_MAX: Final = 1 << _NUMBERS


class BatchTooLarge(BadInput):
    """A batch of derived events is larger than one batch may be."""

    code = "INPUT-SPARK-BATCH-SIZE"


def stream_of(query: str, type_id: bytes) -> bytes:
    """Return the stream of everything that one query, or one named job, publishes of one type."""
    return sha256(b"maia/1/spark\0" + query.encode() + b"\0" + type_id).digest()[:16]


def first_number(batch_id: int) -> int:
    """Return the number of a batch's first frame: room for a million of them lies before the next."""
    if not 0 <= batch_id < 1 << (62 - _NUMBERS):
        raise BatchTooLarge(f"`{batch_id}` is no number of a batch")
    return batch_id << _NUMBERS


def in_one_order(table: pa.Table, names: Sequence[str], first: Sequence[str] = ()) -> pa.Table:
    """Return the same rows in an order that depends on nothing but the rows, `first` before the others."""
    columns = [*first, *(name for name in names if name not in first)]
    ordered = [name for name in columns if name in table.column_names]
    if table.num_rows < 2 or not ordered:
        return table
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in ordered]))


def frames_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut rows into frames: full in rows, or smaller where rows are long."""
    count = 0
    whole = table.combine_chunks()
    for start in range(0, whole.num_rows, _FRAME_ROWS):
        for part in _halved(whole.slice(start, _FRAME_ROWS)):
            count += 1
            if count > FRAMES_PER_BATCH_MAX:
                raise BatchTooLarge(f"a batch has more than {FRAMES_PER_BATCH_MAX} frames")
            yield part.combine_chunks().to_batches()[0]


def _halved(rows: pa.Table) -> Iterator[pa.Table]:
    """Halve what is too long, again and again; there are ten halves in a frame."""
    if rows.num_rows <= 1 or rows.nbytes <= _FRAME_BYTES:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _halved(rows.slice(0, middle))
    yield from _halved(rows.slice(middle))
