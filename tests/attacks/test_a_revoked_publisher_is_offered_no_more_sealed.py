"""Sealed offers fall with the certificate of their publisher, wherever it can be read; no others do."""

from __future__ import annotations

from itertools import count, islice

import pytest

from maia.credentials import Action, SignedCertificate, SigningKey, TestKind
from maia.routing.overlay.table import is_closer, node_id_of_key, node_id_of_type
from maia.testing import Issuer, NetBroker, NetClient
from maia.types import SealingLevel, type_id, validity_type_name
from maia.wire.messages import Interest, Offer, Resync, SealedDoubted
from support.numberplate import EVERY_KEY, SealedNet
from support.sealed_messages import is_sealed, sealed_of

CAMERAS = [SigningKey.from_seed(bytes([number]) * 32) for number in (60, 61)]


class Town:
    """A rendezvous with keys, a broker without, and edges that repeat what they carried."""

    def __init__(self, level: SealingLevel = SealingLevel.ATTRIBUTE) -> None:
        self.net = SealedNet(level, verify_in_transit=1.0)
        self.keyless, self.reader, self.met = self.net.three()
        for running in (self.reader, self.met):
            self.net.hold(running, *EVERY_KEY)
        self.issuer = Issuer(self.net, "CCS")
        self.issuer.vouch(3600)
        office = self.net.client("billing office", self.reader.name)
        assert office.was_accepted(office.subscribe())
        self.rights = [self._right(camera) for camera in CAMERAS]
        self.offers = [self._offer(number) for number in range(2)]

    def _right(self, camera: SigningKey) -> SignedCertificate:
        story = self.net.cast
        return story.grant("CCS", camera.principal, story.definition, Action.PUBLISH, test=TestKind.TIMED_CRL)

    def _offer(self, number: int) -> Offer:
        """Let a camera come to an honest broker and go, and return what that told of it."""
        camera, net = CAMERAS[number], self.net
        through_ccs = net.cast.issued("PITO to CCS", Action.PUBLISH)
        pool = (net.cast.connect_right(camera.principal), through_ccs, self.rights[number])
        client = net.client(f"camera {number}", "Met broker", key=camera, credentials=pool)
        client.advertise()  # from now on, the broker receives a peer that must confirm it
        net.advance(5)
        ref = client.advertise(stream=b"another stream..")  # else a newer request for the same
        assert client.was_accepted(ref), client.heard
        told = [one for _, _, one in net.carried if is_sealed(one, Offer) and one.stands]
        client.hang_up()
        return told[-1]

    def bystander(self, number: int) -> SigningKey:
        """Return a key whose holder is no peer's rendezvous: an edge here passes nothing on."""
        name = validity_type_name(self.issuer.key.principal)
        points = [node_id_of_type(one) for one in (self.net.type_id, type_id(name.owner, name.name))]
        brokers = [node_id_of_key(one.key.principal.key) for one in self.net.brokers.values()]

        def leads_nowhere(key: SigningKey) -> bool:
            node = node_id_of_key(key.principal.key)
            return all(any(is_closer(one, than=node, target=point) for one in brokers) for point in points)

        keys = (SigningKey.from_seed(seed.to_bytes(32)) for seed in count(1))
        return next(islice((key for key in keys if leads_nowhere(key)), number, None))

    def edge(self, number: int, at: NetBroker) -> NetClient:
        """Connect a broker that says what another one said of a camera, as its own."""
        key = self.bystander(number)
        right, address = (self.net.cast.broker_right(key),), f"edge{number}:1"
        edge = self.net.client(address, at.name, key=key, credentials=right, address=address)
        return edge.say(self.offers[number])

    def is_wanted(self, at: NetBroker, by: NetBroker) -> bool:
        """Return whether a broker is told by another one that something is wanted there."""
        book = at.parts.routes.book
        return bool(book.entries(node_id_of_key(by.key.principal.key), self.net.key))


def wanted_from(edge: NetClient) -> int:
    """Return how many interests an edge was told and has not been told to forget."""
    return sum(len(one.add) - len(one.remove) for one in sealed_of(edge.all_heard(Interest)))


@pytest.mark.parametrize("level", [SealingLevel.EVENT, SealingLevel.ATTRIBUTE])
def test_a_sealed_offer_falls_with_the_certificate_of_its_publisher(level: SealingLevel) -> None:
    """A35, A67: within its epoch, at a broker that is not the publisher's; and it does not come back."""
    town = Town(level)
    edge = town.edge(0, town.reader)
    assert wanted_from(edge) == 1
    town.issuer.revoke(town.rights[0])
    assert wanted_from(edge) == 1, "an honest edge has a moment to offer on behalf of another"
    town.net.advance(3)
    assert wanted_from(edge) == 0
    edge.say(town.offers[0])
    assert wanted_from(edge) == 0
    assert town.reader.noted("refused")[0]["asked"] == "Offer"
    assert town.reader.counts["maia_refused_total"] == 2


def test_a_sealed_offer_is_asked_for_again_when_its_publisher_may_publish_again() -> None:
    """A41: the list was a mistake, and the next one does not name the camera."""
    town = Town()
    edge = town.edge(0, town.reader)
    town.issuer.revoke(town.rights[0])
    town.net.advance(3)
    assert edge.all_heard(Resync) == []
    town.issuer.says.revoked.clear()
    town.issuer.state(town.issuer.says.list_now())
    assert len(edge.all_heard(Resync)) == 1
    edge.say(town.offers[0])
    assert wanted_from(edge) == 1


def test_a_sealed_offer_that_was_refused_at_once_is_asked_for_again_too() -> None:
    """A41: the camera was on the list when its broker came, and is on no list any more."""
    town = Town()
    town.issuer.revoke(town.rights[0])
    edge = town.edge(0, town.reader)
    assert wanted_from(edge) == 0
    town.issuer.says.revoked.clear()
    town.issuer.state(town.issuer.says.list_now())
    assert len(edge.all_heard(Resync)) == 1
    edge.say(town.offers[0])
    assert wanted_from(edge) == 1


def test_a_sealed_offer_stands_while_its_publisher_may_publish() -> None:
    """A35: the right of another publisher is revoked."""
    town = Town()
    edge = town.edge(0, town.reader)
    town.issuer.revoke(town.rights[1])
    town.net.advance(3)
    assert wanted_from(edge) == 1
    assert not town.reader.noted("refused")


def test_who_cannot_read_an_offer_is_told_that_it_is_doubted_and_tells_of_another() -> None:
    """A35, A67: two publishers behind a broker without keys; the second is not silenced with the first."""
    town = Town()
    first, second = town.edge(0, town.keyless), town.edge(1, town.keyless)
    assert town.is_wanted(town.keyless, by=town.reader)
    town.issuer.revoke(town.rights[0])
    for seconds in (0, 1, 3, 30):
        town.net.advance(seconds)
        assert town.is_wanted(town.keyless, by=town.reader), seconds
    assert [one.ids for one in first.all_heard(SealedDoubted)] == [[town.offers[0].proof.seal]]
    assert second.all_heard(SealedDoubted) == []
    assert not town.reader.noted("refused")


def test_where_there_is_no_other_publisher_the_offer_of_a_broker_without_keys_falls() -> None:
    """A35: it cannot know whose offer it carries; a peer that reads it does."""
    town = Town()
    town.edge(0, town.keyless)
    assert town.is_wanted(town.keyless, by=town.reader)
    town.issuer.revoke(town.rights[0])
    town.net.advance(3)
    assert not town.is_wanted(town.keyless, by=town.reader)


def test_doubts_without_reason_take_nothing_away() -> None:
    """A67: a peer says of every offer that it is doubted, and of some that no peer made."""
    town = Town()
    first, _ = town.edge(0, town.keyless), town.edge(1, town.keyless)
    liar = town.edge(1, town.reader)
    for one in (first, liar):
        one.say(
            SealedDoubted(town.net.type_id, [town.offers[0].proof.seal, town.offers[1].proof.seal, b"x" * 16])
        )
    town.net.advance(30)
    assert town.is_wanted(town.keyless, by=town.reader)
    assert wanted_from(liar) == 1
