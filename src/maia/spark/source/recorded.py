"""How is a recorded type read by `spark.read.format("maia")`, as other tables are?

    spark.read.format("maia").option("profile", "dashboard").option("log", "s3://city-logs/*").load("LabResult")

The driver opens the log, decides what the reader sees, and holds the keys (`maia.spark.open_log`). Whoever
plans the query asks the driver's desk for what came of it, and tasks read and open ranges of the log.
Filters of the query are applied to what the View shows, before rows leave the task. Which columns a query
asks for, Spark does not tell a source in Python: `log.table(…).to_spark(spark)` opens those alone, and so
does the option `columns` here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from maia.errors import BadInput, ProtocolViolation, Unavailable
from maia.events import Attribute
from maia.predicates import AllOf
from maia.spark.errors import told_to_spark
from maia.spark.governed.asked_columns import work_of_task
from maia.spark.governed.log_folder import LogFrames, missing_of
from maia.spark.governed.reading_ledger import ReadingLedger, SeenRows
from maia.spark.source.filters import pushed_predicates
from maia.spark.source.options import listed, yes_or_no
from maia.views.arrow_executor import to_arrow_test

if TYPE_CHECKING:
    from maia.spark.open_log import RecordedLog

__all__ = ["LOG", "OpenLogs", "RecordedReader", "RecordedRight", "recorded_right"]

LOG: Final = "log"
_TAKES: Final = frozenset(
    {
        LOG, "profile", "type", "filter", "columns", "since", "until", "asOf", "meta", "ledger", "complete",
        "failOnDataLoss",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RecordedRight:
    """What a reader sees of a recorded type. It holds no key: tasks ask the driver's desk."""

    parts: tuple[tuple[SeenRows, ReadingLedger | None], ...]
    cores: int

    @property
    def schema(self) -> pa.Schema:
        """Return the columns."""
        return self.parts[0][0].schema

    def only(self) -> tuple[SeenRows, ReadingLedger | None]:
        """Return what a stream reads."""
        if len(self.parts) != 1:
            raise BadInput(
                "INPUT-SPARK-OPTION",
                "your right shows events of this type as another one for a part of the time: make a stream "
                "of them with `log.stream(…)`",
            )
        return self.parts[0]


def recorded_right(data: bytes) -> RecordedRight:
    """Read what the driver's desk has laid out; it came sealed, from the process whose job this is."""
    found = pickle.loads(data)  # noqa: S301 - of the driver, which hands code to its tasks anyway
    if not isinstance(found, RecordedRight):
        raise ProtocolViolation("PROTOCOL-JOB-DESK", "the driver's desk has laid out something else")
    return found


class OpenLogs:
    """The logs that queries of one driver read, each opened once, with the watch over its reader's right."""

    def __init__(self, host: str, bind: str, cores: Callable[[], int]) -> None:
        """Take where tasks reach this driver, and how many cores they have."""
        self._host, self._bind, self._cores = host, bind, cores
        self._logs: dict[tuple[str, str, bool], RecordedLog] = {}
        self._lock = Lock()

    def lay_out(self, words: Mapping[str, str]) -> bytes:
        """Return what a reader sees, for who plans a query; raise what is wrong with its options."""
        with self._lock:
            return pickle.dumps(self._right(words))

    def _right(self, words: Mapping[str, str]) -> RecordedRight:
        for name in words:
            if name not in _TAKES:
                raise BadInput(
                    "INPUT-SPARK-OPTION",
                    f"option `{name}` is of what is read live, and not of a recorded log",
                )
        for name in ("profile", "type"):
            if not words.get(name):
                raise BadInput("INPUT-SPARK-OPTION", f"option `{name}` is missing")
        from maia.spark.open_log import rows_for_tasks

        table = self._log(words).table(
            words["type"],
            words.get("filter") or "true",
            columns=listed(words["columns"]) if words.get("columns") else None,
            since=words.get("since") or None,
            until=words.get("until") or None,
            as_of=words.get("asOf") or None,
            with_meta=yes_or_no("meta", words, "false"),
            ledger=words.get("ledger") or None,
        )
        return RecordedRight(tuple(rows_for_tasks(table, self._host, self._bind)), self._cores())

    def _log(self, words: Mapping[str, str]) -> RecordedLog:
        from maia.spark.open_log import open_log

        known = (words[LOG], words["profile"], yes_or_no("complete", words, "false"))
        if known not in self._logs:
            places = listed(words[LOG])
            address = places[0] if len(places) == 1 else places
            self._logs[known] = open_log(address or None, as_=words["profile"], require_complete=known[2])
        return self._logs[known]


class RecordedReader(DataSourceReader):
    """One read of what a log has now."""

    def __init__(self, right: RecordedRight) -> None:
        """Read nothing yet."""
        self._right = right
        self._pushed: tuple[Filter, ...] = ()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Apply what has an exact counterpart to what is shown; leave all of it to Spark as well."""
        self._pushed = tuple(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return the ranges that tasks read."""
        with told_to_spark():
            frames = [LogFrames(seen.opener.wanted) for seen, _ in self._right.parts]
            for (seen, _), one in zip(self._right.parts, frames, strict=True):
                if seen.opener.wanted.require_complete and (missing := missing_of(one.found())):
                    raise Unavailable(
                        "UNAVAILABLE-LOG-INCOMPLETE",
                        f"the log is known to lack {missing} publications of this type; its broker asks "
                        "others for them, and what it finds is in a later read",
                    )
            found = [
                InputPartition((part, stretches))
                for part, one in enumerate(frames)
                for stretches in one.ranges(cores=self._right.cores)
            ]
            return found or [InputPartition((0, ()))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield what the reader sees of a task's ranges."""
        with told_to_spark():
            part, stretches = partition.value
            seen, ledger = self._right.parts[part]
            found = seen.of(seen.opener.opened(stretches))
            shown = (
                (one.shown for one in found)
                if ledger is None
                else ledger.shown(found, work_of_task(ledger.table))
            )
            yield from map(self._wanted(seen), shown)

    def _wanted(self, seen: SeenRows) -> Callable[[Any], Any]:
        named = {one.name: one for one in seen.delivered}
        asked = pushed_predicates(self._pushed, named)
        if not asked:
            return lambda batch: batch
        test = to_arrow_test(AllOf(asked), {one.uid: one.kind for one in seen.delivered})
        return lambda batch: batch.filter(test(_by_uid(batch, seen.delivered)))


def _by_uid(batch: Any, delivered: Sequence[Attribute]) -> Any:
    return pa.RecordBatch.from_arrays(batch.columns[: len(delivered)], names=[one.uid for one in delivered])
