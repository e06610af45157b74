"""`maia` for tests: short commands in this process, brokers in real ones that always end."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from maia.cli import main
from support.nursery import Forked, forked

__all__ = ["Answer", "maia", "running_maia", "until"]

DEADLINE_S = 180.0


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    returncode: int
    stdout: str
    stderr: str


def maia(*words: object, cwd: Path) -> Answer:
    """Run one command to its end, in this process, as if it had been typed in `cwd`."""
    out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
    os.environ.clear()
    os.environ.update({name: value for name, value in before.items() if not name.startswith("MAIA_")})
    try:
        with chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            status = main([str(word) for word in words])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return Answer(status, out.getvalue(), err.getvalue())


@contextmanager
def running_maia(*words: object, cwd: Path) -> Iterator[Forked]:
    """Run one command beside the test; what it wrote goes to `cwd`, and it is ended with the body."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
    with (
        (cwd / "out.log").open("a+") as out,
        (cwd / "err.log").open("a+") as err,
        Path(os.devnull).open() as nothing,
    ):
        descriptors = [nothing.fileno(), out.fileno(), err.fileno()]
        process = forked(words, cwd=cwd, environment=environment, descriptors=descriptors)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def until(condition: Callable[[], bool], *, seconds: float = DEADLINE_S) -> None:
    """Wait until a function answers yes; fail when it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
