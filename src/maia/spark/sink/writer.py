"""How do derived events leave Spark for the network, each exactly once?

Each task publishes its partition over a link of its own, under the query's right, which it asks the driver
for (`maia.spark.source.right_desk`). A partition has a stream of its own, derived from the query, the type
and the partition's number; its rows are put into one order and cut into frames by nothing but themselves,
and the frames have the numbers of the batch. So a task that runs twice, and a batch that Spark runs again
because it died before it had written down that the batch was done, publish the same frames under the same
numbers, and the network drops them. A task that finds other rows under its numbers, or a later run at its
checkpoint, publishes nothing. Nothing but a count of rows comes back to the driver.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, pairwise, takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from maia.client.entries import Numbering
from maia.errors import BadInput
from maia.spark.errors import told_to_spark
from maia.spark.source.right_desk import Claim, Right
from maia.types import VerifiedType
from maia.views.plan import spark_type

if TYPE_CHECKING:
    from maia.client.api.blocking_client import BlockingPublisher


# ------------------------------------------------------------ frames, the same whenever they are made


_FRAME_ROWS: Final = 1024
_FRAME_BYTES: Final = 1 << 19
"""Half of what a client puts into one frame: no frame is cut again on its way."""
_NUMBERS: Final = 20
FRAMES_PER_BATCH_MAX: Final = 1 << _NUMBERS


def stream_of(query: str, type_id: bytes, partition: int) -> bytes:
    """Return the stream of everything that one partition of a query, or of a job, publishes of one type."""
    about = b"\0".join((b"maia/1/spark", query.encode(), b"%d" % partition))
    return sha256(about + b"\0" + type_id).digest()[:16]


def first_number(batch_id: int) -> int:
    """Return the number of a batch's first frame: room for a million of them lies before the next."""
    if not 0 <= batch_id < 1 << (62 - _NUMBERS):
        raise BadInput("INPUT-SPARK-BATCH-SIZE", f"`{batch_id}` is no number of a batch")
    return batch_id << _NUMBERS


_PART_ROWS: Final = 64 * _FRAME_ROWS
_Places: TypeAlias = npt.NDArray[np.int64]


class Ordered:
    """The rows of a partition in an order that depends on nothing but the rows, put so a part at a time."""

    def __init__(self, table: pa.Table, names: Sequence[str], first: Sequence[str] = ()) -> None:
        """Order by all columns, `first` before the others; where the rows lie, they stay."""
        columns = [*first, *(name for name in names if name not in first)]
        keys = [(name, "ascending") for name in columns if name in table.column_names]
        self.num_rows: int = table.num_rows
        self._batches = table.to_batches()
        self._starts: _Places = np.cumsum([0, *(batch.num_rows for batch in self._batches)])
        self._order: _Places = _order(table, keys).to_numpy().astype(np.int64)

    def parts(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, as many full frames at a time as are soon made."""
        for start in range(0, self.num_rows, _PART_ROWS):
            yield self._rows_at(self._order[start : start + _PART_ROWS])

    def _rows_at(self, places: _Places) -> pa.RecordBatch:
        """Return the rows at some places: taken batch by batch, and then put into the order of the places."""
        near = np.argsort(places, kind="stable")
        along = places[near]
        cuts = np.searchsorted(along, self._starts)
        found = [
            (batch, start, along[low:high] - start)
            for batch, start, (low, high) in zip(
                self._batches, self._starts[:-1], pairwise(cuts), strict=True
            )
            if low < high
        ]
        if len(found) == 1:
            batch, start, _ = found[0]
            return batch.take(pa.array(places - start))
        pieces = [_piece(batch, own) for batch, _, own in found]
        (rows,) = pa.Table.from_batches(pieces).combine_chunks().to_batches()
        return rows if (near[:-1] < near[1:]).all() else rows.take(pa.array(np.argsort(near)))


def _piece(batch: pa.RecordBatch, places: _Places) -> pa.RecordBatch:
    """Return rows of a batch in their order, not copied yet where they lie one behind the other."""
    if places[-1] - places[0] == len(places) - 1:
        return batch.slice(places[0], len(places))
    return batch.take(pa.array(places))


def _order(table: pa.Table, keys: list[tuple[str, str]]) -> pa.Array:
    """Return the places of rows in their order: by moments and numbers alone, unless some rows share them."""
    if not keys:
        return pa.array(range(table.num_rows), pa.uint64())
    short = list(takewhile(lambda key: not _is_long(table.schema.field(key[0]).type), keys))
    if short:
        order = pc.sort_indices(table, sort_keys=short)
        if not _ties(table, [name for name, _ in short], order):
            return order
    return pc.sort_indices(table, sort_keys=keys)


def _ties(table: pa.Table, names: Sequence[str], order: pa.Array) -> bool:
    """Return whether rows that follow each other have the same in all of these columns."""
    alike = np.ones(max(0, table.num_rows - 1), bool)
    for name in names:
        column = table[name].combine_chunks().take(order)
        same = pc.equal(column.slice(1), column.slice(0, max(0, table.num_rows - 1)))
        alike &= pc.fill_null(same, fill_value=True).to_numpy(zero_copy_only=False)
        if not alike.any():
            return False
    return True


def _sorting_names(schema: pa.Schema) -> list[str]:
    """Return all columns, those first that are soonest compared and differ most: moments, then numbers."""
    is_of = (pa.types.is_timestamp, pa.types.is_floating, pa.types.is_integer)
    rank = {one.name: [not test(one.type) for test in is_of] for one in schema}
    return sorted(schema.names, key=lambda name: (rank[name], name))


def frames_of(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Cut rows into frames: full in rows, or smaller where rows are long."""
    count = 0
    for part in parts:
        ends = _ends(part)
        for start in range(0, part.num_rows, _FRAME_ROWS):
            for low, high in _halved(ends, start, min(start + _FRAME_ROWS, part.num_rows)):
                count += 1
                if count > FRAMES_PER_BATCH_MAX:
                    raise _too_large(f"{FRAMES_PER_BATCH_MAX} frames")
                yield part.slice(low, high - low)


def _halved(ends: _Places, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Halve what is too long, again and again; there are ten halves in a frame."""
    if high - low <= 1 or ends[high] - ends[low] <= _FRAME_BYTES:
        yield low, high
        return
    middle = low + (high - low) // 2
    yield from _halved(ends, low, middle)
    yield from _halved(ends, middle, high)


def _ends(rows: pa.RecordBatch) -> _Places:
    """Return how long all rows before each are, and all of them, by nothing but their values.

    What Arrow holds beside values depends on the batches in which rows came, and no frame may (A115).
    """
    sizes: _Places = np.zeros(rows.num_rows + 1, np.int64)
    for column in rows.columns:
        if _is_text(column) or _is_bytes(column):
            sizes[1:] += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
        else:
            sizes[1:] += 8
    return np.cumsum(sizes)


def digest_of(parts: Iterable[pa.RecordBatch]) -> str:
    """Return a digest of values in their order, whatever bytes Arrow has where there is no value."""
    digest = sha256()
    for batch in parts:
        digest.update(repr(batch.schema.names).encode())
        for column in batch.columns:
            nothing = pa.scalar(b"" if pa.types.is_binary(column.type) else "" if _is_text(column) else 0)
            values = column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column
            filled = [pc.is_null(column).cast(pa.uint8()), pc.fill_null(values, nothing.cast(values.type))]
            digest.update(pa.RecordBatch.from_arrays(filled, ["null", "value"]).serialize())
    return digest.hexdigest()


def _is_text(column: pa.Array) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _is_bytes(column: pa.Array) -> bool:
    return bool(pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type))


def _is_long(kind: pa.DataType) -> bool:
    return not (pa.types.is_timestamp(kind) or pa.types.is_floating(kind) or pa.types.is_integer(kind))


# ------------------------------------------------------------ in a task


HELD_BYTES_MAX: Final = 256 << 20
"""How much of a partition a task holds in memory; what is larger lies in a file while it is published."""
PARTITION_BYTES_MAX: Final = 64 << 30
"""How much one partition of one batch may be: a task puts all of it into one order."""


@dataclass(frozen=True, slots=True)
class Task:
    """Which part of which batch is written here; outside of a streaming query there is no query."""

    partition: int
    query: str | None = None
    run: str | None = None
    batch: int = 0


def present_task() -> Task:
    """Return what Spark says about the task that this process runs."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        return Task(0)
    query, run, batch = (
        context.getLocalProperty(name)
        for name in ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
    )
    return Task(context.partitionId(), query, run, int(batch or 0))


@dataclass(frozen=True)
class Published(WriterCommitMessage):
    """How many rows one task has published, or found published."""

    rows: int


class _SinkWriter:
    """What both writers are to Spark."""

    def __init__(self, right: Right, schema: StructType, *, overwrite: bool) -> None:
        """Check that the columns are attributes of the type."""
        # Complete mode is reported as overwriting; every batch would publish the whole result again.
        _check_sink(right, schema, overwrite=overwrite)
        self._right = right

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish a task's rows, and return when the broker has taken them on."""
        with told_to_spark():
            table, task = gathered(iterator), present_task()
            if not table.num_rows:
                return Published(0)
            rows = Ordered(table, _sorting_names(table.schema), self._right.options.order)
            self._publish(rows, task)
            return Published(rows.num_rows)

    def _publish(self, rows: Ordered, task: Task) -> None:
        raise NotImplementedError

    def _publish_as(self, rows: Ordered, query: str, task: Task, claim: Claim | None = None) -> None:
        member, options = self._right.member(claim), self._right.options
        event_type = member.event_type()
        stream = stream_of(query, event_type.type_id, task.partition)
        with member.connect_blocking() as client:
            publisher = client.advertise(
                member.history(),
                options.predicate(event_type),
                numbering=Numbering(stream, first_number(task.batch)),
                timeout_s=options.wait_s,
            )
            _publish_frames(publisher, rows, options.wait_s)

    def _publish_batch(self, rows: Ordered, task: Task) -> None:
        """Publish a partition of a batch of a query under numbers of its own."""
        if task.query is None or task.run is None:
            raise BadInput("INPUT-SPARK-QUERY", "Spark did not say which query a batch belongs to")
        job = self._right.options.job
        part = f"{sha256(job.encode()).hexdigest()[:16]}." if job else ""
        claim = Claim(task.query, task.run, task.batch, f"{part}{task.partition}", digest_of(rows.parts()))
        self._publish_as(rows, f"{task.query} {job}" if job else task.query, task, claim)


class MaiaStreamWriter(_SinkWriter, DataSourceStreamArrowWriter):
    """Publishes batch after batch of one query."""

    def _publish(self, rows: Ordered, task: Task) -> None:
        self._publish_batch(rows, task)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: tasks have published the batch."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Do nothing: what some tasks have published keeps its numbers when the batch runs again."""


class MaiaWriter(_SinkWriter, DataSourceArrowWriter):
    """Publishes one table. With option `job`, publishing the same partitions again publishes nothing.

    A table that `foreachBatch` writes belongs to its batch, and is published once as that is; where a batch
    writes several, each has its own `job`.
    """

    def __init__(self, right: Right, schema: StructType, *, overwrite: bool) -> None:
        """Choose what tells this table from others, for all of its tasks."""
        super().__init__(right, schema, overwrite=overwrite)
        self._once = os.urandom(16).hex()

    def _publish(self, rows: Ordered, task: Task) -> None:
        job = self._right.options.job
        if task.query is not None and task.run is not None:
            self._publish_batch(rows, task)
            return
        # A job has no checkpoint that says which rows were where: other rows are another stream.
        query = f"job {job} {digest_of(rows.parts())}" if job else f"once {self._once}"
        self._publish_as(rows, query, Task(task.partition))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: tasks have published the table."""


def gathered(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    """Take a task's rows together: in memory, or where that is too much in a file."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > HELD_BYTES_MAX:
            return _filed(chain(held, batches), batch.schema)
    return pa.Table.from_batches(held).combine_chunks() if held else pa.table({})


def _filed(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Put rows into a file of this task alone, and return them as they lie in it.

    The file has lost its name when this returns; it is gone when the rows are.
    """
    # Where Spark keeps what does not fit its memory; the executor says so.
    folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
    with tempfile.NamedTemporaryFile(prefix="maia-sink-", dir=folder) as file:
        size = 0
        with pa.ipc.new_file(file, schema) as writer:
            for batch in batches:
                size += batch.nbytes
                if size > PARTITION_BYTES_MAX:
                    raise _too_large(f"{PARTITION_BYTES_MAX} bytes")
                writer.write_batch(batch)
        file.flush()
        return pa.ipc.open_file(pa.memory_map(file.name)).read_all()


def _too_large(than: str) -> BadInput:
    return BadInput(
        "INPUT-SPARK-BATCH-SIZE",
        f"a partition of derived events is larger than {than}; use more partitions "
        "(`.repartition(200)`), or read fewer rows per batch",
    )


def _check_sink(right: Right, schema: StructType, *, overwrite: bool) -> None:
    options = right.options
    if overwrite:
        raise BadInput("INPUT-SPARK-OPTION", "what was published cannot be replaced; write in mode `append`")
    event_type = right.event_type()
    _check_columns(schema, event_type)
    for name in options.order:
        if name not in schema.names:
            raise BadInput(
                "INPUT-SPARK-OPTION", f"option `order` names `{name[:64]}`, which is no column of the query"
            )
    options.predicate(event_type)


def _publish_frames(publisher: BlockingPublisher, rows: Ordered, wait_s: float) -> None:
    for frame in frames_of(rows.parts()):
        publisher.publish_batch(frame)
        if frame.num_rows == 1:
            # One long row may wait for company, and no frame's rows may depend on the time of day.
            publisher.flush(timeout_s=wait_s)
    publisher.flush(timeout_s=wait_s)


def _check_columns(schema: StructType, event_type: VerifiedType) -> None:
    vocabulary = event_type.vocabulary
    for column in schema.fields:
        attribute = vocabulary.get(column.name)
        if attribute is None:
            raise BadInput("INPUT-SPARK-COLUMN", f"the type has no attribute `{column.name[:64]}`")
        wanted = spark_type(attribute.kind)
        if column.dataType != wanted:
            raise BadInput(
                "INPUT-SPARK-COLUMN",
                f"column `{column.name[:64]}` is {column.dataType.simpleString()[:64]} and attribute "
                f"`{attribute.name}` is {wanted.simpleString()}; cast it",
            )
