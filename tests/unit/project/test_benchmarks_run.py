"""Every benchmark works: a smoke run on small inputs answers with rows that programs can read.

A usual run tries the first case of each, without the nine that take longest; `make laws` tries
all cases of all. What every benchmark imports is loaded in either.

Those that need Spark run on the suite's session, because Java takes longer to
start than all of them take; the others run as `make bench ARGS=--quick` runs them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from support.nursery import maia_python
from support.spark import CODE_GENERATION

BENCH = Path(__file__).resolve().parents[3] / "bench"
FILES = {path.name[1:3].lstrip("0"): path for path in sorted(BENCH.glob("b[0-9][0-9]_*.py"))}
IS_THOROUGH = bool(os.environ.get("MAIA_LAWS"))
LONG = () if IS_THOROUGH else ("16", "20", "21", "25", "26", "32", "37", "40", "46")
ON_SPARK = [
    number
    for number, path in FILES.items()
    if number not in LONG and "bench_session" in path.read_text(encoding="utf-8")
]
OTHERS = [number for number in FILES if number not in (*ON_SPARK, *LONG)]
EFFORT = "--quick" if IS_THOROUGH else "--first"

pytestmark = pytest.mark.laws


@pytest.fixture(scope="module")
def smoke_run() -> subprocess.CompletedProcess[str]:
    """Run all that need no Spark one after another in one process; the brokers that they start are copies."""
    code = (
        f"import runpy, sys; sys.executable = {str(maia_python())!r};"
        f"runpy.run_path({str(BENCH)!r}, None, '__main__')"
    )
    command = [sys.executable, "-c", code, EFFORT, "--json", *OTHERS]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def bench(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[str]], int]]:
    """The command, in this process, with a session of its own on the suite's Java."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    import bench_spark
    import open_source

    def session() -> SparkSession:
        made = spark.newSession()
        for name, values in CODE_GENERATION.items():
            made.conf.set(name, values[False])
        return made

    monkeypatch.setattr(bench_spark, "_shared", session)
    cloudpickle.register_pickle_by_value(open_source)  # workers that run already do not look in that folder
    try:
        yield command()
    finally:
        cloudpickle.unregister_pickle_by_value(open_source)
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == BENCH:
                del sys.modules[name]


def command() -> Callable[[list[str]], int]:
    spec = importlib.util.spec_from_file_location("bench_command", BENCH / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def assert_answers(lines: list[str], number: str) -> None:
    """A benchmark has rows, and each says what a reader needs."""
    rows = [row for row in map(json.loads, lines) if row["bench"] == int(number)]
    assert rows
    for row in rows:
        if "not_measured" in row:  # a peer that is not installed is named, and has met nothing
            assert row["not_measured"]
            assert row["met"] is False
            continue
        low, high = row["interval"]
        assert low <= row["ratio"] <= high
        assert isinstance(row["met"], bool)
    assert any("ratio" in row for row in rows), "a benchmark measures something whatever is installed"


def test_a_smoke_run_of_benchmarks_ends_well(smoke_run):
    assert smoke_run.returncode == 0, smoke_run.stderr
    answered = {json.loads(line)["bench"] for line in smoke_run.stdout.splitlines()}
    assert answered == {int(number) for number in OTHERS}


@pytest.mark.parametrize("number", OTHERS)
def test_a_benchmark_answers(smoke_run, number):
    assert_answers(smoke_run.stdout.splitlines(), number)


@pytest.mark.parametrize("number", ON_SPARK)
def test_a_benchmark_on_spark_answers(bench, number, capsys):
    assert bench([EFFORT, "--json", number]) == 0
    answered = capsys.readouterr().out.splitlines()
    assert {json.loads(line)["bench"] for line in answered} == {int(number)}
    assert_answers(answered, number)


def test_growth_is_measured_for_every_subject(bench, capsys):
    assert bench(["growth", "--quick", "--json"]) == 0
    curves = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    subjects = {"subscriptions", "wallets", "key-groups", "brokers", "log-rows", "sealed-log"}
    assert {curve["subject"] for curve in curves} == subjects
    # A small size may be too cheap to be counted, and all of it be in a worker's memory already.
    assert all(curve["points"] for curve in curves)
    assert {curve["subject"] for curve in curves if any(cost > 0 for _, cost in curve["points"])} == subjects
    beyond = {curve["subject"] for curve in curves if curve["extrapolated"]}
    assert beyond == {"log-rows", "sealed-log"}


def test_an_unknown_benchmark_is_answered_with_a_sentence(bench, capsys):
    assert bench(["no-such"]) == 2
    assert capsys.readouterr().err.startswith("no benchmark is called `no-such`")
