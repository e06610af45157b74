"""What a newcomer reads: it fits a narrow terminal, counts what it says, and ends with what can be typed."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from maia.demo.processes import BROKER_FILE, NodeNotStarted, start, stop_all
from maia.demo.program import BEFORE, after, typed_command
from maia.demo.screens import show_summary

RECORD: dict[str, object] = {
    "first_event_s": 1.5,
    "repaired_s": 0.25,
    "deliveries": {"billing office": 2005, "statistics office": 2005, "Detective Smith": 9},
    "lost": [],
    "revocation": {
        "delay_ms": 96.4,
        "suspect_seen_after": 7,
        "delivered_after": 0,
        "billing_after": 1000,
    },
    "carrier": {"events": 1010, "found": ()},
    "attempts": [{"code": "POLICY-REVOKED"}, {"code": None}],
    "spark_result_s": 15.0,
    "lake_result_s": 19.25,
    "lake": {"searches": [{"found": ()}, {"found": ()}, {"found": ("Aldgate", "Victoria")}]},
}


def shown(record: dict[str, object]) -> str:
    screen = Console(file=io.StringIO(), width=80)
    show_summary(screen, record)
    text = screen.file.getvalue()
    assert all(len(line) <= 80 for line in text.split("\n"))
    assert not [one for one in text if one < " " and one != "\n"]
    return text


def test_the_summary_counts_and_says_what_the_revocation_did() -> None:
    text = shown(RECORD)
    lines = {" ".join(line.split()) for line in text.split("\n")}
    assert "court order revoked; the detective's stream ended after 96 ms" in lines
    assert "her suspect's car seen since then 7" in lines
    assert "of these shown to her 0" in lines
    assert "sealed events that passed the broker without rights 1,010" in lines
    assert "sightings delivered, and compared with the kernel 4,019" in lines
    assert "places in what Spark made for billing, and for statistics 0, 2" in lines


def test_an_attempt_that_succeeded_is_not_counted_as_refused() -> None:
    assert "attempts to get more, and how many were refused 2, 1" in " ".join(shown(RECORD).split())


def test_without_spark_the_summary_says_nothing_about_it() -> None:
    assert "Spark" not in shown(RECORD | {"spark_result_s": None, "lake_result_s": None, "lake": None})


@pytest.mark.parametrize("command", ["maia", ".venv/bin/maia"])
def test_the_first_and_the_last_words_fit_a_narrow_terminal(command: str) -> None:
    for line in (*BEFORE.split("\n"), *after(command, with_spark=False)):
        assert len(line) <= 80


def test_spark_is_recommended_to_those_who_have_not_seen_it() -> None:
    assert any("--spark" in line for line in after("maia", with_spark=False))
    assert not any("--spark" in line for line in after("maia", with_spark=True))


def test_every_page_that_is_named_at_the_end_is_there() -> None:
    pages = [
        word for line in after("maia", with_spark=False) for word in line.split() if word.endswith(".md")
    ]
    assert len(pages) == 2
    assert all((Path(__file__).parents[3] / page).is_file() for page in pages)


def test_the_last_words_name_the_command_as_it_was_typed(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "maia"
    script.touch(mode=0o755)
    assert typed_command([".venv/bin/maia", "demo"]) == ".venv/bin/maia"
    assert typed_command(["/src/maia/cli/__main__.py", "demo"]) == "python -m maia.cli"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed_command([str(script), "demo"]) == "maia"


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / BROKER_FILE).write_text("key = 7\n", encoding="utf-8")
    starting = start("Met broker", tmp_path)
    try:
        with pytest.raises(NodeNotStarted, match=r"the Met broker did not start: .*`network` is missing"):
            starting.address()
    finally:
        stop_all([starting.process])
