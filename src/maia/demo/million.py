"""Does Spark give each office the same answer as the kernel, over a million sightings?

The sightings are generated once and kept as Parquet, by attribute uid. Spark
runs each office's View as a job and writes what that office sees. The kernel
reads the same files meanwhile and applies the same View event by event, and
the two results are compared row by row. Nothing is collected to the driver by
Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from maia.credentials import Action
from maia.demo.numberplate import (
    NUMBERPLATE_ATTRIBUTES,
    NUMBERPLATE_KINDS,
    OFFICES,
    NumberplateStory,
    view_of,
)
from maia.events import AttributeUid, Instant, Kind
from maia.policy import View
from maia.spark.generators import SIGHTINGS, Order
from maia.spark.generators.files import ROWS_PER_FILE
from maia.views import ARROW_TYPES, to_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_BATCH_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class Comparison:
    """One office's answer from Spark beside the kernel's."""

    office: str
    seen_by_spark: int
    seen_by_kernel: int
    same: bool
    values_seen: Mapping[str, int]
    spark_s: float


def generate_sightings(folder: Path, *, rows: int, seed: int) -> None:
    """Generate sightings and keep them as Parquet, in columns called by attribute uid."""
    folder.mkdir()
    order, uids = Order(rows, seed), {one.name: one.uid for one in NUMBERPLATE_ATTRIBUTES}
    names = [uids[name] for name, _kind in SIGHTINGS.columns]
    for number, start in enumerate(range(0, max(rows, 1), ROWS_PER_FILE)):
        some = order.part(SIGHTINGS, start, ROWS_PER_FILE).rename_columns(names)
        pq.write_table(pa.Table.from_batches([some]), folder / f"part-{number:05}.parquet")


def offices_views(story: NumberplateStory, *, now: Instant) -> dict[str, View]:
    """Return the View of each office, decided from its certificates."""
    return {office: view_of(story, office, Action.SUBSCRIBE, now=now) for office in OFFICES}


def seen_in_spark(spark: SparkSession, view: View, sightings: Path, out: Path) -> float:
    """Run a View as a Spark job, keep what it shows as Parquet, and return the seconds it took."""
    from maia.views.to_spark import to_spark

    started = perf_counter()
    events = spark.read.parquet(str(sightings))
    to_spark(view, NUMBERPLATE_KINDS, NUMBERPLATE_ATTRIBUTES).of(events).write.parquet(str(out))
    return perf_counter() - started


def seen_by_kernel(
    views: Mapping[str, View], sightings: Path, advance: Callable[[int], None] = lambda _rows: None
) -> dict[str, Any]:
    """Apply every View to every sighting, event by event, and return what each shows as a table."""
    # Any: pyarrow is not typed.
    executors = {office: to_python(view) for office, view in views.items()}
    parts: dict[str, list[Any]] = {office: [] for office in views}
    for events in _batches(sightings):
        for office, see in executors.items():
            parts[office].append(_table([shown for event in events if (shown := see(event)) is not None]))
        advance(len(events))
    return {office: pa.concat_tables(tables) for office, tables in parts.items()}


def compared(office: str, out: Path, by_kernel: Any, *, spark_s: float) -> Comparison:
    """Compare what Spark wrote for an office with what the kernel found, row by row."""
    ours, theirs = _sorted(by_kernel), _sorted(pq.read_table(out))
    return Comparison(
        office=office,
        seen_by_spark=theirs.num_rows,
        seen_by_kernel=ours.num_rows,
        same=theirs.equals(ours),
        values_seen={name: theirs.num_rows - theirs[name].null_count for name in theirs.column_names},
        spark_s=spark_s,
    )


def _batches(sightings: Path) -> Iterator[list[dict[AttributeUid, Any]]]:
    for file in sorted(sightings.glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS):
            columns = (_values(batch.column(uid), kind) for uid, kind in NUMBERPLATE_KINDS.items())
            plate, moment, place = NUMBERPLATE_KINDS
            # Written out, because a million rows pass here while the user waits.
            yield [{plate: a, moment: b, place: c} for a, b, c in zip(*columns, strict=True)]


def _values(column: Any, kind: Kind) -> list[Any]:
    if kind is Kind.TIMESTAMP:
        moments = column.cast(pa.int64()).to_pylist()
        if not column.null_count:
            return list(map(Instant, moments))
        return [None if value is None else Instant(value) for value in moments]
    return list(column.to_pylist())


def _table(seen: list[dict[AttributeUid, Any]]) -> Any:
    arrays, names = [], []
    for attribute in NUMBERPLATE_ATTRIBUTES:
        values = [event.get(attribute.uid) for event in seen]
        arrays.append(_array(values, attribute.kind))
        names.append(attribute.name)
    return pa.Table.from_arrays(arrays, names)


def _array(values: list[Any], kind: Kind) -> Any:
    if kind is Kind.TIMESTAMP:
        return pa.array(values, pa.int64()).cast(ARROW_TYPES[kind])
    return pa.array(values, ARROW_TYPES[kind])


def _sorted(table: Any) -> Any:
    """Return the rows in one order, so that equal results are equal tables."""
    plain = table.select([a.name for a in NUMBERPLATE_ATTRIBUTES]).cast(_SCHEMA)
    # By moment first: hardly any two rows share one, so texts are hardly ever compared.
    names = sorted(plain.column_names, key=lambda name: name != "timestamp")
    return plain.sort_by([(name, "ascending") for name in names]).combine_chunks()


_SCHEMA: Final = pa.schema([(a.name, ARROW_TYPES[a.kind]) for a in NUMBERPLATE_ATTRIBUTES])
