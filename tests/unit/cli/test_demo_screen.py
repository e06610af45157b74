"""What a newcomer reads: it fits a narrow terminal, and ends with what can be typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from maia.cli.demo import StoryName
from maia.demo.numberplate import STORY
from maia.demo.playground import commands
from maia.demo.processes import start, stop_all
from maia.demo.report import Showing, after, story_named, typed_command
from maia.testing.refusals import raises


def test_the_first_words_of_the_first_story_fit_a_narrow_terminal() -> None:
    assert all(len(line) <= 80 for line in STORY.before.split("\n"))


def test_spark_is_recommended_to_those_who_have_not_seen_it() -> None:
    assert any("--spark" in line for line in after(STORY, with_spark=False))
    assert not any("--spark" in line for line in after(STORY, with_spark=True))


def test_every_page_that_is_named_at_the_end_is_there() -> None:
    for name in StoryName:
        pages = [one for one in story_named(name.value).next if one.endswith(".md")]
        assert pages
        assert all((Path(__file__).parents[3] / page).is_file() for page in pages)


def test_the_last_words_name_the_command_as_it_was_typed(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "maia"
    script.touch(mode=0o755)
    assert typed_command([".venv/bin/maia", "demo"]) == ".venv/bin/maia"
    assert typed_command(["/src/maia/cli/__main__.py", "demo"]) == "python -m maia.cli"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert typed_command([str(script), "demo"]) == "maia"


def test_columns_are_aligned_and_nothing_is_printed_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["", "received"], ["billing office", 2005], ["Smith", "nothing"]]
    Showing(0.0).table(rows)
    assert capsys.readouterr().out.splitlines() == [
        "                  received", "  billing office  2005", "  Smith           nothing"
    ]  # fmt: skip
    Showing(0.0, quiet=True).table(rows)
    assert capsys.readouterr().out == ""


def test_every_command_of_the_playground_says_what_it_shows() -> None:
    assert all(words.startswith("maia ") and why for words, why in commands("5f0c"))


def test_a_node_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("key = 7\n", encoding="utf-8")
    words = ["broker", "--config", str(tmp_path / "broker.toml")]
    child = start("broker of met", words, tmp_path / "broker.log")
    try:
        with raises(
            "UNAVAILABLE-BROKER-NOT-STARTED", match=r"the broker of met did not start: .*`network` is missing"
        ):
            child.ready()
    finally:
        stop_all([child])
