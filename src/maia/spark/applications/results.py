"""How do the tasks of a cluster write a result to an address that all of them reach?

A result that is too large for the driver goes to an address, such as
`s3://bucket/charges` or `file:///shared/charges`. Each task creates files under
names of its own and says which; the driver removes what no task speaks of, left
by tasks that died, and writes `_SUCCESS` when all are there. On a file system, a
result is as open as the folder that it is made in: the accounts of driver and
workers may differ, and the mode of that folder says who belongs together.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.errors import BadInput, Unavailable
from maia.places import Place, place_of
from maia.spark.errors import told_to_spark, worker_problem
from maia.spark.session import private_handles
from maia.spark.session.cluster import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["new_place", "remove_folder", "umask_of", "write_result"]

DONE: Final = "_SUCCESS"
_FILE_BYTES: Final = 32 << 20
"""About what a task holds before it creates a file."""
_WRITTEN: Final = "file string, rows bigint"


@contextmanager
def new_place(address: str) -> Iterator[Place]:
    """Begin a result where nothing is yet; if the body fails, nothing is left."""
    place = place_of(address)
    if place.exists():
        raise BadInput("INPUT-PIPELINE-RESULT", f"`{address}` is already there; name an address that is not")
    if place.local is not None:
        try:
            place.local.mkdir()
            place.local.chmod(S_IMODE(place.local.parent.stat().st_mode) & 0o2777)
        except OSError as problem:
            raise BadInput(
                "INPUT-PIPELINE-RESULT", f"`{address}` cannot be made: {problem.strerror}"
            ) from problem
    is_whole = False
    try:
        yield place
        _create(place, DONE, b"")
        is_whole = True
    finally:
        if not is_whole:
            _keep_only(place, frozenset())


def write_result(rows: DataFrame, place: Place) -> None:
    """Let each task write its rows to a place."""
    from pyspark.sql.pandas.types import to_arrow_schema

    writer = _ResultWriter(place, to_arrow_schema(rows.schema, timezone="UTC"))
    found = frozenset(one.file for one in rows.mapInArrow(writer, _WRITTEN).collect())
    if not found:  # a table without rows has columns nevertheless
        writer.create("part-00000.parquet", [])
    _keep_only(place, found or frozenset({"part-00000.parquet"}), is_kept=True)


def _keep_only(place: Place, names: frozenset[str], *, is_kept: bool = False) -> None:
    for one in place.listed():
        if one.path not in names:
            place.remove(one.path)
    if place.local is not None and not is_kept:
        with suppress(OSError):
            place.local.rmdir()


@dataclass(frozen=True, slots=True)
class _ResultWriter:
    """What a task does; it is pickled into the job."""

    place: Place
    # Any: pyarrow is not typed.
    schema: Any

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the rows of a task, and say where."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        held, size, number = [], 0, 0
        with told_to_spark():
            for batch in batches:
                held.append(batch)
                size += batch.nbytes
                if size >= _FILE_BYTES:
                    yield self.create(f"part-{task[0]:05}-{task[1]}-{number}.parquet", held)
                    held, size, number = [], 0, number + 1
            if held:
                yield self.create(f"part-{task[0]:05}-{task[1]}-{number}.parquet", held)

    def create(self, name: str, batches: list[Any]) -> Any:
        """Create one file of rows, and return its name and how many they are."""
        rows = [pa.RecordBatch.from_arrays(one.columns, schema=self.schema) for one in batches]
        table, buffer = pa.Table.from_batches(rows, self.schema), io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        try:
            _create(self.place, name, buffer.getvalue())
        except OSError as problem:
            raise worker_problem("write", self.place, problem.strerror or type(problem).__name__) from problem
        except Unavailable as problem:
            raise worker_problem("write", self.place, problem.message) from problem
        return pa.RecordBatch.from_pylist([{"file": name, "rows": table.num_rows}])


def _create(place: Place, name: str, data: bytes) -> None:
    if place.local is None:
        place.create(name, data)
        return
    file = place.local / name
    with file.open("xb") as opened:
        opened.write(data)
    file.chmod(S_IMODE(place.local.stat().st_mode) & 0o666)


# ------------------------------------------------------------ what a stream keeps


def umask_of(folder: str) -> str:
    """Return the umask with which what is made in a folder is as open as the folder is."""
    path = place_of(folder).local
    with suppress(OSError):
        if path is not None:
            return f"{0o777 & ~S_IMODE(path.stat().st_mode):03o}"
    return "077"


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Remove a folder that Spark has made, as Spark reaches it; one of a server of Connect, as we do."""
    if is_connect(spark):
        place = place_of(folder)
        for one in place.listed(is_deep=True):
            place.remove(one.path)
        if place.local is not None:
            _remove_empty(place.local)
        return
    private_handles.remove_folder(spark, folder)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        for inner, _, _ in sorted(os.walk(folder), reverse=True):
            Path(inner).rmdir()
