"""A driver on the cluster of the environment: `python -m support.cluster_driver FOLDER`, run in `tests`.

It does the work in FOLDER/jobs and FOLDER/sealed, one after the other, and writes
what it found to FOLDER/found.json. With `--intrude` it only tries to run something
at all.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from maia.spark.keys.key_server import job_desk
from maia.spark.session.session import cluster_of, spark_session
from support.cluster import java_options
from support.cluster_governed import read_there
from support.cluster_jobs import found_there


def main(folder: Path) -> None:
    """Do all the work, in one session."""
    cluster = cluster_of()
    assert cluster is not None
    settings = {
        "spark.executor.extraJavaOptions": java_options(),
        # As in the suite's own session: compiling and changing plans takes longer than a few rows do.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    with (
        spark_session("work", cores=2, cluster=cluster, settings=settings) as spark,
        job_desk(cluster.driver_host) as desk,
    ):
        found = found_there(spark, folder / "jobs") | read_there(spark, folder / "sealed", desk)
    (folder / "found.json").write_text(json.dumps(found))


def intrude(folder: Path) -> None:
    """Try to run a job."""
    with spark_session("intruder", cores=1, cluster=cluster_of()) as spark:
        (folder / "got-in").write_text(str(spark.range(1).count()))


if __name__ == "__main__":
    (intrude if "--intrude" in sys.argv else main)(Path(sys.argv[1]))
