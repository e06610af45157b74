"""The checker can fail: each way to break a promise is found in a history that has nothing else."""

from __future__ import annotations

from dataclasses import replace

from chaos.checker import (
    Acknowledged,
    Delivered,
    Reader,
    Reported,
    Verdict,
    check,
    joined,
    recovered_after,
    runs,
)
from chaos.history import acknowledged, frames_of, highest, lines_of, readers

ACKED = [Acknowledged("alfa", 0, 4, 10.0), Acknowledged("alfa", 5, 9, 11.0)]
ALL = [Delivered("alfa", 0, 4, 10.5, "p1", stream="s"), Delivered("alfa", 5, 9, 11.5, "p2", stream="s")]
DESK = Reader("desk", frozenset({"alfa"}), delivered=ALL)


def judged(reader: Reader, acked=ACKED) -> Verdict:
    return check(acked, [reader], sent=["alfa"])


def kinds(verdict: Verdict) -> list[tuple[str, int, int]]:
    return [(one.kind, one.first, one.last) for one in joined(verdict.findings)]


def test_once_and_in_order_is_good():
    verdict = judged(DESK)
    assert (verdict.is_good, verdict.acknowledged, verdict.expected, verdict.lost) == (True, 10, 10, 0)


def test_what_is_missing_without_a_word_is_silent():
    verdict = judged(replace(DESK, delivered=[replace(ALL[0], last=2), replace(ALL[1], first=7)]))
    assert kinds(verdict) == [("silent", 3, 6)]
    assert (verdict.lost, verdict.count("silent")) == (4, 4)


def test_a_missing_head_is_silent_too():
    assert kinds(judged(replace(DESK, delivered=ALL[1:]))) == [("silent", 0, 4)]


def test_a_reader_that_was_handed_nothing_lost_everything():
    assert kinds(judged(replace(DESK, delivered=[]))) == [("silent", 0, 9)]


def test_what_comes_again_from_another_position_is_doubled_unless_the_log_was_put_back_between():
    again = replace(DESK, delivered=[*ALL, replace(ALL[1], at=20.0, position="p9")])
    assert kinds(judged(again)) == [("doubled", 5, 9)]
    assert kinds(judged(replace(again, put_back_at=[11.0]))) == [("doubled", 5, 9)], "that was before"
    assert judged(replace(again, put_back_at=[15.0])).repeated == 5


def test_a_word_without_numbers_is_not_enough():
    told = replace(DESK, delivered=ALL[:1], reported=[Reported(12.0, code="UNAVAILABLE-LOG-GAP")])
    assert kinds(judged(told)) == [("unnumbered", 5, 9)]


def test_what_cannot_arrive_at_this_moment_is_held_up_and_no_promise_kept():
    assert kinds(judged(replace(DESK, delivered=ALL[:1], waits=True))) == [("held up", 5, 9)]


def test_a_word_from_before_is_about_something_else():
    told = replace(DESK, delivered=ALL[:1], reported=[Reported(10.9)])
    assert kinds(judged(told)) == [("silent", 5, 9)]


def test_what_is_reported_by_number_is_lost_and_not_silent():
    verdict = judged(replace(DESK, delivered=ALL[:1], reported=[Reported(12.0, "alfa", 5, 9)]))
    assert (verdict.is_good, verdict.lost, verdict.reported) == (True, 5, 5)


def test_numbers_of_somebody_else_or_too_few_do_not_count():
    told = replace(
        DESK, delivered=ALL[:1], reported=[Reported(12.0, "bravo", 5, 9), Reported(12.0, "alfa", 5, 7)]
    )
    assert kinds(judged(told)) == [("silent", 8, 9)]


def test_a_second_delivery_from_another_position_is_doubled():
    again = Delivered("alfa", 3, 4, 12.0, "p3", stream="s")
    assert kinds(judged(replace(DESK, delivered=[*ALL, again]))) == [("doubled", 3, 4)]
    live = replace(DESK, is_durable=False, delivered=[replace(one, position=None) for one in [*ALL, again]])
    assert kinds(judged(live)) == [("doubled", 3, 4)]


def test_the_last_frame_again_from_its_position_is_a_repeat():
    verdict = judged(replace(DESK, delivered=[*ALL, replace(ALL[1], at=13.0)]))
    assert (verdict.is_good, verdict.repeated) == (True, 5)


def test_behind_a_later_one_is_disorder_unless_it_is_marked_late():
    assert kinds(judged(replace(DESK, delivered=ALL[::-1]))) == [("disorder", 0, 4)]
    verdict = judged(replace(DESK, delivered=[ALL[1], replace(ALL[0], is_late=True)]))
    assert (verdict.is_good, verdict.late) == (True, 5)


def test_the_order_is_that_of_a_stream():
    """A publisher that leaves and comes back begins another: nothing relates the two."""
    assert judged(replace(DESK, delivered=[ALL[1], replace(ALL[0], stream="before")])).is_good


def test_nothing_comes_after_the_end_of_a_right_beyond_the_bound():
    ended = replace(DESK, right_ended_at=9.0)
    assert kinds(judged(ended)) == [("after the end", 5, 9)]
    assert judged(replace(ended, right_ended_at=10.0)).is_good
    assert judged(replace(ended, right_ended_at=9.9)).expected == 0  # and nothing is due to it


def test_what_nobody_has_sent_or_the_reader_may_not_have_is_invented():
    strange = Delivered("mallory", 0, 0, 12.0, "p3", stream="s")
    assert kinds(judged(replace(DESK, delivered=[*ALL, strange]))) == [("invented", 0, 0)]
    assert kinds(judged(replace(DESK, wants=frozenset(), delivered=ALL[:1]))) == [("invented", 0, 4)]


def test_an_event_whose_answer_was_lost_may_arrive():
    assert judged(replace(DESK, delivered=[*ALL, Delivered("alfa", 10, 12, 12.0, "p3", stream="s")])).is_good


def test_recovery_is_when_every_reader_has_something_newer():
    other = replace(DESK, name="archive", delivered=[replace(ALL[1], at=15.0)])
    assert recovered_after(10.9, ACKED, [DESK]) == 11.5 - 10.9
    assert recovered_after(10.9, ACKED, [DESK, other]) == 15.0 - 10.9
    assert recovered_after(10.9, ACKED, [DESK, replace(other, delivered=[])]) is None
    assert recovered_after(20.0, ACKED, [DESK]) == 0.0


def test_runs_have_no_hole():
    assert runs([1, 2, 3, 5, 7, 8]) == [(1, 3), (5, 5), (7, 8)]


def test_a_journal_becomes_a_history():
    """Numbers from before all readers were served do not count, nor does a line that was cut off."""
    wrote = lines_of(
        '{"t": 1.0, "sent": [0, 3]}\n{"t": 1.5, "acked": [0, 3]}\n{"t": 2.0, "acked": [4, 4]}\n{"t": 2'
    )
    assert acknowledged("alfa", wrote, counts_from=2) == [
        Acknowledged("alfa", 2, 3, 1.5), Acknowledged("alfa", 4, 4, 2.0),
    ]  # fmt: skip
    assert (highest(wrote, "sent"), highest(wrote, "refused")) == (3, -1)
    lines = lines_of(
        '{"t": 2.0, "name": "Reading durable", "got": ["alfa", 0, 3], "of": "s", "at": "p1"}\n'
        '{"t": 3.0, "name": "Reading durable", "gap": "UNAVAILABLE-LOG-GAP", '
        '"why": "a hole; missing: 2 publications, 1 to 2 of stream 00c0ffee; asked for again"}\n'
        '{"t": 3.5, "name": "Reading durable", "gap": "UNAVAILABLE-LOG-GAP"}\n'
        '{"t": 3.0, "name": "Reading live", "ended": "POLICY-REVOKED"}\n'
    )
    lines += [
        {"t": 4.0, "name": "Reading durable", "warning": "UNAVAILABLE-NOT-CONNECTED"},
        {"t": 5.0, "name": "Reading durable", "warning": None},
    ]
    framed = frames_of("alfa", [{"frame": ["00c0ffee", 0, 0, 3]}, {"frame": ["00c0ffee", 1, 4, 4]}])
    durable, live = readers("desk", lines, wants={"Reading": frozenset({"alfa"})}, frames=framed)
    assert durable.delivered == [Delivered("alfa", 0, 3, 2.0, "p1", stream="s")]
    assert [(one.publisher, one.first, one.last) for one in durable.reported] == [
        ("alfa", 4, 4),
        (None, 0, -1),
    ]
    assert (durable.is_durable, live.is_durable) == (True, False)
    assert (durable.waits, live.waits) == (False, True)
