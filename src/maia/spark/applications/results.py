"""How do the tasks of a cluster write a result to an address that all of them reach?

A result that is too large for the driver goes to an address, such as
`s3://bucket/charges` or `file:///shared/charges`. Each task creates files under
names of its own and says which; the driver removes what no task speaks of, left
by tasks that died, and writes `_SUCCESS` when all are there. On a file system, a
result is as open as the folder that it is made in: the accounts of driver and
workers may differ, and the mode of that folder says who belongs together.
The files of an open table (`open_table.py`) are written in the same way.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maia.errors import BadInput, Unavailable
from maia.places import Place, place_of
from maia.spark.errors import told_to_spark, worker_problem
from maia.spark.session import private_handles
from maia.spark.session.cluster import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "DataFile",
    "make_like_parent",
    "new_place",
    "remove_folder",
    "umask_of",
    "write_files",
    "write_result",
]

DONE: Final = "_SUCCESS"
_FILE_BYTES: Final = 32 << 20
"""About what a task holds before it creates a file."""
_WRITTEN: Final = "name string, rows bigint, size bigint, stats string"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task has written: its name, and what is in it."""

    name: str
    rows: int
    size: int
    stats: str
    """Rows, and the least and the greatest value of each column, in the words of Delta's log."""


@contextmanager
def new_place(address: str) -> Iterator[Place]:
    """Begin a result where nothing is yet; if the body fails, nothing is left."""
    place = place_of(address)
    if place.exists():
        raise BadInput("INPUT-PIPELINE-RESULT", f"`{address}` is already there; name an address that is not")
    if place.local is not None:
        make_like_parent(place.local)
    is_whole = False
    try:
        yield place
        _create(place, DONE, b"")
        is_whole = True
    finally:
        if not is_whole:
            _keep_only(place, frozenset())


def make_like_parent(folder: Path) -> None:
    """Make a folder that is as open as the one in which it is."""
    try:
        folder.mkdir()
        folder.chmod(S_IMODE(folder.parent.stat().st_mode) & 0o2777)
    except OSError as problem:
        raise BadInput("INPUT-PIPELINE-RESULT", f"`{folder}` cannot be made: {problem.strerror}") from problem


def write_result(rows: DataFrame, place: Place) -> None:
    """Let each task write its rows to a place."""
    found = frozenset(one.name for one in write_files(rows, place))
    if not found:  # a table without rows has columns nevertheless
        _writer(rows, place, "part").create("part-00000.parquet", [])
    _keep_only(place, found or frozenset({"part-00000.parquet"}), is_kept=True)


def write_files(rows: DataFrame, place: Place, prefix: str = "part") -> list[DataFile]:
    """Let each task write its rows to files of a place; return those of the tasks that count.

    What a task has written that died, or that ran twice, stays behind. Names begin with `prefix`.
    """
    found = rows.mapInArrow(_writer(rows, place, prefix), _WRITTEN).collect()
    return [DataFile(**one.asDict()) for one in found]


def _writer(rows: DataFrame, place: Place, prefix: str) -> _ResultWriter:
    from pyspark.sql.pandas.types import to_arrow_schema

    return _ResultWriter(place, to_arrow_schema(rows.schema, timezone="UTC"), prefix)


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
    prefix: str

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Write the rows of a task, and say where."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = (0, 0) if context is None else (context.partitionId(), context.taskAttemptId())
        name = f"{self.prefix}-{task[0]:05}-{task[1]}"
        held, size, number = [], 0, 0
        with told_to_spark():
            for batch in batches:
                if not batch.num_rows:
                    continue
                held.append(batch)
                size += batch.nbytes
                if size >= _FILE_BYTES:
                    yield self.create(f"{name}-{number}.parquet", held)
                    held, size, number = [], 0, number + 1
            if held:
                yield self.create(f"{name}-{number}.parquet", held)

    def create(self, name: str, batches: list[Any]) -> Any:
        """Create one file of rows, and return its name and what is in it."""
        rows = [pa.RecordBatch.from_arrays(one.columns, schema=self.schema) for one in batches]
        table, buffer = pa.Table.from_batches(rows, self.schema), io.BytesIO()
        pq.write_table(table, buffer, compression="zstd")
        try:
            _create(self.place, name, buffer.getvalue())
        except OSError as problem:
            raise worker_problem("write", self.place, problem.strerror or type(problem).__name__) from problem
        except Unavailable as problem:
            raise worker_problem("write", self.place, problem.message) from problem
        about = {"name": name, "rows": table.num_rows, "size": buffer.tell(), "stats": _stats(table)}
        return pa.RecordBatch.from_pylist([about])


_TEXT_MAX: Final = 64
"""Longer texts are no bounds: a log that repeats them would grow with them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


# Any: pyarrow is not typed.
def _stats(table: Any) -> str:
    """Return what readers of an open table leave files out by: bounds that are wide enough, or none."""
    least: dict[str, object] = {}
    most: dict[str, object] = {}
    nulls = {one.name: table[one.name].null_count for one in table.schema if not pa.types.is_nested(one.type)}
    for one in table.schema:
        if nulls.get(one.name) not in (None, table.num_rows):
            bounds = _bounds(table[one.name], one.type)
            if bounds is not None:
                least[one.name], most[one.name] = bounds
    return json.dumps(
        {"numRecords": table.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}
    )


def _bounds(column: Any, kind: Any) -> tuple[object, object] | None:
    if pa.types.is_timestamp(kind):
        # Delta has milliseconds: the least is cut down to them, the greatest up.
        found = pc.min_max(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())).as_py()
        with suppress(OverflowError):
            return _moment(found["min"] // 1000, kind), _moment(-(-found["max"] // 1000), kind)
        return None
    if pa.types.is_date32(kind):
        found = pc.min_max(column).as_py()
        return found["min"].isoformat(), found["max"].isoformat()
    if pa.types.is_integer(kind):
        found = pc.min_max(column).as_py()
        return found["min"], found["max"]
    if pa.types.is_string(kind):
        found = pc.min_max(column).as_py()
        return (found["min"], found["max"]) if max(map(len, found.values())) <= _TEXT_MAX else None
    return None


def _moment(milliseconds: int, kind: Any) -> str:
    text = (_EPOCH + timedelta(milliseconds=milliseconds)).replace(tzinfo=None)
    return text.isoformat(timespec="milliseconds") + ("Z" if kind.tz else "")


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
