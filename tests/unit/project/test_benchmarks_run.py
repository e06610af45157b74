"""Every benchmark works: a smoke run on small inputs answers each case with a row that programs can read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
NUMBERS = sorted(path.name[1:3].lstrip("0") for path in BENCH.glob("b[0-9][0-9]_*.py"))


@pytest.mark.parametrize("number", NUMBERS)
def test_a_benchmark_answers_every_case(number):
    done = subprocess.run(
        [sys.executable, str(BENCH), number, "--quick", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows
    for row in rows:
        assert row["bench"] == int(number)
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
