"""Which brokers are inside, which are beyond a border, and who is no broker at all (C18)."""

from __future__ import annotations

import pytest

from maia.credentials import Action, SignedCertificate
from maia.testing import Cast, Net
from maia.testing.cast import key_of
from maia.wire.effects import LinkId

OURS, PEER = "our broker", "their broker"
EVERYTHING_ELSE = (Action.CONNECT, Action.SERVE, Action.INSTALL)


def the_cast() -> Cast:
    return Cast.of("trust", "doctor", of_type="Prescription", drug="string").domain("hospital", OURS)


def invited(cast: Cast) -> SignedCertificate:
    return cast.grant("trust", key_of("audit", cast.seed), cast.network, *EVERYTHING_ELSE, may_delegate=True)


def met(cast: Cast, *shown: SignedCertificate) -> tuple[Net, set[LinkId], set[LinkId]]:
    """Return a network in which a peer joins our broker with certificates: its links there, and borders."""
    net = Net(cast)
    ours = net.broker(OURS)
    net.broker(PEER, seeds=[OURS], credentials=shown)
    net.settle()
    parts = net.brokers[ours.name].parts
    peer = cast.identity(PEER)[0].principal
    links = {link.id for link in parts.links.values() if link.peer == peer and link.is_ready}
    return net, links, links & parts.routes.borders


def of_hospital(cast: Cast) -> tuple[SignedCertificate, ...]:
    """Return that the hospital was invited, as its own broker shows it."""
    return tuple(one for one in cast.wallets[OURS] if one.certificate.subject != cast.keys[OURS].principal)


def test_a_broker_of_the_same_organisation_is_inside() -> None:
    cast = the_cast()
    key = cast.identity(PEER)[0]
    _, links, borders = met(cast, *of_hospital(cast), cast.broker_right(key, by="hospital"))
    assert links
    assert not borders


@pytest.mark.parametrize("by", ["trust", "audit"])
@pytest.mark.parametrize("actions", [(Action.CONNECT,), EVERYTHING_ELSE], ids=["connect", "all"])
def test_a_broker_of_another_organisation_is_beyond_a_border_whoever_lets_it_connect(
    by: str, actions: tuple[Action, ...]
) -> None:
    """Also if our organisation gives it every right but the one to be its broker."""
    cast = the_cast()
    key, issuer = cast.identity(PEER)[0], cast.keys.get(by) or key_of(by, cast.seed)
    connects = cast.grant("hospital", key, cast.network, *actions)
    shown = *of_hospital(cast), invited(cast), connects, cast.broker_right(key, by=issuer)
    _, links, borders = met(cast, *shown)
    assert links
    assert links == borders


@pytest.mark.parametrize("may_delegate", [False, True])
def test_who_was_made_no_broker_is_refused_and_told_what_to_do(may_delegate: bool) -> None:
    cast = the_cast()
    key = cast.identity(PEER)[0]
    right = cast.grant("hospital", key, cast.network, *EVERYTHING_ELSE, may_delegate=may_delegate)
    net, links, _ = met(cast, *of_hospital(cast), right)
    assert not links
    (bye, *_) = net.brokers[PEER].noted("bye")
    assert bye["code"] == "REFUSED-NOT-A-BROKER"
    assert "maia broker add" in bye["why"]
    assert "maia up" in bye["why"]


@pytest.mark.parametrize("name", ["hospital", "trust"])
def test_the_key_of_an_organisation_is_refused_as_a_broker(name: str) -> None:
    cast = the_cast()
    net = Net(cast)
    ours = net.broker(OURS)
    net.broker(name, seeds=[OURS], credentials=cast.wallets[OURS])
    net.settle()
    key = cast.keys[name].principal
    assert not [link for link in ours.parts.links.values() if link.peer == key and link.is_ready]
    assert {one["code"] for one in net.brokers[name].noted("bye")} == {"REFUSED-NOT-A-BROKER"}


def test_a_client_needs_no_broker_certificate() -> None:
    cast = the_cast()
    net = Net(cast)
    net.broker(OURS)
    assert net.client("doctor", OURS).bye is None
