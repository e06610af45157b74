"""The pipeline's jobs on a real cluster: the same answer as here, also if an executor dies in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maia.pipeline.generators import GENERATORS, Order
from maia.runtime.generated_files import write_generated
from maia.runtime.java_home import NoJava, find_java_home
from support import cluster_jobs
from support.cluster import DEADLINE_S, running_cluster, until

ROWS = 2_000
FILES = 4


@pytest.mark.cluster
def test_a_job_on_a_cluster_that_loses_an_executor_gives_the_answer_of_this_machine(spark, tmp_path):
    """D9: two workers, authenticated; the package comes with the job; an executor is killed at work."""
    try:
        find_java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    write_generated(
        tmp_path / "events", GENERATORS["sightings"], Order(ROWS, 9, 1_000), rows_per_file=ROWS // FILES
    )
    with running_cluster(tmp_path) as cluster:
        driver = _driver(tmp_path, cluster.environment)
        try:
            until(lambda: len(list(tmp_path.glob("began-*"))) >= 2, "both executors work", alive=driver)
            assert len(cluster.executors()) == 2
            killed = cluster.kill_one_executor()
            (tmp_path / "go").touch()
            assert driver.wait(DEADLINE_S) == 0, (tmp_path / "driver.log").read_text()[-3000:]
        finally:
            driver.kill()
            driver.wait()
        assert killed not in cluster.executors()
    there = json.loads((tmp_path / "found.json").read_text())
    assert all("maia-package.zip" in file for file in there["files"])
    here = cluster_jobs.found_by(spark, tmp_path, lambda events: events)
    assert sum(line.startswith("charge") for line in here) > 100
    assert sum(line.startswith("delivery") for line in here) > 20
    assert there["found"] == here


def _driver(folder: Path, cluster: dict[str, str]) -> subprocess.Popen[bytes]:
    tests = Path(__file__).resolve().parent.parent
    with (folder / "driver.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "support.cluster_jobs", str(folder)],
            cwd=tests,
            env={**os.environ, **cluster},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
