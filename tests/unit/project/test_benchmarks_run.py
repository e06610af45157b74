"""Every benchmark works: a smoke run on small inputs answers each case with a row that programs can read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
NUMBERS = sorted(path.name[1:3].lstrip("0") for path in BENCH.glob("b[0-9][0-9]_*.py"))


@pytest.fixture(scope="module")
def smoke_run() -> subprocess.CompletedProcess[str]:
    """Run all of them one after another in one process, as `make bench ARGS=--quick` does."""
    command = [sys.executable, str(BENCH), "--quick", "--json"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_smoke_run_of_all_benchmarks_ends_well(smoke_run):
    assert smoke_run.returncode == 0, smoke_run.stderr
    answered = {json.loads(line)["bench"] for line in smoke_run.stdout.splitlines()}
    assert answered == {int(number) for number in NUMBERS}


@pytest.mark.parametrize("number", NUMBERS)
def test_a_benchmark_answers_every_case(smoke_run, number):
    answers = [json.loads(line) for line in smoke_run.stdout.splitlines()]
    rows = [row for row in answers if row["bench"] == int(number)]
    assert rows, smoke_run.stderr
    for row in rows:
        if "not_measured" in row:  # a peer that is not installed is named, and has met nothing
            assert row["not_measured"]
            assert row["met"] is False
            continue
        low, high = row["interval"]
        assert low <= row["ratio"] <= high
        assert isinstance(row["met"], bool)
    assert any("ratio" in row for row in rows), "a benchmark measures something whatever is installed"


def test_an_unknown_benchmark_is_answered_with_a_sentence():
    done = subprocess.run(
        [sys.executable, str(BENCH), "no-such"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("no benchmark is called `no-such`")
