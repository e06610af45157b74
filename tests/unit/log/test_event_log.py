"""The event log keeps what it is given, finds it again, and forgets it when it is told to."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from maia.cli import main
from maia.events import Instant
from maia.log import Keep, LogDamaged, Retention, column_name, message_of
from maia.log.disk.event_log import EventLog, LogLimits
from maia.log.disk.reader import LogView
from maia.log.format.names import day_of
from maia.testing.refusals import raises
from support.event_log import DAY_US, NOISE, NOON, PLATES, PowerDisk, carried, opened, sealed


@pytest.fixture
def log(tmp_path):
    with closing(EventLog.open(tmp_path / "log", limits=LogLimits(grace_s=10))) as found:
        yield found


def messages_of(records):
    return [one.message for one in records]


FRAMES = [carried(n, type_id=PLATES if n % 3 else NOISE, day=n % 2) for n in range(1, 40)]


def test_what_was_appended_is_read_across_journals_and_segments(log):
    assert log.append(FRAMES[:10], recorded_at=NOON) == range(1, 11)
    log.roll(NOON)
    log.append(FRAMES[10:20], recorded_at=NOON)
    log.roll(NOON)
    log.append(FRAMES[20:], recorded_at=NOON)
    assert messages_of(log.read()) == FRAMES
    for start in (1, 5, 10, 11, 20, 21, 39, 40, 1000):
        assert messages_of(log.read(start)) == FRAMES[start - 1 :]
    assert messages_of(log.read(type_ids=[NOISE])) == FRAMES[2::3]
    assert messages_of(log.read(8, type_ids=[NOISE])) == FRAMES[8::3]
    assert messages_of(log.read(type_ids=[])) == []


def test_a_reader_goes_on_while_its_files_are_rolled_and_joined(log):
    log.append(FRAMES[:10], recorded_at=NOON)
    log.append(FRAMES[10:], recorded_at=NOON)
    reading = log.read()
    found = [next(reading).message for _ in range(3)]
    log.roll(NOON)
    log.compact(NOON)
    assert found + messages_of(reading) == FRAMES


def test_a_roll_while_a_process_appends_loses_nothing(log):
    done = threading.Event()

    def roll_on() -> None:
        while not done.is_set():
            log.roll(NOON)

    rolling = threading.Thread(target=roll_on)
    rolling.start()
    for frame in FRAMES:
        log.append([frame], recorded_at=NOON)
    done.set()
    rolling.join()
    assert messages_of(log.read()) == FRAMES


def test_a_roll_by_parts_is_a_roll(tmp_path):
    limits = LogLimits(journal_bytes=1000, segment_bytes=2000, rolled_at_once_bytes=2500)
    with EventLog.open(tmp_path, limits=limits) as log:
        for frame in FRAMES:
            log.append([frame], recorded_at=NOON)
        assert len(log.roll(NOON)) > 4
        assert messages_of(log.read()) == FRAMES
    with EventLog.open(tmp_path) as log:
        assert messages_of(log.read()) == FRAMES
        assert len(log.compact(NOON)) == 4
        assert messages_of(log.read()) == FRAMES
        assert log.roll(NOON) == []
        assert log.compact(NOON) == []


def test_segments_lie_by_type_and_day_of_publication(log):
    log.append(FRAMES, recorded_at=NOON)
    log.roll(NOON)
    paths = log.segments(NOISE)
    assert [path.parent.parent.name for path in paths] == [f"type={NOISE.hex()}"] * 2
    assert {path.parent.name for path in paths} == {f"day={day_of(NOON)}", f"day={day_of(NOON + DAY_US)}"}
    tomorrow = log.segments(NOISE, since=Instant(NOON + DAY_US))
    assert [path.parent.name for path in tomorrow] == [f"day={day_of(NOON + DAY_US)}"]
    assert log.segments(NOISE, until=Instant(NOON - 1)) == []


def test_a_segment_is_a_parquet_file_like_any_other(log):
    frames = [carried(1), sealed(2), sealed(3, level=1)]
    log.append(frames, recorded_at=NOON)
    log.roll(NOON)
    (path,) = log.segments(PLATES)
    table = pq.read_table(path, partitioning=None)
    assert table.column("level").to_pylist() == [0, 2, 1]
    assert table.column("epoch").to_pylist() == [None, 7, 7]
    assert table.column("sequence").to_pylist() == [1, 2, 3]
    assert table.column("rows").to_pylist() == [3, 256, 256]
    assert table.column("kept").to_pylist() == [[], [1, 5, 300], [1, 5, 300]]
    assert {"3265", "77", "uid_level", "sealed"} <= set(table.column_names)
    rows = table.to_pylist()
    assert [message_of(row["header"], row) for row in rows] == frames


def test_an_attribute_never_takes_the_column_of_something_else():
    assert column_name("3265") == "3265"
    assert column_name("") == "sealed"
    assert [column_name(uid) for uid in ("level", "day", "type")] == ["uid_level", "uid_day", "uid_type"]


def test_joined_segments_stay_for_those_who_found_them_before(log):
    log.append(FRAMES[:6], recorded_at=NOON)
    log.roll(NOON)
    log.append(FRAMES[6:12], recorded_at=NOON)
    log.roll(NOON)
    before = log.segments(PLATES)
    log.compact(NOON)
    assert len(log.segments(PLATES)) < len(before)
    assert all(path.exists() for path in before)
    log.roll(Instant(NOON + 9_000_000))
    assert all(path.exists() for path in before)
    log.roll(Instant(NOON + 10_000_000))
    assert not any(path.exists() for path in before)
    assert messages_of(log.read()) == FRAMES[:12]


def test_retention_by_age_forgets_what_was_recorded_long_ago(log):
    log.append(FRAMES[:6], recorded_at=NOON)
    log.roll(NOON)
    later = Instant(NOON + DAY_US)
    log.append(FRAMES[6:12], recorded_at=later)
    log.roll(later)
    paths = log.segments(PLATES)
    assert log.retain(Retention(Keep(age_s=86_400)), later) == []
    gone = log.retain(Retention(Keep(age_s=86_399)), later)
    assert {one.last for one in gone} <= set(range(1, 7))
    assert messages_of(log.read()) == FRAMES[6:12]
    assert log.removed_upto(PLATES) == 5
    assert log.removed_upto(NOISE) == 6
    assert log.removed_upto(b"x" * 32) == 0
    assert sum(path.exists() for path in paths) == len(log.segments(PLATES))


def test_retention_by_size_forgets_the_oldest_of_each_type(log):
    for start in range(0, 12, 3):
        log.append(FRAMES[start : start + 3], recorded_at=NOON)
        log.roll(NOON)
    size = sum(path.stat().st_size for path in log.segments(NOISE))
    policy = Retention(by_type={NOISE: Keep(bytes_max=size - 1)})
    (gone,) = log.retain(policy, NOON)
    assert gone.type_id == NOISE
    assert gone.first == 3
    assert messages_of(log.read(type_ids=[PLATES])) == [f for f in FRAMES[:12] if f not in FRAMES[2::3]]


def test_what_was_forgotten_stays_forgotten(tmp_path):
    with EventLog.open(tmp_path) as log:
        log.append(FRAMES[:6], recorded_at=NOON)
        log.roll(NOON)
        log.retain(Retention(Keep(bytes_max=0)), NOON)
    with EventLog.open(tmp_path) as log:
        assert list(log.read()) == []
        assert log.append(FRAMES[6:7], recorded_at=NOON) == range(7, 8)
        assert log.removed_upto(PLATES) == 5


@pytest.mark.parametrize("keep", [{"age_s": -1}, {"bytes_max": -1}, {"age_s": float("nan")}])
def test_a_retention_keeps_no_less_than_nothing(keep):
    with raises("LOG-RETENTION"):
        Keep(**keep)


def test_a_manifest_that_has_grown_long_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("maia.log.disk.rollover.CHANGES_MAX", 3)
    with EventLog.open(tmp_path) as log:
        for frame in FRAMES[:12]:
            log.append([frame], recorded_at=NOON)
            log.roll(NOON)
    assert len(list(tmp_path.glob("manifest-*.log"))) == 1
    assert not (tmp_path / f"manifest-{1:020d}.log").exists()
    with EventLog.open(tmp_path) as log:
        assert messages_of(log.read()) == FRAMES[:12]
        assert log.verify().is_whole


def test_files_of_others_are_left_alone(tmp_path):
    strange = tmp_path / f"type={PLATES.hex()}" / "day=2026-11-15" / "notes.txt"
    with EventLog.open(tmp_path) as log:
        log.append(FRAMES[:1], recorded_at=NOON)
        log.roll(NOON)
    strange.parent.mkdir(exist_ok=True, parents=True)
    strange.write_text("mine")
    EventLog.open(tmp_path).close()
    assert strange.read_text() == "mine"
    assert [one.what for one in LogView(tmp_path).verify().notes] == ["this file is not part of the log"]


def test_too_much_at_once_is_refused_as_a_whole():
    with opened(PowerDisk(), limits=LogLimits(batch_bytes=300)) as log:
        with raises("LOG-NOT-A-FRAME"):
            log.append([carried(1), carried(2)], recorded_at=NOON)
        assert log.append([], recorded_at=NOON) == range(1, 1)
        assert log.append([carried(1)], recorded_at=NOON) == range(1, 2)


# ------------------------------------------------------------ the command


def test_the_command_lists_rolls_and_verifies(tmp_path, capsys):
    with EventLog.open(tmp_path) as log:
        log.append(FRAMES, recorded_at=NOON)
    assert main(["log", "list", str(tmp_path)]) == 0
    assert "records 1 to 39" in capsys.readouterr().out
    assert main(["log", "roll", str(tmp_path), "--compact"]) == 0
    assert "39 frames into 4 segments" in capsys.readouterr().out
    assert main(["log", "list", str(tmp_path), "--json"]) == 0
    assert '"events": 39' in capsys.readouterr().out
    assert main(["log", "verify", str(tmp_path)]) == 0
    assert "everything is as it was written" in capsys.readouterr().out


def test_the_command_lists_the_logs_of_several_brokers(tmp_path, capsys):
    for broker in ("north", "south"):
        with EventLog.open(tmp_path / broker) as log:
            log.append(FRAMES, recorded_at=NOON)
    assert main(["log", "list", f"{tmp_path}/*"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("log ")]
    assert [Path(line).name for line in listed] == ["north", "south"]
    assert main(["log", "list", f"{tmp_path}/*", "--json"]) == 0
    assert [Path(one["folder"]).name for one in json.loads(capsys.readouterr().out)["logs"]] == [
        "north",
        "south",
    ]


def test_the_command_names_the_place_of_damage(tmp_path, capsys):
    with EventLog.open(tmp_path) as log:
        log.append(FRAMES, recorded_at=NOON)
        log.roll(NOON)
        log.append(FRAMES[:3], recorded_at=NOON)
    segment = next(tmp_path.glob("type=*/*/*.parquet"))
    journal = next(tmp_path.glob("journal-*"))
    for path in (segment, journal):
        data = bytearray(path.read_bytes())
        data[-20] ^= 1
        path.write_bytes(data)
    assert main(["log", "verify", str(tmp_path), "--json"]) == 1
    shown = capsys.readouterr().out
    assert segment.name in shown
    assert journal.name in shown
    with pytest.raises(LogDamaged):
        LogView(tmp_path).segments(bytes.fromhex(segment.parent.parent.name.removeprefix("type=")))


def test_a_folder_that_is_no_log_stays_as_it_is(tmp_path, capsys):
    for command in ("verify", "list", "roll"):
        assert main(["log", command, str(tmp_path)]) == 2
        assert "is no event log: it has no manifest" in capsys.readouterr().err
        assert main(["log", command, str(tmp_path / "nowhere")]) == 2
    assert list(tmp_path.iterdir()) == []
