"""Which Python sets up a checkout?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
OURS = os.path.realpath(sys.executable)


class Machine:
    """A checkout whose bootstrap only says by which Python it was started, and Pythons on a path."""

    def __init__(self, folder: Path) -> None:
        """Copy what chooses, and stand in for the work."""
        self.folder = folder
        self.tools = folder / "checkout" / "tools"
        self.tools.mkdir(parents=True)
        for name in ("bootstrap", "which_python.py"):
            shutil.copy(TOOLS / name, self.tools / name)
        (self.tools / "bootstrap.py").write_text("import os; print(os.environ['WHICH'])\n", encoding="utf-8")
        self.path = list[str]()

    def python(self, name: str, flags: str = "", *, prefix: str = "/opt", more: str = "") -> Path:
        """Put a Python on the path, after those that are there."""
        home = self.folder / f"python-{len(self.path)}"
        home.mkdir()
        (home / "sitecustomize.py").write_text(
            f"import sys, sysconfig\nsaid = {{'CONFIG_ARGS': {flags!r}, 'prefix': {prefix!r}}}\n"
            f"sysconfig.get_config_var = said.get\n{more}\n",
            encoding="utf-8",
        )
        script = home / name
        script.write_text(
            f'#!/bin/sh\nWHICH={home.name} PYTHONPATH="{home}" exec "{OURS}" "$@"\n', encoding="utf-8"
        )
        script.chmod(0o755)
        self.path.append(str(home))
        return script

    def chosen(self, **environment: str) -> str:
        """Return the folder of the Python that is chosen, or what is said instead."""
        given = {"PATH": ":".join([*self.path, "/usr/bin", "/bin"]), **environment}
        # The machine's own Pythons are behind: hidden, as they would be as good as any.
        given["PATH"] = given["PATH"].replace(":/usr/bin:/bin", f":{self._basics()}")
        done = subprocess.run(
            [self.tools / "bootstrap"], env=given, capture_output=True, text=True, check=False, timeout=60
        )
        return (done.stdout or done.stderr).strip()

    def _basics(self) -> Path:
        basics = self.folder / "basics"
        basics.mkdir(exist_ok=True)
        for name in ("sh", "dirname", "readlink"):
            if not (basics / name).exists():
                (basics / name).symlink_to(str(shutil.which(name)))
        return basics


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


OPTIMISED = "'--enable-optimizations' '--with-lto'"


def test_the_best_built_python_is_taken_wherever_it_is_on_the_path(machine):
    machine.python("python3")
    machine.python("python3.12", "'--enable-optimizations'")
    machine.python("python3", OPTIMISED)
    machine.python("python3.11", OPTIMISED)
    assert machine.chosen() == "python-2"


def test_the_python_of_a_distribution_counts_as_optimised_though_it_may_not_say_so(machine):
    machine.python("python3", "'--enable-optimizations'")
    machine.python("python3", "'--with-system-expat'", prefix="/usr")
    assert machine.chosen() == "python-1"


def test_among_equals_the_first_on_the_path_is_taken(machine):
    machine.python("python3")
    machine.python("python3.14")
    assert machine.chosen() == "python-0"


def test_one_that_cannot_install_anything_comes_last(machine):
    nothing = "import importlib.util; importlib.util.find_spec = lambda name: None"
    machine.python("python3", OPTIMISED, more=nothing)
    machine.python("python3")
    assert machine.chosen() == "python-1"


def test_one_that_is_too_old_is_passed_over(machine):
    machine.python("python3", OPTIMISED, more="sys.version_info = (3, 10, 4)")
    machine.python("python3.13")
    assert machine.chosen() == "python-1"


def test_what_is_named_is_taken_and_nothing_else(machine):
    machine.python("python3", OPTIMISED)
    named = machine.python("python3.12")
    assert machine.chosen(PYTHON=str(named)) == "python-1"
    assert "needs Python 3.11" in machine.chosen(PYTHON="/nowhere/python3")


def test_an_environment_that_is_there_keeps_its_python(machine):
    first = machine.python("python3")
    (made := machine.folder / "checkout" / ".venv" / "bin").mkdir(parents=True)
    (made / "python").symlink_to(first)
    machine.python("python3", OPTIMISED)
    assert machine.chosen() == "python-0"
    first.unlink()  # as where it was replaced by another version
    assert machine.chosen() == "python-1"
