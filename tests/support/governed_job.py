"""A job of its own process that reads a sealed log in every way, and is looked through for keys afterwards.

    python -m support.governed_job FOLDER

It writes what people and Spark would see into the folder: plans, error
sentences, the event log, a checkpoint. While Spark still runs, it copies all
of Spark's own scratch files there too.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own pages use

from maia.spark.keys.key_server import job_desk
from maia.spark.session.session import spark_session
from maia.types import SealingLevel
from support.governed import Recorded, governed, reader, sightings
from support.spark import execution_of


def main(folder: Path) -> None:
    log = Recorded(folder / "log", SealingLevel.ATTRIBUTE)
    log.publish(sightings(50))
    log.write()
    events, scratch = folder / "events", folder / "scratch"
    events.mkdir()
    scratch.mkdir()
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(scratch),
        "spark.eventLog.rolling.enabled": "false",
    }
    with spark_session("leaks", cores=1, settings=settings) as spark, job_desk() as desk:
        known = {"log": str(log.folder), "event_type": log.event_type, "reader": reader()}
        table = governed(spark, keys=log.keys(desk), **known)
        seen = [execution_of(table).toString(), str(table), repr(desk), str(table.schema)]
        assert table.groupBy("location").count().count() == 3
        table.write.parquet(str(folder / "copy"))
        seen += failures(table, desk)
        stream = governed(spark, keys=log.keys(desk), is_stream=True, **known)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder / "out"))
        )
        query.awaitTermination(300)
        seen += [str(query.lastProgress), str(query.status), repr(query.exception())]
        copied = shutil.copytree(scratch, folder / "scratch-copy", ignore_dangling_symlinks=True)
        (copied / "listed.txt").write_text("\n".join(map(str, scratch.rglob("*"))), encoding="utf-8")
    (folder / "said.txt").write_text("\n".join(seen), encoding="utf-8")


def failures(table, desk) -> list[str]:
    """Return what is said when a user's function fails, and when the grant has ended."""
    said = []
    loud = F.udf(lambda speed: 1 // (speed - 5), "int")
    for wrong in (table.where("raise_error(numberplate) is null"), table.select(loud("speed"))):
        try:
            wrong.collect()
        except PySparkException as problem:
            said.append(str(problem))
    desk.end_all()
    try:
        table.collect()
    except PySparkException as problem:
        said.append(str(problem))
    assert len(said) == 3
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1]))
