"""Where does an application of the pipeline read, where does it write, and what is left if it fails?

`maia pipeline` and the benchmarks ask. A result appears under its name whole,
or not at all: it is written beside it first. What a stream keeps meanwhile is
gone when the run ends.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow.parquet as pq

from maia.errors import BadInput
from maia.spark.applications import Application, start_stream
from maia.spark.applications.application import columns_read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FILES_MAX: Final = 1_000_000
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


@dataclass(frozen=True, slots=True)
class Finished:
    """A result on disk, and what it took."""

    result: Path
    seconds: float
    events: int | None


def parquet_source(spark: SparkSession, path: Path, *, files_per_batch: int = 1) -> EventSource:
    files = _parquet_files(path.resolve())  # Java need not be where we are
    rows = sum(_rows_of(file) for file in files)

    def stream() -> DataFrame:
        if not path.is_dir():
            raise BadInput(
                "INPUT-PIPELINE-SOURCE", f"a stream reads a folder of Parquet files, and `{path}` is one file"
            )
        schema = spark.read.parquet(str(files[0])).schema
        return (
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", files_per_batch)
            .option("pathGlobFilter", "*.parquet")
            .parquet(str(path.resolve()))
        )

    return EventSource(lambda: spark.read.parquet(*map(str, files)), stream, rows)


def parquet_columns(path: Path) -> list[str]:
    """Return what the columns of a Parquet file, or of the first of a folder, are called."""
    first = _parquet_files(path)[0]
    _rows_of(first)  # refuses what is none
    return list(pq.read_schema(first).names)


def run(
    spark: SparkSession,
    application: Application[Any],
    terms: object,
    source: EventSource,
    *,
    result: Path,
    is_stream: bool = False,
) -> Finished:
    """Run an application over a source into a folder that is not there yet."""
    # Any: each application has terms of its own.
    began = perf_counter()
    with new_folder(result.resolve()) as unfinished:

        def work() -> None:
            if is_stream:
                _stream(application, terms, source, unfinished)
            else:
                application.of(source.table(), terms).write.parquet(str(unfinished / "rows"))

        interruptible(spark, work)
        # The rows lie where a reader of the folder expects them.
        for file in (unfinished / "rows").iterdir():
            file.rename(unfinished / file.name)
        (unfinished / "rows").rmdir()
    return Finished(result, perf_counter() - began, source.rows)


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
                spark.sparkContext.cancelAllJobs()
                wait([done], timeout=_CANCEL_AGAIN_S)
            raise


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Hand out a folder of its owner's alone that becomes `folder` if the body ends well, or else is gone."""
    if folder.exists():
        raise BadInput("INPUT-PIPELINE-RESULT", f"`{folder}` is already there; name a folder that is not")
    if not folder.parent.is_dir():
        raise BadInput(
            "INPUT-PIPELINE-RESULT", f"`{folder.parent}` is no folder, so nothing can be made in it"
        )
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


def _stream(application: Application[Any], terms: object, source: EventSource, folder: Path) -> None:
    updates, checkpoint = folder / "updates", folder / "checkpoint"
    updates.mkdir()
    started = start_stream(
        application, source.stream(), terms, updates=str(updates), checkpoint=str(checkpoint)
    )
    try:
        started.query.awaitTermination()
    finally:
        started.query.stop()
    started.answer().write.parquet(str(folder / "rows"))
    shutil.rmtree(updates)
    shutil.rmtree(checkpoint)


def _parquet_files(path: Path) -> list[Path]:
    if not path.exists():
        raise BadInput(
            "INPUT-PIPELINE-SOURCE",
            f"`{path}` is not there; `maia pipeline generate` makes events to begin with",
        )
    if path.is_file():
        return [path]
    files = sorted(file for file in path.glob("*.parquet") if file.is_file())[:_FILES_MAX]
    if not files:
        raise BadInput("INPUT-PIPELINE-SOURCE", f"`{path}` holds no Parquet files")
    return files


def _rows_of(file: Path) -> int:
    import pyarrow as pa

    try:
        return int(pq.read_metadata(file).num_rows)
    except (pa.ArrowInvalid, OSError) as problem:
        raise BadInput("INPUT-PIPELINE-SOURCE", f"`{file}` is not a Parquet file") from problem
