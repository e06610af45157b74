"""A sealed log read by a cluster: the rows of one machine, though an executor dies; strangers get nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maia.runtime.java_home import NoJava, find_java_home
from maia.runtime.job_desk import job_desk
from support.cluster import DEADLINE_S, running_cluster, until
from support.cluster_governed import FRAMES, governed_table, lines, sealed_log
from support.governed import sightings

TESTS = Path(__file__).resolve().parent.parent


@pytest.mark.cluster
def test_a_governed_read_survives_an_executor_and_a_client_without_the_secret_runs_nothing(spark, tmp_path):
    """D2, D9: keys reach executors of a cluster, one of which is killed; the cluster's secret is needed."""
    try:
        find_java_home()
    except NoJava as missing:
        pytest.skip(str(missing))
    log = sealed_log(tmp_path)
    for number in range(FRAMES):
        log.publish(sightings(50, first=50 * number))
        log.write()
    with running_cluster(tmp_path) as cluster, intruder(tmp_path, cluster.environment) as stranger:
        with driver(tmp_path, cluster.environment) as running:
            until(lambda: len(list(tmp_path.glob("began-*"))) >= 2, "both executors work", alive=running)
            killed = cluster.kill_one_executor()
            (tmp_path / "go").touch()
            assert running.wait(DEADLINE_S) == 0, (tmp_path / "driver.log").read_text()[-3000:]
        assert killed not in cluster.executors()
        assert stranger.wait(DEADLINE_S) != 0, "it ran something"
        assert not (tmp_path / "got-in").exists()
        told = (tmp_path / "daemons.log").read_text(errors="replace")
        assert "Registering app governed" in told
        assert "Registering app intruder" not in told
    there = json.loads((tmp_path / "found.json").read_text())
    with job_desk() as desk:
        here = lines(governed_table(spark, tmp_path, desk))
    assert len(here) == 280
    assert there["table"] == here
    assert there["stream"] == here
    assert there["refused"] == []


@contextmanager
def driver(
    folder: Path, cluster: dict[str, str], *words: str, name: str = "driver"
) -> Iterator[subprocess.Popen]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.cluster_governed", str(folder), *words],
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
def intruder(folder: Path, cluster: dict[str, str]) -> Iterator[subprocess.Popen]:
    """Run a client that knows everything about the cluster but its secret."""
    guessed = folder / "guessed"
    guessed.touch(mode=0o600)
    guessed.write_text("0" * 64)
    with driver(
        folder, cluster | {"MAIA_SPARK_SECRET_FILE": str(guessed)}, "--intrude", name="intruder"
    ) as process:
        yield process
