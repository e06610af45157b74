"""A stream of a log shows every row once, whatever happens to the files that the rows lie in."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from maia.events import INSTANT_MAX, INSTANT_MIN
from maia.log import LogDamaged
from maia.log.format import segments
from maia.spark.errors import SparkProblem
from maia.spark.governed import log_folder
from maia.spark.governed.log_folder import FramesWanted, LogFolder, LogFrames, cut
from maia.spark.governed.stream_source import LogStreamReader
from maia.testing import raises
from maia.types import SealingLevel
from support.governed import (
    NOON,
    PLACE,
    PLATE,
    SPEED,
    at,
    between,
    governed,
    grant,
    reader,
    rows_of,
)
from support.growing_log import Growing

EVERYTHING = ReadAllAvailable()


def read(log: Growing, one: LogStreamReader, start, end) -> list[bytes]:
    """Return the headers of a batch, as tasks in processes of their own would read them."""
    _, parts = copied((one, one.partitions(start, end)))
    return [header for part in parts for b in log.frames(part) for header in b.column("header").to_pylist()]


def copied(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - made in the same line


# ------------------------------------------------------------ with Spark


@pytest.mark.parametrize("level", [None, SealingLevel.ATTRIBUTE])
def test_rows_come_once_though_segments_are_joined_between_the_runs_of_a_stream(spark, tmp_path, desk, level):
    log = Growing(tmp_path, level)
    known = {"log": str(log.folder), "event_type": log.made.event_type, "is_stream": True}
    for _ in range(2):
        log.record(2)
        log.record(1, hours=24.5)  # the next day has a segment of its own
        run(governed(spark, reader=reader(), keys=log.made.keys(desk), **known), tmp_path)
        before = log.files
        log.join()
        assert len(log.files) <= len(before)
    assert len(log.files) == 2
    found = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert Counter(row["seen"] for row in found) == Counter(NOON + n for n in range(log.rows))


def test_a_batch_that_runs_again_after_a_restart_has_the_same_rows_though_its_files_are_gone(spark, tmp_path):
    log, seen = Growing(tmp_path), {}

    def take(batch, number):
        seen.setdefault(number, []).append(sorted(row.speed for row in batch.collect()))

    def go_on():
        known = {"log": str(log.folder), "event_type": log.made.event_type, "reader": reader()}
        table = governed(spark, is_stream=True, **known)
        started = table.writeStream.foreachBatch(take).trigger(availableNow=True)
        query = started.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        assert query.awaitTermination(300)
        return sum(done.numInputRows for done in query.recentProgress)

    log.record(2)
    assert go_on() == 4, "events, and not the segments that they lie in"
    log.record(2)
    go_on()
    for note in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        note.unlink()  # Spark had planned the second batch, and did not live to say that it is done
    log.record(1)
    log.join()
    go_on()
    assert seen[0] == [[0, 1, 2, 3]]
    assert seen[1] == [[4, 5, 6, 7], [4, 5, 6, 7]]
    assert seen[2] == [[8, 9]]


def test_a_stream_of_a_type_that_no_reader_published_yet_waits_for_it(spark, tmp_path, desk):
    log = Growing(tmp_path, SealingLevel.ATTRIBUTE)
    known = {"log": str(log.folder), "event_type": log.made.event_type, "reader": reader()}
    table = governed(spark, keys=log.made.keys(desk), **known)
    stream = governed(spark, keys=log.made.keys(desk), is_stream=True, **known)
    assert table.schema == stream.schema
    assert table.columns == ["numberplate", "location", "speed", "seen"]
    assert rows_of(table) == []
    run(stream, tmp_path)
    log.record()
    run(stream, tmp_path)
    assert len(rows_of(spark.read.parquet(str(tmp_path / "out")))) == 2


def test_a_reader_whose_certificate_was_renewed_goes_on_from_its_checkpoint(spark, tmp_path):
    log, old = Growing(tmp_path), grant(validity=between(-1, 1))
    renewed = grant(attributes=[PLATE], validity=between(1.5, 5))
    for certificates, hours in (((old,), 0), ((old, renewed), 2)):
        log.record(hours=hours)
        known = {"log": str(log.folder), "event_type": log.made.event_type}
        run(governed(spark, reader=reader(*certificates), is_stream=True, **known), tmp_path)
    found = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert [(row["numberplate"], row["speed"]) for row in found] == [
        ("AE00000", 0), ("AE00001", 1), ("AE00002", None), (None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("level", [None, SealingLevel.ATTRIBUTE])
def test_a_stream_of_several_periods_shows_what_a_table_shows(spark, tmp_path, desk, level):
    log = Growing(tmp_path, level)
    for hours in (0, 2, 4, 25, 30):
        log.record(rows=12, hours=hours)
    who = reader(
        grant(attributes=[PLATE], restriction="speed > 3", validity=between(-1, 3)),
        grant(restriction='location == "Victoria"', validity=between(3, 26)),
        grant(attributes=[SPEED, PLACE], restriction="not exists(numberplate)", validity=between(1, 3)),
    )
    known = {"log": str(log.folder), "event_type": log.made.event_type, "reader": who, "with_meta": True}
    table = governed(spark, keys=log.made.keys(desk), **known)
    stream = governed(spark, keys=log.made.keys(desk), is_stream=True, **known)
    assert stream.schema == table.schema
    run(stream, tmp_path)
    assert rows_of(spark.read.parquet(str(tmp_path / "out"))) == rows_of(table)
    assert table.count() > 20


def test_a_stream_ends_with_a_code_if_the_log_forgot_what_it_has_not_read(spark, tmp_path):
    log = Growing(tmp_path)
    known = {"log": str(log.folder), "event_type": log.made.event_type, "reader": reader()}
    log.record()
    run(governed(spark, is_stream=True, **known), tmp_path)
    log.record()
    log.forget()
    log.record()
    with pytest.raises(StreamingQueryException, match=r"\[PIPELINE-FRAMES-FORGOTTEN\] .*up to position 2"):
        run(governed(spark, is_stream=True, **known), tmp_path)
    run(governed(spark, is_stream=True, fails_on_loss=False, **known), tmp_path)
    found = rows_of(spark.read.parquet(str(tmp_path / "out")))
    assert [row["speed"] for row in found] == [0, 1, 4, 5]


def run(table, folder):
    query = (
        table.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    assert query.awaitTermination(300)
    assert query.exception() is None


# ------------------------------------------------------------ what Spark asks of the reader


def test_a_task_finds_frames_that_were_joined_after_it_was_planned(tmp_path):
    log = Growing(tmp_path)
    for _ in range(3):
        log.record(2)
    one = log.reader()
    start = one.initialOffset()
    end = one.latestOffset(start, EVERYTHING)
    planned, whole = one.partitions(start, end), read(log, one, start, end)
    log.join()
    (again,) = planned
    found = [header for batch in log.frames(again) for header in batch.column("header").to_pylist()]
    assert found == whole
    assert len(whole) == 6


def test_what_is_forgotten_between_plan_and_task_is_an_error_and_not_less(tmp_path):
    log = Growing(tmp_path)
    log.record(2)
    one = log.reader()
    start = one.initialOffset()
    end = one.latestOffset(start, EVERYTHING)
    (planned,) = one.partitions(start, end)
    log.forget()
    with pytest.raises(SparkProblem, match=r"\[PIPELINE-FRAMES-FORGOTTEN\]"):
        list(log.frames(planned))
    with pytest.raises(SparkProblem, match=r"\[PIPELINE-FRAMES-FORGOTTEN\]"):
        one.partitions(start, end)
    assert list(log.frames(planned, fails_on_loss=False)) == []


def test_a_file_that_was_removed_by_hand_is_reported(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    start = one.initialOffset()
    (planned,) = one.partitions(start, one.latestOffset(start, EVERYTHING))
    log.files[0].unlink()
    with pytest.raises(SparkProblem, match=r"\[LOG-DAMAGED\]"):
        list(log.frames(planned))


def test_a_flipped_byte_is_reported(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    start = one.initialOffset()
    (planned,) = one.partitions(start, one.latestOffset(start, EVERYTHING))
    (file,) = log.files
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(SparkProblem, match=r"\[LOG-DAMAGED\]"):
        list(log.frames(planned))


def test_a_stream_that_begins_after_frames_were_forgotten_has_lost_nothing(tmp_path):
    log = Growing(tmp_path)
    log.record(3)
    log.forget()
    log.record(1)
    one = log.reader()
    start = one.initialOffset()
    end = one.latestOffset(start, EVERYTHING)
    assert (start["position"], start["forgotten"], end["position"]) == (0, 3, 4)
    assert len(read(log, one, start, end)) == 1
    assert one.latestOffset(end, EVERYTHING) == end
    log.forget()
    assert one.latestOffset(end, EVERYTHING) == end  # it was read before


def test_other_types_do_not_make_batches(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    end = one.latestOffset(one.initialOffset(), EVERYTHING)
    other = FramesWanted(str(log.folder), bytes(32), INSTANT_MIN, INSTANT_MAX)
    nothing = log.reader_of(other)
    assert nothing.latestOffset(nothing.initialOffset(), EVERYTHING) == nothing.initialOffset()
    assert end["position"] == 1


def test_a_run_that_is_to_end_takes_what_was_there_when_it_began(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    one.prepareForTriggerAvailableNow()
    log.record()
    assert one.latestOffset(one.initialOffset(), EVERYTHING)["position"] == 1
    assert log.reader().latestOffset(one.initialOffset(), EVERYTHING)["position"] == 2


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    start = one.initialOffset()
    for wrong in (
        {"logOffset": 0},
        start | {"type": "00" * 32},
        start | {"position": -1},
        start | {"position": 7},
    ):
        with pytest.raises(SparkProblem, match=r"\[PIPELINE-CHECKPOINT\]"):
            one.latestOffset(wrong, EVERYTHING)


def test_a_task_reads_no_row_group_beside_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "GROUP_BYTES", 1)
    log = Growing(tmp_path)
    log.record(4)
    log.record(4, hours=1)
    log.join()
    (whole,) = LogFolder(str(log.folder)).of_type(log.made.event_type.type_id).stretches
    read, groups = pq.ParquetFile.read_row_group, []
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, at, **how: groups.append(at) or read(self, at, **how)
    )
    frames = LogFrames(log.wanted(), ("header",))
    assert sum(batch.num_rows for batch in frames.batches(cut(whole, 3, 4))) == 2
    assert groups == [2, 3]
    groups.clear()
    late = replace(whole, published_from=int(at(1)))
    assert sum(batch.num_rows for batch in frames.batches(late)) == 4
    assert groups == [4, 5, 6, 7]
    assert sum(batch.num_rows for batch in frames.batches(whole)) == 8


def test_a_large_segment_is_divided_and_small_ones_are_read_together(tmp_path, monkeypatch):
    log = Growing(tmp_path)
    for _ in range(4):
        log.record(5)
    one = log.reader()
    start = one.initialOffset()
    end = one.latestOffset(start, EVERYTHING)
    whole = read(log, one, start, end)
    assert len(one.partitions(start, end)) == 1
    monkeypatch.setattr(log_folder, "PARTITION_BYTES", log.files[0].stat().st_size // 3)
    assert len(one.partitions(start, end)) >= 12
    assert read(log, one, start, end) == whole
    monkeypatch.setattr(log_folder, "_BATCH_BYTES", 1)
    (first, *_) = one.partitions(start, end)
    assert {batch.num_rows for batch in log.frames(first)} == {1}
    assert len(whole) == 20


def test_a_stream_that_begins_late_takes_some_at_a_time(tmp_path):
    log = Growing(tmp_path)
    for hours in (0, 24.5, 0, 24.5):
        log.record(2, hours=hours)
    one = log.reader()
    start = offset = one.initialOffset()
    limit, seen, batches = ReadMaxBytes(log.files[0].stat().st_size + 1), [], 0
    while (end := one.latestOffset(offset, limit)) != offset:
        seen += read(log, one, offset, end)
        offset, batches = end, batches + 1
    assert 2 <= batches <= 3
    assert seen == read(log, one, start, one.latestOffset(start, EVERYTHING))
    assert len(seen) == 8


def test_segments_published_outside_of_the_period_are_not_opened(tmp_path):
    log = Growing(tmp_path)
    log.record(hours=-48)
    log.record()
    wanted = FramesWanted(str(log.folder), log.made.event_type.type_id, int(at(-1)), int(at(1)))
    one = log.reader_of(wanted)
    start = one.initialOffset()
    (planned,) = one.partitions(start, one.latestOffset(start, EVERYTHING))
    assert [stretch.first for stretch in planned.value] == [2]


def test_a_column_that_a_segment_does_not_have_is_null(tmp_path):
    log = Growing(tmp_path)
    log.record()
    one = log.reader()
    start = one.initialOffset()
    (planned,) = one.partitions(start, one.latestOffset(start, EVERYTHING))
    (batch,) = log.frames(planned, ("header", "another"))
    assert batch.column("another").type == pa.binary()
    assert batch.column("another").null_count == batch.num_rows == 1


# ------------------------------------------------------------ the folder


def test_a_manifest_is_read_again_only_when_it_has_changed(tmp_path, monkeypatch):
    log, reads = Growing(tmp_path), []
    log.record()
    folder, type_id = LogFolder(f"file://{log.folder}"), log.made.event_type.type_id
    whole = LogFolder._whole
    monkeypatch.setattr(LogFolder, "_whole", lambda self, name: reads.append(name) or whole(self, name))
    assert [folder.of_type(type_id).newest for _ in range(3)] == [1, 1, 1]
    log.record()
    assert folder.of_type(type_id).newest == 2
    assert len(reads) == 2


def test_a_damaged_manifest_and_a_strange_place_are_refused(tmp_path):
    log = Growing(tmp_path)
    log.record()
    (manifest,) = log.folder.glob("manifest-*")
    data = bytearray(manifest.read_bytes())
    data[len(data) // 2] ^= 1
    manifest.write_bytes(data)
    with pytest.raises(LogDamaged):
        LogFolder(str(log.folder)).of_type(log.made.event_type.type_id)
    with raises("PLACE-ADDRESS"):
        LogFolder("nowhere://x/y").of_type(log.made.event_type.type_id)
