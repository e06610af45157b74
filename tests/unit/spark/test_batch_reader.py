"""The batch reader by itself, over a real broker and without Spark: what it yields is what was delivered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter, InputPartition

from maia.spark.source.options import job_options
from maia.spark.source.right_desk import Right
from maia.spark.source.stream import MaiaReader
from support.spark_city import SparkCity, spark_city

BILLING = "billing office"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCity]:
    with spark_city(tmp_path_factory.mktemp("city")) as running:
        yield running


def delivered(city: SparkCity, name: str, *pushed: Filter, rows: int) -> list[str]:
    """Read as a task does, and return what came first from the broker: no reader filters here."""
    expected = {"rows": rows, "settle": 120} if rows else {"settle": 0.5}
    reader = MaiaReader(Right(job_options(city.options(BILLING, durable=name, **expected))))
    if pushed:
        assert list(reader.pushFilters(list(pushed))) == list(pushed), "Spark applies every filter again"
    return [one for batch in reader.read(InputPartition(0)) for one in batch["numberplate"].to_pylist()]


def test_the_broker_delivers_less_for_what_spark_pushes_down(city: SparkCity) -> None:
    filters = {
        "everything": (),
        "pushed": (spark.StringStartsWith(("numberplate",), "X"),),
        "both": (
            spark.StringStartsWith(("numberplate",), "X"),
            spark.Not(spark.EqualTo(("numberplate",), "X1")),
        ),
        # Billing may not filter on what it may not read; the wider subscription is made.
        "hidden": (spark.EqualTo(("location",), "Victoria"),),
    }
    for name in filters:
        assert delivered(city, name, rows=0) == []  # from now on the subscription stands
    expected = {
        "everything": ["Y3", "X1", "X2"],
        "pushed": ["X1", "X2"],
        "both": ["X2"],
        "hidden": ["Y3", "X1", "X2"],
    }
    city.publish("Y3", "X1", "X2")  # whatever is not wanted would come before what is
    for name, pushed in filters.items():
        assert delivered(city, name, *pushed, rows=len(expected[name])) == expected[name]
