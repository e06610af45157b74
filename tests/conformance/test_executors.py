"""Every executor shows what `see` shows.

Written once, and handed each executor. CI asks a few thousand questions of
each; `make laws` a hundred thousand.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from support.executors import ArrowExecutor, PostgresExecutor, PythonExecutor, SparkExecutor
from support.random_cases import count_cases
from support.view_cases import Executor, assert_agrees, random_batch

# A batch is 1,200 cases, or 2,400 in Spark, where rows cost little and views much. A seed does
# not shrink: the failing view and event are named instead. PostgreSQL is handed no secret.
LONG = settings.get_current_profile_name() == "laws"
PHASES = (Phase.explicit, Phase.generate)
EACH_SEED = settings(max_examples=84 if LONG else 3, phases=PHASES)
EACH_SPARK_SEED = settings(max_examples=42 if LONG else 1, phases=PHASES)
seeds = st.integers(0, 2**64 - 1)

pytestmark = pytest.mark.laws


def agrees(executor: Executor, seed: int, *, views: int = 20, events: int = 60, keyed: float = 0.5) -> None:
    batch = random_batch(seed, views=views, events=events, keyed=keyed, has_publishers=True)
    assert_agrees(executor, batch)
    count_cases(batch.cases - 1)


@EACH_SEED
@given(seeds)
@example(1)
def test_the_python_closure_shows_what_the_definition_shows(seed: int) -> None:
    agrees(PythonExecutor(), seed)


@EACH_SEED
@given(seeds)
@example(1)
def test_arrow_shows_what_the_definition_shows(seed: int) -> None:
    agrees(ArrowExecutor(), seed)


@EACH_SEED
@given(seed=seeds)
@example(seed=1)
def test_postgresql_shows_what_the_definition_shows(postgres_executor: PostgresExecutor, seed: int) -> None:
    agrees(postgres_executor, seed, keyed=0)


@EACH_SPARK_SEED
@given(seed=seeds)
@example(seed=1)
def test_spark_shows_what_the_definition_shows(spark_executor: SparkExecutor, seed: int) -> None:
    agrees(spark_executor, seed, views=8, events=300, keyed=0.2)
