"""A request counts at other brokers for minutes, and no longer than its client's newest one (A106, C15)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from maia.credentials import Action, SigningKey
from maia.predicates import ALWAYS
from maia.routing.table.interests import Tally, digest_of_filter, mark_of_interest
from maia.testing import NetClient, shown
from maia.wire.messages import Carried, Interest, Offer, Renew, Wanted
from maia.wire.names import filter_to_bytes
from support.numberplate import SUSPECT, Net, sighting

ROGUE = SigningKey.from_seed(b"\x0f" * 32)
AGE_S, SKEW_S = 900, 30
SHOWN = b"w" * 16


@pytest.fixture
def net() -> Net:
    net = Net(verify_in_transit=1.0, proof_age_s=AGE_S, skew_s=SKEW_S, open_borders=True)
    net.broker()
    return net


def rogue_broker(net: Net, at: str = "") -> NetClient:
    """Connect a broker that was shown the requests of clients, and keeps them."""
    credentials = (net.cast.broker_right(ROGUE),)
    return net.client(
        "a rogue broker", at or net.first, key=ROGUE, credentials=credentials, address="rogue:1"
    )


def wants(net: Net, rogue: NetClient, request: bytes, entry_id: bytes = SHOWN) -> None:
    """Let a broker want everything on behalf of the client that signed a request."""
    wanted = Wanted(entry_id, filter_to_bytes(ALWAYS), request, shown(net.cast.certificates))
    rogue.say(Interest(net.type_id, [wanted], []))


def renewing(net: Net, rogue: NetClient) -> Callable[[], None]:
    """Return what keeps up the lease of all that a broker wants."""
    tally = Tally()
    tally.add(mark_of_interest(net.type_id, SHOWN, digest_of_filter(ALWAYS)))
    return lambda: rogue.say(Renew(tally.count, tally.digest)) and None


def carried_to(net: Net, rogue: NetClient, camera: NetClient) -> int:
    """Publish a car, and return how many frames the broker has got of it."""
    before = len(rogue.all_heard(Carried))
    camera.publish(camera.advertise(ref=77), sighting(SUSPECT))
    return len(rogue.all_heard(Carried)) - before


def detective_of(net: Net) -> NetClient:
    return NetClient(net, net.cast.keys["Detective Smith"], net.cast.certificates)


def refusals(net: Net) -> list[object]:
    return [one["code"] for one in net.brokers[net.first].noted("refused")]


def test_what_a_client_has_not_signed_again_ends_although_its_broker_renews_it(net: Net) -> None:
    """A106: after its client has gone, after its lease; the broker goes on with renewals that agree."""
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    wants(net, rogue, detective_of(net).request(Action.SUBSCRIBE))
    net.live(AGE_S, renewing(net, rogue))
    assert carried_to(net, rogue, camera) == 1
    net.live(60, renewing(net, rogue))
    assert carried_to(net, rogue, camera) == 0
    assert refusals(net) == ["REQUEST-TOO-LATE"]


@pytest.mark.parametrize(("after_s", "frames"), [(AGE_S - 60, 1), (AGE_S + SKEW_S + 1, 0)])
def test_what_was_shown_once_is_not_repeated_later_at_another_broker(after_s: int, frames: int) -> None:
    """A106: at a broker that never heard of it, by one that was shown it once; in time, it counts."""
    net = Net(verify_in_transit=1.0, proof_age_s=AGE_S, skew_s=SKEW_S, open_borders=True)
    request = detective_of(net).request(Action.SUBSCRIBE)
    net.advance(after_s)
    net.broker()
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    wants(net, rogue, request)
    assert carried_to(net, rogue, camera) == frames


def test_an_older_request_counts_no_more_once_a_newer_one_was_seen(net: Net) -> None:
    """A106: the client has moved to another broker and asked again; the first one repeats what it has."""
    camera, rogue, smith = net.client("camera at Victoria"), rogue_broker(net), detective_of(net)
    old = smith.request(Action.SUBSCRIBE)
    net.advance(1)
    honest_key = SigningKey.from_seed(b"\x0e" * 32)
    credentials = (net.cast.broker_right(honest_key),)
    honest = net.client(
        "another broker", net.first, key=honest_key, credentials=credentials, address="good:1"
    )
    wants(net, honest, smith.request(Action.SUBSCRIBE))
    wants(net, rogue, old)
    assert carried_to(net, rogue, camera) == 0
    assert refusals(net) == ["REQUEST-SUPERSEDED"]
    assert len(honest.all_heard(Carried)) == 1


def test_an_unsigned_newer_request_displaces_none(net: Net) -> None:
    """A106, A67: what is remembered was signed by the client itself, so no broker can silence it."""
    camera, rogue, smith = net.client("camera at Victoria"), rogue_broker(net), detective_of(net)
    good = smith.request(Action.SUBSCRIBE)
    wants(net, rogue, smith.request(Action.SUBSCRIBE, at=net.now + 5, signed_by=ROGUE), b"x" * 16)
    altered = bytearray(smith.request(Action.SUBSCRIBE, at=net.now + 5))
    altered[-10] ^= 1
    wants(net, rogue, bytes(altered), b"y" * 16)
    wants(net, rogue, good)
    assert carried_to(net, rogue, camera) == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_age_counts_also_where_proofs_are_not_verified(share: float) -> None:
    """A106, C9: a broker that verifies nothing reads the moment of a request all the same."""
    net = Net(verify_in_transit=share, proof_age_s=AGE_S, skew_s=SKEW_S, open_borders=True)
    request = detective_of(net).request(Action.SUBSCRIBE)
    net.advance(AGE_S + SKEW_S + 1)
    net.broker()
    camera, rogue = net.client("camera at Victoria"), rogue_broker(net)
    wants(net, rogue, request)
    assert carried_to(net, rogue, camera) == 0


def test_an_old_offer_brings_no_frames_in(net: Net) -> None:
    """A106: a camera that was switched off is not offered for ever by the broker that it once asked."""
    camera, rogue = (
        NetClient(net, net.cast.keys["camera at Victoria"], net.cast.certificates),
        rogue_broker(net),
    )
    offer = Offer(net.type_id, True, camera.request(Action.PUBLISH), shown(net.cast.certificates))
    rogue.say(offer)
    book = net.brokers[net.first].parts.routes.book
    (hop,) = book.neighbours()
    assert book.offers(hop, net.type_id)
    net.advance(AGE_S + SKEW_S + 1)
    rogue.say(offer)
    assert not book.offers(hop, net.type_id)
    assert "REQUEST-TOO-LATE" in refusals(net)
