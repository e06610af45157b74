"""The numberplate story of the dissertation (3.7, 5.2) as `make demo` tells it."""

from __future__ import annotations

import json

import pytest

from maia.cli import main
from maia.events import Instant
from maia.scenarios import tell_numberplate_story
from maia.scenarios.attempts import attempts
from maia.scenarios.numberplate import SUSPECT
from maia.scenarios.performance import play

NOON = Instant.parse("2026-11-15T12:00:00Z")
STORY = tell_numberplate_story(b"a fixed seed", now=NOON)


def test_each_reader_sees_exactly_its_part() -> None:
    sightings = [
        {"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"},
        {"numberplate": "LB02 KRT", "timestamp": NOON, "location": "Victoria"},
    ]
    billing, statistics, detective = play(STORY, sightings, now=NOON).received
    assert billing.events == (
        {"numberplate": SUSPECT, "timestamp": NOON, "location": None},
        {"numberplate": "LB02 KRT", "timestamp": NOON, "location": None},
    )
    assert statistics.events == ({"numberplate": None, "timestamp": NOON, "location": "Victoria"},) * 2
    assert detective.events == ({"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"},)


@pytest.mark.parametrize("claimed", ["Euston", None])
def test_the_camera_publishes_from_victoria_whatever_it_writes(claimed: str | None) -> None:
    played = play(STORY, [{"numberplate": "LB02 KRT", "timestamp": NOON, "location": claimed}], now=NOON)
    assert [event["location"] for event in played.sent] == ["Victoria"]


def test_those_who_try_for_more_are_refused_each_for_its_own_reason() -> None:
    assert [attempt.code for attempt in attempts(STORY, now=NOON)] == [
        "CREDENTIAL-SIGNATURE",
        "CREDENTIAL-NOT-DELEGABLE",
        "POLICY-EXPIRED",
        "POLICY-ATTRIBUTE-NOT-READABLE",
    ]


def test_the_demonstration_ends_well_without_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--rows", "0", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["failed"] == []
    assert all(event["location"] is None for event in record["received"]["billing office"])
