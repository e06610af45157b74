"""docs/quickstart.md, command by command: two organisations with ten commands and twenty lines of Python."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer

import pytest
from pyspark.errors import PythonException

from support.nursery import maia_command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "quickstart.md"
README = PAGE.parents[1] / "README.md"
TUTORIAL = PAGE.parent / "tutorials" / "data-engineer.md"
CONSORTIUM = PAGE.parent / "tutorials" / "consortium.md"
BLOCK = re.compile(r"^```(sh|py)\n(.*?)^```$", re.M | re.S)
PROGRAM = re.compile(r"^cat > \w+\.py <<'END'\n(.*?)^END$", re.M | re.S)
DONE = "BLOCK IS DONE"
WITHIN_S = 300.0
"""How long one block may take on a busy machine."""


class Shell:
    """A shell that is given one block of the page after the other."""

    def __init__(self, folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAIA_")}
        found_in = (str(maia_command().parent), str(Path(sys.executable).parent), environment["PATH"])
        self.folder = folder
        self.process = subprocess.Popen(
            ["bash", "-eu", "-o", "pipefail"],
            cwd=folder,
            env=environment | {"PATH": os.pathsep.join(found_in), "XDG_CONFIG_HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        # A command that fails ends the shell: what it runs ends with it, and does not hold the pipe open.
        self.process.stdin.write("trap 'kill -KILL 0' EXIT\n")

    def run(self, block: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{block}\necho {DONE}\n")
        self.process.stdin.flush()
        printed = []
        bound = Timer(WITHIN_S, os.killpg, (self.process.pid, signal.SIGKILL))
        bound.start()
        try:
            for line in self.process.stdout:
                if line.strip() == DONE:
                    return "".join(printed)
                printed.append(line)
        finally:
            bound.cancel()
        logs = (f"{file.name}:\n{file.read_text()}" for file in sorted(self.folder.glob("*.log")))
        raise AssertionError("".join((*printed, *logs)))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    opened = Shell(tmp_path)
    with opened.process:
        yield opened
        with suppress(OSError, AssertionError):  # the shell may have ended with a command that failed
            opened.run("kill $(jobs -p) || true; wait || true")
        # Whatever is still running belongs to the shell's own session.
        with suppress(ProcessLookupError):
            os.killpg(opened.process.pid, signal.SIGKILL)
        with suppress(OSError):  # what could not be written is of no use to a shell that has ended
            opened.process.stdin.close()


def blocks() -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8"))]


def test_the_page_keeps_its_promise_of_ten_commands_and_twenty_lines() -> None:
    shown = "".join(text for kind, text in blocks() if kind == "sh")
    programs = "".join(PROGRAM.findall(shown)) + "".join(text for kind, text in blocks() if kind == "py")
    assert len(re.findall(r"\bmaia ", PROGRAM.sub("", shown))) <= 10
    assert 0 < len(programs.splitlines()) <= 20


def test_two_organisations_share_a_stream_and_a_table_until_the_grant_is_revoked(
    shell: Shell, tmp_path: Path, spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    printed = ""
    for kind, text in blocks():
        if kind == "sh":
            printed = shell.run(text)
            continue
        (found,) = rows_of(text, "wards", spark=spark)
        assert {row["ward"] for row in found} <= {"3", "4"}
        assert {row["patient"] for row in found} == {None}
        check_the_data_engineers_tutorial(spark)
        ((_, program),) = (block for block in BLOCK.findall(README.read_text("utf-8")) if block[0] == "py")
        (tmp_path / "readme.py").write_text(program)
        shown = shell.run("python -u readme.py 2> readme.log | head -1 || true")
        assert re.match(r"[34] 142 frozenset\(\{.*'patient'.*\}\) ", shown), shown
    assert "ended: POLICY-REVOKED" in printed
    assert "hidden: patient taken" in printed
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert [one["value"] for one in seen] == [142] * 3
    assert {one["ward"] for one in seen} <= {"3", "4"}
    assert {one["patient"] for one in seen} == {None}
    for secret in (*tmp_path.glob("*/*.key"), *tmp_path.glob("*/*.maia/*.key")):
        assert secret.stat().st_mode & 0o077 == 0
    for folder in (*tmp_path.glob("*/*.maia"), tmp_path / "hospital"):
        assert folder.stat().st_mode & 0o077 == 0


def check_the_data_engineers_tutorial(spark) -> None:
    """The tutorial goes on with this network: its tables have the granted wards, and no patient's name."""
    (_, program), (_, without_spark) = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    rows, identified = rows_of(program, "by_ward", "identified", spark=spark)
    assert {row["ward"] for row in rows} <= {"3", "4"}
    assert {row["mean"] for row in rows} == {142.0}
    assert identified == []
    frame = named(without_spark)["frame"]
    assert set(frame["value"]) == {142}
    assert frame["patient"].isna().all()


def rows_of(program: str, *tables: str, spark) -> list[list[object]]:
    """Run a program of a page until its first table has rows: a journal becomes a segment within seconds.

    On a machine that is too busy, a list of revocations comes late, and a table asks to be asked for again.
    """
    for _ in range(20):
        names = named(program)
        try:
            found = [names[one].collect() for one in tables]
        except PythonException as problem:
            if "ask for the table again" not in str(problem):
                raise
            continue
        finally:
            names["log"].close()
        if found[0]:
            return found
    raise AssertionError("the log has no rows")


def named(program: str) -> dict[str, object]:
    """Run a program of the page in this process, whose Spark session it finds; return its names."""
    names: dict[str, object] = {}
    exec(compile(program, "quickstart.md", "exec"), names)  # noqa: S102 - the page is ours
    return names


def test_a_block_whose_command_fails_ends_with_what_was_printed(shell: Shell) -> None:
    """Also where a process in the background goes on, and would hold the output open."""
    with pytest.raises(AssertionError, match="before"):
        shell.run("echo before\nsleep 600 &\nfalse")


def test_three_organisations_share_as_the_tutorial_for_a_consortium_says(
    shell: Shell, tmp_path: Path
) -> None:
    """At most 25 commands: each is run as it stands there, and prints what is shown below it."""
    page = CONSORTIUM.read_text(encoding="utf-8")
    shown = "".join(text for _, text in BLOCK.findall(page))
    commands = re.sub(r"<<'(\w+)'\n.*?^\1$", "", shown, flags=re.M | re.S)
    assert len(re.findall(r"\bmaia ", commands)) <= 25
    printed = [shell.run(text) for _, text in BLOCK.findall(page)]
    told = "".join(printed)
    for line in re.findall(r"^\{.*\}$", page, re.M):
        assert line in told.splitlines()
    berths = [json.loads(line)["berth"] for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    assert berths == list(range(berths[0], berths[0] + 43))
    assert re.search(
        r"^to +desk .*\ntype +Manifest\nof +tower .*\nattributes +(cargo, ship|ship, cargo)$", told, re.M
    )
    assert re.search(r"^subscribed to Manifest of hamburg \(.*\)\nhidden from you: value$", told, re.M)
    printed_one = shell.run("maia subscribe ShipMovement@rotterdam --as desk --count 1 --json 2> json.err")
    event = json.loads(printed_one)
    assert (event["event"].keys(), event["hidden"]) == ({"ship", "berth"}, [])
    refused = shell.run("maia subscribe Manifest --as desk --count 1 --wait 30 2>&1 || true")
    assert "[POLICY-REVOKED]" in refused
