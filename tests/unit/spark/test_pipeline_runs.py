"""Whoever interrupts a pipeline gets the prompt back, a session that still works, and no half result."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator

import pytest

from maia.spark.applications import STATISTICS
from maia.spark.applications.runs import EventSource, interruptible, parquet_source, run
from maia.spark.generators import SIGHTINGS, Order
from maia.spark.generators.files import write_generated
from maia.testing.refusals import raises


def interrupt_when_busy(spark) -> None:
    """Press Ctrl-C as soon as Spark is at work on something new; what is over may be told as active still."""
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getActiveStageIds())

    def press() -> None:
        while not set(tracker.getActiveStageIds()) - before:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


@pytest.fixture(autouse=True)
def _listens_to_ctrl_c() -> Iterator[None]:
    """A shell starts what runs in the background deaf to Ctrl-C, and so it is for all that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_the_jobs_and_leaves_a_session_that_answers(spark):
    interrupt_when_busy(spark)
    with pytest.raises(KeyboardInterrupt):
        interruptible(spark, spark.range(10**13).selectExpr("sum(id % 7)").collect)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert interruptible(spark, spark.range(10).count) == 10


def test_an_interrupted_run_leaves_no_result(spark, tmp_path):
    endless = spark.range(10**12).selectExpr(
        "timestamp_micros(1000000 * (id % 1000000)) as timestamp", "cast(id % 3 as string) as location"
    )
    interrupt_when_busy(spark)
    with pytest.raises(KeyboardInterrupt):
        run(
            spark,
            STATISTICS,
            STATISTICS.terms,
            EventSource(lambda: endless, lambda: endless),
            result=tmp_path / "r",
        )
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_never_written_over_or_into_nowhere(spark, tmp_path):
    write_generated(tmp_path / "events", SIGHTINGS, Order(10, 1))
    source = parquet_source(spark, tmp_path / "events")
    for result, complaint in ((tmp_path, "already there"), (tmp_path / "no" / "folder", "is no folder")):
        with raises("INPUT-PIPELINE-RESULT", match=complaint):
            run(spark, STATISTICS, STATISTICS.terms, source, result=result)
