"""A real cluster: the answers of this machine, though executors die at work; strangers get nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from maia.errors import Unavailable
from maia.spark.generators import GENERATORS, Order
from maia.spark.generators.files import write_generated
from maia.spark.keys.key_server import job_desk
from maia.spark.session.java_home import find_java_home
from support.cluster import DEADLINE_S, RunningCluster, running_cluster, until
from support.cluster_governed import FRAMES, governed_table, lines, sealed_log
from support.cluster_jobs import found_by
from support.governed import sightings

TESTS = Path(__file__).resolve().parent.parent
ROWS = 2_000
FILES = 4

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a driver and an intruder on one cluster, kill an executor in each work, and return their folder."""
    try:
        find_java_home()
    except Unavailable as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("cluster")
    record(folder)
    with running_cluster(folder) as cluster, intruder(folder, cluster) as stranger:
        with program(folder, "driver", cluster.environment) as driver:
            for work in ("jobs", "sealed"):
                lose_an_executor(cluster, folder / work, driver)
            assert driver.wait(DEADLINE_S) == 0, (folder / "driver.log").read_text()[-3000:]
        assert stranger.wait(DEADLINE_S) != 0, "it ran something"
    return folder


def record(folder: Path) -> None:
    """Write what the driver will read."""
    order = Order(ROWS, 9, 1_000)
    write_generated(folder / "jobs" / "events", GENERATORS["sightings"], order, rows_per_file=ROWS // FILES)
    log = sealed_log(folder / "sealed")
    for number in range(FRAMES):
        log.publish(sightings(50, first=50 * number))
        log.write()


def lose_an_executor(cluster: RunningCluster, work: Path, driver: subprocess.Popen[bytes]) -> None:
    """Kill an executor while both are at work, and let the work go on."""
    until(lambda: len(list(work.glob("began-*"))) >= 2, "both executors work", alive=driver)
    assert len(cluster.executors()) == 2
    killed = cluster.kill_one_executor()
    (work / "go").touch()
    until(lambda: killed not in cluster.executors(), "the executor is gone", alive=driver)


@contextmanager
def program(
    folder: Path, name: str, cluster: dict[str, str], *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a client of the cluster, which ends with the body."""
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.cluster_driver", str(folder), *words],
            cwd=TESTS,
            env={**os.environ, **cluster},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def intruder(folder: Path, cluster: RunningCluster) -> Iterator[subprocess.Popen[bytes]]:
    """Run a client that knows everything about the cluster but its secret."""
    guessed = folder / "guessed"
    guessed.touch(mode=0o600)
    guessed.write_text("0" * 64)
    knows = cluster.environment | {"MAIA_SPARK_SECRET_FILE": str(guessed)}
    with program(folder, "intruder", knows, "--intrude") as process:
        yield process


@pytest.fixture
def there(folder: Path) -> dict[str, Any]:  # Any: rows as they are
    """What the driver found on the cluster."""
    return json.loads((folder / "found.json").read_text())


def test_a_job_that_loses_an_executor_gives_the_answer_of_this_machine(spark, folder, there):
    """D9: two workers, authenticated; the package comes with the job; an executor is killed at work."""
    assert all("maia-package.zip" in file for file in there["files"])
    here = found_by(spark, folder / "jobs", lambda events: events)
    assert sum(line.startswith("charge") for line in here) > 100
    assert sum(line.startswith("delivery") for line in here) > 20
    assert there["found"] == here


def test_a_governed_read_that_loses_an_executor_shows_the_rows_of_this_machine(spark, folder, there):
    """D2, D9: keys reach executors of a cluster, one of which is killed."""
    with job_desk() as desk:
        here = lines(governed_table(spark, folder / "sealed", desk))
    assert len(here) == 280
    assert there["table"] == here
    assert there["stream"] == here
    assert there["refused"] == []


def test_a_client_without_the_secret_runs_nothing(spark, folder):  # spark: to stay in the lane of the others
    """D9: the cluster's secret is needed."""
    assert not (folder / "got-in").exists()
    told = (folder / "daemons.log").read_text(errors="replace")
    assert "Registering app work" in told
    assert "Registering app intruder" not in told
