"""How do derived events leave Spark for the network, each exactly once?

Tasks publish nothing. They check their rows and hand them to the driver,
which publishes the whole batch when all tasks are done, and answers Spark
only when the broker has taken everything on. A task that runs twice, or a
batch of which one task fails, leaves no trace in the network. When Spark runs
a batch again because it died before it had written down that the batch was
done, the same frames go out under the same numbers, and the network drops
them (`maia.spark.sink.writer`). The key stays on the driver's machine.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from maia.client.entries import Numbering
from maia.errors import BadInput
from maia.spark.errors import told_to_spark
from maia.spark.source.options import JobOptions
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


def stream_of(query: str, type_id: bytes) -> bytes:
    """Return the stream of everything that one query, or one named job, publishes of one type."""
    return sha256(b"maia/1/spark\0" + query.encode() + b"\0" + type_id).digest()[:16]


def first_number(batch_id: int) -> int:
    """Return the number of a batch's first frame: room for a million of them lies before the next."""
    if not 0 <= batch_id < 1 << (62 - _NUMBERS):
        raise BadInput("INPUT-SPARK-BATCH-SIZE", f"`{batch_id}` is no number of a batch")
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
                raise BadInput(
                    "INPUT-SPARK-BATCH-SIZE", f"a batch has more than {FRAMES_PER_BATCH_MAX} frames"
                )
            yield part.combine_chunks().to_batches()[0]


def _halved(rows: pa.Table) -> Iterator[pa.Table]:
    """Halve what is too long, again and again; there are ten halves in a frame."""
    if rows.num_rows <= 1 or rows.nbytes <= _FRAME_BYTES:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _halved(rows.slice(0, middle))
    yield from _halved(rows.slice(middle))


BATCH_BYTES_MAX: Final = 256 << 20
"""How much one task, and one batch, may hand to the driver."""
_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The rows of one task, on their way to the driver."""

    query: str | None
    rows: bytes = field(repr=False)


@dataclass(frozen=True)
class _Sink:
    """What both writers do: gather in tasks, publish on the driver."""

    options: JobOptions
    columns: tuple[str, ...]

    def gathered(self, batches: Iterator[pa.RecordBatch]) -> Staged:
        """Take a task's rows together; refuse more than the driver should be sent."""
        from pyspark import TaskContext

        buffer, writer = io.BytesIO(), None
        for batch in batches:
            if writer is None:
                writer = pa.ipc.new_stream(buffer, batch.schema)
            writer.write_batch(batch)
            _check_size(buffer.tell())
        if writer is not None:
            writer.close()
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_ID)
        return Staged(query, buffer.getvalue())

    def publish(self, messages: Sequence[Staged], *, query: str, batch_id: int) -> None:
        """Publish the rows of all tasks, and return when the broker has taken them on."""
        _check_size(sum(len(one.rows) for one in messages))
        tables = [table for one in messages if (table := _table(one.rows)) is not None]
        if not tables:
            return
        event_type = self.options.event_type()
        rows = in_one_order(
            pa.concat_tables(tables), [one.name for one in event_type.attributes], self.options.order
        )
        numbering = Numbering(stream_of(query, event_type.type_id), first_number(batch_id))
        with self.options.connect_blocking() as client:
            publisher = client.advertise(
                self.options.history(),
                self.options.predicate(event_type),
                numbering=numbering,
                timeout_s=self.options.wait_s,
            )
            _publish_frames(publisher, rows, self.options.wait_s)


def _sink(options: JobOptions, schema: StructType, *, overwrite: bool) -> _Sink:
    if overwrite:
        raise BadInput("INPUT-SPARK-OPTION", "what was published cannot be replaced; write in mode `append`")
    event_type = options.event_type()
    _check_columns(schema, event_type)
    for name in options.order:
        if name not in schema.names:
            raise BadInput(
                "INPUT-SPARK-OPTION", f"option `order` names `{name[:64]}`, which is no column of the query"
            )
    options.predicate(event_type)
    return _Sink(options, tuple(schema.names))


class _SinkWriter:
    """What both writers are to Spark."""

    def __init__(self, options: JobOptions, schema: StructType, *, overwrite: bool) -> None:
        """Check that the columns are attributes of the type."""
        # Complete mode is reported as overwriting; every batch would publish the whole result again.
        self._sink = _sink(options, schema, overwrite=overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Hand a task's rows to the driver."""
        with told_to_spark():
            return self._sink.gathered(iterator)


class MaiaStreamWriter(_SinkWriter, DataSourceStreamArrowWriter):
    """Publishes batch after batch of one query."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Publish the batch under numbers of its own."""
        with told_to_spark():
            staged = _staged(messages)
            queries = {one.query for one in staged}
            query = queries.pop() if len(queries) == 1 else None
            if staged and query is None:
                raise BadInput("INPUT-SPARK-QUERY", "Spark did not say which query a batch belongs to")
            self._sink.publish(staged, query=query or "", batch_id=batchId)


class MaiaWriter(_SinkWriter, DataSourceArrowWriter):
    """Publishes one table. With option `job`, publishing the same table again publishes nothing."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with told_to_spark():
            job = self._sink.options.job
            query = f"job {job}" if job else f"once {os.urandom(16).hex()}"
            self._sink.publish(_staged(messages), query=query, batch_id=0)


def _publish_frames(publisher: BlockingPublisher, rows: pa.Table, wait_s: float) -> None:
    for frame in frames_of(rows):
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


def _check_size(size: int) -> None:
    if size > BATCH_BYTES_MAX:
        raise BadInput(
            "INPUT-SPARK-BATCH-SIZE",
            f"a batch of derived events is larger than {BATCH_BYTES_MAX} bytes; read fewer rows per batch",
        )


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [one for one in messages if isinstance(one, Staged)]


def _table(rows: bytes) -> pa.Table | None:
    if not rows:
        return None
    with pa.ipc.open_stream(rows) as reader:
        return reader.read_all()
