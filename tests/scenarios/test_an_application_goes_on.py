"""D14: an application follows the live network; its driver is killed, and the next run goes on from there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import maia
from maia.cli import main
from maia.clock import system_now
from maia.credentials.names import type_id
from maia.log.disk.event_log import EventLog
from maia.log.format.manifest import MissingRun
from maia.spark.applications import APPLICATIONS, BILLING, TRACKING, Application
from maia.spark.applications.following import Format, Outlet, start_following, table_of
from maia.spark.errors import told_by_spark
from maia.spark.generators import GENERATORS, Order
from maia.spark.generators.files import write_generated
from maia.testing import wait_until
from maia.testing.refusals import raises
from support.charging import MONDAY, charging_city, following_words
from support.processes import maia as command


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[maia.Organisation]:
    with charging_city(tmp_path_factory.mktemp("home") / "city") as made:
        yield made


class Job:
    """`maia pipeline run billing --follow` as a process of its own, with its Java."""

    def __init__(self, city: maia.Organisation, checkpoint: Path) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "maia",
                *following_words(city.folder, checkpoint),
                "--metrics",
                "127.0.0.1:0",
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self.said: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr:
            self.said.append(line)

    @property
    def progress(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in list(self.said) if line.startswith("{")]

    def metrics(self) -> str:
        address = self.progress[0]["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
            return answer.read().decode()

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(180)
        self._reader.join()
        self.process.stderr.close()


def test_a_killed_application_loses_and_repeats_nothing(
    sparkling: SparkSession, city: maia.Organisation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    charged: Counter[object] = Counter()
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

        job = Job(city, tmp_path / "checkpoint")
        try:
            while not is_charged("FIRST"):  # no reader keeps what came before it subscribed
                assert job.process.poll() is None, "".join(job.said)
                publish("FIRST")
            publish(*(f"A{number}" for number in range(30)))
            wait_until(lambda: is_charged("A0"))
            told = job.metrics()
            assert "maia_pipeline_batches_total" in told
            assert "maia_pipeline_events_total" in told
            assert any(one.get("events") for one in job.progress)
            publish(*(f"B{number}" for number in range(30)))
        finally:
            job.kill()
        publish(*(f"C{number}" for number in range(30)), "A1", "FIRST")
        # The next runs, in this process: Java takes long to start.
        every = ["FIRST", *(f"{run}{number}" for run in "ABC" for number in range(30))]
        _follow_until(lambda: is_charged(*every), city, tmp_path / "checkpoint", capsys)
        every.append("LATER")
        publish("LATER", "A2")
        _follow_until(lambda: is_charged(*every), city, tmp_path / "checkpoint", capsys)
        assert received.some(99, timeout_s=2) == []
    assert charged == Counter(every), "one charge for each vehicle and day"


def _follow_until(
    is_done: Callable[[], bool], city: maia.Organisation, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run the command until something holds, and then tell it to stop, as a service manager does."""

    def stop() -> None:
        wait_until(is_done, within_s=300)
        # Only the command is told: while it does not listen, the signal would end the tests.
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as threads:
        stopping = threads.submit(stop)
        status = main(following_words(city.folder, checkpoint))
        said = capsys.readouterr()
        assert status == 0, said.err
        stopping.result()
    assert json.loads(said.out)["events"] > 0
    assert "Traceback" not in said.err


def test_a_run_says_how_far_it_is_behind_and_waits_for_what_its_log_lacks(
    sparkling: SparkSession, city: maia.Organisation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D17, D18, D20: over a log that is known to lack something, into an open table."""
    office, copy, table = city.folder / "office.maia", tmp_path / "log", tmp_path / "charges"
    with maia.connect(city.folder / "camera.maia") as camera:
        for number in range(5):
            camera.publish("Sighting", numberplate=f"L{number}", timestamp=MONDAY, location="Victoria")

    def is_recorded() -> bool:
        with maia.open_log(as_=office) as log:
            plates = log.table("Sighting").to_arrow()["numberplate"].to_pylist()
            return {f"L{number}" for number in range(5)} <= set(plates)

    wait_until(is_recorded, within_s=120)
    shutil.copytree(city.folder / "log", copy)
    lacks = MissingRun(type_id(city.principal, "Sighting"), b"p" * 32, b"s" * 16, 1, 3)
    lines: list[str] = []

    def note(missing: list[MissingRun]) -> None:
        with EventLog.open(copy) as own:
            own.note_missing(missing, system_now())

    def reported() -> list[dict[str, Any]]:
        lines.extend(capsys.readouterr().err.splitlines())
        return [json.loads(line) for line in lines if line.startswith("{")]

    def is_charged() -> bool:
        there = table.exists() and DeltaTable.is_deltatable(str(table))
        plates = DeltaTable(table).to_pyarrow_table()["numberplate"].to_pylist() if there else []
        return {f"L{number}" for number in range(5)} <= set(plates)

    note([lacks])

    def look() -> None:
        try:
            wait_until(lambda: any("waits_for" in one for one in reported()), within_s=300)
            assert not is_charged()
            note([])
            wait_until(lambda: is_charged() and any("batch" in one for one in reported()), within_s=300)
        finally:
            wait_until(lambda: signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    words = f"""pipeline run billing --follow --as {office} -d Sighting --log {copy} --require-complete
        --out {table} --checkpoint {tmp_path / "kept"} --every 0.3 --json""".split()
    with ThreadPoolExecutor(1) as threads:
        looking = threads.submit(look)
        status = main(words)
        looking.result()
    found = reported()
    assert status == 0, lines
    (waiting,) = [one for one in found if "waits_for" in one]
    assert waiting["waits_for"] == waiting["lag"]["missing"] == 3
    assert waiting["lag"]["is_held"]
    assert waiting["lag"]["events"] >= 5
    (done,) = [one for one in found if "batch" in one]
    assert done["lag"] == {"events": 0, "seconds": 0.0, "missing": 0, "is_held": False}
    assert done["events"] >= 5


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("application", APPLICATIONS.values(), ids=lambda one: one.name)
def test_a_table_is_what_was_said_last(
    spark: SparkSession, tmp_path: Path, application: Application[Any], form: Format
) -> None:
    order = Order(300, 9, 100)
    write_generated(tmp_path / "events", GENERATORS[application.generator], order, rows_per_file=150)
    there = spark.read.parquet(str(tmp_path / "events"))
    named = {"vehicle": there.first().numberplate} if application is TRACKING else {}
    events, terms = spark.readStream.schema(there.schema), application.terms_with(named)
    query = start_following(
        application,
        events.option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events")),
        terms,
        Outlet(table=str(tmp_path / "said"), form=form),
        checkpoint=str(tmp_path / "checkpoint"),
        every_s=0.1,
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    if application is BILLING:
        others = start_following(
            application,
            events.parquet(str(tmp_path / "events")),
            terms,
            Outlet(table=str(tmp_path / "said"), form=form),
            checkpoint=str(tmp_path / "another"),
            every_s=0.1,
        )
        said = "of another checkpoint" if form is Format.DELTA else "later batches than 0"
        try:
            with raises("INPUT-PIPELINE-RESULT", match=said), told_by_spark():
                others.processAllAvailable()
        finally:
            others.stop()
    whole = application.of(there, terms)
    kept = table_of(spark, application, str(tmp_path / "said")).select(*whole.columns)
    rows = sorted(map(str, whole.collect()))
    assert rows
    assert sorted(map(str, kept.collect())) == rows
    if form is Format.DELTA:  # as it is, for whoever has never heard of Maia
        assert DeltaTable(tmp_path / "said").to_pyarrow_table().num_rows == len(rows)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Make a folder with a disk of its own that is soon full."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "maia-test", str(folder)]
    if os.getuid() or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("only root mounts a small disk, and not everywhere")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on the disk of a folder; return what takes it."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


def test_a_checkpoint_on_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_room(
    spark: SparkSession, tmp_path: Path
) -> None:
    """D17: what was read before and after is in the table once."""
    made, events = tmp_path / "made", tmp_path / "events"
    write_generated(made, GENERATORS["sightings"], Order(300, 9, 100), rows_per_file=150)
    first, second = sorted(made.glob("*.parquet"))
    events.mkdir()
    shutil.copy(first, events)
    schema = spark.read.parquet(str(made)).schema

    def follow(disk: Path) -> None:
        query = start_following(
            BILLING,
            spark.readStream.schema(schema).parquet(str(events)),
            BILLING.terms_with({}),
            Outlet(table=str(tmp_path / "said")),
            checkpoint=str(disk / "checkpoint"),
            every_s=0.1,
        )
        try:
            with told_by_spark():
                query.processAllAvailable()
        finally:
            query.stop()

    with small_disk(tmp_path / "disk") as disk:
        follow(disk)
        shutil.copy(second, events)
        filler = fill(disk)
        with raises("PIPELINE-PLACE", match="a disk is full"):
            follow(disk)
        filler.unlink()
        follow(disk)
    whole = BILLING.of(spark.read.parquet(str(made)), BILLING.terms_with({}))
    kept = table_of(spark, BILLING, str(tmp_path / "said")).select(*whole.columns)
    assert sorted(map(str, kept.collect())) == sorted(map(str, whole.collect()))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("--follow --from city", "one place for its results"),
        ("--follow --from city --out charges", "--checkpoint"),
        ("--follow --from city --out hdfs://node/charges", "--format parquet"),
        ("--publish office.maia --from city", "with --follow"),
        ("--follow --from city --live office.maia --out charges", "one source of events"),
    ],
)
def test_what_does_not_go_together_is_refused_before_spark_starts(
    tmp_path: Path, more: str, said: str
) -> None:
    command("pipeline", "generate", "sightings", "city", "--rows", 10, cwd=tmp_path)
    refused = command("pipeline", "run", "billing", *more.split(), cwd=tmp_path)
    assert refused.returncode == 2, refused.stderr
    assert said in refused.stderr
