"""Whatever a peer says, a broker answers or hangs up. It never fails, and the others notice nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maia.credentials import SigningKey
from maia.testing import NetClient
from maia.wire.codec import encode
from maia.wire.messages import Message
from support.numberplate import SUSPECT, Net, sighting
from support.random_cases import usually
from support.wire import messages, mutated

ROGUE = SigningKey.from_seed(b"\x21" * 32)


def standing_city() -> tuple[Net, NetClient, NetClient, int]:
    net = Net()
    net.broker()
    camera, detective = net.client("camera at Victoria"), net.client("Detective Smith")
    detective.subscribe()
    return net, camera, detective, camera.advertise()


def hostile(net: Net, *, as_broker: bool) -> NetClient:
    credentials = (net.cast.broker_right(ROGUE),)
    address = "rogue:1" if as_broker else None
    return net.client("hostile", key=ROGUE, credentials=credentials, address=address)


@pytest.mark.laws
@settings(max_examples=usually(12, laws=40))  # each one is a small city
@given(st.lists(messages(), min_size=1, max_size=8), st.booleans())
def test_any_messages_in_any_order_harm_no_other_peer(said: list[Message], as_broker: bool) -> None:
    net, camera, detective, ref = standing_city()
    for message in said:
        peer = hostile(net, as_broker=as_broker)
        peer.say(message)
        peer.say(message)
    net.advance(1)
    camera.publish(ref, sighting(SUSPECT))
    assert not camera.closed
    assert [event["3265"] for event in detective.events()][-1] == SUSPECT


@pytest.mark.laws
@settings(max_examples=usually(20, laws=60))
@given(st.data(), st.booleans(), st.booleans())
def test_damaged_messages_harm_nobody_else(data: st.DataObject, as_broker: bool, before_hello: bool) -> None:
    net, camera, detective, ref = standing_city()
    peer = hostile(net, as_broker=as_broker)
    if before_hello:
        peer.hang_up()
        peer = net.client("hostile", key=ROGUE, credentials=(), says_hello=False)
    said = data.draw(mutated(encode(data.draw(messages()))))
    peer.say_bytes(said)
    camera.publish(ref, sighting(SUSPECT))
    assert len(detective.events()) == 1
