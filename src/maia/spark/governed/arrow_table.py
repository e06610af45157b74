"""What may this reader see of the recorded events of a type, as Arrow batches, without Spark?

The decision is that of a Spark table (`plan.py`), and frames are found, opened and proved by the same code
(`log_folder.py`, `frame_reader.py`); the View goes through Arrow's kernels. For what one machine holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from maia.clock import system_now
from maia.events import SECOND, Attribute, Instant
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.policy.view import is_summarised, split
from maia.spark.governed.frame_reader import META, FrameOpener
from maia.spark.governed.log_folder import LogFrames, Wanted, columns_to_read
from maia.spark.governed.plan import GovernedRead, Plan, check_on_record, steady_spans, summary_of_frames
from maia.spark.governed.reading_ledger import ShownRows, put_on_record
from maia.spark.governed.right_watch import Watch
from maia.views.arrow_executor import ARROW_TYPES, to_arrow_rows, to_arrow_summary

__all__ = ["ArrowTable"]


class ArrowTable:
    """What a reader sees of a log; each reading is of what the log has by then."""

    def __init__(
        self,
        read: GovernedRead,
        *,
        log: str,
        watch: Watch | None = None,
        ledger: Path | None = None,
        keys: TransformationKeys = NO_KEYS,
        clock: Callable[[], Instant] = system_now,
    ) -> None:
        """Lay out the keys, and have the right looked after; `governed` says what each argument is."""
        check_on_record(read.versions, ledger)
        if ledger is not None and read.is_summary:
            raise summary_of_frames()
        self._shown, self._log, self._ledger, self._keys, self._clock = read, log, ledger, keys, clock
        self._read = read if ledger is None else read.with_frames()
        # Summaries go by the moments of publication.
        opens = replace(self._read, with_meta=self._read.with_meta or read.is_summary)
        self._openers = [opens.opener(plan) for plan in read.plans]
        read.warn_of_gaps(log)
        if watch is not None:
            watch.begin(read.held())

    @property
    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return _schema(self._shown)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what the log shows now, period by period; raise if the right has ended meanwhile."""
        if self._ledger is not None:
            yield from self.read().to_batches()
            return
        for plan, opener in zip(self._read.plans, self._openers, strict=True):
            is_summary = is_summarised(plan.slice.view)
            yield from self._summarised(plan, opener) if is_summary else self._seen(plan, opener)

    def read(self) -> pa.Table:
        """Return what the log shows now; with a ledger, all of it is on record before."""
        if self._ledger is None:
            return pa.Table.from_batches(self.batches(), self.schema)
        parts = [
            (plan, list(self._seen(plan, opener)))
            for plan, opener in zip(self._read.plans, self._openers, strict=True)
        ]
        put_on_record(
            self._ledger,
            [(plan.slice, _shown_rows(batches, self._read.delivered)) for plan, batches in parts],
            request=self._read.request,
            reader=self._read.reader,
            now=self._clock(),
        )
        found = pa.Table.from_batches([one for _, batches in parts for one in batches], _schema(self._read))
        return found.select(self.schema.names)

    def _seen(self, plan: Plan, opener: FrameOpener) -> Iterator[pa.RecordBatch]:
        """Yield what one period shows: open, then the View."""
        see = to_arrow_rows(plan.slice.view, dict(plan.kinds), self._read.delivered, self._keys)
        schema = _schema(self._read)
        for rows in self._opened(plan, opener):
            seen, numbers = see(rows)
            about = [rows.column(name).take(numbers) for name in META if self._read.with_meta]
            yield pa.RecordBatch.from_arrays([*seen.columns, *about], schema=schema) if schema else seen

    def _summarised(self, plan: Plan, opener: FrameOpener) -> Iterator[pa.RecordBatch]:
        """Yield what events come to in the periods that lie wholly within a time of the same right."""
        summary, spans = split(plan.slice.view).summary, steady_spans(plan.slice)
        summarise = to_arrow_summary(plan.slice.view, dict(plan.kinds), self._read.delivered, self._keys)
        every, late = summary.every_s * SECOND, summary.late_s * SECOND
        rows = pa.Table.from_batches(self._opened(plan, opener), opener.schema)
        starts = [one - one % every for one in rows.column("_published_at").cast(pa.int64()).to_pylist()]
        within = [any(a <= one and one + every + late <= b for a, b in spans) for one in starts]
        for batch in rows.filter(pa.array(within, pa.bool_())).combine_chunks().to_batches():
            yield summarise(batch, batch.column("_published_at"), self._clock())

    def _opened(self, plan: Plan, opener: FrameOpener) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one period, file by file; before each, the desk says whether it may be read."""
        since, until = int(plan.slice.since), int(plan.slice.until)
        wanted = Wanted(self._log, self._read.event_type.type_id, since, until)
        frames = LogFrames(wanted, columns_to_read(plan.kinds))
        for stretch in filter(frames.may_hold, frames.found().stretches):
            yield from opener(frames.batches(stretch))


def _schema(read: GovernedRead) -> pa.Schema:
    meta = [pa.field(name, kind) for name, kind in META.items() if read.with_meta]
    return pa.schema([*(pa.field(one.name, ARROW_TYPES[one.kind]) for one in read.delivered), *meta])


def _shown_rows(batches: Sequence[pa.RecordBatch], delivered: Sequence[Attribute]) -> Iterator[ShownRows]:
    """Yield, for each frame, rows that show the same attributes."""
    found: defaultdict[tuple[bytes, bytes, int, tuple[str, ...]], set[int]] = defaultdict(set)
    for batch in batches:
        valid = [batch.column(one.name).is_valid().to_pylist() for one in delivered]
        uids = sorted(range(len(delivered)), key=lambda at: delivered[at].uid)
        frame = [batch.column(name).to_pylist() for name in ("_publisher", "_stream", "_sequence", "_row")]
        for number, (publisher, stream, sequence, row) in enumerate(zip(*frame, strict=True)):
            shown = tuple(str(delivered[at].uid) for at in uids if valid[at][number])
            found[publisher, stream, sequence, shown].add(row)
    for (publisher, stream, sequence, shown), rows in found.items():
        yield ShownRows(publisher, stream, sequence, shown, rows)
