"""The memory of publications agrees with a slow one, and never takes for seen what was not here."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.routing.duplicates import ALL_ROWS, DuplicateMemory, MemoryLimits, gaps, row_set

KEY, STREAM = b"k" * 32, b"s" * 16

NUMBERS = st.integers(0, 30) | st.integers(2**62, 2**62 + 10) | st.integers(0, 2**63 - 1)
ROWS = st.just(ALL_ROWS) | st.sets(st.integers(0, 5), min_size=1).map(sorted).map(row_set)
ARRIVALS = st.lists(st.tuples(NUMBERS, ROWS), max_size=120)


class SlowMemory:
    """The same promise, kept in the plainest way: runs and incomplete numbers, what grew last at the end."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.runs: list[set[int]] = []
        self.parts: list[tuple[int, int]] = []

    def new_rows(self, number: int, rows: int) -> int:
        if any(number in run for run in self.runs):
            return 0
        before = dict(self.parts).get(number, 0)
        if not rows & ~before:
            return 0
        self.parts = [part for part in self.parts if part[0] != number]
        if before | rows == ALL_ROWS:
            touching = [run for run in self.runs if number - 1 in run or number + 1 in run]
            self.runs = [run for run in self.runs if run not in touching]
            self.runs.append({number}.union(*touching))
        else:
            self.parts.append((number, before | rows))
        self.runs, self.parts = self.runs[-self.most :], self.parts[-self.most :]
        return rows & ~before


@pytest.mark.laws
@given(ARRIVALS, st.integers(1, 5), st.integers(0, 120))
@example([(number, ALL_ROWS) for number in (1, 3, 5, 7, 9, 2, 1, 3)], 4, 5)
def test_the_memory_answers_as_the_slow_one_does_also_after_a_restart(
    arrivals: list[tuple[int, int]], most: int, restart_at: int
) -> None:
    limits, slow = MemoryLimits(numbers_per_stream_max=most), SlowMemory(most)
    memory = DuplicateMemory(limits)
    for at, (number, rows) in enumerate(arrivals):
        if at == restart_at:
            memory = DuplicateMemory.imported(memory.exported(), limits)
        assert memory.new_rows(KEY, STREAM, number, rows) == slow.new_rows(number, rows)


@pytest.mark.laws
@given(ARRIVALS, st.integers(1, 4), st.integers(300, 2_000))
@example([(2**62 + 2 * number, ALL_ROWS) for number in range(100)] + [(7, ALL_ROWS)], 4, 2_000)
def test_a_row_that_was_not_here_is_new_whatever_came_before_it(
    arrivals: list[tuple[int, int]], most: int, bytes_max: int
) -> None:
    """A85: under any limits, and however the numbers before it were chosen."""
    memory = DuplicateMemory(MemoryLimits(numbers_per_stream_max=most, bytes_max=bytes_max))
    here: dict[int, int] = {}
    for number, rows in arrivals:
        fresh = rows & ~here.get(number, 0)
        assert memory.unseen_rows(KEY, STREAM, number, fresh) == fresh
        assert memory.new_rows(KEY, STREAM, number, rows) & fresh == fresh
        here[number] = here.get(number, 0) | rows
        assert memory._bytes <= bytes_max


@pytest.mark.laws
@given(st.permutations(range(60)), st.integers(0, 2**62))
def test_a_stream_without_gaps_is_remembered_whole(order: list[int], first: int) -> None:
    memory = DuplicateMemory()
    assert all(memory.remember(KEY, STREAM, first + number) for number in order)
    assert not any(memory.remember(KEY, STREAM, first + number) for number in range(60))
    assert memory.remember(KEY, STREAM, first + 60)


@pytest.mark.laws
@given(
    st.lists(st.tuples(st.sampled_from([b"", b"signer"]), st.integers(0, 30), ROWS), max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=8),
)
def test_gaps_are_the_numbers_below_the_newest_that_neither_memory_has(
    arrivals: list[tuple[bytes, int, int]], settled: list[tuple[int, int]]
) -> None:
    memory, beside, excused = DuplicateMemory(), DuplicateMemory(), set[int]()
    for signer, number, rows in arrivals:
        memory.new_rows(KEY, STREAM, number, rows, signer)
    for first, more in settled:
        beside.remember_span(KEY, STREAM, first, first + more)
        excused.update(range(first, first + more + 1))
    again = DuplicateMemory.imported(beside.exported())
    here = {number for _, number, _ in arrivals}
    by_signer = [one.get((KEY, STREAM), {}) for one in (memory.by_stream(), again.by_stream())]
    spans = [span for one in by_signer for span in chain.from_iterable(one.values())]
    upto = max((end for one in by_signer[0].values() for _, end in one), default=0)
    found = [number for first, last in gaps(spans, upto) for number in range(first, last + 1)]
    assert found == [one for one in range(max(here, default=0)) if one not in here | excused]
    assert all(not beside.unseen_rows(KEY, STREAM, number) for number in excused)
