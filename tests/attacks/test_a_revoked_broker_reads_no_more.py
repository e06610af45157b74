"""A broker whose own right is taken back loses its keys, and neighbours share nothing with it any more."""

from __future__ import annotations

from maia.credentials import Action, Principal, SignedCertificate, TestKind, statement_to_bytes
from maia.sealing.groups.key_group import GroupId
from maia.testing import Issuer, NetBroker, address_of
from maia.wire.messages import Sealed, SealedWithPlaintext, Show
from support.numberplate import NUMBERPLATE, READ, WRITE, SealedNet, camera_and_reader, sighting

KEYS = "key server"


class RevokingNet(SealedNet):
    """Two brokers with keys from a key server, who hear what PITO states."""

    def __init__(self, *, is_vouched: bool = False) -> None:
        super().__init__(manager=KEYS, keys_at=(address_of(KEYS),))
        self.key_server()
        if is_vouched:
            self.rights = {name: (self._seeing(name),) for name in ("CCS broker", "Met broker")}
        else:
            self.entitle("CCS broker", READ, WRITE)
            self.entitle("Met broker", READ)
        self.right: SignedCertificate = self.rights["Met broker"][0]
        # A certificate of no use but that it demands PITO's word, so that both listen to PITO.
        for name in ("CCS broker", "Met broker"):
            self.rights[name] = (*self.rights[name], self._demanding(name))
        self.ccs, self.met = self.broker(), self.broker("Met broker", seeds=["CCS broker"])
        self.issuer = Issuer(self, "PITO")
        self.issuer.vouch(3600)

    def _demanding(self, name: str) -> SignedCertificate:
        to = self.cast.identity(name)[0].principal
        return self.cast.grant("PITO", to, self.cast.network, Action.CONNECT, test=TestKind.TIMED_CRL)

    def _seeing(self, name: str) -> SignedCertificate:
        to = self.cast.identity(name)[0].principal
        return self.cast.grant("PITO", to, self.cast.definition, READ, WRITE, test=TestKind.TIMED_CRL)

    def key_members(self) -> tuple[int, frozenset[Principal]]:
        """Return the newest epoch of the key server, and who shares the key of the type in it."""
        groups = self.brokers[KEYS].broker.groups_of(self.type_id)
        assert groups is not None
        return groups.number, groups.members(GroupId(self.type_id))

    def plaintext(self) -> int:
        return sum(isinstance(message, SealedWithPlaintext) for _, _, message in self.carried)

    def has_keys(self, running: NetBroker) -> bool:
        ring = running.parts.seals.ring_of(self.type_id)
        return ring is not None and any(ring.groups(epoch) for epoch in range(1, (ring.newest or 0) + 1))


def test_its_keys_are_gone_and_no_peer_behind_it_reads_on() -> None:
    """A35: with the right of a broker falls what it opens for its subscribers, a peer that they are."""
    net = RevokingNet()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert net.has_keys(net.met)
    net.issuer.revoke(net.right)
    net.advance(1)
    assert not net.has_keys(net.met)
    assert net.has_keys(net.ccs)
    camera.publish(1, sighting("LC05 DEF"))
    assert len(office.events()) == 1


def test_neighbours_share_no_plaintext_with_it() -> None:
    """A51: plaintext stops at the first link without the right, from the moment of the revocation on."""
    net = RevokingNet()
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    before = net.plaintext()
    assert before
    net.issuer.revoke(net.right)
    camera.publish(1, sighting("LC05 DEF"))
    assert net.plaintext() == before


def test_neighbours_share_no_plaintext_with_one_that_does_not_listen() -> None:
    """A51: it keeps its interest up as if nothing had been said, and is sent ciphertext alone."""
    net = RevokingNet()
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    before, net.met.alive = net.plaintext(), False
    net.issuer.revoke(net.right)
    camera.publish(1, sighting("LC05 DEF"))
    assert net.plaintext() == before
    assert isinstance(net.carried[-1][2], Sealed), "it is still sent something"


def test_what_it_signs_while_it_has_not_received_of_it_is_delivered_by_no_peer_who_has() -> None:
    """S1, A35: the statement is withheld from the signer alone; readers' brokers go by what they know."""
    net = RevokingNet()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    said = net.issuer.says.revoke(net.rights["CCS broker"][0])
    office.say(Show(77, [], [statement_to_bytes(said)]))
    camera.publish(1, sighting("LC05 DEF"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]
    assert net.met.counts["maia_frames_refused_total"] == 1


def test_other_certificates_leave_its_keys_alone() -> None:
    net = RevokingNet()
    camera, office = camera_and_reader(net)
    net.issuer.revoke(net.cast.broker_right(net.cast.identity("a broker that is gone")[0].principal))
    camera.publish(1, sighting("LC04 ABC"))
    assert net.has_keys(net.met)
    assert len(office.events()) == 1


def test_a_key_server_learns_of_it_from_those_who_stay() -> None:
    """A35: rights that must be confirmed open key groups; the key server needs no feed of its own."""
    net = RevokingNet(is_vouched=True)
    net.advance(10)
    assert net.has_keys(net.met)
    assert net.has_keys(net.ccs)
    before, members = net.key_members()
    assert members == {net.met.key.principal, net.ccs.key.principal}
    net.issuer.revoke(net.right)
    net.advance(1)
    after, members = net.key_members()
    assert members == {net.ccs.key.principal}
    assert after > before
    assert not net.has_keys(net.met)
    assert net.has_keys(net.ccs)


def test_a_key_server_that_receives_nothing_more_puts_every_peer_out_in_time() -> None:
    """A39: a peer that withholds statements from members and key server prolongs nothing."""
    net = RevokingNet(is_vouched=True)
    net.advance(3700)
    assert net.key_members()[1] == frozenset()
    assert not net.has_keys(net.met)
