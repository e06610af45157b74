"""The batch reader by itself, over a real broker and without Spark: what it yields is what was delivered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import datasource as spark
from pyspark.sql.datasource import Filter, InputPartition

from maia.runtime.spark_options import job_options
from maia.runtime.spark_reading import MaiaReader
from support.spark_city import SparkCity, spark_city

BILLING = "billing office"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCity]:
    with spark_city(tmp_path_factory.mktemp("city")) as running:
        yield running


def delivered(city: SparkCity, name: str, *pushed: Filter) -> list[str]:
    """Read as a task does, and return everything that came from the broker: nobody filters here."""
    reader = MaiaReader(job_options(city.options(BILLING, durable=name, settle=2)))
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
        assert delivered(city, name) == []  # from now on the subscription stands
    city.publish("X1", "X2", "Y3")
    found = {name: delivered(city, name, *pushed) for name, pushed in filters.items()}
    assert found == {
        "everything": ["X1", "X2", "Y3"],
        "pushed": ["X1", "X2"],
        "both": ["X2"],
        "hidden": ["X1", "X2", "Y3"],
    }
