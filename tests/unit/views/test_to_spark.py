"""A View costs in Spark what the same query costs when it is written by hand."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.policy.view import View, Window
from maia.predicates.syntax import ALWAYS, NODES_MAX, AllOf, AnyOf, Comparison, Membership, Operator
from maia.spark.generators import SIGHTINGS
from maia.testing.refusals import raises
from maia.views import spark_schema
from maia.views.to_spark import _balanced, to_spark, walled
from support.spark import execution_of

PLATE, TIME, PLACE = AttributeUid("3265"), AttributeUid("9058"), AttributeUid("3467")
STORED = {PLATE: Kind.STRING, TIME: Kind.TIMESTAMP, PLACE: Kind.STRING}
DELIVERED = (
    Attribute("numberplate", PLATE, Kind.STRING),
    Attribute("timestamp", TIME, Kind.TIMESTAMP),
    Attribute("location", PLACE, Kind.STRING),
)
FROM = Instant.parse("2026-11-09T00:00:00Z")

BILLING = View((Window(ALWAYS, frozenset({PLATE, TIME})),))
STATISTICS = View((Window(ALWAYS, frozenset({PLACE, TIME})),))
DETECTIVE = View(
    (Window(Comparison(PLATE, Operator.EQ, "AE05 XYZ"), ALL_ATTRIBUTES),),
    AllOf((Comparison(TIME, Operator.GE, FROM), Comparison(PLACE, Operator.NE, "Victoria"))),
)


@pytest.fixture(scope="module")
def sightings(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """A thousand sightings in a Parquet file, where pruning and push-down show in the plan."""
    path = tmp_path_factory.mktemp("sightings") / "events.parquet"
    made = SIGHTINGS.rows(rows=1000, seed=7).rename_columns([PLATE, TIME, PLACE])
    pq.write_table(pa.Table.from_batches([made]), path)
    return spark.read.parquet(str(path))


def billing_by_hand(events: DataFrame) -> DataFrame:
    return events.selectExpr(
        "`3265` AS numberplate", "`9058` AS timestamp", "CAST(NULL AS STRING) AS location"
    )


def statistics_by_hand(events: DataFrame) -> DataFrame:
    return events.selectExpr(
        "CAST(NULL AS STRING) AS numberplate", "`9058` AS timestamp", "`3467` AS location"
    )


def detective_by_hand(events: DataFrame) -> DataFrame:
    wanted = events.where(
        "`3265` = 'AE05 XYZ' AND `9058` >= TIMESTAMP '2026-11-09 00:00:00' AND `3467` != 'Victoria'"
    )
    return wanted.selectExpr("`3265` AS numberplate", "`9058` AS timestamp", "`3467` AS location")


def plan_of(frame: DataFrame) -> str:
    """Return the physical plan without the numbers that Spark counts through a session."""
    plan = execution_of(frame).executedPlan().toString()
    return re.sub(r"#\d+L?|plan_id=\d+", "", plan)


@pytest.mark.parametrize(
    ("view", "by_hand"),
    [(BILLING, billing_by_hand), (STATISTICS, statistics_by_hand), (DETECTIVE, detective_by_hand)],
    ids=["billing", "statistics", "detective"],
)
def test_each_office_gets_the_plan_of_a_query_written_by_hand(sightings: DataFrame, view: View, by_hand):
    seen, expected = to_spark(view, STORED, DELIVERED).of(sightings), by_hand(sightings)
    assert plan_of(seen) == plan_of(walled(expected))
    assert seen.schema.simpleString() == expected.schema.simpleString()
    assert "Python" not in plan_of(seen)


def test_a_hidden_column_is_not_even_read(sightings: DataFrame):
    plan = plan_of(to_spark(BILLING, STORED, DELIVERED).of(sightings))
    assert "ReadSchema: struct<3265:string,9058:timestamp>" in plan


def test_a_restriction_reaches_the_file(sightings: DataFrame):
    plan = plan_of(to_spark(DETECTIVE, STORED, DELIVERED).of(sightings))
    assert "EqualTo(`3265`,AE05 XYZ)" in plan


def test_the_widest_predicate_makes_a_shallow_tree():
    def join(one: int, other: int) -> int:
        return max(one, other) + 1

    assert _balanced(join, [0] * NODES_MAX) == 14


def test_a_wide_view_keeps_every_part(spark: SparkSession):
    plates = AnyOf(tuple(Comparison(PLATE, Operator.EQ, f"P{i}") for i in range(101)))
    places = Membership(PLACE, frozenset(f"L{i}" for i in range(101)))
    given = [(f"P{i}", None, f"L{100 - i}") for i in range(-1, 103)]
    events = spark.createDataFrame([*given, (None, None, None)], spark_schema(STORED))
    view = to_spark(View((Window(AllOf((plates, places)), ALL_ATTRIBUTES),)), STORED, DELIVERED)
    assert [row.numberplate for row in view.of(events).collect()] == [f"P{i}" for i in range(101)]


def test_a_column_with_another_collation_is_refused(spark: SparkSession):
    folded = StructType([StructField("3265", StringType("UTF8_LCASE"))])
    events = spark.createDataFrame([("ae05 xyz",)], folded)
    with raises("INPUT-STORED-COLUMNS", match="`3265` of type `string`"):
        to_spark(BILLING, {PLATE: Kind.STRING}, DELIVERED[:1]).of(events)


def test_a_column_of_another_type_is_refused(spark: SparkSession):
    events = spark.createDataFrame([(1,)], StructType([StructField("3265", LongType())]))
    with raises("INPUT-STORED-COLUMNS"):
        to_spark(BILLING, {PLATE: Kind.STRING}, DELIVERED[:1]).of(events)
