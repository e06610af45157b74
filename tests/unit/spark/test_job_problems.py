"""What a person reads when a job fails: one line, with a code, from whatever Spark says."""

from __future__ import annotations

import pytest

from maia.errors import Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.spark.errors import job_problem, told_by_spark, told_to_spark
from maia.spark.governed.log_folder import FramesWanted, LogFrames
from maia.spark.source.right_desk import checkpoints_of
from maia.testing.refusals import raises
from support.governed import Recorded, sightings

STAGE = (
    "Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task "
)
OF_JAVA = (
    STAGE
    + """0.3 in stage 3.0 (TID 7) (10.0.0.2 executor 0): java.io.IOException: Mkdirs failed to create \
file:/tmp/x/_temporary/0 (exists=false, cwd=file:/tmp/work)
\tat org.apache.hadoop.fs.ChecksumFileSystem.create(ChecksumFileSystem.java:515)
Driver stacktrace:
Caused by: java.io.IOException: Mkdirs failed to create file:/tmp/x/_temporary/0 (exists=false, cwd=file:/w)
\tat org.apache.hadoop.fs.FileSystem.create(FileSystem.java:1195)
\t... 22 more
"""
)
OF_PYTHON = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "udf.py", line 3, in f
    raise ValueError("no such plate")
ValueError: no such plate
"""


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (OF_JAVA, "PIPELINE-PLACE", "`file:/tmp/x/_temporary/0`: it cannot be made; name a place"),
        (OF_PYTHON, "PIPELINE-JOB-FAILED", "the job has failed: ValueError: no such plate"),
        (
            "Caused by: java.io.FileNotFoundException: File file:/city/a.parquet does not exist",
            "PIPELINE-PLACE",
            "`file:/city/a.parquet`: it does not exist",
        ),
        (
            "Caused by: java.io.FileNotFoundException: /city/a.parquet (Permission denied)\n\tat java.io",
            "PIPELINE-PLACE",
            "`/city/a.parquet`: Permission denied",
        ),
        (
            "[STREAM_FAILED] Query terminated with exception: java.io.IOException: No space left on device",
            "PIPELINE-PLACE",
            "a disk is full",
        ),
        (
            STAGE + "0.0 (10.0.0.2 executor 1): total size is bigger than spark.driver.maxResultSize",
            "PIPELINE-RESULT-SIZE",
            "--out s3://",
        ),
        (
            "[STREAM_FAILED] Query terminated with exception: "
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] The operator does not",
            "PIPELINE-JOB-FAILED",
            "the checkpoint holds the state of another application",
        ),
        ("", "PIPELINE-JOB-FAILED", "Spark gave no reason"),
    ],
)
def test_what_ended_a_job_is_one_line_with_a_code(text, code, said):
    problem = job_problem(text)
    assert problem.code == code
    assert said in problem.message
    assert "\n" not in problem.message
    assert "\tat " not in problem.message


def test_a_task_that_fails_for_java_and_for_python_ends_in_one_line(spark):
    """D12: no traceback of Py4J, whatever fails."""
    with raises("PIPELINE-JOB-FAILED", match="the plate is bad"), told_by_spark():
        spark.sql("select raise_error('the plate is bad')").collect()
    with raises("PIPELINE-JOB-FAILED", match="ZeroDivisionError"), told_by_spark():
        spark.range(1).mapInArrow(lambda batches: (1 // 0 for _ in batches), "id bigint").collect()
    with raises("PIPELINE-PLACE", match="not-there"), told_by_spark():
        spark.read.parquet("/not-there").collect()


def test_an_error_of_ours_in_a_task_keeps_its_code_and_its_text(spark):
    """D12: what a worker found out is what the user reads."""

    def refuse(batches):
        with told_to_spark():
            raise Unavailable("PIPELINE-NO-KEYS", "the type is sealed")
        yield from batches

    with raises("PIPELINE-NO-KEYS", match=r"^\[PIPELINE-NO-KEYS\] the type is sealed$"), told_by_spark():
        spark.range(1).mapInArrow(refuse, "id bigint").collect()


def test_a_worker_that_does_not_find_the_log_says_where_it_runs(tmp_path):
    """D12: a log on the driver's disk alone is not damaged, but out of reach."""
    log = Recorded(tmp_path / "log")
    log.publish(sightings(3))
    log.write()
    frames = LogFrames(FramesWanted(str(log.folder), log.event_type.type_id, INSTANT_MIN, INSTANT_MAX))
    ((one,),) = frames.ranges()
    log.folder.rename(tmp_path / "elsewhere")
    with raises("PIPELINE-PLACE", match="under the account `.*cannot read `.*it is not there"):
        list(frames.batches(one))


def test_a_stream_whose_package_a_server_of_connect_lacks_is_named():
    """D13: the text of PySpark 4.3 for a stream of the format `maia`."""
    said = (
        "  File \"pyspark/serializers.py\", line 483, in loads\nModuleNotFoundError: No module named 'maia'\n"
    )
    found = job_problem(
        f"[STREAM_FAILED] PYTHON_DATA_SOURCE_ERROR\n{said}\tat org.apache.spark.sql.Some.run(Some.scala:1)"
    )
    assert found.code == "UNAVAILABLE-SPARK-CONNECT"
    assert "install Maia where the server runs" in found.message


def test_a_stream_that_publishes_through_connect_has_no_checkpoint_in_reach():
    """D13: its tasks are refused when they claim what they are about to publish."""
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with raises("UNAVAILABLE-SPARK-CONNECT", match="spark-submit"):
        checkpoints_of(remote())("a query", "a run")
