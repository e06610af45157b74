"""A position of the log is one of a run of the broker: given a second time, it is another one."""

from __future__ import annotations

from maia.broker.links.runs import BEFORE, LogRuns
from maia.testing.refusals import raises


def run(number: int) -> bytes:
    return number.to_bytes(8, "big")


def test_a_run_has_the_positions_from_its_first_up_to_the_next_one():
    runs = LogRuns()
    runs.begin(5, run(1))
    runs.begin(9, run(2))
    assert [runs.of(position) for position in (1, 4, 5, 8, 9, 100)] == [
        BEFORE, BEFORE, run(1), run(1), run(2), run(2),
    ]  # fmt: skip
    assert list(runs) == [run(2), run(1), BEFORE]


def test_where_a_log_is_put_back_what_was_recorded_behind_is_of_no_run_any_more():
    runs = LogRuns()
    for first, number in ((1, 1), (5, 2), (9, 3)):
        runs.begin(first, run(number))
    runs.begin(5, run(4))
    assert list(runs) == [run(4), run(1), BEFORE]
    assert runs.of(6) == run(4)


def test_runs_survive_a_restart_and_take_no_more_than_their_room():
    runs = LogRuns()
    for number in range(1, 1000):
        runs.begin(number, run(number))
    back = LogRuns()
    data = runs.kept().data
    assert data is not None
    back.reload(data)
    assert list(back) == list(runs)
    assert (back.of(999), back.of(1)) == (run(999), BEFORE)
    assert len(data) < 8192


def test_broken_runs_are_an_error():
    for data in (b"", b"\xff", b"\x91\x92\x00\xc4\x08aaaaaaaa", b"\x91\x92\x01\xc4\x01a"):
        with raises("INPUT-KEPT-RUNS"):
            LogRuns().reload(data)
