"""Where does an application of the pipeline read, where does it write, and what is left if it fails?

`maia pipeline` and the benchmarks ask. A result appears under its name whole,
or not at all: it is written beside it first. What a stream keeps meanwhile is
gone when the run ends.

Tasks on this machine write a result themselves. On a cluster, they find nothing
that lies on the driver's disk: a result comes to the driver, if it is not too
large, and the driver writes it; to an address (`s3://`, `file:`) tasks write
(`results.py`). What a stream keeps is in a place that the user has named.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from maia.errors import BadInput
from maia.places import Place, is_address, place_of
from maia.private_files import create_private
from maia.spark.applications import Application, start_stream
from maia.spark.applications.application import columns_read
from maia.spark.applications.results import new_place, remove_folder, write_result
from maia.spark.errors import BROUGHT_BYTES_MAX, result_too_large
from maia.spark.session.cluster import is_connect, is_here
from maia.spark.stored_files import FILE, ROW, StoredFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from maia.spark.governed.stream_lag import Lag

_FILES_MAX: Final = 1_000_000
_ONLY_PART: Final = "part-00000.parquet"
_CANCEL_AGAIN_S: Final = 0.5

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class EventSource:
    """Events, as a table and as a stream of what is there now, some at a time."""

    table: Callable[[], DataFrame]
    stream: Callable[[], DataFrame]
    rows: int | None = None
    """How many events there are, if that is known without reading them."""
    reads: Callable[[DataFrame], set[str]] = columns_read
    """Says which attributes are read from storage for a result."""
    numbered: tuple[str, str] = ("_metadata.file_name", "_metadata.row_index")
    """The columns that say from which file an event is, and which one in it."""
    lag: Callable[[StreamingQuery], Lag] | None = None
    """Says how far a query over the stream is behind a log."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A result, as the session reads it, and what it took."""

    rows: DataFrame
    seconds: float
    events: int | None


def parquet_source(
    spark: SparkSession,
    source: str | Path,
    *,
    files_per_batch: int = 1,
    columns: Collection[str] | None = None,
) -> EventSource:
    """Return the events in Parquet files; of files in an object store, these columns are read."""
    place, files = place_of(source), _parquet_files(place_of(source))
    rows = sum(_parquet(file).num_rows for file in files)
    if (path := place.local) is None:
        return _source_in_store(spark, files, rows, files_per_batch, columns)

    def stream() -> DataFrame:
        if not path.is_dir():
            raise BadInput(
                "INPUT-PIPELINE-SOURCE", f"a stream reads a folder of Parquet files, and `{path}` is one file"
            )
        schema = spark.read.parquet(files[0].address).schema
        return (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", files_per_batch)
            .option("pathGlobFilter", "*.parquet")
            .parquet(str(path.resolve()))
        )

    return EventSource(lambda: spark.read.parquet(*map(str, files)), stream, rows)


def _source_in_store(
    spark: SparkSession, files: list[Place], rows: int, files_per_batch: int, columns: Collection[str] | None
) -> EventSource:
    """Return events that executors read by Arrow: Spark itself has no way to object stores."""
    found = _parquet(files[0]).schema.to_arrow_schema()
    wanted = [one for one in found if columns is None or one.name in columns]
    read, names = StoredFiles(tuple(files), pa.schema(wanted)), {one.name for one in wanted}
    return EventSource(
        lambda: read.table(spark),
        lambda: read.stream(spark, files_per_batch),
        rows,
        lambda _result: names,
        (FILE, ROW),
    )


def parquet_columns(source: str | Path) -> list[str]:
    """Return what the columns of a Parquet file, or of the first of a folder, are called."""
    first = _parquet_files(place_of(source))[0]
    return list(_parquet(first).schema.to_arrow_schema().names)


def run(
    spark: SparkSession,
    application: Application[Any],
    terms: object,
    source: EventSource,
    *,
    result: Path | str | None,
    is_stream: bool = False,
    checkpoint: str | None = None,
) -> Finished:
    """Run an application over a source into a folder, or an address, in which nothing is yet.

    Without a `result`, which only a cluster may go without, the session alone has the rows. `checkpoint` is
    where a stream keeps its state, and has to be named on a cluster.
    """
    # Any: each application has terms of its own.
    began = perf_counter()
    check_result(result)

    def work() -> DataFrame:
        if not is_stream:
            return kept(spark, application.of(source.table(), terms), result)
        with _folder_of_stream(spark, checkpoint, result) as folder:
            return kept(spark, _streamed(application, terms, source, folder), result)

    rows = interruptible(spark, work)
    return Finished(rows, perf_counter() - began, source.rows)


def kept(spark: SparkSession, rows: DataFrame, result: Path | str | None) -> DataFrame:
    """Write rows to where they were wanted, and return them as they were written."""
    if isinstance(result, str) and is_address(result):
        with new_place(result) as place:
            write_result(rows, place)
        return parquet_source(spark, result).table().select(*rows.columns)
    if is_here(spark) and result is not None:
        with new_folder(Path(result).resolve()) as unfinished:
            rows.write.parquet(str(unfinished / "rows"))
            # The rows lie where a reader of the folder expects them.
            for file in (unfinished / "rows").iterdir():
                file.rename(unfinished / file.name)
            (unfinished / "rows").rmdir()
        return spark.read.parquet(str(Path(result).resolve()))
    table = brought(rows)
    if result is not None:
        with new_folder(Path(result).resolve()) as folder, create_private(folder / _ONLY_PART) as part:
            pq.write_table(table, part)
    return spark.createDataFrame(table)


def brought(rows: DataFrame) -> pa.Table:
    """Return rows as an Arrow table of this process, if they are not too many."""
    table = rows.toArrow()
    if table.nbytes > BROUGHT_BYTES_MAX:
        raise result_too_large()
    return table


def check_checkpoint(spark: SparkSession, checkpoint: str | None) -> None:
    """Refuse a stream on a cluster that has nowhere to keep its state."""
    if checkpoint is None and not is_here(spark):
        raise BadInput(
            "INPUT-PIPELINE-CHECKPOINT",
            "a stream on a cluster keeps its state where every worker reads and writes: "
            "name such a place with --checkpoint",
        )


@contextmanager
def _folder_of_stream(
    spark: SparkSession, checkpoint: str | None, result: Path | str | None
) -> Iterator[str]:
    """Hand out a place for what a stream keeps while it runs; it is gone afterwards."""
    check_checkpoint(spark, checkpoint)
    if checkpoint is not None:
        place = f"{checkpoint.rstrip('/')}/maia-{uuid4().hex}"
        try:
            yield place
        finally:
            remove_folder(spark, place)
        return
    beside = Path(result).resolve().parent if result is not None else None
    with tempfile.TemporaryDirectory(prefix=".maia-stream-", dir=beside) as folder:
        yield folder


def interruptible(spark: SparkSession, work: Callable[[], Answer]) -> Answer:
    """Do work with Spark so that Ctrl-C ends it: when this returns or raises, no job of it is left.

    A thread that is interrupted while it talks to Java leaves half an answer
    on the line, and nothing it says afterwards is understood. So another
    thread talks, and this one is there to be interrupted.
    """
    with ThreadPoolExecutor(1) as other:
        done = other.submit(work)
        try:
            return done.result()
        except KeyboardInterrupt:
            while not done.done():
                for query in spark.streams.active:
                    query.stop()
                if is_connect(spark):
                    spark.interruptAll()
                else:
                    spark.sparkContext.cancelAllJobs()
                wait([done], timeout=_CANCEL_AGAIN_S)
            raise


def check_result(result: Path | str | None) -> None:
    """Refuse, before the work begins, a folder that is there already or cannot be made."""
    if result is not None and not is_address(str(result)):
        _check_new(Path(result).resolve())


def _check_new(folder: Path) -> None:
    if folder.exists():
        raise BadInput("INPUT-PIPELINE-RESULT", f"`{folder}` is already there; name a folder that is not")
    if not folder.parent.is_dir():
        raise BadInput(
            "INPUT-PIPELINE-RESULT", f"`{folder.parent}` is no folder, so nothing can be made in it"
        )


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Hand out a folder of its owner's alone that becomes `folder` if the body ends well, or else is gone."""
    _check_new(folder)
    try:
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as problem:
        raise BadInput(
            "INPUT-PIPELINE-RESULT", f"nothing can be written into `{folder.parent}`: {problem.strerror}"
        ) from problem
    try:
        yield unfinished
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _streamed(application: Application[Any], terms: object, source: EventSource, folder: str) -> DataFrame:
    started = start_stream(
        application, source.stream(), terms, updates=f"{folder}/updates", checkpoint=f"{folder}/checkpoint"
    )
    try:
        started.query.awaitTermination()
    finally:
        started.query.stop()
    return started.answer()


def _parquet_files(place: Place) -> list[Place]:
    if not place.exists():
        raise BadInput(
            "INPUT-PIPELINE-SOURCE",
            f"`{place}` is not there; `maia pipeline generate` makes events to begin with",
        )
    if place.is_file():
        return [place]
    files = [place / one.path for one in place.listed() if one.path.endswith(".parquet")][:_FILES_MAX]
    if not files:
        raise BadInput("INPUT-PIPELINE-SOURCE", f"`{place}` holds no Parquet files")
    return files


# Any: pyarrow is not typed.
def _parquet(file: Place) -> Any:
    """Return what the end of a Parquet file says of it; refuse one that is none."""
    try:
        with file.open() as opened:
            return pq.read_metadata(opened)
    except (pa.ArrowInvalid, OSError) as problem:
        raise BadInput("INPUT-PIPELINE-SOURCE", f"`{file}` is not a Parquet file") from problem
