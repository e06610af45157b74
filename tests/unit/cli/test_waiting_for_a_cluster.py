"""A command that waits for a cluster says for what."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from maia.cli.pipeline import source
from maia.spark.session.cluster import Cluster


def test_a_long_wait_is_said_once_and_a_short_one_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with source._said_late(lambda: "too early"):
        pass
    monkeypatch.setattr(source, "_LATE_S", 0.0)
    monkeypatch.setattr(source, "wants_json", lambda: False)
    looked = threading.Event()

    def look() -> str:
        looked.set()
        return "waiting for a worker"

    with source._said_late(look):
        assert looked.wait(60)
    assert capsys.readouterr().err == "waiting for a worker\n"


def test_a_session_without_an_executor_waits_for_a_worker(spark: SparkSession) -> None:
    """One on this machine has none: its driver runs the tasks."""
    assert "none runs an executor of this job yet" in source._without_executors(spark, Cluster("yarn"))
