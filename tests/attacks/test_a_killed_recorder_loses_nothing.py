"""A81: a real process, killed at any moment. `MAIA_KILLS=500 pytest …` tries many in place of a few."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from maia.log.disk.event_log import EventLog
from support.event_log import draws
from support.log_writer import LIMITS, frame

KILLS = int(os.environ.get("MAIA_KILLS", "12"))


@pytest.fixture
def writer():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-m", "support.log_writer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield process
    process.stdin.close()
    process.wait(timeout=180)
    process.stdout.close()


def killed_after(writer, folder, number: int, *, appended: int, delay_s: float) -> list[str]:
    """Let a child append so often and a while longer, kill it, and return what it said."""
    writer.stdin.write(f"{folder} {number}\n")
    writer.stdin.flush()
    said: list[str] = []
    while (
        not (child := told(said, "child"))
        or not told(said, "opened")
        or sum(line.startswith("safe") for line in said) < appended
    ):
        said.append(heard(writer))
        assert "ended" not in said, said
    time.sleep(delay_s)
    os.kill(int(child), signal.SIGKILL)
    while said[-1] != "ended":
        said.append(heard(writer))
    return said


def heard(writer) -> str:
    line = writer.stdout.readline()
    assert line, "the process that makes recorders has died"
    return line.strip()


def told(said: list[str], word: str) -> str | None:
    return next((line.split()[1] for line in said if line.startswith(word)), None)


def test_a_killed_recorder_loses_and_doubles_nothing(writer, tmp_path):
    """A81: kill -9 at random moments of appending, rolling and joining."""
    random = draws(KILLS)
    known: dict[int, bytes] = {}
    number = 1
    for _ in range(KILLS):
        appended, delay_s = random.randint(0, 20), random.uniform(0, 0.08)
        said = killed_after(writer, tmp_path, number, appended=appended, delay_s=delay_s)
        for line in said:
            if line.startswith("safe"):
                position, start, count = map(int, line.split()[1:])
                known.update({position + n: frame(start + n) for n in range(count)})
                number = start + count
        number += 10  # what was on its way may be there, too, under the numbers in between
        with EventLog.open(tmp_path, limits=LIMITS) as log:
            found = {record.position: record.message for record in log.read()}
            assert list(found) == list(range(1, len(found) + 1))
            assert {position: found.get(position) for position in known} == known
            assert len(set(found.values())) == len(found)
            known = found
            assert log.verify().is_whole
    assert len(known) > KILLS
