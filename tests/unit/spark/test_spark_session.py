"""The shared session is the quiet, exact and closed one that we promise."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from maia.spark.session.java_home import JavaHome
from maia.spark.session.session import spark_session
from maia.testing.refusals import raises


def test_the_session_is_in_utc_with_ansi_mode_on(spark: SparkSession):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


def test_the_session_listens_on_loopback_only_and_has_no_web_page(spark: SparkSession):
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None


def test_workers_run_this_interpreter_and_find_this_package(spark: SparkSession):
    def look(batches):
        import pyarrow as pa

        import maia

        for _ in batches:
            yield pa.RecordBatch.from_pylist([{"python": sys.executable, "package": maia.__file__}])

    import maia

    found = spark.range(1, numPartitions=1).mapInArrow(look, "python string, package string").first()
    assert tuple(found) == (sys.executable, maia.__file__)


def test_starting_a_session_leaves_the_process_environment_alone(spark: SparkSession):
    assert "SPARK_CONF_DIR" not in os.environ
    assert "SPARK_LOCAL_IP" not in os.environ


def test_a_second_session_in_one_process_is_refused(spark: SparkSession):
    with raises("UNAVAILABLE-SPARK", match="already"), spark_session():
        pass


# PySpark leaves the pipe to a Java that did not start to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_a_java_that_does_not_start_is_reported_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'no memory for Java' >&2\nexit 1\n")
    java.chmod(0o755)
    broken = JavaHome(tmp_path, 17, is_wrapped=False)
    with raises("UNAVAILABLE-SPARK", match="no memory for Java"), spark_session(java=broken):
        pass
