"""A key server whose members' rights must be vouched for: who shows what, who falls out, and when."""

from __future__ import annotations

import pytest

from maia.credentials import (
    AuthorisationCertificate,
    OnlineTest,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    issue,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.sealing.groups.membership import Claim
from maia.sealing.member.member import KeyMember
from maia.sealing.member.settings import KeysRefused, MemberSettings
from maia.testing.refusals import raises
from maia.validity import Monitor
from maia.wire.codec import decode, encode
from maia.wire.effects import Close
from maia.wire.messages import Bye, Show
from support.key_groups import (
    MANAGER,
    NETWORK,
    OWNER,
    PLATE,
    SECOND,
    KeyNet,
    at,
    connects,
    grant,
    key_of,
    random_from,
)

TESTER = key_of("tester")


def vouched(signed: SignedCertificate, by: SigningKey = TESTER) -> SignedCertificate:
    """Return the same certificate, but one that `by` has to vouch for."""
    said = signed.certificate
    assert isinstance(said, AuthorisationCertificate)
    validity = said.validity.with_tests(OnlineTest(TestKind.TIMED_CRL, by.principal))
    return issue(
        AuthorisationCertificate(said.issuer, said.subject, said.may_delegate, said.authority, validity),
        OWNER,
    )


def listed(
    number: int, *revoked: SignedCertificate, since: float | None = 0, lasting: float = 30, by=TESTER
) -> SignedStatement:
    period = None if since is None else period_from(at(since), microseconds=round(lasting * SECOND))
    ids = frozenset(one.id for one in revoked)
    return sign_statement(RevocationList(by.principal, number, period, ids), by)


class VouchedNet(KeyNet):
    """A net whose members have heard statements, each its own."""

    def __init__(self, **settings) -> None:
        self.heard: dict[str, Monitor] = {}
        self.connect: dict[str, SignedCertificate] = {}
        super().__init__(**settings)

    def tell(self, name: str, *statements: SignedStatement) -> Monitor:
        standing = self.heard.setdefault(name, Monitor())
        for one in statements:
            standing.receive(one, self.now)
        return standing

    def tell_server(self, *statements: SignedStatement) -> None:
        for one in statements:
            self.serve(self.server.hear(one, self.now))

    def node_of(self, name, key, pool, kept, start) -> KeyMember:
        settings = MemberSettings(NETWORK, (self.connect.get(name, connects(key)), *pool))
        random = random_from(self.seed + name.encode() + bytes([start]))
        return KeyMember(key, settings, random=random, kept=dict(kept), standing=self.tell(name))


def reading(name: str) -> SignedCertificate:
    return vouched(grant(key_of(name), [PLATE]))


def test_without_statements_nobody_is_let_in():
    net = VouchedNet()
    member = net.member("broker", reading("broker"))
    assert not net.holds(member, PLATE)


def test_whoever_brings_the_statements_is_let_in():
    net = VouchedNet()
    net.tell("broker", listed(1))
    assert net.holds(net.member("broker", reading("broker")), PLATE)


def test_what_the_domain_says_itself_need_not_be_brought():
    net = VouchedNet()
    net.tell_server(listed(1))
    assert net.holds(net.member("broker", reading("broker")), PLATE)


def test_a_right_to_connect_is_vouched_for_too():
    net = VouchedNet()
    net.connect["broker"] = vouched(connects(key_of("broker")))
    right = grant(key_of("broker"), [PLATE])
    refused = net.member("broker", right)
    assert not net.holds(refused, PLATE)
    net.tell("broker", listed(1))
    net.run(5)  # the member dials again by itself
    assert net.holds(refused, PLATE)
    net.effects.clear()
    net.run_to(at(29.9))
    assert not any(isinstance(one, Close) for one in net.effects)
    net.run_to(at(30.1))
    assert any(isinstance(one, Close) and "STALE" in one.code for one in net.effects), net.effects


def test_a_revocation_puts_a_member_out_at_once_and_the_others_have_new_keys():
    net = VouchedNet()
    net.tell_server(listed(1))
    right = reading("gone")
    gone, stays = net.member("gone", right), net.member("stays", reading("stays"))
    before = net.epoch()
    net.tell_server(listed(2, right, since=None))
    assert net.epoch() == before + 1
    assert net.holds(stays, PLATE)
    assert not net.holds(gone, PLATE)
    assert not net.holds(gone, PLATE, before)


def test_a_revoked_right_to_connect_ends_the_link_at_once():
    net = VouchedNet()
    net.tell_server(listed(1))
    shown = net.connect["broker"] = vouched(connects(key_of("broker")))
    assert net.holds(net.member("broker", grant(key_of("broker"), [PLATE])), PLATE)
    net.effects.clear()
    net.tell_server(listed(2, shown, since=None))
    assert any(isinstance(one, Close) and "REVOKED" in one.code for one in net.effects), net.effects


def test_nobody_revokes_what_others_issued_and_test():
    net = VouchedNet()
    stranger = key_of("stranger")
    right = reading("broker")
    net.tell_server(listed(1))
    member, before = net.member("broker", right), net.epoch()
    net.tell_server(listed(1, right, since=None, by=stranger))
    assert net.holds(member, PLATE)
    assert net.epoch() == before


def test_a_member_is_put_out_a_moment_after_the_last_list_and_not_before():
    net = VouchedNet()
    net.tell_server(listed(1))
    right = reading("broker")
    member, stays = net.member("broker", right), net.member("stays", grant(key_of("stays"), [PLATE]))
    before = net.epoch()
    net.run_to(at(30 - 0.000001))
    assert net.server.groups_of(net.type_id).is_in(net.group(PLATE), member.principal)
    net.run_to(at(30.000001))
    assert not net.server.groups_of(net.type_id).is_in(net.group(PLATE), member.principal)
    assert net.epoch() == before + 1
    assert net.holds(stays, PLATE)


def test_a_list_that_is_late_suspends_a_member_and_the_next_one_gives_back_what_it_missed():
    net = VouchedNet()
    net.tell_server(listed(1))
    member, stays = (
        net.member("broker", reading("broker")),
        net.member("stays", grant(key_of("stays"), [PLATE])),
    )
    before = net.epoch()
    net.run_to(at(32))
    assert net.epoch() == before + 1  # what is stale reads nothing more
    assert net.holds(stays, PLATE)
    assert not net.holds(member, PLATE)
    assert member.node.is_suspended(net.type_id)
    assert not any(isinstance(one, KeysRefused) for one in member.notices)
    net.tell_server(listed(2, since=30))
    assert net.holds(member, PLATE)  # at once, and without a question
    assert net.holds(member, PLATE, before + 1)
    assert net.epoch() == before + 1
    assert not member.node.is_suspended(net.type_id)


def test_a_member_that_missed_a_list_asks_again_as_soon_as_it_hears_one():
    net = VouchedNet()
    newer = listed(2, since=30, lasting=300)
    net.tell("broker", listed(1))
    member = net.member("broker", reading("broker"))
    net.run_to(at(29))
    net.tell_server(newer)  # the manager has it, and the member does not hear of it
    net.run_to(at(31))
    net.ask(member, member.node.rights_changed(net.now))
    assert not net.holds(member, PLATE)
    net.tell("broker", newer)
    net.ask(member, member.node.rights_changed(net.now))
    assert net.holds(member, PLATE)


def test_a_suspended_member_that_is_revoked_meanwhile_gets_no_key_again():
    net = VouchedNet()
    net.tell_server(listed(1))
    right = reading("broker")
    member = net.member("broker", right)
    net.run_to(at(32))
    net.tell_server(listed(2, right, since=30, lasting=300))
    net.run_to(at(120))
    assert not net.holds(member, PLATE)
    assert [one.code for one in member.notices if isinstance(one, KeysRefused)]


def test_lists_that_follow_each_other_change_no_key_and_keep_nothing_new_of_members():
    net = VouchedNet()
    net.tell_server(listed(1))
    member = net.member("broker", reading("broker"))
    before, net.effects = net.epoch(), []
    for number in range(2, 12):
        net.run_to(at(30 * (number - 1) - 5))
        net.tell_server(listed(number, since=30 * (number - 1)))
    assert net.epoch() == before
    assert net.holds(member, PLATE)
    kept = {type(one).__name__ + getattr(one, "name", "") for one in net.effects}
    assert not any("member" in one for one in kept), kept


def test_members_pass_on_what_they_hear_as_long_as_it_concerns_them():
    net = VouchedNet()
    net.tell("broker", listed(1))
    member = net.member("broker", reading("broker"))
    net.run_to(at(25))
    net.tell("broker", listed(2, since=30))
    net.ask(member, member.node.statement_heard(TESTER.principal, net.now))
    net.ask(member, member.node.statement_heard(key_of("stranger").principal, net.now))
    net.run_to(at(45))
    assert net.holds(member, PLATE)
    net.run_to(at(61))
    assert not net.server.groups_of(net.type_id).is_in(net.group(PLATE), member.principal)


@pytest.mark.parametrize("refused_at", ["hello", "joining"])
def test_what_a_refused_peer_brought_is_acted_upon_all_the_same(refused_at):
    """A35: its own word costs it its right; whoever else it concerns hears of it all the same."""
    net = VouchedNet()
    net.tell_server(listed(1))
    right, own = reading("gone"), reading("late")
    if refused_at == "hello":
        own = net.connect["late"] = vouched(connects(key_of("late")))
    gone, stays = net.member("gone", right), net.member("stays", reading("stays"))
    before = net.epoch()
    net.tell("late", listed(2, right, own))
    net.member("late", reading("late") if refused_at == "hello" else own)
    assert net.epoch() == before + 1
    assert not net.holds(gone, PLATE)
    assert net.holds(stays, PLATE)


def test_a_server_that_was_restarted_remembers_what_was_revoked():
    net = VouchedNet()
    right = reading("broker")
    net.tell_server(listed(1), listed(2, right, since=None))
    net.restart_server()
    net.tell("broker", listed(1))  # a list of before, and still fresh
    assert not net.holds(net.member("broker", right), PLATE)


def test_a_server_does_not_start_from_statements_that_it_cannot_read():
    net = VouchedNet()
    net.tell_server(listed(1))
    (name,) = [name for name in net.kept if name.startswith("statements/")]
    with raises("INPUT-KEPT-STATEMENTS"):
        net.start_server(net.kept | {name: b"\xff"})


def test_the_word_of_strangers_fills_no_memory():
    net = VouchedNet()
    member = net.member("broker", grant(key_of("broker"), [PLATE]))
    for number in range(20):
        said = listed(1, by=key_of(f"stranger {number}"))
        net.say_to_server(member, encode(Show(1, [], [statement_to_bytes(said)])))
    assert net.server.status(net.now)["vouchers"] == {}


def test_a_manager_that_must_be_vouched_for_brings_its_statements():
    net = VouchedNet()
    net.settings = net.settings.__class__(
        NETWORK, net.settings.address, (vouched(connects(MANAGER)),), terms=net.settings.terms
    )
    net.restart_server()
    alone = net.member("alone", grant(key_of("alone"), [PLATE]))
    assert not net.holds(alone, PLATE)
    net.tell_server(listed(1))
    assert net.holds(net.member("broker", grant(key_of("broker"), [PLATE])), PLATE)


def test_a_manager_does_not_talk_itself_out_of_a_revocation():
    net = VouchedNet()
    own = vouched(connects(MANAGER))
    net.settings = net.settings.__class__(NETWORK, net.settings.address, (own,), terms=net.settings.terms)
    net.restart_server()
    net.tell_server(listed(1))
    net.tell("broker", listed(1), listed(2, own, since=None))
    assert not net.holds(net.member("broker", grant(key_of("broker"), [PLATE])), PLATE)
    said = [decode(data) for name, way, data in net.trace if way == "to server"]
    assert any(isinstance(one, Bye) for one in said)


def test_a_manager_that_is_revoked_later_is_left_and_not_found_again():
    net = VouchedNet()
    own = net.settings.credentials[0]
    member = net.member("broker", grant(key_of("broker"), [PLATE]))
    net.tell("broker", listed(1, own, since=None, by=OWNER))
    net.ask(member, member.node.statement_heard(OWNER.principal, net.now))
    net.run(30)
    assert "ready" not in member.node.status()["managers"].values()


def test_the_past_is_for_those_whose_right_is_good_now():
    net = VouchedNet(history=True)
    right = reading("broker")
    net.tell_server(listed(1, lasting=10_000))
    net.member("broker", right)
    net.run(1500)  # over the first refresh, so that an epoch is over
    manager = net.server.groups_of(net.type_id)
    claim = Claim(key_of("broker").principal, (net.event_type,), (right,))

    def told():
        return manager.past(claim, since=at(-10), until=at(5000), after=0, now=net.now)[0]

    assert told()
    net.tell_server(listed(2, right, since=None))
    assert not told()
