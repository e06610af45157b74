"""What the author of a Spark job may say, and what is said about mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.spark.source.options import job_options
from maia.testing.refusals import raises


@pytest.fixture
def said(tmp_path: Path) -> dict[str, str]:
    """Options that are all right."""
    key = tmp_path / "billing.key"
    key.write_text("a key", encoding="ascii")
    return {
        "broker": "127.0.0.1:7400, 127.0.0.1:7401",
        "key": str(key),
        "credentials": str(tmp_path),
        "network": "UK Police Network",
        "coordinator": "ed25519:" + 64 * "0",
        "definition": str(tmp_path / "numberplate.type"),
    }


def test_options_are_read_in_whatever_case_spark_has_them(said: dict[str, str]) -> None:
    options = job_options({**said, "maxrowsperbatch": "7", "Order": "a, b"})
    assert options.brokers == ("127.0.0.1:7400", "127.0.0.1:7401")
    assert (options.rows_per_batch, options.order) == (7, ("a", "b"))


@pytest.mark.parametrize("name", ["broker", "key", "credentials", "network", "coordinator", "definition"])
def test_what_is_missing_is_named(said: dict[str, str], name: str) -> None:
    del said[name]
    with raises("INPUT-SPARK-OPTION", match=f"option `{name}` is missing"):
        job_options(said)


def test_a_misspelt_filter_is_no_missing_filter(said: dict[str, str]) -> None:
    with raises("INPUT-SPARK-OPTION", match="there is no option `fliter`; did you mean `filter`"):
        job_options({**said, "fliter": "true"})


def test_a_key_that_was_given_as_an_option_is_not_repeated(said: dict[str, str]) -> None:
    given = "(maia-key (version 1) (seed #00ff00ff#))"
    with raises("INPUT-SPARK-OPTION") as refused:
        job_options({**said, "key": given})
    assert "00ff" not in str(refused.value)
    assert "keys are never options" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("maxRowsPerBatch", "0"),
        ("maxRowsPerBatch", "1e3"),
        ("maxRowsPerBatch", "1000001"),
        ("rows", "-1"),
        ("rows", "٣"),
        ("seconds", "0"),
        ("seconds", "nan"),
        ("seconds", "forever"),
        ("wait", "inf"),
        ("durable", "two words"),
        ("durable", "x" * 129),
        ("failOnDataLoss", "maybe"),
    ],
)
def test_a_word_without_meaning_is_refused(said: dict[str, str], name: str, word: str) -> None:
    with raises("INPUT-SPARK-OPTION", match=f"option `{name}`"):
        job_options({**said, name: word})


def test_a_durable_subscription_lives_at_one_broker(said: dict[str, str]) -> None:
    with raises("INPUT-SPARK-OPTION", match="one broker"):
        job_options({**said, "durable": "billing"})
    assert job_options({**said, "broker": "127.0.0.1:7400", "durable": "billing"}).durable == "billing"


def test_what_spark_adds_is_let_through(said: dict[str, str]) -> None:
    assert job_options({**said, "checkpointlocation": "/somewhere", "path": "x"}).durable is None
