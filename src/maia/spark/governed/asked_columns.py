"""How does Spark open only those columns of a governed table that a question asks for?

A table of Spark is a number for each row that its files may hold, and a function for each column. Spark
leaves out the functions of columns that nobody asks for, as it leaves out columns of Parquet, and hands all
others of a task to one process of Python. There the first one that is called opens frames, proves them and
puts them through the View, with the columns of all; the others take theirs from what it found. One function
more says which numbers are rows: a View may show fewer than there are.

What leaves the process is what the View shows. Nothing that it hides is in Spark: no value, no restriction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maia.log.format.errors import LogDamaged
from maia.spark.errors import told_to_spark
from maia.spark.governed.log_folder import LogFrames
from maia.spark.governed.reading_ledger import ReadingLedger, SeenRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["NUMBER", "TableRows", "asked_columns", "work_of_task"]

NUMBER: Final = "_number"
"""The task that shows a row, and which one of its rows it is."""
SHOWN: Final = "_shown"
_TASK_BITS: Final = 40
_END: Final = 1 << 62
"""Behind the last row of a task comes this number, for which there is none."""
_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of a table, task by task. Pickled into the job; it holds no key."""

    token: bytes
    """Another one for each table that is made."""
    seen: SeenRows = field(repr=False)
    ledger: ReadingLedger | None = None

    # Any: pyarrow is not typed.
    def of_task(self, task: int, columns: frozenset[str]) -> Iterator[Any]:
        """Yield some columns of what a task shows, each batch after it is on record."""
        # Which rows a filter of the reader's own passes, shows what it compares.
        told = columns if self.ledger is None else columns | self.seen.filtered_by
        seen = self.seen.narrowed(told)
        shown = seen.of(seen.opener.opened(seen.opener.ranges[task]))
        if self.ledger is None:
            return (one.shown for one in shown)
        ledger = self.ledger.narrowed(seen.delivered)
        return ledger.shown(shown, work_of_task(ledger.table))

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn numbers of tasks into a number for each row that the files of these tasks may hold."""
        with told_to_spark():
            opener = self.seen.opener
            frames = LogFrames(opener.wanted, ("rows",))
            for task in (row["id"] for batch in batches for row in batch.to_pylist()):
                first = task << _TASK_BITS
                for found in (batch for one in opener.ranges[task] for batch in frames.batches(one)):
                    rows = pc.sum(found.column("rows")).as_py() or 0
                    for begin in range(0, rows, _AT_ONCE):
                        yield _numbers(np.arange(first + begin, first + min(rows, begin + _AT_ONCE)))
                    first += rows
                yield _numbers(np.array([_END]))


def _numbers(found: Any) -> Any:
    return pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], names=[NUMBER])


def asked_columns(numbers: DataFrame, table: TableRows, schema: StructType, called: str) -> DataFrame:
    """Return the rows of a table, of which Spark opens what is asked for.

    A function that is not deterministic is called once for each row: no filter moves below it, where it would
    be called again. The plan names columns as `called`, and nothing else of the table.
    """
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
    from pyspark.sql.pandas.functions import arrow_udf

    from maia.views.to_spark import walled

    def column(name: str, kind: Any) -> Any:  # Any: Spark's types, and a function of its own kind
        of_numbers = _named(table, name, f"{called}.{name}")
        # The stubs of Spark know functions over iterators of batches only.
        made = arrow_udf(of_numbers, returnType=kind)  # type: ignore[call-overload]
        return made.asNondeterministic()(F.col(NUMBER)).alias(name)

    shown = column(SHOWN, "boolean")
    rows = numbers.select(shown, *(column(one.name, one.dataType) for one in schema.fields))
    return walled(rows.where(F.col(SHOWN)).drop(SHOWN))


# Any: pyarrow is not typed.
def _named(table: TableRows, name: str, called: str) -> Callable[[Any], Any]:
    column = _Asked(table, name)

    def of_numbers(numbers: pa.Array) -> pa.Array:
        return column(numbers)

    of_numbers.__name__ = called
    return of_numbers


# ------------------------------------------------------------ in a worker


class _Asked:
    """One column of a table, which a stage of Spark asks for, or `SHOWN`."""

    __slots__ = ("_name", "_reading", "_table")

    def __init__(self, table: TableRows, name: str) -> None:
        self._table, self._name = table, name
        self._reading: _Reading | None = None
        """Kept here and nowhere else: what a task has opened goes with its functions."""

    def __reduce__(self) -> tuple[Callable[[TableRows, str], _Asked], tuple[TableRows, str]]:
        return _arrived, (self._table, self._name)

    # Any: pyarrow is not typed.
    def __call__(self, numbers: Any) -> Any:
        """Return the values for some numbers of one task; null where there is no row."""
        with told_to_spark():
            if self._reading is None:
                self._reading = _TASK.reading(self._table)
            rows = self._reading.rows(numbers)
            return rows.shown() if self._name == SHOWN else rows.column(self._name)


def _arrived(table: TableRows, name: str) -> _Asked:
    """Take in a function that Spark has sent to this process: all arrive before the first one is called."""
    _TASK.ask(table, name)
    return _Asked(table, name)


class _Task:
    """What the one task that this process runs asks for."""

    def __init__(self) -> None:
        self._attempt: int | None = None
        self._columns: dict[bytes, set[str]] = {}
        self._readings: WeakValueDictionary[bytes, _Reading] = WeakValueDictionary()

    def ask(self, table: TableRows, name: str) -> None:
        """Note a column of a table; what the task before this one has asked for is forgotten."""
        attempt = _attempt()
        if attempt != self._attempt:
            self._attempt, self._columns, self._readings = attempt, {}, WeakValueDictionary()
        self._columns.setdefault(table.token, set()).add(name)

    def reading(self, table: TableRows) -> _Reading:
        """Return how far this task has read a table."""
        found = self._readings.get(table.token)
        if found is None:
            columns = frozenset(self._columns.get(table.token, ())) - {SHOWN}
            found = self._readings[table.token] = _Reading(table, columns)
        return found


def _attempt() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    return None if context is None else context.taskAttemptId()


_TASK: Final = _Task()

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


def work_of_task(table: str) -> str:
    """Return what attempts at one work have in common: a batch of a query, or a stage over a table."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark has one for every task
    query, batch = (context.getLocalProperty(name) for name in (_QUERY, _BATCH))
    if query is not None and batch is not None:
        return f"query-{query}-{batch}"
    return f"table-{table}-{context.stageId()}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows for some numbers: as many as there are, and nothing behind them."""

    # Any: pyarrow is not typed.
    batches: list[Any]
    rows: int
    asked: int
    schema: Any

    def column(self, name: str) -> Any:
        arrays = [one.column(name) for one in self.batches]
        if self.rows < self.asked:
            arrays.append(pa.nulls(self.asked - self.rows, self.schema.field(name).type))
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def shown(self) -> Any:
        return pa.array(np.arange(self.asked) < self.rows)


class _Reading:
    """The rows of one task, one after the other, as its numbers come."""

    def __init__(self, table: TableRows, columns: frozenset[str]) -> None:
        self._table, self._columns = table, columns
        self._schema = table.seen.narrowed(columns).schema
        self._next: int | None = None
        self._found: Iterator[Any] = iter(())
        self._rest: Any = None
        """What of the last batch has not been handed on."""
        self._last: tuple[int, int] | None = None
        self._rows = _Rows([], 0, 0, self._schema)

    # Any: pyarrow is not typed.
    def rows(self, numbers: Any) -> _Rows:
        """Return the rows for the next numbers, or once more for those of before: another column asks."""
        if not len(numbers):
            return _Rows([], 0, 0, self._schema)
        bounds = numbers[0].as_py(), numbers[-1].as_py()
        if bounds != self._last:
            self._rows, self._last = self._taken(np.asarray(numbers)), bounds
        return self._rows

    def _taken(self, numbers: Any) -> _Rows:
        """Return the rows for the next numbers, which may be of several tasks, one after the other."""
        taken: list[Any] = []
        rows = 0
        ends = np.flatnonzero(numbers == _END)
        for run in np.split(numbers, ends + 1):
            wanted = len(run) - int(len(run) > 0 and run[-1] == _END)
            if wanted:
                rows += self._take(int(run[0]), int(run[wanted - 1]), wanted, taken)
            if len(run) > wanted:
                self._finish()
        return _Rows(taken, rows, len(numbers), self._schema)

    def _take(self, first: int, last: int, wanted: int, taken: list[Any]) -> int:
        if self._next is None:
            self._next = first
            task = first >> _TASK_BITS
            self._found = self._table.of_task(task, self._columns)
        if first != self._next or last - first != wanted - 1:
            raise AssertionError("the numbers of a task came in another order than they were counted out")
        self._next = last + 1
        left = wanted
        while left and (self._rest is not None or self._fetch()):
            rows = min(left, self._rest.num_rows)
            taken.append(self._rest.slice(0, rows))
            self._rest = self._rest.slice(rows) if rows < self._rest.num_rows else None
            left -= rows
        return wanted - left

    def _fetch(self) -> bool:
        """Open the next batch that has rows; say whether there is one."""
        self._rest = next((one for one in self._found if one.num_rows), None)
        return self._rest is not None

    def _finish(self) -> None:
        """Refuse to leave rows out that nothing was counted out for."""
        if self._rest is not None or self._fetch():
            raise LogDamaged("rows", 0, "a segment says that it holds fewer events than there are in it")
        self._next, self._found = None, iter(())
