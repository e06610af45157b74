"""Tasks of a Spark sink that die where they are told to: `python -m support.sink_task`, run in `tests`.

Each line of standard input is one task as JSON; each runs in a process of its own, and its end is one line of
standard output: what it published, its refusal's code, or `killed`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructType

from maia.client.api.blocking_client import BlockingPublisher
from maia.spark.errors import SparkProblem
from maia.spark.keys.key_server import DeskPass
from maia.spark.sink import writer
from maia.spark.source.options import job_options
from maia.spark.source.right_desk import Right

SCHEMA = StructType().add("numberplate", StringType()).add("location", StringType())
STEPS = ("asked", "granted", "frame 1", "frame 2", "flushed")
"""Before the driver is asked, behind its answer, behind a frame, and before Spark is answered."""


class LocalFolder:
    """What a sink has to remember beside a checkpoint, on this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return sorted(one.name for one in path.iterdir()) if path.is_dir() else []

    def make(self, folder: str, name: str) -> None:
        (self._root / folder).mkdir(parents=True, exist_ok=True)
        (self._root / folder / name).touch()

    def remove(self, folder: str) -> None:
        for file in (self._root / folder).iterdir():
            file.unlink()
        (self._root / folder).rmdir()


def task_of(right: Right, given: dict[str, str], **more: object) -> dict[str, Any]:
    """Return a task as it is said to `tasks`; it has a query, a run, a batch and plates."""
    desk = right.desk
    assert desk is not None
    words = [desk.host, desk.port, desk.grant.hex(), desk.token.hex()]
    return {"options": given, "desk": words, **more}


@contextmanager
def tasks() -> Iterator[Callable[..., str]]:
    """Hand out what runs one task in a process of its own, and says how it ended."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-m", "support.sink_task"],
        cwd=Path(__file__).resolve().parents[1],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None

        def run(task: dict[str, Any], dies: str = "") -> str:
            running.stdin.write(json.dumps(task | {"dies": dies}) + "\n")
            running.stdin.flush()
            return running.stdout.readline().strip()

        yield run
        running.stdin.close()


def _die(*_words: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _behind(call: Callable[..., Any], times: int = 1) -> Callable[..., Any]:
    left = [times]

    def calling(*words: object, **named: object) -> Any:
        found = call(*words, **named)
        left[0] -= 1
        if not left[0]:
            _die()
        return found

    return calling


def _run(task: dict[str, Any]) -> str:
    host, port, grant, token = task["desk"]
    desk = DeskPass(host, port, bytes.fromhex(grant), bytes.fromhex(token))
    right = Right(job_options(task["options"]), desk)
    sink = writer.MaiaStreamWriter(right, SCHEMA, overwrite=False)
    writer.present_task = lambda: writer.Task(0, task["query"], task["run"], task["batch"])
    match task["dies"].split():
        case ["asked"]:
            Right.member = _die
        case ["granted"]:
            Right.member = _behind(Right.member)
        case ["frame", number]:
            BlockingPublisher.publish_batch = _behind(BlockingPublisher.publish_batch, int(number))
        case ["flushed"]:
            writer._publish_frames = _behind(writer._publish_frames)
    columns = {"numberplate": task["plates"], "location": ["Victoria"] * len(task["plates"])}
    try:
        return str(sink.write(iter([pa.RecordBatch.from_pydict(columns)])).rows)
    except (SparkProblem, OSError) as problem:
        return str(problem)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if not child:
            try:
                _say(_run(json.loads(line)))
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            _say("killed")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
