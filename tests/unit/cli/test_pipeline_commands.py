"""`maia pipeline`: what a person or a program gets for what it types."""

from __future__ import annotations

import json
import sys

import pyarrow.parquet as pq
import pytest

from maia.cli import main
from maia.spark.applications import runs as pipeline_runs
from maia.spark.session import session as spark_session


@pytest.fixture
def maia(tmp_path, monkeypatch, capsys):
    """Run commands in a fresh folder; answers with status, output and errors."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        status = main(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.fixture
def on_spark(maia, sparkling):
    """The same, with the suite's session for those that a command would start."""
    status, _, err = maia("pipeline", "generate", "sightings", "city", "--rows", "2000", "--per-day", "1000")
    assert status == 0, err
    return maia


def test_applications_and_generators_are_listed_with_their_terms(maia):
    status, out, _ = maia("pipeline", "list", "--json")
    listed = json.loads(out)
    assert status == 0
    assert [one["name"] for one in listed["generators"]] == [
        "sightings",
        "trades",
        "sensors",
        "prescriptions",
    ]
    billing = listed["applications"][0]
    assert billing["reads"] == {"numberplate": "string", "timestamp": "timestamp"}
    assert billing["terms"]["charge_pence"] == 1500
    assert "location" not in maia("pipeline", "list")[1].split("statistics")[0]


def test_events_are_made_in_a_new_folder(maia, tmp_path):
    status, out, _ = maia("pipeline", "generate", "trades", "exchange", "--rows", "1000", "--json")
    assert (status, json.loads(out)["rows"]) == (0, 1000)
    assert pq.read_table(tmp_path / "exchange").num_rows == 1000
    status, _, err = maia("pipeline", "generate", "trades", "exchange")
    assert status == 2
    assert "already there" in err


def test_a_result_that_is_there_is_refused_before_spark_starts(maia, monkeypatch, tmp_path):
    maia("pipeline", "generate", "sightings", "city", "--rows", "10")
    monkeypatch.setattr(spark_session, "spark_session", lambda *_, **__: pytest.fail("Spark has started"))
    status, _, err = maia("pipeline", "run", "billing", "--from", "city", "--out", "city")
    assert (status, "already there" in err) == (2, True)


def test_a_result_is_kept_drawn_and_added_up(on_spark, tmp_path):
    run = ("pipeline", "run", "billing", "--from", "city", "--out", "charges", "--plot", "charges.png")
    status, out, err = on_spark(*run, "--json")
    assert status == 0, err
    record = json.loads(out)
    rows = pq.read_table(tmp_path / "charges")
    assert (record["charges"], record["events"]) == (rows.num_rows, 2000)
    assert rows.column_names == ["numberplate", "day", "charge_pence"]
    assert (tmp_path / "charges.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "charges.png").stat().st_mode & 0o077 == 0
    status, _, err = on_spark(*run)
    assert status == 2
    assert "[INPUT-PIPELINE-RESULT]" in err


def test_people_see_the_first_rows_and_nothing_is_left_without_out(on_spark, tmp_path):
    before = sorted(tmp_path.iterdir())
    status, out, err = on_spark(
        "pipeline", "run", "statistics", "--from", "city", "--set", "window_minutes=60"
    )
    assert status == 0, err
    assert out.startswith("location ")
    assert "busiest camera" in out
    assert sorted(tmp_path.iterdir()) == before


def test_a_batch_and_a_stream_agree_by_command(on_spark):
    status, out, err = on_spark("pipeline", "verify", "billing", "--from", "city", "--json")
    assert status == 0, err
    record = json.loads(out)
    assert record["holds"]
    assert record["rows"] > 100
    assert record["only_in_batch"] == record["only_in_stream"] == 0


def test_a_stream_that_disagrees_is_found(on_spark, monkeypatch):
    def forgetful(application, terms, source, folder):
        return application.of(source.table(), terms).limit(3)

    monkeypatch.setattr(pipeline_runs, "_streamed", forgetful)
    status, out, _ = on_spark("pipeline", "verify", "statistics", "--from", "city", "--json")
    assert status == 1
    assert json.loads(out)["only_in_batch"] > 0
    assert json.loads(out)["holds"] is False


def test_a_plan_is_explained_without_the_vehicle(on_spark):
    words = ("pipeline", "explain", "tracking", "--from", "city", "--set", "vehicle=AE05 XYZ")
    status, out, err = on_spark(*words)
    assert status == 0, err
    assert "AE05" not in out
    (filtering,) = [line for line in out.splitlines() if line.strip().startswith("Filter:")]
    assert "numberplate" in filtering


def test_a_failed_run_leaves_no_folder(on_spark, tmp_path):
    status, _, err = on_spark("pipeline", "run", "ticker", "--from", "city", "--out", "prices")
    assert status == 2
    assert "needs the column `time`" in err
    assert "`numberplate`, `timestamp`, `location`" in err
    assert [path.name for path in tmp_path.iterdir()] == ["city"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "nothing", "--from", "."), "INPUT-PIPELINE-NAME"),
        (("generate", "nothing", "out"), "INPUT-PIPELINE-NAME"),
        (("run", "billing", "--from", "nowhere"), "INPUT-PIPELINE-SOURCE"),
        (("run", "billing"), "INPUT-PIPELINE-SOURCE"),
        (("run", "billing", "--from", ".", "--log", "."), "INPUT-PIPELINE-SOURCE"),
        (("run", "billing", "--log", "."), "INPUT-PIPELINE-SOURCE"),
        (("run", "billing", "--from", ".", "--set", "charge_pence"), "INPUT-PIPELINE-TERM"),
        (("run", "billing", "--from", ".", "--set", "charge=1"), "INPUT-PIPELINE-TERM"),
        (("run", "billing", "--from", ".", "--plot", "charges.gif"), "INPUT-PLOT"),
        (("run", "billing", "--from", ".", "--plot", "nowhere/charges.png"), "INPUT-PLOT"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(maia, monkeypatch, words, code):
    monkeypatch.setattr(spark_session, "spark_session", None)
    status, _, err = maia("pipeline", *words)
    assert (status, err.rpartition("[")[2]) == (2, f"{code}]\n")


def test_a_folder_without_tables_and_a_file_that_is_none_are_named(on_spark, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "holds no Parquet files" in on_spark("pipeline", "run", "billing", "--from", "empty")[2]
    (tmp_path / "empty" / "odd.parquet").write_bytes(b"odd")
    assert (
        "odd.parquet` is not a Parquet file" in on_spark("pipeline", "run", "billing", "--from", "empty")[2]
    )


def test_without_matplotlib_an_user_says_where_it_is(maia, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, _, err = maia("pipeline", "run", "billing", "--from", ".", "--plot", "charges.svg")
    assert status == 6
    assert "extra `plots`" in err
