"""A key server lets those in whom somebody vouches for, for one lease, and asks again half way."""

from __future__ import annotations

import pytest

from maia.domain import DomainLimits
from maia.sealing.member.settings import KeysChanged, KeysRefused
from maia.wire.codec import encode
from maia.wire.messages import LeaveGroups, Vouched
from support.key_groups import PLATE, TIME, WRITE, Member, grant, key_of
from support.one_time_keys import (
    LEASE_S,
    WAIT_S,
    OneTimeNet,
    asked_each_time,
    reading,
    revoked,
    silent,
)


def refusals(member: Member) -> list[str]:
    return [one.code for one in member.notices if isinstance(one, KeysRefused)]


def test_whoever_is_vouched_for_is_let_in() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    assert net.holds(member, PLATE)
    assert not net.holds(member, TIME)
    [challenge] = net.challenges()
    assert challenge.seconds == WAIT_S


def test_a_right_that_needs_nobodys_word_is_asked_about_by_nobody() -> None:
    net = OneTimeNet()
    member = net.member("broker", grant(key_of("broker"), [PLATE]), reading("broker", PLATE))
    assert net.holds(member, PLATE)
    assert net.challenges() == []


def test_what_leads_nowhere_is_not_asked_about() -> None:
    """A30: nobody is asked about a certificate that opens no group."""
    net = OneTimeNet()
    other = asked_each_time(grant(key_of("somebody else"), [PLATE]))
    member = net.member("broker", other)
    assert not net.holds(member, PLATE)
    assert net.challenges() == []


def test_whoever_nobody_vouches_for_is_told_so() -> None:
    net = OneTimeNet()
    net.answering["broker"] = silent
    member = net.member("broker", reading("broker", PLATE))
    assert not net.holds(member, PLATE)
    assert refusals(member) == ["REFUSED-NOT-VOUCHED-FOR"]


def test_whoever_does_not_answer_is_let_in_nowhere_and_may_ask_again() -> None:
    net = OneTimeNet()
    net.holds_back = True
    member = net.member("broker", reading("broker", PLATE))
    net.run(WAIT_S - 0.1)
    assert refusals(member) == []
    net.run(0.2)
    assert refusals(member) == ["UNAVAILABLE-NOT-VOUCHED-FOR"]
    net.holds_back = False
    net.run(WAIT_S + 10)  # it has asked again already, a moment after the refusal
    assert net.holds(member, PLATE)


def test_the_manager_is_not_taken_for_silent_while_it_waits() -> None:
    net = OneTimeNet()
    net.holds_back = True
    member = net.member("broker", reading("broker", PLATE))
    net.run(15)  # longer than an answer may take
    assert len(net.dials) == 1
    net.bring(*net.challenged[0])
    net.settle()
    assert net.holds(member, PLATE)


def test_what_needs_nobodys_word_is_given_where_nobody_vouches_for_the_rest() -> None:
    net = OneTimeNet()
    net.answering["broker"] = silent
    member = net.member("broker", grant(key_of("broker"), [PLATE]), reading("broker", TIME))
    assert net.holds(member, PLATE)
    assert not net.holds(member, TIME)


def test_a_member_that_is_vouched_for_again_keeps_its_keys_and_nobody_hears_of_it() -> None:
    net = OneTimeNet()
    member, other = (
        net.member("broker", reading("broker", PLATE)),
        net.member("other", reading("other", PLATE)),
    )
    epoch, asked = net.epoch(), len(net.challenges())
    member.notices.clear()
    net.run(10 * LEASE_S)
    assert net.holds(member, PLATE)
    assert net.holds(other, PLATE)
    assert net.epoch() == epoch
    assert not any(isinstance(one, KeysChanged) for one in member.notices)
    again = len(net.challenges()) - asked
    assert 2 * 19 <= again <= 2 * 21  # both of them, half way through every lease


@pytest.mark.parametrize("is_told", [True, False])
def test_a_member_that_is_vouched_for_no_more_is_put_out_and_the_keys_change(is_told: bool) -> None:
    """A30: whoever stops answering holds no key of the next epoch, and its own end with its lease."""
    net = OneTimeNet()
    gone, stays = net.member("gone", reading("gone", PLATE)), net.member("stays", reading("stays", PLATE))
    before = net.epoch()
    net.answering["gone"] = silent
    if not is_told:
        net.weather = lambda message, name, to_server: int(name != "gone" or to_server)
    net.run(LEASE_S / 2 - 1)
    assert net.holds(gone, PLATE)
    net.run(LEASE_S / 2 + 2)
    assert net.epoch() == before + 1
    assert net.holds(stays, PLATE)
    assert not net.holds(gone, PLATE)
    assert not net.holds(gone, PLATE, before)


def test_a_list_puts_a_member_out_at_once_whatever_was_answered() -> None:
    net = OneTimeNet()
    right = reading("gone", PLATE)
    gone, stays = net.member("gone", right), net.member("stays", reading("stays", PLATE))
    before, asked = net.epoch(), len(net.challenges())
    net.tell_server(revoked(1, right))
    assert net.epoch() == before + 1
    assert net.holds(stays, PLATE)
    assert not net.holds(gone, PLATE)
    assert len(net.challenges()) == asked


def test_a_member_that_went_away_is_put_out_when_its_answers_have_served() -> None:
    net = OneTimeNet()
    gone, stays = net.member("gone", reading("gone", PLATE)), net.member("stays", reading("stays", PLATE))
    before = net.epoch()
    net.cut_off(gone)
    net.run(LEASE_S - 1)
    assert net.epoch() == before
    net.run(2)
    assert net.epoch() == before + 1
    assert net.holds(stays, PLATE)
    assert not net.holds(gone, PLATE, before)  # it has let go by itself


def test_a_member_that_comes_back_is_asked_anew() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    asked = len(net.challenges())
    net.cut_off(member)
    net.cut_off(member, is_cut_off=False)
    net.run(5)
    assert net.holds(member, PLATE)
    assert len(net.challenges()) == asked + 1


def test_a_server_that_restarts_asks_anew() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    before = net.epoch()
    net.answering["broker"] = silent
    net.restart_server()
    assert net.epoch() == before + 1  # nobody has vouched for it there
    net.run(10)
    assert not net.holds(member, PLATE)
    del net.answering["broker"]
    net.run(120)
    assert net.holds(member, PLATE)


def test_a_member_that_missed_something_is_told_again_without_another_question() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    asked = len(net.challenges())
    net.ask(member, member.node.missing(net.type_id, net.now))
    assert net.holds(member, PLATE)
    assert len(net.challenges()) == asked


def test_more_certificates_that_are_shown_are_asked_about() -> None:
    net = OneTimeNet()
    first = reading("broker", PLATE)
    member = net.member("broker", first)
    net.show(member, first, reading("broker", TIME))
    assert net.holds(member, PLATE)
    assert net.holds(member, TIME)
    assert len(net.challenges()[-1].questions) == 2


def test_whoever_leaves_is_asked_no_more() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    net.leave(member)
    asked = len(net.challenges())
    net.run(3 * LEASE_S)
    assert len(net.challenges()) == asked


def test_what_is_left_while_it_is_asked_about_waits_for_nothing() -> None:
    net = OneTimeNet()
    net.holds_back = True
    member = net.member("broker", reading("broker", PLATE))
    net.say_to_server(member, encode(LeaveGroups(net.type_id)))
    assert net.server.status(net.now)["one_time"] == {"waiting": 0}


def test_a_link_that_is_gone_waits_for_nothing() -> None:
    net = OneTimeNet()
    net.holds_back = True
    member = net.member("broker", reading("broker", PLATE))
    assert net.server.status(net.now)["one_time"] == {"waiting": 1}
    net.cut_off(member)
    assert net.server.status(net.now)["one_time"] == {"waiting": 0}


def test_no_more_questions_are_open_than_may_be() -> None:
    net = OneTimeNet(limits=DomainLimits(one_time_questions=1))
    net.holds_back = True
    first, second = (
        net.member("first", reading("first", PLATE)),
        net.member("second", reading("second", PLATE)),
    )
    assert [one.code for one in second.notices if isinstance(one, KeysRefused)] == [
        "UNAVAILABLE-ONE-TIME-QUOTA"
    ]
    assert not any(isinstance(one, KeysRefused) for one in first.notices)


def test_a_member_for_whom_there_is_no_room_half_way_is_asked_a_moment_later() -> None:
    net = OneTimeNet(limits=DomainLimits(one_time_questions=1))
    stays = net.member("stays", reading("stays", PLATE))
    net.run(LEASE_S / 2 - 1)
    net.holds_back = True
    net.member("other", reading("other", PLATE))
    net.run(2)
    [_, (_, waiting)] = net.challenged
    net.holds_back = False
    net.bring(net.members["other"], waiting)
    net.run(3)
    assert [one.name for one, _ in net.challenged] == ["stays", "other", "stays"]
    assert net.holds(stays, PLATE)


def test_publishing_alone_is_vouched_for_too() -> None:
    net = OneTimeNet()
    writes = asked_each_time(grant(key_of("broker"), [PLATE], actions=WRITE))
    member = net.member("broker", grant(key_of("broker"), [PLATE]), writes)
    assert len(net.challenges()) == 1
    manager = net.server.groups_of(net.type_id)
    assert manager is not None
    assert [one.id for one in manager.writer(member.principal, net.now)] == [writes.id]
    net.answering["broker"] = silent
    net.run(LEASE_S + 1)
    assert manager.writer(member.principal, net.now) == ()
    assert net.holds(member, PLATE)


def test_a_late_answer_changes_nothing() -> None:
    net = OneTimeNet()
    member = net.member("broker", reading("broker", PLATE))
    before = net.epoch()
    net.say_to_server(member, encode(Vouched(99, [])))
    assert net.counts["maia_late_answers_total"] == 1
    assert net.epoch() == before
    assert net.holds(member, PLATE)
