"""What somebody shows to a broker and is refused for is gone with the refusal."""

from __future__ import annotations

import tracemalloc

from maia.broker.tells import new_proof

MEGABYTE = 1 << 20


def test_long_chains_that_were_made_up_are_not_remembered() -> None:
    """A74: one message has room for sixteen megabytes of them, and many messages may come."""
    tracemalloc.start()
    try:
        for number in range(32):
            new_proof(None, [number.to_bytes(2) + bytes(MEGABYTE)])
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < MEGABYTE


def test_chains_that_many_requests_have_in_common_are_kept_once() -> None:
    """A client wants many things by the same certificates."""
    one, other = (new_proof(None, [b"chain " + number]).credentials for number in (b"1", b"1"))
    assert one is other
