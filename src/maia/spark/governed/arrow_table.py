"""What may this reader see of the recorded events of a type, as Arrow batches, without Spark?

The decision is that of a Spark table (`plan.py`), and frames are found, opened and proved by the same code
(`opener.py`); the View goes through Arrow's kernels. For what one machine holds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from maia.clock import system_now
from maia.events import SECOND, Attribute, Instant
from maia.expressions.meaning import NO_KEYS
from maia.policy.view import is_summarised, split
from maia.spark.governed.log_folder import LogFrames
from maia.spark.governed.opener import META, FrameOpener
from maia.spark.governed.plan import GovernedRead, Plan, check_on_record, steady_spans, summary_of_frames
from maia.spark.governed.reading_ledger import ShownRows, put_on_record
from maia.views.arrow_executor import ARROW_TYPES, to_arrow_rows, to_arrow_summary

__all__ = ["ArrowTable"]


class ArrowTable:
    """What a reader sees of a log; each reading is of what the log has by then."""

    def __init__(
        self,
        read: GovernedRead,
        *,
        log: str,
        ledger: Path | None = None,
        clock: Callable[[], Instant] = system_now,
    ) -> None:
        """Lay out the keys, and have the right looked after; `governed` says what each argument is."""
        check_on_record(read.access.versions, ledger)
        if ledger is not None and read.is_summary:
            raise summary_of_frames()
        secrets = read.access.secrets
        self._secrets = NO_KEYS if secrets is None else secrets.transformation_keys()
        self._shown, self._ledger, self._clock = read, ledger, clock
        self._read = read if ledger is None else read.with_frames()
        # Summaries go by the moments of publication.
        self._parts = [
            (plans, self._read.opener(read.wanted(log, plans), plans, with_meta=read.is_summary))
            for plans in read.parts
        ]
        read.warn_of_gaps(log)

    @property
    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return _schema(self._shown)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what the log shows now; raise if the right has ended meanwhile."""
        if self._ledger is not None:
            yield from self.read().to_batches()
            return
        for plans, opener in self._parts:
            if is_summarised(plans[0].slice.view):
                yield from self._summarised(plans[0], opener)
            else:
                yield from (batch for _, batch in self._seen(plans, opener))

    def read(self) -> pa.Table:
        """Return what the log shows now; with a ledger, all of it is on record before."""
        if self._ledger is None:
            return pa.Table.from_batches(self.batches(), self.schema)
        ((plans, opener),) = self._parts
        found: list[list[pa.RecordBatch]] = [[] for _ in plans]
        for number, batch in self._seen(plans, opener):
            found[number].append(batch)
        put_on_record(
            self._ledger,
            [
                (one.slice, _shown_rows(batches, self._read.delivered))
                for one, batches in zip(plans, found, strict=True)
            ],
            request=self._read.request,
            reader=self._read.access.reader,
            now=self._clock(),
        )
        whole = pa.Table.from_batches([one for batches in found for one in batches], _schema(self._read))
        return whole.select(self.schema.names)

    def _seen(self, plans: Sequence[Plan], opener: FrameOpener) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield what some periods show: open, then the View of the rows' period."""
        read, schema = self._read, _schema(self._read)
        views = [
            to_arrow_rows(one.slice.view, dict(one.kinds), read.delivered, self._secrets) for one in plans
        ]
        for number, rows in _opened(opener):
            seen, numbers = views[number](rows)
            about = [rows.column(name).take(numbers) for name in read.meta]
            made = pa.RecordBatch.from_arrays([*seen.columns, *about], schema=schema) if schema else seen
            yield number, made

    def _summarised(self, plan: Plan, opener: FrameOpener) -> Iterator[pa.RecordBatch]:
        """Yield what events come to in the periods that lie wholly within a time of the same right."""
        summary, spans = split(plan.slice.view).summary, steady_spans(plan.slice)
        summarise = to_arrow_summary(plan.slice.view, dict(plan.kinds), self._read.delivered, self._secrets)
        every, late = summary.every_s * SECOND, summary.late_s * SECOND
        rows = pa.Table.from_batches((batch for _, batch in _opened(opener)), opener.schema)
        starts = [one - one % every for one in rows.column("_published_at").cast(pa.int64()).to_pylist()]
        within = [any(a <= one and one + every + late <= b for a, b in spans) for one in starts]
        for batch in rows.filter(pa.array(within, pa.bool_())).combine_chunks().to_batches():
            yield summarise(batch, batch.column("_published_at"), self._clock())


def _opened(opener: FrameOpener) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a log, range by range; before each, the desk says whether it may be read."""
    for stretches in LogFrames(opener.wanted).ranges():
        yield from opener.opened(stretches)


def _schema(read: GovernedRead) -> pa.Schema:
    meta = [pa.field(name, META[name]) for name in read.meta]
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
