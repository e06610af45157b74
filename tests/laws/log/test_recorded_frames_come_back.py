"""What holds of every log, whatever was recorded and whenever the power went."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.log import LogRecord, SegmentName, message_of, row_of, type_id_of
from maia.log.format.names import day_of
from maia.log.format.segments import digest_of, joined, parquet_bytes, records_in, table_of
from maia.types import SealingLevel
from maia.wire import encode
from maia.wire.messages import Carried, Column, Sealed
from support.event_log import NOON, PowerDisk, Recorder, draws, opened
from support.sealing import PART, Publishing, plates, with_part
from support.wire import _of_struct

SCRIPTS = st.lists(st.sampled_from([1, 2, 5, "large", "large", "roll", "compact"]), max_size=8)
FRAMES = st.one_of(_of_struct(Carried), _of_struct(Sealed)).map(encode)
PLAIN = Carried(b"t" * 32, b"p" * 32, b"s" * 16, 1, 0, 1, [], [])


def with_columns(*uids: str) -> bytes:
    return encode(
        Carried(
            *(getattr(PLAIN, name) for name in PLAIN.__struct_fields__[:-1]),
            [Column(u, 1, b"x") for u in uids],
        )
    )


@pytest.mark.laws
@given(SCRIPTS, st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(0, 2**32))
def test_a_log_is_the_list_of_what_was_acknowledged(script, cuts, seed):
    random = draws(seed)
    recorder = Recorder(PowerDisk(random=random))
    for cut_at in cuts:
        recorder.disk.cut_at = recorder.disk.steps + cut_at
        held = recorder.play(script)
        recorder.disk = recorder.disk.copy() if held else recorder.disk.after_power_cut(random)
        with opened(recorder.disk) as log:
            recorder.check(log)


@pytest.mark.laws
@given(SCRIPTS, st.integers(0, 2**32))
def test_a_single_flipped_bit_changes_nothing_or_is_reported(script, seed):
    from support.event_log import outcome_of

    random = draws(seed)
    recorder = Recorder(PowerDisk(random=random))
    assert recorder.play(script)
    path = random.choice(sorted(recorder.disk.paths()))
    data = recorder.disk.bytes_of(path)
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    outcome = outcome_of(recorder.disk)
    if isinstance(outcome, list):
        assert [one.message for one in outcome] == recorder.acknowledged


@pytest.mark.laws
@given(FRAMES, st.integers(1, 2**62))
@example(with_columns("a", "a"), 1)  # two columns of one uid
@example(with_columns("level", "day", "sealed", "type"), 1)  # uids that are names of columns
@example(with_columns("UPPER"), 1)  # no uid
@example(with_columns(""), 1)
@example(with_columns(), 1)
def test_a_row_gives_back_the_message_byte_for_byte(message, position):
    row = row_of(message, position=position, recorded_at=+NOON)
    assert message_of(row.header, row.parts) == message


def test_a_part_beside_a_whole_event_has_a_column_of_its_own():
    message = encode(Publishing(level=SealingLevel.EVENT).seal(with_part(plates(3))))
    row = row_of(message, position=1, recorded_at=+NOON)
    assert row.parts.keys() == {"sealed", PART}
    assert message_of(row.header, row.parts) == message


@pytest.mark.laws
@given(st.binary(max_size=200), st.integers(1, 2**62))
def test_bytes_that_are_no_message_are_kept_whole(data, position):
    row = row_of(data, position=position, recorded_at=+NOON)
    assert row.level is None
    assert message_of(row.header, row.parts) == data


@pytest.mark.laws
@given(st.lists(FRAMES, min_size=1, max_size=6), st.integers(1, 5))
def test_a_segment_gives_back_what_was_put_in_and_so_do_joined_ones(frames, split):
    type_id = type_id_of(frames[0])
    assert type_id is not None
    same = [type_id.join(frame.split(type_id_of(frame), 1)) for frame in frames]
    records = [LogRecord(position, NOON, message) for position, message in enumerate(same, start=1)]
    rows = [row_of(one.message, position=one.position, recorded_at=+NOON) for one in records]
    whole = table_of(rows)
    parts = [table_of(some) for some in (rows[:split], rows[split:]) if some]
    for table in (whole, joined(parts)):
        data = parquet_bytes(table, type_id)
        name = SegmentName(type_id, day_of(+NOON), 1, len(rows), digest_of(data))
        assert list(records_in(data, name)) == records
        assert list(records_in(data, name, from_position=split)) == records[split - 1 :]


@pytest.mark.laws
@given(FRAMES)
def test_the_type_of_a_frame_is_read_from_its_first_bytes(message):
    from maia.wire import decode

    assert type_id_of(message) == decode(message).type_id
