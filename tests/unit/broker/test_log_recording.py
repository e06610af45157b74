"""How frames get to the disk together, and what happens when the disk refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from math import log as log_of
from pathlib import Path

import pytest

from maia.broker.server import log_recording
from maia.broker.server.log_recording import LogRecorder, RecorderLimits
from maia.clock import system_now
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.log.disk.event_log import EventLog, LogLimits, LogReadings
from maia.log.disk.rollover import give_memory_back
from maia.log.format.errors import LogDiskFull
from maia.log.format.retention import GROWTH
from maia.testing import in_a_loop, until
from maia.wire.codec import encode
from maia.wire.effects import Input, LogRead, ReadLog, Record, Recorded
from maia.wire.messages import Carried, Column
from support.event_log import PowerDisk, draws, opened

TYPES = (bytes(32), bytes([1]) * 32)


class Records:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, event: str, fields: Mapping[str, object]) -> None:
        self.notes.append(event)

    def count(self, name: str, amount: int, labels: Mapping[str, str]) -> None:
        pass


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EventLog]:
    with EventLog.open(tmp_path / "log") as log:
        yield log


def frame(sequence: int, type_id: bytes = TYPES[0]) -> bytes:
    columns = [Column("f1", 1, b"\x00")]
    return encode(Carried(type_id, bytes(32), bytes(16), sequence, int(system_now()), 1, [], columns))


class Run:
    """A recorder at work, and what it said."""

    def __init__(self, log: EventLog, clock: Callable[[], Instant] = system_now, **limits: float) -> None:
        self.records = Records()
        self.recorder = LogRecorder(log, clock=clock, records=self.records, limits=RecorderLimits(**limits))
        self.inputs: list[Input] = []
        self.problems: list[MaiaError] = []
        self.looks = 0

    def look(self) -> None:
        self.looks += 1

    def upto(self) -> int:
        return max((one.upto for one in self.inputs if isinstance(one, Recorded)), default=0)

    def found(self) -> list[LogRead]:
        return [one for one in self.inputs if isinstance(one, LogRead)]

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(
            self.recorder.run(give=self.inputs.append, fail=self.problems.append, after_writing=self.look)
        )
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@in_a_loop
async def test_frames_of_a_turn_are_made_safe_together(log: EventLog):
    async with Run(log).running() as run:
        for position in range(1, 51):
            run.recorder.record(Record(position, frame(position)))
        await run.recorder.flush()
        await until(lambda: run.upto() == 50, "what the recorder does")
    assert len([one for one in run.inputs if isinstance(one, Recorded)]) == 1
    assert [one.position for one in log.read()] == list(range(1, 51))


@in_a_loop
async def test_a_disk_that_fails_stops_recording_alone_until_it_takes_something_again():
    """Nothing is called safe that is not, the broker goes on, and nothing is lost or doubled."""
    log = opened(disk := PowerDisk())
    frames = [frame(number) for number in range(4)]
    async with Run(log, try_again_s=0.01, roll_s=0.01).running() as run:
        run.recorder.record(Record(1, frames[0]))
        await until(lambda: run.upto() == 1, "recorded")
        disk.fails_to_sync = disk.fails_to_cut = True
        for position in (2, 3):
            run.recorder.record(Record(position, frames[position - 1]))
        await until(lambda: "log-failed" in run.records.notes, "what the recorder says")
        assert run.recorder.status()["problem"]
        assert run.upto() == 1
        disk.fails_to_sync = disk.fails_to_cut = False
        run.recorder.record(Record(4, frames[3]))
        await until(lambda: run.upto() == 4, "recorded again")
        await until(lambda: log.rolled().rolled_upto == 4, "rolled")
    assert run.records.notes.count("log-goes-on") == 1
    assert run.recorder.status()["problem"] == ""
    assert run.problems == []
    assert [one.message for one in log.read()] == frames
    log.close()
    with opened(disk.after_power_cut(draws(1))) as again:
        assert [one.message for one in again.read()] == frames


@in_a_loop
async def test_a_full_disk_is_waited_for(log: EventLog, monkeypatch: pytest.MonkeyPatch):
    append, refusals = log.append, [1, 2]

    def full(*args: object, **named: object) -> range:
        if refusals:
            refusals.pop()
            raise LogDiskFull("no room")
        return append(*args, **named)

    monkeypatch.setattr(log, "append", full)
    async with Run(log, try_again_s=0.01).running() as run:
        run.recorder.record(Record(1, frame(1)))
        await run.recorder.flush()
        await until(lambda: run.upto() == 1, "what the recorder does")
    assert run.records.notes == ["log-full", "log-goes-on"]
    assert run.inputs == [Recorded(0, "no room"), Recorded(1)]
    assert run.problems == []


@in_a_loop
async def test_a_frame_at_another_position_than_the_next_is_not_written(log: EventLog):
    async with Run(log).running() as run:
        run.recorder.record(Record(7, frame(1)))
        await until(lambda: bool(run.problems), "what the recorder does")
    assert log.next_position == 1


@in_a_loop
async def test_links_are_not_read_while_too_much_waits(log: EventLog):
    run = Run(log, waiting_bytes=100)
    run.recorder.record(Record(1, frame(1)))
    assert run.recorder.is_full
    async with run.running():
        await until(lambda: not run.recorder.is_full, "what the recorder does")
        await until(lambda: run.looks == 1, "what the recorder does")


@in_a_loop
async def test_reading_is_bounded_and_by_type(log: EventLog):
    log.append([frame(number, TYPES[number % 2]) for number in range(10)], recorded_at=system_now())
    async with Run(log).running() as run:
        run.recorder.read(ReadLog(1, TYPES[1], 1, 10, 3, 1 << 20))
        run.recorder.read(ReadLog(2, TYPES[1], 7, 8, 9, 1 << 20))
        run.recorder.read(ReadLog(3, TYPES[1], 1, 10, 9, 1))
        await until(lambda: len(run.found()) == 3, "what the recorder does")
    some, within, short = run.found()
    assert ([one.position for one in some.frames], some.upto) == ([2, 4, 6], 6)
    assert ([one.position for one in within.frames], within.upto) == ([8], 8)
    assert ([one.position for one in short.frames], short.upto) == ([2], 2)


@in_a_loop
async def test_the_log_is_rolled_while_it_is_written_and_read(log: EventLog):
    async with Run(log, roll_s=0.01).running() as run:
        for position in range(1, 21):
            run.recorder.record(Record(position, frame(position)))
            await asyncio.sleep(0.005)
        await run.recorder.flush()
        await until(lambda: "log-rolled" in run.records.notes, "what the recorder does")
        run.recorder.read(ReadLog(1, TYPES[0], 1, 20, 100, 1 << 20))
        await until(lambda: bool(run.found()), "what the recorder does")
    assert [one.position for one in run.found()[0].frames] == list(range(1, 21))
    assert log.segments(TYPES[0])


@in_a_loop
async def test_what_a_roll_has_taken_is_given_back_to_the_system(
    log: EventLog, monkeypatch: pytest.MonkeyPatch
):
    """L8: after 1.2 million events a broker kept 0.7 GB for as long as it ran, and 0.2 GB since."""
    given_back: list[int] = []

    def note() -> None:
        given_back.append(log.rolled().rolled_upto)
        give_memory_back()

    monkeypatch.setattr(log_recording, "give_memory_back", note)
    async with Run(log, roll_s=0.01).running() as run:
        run.recorder.record(Record(1, frame(1)))
        await run.recorder.flush()
        await until(lambda: given_back == [1], "given back")


@in_a_loop
async def test_many_rolls_write_an_event_a_few_times_and_not_at_each_roll():
    """What was joined stays for an hour: the disk held 75 times the log, and more the longer it ran."""
    log, now, position, rolls = opened(PowerDisk(), limits=LogLimits()), system_now(), 0, 90
    async with Run(log, clock=lambda: now, roll_s=0.0).running() as run:
        for _ in range(rolls):
            now, position = Instant(now + 10 * SECOND), position + 30
            for each in range(position - 29, position + 1):
                run.recorder.record(Record(each, frame(each)))
            await until(lambda upto=position: log.rolled().rolled_upto == upto, "rolled")
    state = log.rolled()
    live, replaced = list(state.segments.values()), [one.segment for one in state.waiting.values()]
    recorded, written = (sum(one.frames for one in found) for found in (live, [*live, *replaced]))
    assert (recorded, [one.position for one in log.read()]) == (position, list(range(1, position + 1)))
    assert written <= recorded * (1 + log_of(rolls, GROWTH))
    assert len(live) < 20
    assert len(replaced) < 1.5 * rolls


def test_a_broker_is_told_the_newest_frames_and_no_more_than_it_wants(log: EventLog):
    log.append([frame(number) for number in range(10)], recorded_at=Instant(system_now()))
    recorder = Run(log).recorder
    told = recorder.at_start(1, frames_max=4)
    assert (told.next_position, [one.position for one in told.recent]) == (11, [7, 8, 9, 10])
    assert [one.position for one in recorder.at_start(9, frames_max=100).recent] == [9, 10]
    assert list(recorder.at_start(11, frames_max=100).recent) == []
    assert recorder.status()["bytes"] > 0


def test_reading_goes_on_where_it_stopped_and_leaves_out_nothing_that_came_meanwhile(log: EventLog):
    """A held place is of the log as it was; what is recorded and rolled since is found all the same."""
    readings, got, opened = LogReadings(log), list[int](), 0
    read = log.read

    def counted(*args: object, **named: object):
        nonlocal opened
        opened += 1
        return read(*args, **named)

    log.read = counted
    first, last = 1, 0
    for turn in range(60):
        if turn < 20:
            log.append([frame(turn * 3 + n, TYPES[n % 2]) for n in range(3)], recorded_at=system_now())
            last = log.next_position - 1
        if turn % 7 == 3:
            log.roll(system_now())
        frames, upto = readings.read(TYPES[0], first, upto=last, frames_max=1, bytes_max=1 << 20)
        got += [one.position for one in frames]
        first = upto + 1
    assert got == [position for position in range(1, 61) if (position - 1) % 3 != 1]
    assert opened < 30


def test_a_damaged_segment_is_told_and_what_lies_before_it_too(log: EventLog, tmp_path: Path):
    log.append([frame(1)], recorded_at=system_now())
    log.roll(system_now())
    (segment,) = log.segments(TYPES[0])
    segment.chmod(0o600)
    segment.write_bytes(segment.read_bytes()[:-1] + b"?")
    found = Run(log).recorder._found(ReadLog(1, TYPES[0], 1, 1, 10, 1 << 20))
    assert (found.frames, found.upto, found.problem) == ((), 0, "LOG-DAMAGED")
