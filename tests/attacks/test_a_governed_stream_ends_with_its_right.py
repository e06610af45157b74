"""A44: a stream of a reader whose right ended stops at its next batch, and does not come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from maia.pipeline.governed import governed
from maia.policy import NoChain
from maia.runtime.job_desk import job_desk
from maia.types import SealingLevel
from support.governed import Recorded, at, between, grant, reader, rows_of, sightings


def run(table: DataFrame, folder: Path) -> None:
    query = (
        table.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(300)


def test_a_revoked_reader_gets_no_further_batch_and_no_restart(spark, tmp_path):
    """A44: the grant is taken back, the next batch fails, and the checkpoint opens nothing."""
    log, right = Recorded(tmp_path / "log", SealingLevel.ATTRIBUTE), grant(validity=between(-10, 10))
    log.publish(sightings(3))
    log.write()
    with job_desk() as desk:
        known = {"log": str(log.folder), "event_type": log.event_type, "is_stream": True}
        stream = governed(spark, reader=reader(right), keys=log.keys(desk), **known)
        run(stream, tmp_path)
        log.publish(sightings(3, first=3), published_at=at(1))
        log.write()
        desk.end_all()
        with pytest.raises(StreamingQueryException, match="the right behind this table was taken back"):
            run(stream, tmp_path)
        with pytest.raises(NoChain):
            governed(spark, reader=reader(right, revoked=frozenset({right.id})), keys=log.keys(desk), **known)
    kept = spark.read.schema(stream.schema).parquet(str(tmp_path / "out"))
    assert len(rows_of(kept)) == 3


def test_a_running_stream_shows_nothing_that_was_published_after_the_right(spark, tmp_path):
    """A44: nobody has to take an expired right back."""
    log = Recorded(tmp_path / "log")
    log.publish(sightings(1))
    log.write()
    stream = governed(
        spark,
        log=str(log.folder),
        event_type=log.event_type,
        reader=reader(grant(validity=between(-1, 1))),
        is_stream=True,
    )
    for number, hours in ((1, 1), (2, 1.001), (3, 2)):
        log.publish(sightings(1, first=number), published_at=at(hours))
        log.write()
    run(stream, tmp_path)
    kept = rows_of(spark.read.schema(stream.schema).parquet(str(tmp_path / "out")))
    assert [row["speed"] for row in kept] == [0, 1]
