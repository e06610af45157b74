"""The demonstration would notice if Spark's answer were not the network's, or if the bill held a place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maia.demo.acts import LivePlay, Revocation
from maia.demo.lake import LakeResult, charged_once_a_day, compared_with_live, counted_by_window
from maia.demo.lake_jobs import PLAN, RESULT, TABLE, Work
from support.numberplate import (
    CONTROL_ROOM,
    OFFICES,
    add_control_room,
    city_traffic,
    close_up,
    play,
    tell_numberplate_story,
    trial_sighting,
)
from maia.demo.processes import Recording
from maia.events import Instant

NOON = Instant.parse("2026-11-15T12:00:00Z")
STORY = add_control_room(tell_numberplate_story(b"a fixed seed", now=NOON), b"a fixed seed")
PLAYED = play(STORY, close_up(), now=NOON).and_then(
    play(STORY, city_traffic(300, seed=7), now=NOON, by=CONTROL_ROOM)
)
TRIALS = [trial_sighting(1), trial_sighting(2)]
LIVE = LivePlay(
    PLAYED.received, PLAYED, PLAYED, frozenset({Instant(1), Instant(2)}), "", 0.0, 0.0, None, (), {}
)
READ = {OFFICES[0]: ("numberplate", "timestamp"), OFFICES[1]: ("location", "timestamp")}
MOMENT = pa.timestamp("us", tz="UTC")


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """What Spark writes if all is well."""
    trials = play(STORY, TRIALS, now=NOON).received
    for one, tried in zip(PLAYED.received, trials, strict=True):
        folder = tmp_path / one.office
        folder.mkdir()
        (folder / PLAN).write_text("== Physical Plan ==")
        write_table(folder, [*one.events, *tried.events])
    write_bill(tmp_path, charged_once_a_day(PLAYED.received[0].events))
    counts = counted_by_window(PLAYED.received[1].events)
    columns = {
        "location": [place for place, _ in counts],
        "starts_at": pa.array([start for _, start in counts]).cast(MOMENT),
        "sightings": list(counts.values()),
    }
    pq.write_table(pa.table(columns), tmp_path / OFFICES[1] / RESULT)
    return tmp_path


def write_table(folder: Path, events: list[dict[str, object]]) -> None:
    columns = {name: [event[name] for event in events] for name in ("numberplate", "timestamp", "location")}
    texts = {name: pa.array(columns[name], pa.string()) for name in ("numberplate", "location")}
    moments = pa.array([int(one) for one in columns["timestamp"]]).cast(MOMENT)
    table = pa.table({**texts, "timestamp": moments})
    pq.write_table(table, folder / TABLE, compression="none")


def write_bill(lake: Path, owed: list[tuple[str, object]]) -> None:
    plates, days = zip(*owed, strict=True)
    columns = {"numberplate": plates, "day": days, "charge_pence": [1500] * len(days)}
    pq.write_table(pa.table(columns), lake / OFFICES[0] / RESULT)


def result(
    lake: Path,
    *,
    read: dict[str, tuple[str, ...]] = READ,
    log: bytes = b"sealed",
    live: LivePlay = LIVE,
    refused: str | None = None,
) -> LakeResult:
    works = [Work(office, read.get(office, ()), 0.1) for office in OFFICES[:-1]]
    works.append(Work(OFFICES[-1], (), 0.1, refused))
    recording = Recording(lake, 1, 306, log)
    return compared_with_live(live, works, recording, out=lake, plot=lake / "t.png", no_plot=None)


def claims(lake: Path, **how: object) -> str:
    return "; ".join(result(lake, **how).broken_claims())


def test_nothing_is_said_if_all_is_well(lake: Path) -> None:
    found = result(lake)
    assert list(found.broken_claims()) == []
    assert [one.rows for one in found.offices] == [len(one.events) for one in PLAYED.received]
    assert found.most_seen.sightings > 1
    assert found.bill.pounds == found.bill.charges * 15 > 0
    assert found.traffic.sightings == 306


REVOKED = replace(
    LIVE,
    revocation=Revocation(1.0, 1.0, "POLICY-REVOKED", "", received_before={}, published_before=0),
)


def test_whose_right_was_revoked_must_be_refused_for_that_reason(lake: Path) -> None:
    """A44: a table, or another refusal, is not what a revocation comes to; nor is a refusal without one."""
    table = lake / OFFICES[-1] / TABLE
    assert "whose right was revoked, reads" in claims(lake, live=REVOKED)
    assert "whose right was revoked, reads" in claims(lake, live=REVOKED, refused="POLICY-REVOKED")
    table.unlink()
    assert "refused for another reason: POLICY-NO-CHAIN" in claims(
        lake, live=REVOKED, refused="POLICY-NO-CHAIN"
    )
    assert "the Detective Smith finds 0 sightings" in claims(lake, refused="POLICY-REVOKED")
    assert claims(lake, live=REVOKED, refused="POLICY-REVOKED") == ""


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("change", ["lost", "doubled", "trial lost", "altered"])
def test_a_row_that_was_lost_doubled_or_altered_is_found(lake: Path, number: int, change: str) -> None:
    received = PLAYED.received[number]
    tried = play(STORY, TRIALS, now=NOON).received[number].events
    events = [*received.events, *tried]
    changed = {
        "lost": events[1:],
        "doubled": [*events, events[0]],
        "trial lost": events[:-1],
        "altered": [*events[1:], {**events[0], "timestamp": Instant(int(NOON) + 1)}],
    }
    write_table(lake / received.office, changed[change])
    assert f"the {received.office} finds" in claims(lake)


def test_a_bill_that_charges_twice_or_forgets_a_peer_is_found(lake: Path) -> None:
    owed = sorted(charged_once_a_day(PLAYED.received[0].events))
    most = result(lake).most_seen
    again = next(one for one in owed if one[0] == most.plate and str(one[1]) == most.day)
    write_bill(lake, [*owed, again])
    assert "the bill that Spark made" in claims(lake)
    assert "charged 2 times" in claims(lake)
    write_bill(lake, owed[1:])
    assert "the bill that Spark made" in claims(lake)


def test_wrong_counts_are_found(lake: Path) -> None:
    path = lake / OFFICES[1] / RESULT
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    assert "the traffic that Spark counted" in claims(lake)


def test_a_place_in_the_bill_its_plan_or_the_log_is_found(lake: Path) -> None:
    billing = lake / OFFICES[0]
    assert "Spark read a location" in claims(lake, read=READ | {OFFICES[0]: ("location",)})
    assert "1 places were found in the log" in claims(lake, log=b"\x00Tower Bridge\x00")
    (billing / PLAN).write_text("Filter location = Tower Bridge")
    assert "1 places were found in the billing office" in claims(lake)


def test_a_search_that_finds_nothing_where_places_are_proves_nothing(lake: Path) -> None:
    found = result(lake)
    *hidden, control = found.searches
    assert len(control.found) == control.looked_for == 20
    blind = replace(found, searches=(*hidden, replace(control, found=control.found[1:])))
    assert list(blind.broken_claims()) == [
        "the search for places proves nothing: it did not find them where they are"
    ]
