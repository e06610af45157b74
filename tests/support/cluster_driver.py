"""A driver on the cluster of the environment: `python -m support.cluster_driver FOLDER`, run in `tests`.

It does the work in FOLDER/shared/jobs and FOLDER/shared/sealed, one after the other, follows the network of
FOLDER/city until it is told to stop, then runs the commands of FOLDER/commands.json, all in one session, and
writes what it found to FOLDER/found.json. With `--connect` it
reads through Spark Connect, to FOLDER/connected.json. With `--intrude` it only tries to run something at all.
"""

from __future__ import annotations

import io
import json
import sys
import time
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from maia.cli.main import main as maia
from maia.spark.applications import following
from maia.spark.applications.results import umask_of
from maia.spark.errors import told_by_spark
from maia.spark.keys.key_server import job_desk
from maia.spark.session import session as sessions
from maia.spark.session.cluster import cluster_of
from maia.spark.session.session import UMASK, spark_session
from maia.spark.source import data_source
from support.charging import following_words
from support.cluster import java_options
from support.cluster_governed import governed_table, lines, read_there
from support.cluster_jobs import found_there, held_up

# As in the suite's own session: compiling and changing plans takes longer than a few rows do.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def main(folder: Path) -> None:
    """Do all the work, in one session."""
    shared, cluster = folder / "shared", cluster_of()
    assert cluster is not None
    settings = {
        "spark.executor.extraJavaOptions": java_options(),
        UMASK: umask_of(str(shared)),
        **evidence(folder),
        **QUICK,
    }
    with (
        spark_session("work", cores=2, cluster=cluster, settings=settings) as spark,
        job_desk() as desk,
        told_by_spark(),
    ):
        found = found_there(spark, shared / "jobs") | read_there(spark, shared / "sealed", desk)
        follow(spark, folder)
        found |= {"commands": told(spark, folder / "commands.json"), "pages": pages(spark)}
        desks = desk, *(one._desk for one in data_source._DESKS.values())
        found |= {"tokens": [one.token.hex() for each in desks for one in each._grants.values()]}
        (folder / "found.json").write_text(json.dumps(found))
        while not (folder / "looked").exists():  # what executors have on their disks goes with the session
            time.sleep(0.1)


def follow(spark: SparkSession, folder: Path) -> None:
    """Run an application over the live network until a signal ends it; its first events are held up."""
    start = following.start_following

    def start_held_up(application: Any, events: DataFrame, *about: Any, **how: Any) -> StreamingQuery:
        return start(application, held_up(events, str(folder / "shared" / "followed")), *about, **how)

    following.start_following = start_held_up
    with (folder / "followed.log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        status = _maia_in(spark, following_words(folder / "city", folder / "shared" / "following"))
    assert status == 0, (folder / "followed.log").read_text()
    following.start_following = start
    (folder / "shared" / "followed" / "ended").touch()


def connect(folder: Path) -> None:
    """Read the log and run commands through a server of Spark Connect."""
    with (
        spark_session("connected", cores=1, cluster=cluster_of(), settings=QUICK) as spark,
        job_desk() as desk,
        told_by_spark(),
    ):
        table = lines(governed_table(spark, folder / "shared" / "sealed", desk))
        found = {"table": table, "commands": told(spark, folder / "connected-commands.json")}
        found |= noted(spark, folder)
    (folder / "connected.json").write_text(json.dumps(found))


def noted(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Publish notes to the network through Spark Connect, and read them."""
    data_source.register_spark(spark)
    clerk = {"profile": str(folder / "city" / "clerk.maia"), "type": "Note"}
    notes = spark.createDataFrame([(f"note {number}",) for number in range(5)], "text string").repartition(2)

    def read(**more: object) -> list[str]:
        options = {**clerk, "durable": "notes", **more}
        return sorted(row.text for row in spark.read.format("maia").options(**options).load().collect())

    before = read(settle=0.5)  # from now on the subscription stands
    notes.write.format("maia").mode("append").options(**clerk).save()
    after = read(settle=120, rows=5)
    return {"notes": [before, after]}


def told(spark: SparkSession, commands: Path) -> list[Any]:
    """Run commands of `maia` in a session that is there; return what each said, and its status."""
    found = []
    for words in json.loads(commands.read_text()):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            status = _maia_in(spark, words)
        found.append((status, out.getvalue(), err.getvalue()))
    return found


def _maia_in(spark: SparkSession, words: list[str]) -> int:
    sessions.spark_session = lambda *_words, **_options: nullcontext(spark)  # type: ignore[assignment]
    return maia(words)


def evidence(folder: Path) -> dict[str, str]:
    """Return settings with which Spark writes down and shows all that it can about a job."""
    (folder / "history").mkdir()
    return {
        "spark.eventLog.compress": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "history").as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }


def pages(spark: SparkSession) -> str:
    """Return what the web pages of the driver show of environment, executors, jobs and queries."""
    import httpx

    root = spark.sparkContext.uiWebUrl
    application = spark.sparkContext.applicationId
    names = ["environment/", "executors/", "jobs/", "stages/", "SQL/", "StreamingQuery/", "storage/"]
    names += [f"api/v1/applications/{application}/{one}" for one in ("environment", "sql", "allexecutors")]
    return "".join(httpx.get(f"{root}/{name}", follow_redirects=True, timeout=60).text for name in names)


def intrude(folder: Path) -> None:
    """Try to run a job."""
    with spark_session("intruder", cores=1, cluster=cluster_of()) as spark:
        (folder / "got-in").write_text(str(spark.range(1).count()))


if __name__ == "__main__":
    ways = {"--intrude": intrude, "--connect": connect}
    ways.get(sys.argv[-1], main)(Path(sys.argv[1]))
