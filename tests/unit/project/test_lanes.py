"""Lanes part no file, start few Spark sessions, and count all random cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.lanes import in_order, next_unit, sessions

TESTS = Path(__file__).resolve().parents[2]

CONFTEST = """
import pytest

pytest_plugins = ["support.random_cases", "support.lanes"]


@pytest.fixture(scope="session")
def spark(worker_id):
    return worker_id
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
def test_file(worker_id, text):
    pathlib.Path("{name}", worker_id).touch()


@settings(max_examples=7, derandomize=True, database=None)
@given(st.integers())
def test_law(number):
    pass
"""


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
    words = ["-n", str(lanes), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *words, str(tmp_path)],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(TESTS),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "MAIA_LAWS_AT_LEAST": "42",  # promised of all lanes together
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 passed" in done.stdout
    assert "42 random cases" in done.stdout
    lanes_of = {place.name: {lane.name for lane in place.iterdir()} for place in tmp_path.glob("*test_*/")}
    assert len(lanes_of) == 12
    assert all(len(found) == 1 for found in lanes_of.values()), lanes_of
    assert set().union(*lanes_of.values()) == {f"gw{number}" for number in range(lanes)}
    assert len(list((tmp_path / "spark").iterdir())) <= sessions(lanes)
