"""What is an application of the pipeline?

One function from a data frame to a data frame. It receives what a reader may
see, in columns called by attribute name, where whatever is withheld is null;
it knows nothing about policy. The same function runs over a table and over a
stream: what a stream needs besides, how late an event may be, does nothing to
a table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.errors import BadInput, Unavailable
from maia.events import Kind
from maia.spark.session.cluster import is_connect, is_here
from maia.spark.session.private_handles import explained, physical_plan
from maia.spark.session.session import PLAN_LENGTH
from maia.views import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


_SHOWN: Final = 80
_COLUMNS_SHOWN: Final = 20

# Any: dataclasses have no type of their own; what the terms are is the application's business.
Terms = TypeVar("Terms", bound=Any)


@dataclass(frozen=True, slots=True)
class Application(Generic[Terms]):
    """A named pipeline: what it reads, what it never reads, and the key of its result."""

    name: str
    about: str
    reads: Mapping[str, Kind]
    never_reads: frozenset[str]
    """Columns of the same type of event that this application does without."""
    keys: tuple[str, ...]
    """A stream that says something new about a key takes back all that it said of it before."""
    terms: Terms
    """The settings, with their defaults."""
    compute: Callable[[DataFrame, Terms], DataFrame]
    totals: Callable[[], Mapping[str, Column]]
    """What a whole result comes to, in a few figures. Columns can only be made while Spark runs."""
    generator: str
    """The generator whose events it understands."""

    def of(self, events: DataFrame, terms: Terms | None = None) -> DataFrame:
        """Return the result over a table or a stream of events; nothing but what it reads reaches it."""
        self._check({one.name: one.dataType.simpleString() for one in events.schema.fields})
        return self.compute(events.select(*self.reads), self.terms if terms is None else terms)

    def check_names(self, found: Mapping[str, Kind | None]) -> None:
        """Refuse events without what it reads, by their names and, where they are known, kinds."""
        self._check({name: None if kind is None else _type(kind) for name, kind in found.items()})

    def _check(self, found: Mapping[str, str | None]) -> None:
        """Refuse columns, by the names of their types, without what it reads."""
        for name, kind in self.reads.items():
            wanted = f"`{self.name}` needs the column `{name}` of type {_type(kind)}"
            if name not in found:
                raise BadInput("INPUT-PIPELINE-COLUMN", f"{wanted}, and the table has {_listed(found)}")
            other = found[name]
            if other is not None and other != _type(kind):
                raise BadInput("INPUT-PIPELINE-COLUMN", f"{wanted}, and it is {other[:_SHOWN]}")

    def terms_with(self, changes: Mapping[str, str]) -> Terms:
        """Return the settings with some of them changed, from text."""
        known = {field.name: getattr(self.terms, field.name) for field in fields(self.terms)}
        for name, text in changes.items():
            if name not in known:
                raise BadInput(
                    "INPUT-PIPELINE-TERM",
                    f"`{self.name}` has no term `{name[:_SHOWN]}`; it has {_listed(known)}",
                )
            known[name] = _read(name, text, known[name])
        changed: Terms = type(self.terms)(**known)
        return changed


def _type(kind: Kind) -> str:
    return spark_type(kind).simpleString()


def _listed(names: Mapping[str, object]) -> str:
    shown = [f"`{name[:_SHOWN]}`" for name in list(names)[:_COLUMNS_SHOWN]]
    return ", ".join(shown) + (" and more" if len(names) > _COLUMNS_SHOWN else "") if shown else "none"


def _read(name: str, text: str, before: object) -> object:
    """Read a term as what it was before: a number, a text, or words with commas between them."""
    try:
        match before:
            case int():
                return int(text)
            case float():
                return float(text)
            case tuple():
                return tuple(word.strip() for word in text.split(",") if word.strip())
            case _:
                return text
    except ValueError:
        raise BadInput(
            "INPUT-PIPELINE-TERM", f"`{text[:_SHOWN]}` is no number, and the term `{name}` is one"
        ) from None


# ------------------------------------------------------------ days, where the city is


def check_zone(zone: str) -> None:
    """Refuse a zone that is not in the tables."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(
            "INPUT-PIPELINE-TERM", f"`{zone[:80]}` is no time zone such as `Europe/London`"
        ) from None


def local_time(moment: Column, zone: str) -> Column:
    """Return what the clock on the wall says."""
    return F.from_utc_timestamp(moment, zone)


def day_of(moment: Column, zone: str) -> Column:
    """Return the local midnight before a moment."""
    return F.date_trunc("day", local_time(moment, zone))


def with_day(events: DataFrame, moment: str, *, zone: str, late_days: int) -> DataFrame:
    """Return events with their `day`; a stream takes events of a day until so many days after it.

    A stream drops what is as old as its watermark, so the watermark lies one
    day further back than the last day that counts.
    """
    days = events.withColumn("day", day_of(F.col(moment), zone))
    return days.withWatermark("day", f"{late_days + 1} days")


# ------------------------------------------------------------ Spark's plan, without values


_DEPTH_MAX: Final = 200
_UNNAMED: Final = "…"


def plan_lines(frame: DataFrame) -> list[str]:
    """Return the physical plan, the result first, each operator below what it feeds."""
    if is_connect(frame.sparkSession):
        raise Unavailable(
            "UNAVAILABLE-PLAN",
            "Spark Connect shows plans with the values that are compared: explain it without a cluster",
        )
    known = {*frame.columns, *columns_read(frame)}
    return [f"{'  ' * depth}{_described(node, known)}" for depth, node in _nodes(frame)]


def columns_read(frame: DataFrame) -> set[str]:
    """Return the columns that are read from storage, once Spark has pruned."""
    if is_connect(frame.sparkSession):
        return _columns_of_text(frame)
    return {name for _, node in _nodes(frame) if node.children().isEmpty() for name in _names(node.output())}


def _columns_of_text(frame: DataFrame) -> set[str]:
    """Return the columns in what a server of Connect says of its plan; it hands out no plan."""
    from pyspark.sql.types import StructType

    conf = frame.sparkSession.conf
    before = {one: conf.get(one) for one in ("spark.sql.maxMetadataStringLength", PLAN_LENGTH)}
    for one in before:
        conf.set(one, str(1 << 20))
    try:
        text = explained(frame)
    finally:
        for one, length in before.items():
            conf.set(one, str(length))
    found = re.findall(r"^ReadSchema: (struct<.*>)$", text, re.M)
    return {name for one in found for name in StructType.fromDDL(one[7:-1]).names}  # type: ignore[attr-defined]


def _nodes(frame: DataFrame) -> Iterator[tuple[int, Any]]:
    # Any: py4j, through which PySpark calls Java, is not typed.
    waiting = [(0, physical_plan(frame))]
    while waiting:
        depth, node = waiting.pop()
        if depth > _DEPTH_MAX:
            continue
        yield depth, node
        waiting += [(depth + 1, child) for child in reversed(list(_items(node.children())))]


def _described(node: Any, known: set[str]) -> str:
    looks_at, hands_on = _shown(node.references().toSeq(), known), _shown(node.output(), known)
    if node.children().isEmpty():
        return f"{node.nodeName().strip()}: reads {hands_on}"
    return f"{node.nodeName()}: reads {looks_at}; passes on {hands_on}"


def _shown(attributes: Any, known: set[str]) -> str:
    names = dict.fromkeys(name if name in known else _UNNAMED for name in _names(attributes))
    return ", ".join(names) or "nothing"


def _names(attributes: Any) -> list[str]:
    return [attribute.name() for attribute in _items(attributes)]


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(at) for at in range(sequence.size()))


# ------------------------------------------------------------ over a stream


_BATCH: Final = "maia_batch"


@dataclass(frozen=True, slots=True)
class StreamRun:
    """An application that runs over a stream, until it has seen all that there is."""

    # Any: each application has terms of its own.
    application: Application[Any]
    query: StreamingQuery
    updates: str
    result: DataFrame

    def answer(self) -> DataFrame:
        """Return what was said last: of each key, all rows of the last batch that spoke of it."""
        columns = [f"`{one.name}` {one.dataType.simpleString()}" for one in self.result.schema.fields]
        with_batch = ", ".join((*columns, f"{_BATCH} bigint"))
        said = self.result.sparkSession.read.schema(with_batch).parquet(self.updates)
        keys = list(self.application.keys)
        last = said.groupBy(*keys).agg(F.max(_BATCH).alias("last_batch"))
        of_last = said.join(last, keys).where(F.col(_BATCH) == F.col("last_batch"))
        return of_last.select(*self.result.columns)


def start_stream(
    application: Application[Any], events: DataFrame, terms: object, *, updates: str, checkpoint: str
) -> StreamRun:
    """Start the application over all that a stream has now; `updates` is where each batch is written."""

    # Any: each application has terms of its own.
    def write(said: DataFrame, batch: int) -> None:
        said.write.mode("overwrite").parquet(f"{updates}/{_BATCH}={batch}")

    result = application.of(events, terms)
    # A stream without a batch has an answer without rows.
    if is_here(result.sparkSession):
        Path(updates).mkdir(exist_ok=True)
    else:
        write(result.sparkSession.createDataFrame([], result.schema), -1)
    query = (
        result.writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    return StreamRun(application, query, updates, result)
