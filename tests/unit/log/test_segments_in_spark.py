"""Spark reads segments natively: header columns prune, and every row is a frame."""

from __future__ import annotations

from maia.events import Instant
from maia.log import message_of
from maia.log.disk.event_log import EventLog
from support.event_log import NOON, PLATES, carried, sealed
from support.spark import execution_of


def test_spark_reads_segments_of_several_versions_as_one_table(spark, tmp_path):
    frames = [carried(1), sealed(2), sealed(3, level=1), carried(4, day=1)]
    with EventLog.open(tmp_path) as log:
        for frame in frames:
            log.append([frame], recorded_at=NOON)
            log.roll(NOON)
        paths = [str(path) for path in log.segments(PLATES)]
    table = spark.read.option("mergeSchema", "true").option("basePath", str(tmp_path)).parquet(*paths)
    rows = sorted((row.asDict() for row in table.collect()), key=lambda row: row["position"])
    as_bytes = [{k: bytes(v) if isinstance(v, bytearray) else v for k, v in row.items()} for row in rows]
    assert [message_of(row["header"], row) for row in as_bytes] == frames
    assert [row["level"] for row in rows] == [0, 2, 1, 0]
    assert {row["type"] for row in rows} == {PLATES.hex()}
    assert [str(row["day"]) for row in rows] == ["2026-11-15"] * 3 + ["2026-11-16"]
    assert [Instant.from_datetime(row["published_at"].astimezone()) for row in rows][:3] == [
        Instant(NOON + number) for number in (1, 2, 3)
    ]


def test_spark_prunes_by_header_columns(spark, tmp_path):
    with EventLog.open(tmp_path) as log:
        log.append([carried(number) for number in range(1, 50)], recorded_at=NOON)
        log.roll(NOON)
        (path,) = map(str, log.segments(PLATES))
    found = spark.read.parquet(path).where("sequence > 40 and level = 0").select("sequence", "`3265`")
    plan = execution_of(found).executedPlan().toString()
    assert "PushedFilters: [IsNotNull(sequence), IsNotNull(level), GreaterThan(sequence,40)" in plan
    assert "ReadSchema: struct<level:tinyint,sequence:bigint,3265:binary>" in plan
    assert found.count() == 9
