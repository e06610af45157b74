"""Frames wait for keys in their order, within limits, and are taken out once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from maia.broker.keys.keys import WaitingFrames, WaitingLimits
from maia.events import Instant

NOW = Instant.parse("2026-11-15T12:00:00Z")
ONE, OTHER = b"1" * 32, b"2" * 32


def later(seconds: float) -> Instant:
    return Instant(NOW + int(seconds * 1_000_000))


def waiting(**limits: int) -> WaitingFrames[str]:
    return WaitingFrames(WaitingLimits(**limits))


def test_frames_come_out_in_their_order_and_once() -> None:
    frames = waiting()
    for name in "abc":
        assert frames.put(ONE, "s", name, size=1, until=later(10))
    frames.put(OTHER, "s", "x", size=1, until=later(10))
    assert frames.take(ONE) == ["a", "b", "c"]
    assert frames.take(ONE) == []
    assert len(frames) == 1


def test_there_is_room_for_so_many_frames_of_a_type() -> None:
    frames = waiting(frames=2)
    assert [frames.put(ONE, "s", "f", size=1, until=later(10)) for _ in range(3)] == [True, True, False]
    assert frames.put(OTHER, "s", "f", size=1, until=later(10))


def test_there_is_room_for_so_many_bytes_of_a_type() -> None:
    frames = waiting(size_bytes=10)
    assert [frames.put(ONE, "s", "f", size=5, until=later(10)) for _ in range(3)] == [True, True, False]
    frames.take(ONE)
    assert frames.put(ONE, "s", "f", size=10, until=later(10))
    assert not frames.put(OTHER, "s", "f", size=11, until=later(10))
    assert frames.next_due() == later(10)


def test_there_is_room_for_so_many_types() -> None:
    frames = waiting(types=1)
    assert frames.put(ONE, "s", "f", size=1, until=later(10))
    assert not frames.put(OTHER, "s", "f", size=1, until=later(10))


def test_nobody_waits_longer_than_its_time() -> None:
    frames = waiting(wait_s=10)
    frames.put(ONE, "s", "early", size=1, until=later(10))
    frames.put(ONE, "s", "late", size=1, until=later(15))
    assert frames.next_due() == later(10)
    assert frames.take_overdue(later(9.999)) == []
    assert frames.take_overdue(later(10)) == ["early"]
    assert frames.next_due() == later(15)
    assert frames.take_overdue(later(15)) == ["late"]
    assert frames.next_due() is None


def test_a_stream_is_known_to_wait_until_its_last_frame_is_out() -> None:
    frames = waiting(wait_s=10)
    frames.put(ONE, "s", "a", size=1, until=later(10))
    frames.put(ONE, "s", "b", size=1, until=later(11))
    assert frames.holds(ONE, "s")
    assert not frames.holds(ONE, "other")
    assert not frames.holds(OTHER, "s")
    frames.take_overdue(later(10))
    assert frames.holds(ONE, "s")
    frames.take_overdue(later(11))
    assert not frames.holds(ONE, "s")


@given(st.lists(st.tuples(st.sampled_from([ONE, OTHER]), st.integers(0, 3), st.integers(0, 4)), max_size=40))
def test_what_went_in_comes_out_exactly_once(steps: list[tuple[bytes, int, int]]) -> None:
    frames: WaitingFrames[int] = WaitingFrames(WaitingLimits(frames=4, size_bytes=8, types=2, wait_s=3))
    at, went_in, came_out = NOW, [], []
    for number, (type_id, size, pause) in enumerate(steps):
        at = Instant(at + pause * 500_000)
        came_out += frames.take_overdue(at)
        if size == 3:
            came_out += frames.take(type_id)
        elif frames.put(type_id, "s", number, size=size, until=frames.until(at)):
            went_in.append(number)
    came_out += frames.take(ONE) + frames.take(OTHER)
    assert sorted(came_out) == went_in
    assert len(frames) == 0
