"""A38: what a broker says of its own trouble, it says to those whose request it has permitted."""

from __future__ import annotations

from maia.wire.messages import Accepted, Failed, Warned
from support.numberplate import SealedNet


class NoKeysNet(SealedNet):
    """Brokers that have no right to the sealed type."""

    keys_by_hand = False


def test_a_refused_client_receives_nothing_of_keys_and_a_permitted_one_receives_the_reason():
    """A38: the refusal of a reader without a right is the same whether its broker holds keys or not."""
    net, keyed = NoKeysNet(), SealedNet()
    keyed.hold(keyed.broker(), None)
    net.broker()
    office, stranger = net.client("billing office"), net.client("camera at Victoria")
    office.subscribe()
    assert (office.last(Accepted).id, office.last(Warned).code) == (1, "UNAVAILABLE-NO-KEYS")
    with_keys = keyed.client("camera at Victoria")
    for client in (stranger, with_keys):
        client.subscribe()
    assert stranger.last(Failed) == with_keys.last(Failed)
    assert stranger.last(Failed).code.startswith("POLICY-")
    assert not stranger.all_heard(Warned)


def test_a_refused_publisher_receives_nothing_of_keys_either():
    """A38: the right to publish is decided before anything is said of keys."""
    net = NoKeysNet()
    net.broker()
    office, camera = net.client("billing office"), net.client("camera at Victoria")
    office.advertise()
    camera.advertise()
    assert office.last(Failed).code.startswith("POLICY-")
    assert camera.last(Failed).code == "UNAVAILABLE-NO-KEYS"
