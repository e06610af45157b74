"""What a liar, a stranger or a revoked one gets by answers about the state, statements and second chains."""

from __future__ import annotations

import pytest

from maia.broker.turn import Turn
from maia.credentials import Action, SigningKey, StatementOld, TestKind, statement_to_bytes
from maia.events import frame_of
from maia.sessions.statements import KEPT_STATEMENTS
from maia.testing import Issuer, NetClient, Statements, shown
from maia.types import type_id
from maia.validity import Monitor
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.messages import (
    AskState,
    Carried,
    Offer,
    Show,
    StateDone,
    StateFrame,
    StateGone,
    StateQuery,
    StateTold,
)
from support.numberplate import NUMBERPLATE, NUMBERPLATE_KINDS, Net, sighting
from support.statements import crl, moment

ROGUE = SigningKey.from_seed(b"\x0f" * 32)
BILLING, CAMERA = "billing office", "camera at Victoria"
CCS, MET = "CCS broker", "Met broker"


@pytest.fixture
def net() -> Net:
    net = Net(verify_in_transit=1.0)
    net.broker()
    net.broker(MET, seeds=[CCS])
    return net


def the_type(net: Net) -> bytes:
    name = net.cast.type_name
    return type_id(name.owner, name.name)


def asking(net: Net, at: str, number: int = 99) -> NetClient:
    client = net.client(BILLING, at)
    client.say(AskState(number, client.subscribe()))
    net.advance(5)
    return client


# ------------------------------------------------------------ the state


def test_other_brokers_forget_the_last_word_of_a_publisher_that_has_left_and_is_revoked_then(
    net: Net,
) -> None:
    """A37: the word was passed on and is cached elsewhere, where its author never was."""
    issuer = Issuer(net, "CCS")
    issuer.vouch(600)
    camera = net.client(CAMERA)
    offer = camera.advertise()
    listener = asking(net, MET)
    camera.publish(offer, sighting("last word"))
    assert len(listener.events()) == 1
    camera.hang_up()
    assert len(asking(net, MET).events()) == 1, "it is remembered there"
    issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.PUBLISH))
    for at in (MET, CCS):
        assert asking(net, at).events() == [], at


def test_a_last_word_is_forgotten_only_if_that_is_said_where_it_came_from(net: Net) -> None:
    """A37, A67: a neighbour through which it never came would have it forgotten."""
    camera = net.client(CAMERA)
    camera.publish(camera.advertise(), sighting("last word"))
    asking(net, CCS)
    (held,) = net.brokers[CCS].parts.retained.of_type(the_type(net))
    right = net.cast.broker_right(ROGUE)
    rogue = net.client("a rogue broker", CCS, key=ROGUE, credentials=(right,), address="rogue:1")
    rogue.say(StateGone(the_type(net), held[0], held[1]))
    assert len(asking(net, CCS).events()) == 1


@pytest.mark.parametrize("home", [CCS, MET])
def test_that_a_last_word_is_gone_is_not_told_to_who_told_it(net: Net, home: str) -> None:
    """A37, A74: two brokers that both want the type do not tell each other in turn."""
    issuer = Issuer(net, "CCS", at=home)
    issuer.vouch(600)
    camera = net.client(CAMERA, home)
    offer = camera.advertise()
    for at in (CCS, MET):
        asking(net, at)
    camera.publish(offer, sighting("last word"))
    issuer.revoke(net.cast.issued("CCS to camera at Victoria", Action.PUBLISH))
    net.advance(1)
    assert [sender for sender, _, message in net.carried if isinstance(message, StateGone)] == [home]


def asked_rogue(net: Net) -> tuple[NetClient, NetClient, bytes]:
    """A rogue broker that carries a true offer, and is asked what was said last."""
    camera = net.client(CAMERA, MET)
    camera.advertise()
    key = net.cast.broker_right(ROGUE)
    rogue = net.client("a rogue broker", CCS, key=ROGUE, credentials=(key,), address="rogue:1")
    rogue.say(Offer(the_type(net), True, camera.request(Action.PUBLISH), shown(net.cast.certificates)))
    billing = net.client(BILLING)
    billing.say(AskState(99, billing.subscribe()))
    (asked,) = rogue.all_heard(StateQuery)
    return rogue, billing, asked.question


def said(net: Net, plate: str, *, sequence: int, of: bytes | None = None) -> bytes:
    columns = frame_to_columns(frame_of([sighting(plate)], NUMBERPLATE_KINDS))
    publisher = net.cast.principal(CAMERA).key
    return encode(
        Carried(of or the_type(net), publisher, b"s" * 16, sequence, int(net.now) + sequence, 1, [], columns)
    )


def test_a_question_about_one_type_is_not_answered_with_another(net: Net) -> None:
    """A67: the frame is well made, and of a type that no peer asked about."""
    rogue, billing, question = asked_rogue(net)
    rogue.say(StateFrame(question, said(net, "smuggled", sequence=9, of=b"\x07" * 32)))
    assert rogue.closed
    assert billing.events() == []


def test_an_older_word_is_not_told_after_a_newer_one(net: Net) -> None:
    """A39, S16: of two answers about one publisher the newer counts, whichever comes first."""
    rogue, billing, question = asked_rogue(net)
    for plate, sequence in (("new", 9), ("old", 8)):
        rogue.say(StateFrame(question, said(net, plate, sequence=sequence)))
    assert [event[NUMBERPLATE] for event in billing.events()] == ["new"]


def test_a_question_that_a_neighbour_hands_back_is_answered_and_stays_the_question_of_who_asked(
    net: Net,
) -> None:
    """A67: a liar that asks us our own question takes it from no peer."""
    rogue, billing, question = asked_rogue(net)
    rogue.say(StateQuery(question, the_type(net)))
    assert rogue.last(StateDone).question == question
    rogue.say(StateDone(question, is_whole=True))
    net.advance(5)
    assert [one.id for one in billing.all_heard(StateTold)] == [99]


def test_who_never_answers_keeps_no_peer_waiting_and_the_answer_says_that_it_may_not_be_everything(
    net: Net,
) -> None:
    """A67: a neighbour that carries an offer and then keeps quiet."""
    _, billing, _ = asked_rogue(net)
    net.advance(5)
    assert [one.is_whole for one in billing.all_heard(StateTold)] == [False]
    assert not net.brokers[CCS].parts.revocation.state_answers.questions


def test_a_question_is_forgotten_with_who_asked(net: Net) -> None:
    """A74: clients that ask and hang up leave nothing behind."""
    rogue, billing, question = asked_rogue(net)
    billing.hang_up()
    assert not net.brokers[CCS].parts.revocation.state_answers.questions
    rogue.say(StateFrame(question, said(net, "late", sequence=9)))
    assert not rogue.closed


def test_only_who_was_asked_says_that_it_has_answered(net: Net) -> None:
    """A67: another neighbour knows the question, and would have it that something is missing."""
    rogue, billing, question = asked_rogue(net)
    key = SigningKey.from_seed(b"\x0e" * 32)
    right = net.cast.broker_right(key)
    other = net.client("another rogue", CCS, key=key, credentials=(right,), address="other:1")
    other.say(StateDone(question, is_whole=False))
    rogue.say(StateDone(question, is_whole=True))
    assert [one.is_whole for one in billing.all_heard(StateTold)] == [True]


def test_a_broker_asks_for_itself_once_at_a_time(net: Net) -> None:
    """A74: however many rights wait for one word, others are asked for it once."""
    asked_rogue(net)
    state, wanted = net.brokers[CCS].parts, the_type(net)
    first, second = Turn(net.now), Turn(net.now)
    for turn in (first, second):
        state.revocation.state_answers.ask_for_own(wanted, turn)
    assert first.effects
    assert not second.effects


@pytest.mark.parametrize("at", [CCS, MET])
def test_a_question_is_not_asked_back(net: Net, at: str) -> None:
    """A74: a peer that asks a neighbour is not asked by it, though it offers what the question is about."""
    net.client(CAMERA, at).advertise()
    asking(net, at)
    asked = [message.question for _, _, message in net.carried if isinstance(message, StateQuery)]
    assert len(asked) == len(set(asked))


# ------------------------------------------------------------ statements


def strangers(count: int) -> list[Statements]:
    return [Statements(SigningKey.from_seed(number.to_bytes(32))) for number in range(1, count + 1)]


def test_statements_that_wait_for_a_reason_to_be_received_are_few(net: Net) -> None:
    """A74: any peer can sign statements, and show them without end."""
    client, running = net.client(BILLING), net.brokers[CCS]
    limit = running.parts.own.settings.limits.statements_shown
    for number in range(6):
        lists = [statement_to_bytes(one.list_now()) for one in strangers(limit // 2)]
        client.say(Show(900 + number, [], lists))
    assert len(running.parts.links[client.link].statements) <= limit


def test_no_peer_passes_the_statements_of_strangers_on_its_own_stream(net: Net) -> None:
    """A39: well signed, by people to whom no peer here has a reason to listen; they are not kept."""
    issuer, running = Issuer(net, "CCS"), net.brokers[CCS]
    issuer.vouch(600)
    before = {name for name in running.kept if name.startswith(KEPT_STATEMENTS)}
    issuer.state(*(one.list_now() for one in strangers(20)))
    assert {name for name in running.kept if name.startswith(KEPT_STATEMENTS)} == before
    assert set(running.parts.statements.monitor) == {issuer.key.principal}


def test_an_old_list_for_a_distant_day_is_not_kept_for_it() -> None:
    """A27, A39: an issuer's slip, shown late, holds no more than if it had been shown in time."""
    standing = Monitor()
    standing.receive(crl(5, since=0), moment(0))
    assert isinstance(standing.receive(crl(4, since=40 * 86_400), moment(1)).refused, StatementOld)
    assert standing.fresh_until(crl(5).statement.by, moment(40 * 86_400)) is None


# ------------------------------------------------------------ a second chain


def test_who_stays_by_a_second_chain_goes_with_that_one_too(net: Net) -> None:
    """A35: the right to connect is decided again from what is left, which can be revoked as well."""
    issuer = Issuer(net, "PITO")
    issuer.vouch(600)
    to = net.cast.principal(BILLING)
    first, second = (
        net.cast.grant("PITO", to, net.cast.network, Action.CONNECT, test=kind, comment=comment)
        for kind, comment in ((TestKind.TIMED_CRL, "first"), (TestKind.TIMED_CRL, "second"))
    )
    others = [
        one
        for one in net.cast.without()
        if one.certificate.subject != to or Action.CONNECT not in one.certificate.authority.actions
    ]
    client = net.client(BILLING, CCS, credentials=(*others, first, second))
    assert client.was_accepted(client.subscribe())
    issuer.revoke(first)
    assert not client.closed
    issuer.revoke(second)
    assert client.bye == "POLICY-REVOKED"
