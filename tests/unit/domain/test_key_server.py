"""A key server and what peers may say to it: members, strangers, and those who speak out of turn."""

from __future__ import annotations

import pytest

from maia.credentials import Action, TypePattern, Validity, certificate_to_bytes, parse_name_pattern
from maia.domain import DomainLimits, DomainSettings
from maia.sealing.keys.delivery import SessionKey
from maia.sealing.keys.key_ring import KeyTerms
from maia.sealing.member.settings import MemberSettings
from maia.testing import grant as granted
from maia.testing.refusals import raises
from maia.types import SealingLevel, definition_to_bytes
from maia.wire.codec import Unsendable, decode, encode
from maia.wire.effects import Close, LinkId, LinkOpened, Received, Send, Tick
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Bye,
    ExpectMember,
    Failed,
    Greeting,
    GroupKeys,
    Hello,
    JoinGroups,
    KeysHeld,
    LeaveGroups,
    Ping,
    Pong,
    Publish,
    Rekey,
    Welcome,
    WhoWrites,
    Writer,
)
from maia.wire.names import network_to_bytes
from support.key_groups import (
    ADDRESS,
    MANAGER,
    NETWORK,
    OWNER,
    PLATE,
    TYPE_NAME,
    UIDS,
    WRITE,
    KeyNet,
    at,
    connects,
    grant,
    key_of,
    random_from,
    sealed_type,
)


class Peer:
    """Somebody with a key who says whatever it likes to a server."""

    def __init__(self, net, name="peer", link=1000):
        self.net, self.key, self.link = net, key_of(name), LinkId(link)
        self.session = SessionKey(random_from(name.encode()))
        self.heard = []
        self.is_closed = False
        self._take(net.server.handle(LinkOpened(self.link, self.key.principal, None), net.now))

    def say(self, message):
        self._take(self.net.server.handle(Received(self.link, encode(message)), self.net.now))
        return self

    def tick(self, moment):
        self.net.now = moment
        self._take(self.net.server.handle(Tick(), moment))

    def _take(self, effects):
        for effect in effects:
            match effect:
                case Send(link=self.link, data=data):
                    self.heard.append(decode(data))
                case Close(link=self.link):
                    self.is_closed = True

    def hello(self, *pool, network=NETWORK, version=PROTOCOL_VERSION):
        shown = [certificate_to_bytes(one) for one in pool or (connects(self.key),)]
        return self.say(Hello(version, network_to_bytes(network), shown, bytes(16), None))

    def join(self, *pool, definitions=None, manager=MANAGER, head=None, number=7):
        (greeting,) = [one for one in self.heard if isinstance(one, Greeting)]
        shown = self.session.signed(self.key, manager=manager.principal, session=greeting.instance)
        given = [definition_to_bytes(self.net.event_type.signed)] if definitions is None else definitions
        pool = [certificate_to_bytes(one) for one in pool]
        return self.say(JoinGroups(number, given, pool, shown.key, shown.signature, head))

    @property
    def last(self):
        return self.heard[-1]


@pytest.fixture
def net():
    return KeyNet()


def test_a_member_is_greeted_welcomed_and_let_in(net):
    peer = Peer(net).hello().join(grant(key_of("peer")))
    assert [type(one) for one in peer.heard] == [Greeting, Welcome, GroupKeys]
    assert peer.last.id == 7
    assert net.epoch() == 1


def test_nothing_is_heard_before_hello(net):
    for message in (Ping(1), KeysHeld(bytes(32), 0, None), LeaveGroups(bytes(32))):
        peer = Peer(net, link=message.__class__.__name__.__hash__()).say(message)
        assert isinstance(peer.last, Bye)
        assert peer.last.code == "PROTOCOL-OUT-OF-TURN"
        assert peer.is_closed


def test_whoever_may_not_be_part_of_the_network_is_not_welcomed(net):
    for pool, code in (
        ([grant(key_of("peer"))], "POLICY-NO-CHAIN"),
        ([connects(key_of("peer"), Validity(None, at(-1)))], "POLICY-GRANT-EXPIRED"),
    ):
        peer = Peer(net).hello(*pool)
        assert peer.is_closed
        assert isinstance(peer.last, Bye)
        assert code[:7] == peer.last.code[:7]
    assert Peer(net).hello(network=type(NETWORK)(OWNER.principal, "Other")).is_closed
    assert Peer(net).hello(version=99).is_closed


def test_a_second_hello_and_what_brokers_say_end_the_link(net):
    assert Peer(net).hello().hello().is_closed
    assert Peer(net).hello().say(Publish(1, 1, int(net.now), 1, [])).is_closed


def test_a_handshake_that_takes_too_long_ends(net):
    peer = Peer(net)
    peer.tick(at(9.9))
    assert not peer.is_closed
    peer.tick(at(10))
    assert peer.is_closed


def test_a_right_to_connect_that_ends_ends_the_link(net):
    peer = Peer(net).hello(connects(key_of("peer"), Validity(None, at(30)))).join(grant(key_of("peer")))
    peer.tick(at(30))
    assert not peer.is_closed
    peer.tick(at(30.000001))
    assert peer.is_closed


def test_a_silent_peer_is_asked_and_then_left(net):
    """It is looked after three times in a lease, as every peer of every node."""
    peer = Peer(net).hello()
    for second in (20, 40, 60):
        peer.tick(at(second))
    assert isinstance(peer.last, Ping)
    peer.say(Pong(peer.last.nonce))
    for second in (80, 100, 120, 140):
        peer.tick(at(second))
    assert isinstance(peer.last, Ping)
    assert not peer.is_closed
    peer.tick(at(160))
    assert peer.is_closed


def test_links_have_a_limit():
    net = KeyNet(limits=DomainLimits(links=2, links_before_welcome=1))
    one = Peer(net, "one", 1)
    one.hello()
    three = Peer(net, "three", 3)
    assert not three.is_closed
    three.hello()
    assert Peer(net, "four", 4).is_closed


def test_requests_have_a_quota():
    net = KeyNet(limits=DomainLimits(joins_per_minute=3))
    peer = Peer(net).hello()
    for _ in range(4):
        peer.join()
    assert peer.last == Failed(7, "UNAVAILABLE-REQUEST-QUOTA", "more than 3 requests in a minute: slow down")
    again = Peer(net, link=1001).hello().join()  # another link has the same quota
    assert again.last.code == "UNAVAILABLE-REQUEST-QUOTA"
    again.tick(at(60))
    assert again.join().last.code != "UNAVAILABLE-REQUEST-QUOTA"


@pytest.mark.parametrize(
    ("definitions", "code"),
    [
        ([], "INPUT-JOIN-GROUPS"),
        ([b"nonsense"], None),
        ([definition_to_bytes(sealed_type(manager=key_of("other")).signed)], "REFUSED-NOT-MANAGED-HERE"),
        (
            [
                definition_to_bytes(sealed_type().signed),
                definition_to_bytes(sealed_type(name="uk.gov.Other").signed),
            ],
            "INPUT-JOIN-GROUPS",
        ),
    ],
)
def test_only_types_whose_owner_named_this_server_are_run_here(net, definitions, code):
    peer = Peer(net).hello().join(grant(key_of("peer")), definitions=definitions)
    assert isinstance(peer.last, Failed)
    assert code is None or peer.last.code == code
    assert net.server.status(net.now)["types"] == 0


def test_who_has_no_right_gets_nothing_and_leaves_nothing_behind(net):
    peer = Peer(net).hello().join(grant(key_of("somebody else")))
    assert peer.last.code == "REFUSED-NO-KEY-GROUP"
    assert net.server.status(net.now)["types"] == 0
    assert net.kept == {}


def test_an_encryption_key_that_somebody_else_signed_is_refused(net):
    peer = Peer(net).hello()
    peer.join(grant(key_of("peer")), manager=key_of("other"))
    assert isinstance(peer.last, Failed)
    assert peer.last.code == "CREDENTIAL-SIGNATURE"


def test_an_encryption_key_of_small_order_costs_its_sender_the_keys_and_nobody_else(net):
    peer = Peer(net).hello()
    peer.session.public = bytes(32)
    peer.join(grant(key_of("peer")))
    assert peer.last.code == "CREDENTIAL-ENCRYPTION-KEY"
    assert net.kept == {}
    good = Peer(net, "good", 1002).hello().join(grant(key_of("good")))
    assert isinstance(good.last, GroupKeys)


def test_epochs_are_told_to_members_and_to_nobody_else(net):
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    outsider = Peer(net).hello()
    type_id = net.type_id
    assert outsider.say(KeysHeld(type_id, 0, None)).last == KeysHeld(type_id, 0, None)
    assert (
        outsider.say(WhoWrites(3, type_id, key_of("camera").principal.key)).last.code
        == "REFUSED-NOT-A-MEMBER"
    )
    member = Peer(net, "member", 1001).hello().join(grant(key_of("member"), since=-1))
    assert member.say(KeysHeld(type_id, 0, None)).last.number == 1
    net.run(5)
    heard = len(outsider.heard)
    net.serve(net.server.evict(key_of("camera").principal, net.now))
    assert len(outsider.heard) == heard


def test_members_are_told_with_which_certificates_somebody_publishes(net):
    writes = grant(key_of("camera"), actions=WRITE)
    net.member("camera", writes)
    net.member("reader", grant(key_of("reader")))
    peer = Peer(net).hello().join(grant(key_of("peer"), [PLATE]))
    told = peer.say(WhoWrites(3, net.type_id, key_of("camera").principal.key)).last
    assert isinstance(told, Writer)
    assert certificate_to_bytes(writes) in told.credentials
    assert peer.say(WhoWrites(4, net.type_id, key_of("reader").principal.key)).last.credentials == []
    assert peer.say(WhoWrites(5, net.type_id, key_of("nobody").principal.key)).last.credentials == []


def test_two_links_of_one_broker_are_one_member_until_both_are_gone(net):
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    one = Peer(net, "twin", 1000).hello().join(grant(key_of("twin"), until=100))
    two = Peer(net, "twin", 1001).hello().join(grant(key_of("twin"), until=100))
    manager = net.server.groups_of(net.type_id)
    one.say(LeaveGroups(net.type_id))
    assert manager.is_in(net.group(), key_of("twin").principal)
    two.say(Bye("CLOSED", "done"))
    assert not manager.is_in(net.group(), key_of("twin").principal)


def test_a_rekey_is_one_message_of_the_same_bytes_for_all(net):
    for number in range(9):
        net.member(f"m{number}", grant(key_of(f"m{number}"), since=-1))
    net.run_to(at(1000))  # the timer: everybody enters the trees
    net.trace.clear()
    net.run_to(at(2000))
    rekeys = [data for _, way, data in net.trace if way == "to member" and isinstance(decode(data), Rekey)]
    assert len(rekeys) == 9
    assert len(set(rekeys)) == 1


def test_a_change_too_large_for_a_message_is_asked_for_by_everybody(net, monkeypatch):
    def encoded(message):
        if isinstance(message, Rekey):
            raise Unsendable("too long")
        return encode(message)

    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.run_to(at(10))
    monkeypatch.setattr("maia.domain.keys.managed_types.encode", encoded)
    net.member("guest", grant(key_of("guest"), since=5))
    assert net.epoch() == 2
    assert net.holds(camera, PLATE)


def test_the_status_names_numbers_only(net):
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    status = net.server.status(net.now)
    assert status["members"] == 1
    (record,) = status["groups"].values()
    assert record["epoch"] == 1
    assert record["groups"] == 4
    assert record["members_here"] == 1


def test_levels_decide_which_groups_there_are():
    for level, groups in ((SealingLevel.EVENT, 1), (SealingLevel.ATTRIBUTE, 4)):
        net = KeyNet(level)
        camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
        assert len(camera.node.groups(net.type_id)) == groups


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_s": 0},
        {"terms": KeyTerms(refresh_s=0)},
        {"terms": KeyTerms(drift_s=-1)},
        {"terms": KeyTerms(drift_s=10, back_dating_s=11)},
        {"limits": DomainLimits(chains_per_request=0)},
    ],
)
def test_settings_that_no_server_can_keep_are_refused(wrong):
    with raises("INPUT-DOMAIN-SETTINGS"):
        DomainSettings(NETWORK, ADDRESS, (), **wrong)


def test_a_member_waits_for_nothing_without_an_end():
    with raises("INPUT-MEMBER-SETTINGS"):
        MemberSettings(NETWORK, (), answer_s=0)
    with raises("INPUT-MEMBER-SETTINGS"):
        MemberSettings(NETWORK, (), again_s=5, again_max_s=4)
    with raises("INPUT-MEMBER-SETTINGS"):
        MemberSettings(NETWORK, (), dial_again_s=0.0)


@pytest.mark.parametrize(("limit", "opened"), [(2, 2), (3, 3)])
def test_a_limit_that_keeps_a_group_shut_is_noted_and_counted(limit, opened):
    net = KeyNet(limits=DomainLimits(chains_per_request=limit))
    ann = net.member("ann", *(grant(key_of("ann"), [uid]) for uid in UIDS))
    ring, epoch = net.ring(ann), net.epoch()
    assert sum(ring.key(net.group(uid), epoch) is not None for uid in UIDS) == opened
    is_cut = opened < len(UIDS)
    assert net.counts.get("maia_grants_left_out_total", 0) == is_cut
    codes = [note.fields["code"] for note in net.notes if note.event == "grants-left-out"]
    assert codes == ["POLICY-GRANTS-LEFT-OUT"] * is_cut


def expected(net, peer, *pool, number=9, principal="city"):
    """Let a peer say that somebody will ask for keys."""
    shown = [certificate_to_bytes(one) for one in pool]
    given = [definition_to_bytes(net.event_type.signed)]
    return peer.say(ExpectMember(number, key_of(principal).principal.key, given, shown)).last


def test_a_right_that_is_made_known_begins_keys_and_hands_out_none(net):
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.run(10)
    domain = Peer(net, "domain").hello()
    assert expected(net, domain, grant(key_of("city"), [PLATE], since=10)) == Accepted(9, None)
    assert net.epoch() == 2
    assert not any(isinstance(one, GroupKeys | Rekey) for one in domain.heard)
    assert expected(net, domain, grant(key_of("city"), [PLATE], since=10)) == Accepted(9, None)
    assert net.epoch() == 2, "it is known already"


def test_a_right_that_is_renewed_begins_no_keys(net):
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    first = grant(key_of("city"), [PLATE], until=500)
    net.expect("city", first)
    net.run(400)
    net.expect("city", first, grant(key_of("city"), [PLATE], since=400, until=900))
    assert net.epoch() == 1


def test_only_what_verifies_begins_keys(net):
    """A116: a peer without a certificate of the owner costs the server an answer, and no key."""
    net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.run(10)
    domain = Peer(net, "domain").hello()
    types = TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None)
    forged = granted(key_of("domain"), key_of("city"), types, Action.SUBSCRIBE)
    for pool in ([], [forged], [grant(key_of("other"), [PLATE])], [grant(key_of("city"), until=5)]):
        assert expected(net, domain, *pool).code == "REFUSED-NO-KEY-GROUP"
    net.serve(net.server.evict(key_of("city").principal, net.now))
    before = net.epoch()
    assert expected(net, domain, grant(key_of("city"), [PLATE], since=10)).code == "REFUSED-NO-KEY-GROUP"
    assert net.epoch() == before == 1
    stranger = Peer(net, "stranger", link=2000)
    assert isinstance(expected(net, stranger, grant(key_of("city"), [PLATE], since=10)), Bye)
    assert net.server.groups_of(net.type_id).status()["members"] == 1


def test_rights_that_are_made_known_have_a_quota():
    net = KeyNet(limits=DomainLimits(joins_per_minute=2))
    domain = Peer(net, "domain").hello()
    said = [expected(net, domain, grant(key_of("city"), [PLATE]), number=n) for n in (1, 2, 3)]
    assert [type(one) for one in said] == [Accepted, Accepted, Failed]
