"""Lanes part no file, start few Spark sessions, and count all random cases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.lanes import in_order, next_unit, sessions

TESTS = Path(__file__).resolve().parents[2]

CONFTEST = """
import os

import pytest

pytest_plugins = ["support.random_cases", "support.lanes"]


@pytest.fixture(scope="session")
def lane():
    return str(os.getpid())


@pytest.fixture(scope="session")
def spark(lane):
    return lane
"""

MODULE = """
import pathlib

import pytest
from hypothesis import given, settings, strategies as st


@pytest.mark.parametrize("number", range(5))
def test_session(spark, number):
    pathlib.Path("spark", spark).touch()
    pathlib.Path("spark-{name}", spark).touch()


@pytest.mark.parametrize("text", ["a@b", "@"])
def test_file(lane, text):
    pathlib.Path("{name}", lane).touch()


@settings(max_examples=7, derandomize=True, database=None)
@given(st.integers())
def test_law(number):
    pass
"""


CRASHING = """
import os

import pytest


@pytest.mark.parametrize("number", range(6))
def test_goes_on(number):
    if number == 2:
        os._exit(7)


@pytest.fixture(scope="session")
def ends_badly():
    yield
    raise ValueError("it did not end well")


def test_fails(ends_badly):
    print("printed before it failed")
    assert not "so"
"""


def lanes_run(folder: Path, lanes: int, **further: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "--lanes", str(lanes), "-p", "no:cacheprovider", folder]
    environment = {"PYTHONPATH": str(TESTS), "HOME": str(folder), "PATH": "/usr/bin:/bin", **further}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_what_needs_a_session_comes_first_and_files_with_many_tests_last():
    units = ["many", "few", "many", "spark many", "few", "many", "spark few", "spark many"]
    places = in_order(units, functions=[str(at) for at in range(len(units))])
    in_turn = [units[at] for at in places]
    assert in_turn == ["spark few", "spark many", "spark many", "few", "few", "many", "many", "many"]
    assert places[1:3] == [3, 7], "within a unit the order stays"
    mixed = ["tests/unit/few", "tests/attacks/many", "tests/attacks/many"]
    assert in_order(mixed, functions=["a", "b", "c"]) == [1, 2, 0]


def test_a_file_that_asks_about_many_things_in_one_function_is_a_file_with_few_tests():
    units = ["two tests", "two tests", *["one test"] * 9]
    assert in_order(units, functions=["a", "b", *["c"] * 9]) == [*range(2, 11), 0, 1]


def test_a_quarter_of_the_lanes_take_what_needs_a_session_and_the_others_never_do():
    assert [sessions(lanes) for lanes in (1, 2, 4, 8)] == [1, 1, 1, 2]
    waiting = ["spark one", "spark two", "other"]
    assert next_unit(waiting, may_have_session=True) == "spark one"
    assert next_unit(waiting, may_have_session=False) == "other"
    assert next_unit(waiting[:2], may_have_session=False) is None


def test_lanes_start_few_sessions_part_no_file_and_add_up_their_cases(tmp_path: Path):
    lanes = 4
    names = [f"test_{number}" for number in range(6)]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in names:
        (tmp_path / f"{name}.py").write_text(MODULE.replace("{name}", name))
        (tmp_path / name).mkdir()
        (tmp_path / f"spark-{name}").mkdir()
    (tmp_path / "spark").mkdir()
    done = lanes_run(tmp_path, lanes, MAIA_LAWS_AT_LEAST="42")  # promised of all lanes together
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 passed" in done.stdout
    assert "42 random cases" in done.stdout
    lanes_of = {place.name: {lane.name for lane in place.iterdir()} for place in tmp_path.glob("*test_*/")}
    assert len(lanes_of) == 12
    assert all(len(found) == 1 for found in lanes_of.values()), lanes_of
    # A lane that starts late on a busy machine may find nothing left to do.
    assert 2 <= len(set().union(*lanes_of.values())) <= lanes
    assert len(list((tmp_path / "spark").iterdir())) <= sessions(lanes)


def test_a_lane_that_crashes_costs_one_test_and_what_fails_at_its_end_fails_the_run(tmp_path: Path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_crash.py").write_text(CRASHING)
    done = lanes_run(tmp_path, 2)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "5 passed" in done.stdout, done.stdout + done.stderr
    # Whichever lane asked first has the file.
    crash = r"test_crash\.py::test_goes_on\[2\] - lane [01] has crashed with status 7"
    assert re.search(crash, done.stdout), done.stdout + done.stderr
    assert "it did not end well" in done.stdout
    assert "3 failed" in done.stdout, "the crash, an end that fails, and a plain failure with what it printed"
    assert "printed before it failed" in done.stdout
