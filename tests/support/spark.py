"""One Spark session for the whole suite, started when the first test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from maia.runtime.spark_session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A quiet local session in UTC with ANSI mode on."""
    with spark_session("maia-tests") as session:
        yield session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whatever uses the session, so that `-m "not spark"` leaves out all of it."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
