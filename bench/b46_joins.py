"""What does it cost that closure and bulk matching have no step on the driver that grows?

Closure: very many certificates about one type, as a table. Our side finds chains in rounds of joins. The peer
is how it was done before: the driver reads the pool, and one Python task walks all of a type. Matching: the
keys of as many subscriptions, as a table. Our side has tasks work them out; the peer is the driver, which
reads the table, groups subscriptions by View, splits filters and writes the keys itself. Both take minutes,
so that each is run once, behind a rehearsal with a tenth. What is compared as well is the most memory that
the driver held, with all and with a tenth.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from b20_bulk_policies import STORED, _view
from b33_closure import LEVELS, NOW, _certificates, _key, _type
from bench_spark import bench_session
from harness import Benchmark, Case, Figure, at_least, at_most
from maia.credentials import certificate_to_bytes
from maia.spark.closure.reach import Reach
from maia.spark.closure.tables import ROWS, Closure, _columns, build
from maia.spark.matching.boxes import boxes_of, buckets_of, kept_shapes, key_of
from maia.spark.matching.bulk import BulkMatcher
from maia.spark.matching.tables import SUBSCRIPTIONS, Subscription, filters_of, subscription_rows
from maia.types import VerifiedType, definition_to_bytes

MANY = 200_000
_AT_ONCE = 20_000


def cases(quick: bool) -> Iterator[Case]:
    """Yield the races, and the driver's memory."""
    many = 2_000 if quick else MANY
    with (
        tempfile.TemporaryDirectory(prefix="maia-joins-") as scratch,
        bench_session("bench 46", quick=quick, memory_mib=4096) as spark,
    ):
        yield from _closures(spark, Path(scratch), many)
        yield from _matchers(spark, Path(scratch), many)


# ---------------------------------------------------------------- closure


def _closures(spark: SparkSession, scratch: Path, many: int) -> Iterator[Case]:
    owner = _key(0)
    keys = [_key(number) for number in range(1, many // 10 + 1)]
    event_type, levels, begin = _type(owner, 0), [], 0
    for part in LEVELS:
        end = begin + max(1, round(part * len(keys)))
        levels.append(keys[begin:end])
        begin = end
    made = _certificates(owner, levels, event_type, many, random.Random(46))
    schema = pa.schema([("certificate", pa.binary())])
    rows = ({"certificate": certificate_to_bytes(one)} for one in made)
    few, whole = scratch / "few.parquet", scratch / "pool.parquet"
    _write(islice(rows, many // 10), schema, few)
    _write(rows, schema, whole)
    pq.write_table(pa.concat_tables([pq.read_table(one) for one in (few, whole)]), whole)
    numbers = count()

    def ours(pool: Path) -> Closure:
        place = scratch / f"closure-{next(numbers)}"
        return build(spark, [], place, types=[[event_type]], tables=[str(pool)], at=NOW)

    def peer() -> str:
        return _one_task_a_type(spark, event_type, whole, scratch / f"walked-{next(numbers)}")

    joined, walked = ours(few), _one_task_a_type(spark, event_type, few, scratch / "walked")
    columns = ["principal", "uid", "where", "since", "until", "certificates"]
    found = [spark.read.parquet(one).select(columns) for one in (str(joined.place / "rows"), walked)]
    assert found[0].exceptAll(found[1]).isEmpty()
    assert found[1].exceptAll(found[0]).isEmpty()
    yield _race(
        f"the closure of {many:,} certificates about one type, against one task that walks it",
        ours=lambda: ours(whole),
        peer=peer,
    )
    yield _memory("closure", many, lambda: ours(few), lambda: ours(whole))


def _one_task_a_type(spark: SparkSession, event_type: VerifiedType, pool: Path, place: Path) -> str:
    """Compute a closure as it was done before: the pool in the driver's memory, a type in one task."""
    certificates = pq.read_table(pool)["certificate"].to_pylist()
    given = place.with_suffix(".given.parquet")
    pq.write_table(pa.table({"certificate": pa.array(dict.fromkeys(certificates), pa.binary())}), given)
    definition = definition_to_bytes(event_type.signed)

    def close(table: pa.Table) -> pa.Table:
        from maia.credentials import certificate_from_bytes
        from maia.types import definition_from_bytes, verify_definition

        of_type = verify_definition(definition_from_bytes(definition), at=NOW)
        read = [certificate_from_bytes(one) for one in table["certificate"].to_pylist()]
        return pa.Table.from_batches(_columns(Reach(of_type, read, at=NOW).grants(), of_type), ROWS)

    schema = spark.createDataFrame(ROWS.empty_table()).schema
    filed = spark.read.parquet(str(given)).withColumn("type_no", F.lit(0))
    filed.groupBy("type_no").applyInArrow(close, schema).write.parquet(str(place))
    return str(place)


# ---------------------------------------------------------------- matching


def _matchers(spark: SparkSession, scratch: Path, many: int) -> Iterator[Case]:
    few, whole = scratch / "some.parquet", scratch / "subscriptions.parquet"
    for number, path in ((many // 10, few), (many, whole)):
        chance = random.Random(46)
        given = (Subscription(str(at), "sighting", _view(at, chance)) for at in range(number))
        with pq.ParquetWriter(path, SUBSCRIPTIONS) as writer:
            while some := list(islice(given, _AT_ONCE)):
                writer.write_table(subscription_rows(some))

    def ours(path: Path) -> BulkMatcher:
        return BulkMatcher(spark, spark.read.parquet(str(path)), STORED)

    for rehearsed in (lambda: ours(few), lambda: _on_the_driver(spark, few)):
        rehearsed()
    yield _race(
        f"the keys of {many:,} subscriptions, against the driver",
        ours=lambda: ours(whole),
        peer=lambda: _on_the_driver(spark, whole),
    )
    yield _memory("matching", many, lambda: ours(few), lambda: ours(whole))


def _on_the_driver(spark: SparkSession, path: Path) -> int:
    """Work out classes and keys as it was done before, in one process, and hand them to Spark."""
    classes: dict[tuple[object, ...], list[str]] = {}
    for row in pq.read_table(path).to_pylist():
        key = tuple(row[name] for name in SUBSCRIPTIONS.names[1:])
        classes.setdefault(key, []).append(row["subscription"])
    filters = {key: filters_of(*key[1:4], STORED) for key in classes}
    boxes = {one: boxes_of(one, STORED) for seen in filters.values() for one in seen}
    every = [box for one in boxes.values() for box in one.boxes]
    ends, points = {}, {}
    for uid, bounds in (pair for box in every for pair in box.items()):
        if bounds.is_point:
            points.setdefault(uid, set()).add(bounds.low)
        elif bounds.is_range:
            ends.setdefault(uid, []).extend(end for end in (bounds.low, bounds.beyond) if end is not None)
    buckets, sizes = buckets_of(ends), {uid: len(values) for uid, values in points.items()}
    keyed = [key_of(box, sizes, buckets) for box in every]
    counts: dict[object, int] = {}
    for one in keyed:
        counts[one.shape] = counts.get(one.shape, 0) + 1
    shapes = sorted(set(kept_shapes(counts).values()))
    numbers = {shape: at for at, shape in enumerate(shapes)}
    columns: dict[str, list[object]] = {"shape": [numbers[one.shape] for one in keyed]}
    for uid in STORED:
        for end in ("low", "beyond"):
            found = (one.box.get(uid) for one in keyed)
            columns[f"{end} {uid}"] = [None if one is None else getattr(one, end) for one in found]
    for at in range(2):
        spans = [one.touched[at] if at < len(one.touched) else (0, 0) for one in keyed]
        columns |= {f"first {at}": [one for one, _ in spans], f"last {at}": [one for _, one in spans]}
    members = [(at, name) for at, some in enumerate(classes.values()) for name in some]
    named = {"rights_class": [one for one, _ in members], "subscription": [name for _, name in members]}
    return sum(spark.createDataFrame(pa.table(one)).count() for one in (columns, named))


# ---------------------------------------------------------------- time and memory


def _race(case: str, *, ours: Callable[[], object], peer: Callable[[], object]) -> Figure:
    took = []
    for run in (ours, peer):
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e6)
    return Figure(case, [took[1] / took[0]], at_least(3), ours_us=took[:1], peer_us=took[1:])


def _memory(what: str, many: int, few: Callable[[], object], whole: Callable[[], object]) -> Figure:
    peaks = [_peak_mib(one) for one in (few, whole)]
    return Figure(
        f"memory of the driver, {what} of {many:,} over {many // 10:,}",
        [peaks[1] / peaks[0]],
        at_most(1.1),
        note=f"{peaks[0]:,.0f} MiB, {peaks[1]:,.0f} MiB",
    )


def _peak_mib(run: Callable[[], object]) -> float:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    run()
    line = next(one for one in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in one)
    return int(line.split()[1]) / 1024


def _write(rows: Iterable[dict[str, object]], schema: pa.Schema, path: Path) -> None:
    given = iter(rows)
    with pq.ParquetWriter(path, schema) as writer:
        while some := list(islice(given, _AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema))


BENCH = Benchmark(
    number=46,
    name="joins",
    about="the closure of very many certificates, and keys of very many subscriptions, without the driver",
    cases=cases,
    stood="the same by the driver, and by one task for a type",
    peer_lacks="the peer holds all certificates or subscriptions in one process",
)
