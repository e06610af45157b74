"""A member asks several managers for keys, each for its own types; none of them answers in another's name."""

from __future__ import annotations

import pytest

from maia.credentials.one_time import question_from_bytes, question_to_bytes
from maia.sealing.delivery import SessionKey
from maia.sealing.key_questions import keys_digest
from maia.sealing.manager_links import ManagerLink
from maia.sealing.member_notices import Challenged, KeysRefused
from maia.wire.messages import Challenge, Failed, Message
from support.key_groups import PLATE, Member, key_of, random_from
from support.one_time_keys import OneTimeNet, reading

OTHER = key_of("another manager")


@pytest.fixture
def net() -> OneTimeNet:
    net = OneTimeNet()
    net.holds_back = True
    return net


def says(net: OneTimeNet, member: Member, other: ManagerLink, message: Message) -> list[object]:
    """Let another manager, that looks after other types, say something; return what the member notices."""
    net._perform_member(member, member.node._talk._told(other, message, net.now))
    return member.notices


def another_manager() -> ManagerLink:
    return ManagerLink(OTHER.principal, session=SessionKey(random_from(b"another session")))


def test_a_question_for_keys_is_refused_by_nobody_but_who_was_asked(net: OneTimeNet) -> None:
    """A30: numbers of questions can be guessed, and a refusal would put the member off."""
    member = net.member("reader", reading("reader", PLATE))
    (challenge,) = net.challenges()
    noticed = says(net, member, another_manager(), Failed(challenge.ref, "REFUSED", "no"))
    assert not [one for one in noticed if isinstance(one, KeysRefused)]
    (asked,) = [one for _, one in net.challenged]
    net.bring(member, asked)
    net.settle()
    assert net.holds(member, PLATE)


def test_nobody_is_asked_to_vouch_for_keys_of_another_manager(net: OneTimeNet) -> None:
    """A30: a question is about keys that this manager was asked for; the tester hears of no other."""
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
