"""`maia` for tests: short commands in this process, servers as copies of the nursery that always end."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from maia.cli import main
from maia.testing import Program, Server
from support import nursery

__all__ = ["Answer", "forked", "maia", "running_maia"]


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


def forked(
    words: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    module: str = "maia.cli",
) -> Program:
    """Start `maia WORDS…` as a copy of the nursery: how `maia.testing.Processes` starts programs here."""
    return nursery.forked(words, cwd=cwd, environment=environment, descriptors=descriptors, module=module)


@contextmanager
def running_maia(*words: object, cwd: Path, module: str = "maia.cli") -> Iterator[Program]:
    """Run one command beside the test; what it wrote goes to `cwd`, and it is ended with the body."""
    server = Server(words, cwd, partial(forked, module=module))
    try:
        yield server.process
    finally:
        server.kill()
