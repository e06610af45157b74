"""Every executor shows the same of what many events come to, whatever order they come in."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from maia.events import Instant, frame_of
from maia.policy.view import split
from maia.predicates.meaning import row_reader
from maia.views.open_periods import OpenPeriods
from support.executors import PostgresExecutor, SparkExecutor
from support.random_cases import count_cases
from support.summary_cases import (
    CLOSED_AT,
    MOMENTS,
    Rows,
    SummaryBatch,
    expected_rows,
    rows_of,
    summary_batch,
)
from support.summary_executors import arrow_summaries, postgres_summaries, spark_summaries

LONG = settings.get_current_profile_name() == "laws"
PHASES = (Phase.explicit, Phase.generate)
EACH_SEED = settings(max_examples=84 if LONG else 3, phases=PHASES)
EACH_SPARK_SEED = settings(max_examples=21 if LONG else 1, phases=PHASES)
seeds = st.integers(0, 2**64 - 1)

pytestmark = pytest.mark.laws


def assert_same(found: list[Rows], batch: SummaryBatch) -> None:
    for view, got, wanted in zip(batch.views, found, expected_rows(batch), strict=True):
        assert got == wanted, f"\nview: {view}"
    count_cases(batch.cases - 1)


@EACH_SEED
@given(seeds)
@example(1)
def test_a_broker_delivers_what_the_definition_shows_of_events_in_time(seed: int) -> None:
    batch = summary_batch(seed, views=20)
    random = Random(seed)  # noqa: S311 - test cases, not secrets
    in_frames = sorted(
        zip(batch.moments, batch.events, strict=True), key=lambda one: (one[0], random.random())
    )
    found: list[Rows] = []
    for view in batch.views:
        periods = OpenPeriods(view, batch.keys, now=Instant(-(10**12)))
        admits = row_reader(view.windows[0].admits)
        shown: list[dict[str, object]] = []

        def delivered(
            now: Instant, shown: list[dict[str, object]] = shown, periods: OpenPeriods = periods
        ) -> None:
            for period in periods.close(now):
                for event in period.frame.events():
                    shown.append({one.name: event.get(one.uid) for one in batch.delivered})

        for moment in MOMENTS:
            delivered(moment)
            frame = frame_of([event for at, event in in_frames if at == moment], batch.stored)
            rows = admits(range(frame.rows), frame)
            if rows:
                periods.take(frame.take(rows), int(moment), moment)
        delivered(CLOSED_AT)
        found.append(rows_of(shown, batch.delivered))
    assert_same(found, batch)


@EACH_SEED
@given(seeds)
@example(1)
def test_arrow_shows_what_the_definition_shows(seed: int) -> None:
    batch = summary_batch(seed, views=20)
    assert_same(arrow_summaries(batch), batch)


@EACH_SEED
@given(seed=seeds)
@example(seed=1)
def test_postgresql_shows_what_the_definition_shows(postgres_executor: PostgresExecutor, seed: int) -> None:
    batch = summary_batch(seed, views=20, keyed=0)
    assert_same(postgres_summaries(postgres_executor, batch), batch)


@EACH_SPARK_SEED
@given(seed=seeds)
@example(seed=1)
def test_spark_shows_what_the_definition_shows(spark_executor: SparkExecutor, seed: int) -> None:
    batch = summary_batch(seed, views=8 if LONG else 4, events=120, keyed=0.2)
    assert_same(spark_summaries(spark_executor, batch), batch)


def test_a_summary_of_the_cases_has_many_groups_and_few_events_alone() -> None:
    """The cases are worth something: groups of several events, and some that are left out for being small."""
    batches = [summary_batch(seed, views=20) for seed in range(5)]
    shown = [len(rows) for batch in batches for rows in expected_rows(batch)]
    assert sum(shown) > 200
    assert 0 in shown
    assert any(split(view).summary.at_least > 1 for batch in batches for view in batch.views)
