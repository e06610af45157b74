"""A real cluster: the answers of this machine, though executors die at work; strangers get nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import maia
from maia import Organisation
from maia.errors import Unavailable
from maia.spark.applications import BILLING
from maia.spark.generators import GENERATORS, Order
from maia.spark.generators.files import write_generated
from maia.spark.keys.key_server import job_desk
from maia.spark.session.java_home import find_java_home
from support.charging import MONDAY, charging_city
from support.cluster import DEADLINE_S, RunningCluster, connect_server, running_cluster, until
from support.cluster_governed import FRAMES, governed_table, lines, sealed_log
from support.cluster_jobs import found_by
from support.governed import secret_of, sightings
from support.machines import ACCOUNT, why_not_apart

TESTS = Path(__file__).resolve().parent.parent
ROWS = 2_000
FILES = 4

pytestmark = pytest.mark.cluster
needs_machines = pytest.mark.skipif(bool(why_not_apart()), reason=why_not_apart())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run drivers and an intruder on one cluster, kill an executor in each work, and return their folder."""
    try:
        find_java_home()
    except Unavailable as missing:
        pytest.skip(str(missing))
    folder = tmp_path_factory.mktemp("cluster")
    record(folder)
    with (
        charging_city(folder / "city") as city,
        running_cluster(folder) as cluster,
        intruder(folder, cluster) as stranger,
        program(folder, "driver", cluster.environment) as driver,
    ):
        for work in ("jobs", "sealed"):
            lose_an_executor(cluster, folder / "shared" / work, driver)
        with (
            connect_server(folder) as server,
            program(folder, "connected", server, "--connect") as connected,
        ):
            (folder / "charged.json").write_text(json.dumps(charge_and_lose_executors(city, cluster, driver)))
            until((folder / "found.json").exists, "the driver is done", alive=driver)
            (folder / "disks").write_bytes(b"".join(on_disks(cluster)))
            (folder / "looked").touch()
            for name, process in (("driver", driver), ("connected", connected)):
                assert process.wait(DEADLINE_S) == 0, (folder / f"{name}.log").read_text()[-3000:]
        assert stranger.wait(DEADLINE_S) != 0, "it ran something"
    return folder


def record(folder: Path) -> None:
    """Write what the drivers will read, and what they will be told to do."""
    shared = folder / "shared"
    order = Order(ROWS, 9, 1_000)
    write_generated(shared / "jobs" / "events", GENERATORS["sightings"], order, rows_per_file=ROWS // FILES)
    (shared / "followed").mkdir(mode=0o755)
    log = sealed_log(shared / "sealed")
    for number in range(FRAMES):
        log.publish(sightings(50, first=50 * number))
        log.write()
    for path in (shared, *shared.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)
    (shared / "closed").mkdir(mode=0o755)
    shutil.copytree(shared / "jobs" / "events", folder / "events")  # on the driver's disk alone
    events, run = str(shared / "jobs" / "events"), ["pipeline", "run", "billing", "--json", "--from"]
    verify = ["pipeline", "verify", "billing", "--json", "--from", events]
    lost = [*run, str(folder / "events")]
    on_cluster = [
        [*run, events],
        [*run, events, "--out", str(folder / "charges")],
        [*run, events, "--out", (shared / "charges").as_uri()],
        [*verify, "--checkpoint", str(shared)],
        lost,
        verify,
        [*run, events, "--out", (shared / "closed" / "charges").as_uri()],
        [*run, events, "--follow", "--out", str(folder / "local"), "--checkpoint", str(shared / "state")],
    ]
    by_connect = [
        [*run, events],
        [*run, events, "--out", str(folder / "by connect")],
        [*run, events, "--out", (shared / "by connect").as_uri()],
        [*run, events, "--stream", "--checkpoint", str(shared)],
        lost,
    ]
    (folder / "commands.json").write_text(json.dumps(on_cluster))
    (folder / "connected-commands.json").write_text(json.dumps(by_connect))


def on_disks(cluster: RunningCluster) -> Iterator[bytes]:
    """Yield what workers have on their disks, and the command lines of executors."""
    for worker in cluster.workers:
        # As the worker sees it: its own `/tmp`, if it has one, without what this machine shares there.
        top = Path("/proc", str(worker.pid), "root", cluster.disk.lstrip("/"))
        device = top.stat().st_dev
        for place, folders, files in os.walk(top):
            folders[:] = [one for one in folders if is_on(device, Path(place, one))]
            for file in (Path(place, one) for one in files):
                if file.is_file() and not file.is_symlink() and file.suffix != ".conf":
                    with suppress(OSError):
                        yield file.read_bytes()
    for pid in cluster.executors():
        yield Path(f"/proc/{pid}/cmdline").read_bytes()


def is_on(device: int, folder: Path) -> bool:
    """Return whether a folder, which may go at any moment, is on a device."""
    with suppress(OSError):
        return folder.lstat().st_dev == device
    return False


def lose_an_executor(cluster: RunningCluster, work: Path, driver: subprocess.Popen[bytes]) -> None:
    """Kill an executor while both are at work, and let the work go on."""
    until(
        lambda: len(list(work.glob("began-*"))) >= 2, "both executors work", alive=(driver, *cluster.workers)
    )
    assert len(cluster.executors()) == 2
    killed = cluster.kill_one_executor()
    (work / "go").touch()
    until(lambda: killed not in cluster.executors(), "the executor is gone", alive=driver)


def charge_and_lose_executors(
    city: Organisation, cluster: RunningCluster, driver: subprocess.Popen[bytes]
) -> dict[str, int]:
    """Kill an executor that holds events it has read, and one while charges go out; return all charges."""
    work = city.folder.parent / "shared" / "followed"
    charged: Counter[str] = Counter()
    with (
        maia.connect(city.folder / "camera.maia") as camera,
        maia.connect(city.folder / "desk.maia") as desk,
    ):
        received = desk.subscribe("Charge")

        def publish(*plates: str) -> None:
            for plate in plates:
                camera.publish("Sighting", numberplate=plate, timestamp=MONDAY, location="Victoria")

        def is_charged(*plates: str) -> bool:
            charged.update(one["numberplate"] for one in received.some(999, timeout_s=1))
            return set(plates) <= charged.keys()

        def is_held() -> bool:
            publish("FIRST")  # what came before the job subscribed is not kept for it
            time.sleep(0.3)
            return any(work.glob("began-*"))

        until(is_held, "an executor has read events", alive=driver)
        publish(*(f"A{number}" for number in range(30)))
        held = min(work.glob("began-*"))
        cluster.kill_one_executor(works=int(held.name.split("-")[1]))
        (work / "go").touch()
        until(lambda: is_charged("FIRST"), "charges go out", alive=driver)
        cluster.kill_one_executor()
        publish(*(f"B{number}" for number in range(30)), "A1", "FIRST")
        every = ["FIRST", *(f"{part}{number}" for part in "AB" for number in range(30))]
        until(lambda: is_charged(*every), "all are charged", alive=driver)
        # The command says so behind a batch that is done, and listens to signals by then.
        log = city.folder.parent / "followed.log"
        until(lambda: '"batch"' in log.read_text(), "a batch is done", alive=driver)
        driver.terminate()
        until((work / "ended").exists, "the application has stopped", alive=driver)
        is_charged()
    return dict(charged)


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
    except AssertionError as failed:
        failed.add_note(f"{name} said last:\n" + (folder / f"{name}.log").read_text(errors="replace")[-3000:])
        raise
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


@pytest.fixture
def connected(folder: Path) -> dict[str, Any]:  # Any: rows as they are
    """What was found through Spark Connect."""
    return json.loads((folder / "connected.json").read_text())


def whole_charges(spark, folder: Path) -> int:
    """Return how many charges there are, as this machine finds them."""
    return BILLING.of(spark.read.parquet(str(folder / "events"))).count()


def refused(told: list[Any], number: int) -> dict[str, str]:
    """Return the error of a command that failed: one line, and nothing beside it."""
    status, out, err = told[number]
    assert status not in (0, 1), (out, err)
    assert "Traceback" not in err
    (line,) = (out + err).strip().splitlines()
    return json.loads(line)["error"]


def test_a_job_that_loses_an_executor_gives_the_answer_of_this_machine(spark, folder, there):
    """D9: two workers, authenticated; the package comes with the job; an executor is killed at work."""
    assert all("maia-package.zip" in file for file in there["files"])
    here = found_by(spark, folder / "shared" / "jobs", lambda events: events)
    assert sum(line.startswith("charge") for line in here) > 100
    assert sum(line.startswith("delivery") for line in here) > 20
    assert there["found"] == here


def test_a_governed_read_that_loses_an_executor_shows_the_rows_of_this_machine(spark, folder, there):
    """D2, D9: keys reach executors of a cluster, one of which is killed."""
    with job_desk() as desk:
        here = lines(governed_table(spark, folder / "shared" / "sealed", desk))
    assert len(here) == 280
    assert there["table"] == here
    assert there["stream"] == here
    assert there["refused"] == []


def test_an_application_that_loses_executors_charges_each_vehicle_once(spark, folder):
    """D14: executors are killed while they read, and while they publish; the query goes on by itself."""
    every = ["FIRST", *(f"{part}{number}" for part in "AB" for number in range(30))]
    charged = json.loads((folder / "charged.json").read_text())
    assert charged == dict.fromkeys(every, 1)


def test_a_client_without_the_secret_runs_nothing(spark, folder):  # spark: to stay in the lane of the others
    """D9: the cluster's secret is needed, and the client is told so in a sentence."""
    assert "has another secret" in (folder / "intruder.log").read_text()
    assert not (folder / "got-in").exists()
    told = (folder / "daemons.log").read_text(errors="replace")
    assert "Registering app work" in told
    assert "Registering app intruder" not in told


@pytest.mark.parametrize(("way", "out"), [("there", "charges"), ("connected", "by connect")])
def test_results_come_to_the_driver_or_go_to_an_address(spark, folder, way, out, request):
    """D12: a result is the same printed, in a folder of the driver, and where workers write it."""
    found = request.getfixturevalue(way)["commands"]
    charges = whole_charges(spark, folder)
    assert charges > 100
    for status, said, err in found[:3]:
        assert status == 0, err
        assert json.loads(said)["charges"] == charges
    for place in (folder / out, folder / "shared" / out):
        assert spark.read.parquet(str(place)).count() == charges
    assert (folder / "shared" / out / "_SUCCESS").exists()
    assert (folder / out).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("way", ["there", "connected"])
def test_a_stream_keeps_its_state_where_workers_reach_it_and_leaves_nothing(spark, folder, way, request):
    """D12: batch and stream agree on a cluster, and through Spark Connect."""
    status, said, err = request.getfixturevalue(way)["commands"][3]
    assert status == 0, err
    found = json.loads(said)
    assert found.get("holds") is True or found["charges"] == whole_charges(spark, folder)
    assert not list((folder / "shared").glob("maia-*"))


def test_a_stream_on_a_cluster_without_a_place_is_refused_at_once(spark, there):
    """D12: it is not tried in the driver's temporary folder."""
    assert refused(there["commands"], 5)["code"] == "INPUT-PIPELINE-CHECKPOINT"


def test_a_table_that_workers_would_keep_on_their_own_disks_is_refused(spark, folder, there):
    """D14: of a run that goes on, workers write the table."""
    error = refused(there["commands"], 7)
    assert error["code"] == "INPUT-PIPELINE-RESULT"
    assert "file:///shared/charges" in error["message"]
    assert not (folder / "local").exists()


@needs_machines
@pytest.mark.parametrize("way", ["there", "connected"])
def test_what_a_worker_does_not_find_is_named_in_one_line(spark, folder, way, request):
    """D12: events on the driver's disk alone; the task's own reason, with a code and a way out."""
    error = refused(request.getfixturevalue(way)["commands"], 4)
    assert error["code"] == "PIPELINE-PLACE"
    assert str(folder / "events") in error["message"]
    assert "name a place that every worker reaches" in error["message"]


@needs_machines
def test_a_worker_that_may_not_write_says_so_with_its_account(spark, folder, there):
    """D12: accounts may differ; nothing is left of such a result."""
    error = refused(there["commands"], 6)
    assert error["code"] == "PIPELINE-PLACE"
    assert f"under the account `{ACCOUNT}`, cannot write" in error["message"]
    assert "Permission denied" in error["message"]
    assert list((folder / "shared" / "closed").iterdir()) == []


def test_a_log_is_read_through_spark_connect_as_here(spark, folder, connected, there):
    """D12, D2: keys come from this process's desk to workers of a server of Spark Connect."""
    assert connected["table"] == there["table"]


def test_the_network_is_read_and_published_to_through_spark_connect(spark, folder, connected):
    """D13: the server has no file of the clerk's; it gets the right from this process, for tasks as well."""
    assert connected["notes"] == [[], [f"note {number}" for number in range(5)]]


def test_no_key_right_or_token_lies_about_on_a_cluster(spark, folder, there):
    """A114: none in event logs, web pages, checkpoints, shuffle files, work folders and command lines."""
    shown = {
        "event log": b"".join(one.read_bytes() for one in (folder / "history").rglob("*") if one.is_file()),
        "web pages": there["pages"].encode(),
        "disks of workers": (folder / "disks").read_bytes(),
        "shared places": b"".join(
            one.read_bytes()
            for one in (folder / "shared").rglob("*")
            if one.is_file() and one.suffix != ".conf"
        ),
        "what drivers said": b"".join(
            (folder / f"{one}.log").read_bytes() for one in ("driver", "connected")
        ),
        # A stream through Connect makes Spark's own server write its token there (docs/cluster.md).
        "what servers said": b"".join(
            line
            for line in (folder / "daemons.log").read_bytes().splitlines()
            if not line.startswith(b"Streaming ForeachBatch worker is starting with url")
        ),
        "what commands said": json.dumps(there["commands"]).encode(),
    }
    assert b"SparkListenerJobEnd" in shown["event log"]
    assert b"spark.authenticate" in shown["web pages"]
    assert len(shown["disks of workers"]) > 1_000
    tokens = [bytes.fromhex(one) for one in there["tokens"]]
    keys = [
        secret_of(epoch, uid).reveal()
        for epoch in (1, 2)
        for uid in (None, *sealed_log(folder).event_type.kinds)
    ]
    assert tokens
    assert keys
    secret = (folder / "secret").read_bytes()
    for where, text in shown.items():
        for one in (*tokens, *keys):
            for form in (one, one.hex().encode(), b64encode(one), repr(one)[2:-1].encode()):
                assert form not in text, where
        assert secret not in text, where
