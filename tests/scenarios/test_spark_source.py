"""Spark reads from the network and publishes to it, under the rights of whoever runs the job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from maia.credentials import (
    Action,
    Authority,
    NetworkPattern,
    TypePattern,
    Validity,
    issue,
    parse_name_pattern,
)
from maia.credentials import AuthorisationCertificate as Certificate
from maia.events import Instant
from maia.runtime.clock import system_now
from maia.runtime.spark_source import register_spark
from maia.scenarios.numberplate import SUSPECT
from support.processes import until
from support.spark_city import CAMERA, SparkCity, spark_city

BILLING, STATISTICS, SMITH = "billing office", "statistics office", "Detective Smith"
COLUMNS = "numberplate string, location string"


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkCity]:
    register_spark(spark)
    with spark_city(tmp_path_factory.mktemp("spark city")) as running:
        yield running


def stream(spark: SparkSession, city: SparkCity, who: str, **more: object) -> DataFrame:
    return spark.readStream.format("maia").options(**city.options(who, **more)).load()


class Table:
    """What a streaming query has written, batch by batch; a batch that runs again replaces itself."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.batches = folder, {}

    def start(self, table: DataFrame, **trigger: object) -> StreamingQuery:
        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = batch.collect()

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
    assert query.awaitTermination(120), "the query did not end"


# ------------------------------------------------------------ reading


def test_a_stream_has_the_columns_of_the_type_and_what_its_reader_may_see(spark, city, table) -> None:
    sightings = stream(spark, city, BILLING, durable="first")
    assert sightings.schema.simpleString() == (
        "struct<numberplate:string,timestamp:timestamp,location:string>"
    )
    drained(table.start(sightings, availableNow=True))  # from now on the subscription stands
    city.publish("AA01 AAA", "AB02 BBB")
    drained(table.start(stream(spark, city, BILLING, durable="first"), availableNow=True))
    assert table.plates == ["AA01 AAA", "AB02 BBB"]
    assert [row.location for row in table.rows] == [None, None]
    assert all(row.timestamp is not None for row in table.rows)


def test_a_live_stream_hears_what_comes_while_it_runs(spark, city, table) -> None:
    query = table.start(stream(spark, city, SMITH))
    try:
        while not table.rows and query.isActive:  # nobody keeps what came before it listened
            city.publish("LB99 KRT", SUSPECT)
            time.sleep(0.3)
        until(lambda: bool(table.rows))
    finally:
        query.stop()
    assert set(table.plates) == {SUSPECT}, "the court order speaks of one car"
    assert table.rows[0].location == "Victoria"


def test_a_restart_neither_loses_nor_doubles(spark, city, table) -> None:
    def sightings() -> DataFrame:
        return stream(spark, city, BILLING, durable="restart")

    drained(table.start(sightings(), availableNow=True))
    city.publish("R1", "R2")
    drained(table.start(sightings(), availableNow=True))
    city.publish("R3")  # while nobody listens
    table.batches[table.lose_last_commit()] = []
    drained(table.start(sightings(), availableNow=True))
    assert table.plates == ["R1", "R2", "R3"]


def test_a_batch_that_is_planned_again_has_the_same_rows(spark, city, table) -> None:
    def sightings() -> DataFrame:
        return stream(spark, city, BILLING, durable="replay", maxRowsPerBatch=1)

    drained(table.start(sightings(), availableNow=True))
    for plate in ("P1", "P2"):
        city.publish(plate)
    drained(table.start(sightings(), availableNow=True))
    before = dict(table.batches)
    again = table.lose_last_commit()
    table.batches[again] = []
    city.publish("P3")
    drained(table.start(sightings(), availableNow=True))
    assert {number: table.batches[number] for number in before} == before
    assert table.plates == ["P1", "P2", "P3"]


def test_a_batch_has_no_more_rows_than_it_may(spark, city, table) -> None:
    def sightings() -> DataFrame:
        return stream(spark, city, BILLING, durable="pressure", maxRowsPerBatch=3)

    drained(table.start(sightings(), availableNow=True))
    with city.connected(CAMERA) as client:
        publisher = client.advertise(city.story.definition)
        for number in range(10):
            publisher.publish(numberplate=f"N{number}", location="Victoria")
            publisher.flush()
    drained(table.start(sightings(), availableNow=True))
    assert table.plates == [f"N{number}" for number in range(10)]
    assert [len(rows) for rows in table.batches.values() if rows] == [3, 3, 3, 1]


def test_a_log_is_read_up_to_now(spark, city) -> None:
    def read() -> list[str]:
        options = city.options(BILLING, durable="read", filter='prefix(numberplate, "L")')
        return [row.numberplate for row in spark.read.format("maia").options(**options).load().collect()]

    assert read() == []
    city.publish("L1", "K2", "L3")
    assert read() == ["L1", "L3"]
    assert read() == []


def test_a_filter_that_spark_pushes_down_narrows_the_subscription(spark, city) -> None:
    from maia.pipeline import pushed_filters

    options = city.options(BILLING, durable="pushed")
    sightings = spark.read.format("maia").options(**options).load()
    assert sightings.collect() == []
    city.publish("X1", "X2", "Y3")
    wanted = sightings.where("numberplate like 'X%' and numberplate <> 'X1' and upper(numberplate) = 'X2'")
    plan = wanted._jdf.queryExecution().toString()
    assert pushed_filters.__name__  # the translation itself is tested row by row
    assert "Filter" in plan
    assert [row.numberplate for row in wanted.collect()] == ["X2"]


def test_a_pushed_filter_on_what_one_may_not_read_finds_nothing_and_refuses_nothing(spark, city) -> None:
    options = city.options(BILLING, durable="hidden")
    sightings = spark.read.format("maia").options(**options).load()
    assert sightings.collect() == []
    city.publish("H1")
    assert sightings.where("location = 'Victoria'").collect() == []


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

    with city.connected(BILLING) as client:
        received = client.subscribe(city.story.definition)
        publish()
        assert sorted(one["numberplate"] for one in received.some(99, timeout_s=10)) == plates
        sink.lose_last_commit()
        publish()
        assert received.some(99, timeout_s=1) == []


def test_a_named_job_publishes_its_table_once(spark, city) -> None:
    rows = spark.createDataFrame([("J2", "Victoria"), ("J1", "Victoria")], COLUMNS)
    writer = rows.write.format("maia").mode("append")
    with city.connected(BILLING) as client:
        received = client.subscribe(city.story.definition)
        writer.options(**city.options(CAMERA, job="night of the 15th")).save()
        assert [one["numberplate"] for one in received.some(9, timeout_s=10)] == ["J1", "J2"]
        writer.options(**city.options(CAMERA, job="night of the 15th")).save()
        assert received.some(9, timeout_s=1) == []


def test_rows_that_may_not_be_published_end_the_job_with_the_code(spark, city) -> None:
    rows = spark.createDataFrame([("E1", "Soho")], COLUMNS)
    with pytest.raises(PySparkException, match=r"\[REFUSED-ROWS\]|\[POLICY-"):
        rows.write.format("maia").mode("append").options(**city.options(CAMERA)).save()


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
        query.awaitTermination(60)


def test_neither_plan_nor_checkpoint_has_a_key_or_a_row(spark, city, table) -> None:
    sightings = stream(spark, city, BILLING, durable="quiet")
    drained(table.start(sightings, availableNow=True))
    city.publish("QUIET 1")
    drained(table.start(stream(spark, city, BILLING, durable="quiet"), availableNow=True))
    assert table.plates == ["QUIET 1"]
    plan = sightings._jdf.queryExecution().toString()
    seed = (city.folder / f"{BILLING}.key").read_bytes().split(b"seed")[1][:40]
    kept = [path.read_bytes() for path in table.folder.rglob("*") if path.is_file()]
    for data in (plan.encode(), *kept):
        assert seed not in data
        assert b"QUIET 1" not in data


def test_a_reader_whose_right_ends_is_stopped_and_does_not_come_back(spark, city, table) -> None:
    """A44: a running stream ends at the next batch, and its restart from the checkpoint is refused."""
    story, ccs = city.story, city.story.keys["CCS"]
    soon = Instant(system_now() + 25_000_000)
    name = story.definition.definition.name

    def granted(resources, action: Action):
        about = Certificate(
            issuer=ccs.principal,
            subject=story.keys[STATISTICS].principal,
            may_delegate=False,
            authority=Authority(resources, frozenset({action})),
            validity=Validity(None, soon if action is Action.SUBSCRIBE else None),
        )
        return issue(about, ccs)

    network = NetworkPattern(story.network.owner, parse_name_pattern(story.network.name))
    pattern = TypePattern(name.owner, parse_name_pattern(name.name), None)
    others = [
        signed
        for signed in story.certificates
        if signed.certificate.subject != story.keys[STATISTICS].principal
    ]
    folder = city.add(
        *others, granted(network, Action.CONNECT), granted(pattern, Action.SUBSCRIBE), folder="short"
    )

    def sightings() -> DataFrame:
        return stream(spark, city, STATISTICS, durable="short", credentials=folder)

    query = table.start(sightings())
    until(lambda: query.lastProgress is not None or query.exception() is not None)
    city.publish("S1")
    until(lambda: len(table.rows) == 1 or query.exception() is not None)
    assert table.plates == ["S1"]
    with pytest.raises(PySparkException, match=r"\[(POLICY|CREDENTIAL|REFUSED)-"):
        query.awaitTermination(90)
    city.publish("S2")
    again = table.start(sightings())
    with pytest.raises(PySparkException, match=r"\[(POLICY|CREDENTIAL|REFUSED)-"):
        again.awaitTermination(60)
    assert table.plates == ["S1"]
