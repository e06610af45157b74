"""A one-time answer lets one member into key groups, once, for the keys that it asked for, for one lease.

A30: answers are replayed, passed on, swapped, forged, brought late and held back; none of that brings a key
that the tester did not confirm just then, and no other peer is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from maia.credentials import (
    Action,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypePattern,
    Validity,
    issue,
    parse_name_pattern,
    statement_to_bytes,
)
from maia.events import AttributeUid
from maia.testing import grant as granted
from maia.validity import (
    OneTimeQuestion,
    answer_question,
    question_from_bytes,
    question_to_bytes,
)
from maia.wire.codec import decode, encode
from maia.wire.effects import Tick
from maia.wire.messages import Challenge, JoinGroups, Vouched
from support.key_groups import OWNER, PLATE, TIME, TYPE_NAME, Member, at, grant, key_of
from support.one_time_keys import LEASE_S, TESTER, WAIT_S, OneTimeNet, asked_each_time, reading, silent

STRANGER = key_of("stranger")


def with_two(net: OneTimeNet) -> tuple[Member, Member]:
    """Return a member whom no peer confirms from now on, and one that is none of its business."""
    stays = net.member("stays", reading("stays", PLATE))
    net.holds_back = True
    return net.member("thief", reading("thief", PLATE)), stays


def bring(net: OneTimeNet, member: Member, challenge: Challenge, *answers: SignedStatement) -> None:
    net.say_to_server(member, encode(Vouched(challenge.id, [statement_to_bytes(one) for one in answers])))


def asked_in(challenge: Challenge) -> list[OneTimeQuestion]:
    return [question_from_bytes(one) for one in challenge.questions]


def refused(net: OneTimeNet, code: str) -> bool:
    return any(note.fields.get("code") == code for note in net.notes)


Forgery = Callable[[OneTimeQuestion, OneTimeNet], SignedStatement]

FORGERIES: dict[str, Forgery] = {
    "an answer that another member was given": lambda _asked, net: net.answers[0],
    "another nonce": lambda asked, _net: answer_question(replace(asked, nonce=bytes(32)), TESTER),
    "another certificate": lambda asked, _net: answer_question(
        replace(asked, certificate=reading("stays", PLATE).id), TESTER
    ),
    "other keys": lambda asked, _net: answer_question(replace(asked, request=bytes(32)), TESTER),
    "another tester": lambda asked, _net: answer_question(replace(asked, by=STRANGER.principal), STRANGER),
    "no signature of the tester": lambda asked, _net: replace(
        answer_question(asked, TESTER), signature=bytes(64)
    ),
}


@pytest.mark.parametrize("forged", FORGERIES.values(), ids=FORGERIES)
def test_what_was_not_said_by_the_tester_to_this_question_lets_no_peer_in(forged: Forgery) -> None:
    """A30: a key server believes the answer to its own question, and no other."""
    net = OneTimeNet()
    thief, stays = with_two(net)
    before, challenge = net.epoch(), net.challenges()[-1]
    bring(net, thief, challenge, forged(asked_in(challenge)[0], net))
    assert refused(net, "REFUSED-NOT-VOUCHED-FOR")
    assert net.counts["maia_statements_refused_total"] == 1
    assert not net.holds(thief, PLATE)
    assert net.epoch() == before
    assert net.holds(stays, PLATE)


def test_an_answer_is_used_once() -> None:
    """A30: what let a member in does not let it in again."""
    net = OneTimeNet()
    thief, _ = with_two(net)
    challenge = net.challenges()[-1]
    answer = answer_question(asked_in(challenge)[0], TESTER)
    bring(net, thief, challenge, answer)
    assert net.holds(thief, PLATE)
    net.cut_off(thief)
    net.cut_off(thief, is_cut_off=False)
    net.run(5)
    again = net.challenges()[-1]
    assert again.id != challenge.id
    bring(net, thief, challenge, answer)
    assert net.counts["maia_late_answers_total"] == 1
    bring(net, thief, again, answer)
    assert refused(net, "REFUSED-NOT-VOUCHED-FOR")


def test_an_answer_counts_on_the_link_that_it_was_asked_on() -> None:
    """A30: a peer that overhears a challenge cannot answer it for another peer."""
    net = OneTimeNet()
    thief, stays = with_two(net)
    challenge = net.challenges()[-1]
    bring(net, stays, challenge, answer_question(asked_in(challenge)[0], TESTER))
    assert net.counts["maia_late_answers_total"] == 1
    assert not net.holds(thief, PLATE)
    assert net.holds(stays, PLATE)
    bring(net, thief, challenge, answer_question(asked_in(challenge)[0], TESTER))
    assert net.holds(thief, PLATE)  # its own question was still open


def test_an_answer_of_one_key_server_is_worth_nothing_at_another() -> None:
    """A30: each asks with numbers of its own, about keys of its own session."""
    here, there = OneTimeNet(seed=b"here"), OneTimeNet(seed=b"there")
    here.member("thief", reading("thief", PLATE))
    there.holds_back = True
    thief = there.member("thief", reading("thief", PLATE))
    [first], [second] = asked_in(here.challenges()[0]), asked_in(there.challenges()[0])
    assert first.nonce != second.nonce
    assert first.request != second.request
    bring(there, thief, there.challenges()[0], here.answers[0])
    assert not there.holds(thief, PLATE)


def test_an_answer_that_comes_late_lets_no_peer_in() -> None:
    """A30: the tester may have changed its mind since."""
    net = OneTimeNet()
    thief, _ = with_two(net)
    challenge = net.challenges()[-1]
    answer = answer_question(asked_in(challenge)[0], TESTER)
    net.run(WAIT_S + 0.5)
    bring(net, thief, challenge, answer)
    assert net.counts["maia_late_answers_total"] == 1
    assert not net.holds(thief, PLATE)


def test_an_answer_that_comes_after_the_lease_does_not_bring_the_next_key() -> None:
    """A30: a member is put out in time, and what it brings afterwards belongs to nothing."""
    net = OneTimeNet()
    stays, late = net.member("stays", reading("stays", PLATE)), net.member("late", reading("late", PLATE))
    before = net.epoch()
    net.weather = lambda message, name, to_server: int(name != "late" or not isinstance(message, Vouched))
    net.run(LEASE_S + 1)
    assert net.epoch() > before
    assert net.holds(stays, PLATE)
    assert not net.holds(late, PLATE)
    held_back = [
        data for name, way, data in net.trace if (name, way) == ("late", "to server") and is_answer(data)
    ]
    net.say_to_server(late, held_back[1])
    assert not net.holds(late, PLATE)


def is_answer(data: bytes) -> bool:
    return isinstance(decode(data), Vouched)


def test_a_peer_that_stops_answering_has_no_key_of_the_next_epoch_even_if_it_receives_everything() -> None:
    """A30, A44: the new secret is not made of anything that the member holds."""
    net = OneTimeNet()
    stays, gone = net.member("stays", reading("stays", PLATE)), net.member("gone", reading("gone", PLATE))
    ring, before = net.ring(gone), net.epoch()
    assert ring.key(net.group(PLATE), before) is not None
    net.answering["gone"] = silent
    net.run(LEASE_S + 1)
    assert net.epoch() == before + 1
    for name, way, data in list(net.trace):
        if (name, way) == ("stays", "to member"):
            net.say_to(gone, data)
    assert net.holds(stays, PLATE)
    assert ring.key(net.group(PLATE), before + 1) is None


def passed_on(
    to: SigningKey, *uids: AttributeUid, by: SigningKey, since: float | None = None
) -> SignedCertificate:
    return granted(
        by,
        to,
        TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None),
        Action.SUBSCRIBE,
        attributes=frozenset(uids),
        validity=Validity(None if since is None else at(since), None),
    )


def test_between_two_answers_nothing_widens() -> None:
    """A30: what begins to count meanwhile is no part of what the tester has confirmed."""
    net, hub, member = OneTimeNet(), key_of("hub"), key_of("broker")
    whole = grant(hub, [PLATE, TIME]).certificate
    above = asked_each_time(issue(replace(whole, may_delegate=True), OWNER))
    pool = (above, passed_on(member, PLATE, by=hub), passed_on(member, TIME, by=hub, since=10))
    broker = net.member("broker", *pool)
    assert net.holds(broker, PLATE)
    net.run(LEASE_S / 2 - 1)
    net.ask(broker, broker.node.handle(Tick(), net.now))
    assert not net.holds(broker, TIME)
    net.run(2)
    assert net.holds(broker, TIME)
    assert net.holds(broker, PLATE)


# ------------------------------------------------------------ a manager that asks too much


@pytest.mark.parametrize("is_own", [True, False])
def test_no_peer_is_asked_about_what_is_not_the_members_own(is_own: bool) -> None:
    """A18: a manager cannot have other things confirmed in a member's name."""
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    [asked], first = asked_in(net.challenges()[0]), net.challenges()[0]
    other = replace(asked, request=bytes(32), nonce=bytes(32))
    if not is_own:
        other = replace(asked, certificate=reading("stays", PLATE).id, nonce=bytes(32))
    before = len(net.challenged)
    net.say_to(member, encode(Challenge(77, first.ref, 20, [question_to_bytes(other)])))
    assert len(net.challenged) == before
    said = [decode(data) for _, way, data in net.trace if way == "to server"]
    assert Vouched(77, []) in said


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_question_that_breaks_the_rules_ends_its_own_link_alone_when_its_turn_comes(
    is_answered: bool,
) -> None:
    """A74: what waited for answers was not read to its end before; it takes no peer along."""
    net = OneTimeNet()
    thief, stays = with_two(net)
    joins = [decode(data) for name, _, data in net.trace if name == "thief" and is_question(data)]
    net.say_to_server(thief, encode(msgspec.structs.replace(joins[0], id=99, head=b"no epoch")))
    challenge = net.challenges()[-1]
    if is_answered:
        bring(net, thief, challenge, *(answer_question(one, TESTER) for one in asked_in(challenge)))
    net.run(WAIT_S + 1)
    assert not net.holds(thief, PLATE)
    assert net.holds(stays, PLATE)


def is_question(data: bytes) -> bool:
    return isinstance(decode(data), JoinGroups)
