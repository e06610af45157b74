"""The memory of publications: what is new, within bounds, across restarts."""

from __future__ import annotations

import msgspec
import pytest

from maia.events import ROWS_MAX
from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, MemoryLimits, row_set, rows_in
from maia.testing.refusals import raises

KEY, STREAM = b"K" * 32, b"S" * 16


def small(**limits: int) -> DuplicateMemory:
    return DuplicateMemory(MemoryLimits(**limits))


def test_publishers_and_streams_do_not_share_numbers():
    memory = DuplicateMemory()
    assert memory.remember(KEY, STREAM, 0)
    assert memory.remember(b"k" * 32, STREAM, 0)
    assert memory.remember(KEY, b"s" * 16, 0)


def test_rows_that_come_by_different_ways_are_each_new_once():
    memory = DuplicateMemory()
    assert memory.new_rows(KEY, STREAM, 0, row_set([0, 2])) == row_set([0, 2])
    assert memory.new_rows(KEY, STREAM, 0, row_set([1, 2])) == row_set([1])
    assert rows_in(memory.new_rows(KEY, STREAM, 0, ALL_ROWS), among=range(5)) == [3, 4]
    assert memory.new_rows(KEY, STREAM, 0, ALL_ROWS) == 0


def test_no_rows_are_no_publication():
    memory = DuplicateMemory()
    assert memory.new_rows(KEY, STREAM, 0, 0) == 0
    assert memory.remember(KEY, STREAM, 0)


def test_of_too_many_runs_the_one_that_has_not_grown_for_longest_is_forgotten():
    memory = small(numbers_per_stream_max=4)
    for number in (10, 20, 30, 40, 11, 50):  # 10 and 11 are one run, and it grew after 20, 30 and 40
        assert memory.remember(KEY, STREAM, number)
    assert not any(memory.remember(KEY, STREAM, number) for number in (10, 11, 30, 40, 50))
    assert memory.remember(KEY, STREAM, 20)


def test_a_signer_that_was_not_judged_uses_up_numbers_of_its_own():
    memory = DuplicateMemory()
    assert memory.new_rows(KEY, STREAM, 7, signer=b"R" * 32)
    assert not memory.new_rows(KEY, STREAM, 7, signer=b"R" * 32)
    assert memory.new_rows(KEY, STREAM, 7, signer=b"W" * 32)
    assert memory.new_rows(KEY, STREAM, 7)


def test_the_stream_that_was_silent_for_longest_is_forgotten_first():
    memory = small(streams_max=2)
    for stream in (b"1", b"2", b"1", b"3"):
        memory.remember(KEY, stream, 0)
    assert len(memory) == 2
    assert not memory.remember(KEY, b"1", 0)
    assert memory.remember(KEY, b"2", 0)


def test_too_many_bytes_leave_silent_streams_the_run_that_grew_last():
    memory = small(bytes_max=2_000)
    for number in range(1, 8):
        memory.remember(KEY, b"silent", 2 * number)
    for number in range(1, 10):
        memory.remember(KEY, b"loud", 2 * number)
    assert memory._bytes <= 2_000
    assert not memory.remember(KEY, b"silent", 14)
    assert memory.remember(KEY, b"silent", 2)
    assert not memory.remember(KEY, b"loud", 18)


def test_the_largest_frame_fits_and_is_counted():
    memory = small(bytes_max=100_000)
    every_other = row_set(range(0, ROWS_MAX, 2))
    for number in range(100):
        assert memory.new_rows(KEY, STREAM, number, every_other) == every_other
    assert memory._bytes <= 100_000


def test_a_restart_with_smaller_limits_keeps_what_grew_last():
    memory = DuplicateMemory()
    for number in range(0, 3_000, 2):
        memory.remember(KEY, STREAM, number)
    again = DuplicateMemory.imported(memory.exported(), MemoryLimits(numbers_per_stream_max=2))
    assert not any(again.remember(KEY, STREAM, number) for number in (2_996, 2_998))
    assert again.remember(KEY, STREAM, 0)


def test_the_last_number_does_not_break_the_restart():
    memory = DuplicateMemory()
    for number in range(1, 2_000):
        memory.remember(KEY, STREAM, 2**63 - number)
    again = DuplicateMemory.imported(memory.exported())
    assert not again.remember(KEY, STREAM, 2**63 - 1)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x91\x01", b"\x91\x95\xc4\x01a\xc4\x01b\xc4\x00\x91\x92\xff\x01\x90"]
)
def test_what_was_not_written_by_us_is_refused(data: bytes):
    with raises("INPUT-DUPLICATE-MEMORY"):
        DuplicateMemory.imported(data)


@pytest.mark.parametrize("runs", [[(3, 3)], [(3, 2)], [(0, 5), (4, 8)], [(0, 5), (5, 8)]])
def test_runs_that_contradict_each_other_are_refused(runs: list[tuple[int, int]]):
    with raises("INPUT-DUPLICATE-MEMORY"):
        DuplicateMemory.imported(msgspec.msgpack.encode([(KEY, STREAM, b"", runs, [])]))
