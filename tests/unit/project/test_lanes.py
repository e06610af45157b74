"""Lanes part neither the tests of a file nor those of the Spark session, and count all random cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.lanes import SPARK, in_order

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


@pytest.mark.parametrize("text", ["a@b", "@"])
def test_file(worker_id, text):
    pathlib.Path("{name}", worker_id).touch()


@settings(max_examples=7, derandomize=True, database=None)
@given(st.integers())
def test_law(number):
    pass
"""


def test_the_session_comes_first_and_files_with_many_tests_last():
    units = ["many", "few", "many", SPARK, "few", "many", SPARK]
    assert [units[at] for at in in_order(units)] == [SPARK, SPARK, "few", "few", "many", "many", "many"]
    assert in_order(units)[:2] == [3, 6], "within a unit the order stays"


def test_two_lanes_share_one_session_part_no_file_and_add_up_their_cases(tmp_path: Path):
    names = [f"test_{number}" for number in range(6)]
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for name in names:
        (tmp_path / f"{name}.py").write_text(MODULE.replace("{name}", name))
        (tmp_path / name).mkdir()
    (tmp_path / "spark").mkdir()
    lanes = ["-n", "2", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *lanes, str(tmp_path)],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(TESTS),
            "HOME": str(tmp_path),
            "PATH": "/usr/bin:/bin",
            "MAIA_LAWS_AT_LEAST": "42",  # promised of both lanes together
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "48 passed" in done.stdout
    assert "42 random cases" in done.stdout
    lanes_of = {name: {lane.name for lane in (tmp_path / name).iterdir()} for name in ("spark", *names)}
    assert all(len(lanes) == 1 for lanes in lanes_of.values()), lanes_of
    assert set().union(*lanes_of.values()) == {"gw0", "gw1"}
