"""Publish and subscribe by topic, through two brokers: docs/topics.md, command by command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Follow the page from its first command to its last."""
    folder = tmp_path_factory.mktemp("page")
    return folder / "topics", follow("topics.md", folder, ports=[7421, 7422])


def test_every_command_works_and_a_reader_gets_the_topics_of_its_certificate(
    followed: tuple[Path, str],
) -> None:
    folder, printed = followed
    assert THE_END in printed, printed[-4000:] + (folder / "south.log").read_text()[-2000:]
    seen = [json.loads(line) for line in (folder / "seen.jsonl").read_text().splitlines()]
    assert {(one["topic"], one["headline"]) for one in seen} == {
        ("/news/uk/sport", "rain stopped play"),
        ("/news/fr/sport/cycling", "le tour"),
    }
    topic, _, headline = (folder / "program.txt").read_text().strip().partition(" ")
    assert (topic, headline) in {
        ("/news/uk/sport", "rain stopped play"),
        ("/news/fr/sport/cycling", "le tour"),
    }


def test_what_the_page_calls_refused_is_refused_with_its_reason(followed: tuple[Path, str]) -> None:
    _, printed = followed
    assert printed.count("refused, as it should be") == 3
    assert "reserved, as it should be" in printed
    assert "another tree, another declaration" in printed
    assert '{"published": 2}' in printed
    assert "INPUT-TOPICS" in printed
