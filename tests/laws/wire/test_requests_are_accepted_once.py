"""However the clock steps and whenever the broker restarts, no request is accepted twice."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.errors import Refusal, Unavailable
from maia.events import Instant
from maia.wire import ReplayMemory, verify_request
from support.wire import CLIENT, NETWORK, NOON, OTHER, signed

SECOND = 1_000_000
SKEW_S = 3

# Signed once: the law draws which of them are accepted, and when.
REQUESTS = [
    signed(key=key, at=Instant(NOON + offset * SECOND), nonce=bytes([number]) * 16)
    for number, (key, offset) in enumerate((key, offset) for key in (CLIENT, OTHER) for offset in range(8))
]

STEPS = st.lists(
    st.tuples(
        st.integers(0, len(REQUESTS) - 1),
        st.integers(-6, 14),
        st.sampled_from(("stay", "stay", "restart", "restart from pages")),
    ),
    max_size=40,
)


@pytest.mark.laws
@given(STEPS, st.integers(1, 20))
@example([(0, 0, "stay"), (7, 7, "stay"), (0, 0, "stay")], 20)
@example([(0, 0, "restart"), (0, 0, "stay")], 20)
@example([(0, 0, "stay"), (7, 7, "restart from pages"), (0, 0, "stay")], 20)
def test_no_request_is_accepted_twice(steps, entries_max):
    memory = ReplayMemory(entries_max=entries_max)
    accepted: set[int] = set()
    for number, clock_s, then in steps:
        if _accepts(memory, number, Instant(NOON + clock_s * SECOND)):
            assert number not in accepted
            accepted.add(number)
        memory = _after(then, memory, entries_max)
        assert len(memory) <= entries_max


def _accepts(memory: ReplayMemory, number: int, now: Instant) -> bool:
    request = REQUESTS[number]
    peer = request.signer
    try:
        verify_request(request, at=now, skew_s=SKEW_S, memory=memory, network=NETWORK, peer=peer)
    except (Refusal, Unavailable):
        return False
    assert abs(now - request.request.at) <= SKEW_S * SECOND
    return True


def _after(then: str, memory: ReplayMemory, entries_max: int) -> ReplayMemory:
    if then == "stay":
        return memory
    pages = [None] if then == "restart" else range(64)
    return ReplayMemory.from_parts([memory.to_bytes(page) for page in pages], entries_max=entries_max)
