"""How much does it cost to apply a thousand people's policies to one stream in Spark?

Each subscriber has a filter (a place, and a range of speeds) and a set of
attributes of its own. We match all of them in one job and name who receives
what. One peer runs a query for each subscriber, with our own compiled Views;
the other puts filters into one CASE, as a row filter that looks at who asks,
and runs it for all of them in one query. Spark plans a thousand branches for
half a minute, and a pair of subscriber and event takes longer the more branches
there are. So that this ends, the peer gets 100 branches, its planning is not
counted, and what is compared is the time of one more pair: the slope between
few events and more. That favours the peer; the note says how its pair grows.
Working out keys is part of our time.
"""

from __future__ import annotations

import random
import statistics
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
    people, rows, sample = (30, 500, 2) if quick else (1_000, 200_000, 10)
    with bench_session("bench 20", quick=quick, memory_mib=3072) as spark:
        given = events(spark, rows).cache()
        everybody = subscriptions(people)
        _check(spark, everybody[:30], rows=given.count())
        yield Race(
            f"{people:,} subscribers to one stream, against a query for each",
            ours=Side(run=lambda: all_at_once(spark, given, everybody), operations=people, calls=1),
            peer=Side(run=lambda: one_by_one(given, everybody[:sample]), operations=sample, calls=1),
            ratio=Ratio.PEER_OVER_OURS,
            target=at_least(50),
        )
        yield _against_one_case(spark, given, everybody, rows, quick=quick)
        if not quick:
            yield _very_many(spark)


def _against_one_case(
    spark: SparkSession, given: DataFrame, everybody: Sequence[Subscription], rows: int, *, quick: bool
) -> Figure:
    """Compare the time of a pair, in turns; the peer's is the slope between few events and more."""
    half, whole = (5, 10) if quick else (50, 100)
    few_rows, more_rows = (20, 200) if quick else (100, 5_100)
    few, more = (events(spark, count).cache() for count in (few_rows, more_rows))
    # Writing branches takes longer than asking them: the peer has that done beforehand.
    peers = {
        count: [_row_filter(spark, some, everybody[:count]) for some in (few, more)]
        for count in (half, whole)
    }

    def pair_us(count: int) -> float:
        with_few, with_more = map(_seconds, peers[count])
        return (with_more - with_few) * 1e6 / (count * (more_rows - few_rows))

    for side in (given, *peers[half], *peers[whole]):
        _run(side)
    ours, theirs, theirs_half = [], [], []
    for _ in range(1 if quick else 5):
        began = time.perf_counter()
        all_at_once(spark, given, everybody)
        ours.append((time.perf_counter() - began) * 1e6 / (len(everybody) * rows))
        theirs.append(pair_us(whole))
        theirs_half.append(pair_us(half))
    return Figure(
        f"{len(everybody):,} subscribers to one stream, a pair of subscriber and event, against {whole} row "
        "filters in one CASE, planning not counted",
        [peer / own for own, peer in zip(ours, theirs, strict=True)],
        at_least(50),
        ours_us=ours,
        peer_us=theirs,
        note=f"the peer's pair with {half} filters {statistics.median(theirs_half):.3g} µs, "
        f"with {whole} {statistics.median(theirs):.3g} µs",
    )


def _seconds(frame: DataFrame) -> float:
    began = time.perf_counter()
    _run(frame)
    return time.perf_counter() - began


def _check(spark: SparkSession, some: Sequence[Subscription], *, rows: int) -> None:
    """See that the three ways agree before they are timed; `rows` was counted to fill the cache."""
    assert rows
    few = events(spark, 5_000)
    ours = BulkMatcher(spark, some, STORED).by_subscription(few)
    found = {(row[0], row[1]) for row in ours.select(EVENT, "subscription").collect()}
    assert found
    assert found == {tuple(row) for row in _row_filter(spark, few, some).collect()}
    for one in some[:3]:
        alone = to_spark(one.view, STORED, DELIVERED).of(few).count()
        assert alone == sum(who == one.id for _, who in found)


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
    stood="a thousand Spark queries, or a row filter with a thousand branches, 38,220 times "
    "our time for a pair when its planning was counted, over 100 events",
    peer_lacks="the CASE hides no attributes; a query for each subscriber reads the events each time",
)
