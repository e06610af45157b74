"""What do transformations cost, through a broker and in Spark?

Two subscribers, each with a publisher, at two brokers of their own over mutual TLS: one sees ten
attributes as they were published, the other three of them transformed: a prefix, a multiple and a
pseudonym. Numberplates, places and speeds repeat, as they do in a city; each frame has 90 different plates.
In Spark the same View without the pseudonym, whose key must not be in a plan, races against columns that were
written by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from harness import Benchmark, Case, Race, Ratio, Side, at_least, at_most
from live_network import ATTRIBUTES, FRAME_ROWS, KINDS, Line, broker_process, events, maia_line, new_world
from maia.credentials import SigningKey, Transformation
from maia.events import Instant, Value
from maia.expressions import parse_rule
from maia.keystore.lookup_tables import create_transformation_keys
from maia.policy.view import View, Window
from maia.predicates import ALWAYS

PLAIN_RULES = ("location := first(location, 8)", "speed := round_to(speed, 10)")
RULES = (*PLAIN_RULES, "numberplate := pseudonym(numberplate)")


def cases(quick: bool) -> Iterator[Case]:
    """Yield the way through a broker, and Spark's columns."""
    yield from through_a_broker(4_096 if quick else 204_800)
    yield from in_spark(10_240 if quick else 2_048_000, quick=quick)


def through_a_broker(total: int) -> Iterator[Case]:
    """Yield a View with three transformations against one without."""
    world = new_world()
    with TemporaryDirectory(prefix="maia-keys-") as folder:
        keys = Path(folder, "transformations.key")
        create_transformation_keys(keys, world.owner.principal)
        with (
            broker_process(world, transformation_keys=str(keys)) as broker,
            maia_line(world, broker, rules=RULES) as ours,
            broker_process(world) as other,
            maia_line(world, other) as peer,
        ):
            yield Race(
                f"frames of {FRAME_ROWS} through a broker, three transformations against none",
                _side(ours, total),
                _side(peer, total),
                Ratio.PEER_OVER_OURS,
                at_least(0.7),
            )


def _side(line: Line, total: int) -> Side:
    line.carry(total // 4)  # once without the clock, to warm both ends
    return Side(run=lambda: line.carry(total), operations=total, calls=1)


def in_spark(rows: int, *, quick: bool) -> Iterator[Case]:
    """Yield the View's columns against the same written by hand."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

    from bench_spark import bench_session
    from maia.views.to_spark import to_spark

    world = new_world()
    made = tuple(parse_rule(text, world.event_type.vocabulary) for text in PLAIN_RULES)
    step = Transformation(SigningKey.from_seed(bytes(32)).principal, made)
    shown = View((Window(ALWAYS, frozenset(KINDS), (step,)),))

    def plain(value: Value) -> Value:
        return +value if isinstance(value, Instant) else value

    with bench_session("transformations", quick=quick) as spark, TemporaryDirectory() as folder:
        path = str(Path(folder) / "events.parquet")
        given = events(FRAME_ROWS)
        columns = {uid: [plain(one[uid]) for one in given] * (rows // FRAME_ROWS) for uid in KINDS}
        pq.write_table(pa.table(columns), path)
        table = spark.read.parquet(path).withColumn("9002", F.timestamp_micros("9002"))
        ours = to_spark(shown, KINDS, ATTRIBUTES)

        def by_hand(table: DataFrame) -> DataFrame:
            nearest = F.col("9007") + F.lit(5)
            ready = {
                "location": F.substring(F.col("9003"), 1, 8),
                "speed": nearest - F.pmod(nearest, F.lit(10)),
            }
            return table.select(*(ready.get(one.name, F.col(one.uid)).alias(one.name) for one in ATTRIBUTES))

        def written(table: DataFrame) -> None:
            table.write.format("noop").mode("overwrite").save()

        yield Race(
            "a View with two transformations in Spark, against hand-written Catalyst",
            Side(run=lambda: written(ours.of(table)), operations=rows),
            Side(run=lambda: written(by_hand(table)), operations=rows),
            Ratio.OURS_OVER_PEER,
            at_most(1.05),
        )


BENCH = Benchmark(
    number=30,
    name="transformations",
    about="a View with transformations, against one without, and against columns by hand in Spark",
    cases=cases,
)
