"""What does a View cost in Spark, against the same rule written by hand, and against functions in Python?

The table is Parquet with ten attributes, by uid. The View was decided from two
certificates: one shows four attributes of fast cars, the other the region of
cars in lane 2. The same rule is written by hand as SQL, as a function for each
row, and as a function for each batch of pandas. The last cases read the table
as a reader of two attributes does, and without any policy: what nobody may see
need not be read. One of them reads a log of sealed frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use
from pyspark.sql import types as t

from bench_spark import bench_session
from governed_log import READER, RecordedLog, grant, record
from harness import Benchmark, Case, Race, Ratio, Side, Target, at_least, at_most
from live_network import ATTRIBUTES, KINDS
from maia.credentials import Action
from maia.policy import Request, View
from maia.predicates import Predicate, parse_predicate
from maia.spark.governed.reader import Reader, slices_of
from maia.spark.governed.table import TableQuery, governed
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.types import SealingLevel
from maia.views import spark_type
from maia.views.to_spark import to_spark

UID = {attribute.name: attribute.uid for attribute in ATTRIBUTES}
FAST = ("numberplate", "timestamp", "speed", "lane")
FAST_RULE, LANE_RULE = 'speed > 50 and region == "Greater London"', "lane == 2"
TWO = ("numberplate", "speed")
RESULT = t.StructType([t.StructField(one.name, spark_type(one.kind)) for one in ATTRIBUTES])


def cases(quick: bool) -> Iterator[Case]:
    """Yield the races."""
    rows = 5_000 if quick else 1_000_000
    with (
        TemporaryDirectory() as folder,
        job_desk() as desk,
        bench_session("bench 18", quick=quick) as spark,
    ):
        log = record(Path(folder) / "log", rows=rows // 10, frame_rows=4096, level=SealingLevel.ATTRIBUTE)
        events = table_of(spark, f"{folder}/table", rows)
        view = decided(log, *rights())
        ours = to_spark(view, KINDS, ATTRIBUTES).of(events)
        yield from against_other_ways(spark, events, ours, rows)
        yield from with_fewer_columns(spark, events, log, desk, rows)


def against_other_ways(spark: SparkSession, events: DataFrame, ours: DataFrame, rows: int) -> Iterator[Case]:
    """Yield the same rule, written in other ways."""
    by_hand = in_sql(spark, events)
    assert scan_of(ours) == scan_of(by_hand), "the View reads other columns, or pushes other filters down"
    expected = digest(ours)
    others = (
        ("the same rule in SQL", by_hand, Ratio.OURS_OVER_PEER, at_most(1.02)),
        ("a function for each row", by_row(events), Ratio.PEER_OVER_OURS, at_least(5)),
        ("a function for each batch of pandas", by_batch(events), Ratio.PEER_OVER_OURS, at_least(3)),
    )
    for name, peer, ratio, target in others:
        assert digest(peer) == expected, name
        yield race(f"a View against {name}", ours, peer, rows, ratio, target)


def with_fewer_columns(
    spark: SparkSession, events: DataFrame, log: RecordedLog, desk: JobDesk, rows: int
) -> Iterator[Case]:
    """Yield what a reader of two attributes reads, against reading everything without policy."""
    narrow = grant(READER, Action.SUBSCRIBE, [UID[name] for name in TWO])
    seen = to_spark(decided(log, narrow), KINDS, ATTRIBUTES).of(events).select(*TWO)
    cut = Ratio.OURS_OVER_PEER
    yield race("two columns of ten against no policy", seen, events, rows, cut, at_most(0.8))
    sealed = governed(spark, query=TableQuery(columns=TWO), **log.known(desk, narrow))
    opened = governed(spark, **log.known(desk))
    assert sealed.count() == opened.count()
    name = "two sealed columns of ten against all ten"
    yield race(name, sealed, opened, rows // 10, cut, at_most(0.8))


def race(case: str, ours: DataFrame, peer: DataFrame, rows: int, ratio: Ratio, target: Target) -> Race:
    """Return a race of two tables, each computed whole and kept nowhere."""
    return Race(
        case,
        ours=Side(run=lambda: away(ours), operations=rows, calls=1),
        peer=Side(run=lambda: away(peer), operations=rows, calls=1),
        ratio=ratio,
        target=target,
    )


# ---------------------------------------------------------------- the rule


def rule(text: str) -> Predicate:
    """Return a rule over the ten attributes."""
    return parse_predicate(text, {one.name: one for one in ATTRIBUTES})


def rights() -> tuple:
    """Return the two certificates."""
    fast = grant(READER, Action.SUBSCRIBE, [UID[name] for name in FAST], rule(FAST_RULE))
    lane = grant(READER, Action.SUBSCRIBE, [UID["region"]], rule(LANE_RULE))
    return fast, lane


def decided(log: RecordedLog, *certificates) -> View:
    """Return the View that the kernel decides from certificates."""
    event_type = log.event_type
    request = Request(READER.principal, Action.SUBSCRIBE, event_type.name, event_type)
    (one,) = slices_of(request, Reader(READER.principal, certificates))
    return one.view


def in_sql(spark: SparkSession, events: DataFrame) -> DataFrame:
    """Return the rule as somebody who knows Spark would write it."""
    events.createOrReplaceTempView("events")
    col = {name: f"`{uid}`" for name, uid in UID.items()}
    fast = f"({col['speed']} > 50L and {col['region']} = 'Greater London')"
    lane = f"({col['lane']} = 2L)"
    shown = [f"case when {fast} then {col[name]} end as `{name}`" for name in FAST]
    shown.append(f"case when {lane} then {col['region']} end as `region`")
    nothing = [
        f"cast(null as {spark_type(one.kind).simpleString()}) as `{one.name}`"
        for one in ATTRIBUTES
        if one.name not in (*FAST, "region")
    ]
    names = ", ".join(f"`{one.name}`" for one in ATTRIBUTES)
    inner = f"select {', '.join(shown + nothing)} from events where {fast} or {lane}"  # noqa: S608 - ours
    return spark.sql(f"select {names} from ({inner})")  # noqa: S608 - ours


def by_row(events: DataFrame) -> DataFrame:
    """Return the rule as a Python function that is called for each row."""
    places = {one.name: place for place, one in enumerate(ATTRIBUTES)}

    def see(*values):
        speed, region, lane = values[places["speed"]], values[places["region"]], values[places["lane"]]
        is_fast = speed is not None and speed > 50 and region == "Greater London"
        is_lane = lane == 2
        if not (is_fast or is_lane):
            return None
        shown = [None] * len(values)
        if is_fast:
            for name in FAST:
                shown[places[name]] = values[places[name]]
        if is_lane:
            shown[places["region"]] = region
        return tuple(shown)

    seen = F.udf(see, RESULT)(*(F.col(f"`{one.uid}`") for one in ATTRIBUTES))
    return events.select(seen.alias("seen")).where("seen is not null").select("seen.*")


def by_batch(events: DataFrame) -> DataFrame:
    """Return the rule as a function over batches of pandas."""

    def see(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            batch.columns = [one.name for one in ATTRIBUTES]
            fast = (batch["speed"] > 50) & (batch["region"] == "Greater London")
            lane = batch["lane"] == 2
            shown = pd.DataFrame({one.name: None for one in ATTRIBUTES}, index=batch.index)
            for name in FAST:
                shown[name] = batch[name].astype(object).where(fast, None)
            shown["region"] = batch["region"].where(lane, None)
            yield shown[fast | lane]

    return events.mapInPandas(see, RESULT)


# ---------------------------------------------------------------- tables


def table_of(spark: SparkSession, path: str, rows: int) -> DataFrame:
    """Write ten attributes of so many events by uid, and return them as a table."""
    number = F.col("id")
    values = {
        "numberplate": F.concat(F.lit("AE"), (number % 90 + 10).cast("string"), F.lit(" XYZ")),
        "timestamp": F.timestamp_micros(number + F.lit(1_800_000_000_000_000)),
        "location": F.concat(F.lit("Victoria Embankment "), (number % 9000).cast("string")),
        "camera": F.concat(F.lit("camera-"), (number % 9000).cast("string"), F.lit("-north")),
        "region": F.when(number % 3 == 0, "Essex").otherwise("Greater London"),
        "direction": F.concat(F.lit("outbound "), (number % 700).cast("string")),
        "speed": number % 60 + 30,
        "lane": number % 4,
        "confidence": 0.5 + (number % 64) / 256,
        "stolen": number % 7 == 0,
    }
    columns = [values[one.name].cast(spark_type(one.kind)).alias(one.uid) for one in ATTRIBUTES]
    spark.range(rows).select(*columns).write.parquet(path)
    return spark.read.parquet(path)


def away(table: DataFrame) -> None:
    """Compute every value of a table, and keep none."""
    table.write.format("noop").mode("overwrite").save()


def digest(table: DataFrame) -> tuple[int, int]:
    """Return how many rows there are, and a sum that depends on every value."""
    names = [one.name for one in ATTRIBUTES]
    found = table.select(F.hash(*names).cast("long").alias("h")).agg(F.count("*"), F.sum("h")).collect()[0]
    return found[0], found[1]


def scan_of(table: DataFrame) -> list[str]:
    """Return what the physical plan reads and pushes down, without the numbers of a query's columns."""
    text = table._jdf.queryExecution().executedPlan().toString()
    return re.findall(r"FileScan .*", re.sub(r"#\d+L?", "", text))


BENCH = Benchmark(
    number=18,
    name="governed-spark",
    about="the compiled View in Spark, against SQL by hand, functions in Python, and no policy",
    cases=cases,
    stood="Python functions cost 6 to 11 times native columns",
    peer_lacks="hand-written rules are checked by nobody against the certificates",
)
