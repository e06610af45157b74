"""A right that was taken back gives nothing more: to the connected, the absent, or who plays with time."""

from __future__ import annotations

import pytest

from maia.credentials import (
    Action,
    SignedCertificate,
    SigningKey,
    TestKind,
    statement_to_bytes,
)
from maia.events import SECOND, Instant
from maia.predicates import Comparison, Operator
from maia.sessions.statements import KEPT_STATEMENTS
from maia.testing import Issuer, NetClient, Statements, grant, shown
from maia.testing.refusals import raises
from maia.types import definition_to_bytes, validity_definition, validity_type_name
from maia.types.verified import STATEMENT, statement_to_event
from maia.wire.messages import AskState, DeliverLogged, Published, Show
from support.numberplate import LOCATION, NUMBERPLATE, RECORDING, TIMESTAMP, Net, sighting

BILLING = "billing office"
AT = "CCS broker"


def demanding(net: Net, comment: str = "", kind: TestKind | None = TestKind.TIMED_CRL) -> SignedCertificate:
    uids, to = frozenset({NUMBERPLATE, TIMESTAMP}), net.cast.principal(BILLING)
    return net.cast.grant(
        "CCS", to, net.cast.definition, Action.SUBSCRIBE, attributes=uids, comment=comment, test=kind
    )


def with_right(net: Net, *rights: SignedCertificate) -> tuple[SignedCertificate, ...]:
    """Return the story's certificates with these in place of the office's own right to subscribe."""
    own = net.cast.issued("CCS to billing office", Action.SUBSCRIBE)
    return (*(one for one in net.cast.certificates if one is not own), *rights)


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def office(net: Net, *rights: SignedCertificate, at: str = AT) -> NetClient:
    return net.client(BILLING, at, credentials=with_right(net, *rights))


def camera(net: Net, at: str = AT) -> tuple[NetClient, int]:
    client = net.client("camera at Victoria", at)
    return client, client.advertise()


# ------------------------------------------------------------ connected


def test_no_delivery_follows_the_answer_to_the_revocation(net: Net) -> None:
    """A35: revoked while connected, with frames under way before and after, over and over."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    publisher, offer = camera(net)
    for number in range(20):
        right = demanding(net, str(number))
        subscriber = office(net, right)
        ref = subscriber.subscribe()
        publisher.publish(offer, sighting())
        issuer.revoke(right)
        answered = len(issuer.client.all_heard(Published))
        publisher.publish(offer, sighting())
        assert len(subscriber.events()) == 1
        assert subscriber.ended_with(ref) == "POLICY-REVOKED"
        assert answered == number + 2


def test_a_revoked_publisher_publishes_nothing_more(net: Net) -> None:
    """S1, A35: the advertisement stood, and is no right."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    publisher, offer = camera(net)
    subscriber = net.client(BILLING)
    subscriber.subscribe()
    publisher.publish(offer, sighting())
    issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.PUBLISH))
    before = len(publisher.all_heard(Published))
    publisher.publish(offer, sighting())
    assert len(subscriber.events()) == 1
    assert len(publisher.all_heard(Published)) == before
    again = publisher.advertise()
    assert publisher.code_of(again) == "POLICY-REVOKED"


def test_a_revoked_client_gets_no_will_or_last_word_out(net: Net) -> None:
    """A38: what a client sends in the turn in which its link falls is not published for it."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    publisher, offer = camera(net)
    subscriber = net.client(BILLING)
    subscriber.subscribe()
    issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.CONNECT))
    assert publisher.bye == "POLICY-REVOKED"
    publisher.closed = False  # it has not noticed
    net.clients[AT, publisher.link] = publisher
    publisher.publish(offer, sighting())
    assert subscriber.events() == []


def test_the_sentence_says_nothing_about_any_other_peer(net: Net) -> None:
    """A38: the refusal is worded for its holder, with no other certificate, filter or name in it."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    right = demanding(net)
    subscriber = office(net, right)
    ref = subscriber.subscribe(Comparison(NUMBERPLATE, Operator.EQ, "SECRET 1"))
    issuer.revoke(right, net.cast.issued("CCS to statistics office", Action.SUBSCRIBE))
    ended = next(message for message in subscriber.heard if ref in getattr(message, "refs", ()))
    assert "SECRET 1" not in repr(net.brokers[AT].notes)
    assert str(net.cast.principal("statistics office")) not in ended.message


# ------------------------------------------------------------ absent


def recording() -> Net:
    net = Net(recording=RECORDING)
    net.broker()
    return net


def test_a_durable_subscriber_that_was_revoked_while_away_gets_nothing() -> None:
    """A36: what was recorded for it is not delivered when it comes back."""
    net = recording()
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    right = demanding(net)
    subscriber = office(net, right)
    subscriber.durable()
    subscriber.hang_up()
    publisher, offer = camera(net)
    publisher.publish(offer, sighting())
    issuer.revoke(right)
    back = office(net, right)
    ref = back.durable()
    assert back.code_of(ref) == "POLICY-REVOKED"
    assert not back.all_heard(DeliverLogged)


def test_a_durable_subscriber_that_is_catching_up_stops_at_the_revocation() -> None:
    """A36: also in the middle of what it has not acknowledged yet."""
    net = recording()
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    right = demanding(net)
    subscriber = office(net, right)
    ref = subscriber.durable()
    publisher, offer = camera(net)
    publisher.publish(offer, sighting())
    had = subscriber.positions()
    issuer.revoke(right)
    subscriber.acknowledge(ref, had[-1])
    publisher.publish(offer, sighting())
    assert subscriber.positions() == had
    assert subscriber.ended_with(ref) == "POLICY-REVOKED"


def test_the_last_word_of_a_revoked_publisher_is_told_to_no_peer(net: Net) -> None:
    """A37: not even if its publisher had taken the advertisement back before."""
    net.broker("Met broker", seeds=[AT])
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    publisher, offer = camera(net)
    publisher.publish(offer, sighting("last word"))
    early = net.client(BILLING)
    early.say(AskState(700, early.subscribe()))
    assert len(early.events()) == 1
    publisher.withdraw(offer)
    issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.PUBLISH))
    for at in (AT, "Met broker"):
        late = net.client(BILLING, at)
        late.say(AskState(701, late.subscribe()))
        net.advance(5)
        assert late.events() == [], at


def test_a_narrowed_subscriber_is_told_the_state_through_what_is_left(net: Net) -> None:
    """A37: the state was cached when it saw more."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    wide = net.cast.grant(
        "CCS", net.cast.principal(BILLING), net.cast.definition, Action.SUBSCRIBE, test=TestKind.TIMED_CRL
    )
    subscriber = office(net, wide, demanding(net))
    ref = subscriber.subscribe()
    publisher, offer = camera(net)
    publisher.publish(offer, sighting())
    issuer.revoke(wide)
    subscriber.take_events()
    subscriber.say(AskState(702, ref))
    (seen,) = subscriber.events()
    assert LOCATION not in seen


# ------------------------------------------------------------ statements in the wrong hands


def stated(net: Net, issuer: Issuer) -> list:
    """Return a heartbeat, a revocation, and the heartbeat after it."""
    right = demanding(net)
    first = issuer.says.list_for(net.now, 60)
    revoked = issuer.says.revoke(right)
    second = issuer.says.list_for(Instant(net.now + 60 * SECOND), 60)
    return [right, first, revoked, second]


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1)])
def test_statements_out_of_order_never_bring_a_right_back(net: Net, order: tuple[int, ...]) -> None:
    """A39: replayed and reordered, the newest number counts."""
    issuer = Issuer(net, "CCS")
    right, *said = stated(net, issuer)
    for number in (*order, *order, *reversed(order)):
        issuer.state(said[number])
    subscriber = office(net, right)
    ref = subscriber.subscribe()
    assert subscriber.code_of(ref) in {"POLICY-REVOKED", "UNAVAILABLE-STATEMENT-AWAITED"}
    net.advance(61)
    again = office(net, right)
    assert again.code_of(again.subscribe()) == "POLICY-REVOKED"


def test_a_list_that_is_accepted_early_brings_no_right_back_before_its_time(net: Net) -> None:
    """A39: the next list no longer names the right; a broker that received it early is not the milder one."""
    issuer, right = Issuer(net, "CCS"), demanding(net)
    issuer.vouch(60)
    issuer.revoke(right)
    issuer.says.revoked.clear()
    issuer.vouch(60, since=Instant(net.now + 60 * SECOND))
    subscriber = office(net, right)
    assert subscriber.code_of(subscriber.subscribe()) == "POLICY-REVOKED"
    net.advance(60)
    ref = subscriber.subscribe()
    assert subscriber.was_accepted(ref), subscriber.code_of(ref)


def test_withheld_statements_end_the_right_in_time(net: Net) -> None:
    """A39, S17: who blocks the list wins nothing: without its successor all that demands it ends."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(50)
    began, right = net.now, demanding(net)
    subscriber = office(net, right)
    ref = subscriber.subscribe()
    issuer.says.revoke(right)  # no peer receives it
    net.now = Instant(began + 50 * SECOND - 1)
    publisher, offer = camera(net)
    publisher.publish(offer, sighting())
    assert len(subscriber.events()) == 1
    net.now = Instant(net.now + 1)
    publisher.publish(offer, sighting())
    assert len(subscriber.events()) == 1
    assert subscriber.ended_with(ref) == "POLICY-STALE"


@pytest.mark.parametrize("offset_s", [-3600, -61])
def test_a_clock_that_steps_back_brings_no_right_back(net: Net, offset_s: int) -> None:
    """A78: a list that was over at some moment of this broker never holds again."""
    issuer = Issuer(net, "CCS")
    first = issuer.vouch(60)
    right = demanding(net)
    subscriber = office(net, right)
    assert subscriber.was_accepted(subscriber.subscribe())
    net.advance(61)
    assert subscriber.all_heard(Published) == []
    net.now = Instant(net.now + offset_s * SECOND)
    issuer = Issuer(net, "CCS")
    issuer.client.publish(
        issuer.ref, statement_to_event(first), kinds={STATEMENT.uid: STATEMENT.kind}, sequence=500
    )
    again = office(net, right)
    assert again.code_of(again.subscribe()) == "UNAVAILABLE-STATEMENT-AWAITED"


def test_no_peer_states_for_another_peer(net: Net) -> None:
    """A39: forged, or signed by another, a statement revokes nothing and confirms nothing."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    right = demanding(net)
    subscriber = office(net, right)
    ref = subscriber.subscribe()
    liar = Statements(net.cast.keys["Met"])
    lie = liar.revoke(right)
    genuine = statement_to_bytes(issuer.says.list_now())
    forged = genuine[:-3] + bytes([genuine[-3] ^ 1]) + genuine[-2:]
    issuer.state(lie)
    issuer.client.publish(
        issuer.ref, {STATEMENT.uid: forged}, {STATEMENT.uid: b"nonsense"},
        kinds={STATEMENT.uid: STATEMENT.kind},
    )  # fmt: skip
    subscriber.say(Show(703, [], [statement_to_bytes(lie)]))
    assert subscriber.ended_with(ref) is None
    publisher, offer = camera(net)
    publisher.publish(offer, sighting())
    assert len(subscriber.events()) == 1


def test_only_the_issuer_publishes_on_its_stream(net: Net) -> None:
    """A39: every peer may read it, and no other peer may write it."""
    key = net.cast.keys["CCS"]
    install = net.cast.issued("PITO to CCS", Action.INSTALL)
    definition = definition_to_bytes(validity_definition(key, (install,)))
    for who in ("Detective Smith", BILLING):
        client = net.client(who)
        name = validity_type_name(key.principal)
        refused = client.advertise(definitions=[definition], event_type=name)
        assert client.code_of(refused) == "POLICY-NO-CHAIN"
        read = client.subscribe(definitions=[definition], event_type=name)
        assert client.was_accepted(read), client.heard


def test_what_cannot_be_read_back_is_no_start() -> None:
    """A82: a broker whose memory of revocations is damaged does not start without it."""
    net = Net()
    running = net.broker()
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    issuer.revoke(demanding(net))
    (name,) = (one for one in running.kept if one.startswith(KEPT_STATEMENTS))
    damaged = dict(running.kept)
    damaged[name] = damaged[name][:-7]
    with raises("INPUT-KEPT-STATEMENTS"):
        net.restart(AT, damaged)


def test_a_replayed_showing_does_not_lead_back(net: Net) -> None:
    """A39, S16: a client that shows an old list wins nothing over the newest that was received."""
    issuer = Issuer(net, "CCS")
    right = demanding(net)
    old = issuer.vouch(600)
    issuer.revoke(right)
    subscriber = office(net, right)
    subscriber.say(Show(704, [], [statement_to_bytes(old)]))
    assert subscriber.code_of(subscriber.subscribe()) == "POLICY-REVOKED"


def test_strangers_fill_nobodys_memory_with_statements(net: Net) -> None:
    """A39: statements by keys that lead to no right are not received, however well they are signed."""
    subscriber = net.client(BILLING)
    assert subscriber.was_accepted(subscriber.subscribe())
    running = net.brokers[AT]
    before = running.broker.status(net.now)["statements"]
    for number in range(40):
        stranger = SigningKey.from_seed(bytes([number + 1]) * 32)
        terms = {"may_delegate": True, "test": TestKind.TIMED_CRL}
        own = grant(stranger, subscriber.key, net.cast.definition, Action.SUBSCRIBE, **terms)
        says = Statements(stranger)
        lists = [statement_to_bytes(says.revoke(demanding(net, str(one)))) for one in range(2)]
        subscriber.say(Show(800 + number, shown([own]), lists))
        assert subscriber.was_accepted(800 + number)
        subscriber.subscribe(credentials=(*net.cast.certificates, own))
    after = running.broker.status(net.now)["statements"]
    assert after["issuers"] == before["issuers"]
    assert after["streams"] == before["streams"]
    assert not any(name.startswith(KEPT_STATEMENTS) for name in running.kept)
