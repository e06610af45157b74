"""A log in a place: joined and forgotten by command or job, whole for readers, and one change at a time."""

from __future__ import annotations

import json

import pytest

from maia.cli import main
from maia.clock import system_now
from maia.events import SECOND, Instant
from maia.log.disk.event_log import EventLog, LogLimits
from maia.log.disk.place_log import LogRaced, PlaceLog
from maia.log.disk.reader import LogView
from maia.log.disk.shipping import PlaceCopy
from maia.log.format.manifest import MissingRun
from maia.log.format.retention import Keep, Retention
from maia.places import Place, place_of
from maia.testing import raises
from support.event_log import NOON, PLATES, carried

LATER = Instant(NOON + 7200 * SECOND)


@pytest.fixture(params=["folder", "object store"])
def place(request, tmp_path):
    return (
        place_of(tmp_path / "place")
        if request.param == "folder"
        else request.getfixturevalue("bucket") / "log"
    )


def ship(folder, place: Place, numbers, *, now=NOON) -> PlaceCopy:
    """Record frames, and roll and ship each one by itself."""
    with EventLog.open(folder) as log:
        copy = PlaceCopy(place, folder)
        for number in numbers:
            log.append([carried(number)], recorded_at=now)
            log.roll(now)
            copy.ship(log, now)
    return copy


def records(place: Place) -> list[int]:
    """The positions of a log, read byte by byte, each as often as it is there."""
    view = LogView(place.address)
    found = view.verify()
    assert found.is_whole, found.problems
    assert found.records == sum(one.frames for one in view.state.segments.values())
    return sorted(p for one in view.state.segments.values() for p in range(one.first, one.last + 1))


def test_small_segments_are_joined_in_one_change_and_go_when_no_reader_needs_them(place, tmp_path):
    ship(tmp_path / "log", place, range(1, 6))
    before = PlaceLog(place)
    assert len(before.state.segments) == 5
    log = PlaceLog(place)
    (made,) = log.compact(NOON)
    assert records(place) == [1, 2, 3, 4, 5]
    assert not before.missing(before.state.segments.values())  # readers of the old manifest still find them
    assert log.clean(NOON) == []
    gone = PlaceLog(place).clean(Instant(system_now() + 2 * 3600 * SECOND))
    assert len([one for one in gone if one.endswith(".parquet")]) == 5
    assert len(before.missing(before.state.segments.values())) == 5
    assert records(place) == [1, 2, 3, 4, 5]
    ship(tmp_path / "log", place, [6])  # and the broker goes on
    assert records(place) == [1, 2, 3, 4, 5, 6]
    assert made.path in PlaceLog(place).state.segments


def test_of_two_changes_to_one_state_one_is_refused(place, tmp_path):
    ship(tmp_path / "log", place, range(1, 4))
    first, second = PlaceLog(place), PlaceLog(place)
    first.compact(NOON)
    with pytest.raises(LogRaced):
        second.retain(Retention(Keep(age_s=0)), LATER)
    assert records(place) == [1, 2, 3]
    # Its number is free again when the manifest that had it is removed.
    PlaceLog(place).clean(Instant(system_now() + 2 * 3600 * SECOND))
    with pytest.raises(LogRaced):
        second.retain(Retention(Keep(age_s=0)), LATER)
    assert records(place) == [1, 2, 3]


def test_what_is_forgotten_in_a_place_is_said_there_and_stays_with_the_broker(place, tmp_path):
    ship(tmp_path / "log", place, range(1, 4))
    PlaceLog(place).retain(Retention(Keep(age_s=60)), LATER)
    log = PlaceLog(place)
    assert (log.state.segments, log.state.forgotten) == ({}, {PLATES: 3})
    ship(tmp_path / "log", place, [4], now=LATER)
    assert records(place) == [4]
    with EventLog.open(tmp_path / "log") as own:
        assert [one.position for one in own.read()] == [1, 2, 3, 4]


def test_what_is_missing_is_said_in_the_place_and_in_the_list_of_the_log(place, tmp_path, capsys):
    """D17: the broker's word is in the manifest, also when nothing else has changed, until it is found."""
    lacks = MissingRun(PLATES, b"p" * 32, b"s" * 16, 3, 9)
    ship(tmp_path / "log", place, [1])
    with EventLog.open(tmp_path / "log") as log:
        copy = PlaceCopy(place, tmp_path / "log")
        log.note_missing([lacks], NOON)
        copy.ship(log, NOON)
        assert PlaceLog(place).state.lacks(PLATES) == 7
        assert main(["log", "list", str(place)]) == 0
        assert "7 frames missing" in capsys.readouterr().out
        log.note_missing([], NOON)
        copy.ship(log, NOON)
    assert PlaceLog(place).state.missing == []


def test_a_manifest_is_fetched_with_one_request_however_long_it_is(place, tmp_path, monkeypatch):
    """Far away, each request is a round trip."""
    ship(tmp_path / "log", place, range(1, 6))
    reads: list[int] = []

    class Counted:
        def __init__(self, file) -> None:
            self._file = file

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None:
            self._file.close()

        def __getattr__(self, name):
            if name.startswith("read"):
                reads.append(1)
            return getattr(self._file, name)

    opened = Place.open
    monkeypatch.setattr(Place, "open", lambda self, path="": Counted(opened(self, path)))
    assert len(PlaceLog(place).state.segments) == 5
    assert len(reads) == 1


def test_a_change_that_took_too_long_is_not_made(place, tmp_path):
    ship(tmp_path / "log", place, range(1, 4))
    log = PlaceLog(place, limits=LogLimits(grace_s=60))
    made = [(group, log.join(group)) for group in log.to_join()]
    with raises("LOG-PLACE-RACED", match="too long"):
        log.replace(made, began=NOON, now=Instant(NOON + 31 * SECOND))
    assert len(PlaceLog(place).state.segments) == 3


def test_a_broker_keeps_what_is_not_safe_in_the_place(tmp_path, place):
    with EventLog.open(tmp_path / "log") as log:
        copy = PlaceCopy(place, tmp_path / "log")
        for number in (1, 2):
            log.append([carried(number)], recorded_at=NOON)
            log.roll(NOON)
        assert log.retain(Retention(Keep(bytes_max=0)), LATER, upto=copy.upto) == []
        assert log.compact(LATER, upto=copy.upto) == []
        copy.ship(log, NOON)
        assert copy.upto == 2
        assert len(log.retain(Retention(Keep(bytes_max=0)), LATER, upto=copy.upto)) == 2
    assert records(place) == [1, 2]


def test_commands_join_forget_and_refuse(bucket, tmp_path, capsys):
    place = bucket / "log"
    ship(tmp_path / "log", place, range(1, 4))

    def run(*words):
        status = main(words)
        return status, *capsys.readouterr()

    status, out, err = run("log", "compact", str(place), "--json")
    assert (status, len(json.loads(out)["joined"])) == (0, 1), err
    assert run("log", "retain", str(place))[0] == 2
    status, out, err = run("log", "retain", str(place), "--days", "1", "--json")
    assert (status, len(json.loads(out)["forgotten"])) == (0, 1), err
    status, _, err = run("log", "compact", str(tmp_path / "log"))
    assert (status != 0, "[LOG-IN-USE]" in err) == (True, True)
    assert "no manifest" in run("log", "compact", str(bucket / "nothing"))[2]


def test_executors_join_what_one_machine_would(spark_in_store, bucket, tmp_path):
    from maia.spark.compaction import compact_log

    ship(tmp_path / "log", bucket / "log", range(1, 5))
    (made,) = compact_log(spark_in_store, bucket / "log")
    assert records(bucket / "log") == [1, 2, 3, 4]
    assert list(PlaceLog(bucket / "log").state.segments) == [made.path]
    assert compact_log(spark_in_store, bucket / "log") == []
