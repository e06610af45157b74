"""How do the results of a run without an end become a table that everybody reads, each batch once?

`maia pipeline run --follow --out` asks. The table is a Delta table: Parquet files, and a log of which of
them count, that PyPI's `deltalake` writes without Java and that pandas, polars, DuckDB and Spark read. Tasks
write files beside the table; the driver commits their names, with the id of the query and the number of the
batch as Delta's application transaction. So a batch that runs again behind its commit changes nothing, and
what a killed task leaves behind is in no version of the table, until vacuum takes it.

The table holds of each key what was said last. A batch replaces the files in which rows of its keys are by
files without them, in the same commit.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, datetime
from importlib.util import find_spec
from os import strerror
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput, ExtraMissing, Unavailable
from maia.places import Place, place_of, store_options
from maia.private_files import make_private_folder
from maia.spark.applications.results import DataFile, make_like_parent, write_files
from maia.spark.session.cluster import is_here
from maia.spark.stored_files import FILE, ROW, StoredFiles

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "COMPACT_EVERY",
    "Compacted",
    "OpenTable",
    "check_open_table",
    "compact",
    "is_open_table",
    "rows_of_table",
]

COMPACT_EVERY: Final = 50
_OWNER: Final = "maia.checkpoint"
"""The property of a table that says which query's checkpoint it belongs to."""
_ATTEMPTS: Final = 5
_TARGET_BYTES: Final = 64 << 20
"""About how large compaction makes a file: a batch that takes back one row writes its file anew."""
_BROADCAST_ROWS: Final = 100_000
_CUT_AT: Final = 32
"""Libraries keep no more of a long text as a bound."""
_REASON: Final = re.compile(r"<Code>(\w+)</Code>|\(os error (\d+)\)|Os \{ code: (\d+)")


# ------------------------------------------------------------ writing


class OpenTable:
    """The table of one query. Called with each of its batches, one after the other."""

    def __init__(
        self, place: str, *, name: str, keys: Sequence[str], compact_every: int = COMPACT_EVERY
    ) -> None:
        """Look nowhere yet."""
        self._place, self._name, self._keys = place_of(place), name, tuple(keys)
        self._compact_every, self._commits = compact_every, 0
        self._query: str | None = None
        self._table: DeltaTable | None = None

    def __call__(self, said: DataFrame, batch: int) -> None:
        """Put what was said about a batch into the table; the same batch again changes nothing."""
        table = self._opened(said, batch)
        if table.transaction_version(self._query_id) == batch:
            # It was committed before. It runs nevertheless, for the state that it leaves in the checkpoint.
            said.write.format("noop").mode("overwrite").save()
            return
        found = write_files(said, self._place, f"part-{uuid4().hex}")
        if found:
            self._commit(said, found, batch)
            self._commits += 1
            if self._compact_every and self._commits % self._compact_every == 0:
                compact(self._place)

    @property
    def _query_id(self) -> str:
        assert self._query is not None  # noqa: S101 - `_opened` was first
        return self._query

    def _opened(self, said: DataFrame, batch: int) -> DeltaTable:
        """Return the table, made if there is none; refuse one that is not of this query, or ahead of it."""
        if self._query is None:
            self._query = _query_of(said.sparkSession)
        if self._table is None:
            if not is_open_table(self._place):
                self._make(said)
            self._table = _table(self._place)
        else:
            with _reached(self._place):
                self._table.update_incremental()
        table = self._table
        owner = table.metadata().configuration.get(_OWNER)
        if owner != self._query:
            raise _refused(
                self._place, "it is the table of another checkpoint" if owner else "Maia has not made it"
            )
        done = table.transaction_version(self._query)
        if done is not None and done > batch:
            raise _refused(
                self._place,
                f"it has later batches than {batch}, at which this checkpoint is: they are another's",
            )
        if table.schema() != _delta_schema(ours := _arrow(said)):
            theirs = _names_and_types(_schema(table))
            raise _refused(
                self._place, f"its columns are {theirs}, and the result has {_names_and_types(ours)}"
            )
        return table

    def _make(self, said: DataFrame) -> None:
        from deltalake import DeltaTable

        if self._place.names():
            raise _refused(
                self._place, "other files are in it (for folders `maia_batch=…`: --format parquet)"
            )
        if (folder := self._place.local) is not None and not folder.exists():
            with _reached(self._place):
                (make_private_folder if is_here(said.sparkSession) else make_like_parent)(folder)
        with _reached(self._place):
            DeltaTable.create(
                self._place.address,
                _delta_schema(_arrow(said)),
                name=self._name,
                configuration={_OWNER: self._query_id},
                storage_options=store_options(self._place),
                raise_if_key_not_exists=False,
            )

    def _commit(self, said: DataFrame, found: list[DataFile], batch: int) -> None:
        """Commit files, and the removal of what they replace; again if the table has changed."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction, RemoveAction

        spark, schema = said.sparkSession, _arrow(said)
        for attempt in range(_ATTEMPTS):
            table = self._opened(said, batch)
            if table.transaction_version(self._query_id) == batch:
                return
            replaced, kept = self._replaced(spark, table, found)
            now = time.time_ns() // 1_000_000
            added = [AddAction(one.name, one.size, {}, now, True, one.stats) for one in (*found, *kept)]
            removed = [RemoveAction(one.name, True, now, one.size, {}) for one in replaced]
            # INVARIANT: nothing was committed since `table` was read. By itself the library commits behind a
            # compaction, too, which has put the rows that we replace into another file.
            once = CommitProperties(
                app_transactions=[Transaction(self._query_id, batch, now)], max_commit_retries=0
            )
            with _reached(self._place):
                try:
                    table.create_write_transaction(
                        [*added, *removed],
                        "append",
                        _delta_schema(schema),
                        commit_properties=once,
                    )
                except CommitFailedError:  # such as for a compaction that came first
                    if attempt + 1 == _ATTEMPTS:
                        raise
                else:
                    return

    def _replaced(
        self, spark: SparkSession, table: DeltaTable, found: list[DataFile]
    ) -> tuple[list[_Known], list[DataFile]]:
        """Return the files in which keys of new files are, and files with the other rows of those."""
        keys, schema = list(self._keys), _schema(table)
        of_keys = pa.schema([schema.field(name) for name in keys])
        ranges = _ranges(found, of_keys)
        near = [one for one in _known_files(table) if one.may_hold(ranges)]
        if not near:
            return [], []
        new = StoredFiles(tuple(self._place / one.name for one in found), of_keys).table(spark).select(*keys)
        if sum(one.rows for one in found) > _BROADCAST_ROWS:
            new = new.hint("merge")  # Spark takes any table of ours for a small one
        new = new.select(*(F.col(name).alias(f"new_{name}") for name in keys))
        is_same = [F.col(name).eqNullSafe(F.col(f"new_{name}")) for name in keys]
        old = StoredFiles(tuple(self._place / one.name for one in near), of_keys).table(spark)
        hit = {one[FILE] for one in old.join(new, is_same, "left_semi").select(FILE).distinct().collect()}
        replaced = [one for one in near if one.name in hit]
        if not replaced:
            return [], []
        whole = StoredFiles(tuple(self._place / one.name for one in replaced), schema).table(spark)
        others = whole.join(new, is_same, "left_anti").drop(FILE, ROW)
        return replaced, write_files(others, self._place, f"part-{uuid4().hex}")


# Any: pyarrow is not typed.
def _said_query(_numbers: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    yield pa.RecordBatch.from_pydict({"query": pa.array([query], pa.string())})


def _query_of(spark: SparkSession) -> str:
    """Return the id of the query whose batch runs; a task knows it, on a server of Connect, too."""
    (found,) = spark.range(0, 1, 1, 1).mapInArrow(_said_query, "query string").collect()
    if not found.query:
        raise BadInput("INPUT-SPARK-QUERY", "Spark did not say which query a batch belongs to")
    return str(found.query)


# ------------------------------------------------------------ what lies in the table


@dataclass(frozen=True, slots=True)
class _Known:
    """A file of the table, and between which values its columns lie, where that is known."""

    name: str
    size: int
    # Any: values of all kinds.
    bounds: dict[str, tuple[Any, Any]]

    def may_hold(self, ranges: dict[str, tuple[Any, Any]]) -> bool:
        """Return whether a key may be in it, of which each column lies in a range."""
        return all(
            name not in self.bounds or (low <= self.bounds[name][1] and self.bounds[name][0] <= high)
            for name, (low, high) in ranges.items()
        )


def _known_files(table: DeltaTable) -> list[_Known]:
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return [_Known(one["path"], one["size_bytes"], _bounds_of(one)) for one in rows]


def _bounds_of(action: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [name.removeprefix("min.") for name in action if name.startswith("min.")]
    found = {name: (action[f"min.{name}"], action.get(f"max.{name}")) for name in names}
    # A file that has a null may hold a key that is null, which lies between no bounds. Long texts are cut.
    return {
        name: bounds
        for name, bounds in found.items()
        if action.get(f"null_count.{name}") == 0
        and not any(one is None or (isinstance(one, str) and len(one) >= _CUT_AT) for one in bounds)
    }


# Any: pyarrow is not typed.
def _ranges(found: Sequence[DataFile], keys: Any) -> dict[str, tuple[Any, Any]]:
    """Return between which values each column of the keys lies in new files, where all of them say so."""
    said = [json.loads(one.stats) for one in found]
    ranges = {}
    for key in keys:
        name = key.name
        if any(one["nullCount"].get(name) != 0 or name not in one["minValues"] for one in said):
            continue
        low = min(one["minValues"][name] for one in said)
        high = max(one["maxValues"][name] for one in said)
        ranges[name] = (_value(low, key.type), _value(high, key.type))
    return ranges


def _value(said: Any, kind: Any) -> Any:
    """Return what Delta's log means, as `get_add_actions` returns it."""
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(said)
    return date.fromisoformat(said) if pa.types.is_date(kind) else said


def is_open_table(place: Place) -> bool:
    """Return whether a place holds an open table."""
    from deltalake import DeltaTable

    with _reached(place):
        return DeltaTable.is_deltatable(place.address, store_options(place))


def rows_of_table(spark: SparkSession, place: Place) -> DataFrame:
    """Return what an open table holds now, as Spark reads it."""
    table = _table(place)
    files, schema = tuple(place / one.name for one in _known_files(table)), _schema(table)
    if place.local is not None and files:
        return spark.read.parquet(*map(str, files))
    return StoredFiles(files, schema).table(spark).drop(FILE, ROW)


def _table(place: Place) -> DeltaTable:
    from deltalake import DeltaTable

    with _reached(place):
        return DeltaTable(place.address, storage_options=store_options(place))


# Any: pyarrow is not typed.
def _schema(table: DeltaTable) -> Any:
    return pa.schema(table.schema().to_arrow())


# Any: pyarrow is not typed.
def _arrow(said: DataFrame) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    found = to_arrow_schema(said.schema, timezone="UTC")
    return pa.schema([one.with_nullable(True) for one in found])


def _delta_schema(schema: Any) -> Any:
    from deltalake import Schema

    return Schema.from_arrow(schema)


def _names_and_types(schema: Any) -> str:
    return ", ".join(f"`{one.name}` {one.type}" for one in schema)


def check_open_table(place: str) -> None:
    """Refuse a place in which no open table can be, and a machine without the library."""
    if find_spec("deltalake") is None:
        raise ExtraMissing("open tables need deltalake: pip install 'maia-pubsub[spark]'")
    try:
        store_options(place_of(place))
    except BadInput as problem:
        if problem.code != "PLACE-READ-ONLY":
            raise
        raise BadInput(
            "INPUT-PIPELINE-RESULT",
            f"no open table can be at `{place}`: name a folder, or one of s3, gs and abfs, "
            "or say --format parquet",
        ) from None


# ------------------------------------------------------------ compaction


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did."""

    files: int
    """How many the table has now."""
    joined: int
    """How many became fewer."""
    deleted: int
    """How many were in no version that is kept."""


def compact(place: Place, *, keep_hours: int | None = None) -> Compacted:
    """Join small files of a table, and delete those that it has not needed for a week, or so many hours.

    A stream may go on meanwhile. Whoever reads an older version than is kept finds its files gone, and so
    would a batch that takes longer than that.
    """
    from deltalake.exceptions import CommitFailedError

    if not is_open_table(place):
        raise BadInput("INPUT-PIPELINE-SOURCE", f"`{place}` is no open table: `--format delta` makes them")
    table, joined = _table(place), 0
    with _reached(place), suppress(CommitFailedError):  # a batch came first: its files are joined next time
        joined = int(table.optimize.compact(target_size=_TARGET_BYTES)["numFilesRemoved"])
    table = _table(place)
    with _reached(place):
        gone = table.vacuum(
            keep_hours, dry_run=False, enforce_retention_duration=keep_hours is None, full=True
        )
        return Compacted(len(table.file_uris()), joined, len(gone))


# ------------------------------------------------------------ problems


@contextmanager
def _reached(place: Place) -> Iterator[None]:
    """Let what the library raises end as one sentence, without what a store has said."""
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as problem:
        raise _unreachable(place, _reason(problem)) from None


def _reason(problem: Exception) -> str:
    # What a store's library says may hold headers and keys; the name of the error does not.
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    named = _REASON.search(str(problem))
    if named is None:
        is_conflict = type(problem).__name__ == "CommitFailedError"
        return "others committed to it again and again" if is_conflict else type(problem).__name__
    return named[1] or strerror(int(named[2] or named[3]))


def _unreachable(place: Place, why: str) -> Unavailable:
    return Unavailable("PIPELINE-PLACE", f"the table `{place}` cannot be read or written: {why}")


def _refused(place: Place, why: str) -> BadInput:
    return BadInput(
        "INPUT-PIPELINE-RESULT",
        f"`{place}` cannot be gone on with: {why}; take its own checkpoint, or a new table (--out)",
    )
