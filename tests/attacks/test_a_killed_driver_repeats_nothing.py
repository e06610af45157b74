"""D8, A81: the driver of a governed stream is killed, with its Java process; another goes on where it was.

`MAIA_DRIVER_KILLS=100 pytest …` kills it often in place of once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.event_log import draws
from support.governed import Recorded, rows_of, sightings, typed
from support.streaming_job import to_the_end

KILLS = int(os.environ.get("MAIA_DRIVER_KILLS", "1"))
TESTS = Path(__file__).resolve().parents[1]


def job(folder: Path) -> subprocess.Popen[str]:
    """Start the job in a process group of its own, so that Java dies with it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "support.streaming_job", str(folder)],
        cwd=TESTS,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def kill(running: subprocess.Popen[str]) -> None:
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(180)
    running.stdout.close()


def test_a_killed_driver_leaves_a_table_without_gaps_and_repetitions(spark, tmp_path):
    """D8: segments come while the job runs; it is killed while it works on one of them."""
    random, log, events = draws(KILLS), Recorded(tmp_path / "log"), []

    def record() -> None:
        more = sightings(5, first=len(events))
        events.extend(more)
        log.publish(more)
        log.write()

    record()
    for _ in range(KILLS):
        running = job(tmp_path)
        said = running.stdout.readline()
        assert said == "running\n"
        for _ in range(random.randint(0, 2)):
            assert running.stdout.readline().startswith("batch")
            record()
        record()
        time.sleep(random.uniform(0, 1.5))
        kill(running)
    record()
    to_the_end(spark, tmp_path)
    names = {one.uid: one.name for one in typed().attributes}
    expected = [{names[uid]: value for uid, value in event.items()} for event in events]
    table = spark.read.parquet(str(tmp_path / "out"))
    assert rows_of(table) == sorted(expected, key=repr)
