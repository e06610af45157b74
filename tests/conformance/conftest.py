"""The executors that need a server or a session, ready for a whole module."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from pyspark.sql import SparkSession

from support.executors import PostgresExecutor, SparkExecutor
from support.view_cases import write_lookups, write_secrets


@pytest.fixture(scope="module")
def postgres_executor(postgres_server: str) -> Iterator[PostgresExecutor]:
    """PostgreSQL, with a connection of its own."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        yield PostgresExecutor(connection)


@pytest.fixture(scope="module", params=[False, True], ids=["evaluated", "generated"])
def spark_executor(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkExecutor]:
    """Spark, with its two ways of computing an expression, and secrets in a file of the workers."""
    secrets = tmp_path_factory.mktemp("secrets") / "transformations.key"
    write_secrets(secrets)
    write_lookups(secrets.with_name("lookups.toml"))
    yield SparkExecutor(spark, secrets, generated=request.param)
    spark.conf.unset("spark.sql.optimizer.excludedRules")
