"""How does a structured stream read from the network, and go on after it has stopped?

Spark asks how far the stream could go, plans a batch up to there, runs it,
and says when it is done. An offset names a log and a position in it. With a
durable subscription the log is the recording broker's: what was not committed
is delivered again after a restart, and a batch that was planned before has
the same rows. The driver then gets positions and row counts alone; tasks read
the rows, each a range of positions over a link of its own, under the query's
right (`right_desk.py`). Without a durable name there is one reader, on the
driver: the positions count what arrived in this process, and a query that
stops loses what it had not processed: at most once.

Frames are never divided between batches, so a batch may be larger than its
limit by less than one frame.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, Filter, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from maia.clock import system_now
from maia.errors import BadInput, Refusal, Unavailable
from maia.events import Instant
from maia.predicates import Predicate
from maia.spark.errors import told_to_spark
from maia.spark.source.filters import pushed_predicates
from maia.spark.source.inbox import HeldFrame, Inbox
from maia.spark.source.member import Member
from maia.spark.source.options import JobOptions
from maia.spark.source.right_desk import Right

_ARRIVAL_S: Final = 0.1
"""How long one question for news waits; Spark asks again at once."""
_BATCHES_HELD: Final = 2
"""One batch that runs, and the next one."""
_POSITION: Final = re.compile(r"(?:[0-9a-f]{2}){0,32}")
_OTHER_LOG: Final = "REFUSED-DURABLE-OTHER-LOG"


class Range(InputPartition):
    """What one task reads from the log: what is behind one position, up to another."""

    def __init__(self, first: str, last: str, rows: int) -> None:
        """Take the position behind which it begins, or none for the cursor's own, and the last one."""
        super().__init__((first, last, rows))


_RANGE_ROWS: Final = 1_000
"""A range has about so many rows at least: a task costs a connection."""


def ranges_of(frames: Sequence[HeldFrame], first: str, readers: int) -> list[Range]:
    """Divide frames that follow a position into at most so many ranges, of about as many rows each."""
    rows = sum(frame.rows for frame in frames)
    each = max(_RANGE_ROWS, -(-rows // readers))
    found: list[Range] = []
    taken = 0
    for frame in frames:
        taken += frame.rows
        if taken >= each or frame is frames[-1]:
            found.append(Range(first, frame.position, taken))
            first, taken = frame.position, 0
    return found


class Rows(InputPartition):
    """Rows on their way to the task that hands them to Spark; never part of a plan or a checkpoint."""

    def __init__(self, frames: Sequence[HeldFrame]) -> None:
        """Write frames in Arrow's own form."""
        buffer = io.BytesIO()
        batches = [frame.batch for frame in frames if frame.batch is not None]
        schema = batches[0].schema.remove_metadata()
        table = pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)
        with pa.ipc.new_stream(buffer, schema) as writer:
            writer.write_table(table.combine_chunks())
        super().__init__(buffer.getvalue())

    def __repr__(self) -> str:
        return f"Rows({len(self.value)} bytes)"

    def batches(self) -> Iterator[pa.RecordBatch]:
        with pa.ipc.open_stream(self.value) as reader:
            yield from reader


class MaiaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One running query's view of one type."""

    # Any: Spark's offsets are dictionaries of whatever JSON holds.

    def __init__(self, right: Right) -> None:
        """Do not connect yet: Spark also makes readers that it only sends to tasks."""
        self._right, self._options = right, right.options
        self._inbox: Inbox | None = None
        self._until: Instant | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the subscription out of what is sent to tasks."""
        return {"_right": self._right, "_options": self._options, "_inbox": None, "_until": None}

    # -------------------------------------------------------- on the driver

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Begin at the position of the durable subscription, or with new events."""
        return {"log": "", "position": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many rows a batch has at most."""
        return ReadMaxRows(self._options.rows_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Take note of the moment behind which nothing is read."""
        self._until = system_now()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return how far the next batch goes; raise if the subscription was refused or has ended."""
        with told_to_spark():
            inbox = self._opened(start)
            since = self._position(start, inbox)
            wait_s = _ARRIVAL_S if self._until is None else self._options.settle_s
            frames = _within(self._readable(inbox.after(since, wait_s=wait_s)), limit)
            if frames:
                return {"log": inbox.log, "position": frames[-1].position}
            # Spark asks behind a batch when it has committed it, and says so itself only with the next
            # one, which may never come: a broker limits unacknowledged frames.
            inbox.forget(since)
            return start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """Return how far the stream could go without any limit."""
        if self._inbox is None:
            return None
        with told_to_spark():
            held = self._inbox.after("")
            return {"log": self._inbox.log, "position": held[-1].position} if held else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return what tasks read of a batch; of one that was planned before a restart, once more."""
        with told_to_spark():
            inbox = self._opened(start)
            last = self._position(end, inbox)
            if end["log"] != inbox.log:
                return []  # it was held by a process that is no more
            first = self._position(start, inbox)
            frames = inbox.between(first, last)
            if self._options.durable is not None:
                return ranges_of(frames, first, self._options.readers)
            return [Rows(frames)] if frames else []

    def commit(self, end: dict[str, Any]) -> None:
        """Forget committed batches, and acknowledge them to a recording broker."""
        with told_to_spark():
            if self._inbox is not None and end["log"] == self._inbox.log:
                self._inbox.forget(self._position(end, self._inbox))

    def stop(self) -> None:
        if self._inbox is not None:
            self._inbox.close()

    # -------------------------------------------------------- in a task

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Hand the rows to Spark."""
        if isinstance(partition, Rows):
            return partition.batches()
        assert isinstance(partition, Range)  # noqa: S101 - no other partitions are made here
        return self._read_range(*partition.value)

    def _read_range(self, first: str, last: str, rows: int) -> Iterator[pa.RecordBatch]:
        """Read a range from the recording broker; it has the rows that were planned, or the batch fails."""
        with told_to_spark():
            member, options = self._right.member(), self._options
            with member.connect_blocking() as client:
                subscription = client.subscribe(
                    member.history(),
                    options.predicate(member.event_type()),
                    durable=options.durable,
                    after=bytes.fromhex(first) if first else None,
                    upto=bytes.fromhex(last),
                    timeout_s=options.wait_s,
                )
                came = 0
                for batch in subscription.batches():
                    came += batch.num_rows
                    if batch.num_rows:
                        yield batch.replace_schema_metadata(None)
                    if batch.schema.metadata[b"maia.position"].decode() == last:
                        break
                if options.fails_on_loss and came != rows:
                    raise Unavailable(
                        "UNAVAILABLE-SPARK-REPLAY",
                        f"{came} events came of {rows} that were there when the batch was planned: they are "
                        "not yours to see any more, or the log has lost some (option `failOnDataLoss`)",
                    )

    # -------------------------------------------------------- inside

    def _opened(self, start: dict[str, Any]) -> Inbox:
        """Return the inbox; the first time it begins behind the offset that Spark goes on from."""
        if self._inbox is None:
            try:
                self._inbox = opened_inbox(
                    self._options,
                    after=_read_offset(start)[1],
                    plans=self._options.durable is not None,
                    member=self._right.member(),
                )
            except Refusal as problem:
                if problem.code != _OTHER_LOG:
                    raise
                raise Unavailable(
                    "UNAVAILABLE-SPARK-LOG", "the checkpoint belongs to another log; begin a new one"
                ) from problem
        return self._inbox

    def _position(self, offset: dict[str, Any], inbox: Inbox) -> str:
        """Return a position in this log: none where the offset is of one that is no more."""
        log, position = _read_offset(offset)
        if log in {"", inbox.log}:
            return position
        if self._options.durable is None:
            return ""
        raise Unavailable(
            "UNAVAILABLE-SPARK-LOG", "the checkpoint belongs to the log of another broker; begin a new one"
        )

    def _readable(self, frames: list[HeldFrame]) -> list[HeldFrame]:
        """Return the frames before the first that was published after the run began, if it is to end."""
        if self._until is None:
            return frames
        ends = (at for at, frame in enumerate(frames) if frame.published_at > self._until)
        return frames[: next(ends, len(frames))]


def _read_offset(offset: dict[str, Any]) -> tuple[str, str]:
    match offset:
        case {"log": str(log), "position": str(position)} if _POSITION.fullmatch(position):
            return log, position
    raise BadInput("INPUT-SPARK-OFFSET", "the checkpoint holds an offset that this source did not write")


def opened_inbox(
    options: JobOptions,
    pushed: tuple[Predicate, ...] = (),
    *,
    after: str = "",
    plans: bool = False,
    member: Member,
) -> Inbox:
    """Subscribe under the options' filter, narrowed by what Spark pushed down."""
    event_type = member.event_type()
    inbox = Inbox(
        member.connect,
        member.history(),
        options.narrowed(event_type, pushed),
        durable=options.durable,
        after=after,
        plans=plans,
        fails_on_loss=options.fails_on_loss,
        rows_max=_BATCHES_HELD * options.rows_per_batch,
        wait_s=options.wait_s,
    )
    inbox.log = f"live {os.urandom(8).hex()}"
    inbox.open()
    return inbox


def _within(frames: list[HeldFrame], limit: ReadLimit) -> list[HeldFrame]:
    """Return the first frames that together have so many rows, and one at least."""
    if not isinstance(limit, ReadMaxRows):
        return frames
    taken, rows = 0, 0
    while taken < len(frames) and rows < limit.max_rows:
        rows += frames[taken].rows
        taken += 1
        if rows > limit.max_rows and taken > 1:
            return frames[: taken - 1]
    return frames[:taken]


# ------------------------------------------------------------ one batch job


_SECONDS: Final = 60.0
"""How long a read for so many rows waits for them by default."""


class MaiaReader(DataSourceReader):
    """One read, and by what Spark narrowed it."""

    def __init__(self, right: Right) -> None:
        """Refuse a read that would never end."""
        options = right.options
        if options.rows is None and options.seconds is None and options.durable is None:
            raise BadInput(
                "INPUT-SPARK-OPTION", "a read that is no stream ends by option `rows`, `seconds` or `durable`"
            )
        self._right, self._options = right, options
        self._pushed: tuple[Predicate, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the subscription by what has an exact counterpart; leave all of it to Spark as well."""
        with told_to_spark():
            self._pushed = pushed_predicates(filters, self._right.event_type().vocabulary)
        return filters

    def partitions(self) -> list[InputPartition]:
        """Read in one task: one subscription has one order."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what arrives, until enough has."""
        del partition
        with told_to_spark():
            inbox = self._opened()
            try:
                yield from self._taken(inbox)
            finally:
                inbox.close()

    def _opened(self) -> Inbox:
        member = self._right.member()
        try:
            return opened_inbox(self._options, self._pushed, member=member)
        except Refusal:
            if not self._pushed:
                raise
            return opened_inbox(self._options, member=member)

    def _taken(self, inbox: Inbox) -> Iterator[pa.RecordBatch]:
        left, done = self._options.rows, ""
        for frames in self._arriving(inbox):
            for frame in frames:
                assert frame.batch is not None  # noqa: S101 - this inbox does not only plan
                batch = frame.batch.replace_schema_metadata(None).slice(0, left)
                yield batch
                left = None if left is None else left - batch.num_rows
                if batch.num_rows == frame.rows:
                    done = frame.position  # the rest of a frame that was cut comes with the next read
                if left == 0:
                    break
            inbox.forget(done)
            if left == 0:
                return

    def _arriving(self, inbox: Inbox) -> Iterator[list[HeldFrame]]:
        """Yield what arrives in time; of a log, what was published before this began."""
        options, began, position = self._options, system_now(), ""
        is_log = options.durable is not None
        deadline = time.monotonic() + (options.seconds or _SECONDS)
        while (wait_s := deadline - time.monotonic()) > 0:
            frames = inbox.after(position, wait_s=min(wait_s, options.settle_s) if is_log else wait_s)
            if not frames:
                return
            position = frames[-1].position
            ends = (at for at, frame in enumerate(frames) if is_log and frame.published_at > began)
            yield frames[: (end := next(ends, len(frames)))]
            if end < len(frames):
                return
