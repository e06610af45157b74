"""How much does it cost to apply a thousand people's policies to one stream in Spark?

Each subscriber has a filter (a place, and a range of speeds) and a set of
attributes of its own. We match all of them in one job and name who receives
what. One peer runs a query for each subscriber, with our own compiled Views;
the other puts all thousand filters into one CASE, as a row filter that looks
at who asks, and runs it for all of them in one query. Peers get fewer
subscribers or events, and what is compared is the time of one subscriber, or
of one pair of subscriber and event. Working out keys is part of our time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from bench_spark import bench_session
from harness import Benchmark, Case, Figure, Race, Ratio, Side, at_least
from maia.events import Attribute, AttributeUid, Kind
from maia.policy.view import View, Window
from maia.predicates import AllOf, Comparison, Operator
from maia.spark.matching.bulk import EVENT, TYPE, BulkMatcher, Subscription
from maia.views.to_spark import to_spark, to_spark_test

PLATE, PLACE, SPEED, SEEN = map(AttributeUid, ("plate", "place", "speed", "seen-at"))
STORED = {PLATE: Kind.STRING, PLACE: Kind.STRING, SPEED: Kind.INT, SEEN: Kind.TIMESTAMP}
DELIVERED = tuple(Attribute(uid, uid, kind) for uid, kind in STORED.items())
PLACES = 500
SPEEDS = 200


def events(spark: SparkSession, count: int) -> DataFrame:
    """Return sightings, the same ones every time."""
    rows = spark.range(count, numPartitions=2)
    return rows.select(
        F.col("id").alias(EVENT),
        F.lit("sighting").alias(TYPE),
        F.concat(F.lit("AE05 "), F.hex(F.col("id") % 100_000)).alias(PLATE),
        F.concat(F.lit("place "), F.pmod(F.xxhash64("id"), F.lit(PLACES)).cast("string")).alias(PLACE),
        F.pmod(F.xxhash64(F.col("id") + 7), F.lit(SPEEDS)).alias(SPEED),
        F.timestamp_micros(F.col("id") * 1_000).alias(SEEN),
    )


def subscriptions(count: int) -> list[Subscription]:
    """Return subscribers, no two of whom have the same rights."""
    chance = random.Random(20)
    return [
        Subscription(f"subscriber {number}", "sighting", _view(number, chance)) for number in range(count)
    ]


def _view(number: int, chance: random.Random) -> View:
    slowest = chance.randrange(SPEEDS)
    wanted = AllOf(
        (
            Comparison(PLACE, Operator.EQ, f"place {number % PLACES}"),
            Comparison(SPEED, Operator.GE, slowest),
            Comparison(SPEED, Operator.LT, slowest + 5 + chance.randrange(20)),
        )
    )
    shown = frozenset(uid for uid in STORED if chance.random() < 0.7)
    return View((Window(wanted, shown),))


def all_at_once(spark: SparkSession, given: DataFrame, everybody: Sequence[Subscription]) -> None:
    """Work out everybody's keys, and name who receives which event with which attributes."""
    _run(BulkMatcher(spark, everybody, STORED).by_subscription(given))


def one_by_one(given: DataFrame, some: Sequence[Subscription]) -> None:
    """Run a query for each subscriber."""
    for one in some:
        _run(to_spark(one.view, STORED, DELIVERED).of(given))


def _row_filter(spark: SparkSession, given: DataFrame, everybody: Sequence[Subscription]) -> DataFrame:
    """Return one query in which a row filter decides by who asks."""
    who = F.col("subscription")
    first, *others = [(who == one.id, to_spark_test(one.view.windows[0].admits, STORED)) for one in everybody]
    case = F.when(*first)
    for condition, test in others:
        case = case.when(condition, test)
    asking = spark.createDataFrame([(one.id,) for one in everybody], "subscription string")
    return given.crossJoin(F.broadcast(asking)).where(case).select(EVENT, "subscription")


def _run(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def cases(quick: bool) -> Iterator[Case]:
    """Yield both peers, and in a full run the figure for very many subscriptions."""
    people, rows, sample, few_rows = (30, 500, 2, 100) if quick else (1_000, 200_000, 10, 100)
    with bench_session("bench 20", quick=quick, memory_mib=3072) as spark:
        given, few = events(spark, rows).cache(), events(spark, few_rows).cache()
        everybody = subscriptions(people)
        # Writing a thousand branches takes longer than asking them: the peer has that done beforehand.
        in_one_case = _row_filter(spark, few, everybody)
        _check(spark, few, everybody, in_one_case, rows=given.count())
        ours = Side(run=lambda: all_at_once(spark, given, everybody), operations=people, calls=1)
        yield Race(
            f"{people:,} subscribers to one stream, against a query for each",
            ours=ours,
            peer=Side(run=lambda: one_by_one(given, everybody[:sample]), operations=sample, calls=1),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(50),
        )
        yield Race(
            f"{people:,} subscribers to one stream, against as many row filters in one CASE",
            ours=Side(run=ours.run, operations=people * rows, calls=1),
            peer=Side(run=lambda: _run(in_one_case), operations=people * few_rows, calls=1),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(50),
        )
        if not quick:
            yield _very_many(spark)


def _check(
    spark: SparkSession,
    few: DataFrame,
    everybody: Sequence[Subscription],
    in_one_case: DataFrame,
    *,
    rows: int,
) -> None:
    """See that the three ways agree before they are timed; `rows` was counted to fill the cache."""
    assert rows
    ours = BulkMatcher(spark, everybody, STORED).by_subscription(few)
    told = {(row[0], row[1]) for row in ours.select(EVENT, "subscription").collect()}
    assert told == {tuple(row) for row in in_one_case.collect()}
    for one in everybody[:3]:
        alone = to_spark(one.view, STORED, DELIVERED).of(few).count()
        assert alone == sum(who == one.id for _, who in told)


def _very_many(spark: SparkSession) -> Figure:
    rows, people = 250_000, 100_000
    given = events(spark, rows).cache()
    given.count()
    everybody = subscriptions(people)
    began = time.perf_counter()
    matcher = BulkMatcher(spark, everybody, STORED)
    ready = time.perf_counter()
    _run(matcher.by_class(given))
    done = time.perf_counter()
    pairs = matcher.count(given)
    note = (
        f"{ready - began:.1f} s to work out keys, {done - ready:.1f} s to match, {pairs:,} deliveries, "
        f"{rows / (done - ready):,.0f} events a second"
    )
    return Figure(
        "million events a second against 100,000 subscriptions",
        [rows / (done - ready) / 1e6],
        at_least(0.02),
        note=note,
    )


BENCH = Benchmark(
    number=20,
    name="bulk-policies",
    about="the policies of a thousand subscribers applied to one stream in Spark",
    cases=cases,
    stood="a thousand Spark queries, or a row filter with a thousand branches",
    peer_lacks="the CASE hides no attributes; a query for each subscriber reads the events each time",
)
