"""The sink by itself, over a real broker and without Spark: tasks write, the driver commits, and again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructType

from maia.credentials import (
    Action,
)
from maia.predicates import TextMatch, TextTest
from maia.spark.errors import JobFailed, JobRefused, SparkProblem, told_by_spark, told_to_spark
from maia.spark.sink import writer as spark_sink
from maia.spark.sink.writer import MaiaStreamWriter, MaiaWriter, Staged
from maia.spark.source.options import job_options
from maia.testing import grant
from support.numberplate import NUMBERPLATE
from support.spark_city import CAMERA, SparkCity, spark_city, taken

BILLING = "billing office"
SCHEMA = StructType().add("numberplate", StringType()).add("location", StringType())
QUERY = "7d3c9a4e-0000-0000-0000-000000000001"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCity]:
    with spark_city(tmp_path_factory.mktemp("city")) as running:
        yield running


def writer(city: SparkCity, **more: object) -> MaiaStreamWriter:
    return MaiaStreamWriter(job_options(city.options(CAMERA, **more)), SCHEMA, overwrite=False)


def task(sink: MaiaStreamWriter | MaiaWriter, *plates: str, query: str | None = QUERY) -> Staged:
    """Let one task write, as one of a query's."""
    batch = pa.RecordBatch.from_pydict({"numberplate": list(plates), "location": ["Victoria"] * len(plates)})
    return replace(sink.write(iter([batch] if plates else [])), query=query)


def test_a_batch_that_runs_again_in_other_partitions_is_published_once(city: SparkCity) -> None:
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        sink = writer(city)
        sink.commit([task(sink, "A3", "A1"), task(sink, "A2"), task(sink)], 5)
        assert taken(received, 3) == ["A1", "A2", "A3"]
        again = writer(city)
        again.commit([task(again, "A1", "A2"), task(again, "A3")], 5)
        again.commit([task(again, "A1")], 6)
        assert taken(received, 1) == ["A1"]
        again.commit([task(again, "A1", query="another")], 6)
        assert taken(received, 1) == ["A1"]


def test_a_broker_that_was_killed_still_knows_what_was_published(tmp_path: Path) -> None:
    with spark_city(tmp_path) as city:
        sink = writer(city)
        sink.commit([task(sink, "B1")], 0)
        city.crash(city.server)
        city.restart(city.server)
        with city.client(BILLING, city.server) as client:
            received = client.subscribe(city.cast.definition)
            again = writer(city)
            again.commit([task(again, "B1")], 0)
            again.commit([task(again, "B2")], 1)
            assert taken(received, 1) == ["B2"]


def test_a_batch_in_which_nothing_came_about_publishes_nothing(city: SparkCity) -> None:
    sink = writer(city)
    sink.commit([], 0)
    sink.commit([task(sink), None], 1)
    sink.abort([task(sink, "C1")], 2)


def test_a_batch_of_no_known_query_is_refused(city: SparkCity) -> None:
    sink = writer(city)
    with pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-QUERY\]"):
        sink.commit([task(sink, "D1", query=None)], 0)


def test_a_batch_that_is_too_large_is_refused_in_its_task(
    city: SparkCity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_sink, "BATCH_BYTES_MAX", 1000)
    sink = writer(city)
    with pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-BATCH-SIZE\]"):
        task(sink, *["E" * 100] * 20)


def test_what_cannot_be_published_is_refused_before_anything_runs(city: SparkCity) -> None:
    options = job_options(city.options(CAMERA))
    for schema, said in (
        (StructType().add("speed", LongType()), "the type has no attribute `speed`"),
        (StructType().add("numberplate", LongType()), "is bigint and attribute `numberplate` is string"),
    ):
        with pytest.raises(SparkProblem, match=rf"\[INPUT-SPARK-COLUMN\] .*{said}"), told_to_spark():
            MaiaWriter(options, schema, overwrite=False)
    with pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-OPTION\] .*append"), told_to_spark():
        MaiaWriter(options, SCHEMA, overwrite=True)
    with pytest.raises(SparkProblem, match="`order` names `speed`"), told_to_spark():
        writer(city, order="speed")


def test_a_writer_whose_right_is_missing_is_told_the_code(city: SparkCity) -> None:
    sink = MaiaWriter(job_options(city.options(BILLING)), SCHEMA, overwrite=False)
    with pytest.raises(SparkProblem, match=r"\[POLICY-"):
        sink.commit([task(sink, "F1")])


def test_rows_that_the_publisher_may_not_publish_end_the_batch_with_their_code(city: SparkCity) -> None:
    """What the right refuses is not sent on, nor passed over in silence; what it admits comes once."""
    options = city.options("statistics office") | {"credentials": str(_right_to_publish(city, prefix="G"))}
    sink = MaiaStreamWriter(job_options(options), SCHEMA, overwrite=False)
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        for _ in range(2):  # Spark runs a batch again, and it is refused again
            with pytest.raises(SparkProblem, match=r"\[REFUSED-ROWS\] 2 events"):
                sink.commit([task(sink, "H1", "G2"), task(sink, "H3")], 0)
        sink.commit([task(sink, "G4")], 1)
        came: list[object] = []
        while len(came) < 2 and (some := received.some(9, timeout_s=60)):
            came += [one["numberplate"] for one in some]
        assert came == ["G2", "G4"]
        assert received.some(9, timeout_s=1) == []


def _right_to_publish(city: SparkCity, *, prefix: str) -> Path:
    """Let PITO grant the statistics office to publish plates that begin so; return its certificates."""
    name, key = city.cast.type_name, city.cast.keys["PITO"]
    begins = TextMatch(NUMBERPLATE, TextTest.PREFIX, prefix)
    subject = city.cast.keys["statistics office"].principal
    return city.certificates(
        "publishes", [*city.cast.certificates, grant(key, subject, name, Action.PUBLISH, restriction=begins)]
    )


@pytest.mark.parametrize(
    ("code", "kind"), [("PIPELINE-GRANT-ENDED", JobRefused), ("PIPELINE-FRAMES-FORGOTTEN", JobFailed)]
)
def test_a_command_tells_our_error_out_of_pages_of_frames_in_one_sentence(code: str, kind: type) -> None:
    frames = f"Traceback:\n  File worker.py\nmaia.spark.errors.SparkProblem: [{code}] over\n"
    with pytest.raises(kind) as told, told_by_spark():
        raise PySparkException(f"[STREAM_FAILED] Query terminated\n{frames}\n\tat org.apache.spark.X")
    assert (told.value.code, told.value.message) == (code, "over")
    with pytest.raises(PySparkException), told_by_spark():
        raise PySparkException("[TABLE_OR_VIEW_NOT_FOUND] no table")
