"""A process is shown a disk that fails, or is slow, below one folder, and a clock that is off."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chaos.shim import Control, NoShim, compiled

PROGRAM = """
import os, sys, time
for line in sys.stdin:
    found = [str(time.time_ns())]
    for path in sys.argv[1:]:
        began = time.monotonic()
        try:
            with open(path, "w") as file:
                file.write("x"), file.flush(), os.fsync(file.fileno())
            found.append("written" if time.monotonic() - began < 0.3 else "slowly")
        except OSError as problem:
            found.append(str(problem.errno))
    print(*found, flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return compiled(tmp_path_factory.mktemp("shim"))
    except NoShim as why:
        pytest.skip(str(why))


def test_a_process_sees_what_the_control_says(library: Path, tmp_path: Path):
    (tmp_path / "below").mkdir()
    control = Control(library, tmp_path / "control", tmp_path / "below")
    command = [sys.executable, "-c", PROGRAM, tmp_path / "below" / "file", tmp_path / "beside"]
    environment, pipe = os.environ | control.environment, subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, env=environment) as process:

        def seen() -> tuple[float, list[str]]:
            print("now", file=process.stdin, flush=True)
            moment, *wrote = process.stdout.readline().split()
            return int(moment) / 1e9 - time.time(), wrote

        def wrote(*expected: str) -> bool:
            """Write until it goes as expected: a busy machine is slow by itself now and then."""
            return any(seen()[1] == [*expected] for _ in range(20))

        assert wrote("written", "written")
        for error in (errno.EIO, errno.ENOSPC, errno.EROFS):
            control.show(error=error)
            assert wrote(str(error), "written")
        control.show(delay_ms=300)
        assert wrote("slowly", "written")
        for clock_s in (3600, -3600, 20, -20):
            control.show(clock_s=clock_s)
            assert any(abs(seen()[0] - clock_s) < 15 for _ in range(20))
            assert wrote("written", "written")
        control.show()
        assert abs(seen()[0]) < 15
        process.stdin.close()


def test_without_a_compiler_there_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("chaos.shim.shutil.which", lambda _: None)
    with pytest.raises(NoShim, match="no C compiler"):
        compiled(tmp_path)
