"""A memory of requests forgets only what the time stamp refuses, and survives a restart."""

from __future__ import annotations

import pytest

from maia.events import Instant
from maia.testing.refusals import raises
from maia.wire import ReplayMemory
from support.wire import CLIENT, NOON, OTHER

ME, YOU = CLIENT.principal, OTHER.principal


def nonce(number: int) -> bytes:
    return number.to_bytes(16, "little")


def hear(memory, number, *, at=NOON, principal=ME):
    memory.check_unheard(principal, nonce(number), signed_at=at)
    return memory.remember(principal, nonce(number), signed_at=at)


def test_a_memory_that_never_forgot_has_no_horizon():
    memory = ReplayMemory()
    memory.forget_before(NOON)
    assert memory.horizon is None
    hear(memory, 1, at=Instant(0))


def test_parts_may_repeat_and_the_latest_horizon_counts():
    memory = ReplayMemory()
    hear(memory, 1)
    early = memory.to_bytes()
    memory.forget_before(Instant(NOON + 1))
    back = ReplayMemory.from_parts([early, memory.to_bytes(), early])
    assert (len(back), back.horizon) == (1, NOON)


def test_what_was_kept_is_remembered_beyond_a_lower_limit():
    memory = ReplayMemory()
    for number in range(5):
        hear(memory, number)
    back = ReplayMemory.from_parts([memory.to_bytes()], entries_max=3, per_principal_max=9)
    assert len(back) == 5
    with raises("REQUEST-REPLAYED"):
        hear(back, 4)
    with raises("UNAVAILABLE-REPLAY-MEMORY-FULL"):
        hear(back, 5)


def test_the_horizon_never_falls():
    memory = ReplayMemory()
    memory.refuse_up_to(NOON)
    memory.refuse_up_to(Instant(NOON - 1))
    assert memory.horizon == NOON


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc0",
        b"\x93\x02\xc0\x90",
        b"\x93\x01\xc0\x91\x90",
        b"\x92\x01\xc0",
        b"\x93\x01\xc0\x90\x00",
        b"\xff",
    ],
    ids=lambda data: data.hex() or "nothing",
)
def test_a_kept_memory_that_cannot_be_read_is_not_taken_for_an_empty_one(data):
    with raises("UNAVAILABLE-REPLAY-MEMORY"):
        ReplayMemory.from_parts([data])
