"""Spark reads from the network and publishes to it, under the rights of a reader that runs the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from maia.spark.source.data_source import register_spark
from maia.testing import wait_until
from support.numberplate import SUSPECT
from support.spark import execution_of
from support.spark_city import CAMERA, SparkCity, spark_city, taken

BILLING, SMITH = "billing office", "Detective Smith"
COLUMNS = "numberplate string, location string"
# How long a read "up to now" waits for news: where there are some, longer than a busy machine needs.
WAITS_FOR_NEWS, EXPECTS_NOTHING = 4, 0.5
WAITS_FOR_ROWS = 120  # a read that ends with so many rows waits no longer than that


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkCity]:
    register_spark(spark)
    with spark_city(tmp_path_factory.mktemp("spark city")) as running:
        yield running


def stream(spark: SparkSession, city: SparkCity, who: str, **more: object) -> DataFrame:
    options = {"settle": WAITS_FOR_NEWS, **more}
    return spark.readStream.format("maia").options(**city.options(who, **options)).load()


class Table:
    """What a streaming query has written, batch by batch; a batch that runs again replaces itself."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.batches = folder, {}
        self.dies_behind: str | None = None

    def start(self, table: DataFrame, **trigger: object) -> StreamingQuery:
        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = batch.collect()
            assert self.dies_behind not in self.plates, "the power is gone"

        writer = table.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.folder))
        return (writer.trigger(**trigger) if trigger else writer).start()

    @property
    def rows(self) -> list[Row]:
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def plates(self) -> list[str]:
        return [row.numberplate for row in self.rows]

    def lose_last_commit(self) -> int:
        """Leave the checkpoint as a driver does that died before it wrote down that a batch was done."""
        last = max(int(file.name) for file in (self.folder / "commits").iterdir() if file.name.isdigit())
        for file in (self.folder / "commits").glob(f"*{last}*"):
            file.unlink()
        return last


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "checkpoint")


def drained(query: StreamingQuery) -> None:
    """Wait for a query that ends by itself."""
    assert query.awaitTermination(300), "the query did not end"


# ------------------------------------------------------------ reading


def test_a_stream_has_the_columns_of_the_type_and_what_its_reader_may_see(spark, city, table) -> None:
    sightings = stream(spark, city, BILLING, durable="first", settle=EXPECTS_NOTHING)
    assert sightings.schema.simpleString() == (
        "struct<numberplate:string,timestamp:timestamp,location:string>"
    )
    drained(table.start(sightings, availableNow=True))  # from now on the subscription stands
    city.publish("AA01 AAA", "AB02 BBB")
    drained(table.start(stream(spark, city, BILLING, durable="first"), availableNow=True))
    assert table.plates == ["AA01 AAA", "AB02 BBB"]
    assert [row.location for row in table.rows] == [None, None]
    assert all(row.timestamp is not None for row in table.rows)


def test_a_live_stream_receives_what_comes_while_it_runs(spark, city, table) -> None:
    query = table.start(stream(spark, city, SMITH))
    try:
        while not table.rows and query.isActive:  # no reader keeps what came before it listened
            city.publish("LB99 KRT", SUSPECT)
            time.sleep(0.3)
        assert query.exception() is None, query.exception()
        wait_until(lambda: bool(table.rows))
    finally:
        query.stop()
    assert set(table.plates) == {SUSPECT}, "the court order speaks of one car"
    assert table.rows[0].location == "Victoria"


def test_a_query_that_dies_before_spark_has_committed_neither_loses_nor_doubles(spark, city, table) -> None:
    def sightings(**more: object) -> DataFrame:
        return stream(spark, city, BILLING, durable="restart", maxRowsPerBatch=1, **more)

    drained(table.start(sightings(settle=EXPECTS_NOTHING), availableNow=True))
    for plate in ("R1", "R2"):
        city.publish(plate)
    table.dies_behind = "R2"
    with pytest.raises(PySparkException, match="the power is gone"):
        drained(table.start(sightings(), availableNow=True))
    before, table.dies_behind = dict(table.batches), None
    city.publish("R3")
    drained(table.start(sightings(), availableNow=True))
    assert {number: table.batches[number] for number in before} == before, "a batch ran again with other rows"
    assert table.plates == ["R1", "R2", "R3"]


def test_a_log_is_read_up_to_now(spark, city) -> None:
    def read(**more: object) -> list[str]:
        options = city.options(BILLING, durable="read", filter='prefix(numberplate, "L")', **more)
        return [row.numberplate for row in spark.read.format("maia").options(**options).load().collect()]

    assert read(settle=EXPECTS_NOTHING) == []
    city.publish("L1", "K2", "L3")
    assert read(settle=WAITS_FOR_ROWS, rows=2) == ["L1", "L3"]
    assert read(settle=2) == []


def test_a_filter_that_spark_pushes_down_narrows_the_subscription(spark, city) -> None:
    def sightings(**more: object) -> DataFrame:
        return spark.read.format("maia").options(**city.options(BILLING, durable="pushed", **more)).load()

    assert sightings(settle=EXPECTS_NOTHING).collect() == []
    city.publish("X1", "X2", "Y3")
    # In the plan below Spark's own filter stands the scan; what it hands over is what was delivered.
    wanted = sightings(settle=WAITS_FOR_ROWS, rows=1).where("numberplate like 'X%' and numberplate <> 'X1'")
    assert [row.numberplate for row in wanted.collect()] == ["X2"]
    scan = execution_of(wanted).executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == 1, "the broker delivered one of three"


def test_a_pushed_filter_on_what_one_may_not_read_finds_nothing_and_refuses_nothing(spark, city) -> None:
    def sightings(**more: object) -> DataFrame:
        return spark.read.format("maia").options(**city.options(BILLING, durable="hidden", **more)).load()

    assert sightings(settle=EXPECTS_NOTHING).collect() == []
    city.publish("H1")
    found = sightings(settle=WAITS_FOR_ROWS, rows=1).where("location = 'Victoria'")
    assert found.collect() == []


# ------------------------------------------------------------ publishing


def test_derived_events_are_published_once_however_often_the_batch_runs(spark, city, tmp_path) -> None:
    source = tmp_path / "source"
    plates = [f"D{number}" for number in range(5)]
    spark.createDataFrame([(plate, "Victoria") for plate in plates], COLUMNS).write.parquet(str(source))
    sink = Table(tmp_path / "sink")

    def publish() -> None:
        derived = spark.readStream.schema(COLUMNS).parquet(str(source)).repartition(2)
        query = derived.writeStream.format("maia").options(**city.options(CAMERA))
        drained(query.option("checkpointLocation", str(sink.folder)).trigger(availableNow=True).start())

    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        publish()
        assert sorted(taken(received, len(plates))) == plates
        sink.lose_last_commit()
        publish()
        assert received.some(99, timeout_s=1) == []


def test_a_named_job_publishes_its_table_once(spark, city) -> None:
    rows = spark.createDataFrame([("J2", "Victoria"), ("J1", "Victoria")], COLUMNS)
    writer = rows.write.format("maia").mode("append")
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        writer.options(**city.options(CAMERA, job="night of the 15th")).save()
        assert sorted(taken(received, 2)) == ["J1", "J2"]
        writer.options(**city.options(CAMERA, job="night of the 15th")).save()
        assert received.some(9, timeout_s=1) == []


def test_who_may_not_publish_is_told(spark, city) -> None:
    rows = spark.createDataFrame([("E2", "Victoria")], COLUMNS)
    with pytest.raises(PySparkException, match=r"\[POLICY-"):
        rows.write.format("maia").mode("append").options(**city.options(BILLING)).save()


@pytest.mark.parametrize(
    ("columns", "code"),
    [("speed bigint", "INPUT-SPARK-COLUMN"), ("numberplate bigint", "INPUT-SPARK-COLUMN")],
)
def test_a_column_that_is_no_attribute_is_refused_before_anything_runs(spark, city, columns, code) -> None:
    rows = spark.createDataFrame([(1,)], columns)
    with pytest.raises(PySparkException, match=rf"\[{code}\]"):
        rows.write.format("maia").mode("append").options(**city.options(CAMERA)).save()


# ------------------------------------------------------------ mistakes and refusals


def test_mistakes_are_told_with_their_code(spark, city) -> None:
    for more, said in (
        ({"fliter": "true"}, r"\[INPUT-SPARK-OPTION\] there is no option `fliter`; did you mean `filter`"),
        ({"maxRowsPerBatch": "lots"}, r"\[INPUT-SPARK-OPTION\] option `maxRowsPerBatch`"),
        ({"definition": "/nowhere.type"}, r"\[INPUT-FILE\] there is no file"),
    ):
        with pytest.raises(PySparkException, match=said):
            stream(spark, city, BILLING, **more)
    with pytest.raises(PySparkException, match=r"\[INPUT-SPARK-OPTION\].*`rows`, `seconds` or `durable`"):
        spark.read.format("maia").options(**city.options(BILLING)).load().collect()


def test_a_filter_on_what_one_may_not_read_ends_the_query_with_the_code(spark, city, table) -> None:
    query = table.start(stream(spark, city, BILLING, filter='location == "Victoria"'))
    with pytest.raises(PySparkException, match=r"\[POLICY-ATTRIBUTE-NOT-READABLE\]"):
        query.awaitTermination(300)


def test_neither_plan_nor_checkpoint_has_a_key_or_a_row(spark, city, table) -> None:
    sightings = stream(spark, city, BILLING, durable="quiet", settle=EXPECTS_NOTHING)
    drained(table.start(sightings, availableNow=True))
    city.publish("QUIET 1")
    drained(table.start(stream(spark, city, BILLING, durable="quiet"), availableNow=True))
    assert table.plates == ["QUIET 1"]
    plan = execution_of(sightings).toString()
    seed = (city.folder / f"{BILLING}.key").read_bytes().split(b"seed")[1][:40]
    kept = [path.read_bytes() for path in table.folder.rglob("*") if path.is_file()]
    for data in (plan.encode(), *kept):
        assert seed not in data
        assert b"QUIET 1" not in data


def test_the_example_of_the_page_runs(spark, city, tmp_path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "spark-source.md"
    example = page.read_text(encoding="utf-8").split("```py\n")[1].split("```")[0]
    paths = {"billing.key": f"{BILLING}.key", "certs": "certs", "numberplate.type": "event.type"}
    for said, kept in paths.items():
        example = example.replace(f'"{said}"', repr(str(city.folder / kept)))
    for said in ("checkpoint", "charges"):
        example = example.replace(f'"{said}"', repr(str(tmp_path / said)))
    example = example.replace("127.0.0.1:7400", city.address).replace(
        "pito.pub", str(city.cast.network.owner)
    )
    names: dict[str, object] = {"spark": spark}
    exec(example, names)  # noqa: S102 - our own page
    query = names["query"]
    assert isinstance(query, StreamingQuery)
    try:
        wait_until(lambda: query.lastProgress is not None or query.exception() is not None)
        city.publish("PAGE 1")
        wait_until(lambda: any((tmp_path / "charges").glob("*.parquet")) or query.exception() is not None)
        query.processAllAvailable()
    finally:
        query.stop()
    assert "PAGE 1" in [row.numberplate for row in spark.read.parquet(str(tmp_path / "charges")).collect()]
