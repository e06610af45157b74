"""What a peer shows to a broker and is refused for is gone with the refusal."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from maia.broker.interests.entries import new_proof
from maia.credentials import SigningKey
from maia.predicates import ALWAYS
from maia.testing import NetClient
from maia.types import type_id
from maia.wire.messages import Interest, Offer, Wanted
from maia.wire.names import filter_to_bytes
from support.numberplate import Net

CERTIFICATE = 32 << 10
MESSAGES = 32
ROGUE = SigningKey.from_seed(b"\x0f" * 32)


@pytest.mark.parametrize("told", ["interest", "offer"])
@pytest.mark.parametrize("length", [1, 32])
def test_long_chains_that_were_made_up_are_not_remembered(told: str, length: int) -> None:
    """A74, A89: a message has room for sixteen megabytes of them, and a broker may send many messages."""
    net = Net(verify_in_transit=1.0)
    broker = net.broker()
    rogue = net.client(
        "a rogue broker",
        key=ROGUE,
        credentials=(net.cast.broker_right(ROGUE),),
        address="rogue:1",
    )
    say(net, rogue, told, 0, length)  # whatever is made once is made before
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(1, 1 + MESSAGES):
            say(net, rogue, told, number, length)
        gc.collect()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Interests of two megabytes take more work than one message may, and end the link.
    assert broker.noted("refused") or broker.counts["maia_links_refused_total"] == 1
    assert kept < MESSAGES * length * CERTIFICATE // 2  # whatever was noted about it included


def say(net: Net, rogue: NetClient, told: str, number: int, length: int) -> None:
    name = net.cast.type_name
    kind = type_id(name.owner, name.name)
    made_up = [bytes((number, place)) + bytes(CERTIFICATE) for place in range(length)]
    if told == "interest":
        wanted = Wanted(b"%016d" % number, filter_to_bytes(ALWAYS), None, made_up)
        rogue.say(Interest(kind, [wanted], []))
    else:
        rogue.say(Offer(kind, True, None, made_up))


def test_chains_that_many_requests_have_in_common_are_kept_once() -> None:
    """A client wants many things by the same certificates."""
    one, other = (new_proof(None, [b"chain " + number]).credentials for number in (b"1", b"1"))
    assert one is other
