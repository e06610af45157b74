"""What may this reader see of the recorded events of a type, as Arrow batches, without Spark?

The decision is that of a Spark table (`plan.py`), and frames are found, opened and proved by the same code
(`opener.py`); the View goes through Arrow's kernels. For what one machine holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from os import PathLike

import pyarrow as pa

from maia.clock import system_now
from maia.events import SECOND, Instant
from maia.expressions.meaning import NO_KEYS
from maia.policy.view import is_summarised, split
from maia.spark.governed.log_folder import LogFrames
from maia.spark.governed.opener import FrameOpener, OpenedBatch
from maia.spark.governed.plan import (
    GovernedRead,
    Logs,
    Plan,
    check_on_record,
    steady_spans,
    summary_of_frames,
)
from maia.spark.governed.reading_ledger import chain_reads, reading_ledger, seen_rows
from maia.views.arrow_executor import to_arrow_summary

__all__ = ["ArrowTable"]


class ArrowTable:
    """What a reader sees of a log; each reading is of what the log has by then."""

    def __init__(
        self,
        read: GovernedRead,
        *,
        log: Logs,
        ledger: str | PathLike[str] | None = None,
        clock: Callable[[], Instant] = system_now,
    ) -> None:
        """Lay out the keys, and have the right looked after; `governed` says what each argument is."""
        check_on_record(read.access.versions, ledger)
        if ledger is not None and read.is_summary:
            raise summary_of_frames()
        secrets = read.access.secrets
        self._secrets = NO_KEYS if secrets is None else secrets.transformation_keys()
        self._read, self._ledger, self._clock = read, ledger, clock
        # Summaries go by the moments of publication.
        self._parts = [
            (plans, self._read.opener(read.wanted(log, plans), plans, with_meta=read.is_summary))
            for plans in read.parts
        ]
        # Kept, so that a manifest is read again only where there is a newer one.
        self._frames = [LogFrames(opener.wanted) for _, opener in self._parts]
        read.warn_of_gaps(log)

    @property
    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        plans, opener = self._parts[0]
        return seen_rows(self._read, opener, plans).schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield what the log shows now, on record before; raise if the right has ended meanwhile."""
        for (plans, opener), frames in zip(self._parts, self._frames, strict=True):
            opened = chain.from_iterable(map(opener.opened, frames.ranges()))
            if is_summarised(plans[0].slice.view):
                yield from self._summarised(plans[0], opener, opened)
                continue
            seen = seen_rows(self._read, opener, plans).of(opened)
            if self._ledger is None:
                yield from (one.shown for one in seen)
            else:
                ledger = reading_ledger(self._read, plans, self._ledger)
                try:
                    yield from ledger.shown(seen, f"table-{ledger.table}")
                finally:
                    chain_reads(ledger.folder)

    def read(self) -> pa.Table:
        """Return what the log shows now."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def _summarised(
        self, plan: Plan, opener: FrameOpener, opened: Iterator[OpenedBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Yield what events come to in the periods that lie wholly within a time of the same right."""
        summary, spans = split(plan.slice.view).summary, steady_spans(plan.slice)
        summarise = to_arrow_summary(plan.slice.view, dict(plan.kinds), self._read.delivered, self._secrets)
        every, late = summary.every_s * SECOND, summary.late_s * SECOND
        rows = pa.Table.from_batches((one.rows for one in opened), opener.schema)
        starts = [one - one % every for one in rows.column("_published_at").cast(pa.int64()).to_pylist()]
        within = [any(a <= one and one + every + late <= b for a, b in spans) for one in starts]
        for batch in rows.filter(pa.array(within, pa.bool_())).combine_chunks().to_batches():
            yield summarise(batch, batch.column("_published_at"), self._clock())
