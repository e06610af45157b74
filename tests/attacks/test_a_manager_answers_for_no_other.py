"""A member asks several managers for keys, each for its own types; none of them answers in another's name."""

from __future__ import annotations

import pytest

from maia.errors import ProtocolViolation
from maia.sealing.groups.membership import keys_digest
from maia.sealing.keys.delivery import SessionKey, seal_to
from maia.sealing.keys.parcels import pack_past, past_info
from maia.sealing.member.manager_links import ManagerLink
from maia.sealing.member.settings import Challenged, KeysRefused, WriterReceived
from maia.validity import question_from_bytes, question_to_bytes
from maia.wire.codec import decode
from maia.wire.effects import Effect, Send
from maia.wire.messages import (
    Challenge,
    Failed,
    HistoryKeys,
    HistoryKeysReply,
    KeyTermsRecord,
    Message,
    Writer,
)
from support.key_groups import PLATE, Member, grant, key_of, random_from
from support.one_time_keys import OneTimeNet, reading

OTHER = key_of("another manager")


@pytest.fixture
def net() -> OneTimeNet:
    net = OneTimeNet()
    net.holds_back = True
    return net


def says(net: OneTimeNet, member: Member, other: ManagerLink, message: Message) -> list[object]:
    """Let another manager, that looks after other types, say something; return what the member notices."""
    net.perform(member, member.node._told(other, message, net.now))
    return member.notices


def another_manager() -> ManagerLink:
    return ManagerLink(OTHER.principal, session_key=SessionKey(random_from(b"another session")))


def test_a_question_for_keys_is_refused_by_no_peer_but_who_was_asked(net: OneTimeNet) -> None:
    """A30: numbers of questions can be guessed, and a refusal would put the member off."""
    member = net.member("reader", reading("reader", PLATE))
    (challenge,) = net.challenges()
    noticed = says(net, member, another_manager(), Failed(challenge.ref, "REFUSED", "no"))
    assert not [one for one in noticed if isinstance(one, KeysRefused)]
    (asked,) = [one for _, one in net.challenged]
    net.bring(member, asked)
    net.settle()
    assert net.holds(member, PLATE)


def test_no_peer_is_asked_to_confirm_keys_of_another_manager(net: OneTimeNet) -> None:
    """A30: a question is about keys that this manager was asked for; the tester receives of no other."""
    member, other = net.member("reader", reading("reader", PLATE)), another_manager()
    (challenge,) = net.challenges()
    (asked,) = map(question_from_bytes, challenge.questions)
    digest = keys_digest(
        member=key_of("reader").principal,
        manager=OTHER.principal,
        type_id=net.type_id,
        session=other.secured.public,
        is_past=False,
    )
    stolen = question_to_bytes(type(asked)(asked.by, asked.certificate, digest, asked.nonce))
    before = [one for one in member.notices if isinstance(one, Challenged)]
    noticed = says(net, member, other, Challenge(7, challenge.ref, 10, [stolen]))
    assert [one for one in noticed if isinstance(one, Challenged)] == before


def test_who_publishes_is_told_by_the_manager_of_the_type_alone(net: OneTimeNet) -> None:
    """A74: with another peer's word, a right to publish could be hidden from a peer that asked for it."""
    member, camera = net.member("reader", grant(key_of("reader"))), key_of("camera").principal
    member.node.ask_writer(net.type_id, camera, net.now)
    noticed = says(net, member, another_manager(), Writer(1, net.type_id, camera.key, []))
    assert not [one for one in noticed if isinstance(one, WriterReceived)]


def test_old_keys_come_from_the_manager_of_the_type_alone(net: OneTimeNet) -> None:
    """A74: another one's keys would open nothing, and hide that the right ones were never asked for."""
    member, other = net.member("reader", grant(key_of("reader"))), another_manager()
    (number,) = {
        said.id for effect in member.node.ask_past(net.type_id, 1, net.now) if (said := asked_in(effect))
    }
    info = past_info(net.type_id, manager=OTHER.principal, reader=key_of("reader").principal)
    sealed = seal_to(other.secured.public, pack_past((), {}, {}), info, random_from(b"a seal"))
    terms = KeyTermsRecord(60, 30, 2, 2)
    says(net, member, other, HistoryKeysReply(number, net.type_id, terms, sealed, None))
    assert not member.node.past.is_answered(net.type_id, 1)


def test_an_answer_for_old_keys_is_to_a_question_that_was_asked(net: OneTimeNet) -> None:
    """A74: what was asked for no more, or never, is not taken for what is asked for now."""
    member = net.member("reader", grant(key_of("reader")))
    asked = [one for effect in member.node.ask_past(net.type_id, 1, net.now) if (one := asked_in(effect))]
    manager = member.node.manager_of(net.type_id)
    assert manager is not None
    reply = HistoryKeysReply(asked[0].id + 1, net.type_id, KeyTermsRecord(60, 30, 2, 2), bytes(64), None)
    with pytest.raises(ProtocolViolation, match="was not asked"):
        member.node._told(manager, reply, net.now)
    assert not member.node.past.is_answered(net.type_id, 1)


def asked_in(effect: Effect) -> HistoryKeys | None:
    said = decode(effect.data) if isinstance(effect, Send) else None
    return said if isinstance(said, HistoryKeys) else None
