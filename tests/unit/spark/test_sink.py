"""The sink by itself, over a real broker and without Spark: tasks publish their partitions, and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from maia.spark.sink.writer import MaiaStreamWriter, MaiaWriter, Task
from maia.spark.source.options import job_options
from maia.spark.source.right_desk import Right
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


def right(city: SparkCity, who: str = CAMERA, **more: object) -> Right:
    return Right(job_options(city.options(who, **more)))


def writer(city: SparkCity, **more: object) -> MaiaStreamWriter:
    return MaiaStreamWriter(right(city, **more), SCHEMA, overwrite=False)


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Let one task publish a partition, as one of a query's."""

    def publish(
        sink: MaiaStreamWriter | MaiaWriter,
        batch: int,
        *plates: str,
        query: str | None = QUERY,
        partition: int = 0,
    ) -> int:
        monkeypatch.setattr(spark_sink, "present_task", lambda: Task(partition, query, "run", batch))
        columns = {"numberplate": list(plates), "location": ["Victoria"] * len(plates)}
        rows = [pa.RecordBatch.from_pydict(columns)] if plates else []
        return sink.write(iter(rows)).rows

    return publish


def test_a_partition_that_is_published_again_in_another_order_is_published_once(
    city: SparkCity, task: Callable[..., int]
) -> None:
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        sink = writer(city)
        assert task(sink, 5, "A3", "A1", "A2") == 3
        assert taken(received, 3) == ["A1", "A2", "A3"]
        again = writer(city)
        assert task(again, 5, "A1", "A2", "A3") == 3
        task(again, 5, "A1", partition=1)
        assert taken(received, 1) == ["A1"]
        task(again, 6, "A1")
        assert taken(received, 1) == ["A1"]
        task(again, 6, "A1", query="another")
        assert taken(received, 1) == ["A1"]


def test_a_broker_that_was_killed_still_knows_what_was_published(
    tmp_path: Path, task: Callable[..., int]
) -> None:
    with spark_city(tmp_path) as city:
        sink = writer(city)
        task(sink, 0, "B1")
        city.crash(city.server)
        city.restart(city.server)
        with city.client(BILLING, city.server) as client:
            received = client.subscribe(city.cast.definition)
            again = writer(city)
            task(again, 0, "B1")
            task(again, 1, "B2")
            assert taken(received, 1) == ["B2"]


def test_a_batch_in_which_nothing_came_about_publishes_nothing(
    city: SparkCity, task: Callable[..., int]
) -> None:
    sink = writer(city)
    assert task(sink, 0) == 0
    sink.commit([None], 1)
    sink.abort([None], 2)


def test_a_batch_of_no_known_query_is_refused(city: SparkCity, task: Callable[..., int]) -> None:
    with pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-QUERY\]"):
        task(writer(city), 0, "D1", query=None)


def test_a_partition_that_does_not_fit_into_memory_is_published_from_a_file_that_is_gone_after_it(
    city: SparkCity, monkeypatch: pytest.MonkeyPatch, task: Callable[..., int], tmp_path: Path
) -> None:
    plates = [f"L{number:04}" for number in range(3000)]
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        task(writer(city), 0, *plates, query="large")
        assert taken(received, 3000) == plates
        monkeypatch.setattr(spark_sink, "HELD_BYTES_MAX", 500)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
        task(writer(city), 0, *reversed(plates), query="large")  # the same frames: nothing comes again
        task(writer(city), 1, *reversed(plates), query="large")
        assert taken(received, 3000) == plates
    assert list(tmp_path.iterdir()) == []


def test_a_partition_that_is_too_large_is_refused_in_its_task(
    city: SparkCity, monkeypatch: pytest.MonkeyPatch, task: Callable[..., int]
) -> None:
    monkeypatch.setattr(spark_sink, "HELD_BYTES_MAX", 500)
    monkeypatch.setattr(spark_sink, "PARTITION_BYTES_MAX", 1000)
    with pytest.raises(SparkProblem, match=r"\[INPUT-SPARK-BATCH-SIZE\]"):
        task(writer(city), 0, *["E" * 100] * 20)


def test_what_cannot_be_published_is_refused_before_anything_runs(city: SparkCity) -> None:
    options = right(city)
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


def test_a_writer_whose_right_is_missing_is_told_the_code(city: SparkCity, task: Callable[..., int]) -> None:
    sink = MaiaWriter(right(city, BILLING), SCHEMA, overwrite=False)
    with pytest.raises(SparkProblem, match=r"\[POLICY-"):
        task(sink, 0, "F1")


def test_rows_that_the_publisher_may_not_publish_end_the_batch_with_their_code(
    city: SparkCity, task: Callable[..., int]
) -> None:
    """What the right refuses is not sent on, nor passed over in silence; what it admits comes once."""
    options = city.options("statistics office") | {"credentials": str(_right_to_publish(city, prefix="G"))}
    sink = MaiaStreamWriter(Right(job_options(options)), SCHEMA, overwrite=False)
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        for _ in range(2):  # Spark runs a batch again, and it is refused again
            with pytest.raises(SparkProblem, match=r"\[REFUSED-ROWS\] 2 events"):
                task(sink, 0, "H1", "G2", "H3")
        task(sink, 1, "G4")
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
    with pytest.raises(JobFailed, match="no table"), told_by_spark():
        raise PySparkException("[TABLE_OR_VIEW_NOT_FOUND] no table")
