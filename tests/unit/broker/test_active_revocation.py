"""What falls with a certificate, what stays, and who is told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from maia.broker import BrokerLimits
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SigningKey,
    TestKind,
    Validity,
    statement_to_bytes,
)
from maia.events import AttributeUid, Instant, Kinds, Value, frame_of
from maia.predicates import Comparison, Operator
from maia.testing import Issuer, NetClient, Statements, shown
from maia.testing import grant as granted
from maia.types import validity_type_id
from maia.types.verified import STATEMENT, statement_to_event
from maia.wire.codec import decode, encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import Keep, Received, Send
from maia.wire.messages import Carried, Changed, Deliver, Ended, Interest, Publish, Published, Released, Show
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP, Net, sighting

BILLING = "billing office"
WATCHER = "statistics office"


def demanding(net: Net, who: str = BILLING, issuer: str = "CCS", **changes: object) -> SignedCertificate:
    """Return a certificate that lets somebody subscribe while the issuer vouches for it."""
    to = net.cast.principal(who)
    named = {"test": TestKind.TIMED_CRL, "attributes": frozenset({NUMBERPLATE, TIMESTAMP})} | changes
    return net.cast.grant(issuer, to, net.cast.definition, Action.SUBSCRIBE, **named)


def pool_with(
    net: Net, *certificates: SignedCertificate, who: str = BILLING
) -> tuple[SignedCertificate, ...]:
    """Return the story's certificates without the right of somebody to subscribe, and with these."""
    name = net.cast.type_name.name
    kept = [
        one
        for one in net.cast.certificates
        if one.certificate.subject != net.cast.principal(who)
        or name not in str(one.certificate.authority.resources)
    ]
    return (*kept, *certificates)


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


class Story:
    """A camera, a billing office whose right is tested, and the issuer of it, at one broker."""

    def __init__(
        self, net: Net, *, at: str = "CCS broker", vouched_s: float = 3600, **changes: object
    ) -> None:
        self.net = net
        self.right = demanding(net, **changes)
        self.issuer = Issuer(net, "CCS")
        self.issuer.vouch(vouched_s)
        self.billing = net.client(BILLING, at, credentials=pool_with(net, self.right))
        self.ref = self.billing.subscribe()
        self.camera = net.client("camera at Victoria")
        self.offer = self.camera.advertise()

    def sees(self) -> int:
        before = len(self.billing.events())
        self.camera.publish(self.offer, sighting())
        return len(self.billing.events()) - before


def test_a_revoked_right_ends_before_the_issuer_is_answered(net: Net) -> None:
    """A35: when the publication returns, no further event is delivered at this broker."""
    story = Story(net)
    story.issuer.revoke(story.right)
    assert story.billing.ended_with(story.ref) == "POLICY-REVOKED"
    assert story.sees() == 0
    assert not story.billing.closed


def test_other_brokers_are_told_of_a_revocation_before_it_is_acted_upon_here(net: Net) -> None:
    """A35: they have the same to do. Whatever happens next here finds it done."""
    net.broker("Met broker", seeds=["CCS broker"])
    story = Story(net)
    net.client(BILLING, at="Met broker", credentials=pool_with(net, story.right)).subscribe()
    broker, issuer = net.brokers["CCS broker"].broker, story.issuer
    revocation = statement_to_event(issuer.says.revoke(story.right))
    stated = publication(net, issuer.client, issuer.ref, revocation, {STATEMENT.uid: STATEMENT.kind})
    turn = broker.turn(net.now)
    turn.take([stated])
    assert [type(decode(one.data)) for one in turn.effects if isinstance(one, Send)] == [Released]
    said = turn.mark()
    turn.take([publication(net, story.camera, story.offer, sighting(), NUMBERPLATE_KINDS)])
    told = [decode(one.data) for one in turn.since(said) if isinstance(one, Send)]
    assert [one.code for one in told if isinstance(one, Ended)] == ["POLICY-REVOKED"]
    assert not any(isinstance(one, Deliver) for one in told)


def publication(
    net: Net, client: NetClient, ref: int, event: Mapping[AttributeUid, Value], kinds: Kinds
) -> Received:
    """Return a frame of one event as a broker receives it, which the net does not carry."""
    frame = frame_of([event], kinds)
    message = Publish(ref, client.next_sequence, int(net.now), 1, frame_to_columns(frame))
    links = net.brokers["CCS broker"].parts.links.values()
    return Received(next(one.id for one in links if one.peer == client.principal), encode(message))


def test_holders_do_not_wait_for_the_disk_and_the_issuer_does(net: Net) -> None:
    """A35: what ends is sent first; the list is kept before its issuer is answered."""
    story = Story(net)
    broker, issuer = net.brokers["CCS broker"].broker, story.issuer
    revocation = statement_to_event(issuer.says.revoke(story.right))
    turn, parts = broker.turn(net.now), list[list[type]]()
    turn.take([publication(net, issuer.client, issuer.ref, revocation, {STATEMENT.uid: STATEMENT.kind})])
    while (part := turn.leave()) is not None:
        parts.append([type(decode(one.data) if isinstance(one, Send) else one) for one in part])
    _to_other_brokers, first, *others = parts
    assert Ended in first
    assert Keep not in first
    assert [one for some in others for one in some if one in (Keep, Published)] == [Keep, Published]


def test_a_list_of_the_issuer_revokes_what_demands_no_test(net: Net) -> None:
    story = Story(net)
    office = net.client("statistics office")
    ref = office.subscribe()
    story.issuer.revoke(net.cast.issued("CCS to statistics office", Action.SUBSCRIBE))
    assert office.ended_with(ref) == "POLICY-REVOKED"
    assert story.sees() == 1


def test_nobody_else_is_decided_again(net: Net) -> None:
    story = Story(net)
    office, detective = net.client("statistics office"), net.client("Detective Smith")
    for number in range(20):
        office.subscribe(Comparison(LOCATION, Operator.EQ, f"place {number}"))
        detective.subscribe(Comparison(LOCATION, Operator.EQ, f"place {number}"))
    running = net.brokers["CCS broker"]
    before = running.broker.status(net.now)["decisions"]
    story.issuer.revoke(story.right)
    assert running.broker.status(net.now)["decisions"] == before + 1
    assert running.broker.status(net.now)["subscriptions"] == 40
    assert not office.all_heard(Ended)
    assert not detective.all_heard(Ended)


def test_a_heartbeat_decides_nothing_again(net: Net) -> None:
    story = Story(net)
    running = net.brokers["CCS broker"]
    before = running.broker.status(net.now)["decisions"]
    story.issuer.vouch(60, since=net.now + 3600 * 1_000_000)
    assert running.broker.status(net.now)["decisions"] == before
    assert story.sees() == 1


def test_what_one_right_wanted_and_another_comes_to_want_is_still_wanted_elsewhere(net: Net) -> None:
    """Of two subscriptions one falls, and the other becomes what the first one was."""
    net.broker("Met broker", seeds=["CCS broker"])
    wide = demanding(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}), comment="more")
    narrow, left = demanding(net, comment="less"), demanding(net, comment="as little")
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    billing = net.client(BILLING, credentials=pool_with(net))
    falls = billing.subscribe(credentials=pool_with(net, narrow))
    stays = billing.subscribe(credentials=pool_with(net, wide, left))
    camera = net.client("camera at Victoria", at="Met broker")
    offer = camera.advertise()
    issuer.revoke(wide, narrow)
    assert billing.ended_with(falls) == "POLICY-REVOKED"
    assert [one.ref for one in billing.all_heard(Changed)] == [stays]
    camera.publish(offer, sighting())
    assert [set(event) for event in billing.events()] == [{NUMBERPLATE, TIMESTAMP}]


def test_a_right_of_two_chains_is_narrowed_and_its_holder_told(net: Net) -> None:
    wide = demanding(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}), comment="more")
    narrow = demanding(net, comment="less")
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    billing = net.client(BILLING, credentials=pool_with(net, wide, narrow))
    ref = billing.subscribe()
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    issuer.revoke(wide)
    camera.publish(offer, sighting())
    before, after = billing.events(ref)
    assert set(before) == {NUMBERPLATE, TIMESTAMP, LOCATION}
    assert set(after) == {NUMBERPLATE, TIMESTAMP}
    (told,) = billing.all_heard(Changed)
    assert (told.ref, told.code) == (ref, "REFUSED-RIGHT-CHANGED")


def test_an_advertisement_falls_with_its_certificate(net: Net) -> None:
    """S1: the right to publish is not checked at the advertisement alone."""
    story = Story(net)
    grant = net.cast.issued("CCS to camera at Victoria", Action.PUBLISH)
    story.issuer.revoke(grant)
    assert story.camera.ended_with(story.offer) == "POLICY-REVOKED"
    assert story.sees() == 0


def test_a_link_falls_with_the_right_to_connect(net: Net) -> None:
    story = Story(net)
    story.issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.CONNECT))
    assert story.camera.bye == "POLICY-REVOKED"
    assert story.camera.closed
    assert not story.billing.closed


def test_without_a_word_of_the_tester_a_request_is_put_off(net: Net) -> None:
    right = demanding(net)
    billing = net.client(BILLING, credentials=pool_with(net, right))
    ref = billing.subscribe()
    assert billing.code_of(ref) == "UNAVAILABLE-STATEMENT-AWAITED"
    issuer = Issuer(net, "CCS")
    issuer.vouch(60)
    again = billing.subscribe()
    assert billing.was_accepted(again)


def test_a_client_brings_the_word_itself(net: Net) -> None:
    right = demanding(net)
    says = Statements(net.cast.keys["CCS"])
    billing = net.client(BILLING, credentials=pool_with(net, right))
    billing.say(Show(900, [], [statement_to_bytes(says.list_for(net.now, 60))]))
    ref = billing.subscribe()
    assert billing.was_accepted(ref), billing.heard


def test_the_right_to_connect_can_be_vouched_for_before_the_hello(net: Net) -> None:
    to = net.cast.principal(BILLING)
    connect = net.cast.grant("CCS", to, net.cast.network, Action.CONNECT, test=TestKind.TIMED_CRL)
    domain = net.cast.issued("PITO to CCS", Action.CONNECT)
    refused = net.client(BILLING, credentials=(domain, connect))
    assert refused.bye == "UNAVAILABLE-STATEMENT-AWAITED"
    says = Statements(net.cast.keys["CCS"])
    vouched = net.client(BILLING, credentials=(domain, connect), says_hello=False)
    vouched.say(Show(0, [], [statement_to_bytes(says.list_for(net.now, 60))]))
    vouched.hello()
    assert vouched.bye is None
    net.advance(61)
    assert vouched.bye == "POLICY-STALE"


def test_certificates_in_the_handshake_are_for_the_hello(net: Net) -> None:
    stranger = net.client(BILLING, says_hello=False)
    stranger.say(Show(0, shown(net.cast.certificates[:1]), []))
    assert stranger.bye == "PROTOCOL-OUT-OF-TURN"


def test_one_list_follows_the_other_without_a_gap(net: Net) -> None:
    story = Story(net, vouched_s=15)
    for _ in range(2):
        net.advance(14)
        story.issuer.vouch(15, since=net.now + 1_000_000)
        net.advance(1)
        assert story.sees() == 1, net.now
    net.advance(14.999999)
    assert story.billing.ended_with(story.ref) is None
    net.advance(0.000001)
    assert story.billing.ended_with(story.ref) == "POLICY-STALE"


def test_a_revocation_survives_a_restart(net: Net) -> None:
    """A82: what was revoked stays so, and nobody leads the broker back with an older list."""
    story = Story(net)
    old = story.issuer.says.list_for(net.now + 3600 * 1_000_000, 60)
    story.issuer.revoke(story.right)
    net.restart("CCS broker")
    issuer = Issuer(net, "CCS")
    issuer.state(old)
    billing = net.client(BILLING, credentials=pool_with(net, story.right))
    ref = billing.subscribe()
    assert billing.code_of(ref) == "POLICY-REVOKED"


def test_a_period_that_ended_stays_over_when_the_clock_is_set_back_over_a_restart(net: Net) -> None:
    """A78, A82: a broker keeps that a statement has ended, as it keeps the statement."""
    story, began = Story(net, vouched_s=60), net.now
    net.advance(61)
    assert story.billing.ended_with(story.ref) == "POLICY-STALE"
    net.crash("CCS broker")
    net.now = Instant(began + 1_000_000)
    net.restart("CCS broker")
    billing = net.client(BILLING, credentials=pool_with(net, story.right))
    assert billing.code_of(billing.subscribe()) == "UNAVAILABLE-STATEMENT-AWAITED"


def test_what_a_list_of_the_next_period_gives_back_is_given_back_when_it_begins(net: Net) -> None:
    wide = demanding(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}), comment="more")
    issuer = Issuer(net, "CCS")
    issuer.says.revoked = {wide.id}
    issuer.vouch(10)
    issuer.says.revoked = set()
    issuer.vouch(3600, since=Instant(net.now + 10 * 1_000_000))
    billing = net.client(BILLING, credentials=pool_with(net, wide, demanding(net, comment="less")))
    ref = billing.subscribe()
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    net.advance(10)
    camera.publish(offer, sighting())
    before, after = billing.events(ref)
    assert set(before) == {NUMBERPLATE, TIMESTAMP}
    assert set(after) == {NUMBERPLATE, TIMESTAMP, LOCATION}


def test_rights_widen_within_a_session(net: Net) -> None:
    billing = net.client(BILLING)
    ref = billing.subscribe()
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    more = demanding(net, test=None, attributes=frozenset({LOCATION, NUMBERPLATE, TIMESTAMP}))
    billing.say(Show(901, shown([more]), []))
    assert billing.was_accepted(901)
    camera.publish(offer, sighting())
    before, after = billing.events(ref)
    assert set(before) == {NUMBERPLATE, TIMESTAMP}
    assert set(after) == {NUMBERPLATE, TIMESTAMP, LOCATION}
    assert billing.last(Changed).ref == ref


@pytest.mark.parametrize("comment", ["one", "two", "three"])
def test_a_wider_certificate_beside_a_narrower_one_widens_a_live_advertisement(net: Net, comment) -> None:
    """P7: whichever has the smaller id, and although the wider one ends first; then the other counts."""
    camera, office = net.client("camera at Victoria"), net.client("statistics office")
    ref, offer = office.subscribe(), camera.advertise()
    pattern, subject = net.cast.definition, net.cast.principal("camera at Victoria")
    wider = granted(
        net.cast.keys["CCS"],
        subject,
        pattern,
        Action.PUBLISH,
        validity=Validity(None, Instant(net.now + 5_000_000)),
        comment=comment,
    )
    camera.publish(offer, sighting(where="Bank"))
    camera.say(Show(901, shown([wider]), []))
    camera.publish(offer, sighting(where="Bank"))
    net.advance(10)
    camera.publish(offer, sighting(where="Bank"))
    assert [event[LOCATION] for event in office.events(ref)] == ["Victoria", "Bank", "Victoria"]


def test_what_was_shown_counts_for_later_requests_of_the_session(net: Net) -> None:
    detective = net.client("Detective Smith")
    more = demanding(net, "Detective Smith", test=None, attributes=frozenset({LOCATION, NUMBERPLATE}))
    chain = [net.cast.issued("PITO to CCS", Action.PUBLISH), more]
    detective.say(Show(902, shown(chain), []))
    ref = detective.subscribe(credentials=())
    assert detective.was_accepted(ref)


def test_a_peer_shows_no_more_than_there_is_room_for() -> None:
    net = Net(limits=BrokerLimits(certificates_shown=20))
    net.broker()
    billing = net.client(BILLING)
    many = [demanding(net, comment=str(number)) for number in range(20)]
    billing.say(Show(903, shown(many), []))
    assert billing.code_of(903) == "UNAVAILABLE-ENTRY-QUOTA"


def test_a_broken_certificate_or_statement_fails_the_showing(net: Net) -> None:
    billing = net.client(BILLING)
    billing.say(Show(904, [b"nonsense"], []))
    billing.say(Show(905, [], [b"nonsense"]))
    assert billing.code_of(904) is not None
    assert billing.code_of(905) == "STATEMENT-FORMAT"
    assert not billing.closed


# ------------------------------------------------------------ over several brokers


def city() -> Net:
    net = Net()
    net.broker("PITO broker")
    net.broker("CCS broker", seeds=["PITO broker"])
    net.broker("Met broker", seeds=["PITO broker"])
    net.advance(5)
    return net


def test_what_a_revoked_right_wanted_is_withdrawn_together_and_reaches_nobody_until_then() -> None:
    """A35: its holder is informed first; what other brokers still send is given to nobody."""
    net = city()
    right, another = demanding(net), demanding(net, comment="another")
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    office = net.client(BILLING, "Met broker", credentials=pool_with(net, right))
    office.subscribe()
    net.advance(5)
    wanted = [Comparison(NUMBERPLATE, Operator.EQ, plate) for plate in ("AE05 XYZ", "BD51 SMR")]
    refs = [office.subscribe(filter_) for filter_ in wanted]
    camera = net.client("camera at Victoria")
    offer = camera.advertise()

    def carried(seconds: float) -> tuple[int, list[int]]:
        """Publish; return how many frames the office's broker got, and what it withdrew in each message."""
        before = len(net.carried)
        net.advance(seconds)
        for plate in ("AE05 XYZ", "BD51 SMR"):
            camera.publish(offer, sighting() | {NUMBERPLATE: plate})
        seen = net.carried[before:]
        removed = [
            len(one.remove) for sender, _, one in seen if sender == "Met broker" and type(one) is Interest
        ]
        return sum(to == "Met broker" and isinstance(one, Carried) for _, to, one in seen), removed

    office.withdraw(refs[0] - 1)
    assert carried(0.1) == (2, [])
    events = len(office.events())
    issuer.revoke(right)
    assert [office.ended_with(ref) for ref in refs] == ["POLICY-REVOKED"] * 2
    assert carried(0) == (2, []), "nothing is withdrawn yet"
    assert len(office.events()) == events, "and nobody gets it"
    # Another office comes to want one of them meanwhile, by a right of its own.
    other = net.client(BILLING, "Met broker", credentials=pool_with(net, another))
    ref = other.subscribe(wanted[0])
    assert other.was_accepted(ref)
    assert carried(0.1)[0] == 1, "what nobody wants any more is not sent"
    assert carried(5) == (1, []), "what the other one wants rests on its own right"
    assert (len(other.events()), len(office.events())) == (2, events)


def test_an_older_list_that_a_client_brings_does_not_hide_a_newer_one() -> None:
    """A39: a revoked office goes to a broker that has never heard its issuer, with the list from before."""
    net = city()
    right = demanding(net)
    issuer = Issuer(net, "CCS")
    before = issuer.vouch(3600)
    issuer.revoke(right)
    office = net.client(BILLING, "Met broker", credentials=pool_with(net, right))
    office.say(Show(900, [], [statement_to_bytes(before)]))
    ref = office.subscribe()
    net.advance(1)
    assert office.ended_with(ref) == "POLICY-REVOKED", office.heard


def test_a_stream_is_given_up_when_nobody_needs_it_any_more() -> None:
    net = city()
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    office = net.client(BILLING, "Met broker", credentials=pool_with(net, demanding(net)))
    office.subscribe()
    net.advance(5)
    ref = office.subscribe()
    stream = validity_type_id(issuer.key.principal)
    met = net.brokers["Met broker"].broker
    assert office.was_accepted(ref)
    assert stream.hex() in met.status(net.now)["rendezvous"]
    office.hang_up()
    net.advance(90)
    assert met.status(net.now)["statements"]["issuers"], "somebody may come back"
    net.advance(310)
    assert not met.status(net.now)["statements"]["issuers"]
    told = [one for sender, _, one in net.carried if sender == "Met broker" and isinstance(one, Interest)]
    assert any(one.key == stream and one.remove for one in told)


def test_what_was_refused_for_want_of_a_word_is_not_refused_when_it_came_meanwhile() -> None:
    """A122: its holder was away for longer than a certificate is watched; others there needed the word."""
    net = city()
    issuer, pool = Issuer(net, "CCS"), pool_with(net, demanding(net))

    def asks() -> tuple[NetClient, int]:
        billing = net.client(BILLING, "Met broker", credentials=pool)
        return billing, billing.subscribe()

    issuer.vouch(60)
    asks()
    net.advance(5)
    watched = demanding(net, WATCHER, comment="for another one")
    other = net.client(WATCHER, "Met broker", credentials=pool_with(net, watched, who=WATCHER))
    assert other.was_accepted(other.subscribe())
    billing, ref = asks()
    assert billing.was_accepted(ref)
    billing.hang_up()
    net.advance(90)
    billing, ref = asks()
    assert billing.code_of(ref) == "UNAVAILABLE-STATEMENT-AWAITED"
    billing.hang_up()
    net.advance(400)
    again = Issuer(net, "CCS")
    again.says = issuer.says
    again.vouch(3600)
    net.advance(130)
    stated = net.brokers["Met broker"].broker.status(net.now)["statements"]["issuers"]
    assert all(one["fresh_until"] for one in stated.values()), "it is asked for as long as it is needed"
    billing, ref = asks()
    assert billing.was_accepted(ref), billing.heard


def test_a_broker_on_the_way_believes_a_revoked_interest_no_more() -> None:
    """A35: an edge that does not let go of a revoked subscription gets nothing for it."""
    net = city()
    right = demanding(net)
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    office = net.client(BILLING, "Met broker", credentials=pool_with(net, right))
    office.subscribe()
    net.advance(5)
    ref = office.subscribe()
    assert office.was_accepted(ref)
    deaf = net.brokers["Met broker"].parts.statements  # it hears nothing from now on
    deaf.streams.clear()
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    assert len(office.events()) == 1
    issuer.revoke(right)
    net.advance(2)  # an honest edge shows another proof by now, if there is one
    camera.publish(offer, sighting())
    assert office.ended_with(ref) is None
    assert len(office.events()) == 1
    net.advance(30)
    camera.publish(offer, sighting())
    assert len(office.events()) == 1


def test_whoever_wants_the_same_as_a_revoked_subscriber_loses_nothing() -> None:
    """Two offices behind one broker want the same, and others were told on behalf of the revoked one."""
    net = city()
    rights = [demanding(net, comment=str(number)) for number in range(2)]
    issuer = Issuer(net, "CCS")
    issuer.vouch(3600)
    offices = [net.client(BILLING, "Met broker", credentials=pool_with(net, right)) for right in rights]
    for office in offices:
        office.subscribe()
        net.advance(5)
        assert office.was_accepted(office.subscribe())
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    issuer.revoke(rights[0])
    for seconds in (0, 0.1, 2, 10):
        net.advance(seconds)
        before = len(offices[1].events())
        camera.publish(offer, sighting())
        assert len(offices[1].events()) == before + 1, seconds
    assert len(offices[0].events()) == 1


def test_what_one_frame_says_is_heard_in_its_order(net: Net) -> None:
    story = Story(net)
    story.issuer.says.revoked.add(story.right.id)
    first = story.issuer.says.list_now()
    story.issuer.says.revoked.clear()
    second = story.issuer.says.list_now()
    story.issuer.state(first, second)
    assert story.billing.ended_with(story.ref) == "POLICY-REVOKED"
    again = story.billing.subscribe()
    assert story.billing.was_accepted(again)


@pytest.mark.parametrize("kind", [TestKind.CRL, TestKind.TIMED_CRL])
def test_a_right_comes_back_with_a_word_that_was_missed(net: Net, kind: TestKind) -> None:
    """A right of two chains is narrowed while one of them is not vouched for, and only then."""
    wide = demanding(net, test=kind, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}))
    narrow = demanding(net, test=None, comment="less")
    billing = net.client(BILLING, credentials=pool_with(net, wide, narrow))
    ref = billing.subscribe()
    camera = net.client("camera at Victoria")
    offer = camera.advertise()
    camera.publish(offer, sighting())
    Issuer(net, "CCS").vouch(60)
    camera.publish(offer, sighting())
    assert [len(event) for event in billing.events(ref)] == [2, 3]
    assert len(billing.all_heard(Deliver)) == 2


def test_nobody_keeps_others_out_by_naming_people_who_never_speak() -> None:
    net = Net(limits=BrokerLimits(statement_issuers=4))
    net.broker()
    stranger = net.client("Detective Smith")
    fakes = [demanding(net, "Detective Smith", by=connect_key(number)) for number in range(20)]
    stranger.subscribe(credentials=fakes)
    story = Story(net)
    assert story.billing.was_accepted(story.ref), story.billing.heard
    assert len(net.brokers["CCS broker"].broker.status(net.now)["statements"]["issuers"]) <= 5


def connect_key(number: int) -> Principal:
    return SigningKey.from_seed(bytes([number]) * 32).principal


def test_who_was_heard_is_looked_after_however_many_there_are() -> None:
    """A word that is at hand ends in time, also where there is no room for more people."""
    net = Net(limits=BrokerLimits(statement_issuers=0))
    net.broker()
    says = Statements(net.cast.keys["CCS"])
    billing = net.client(BILLING, credentials=pool_with(net, demanding(net)))
    billing.say(Show(950, [], [statement_to_bytes(says.list_for(net.now, 30))]))
    ref = billing.subscribe()
    assert billing.was_accepted(ref)
    net.advance(30)
    assert billing.ended_with(ref) == "POLICY-STALE"
