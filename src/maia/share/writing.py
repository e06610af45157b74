"""How does what a right shows become files?

Rows come from the View that decides for every reader of a log (`spark/governed`), without the columns
that the right never shows: neither their values nor their names are in a file. Beside each file lies
which rows of which frames it shows, so that it can be put on record for whoever is handed it, without
opening a frame again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from maia.share.files import PARQUET, READS, SharedFiles
from maia.share.versions import SharedFile
from maia.spark.governed.log_folder import LogFrames
from maia.spark.governed.reading_ledger import ReadingLedger, SeenBatch, SeenRows, ShownFrames

FILE_ROWS: Final = 1 << 20
FILE_BYTES: Final = 128 << 20
"""Rows, and bytes in memory, after which a file ends."""
_GROUP_ROWS: Final = 1 << 17
_PART_ROWS: Final = 1 << 18
"""Rows that one part of the ledger is about."""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """Some periods of a right, and how what they show is put on record."""

    seen: SeenRows
    ledger: ReadingLedger = field(repr=False)


@dataclass(slots=True)
class _Begun:
    """What waits for its file: rows, and what their reading puts on record."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    drafts: list[tuple[int, ShownFrames]] = field(default_factory=list)
    """Each with the number of its part of the right."""
    draft_rows: int = 0

    def add(self, part: int, delivered: Sequence[Any], seen: SeenBatch) -> None:
        """Add what one batch shows."""
        if not self.drafts or self.drafts[-1][0] != part or self.draft_rows >= _PART_ROWS:
            self.drafts.append((part, ShownFrames(delivered)))
            self.draft_rows = 0
        self.drafts[-1][1].add(seen)
        self.batches.append(seen.shown)
        self.rows += seen.shown.num_rows
        self.draft_rows += seen.shown.num_rows
        self.size += seen.shown.nbytes

    @property
    def is_full(self) -> bool:
        """Return whether it is enough for one file."""
        return self.rows >= FILE_ROWS or self.size >= FILE_BYTES


def write_files(
    parts: Sequence[ShownPart],
    schema: pa.Schema,
    files: SharedFiles,
    *,
    between: tuple[int, int],
    needed: Iterable[str] = (),
) -> Iterator[SharedFile]:
    """Write what is shown of the frames between two positions, both included; yield each file."""
    kept = set(needed)

    def ended(begun: _Begun) -> SharedFile:
        made = _written(begun, schema, files, kept)
        kept.update(made.names)
        return made

    begun = _Begun()
    for number, part in enumerate(parts):
        opener = part.seen.opener
        ranges = LogFrames(opener.wanted).ranges(between)
        for seen in part.seen.of(chain.from_iterable(map(opener.opened, ranges))):
            if not seen.shown.num_rows:
                continue
            begun.add(number, part.seen.delivered, seen)
            if begun.is_full:
                yield ended(begun)
                begun = _Begun()
    if begun.rows:
        yield ended(begun)


def _written(begun: _Begun, schema: pa.Schema, files: SharedFiles, needed: set[str]) -> SharedFile:
    drafts = msgspec.msgpack.encode([(part, draft.to_bytes()) for part, draft in begun.drafts])
    reads, reads_size = files.put(drafts, READS, needed)
    with files.writing() as path:
        table = pa.Table.from_batches(begun.batches, schema)
        pq.write_table(table, path, compression="zstd", row_group_size=_GROUP_ROWS, store_schema=False)
        file, size = files.keep(path, PARQUET, {*needed, reads + READS})
    del reads_size
    return SharedFile(file, reads, size, begun.rows)


def put_on_record(parts: Sequence[ShownPart], drafts: bytes, read: str) -> None:
    """Put a file on record for a reader who has these parts: before it is handed out."""
    for number, draft in msgspec.msgpack.decode(drafts, type=list[tuple[int, bytes]]):
        parts[number].ledger.write(ShownFrames.from_bytes(draft), read)
