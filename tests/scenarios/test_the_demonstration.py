"""The numberplate story of the dissertation (3.7, 5.2) as `make demo` tells it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from maia.events import Instant
from maia.scenarios import tell_numberplate_story
from maia.scenarios.attempts import Attempt, attempts
from maia.scenarios.live import LivePlay
from maia.scenarios.numberplate import SUSPECT
from maia.scenarios.performance import OFFICES, Received, play

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


@pytest.fixture(scope="module")
def demonstrated() -> dict[str, object]:
    """Run the demonstration over real processes, without Spark."""
    command = [sys.executable, "-m", "maia.cli", "demo", "--rows", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_the_network_delivers_what_the_kernel_says_although_a_broker_is_killed(demonstrated) -> None:
    assert demonstrated["killed"] == "PITO broker"
    assert (demonstrated["failed"], demonstrated["lost"]) == ([], [])
    received = demonstrated["received"]
    assert [len(received[office]) for office in OFFICES] == [5, 5, 2]
    assert all(event["location"] is None for event in received["billing office"])
    assert all(event["numberplate"] is None for event in received["statistics office"])
    assert all(event["location"] == "Victoria" for event in received["Detective Smith"])


def test_a_probing_filter_is_refused_by_a_broker_too(demonstrated) -> None:
    assert demonstrated["attempts"][-1]["code"] == "POLICY-ATTRIBUTE-NOT-READABLE"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_network_that_is_kept_ends_with_all_of_its_processes(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "maia.cli", "demo", "--keep"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        try:
            processes = _brokers_that_keep_running(demo)
            demo.send_signal(number)
            assert demo.wait(60) == 130
        finally:
            demo.kill()
    assert len(processes) == 3
    assert not [pid for pid in processes if _is_there(pid)]


def _brokers_that_keep_running(demo: subprocess.Popen[str]) -> list[int]:
    processes: list[int] = []
    for line in demo.stdout or ():
        found = re.search(r"process (\d+)", line)
        if found:
            processes.append(int(found[1]))
        if "keeps running" in line:
            break
    return processes


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_difference_between_network_and_kernel_is_a_failure() -> None:
    """What the demonstration claims is computed: it would notice a lost, a doubled or a wider delivery."""
    expected = play(STORY, [{"numberplate": SUSPECT, "timestamp": NOON, "location": "Victoria"}], now=NOON)
    billing, statistics, detective = expected.received
    refused = Attempt("a probe", "POLICY", "")

    def claimed(received: tuple[Received, ...]) -> LivePlay:
        return LivePlay(received, expected, "PITO broker", 0.1, 0.1, None, refused)

    assert claimed(expected.received).differences() == []
    lost = claimed((billing, statistics, Received("Detective Smith", ())))
    assert (len(lost.differences()), lost.lost()) == (1, ["Detective Smith"])
    doubled = claimed((Received("billing office", billing.events * 2), statistics, detective))
    assert (len(doubled.differences()), doubled.lost()) == (1, [])
    wider = claimed((Received("billing office", detective.events), statistics, detective))
    assert len(wider.differences()) == 1
