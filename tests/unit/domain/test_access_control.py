"""One domain's access control service, act by act, around Detective Smith (dissertation 6.1.1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import Action, BadSignature, TypePattern, exact_name
from maia.credentials.certificate import OnlineTest, TestKind
from maia.domain.access.results import AdminAct, Revoked
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.storage.tables import ALL_TABLES
from maia.policy import Denial, Permit, see
from maia.policy.decision import PolicyRefusal
from maia.testing.refusals import raises
from maia.validity import Monitor
from support.access_control import (
    BROWN,
    DAY,
    JONES,
    MET,
    NUMBERPLATE,
    PITO,
    POLICY,
    SMITH,
    Station,
    broker,
    check_consistent,
    court,
    granted,
    later,
    listed,
    met,
    order,
    told,
    until,
    verdict,
)
from support.policy import topic_pattern

PLATE = "AE05 XYZ"


class Broke(Exception):
    """Raised in the middle of an act."""


@pytest.fixture
def courts() -> Station:
    return court()


@pytest.fixture
def station(courts: Station) -> Station:
    """The Met, which has heard that the courts vouch for their orders."""
    made = met()
    told(made, courts)
    return made


def roles(memberships) -> list[str]:
    return [one.membership.role for one in memberships]


# ---------------------------------------------------------------- giving


def test_a_detective_with_an_order_gets_roles_and_rights_that_a_broker_believes(station, courts):
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    assert roles(wallet.memberships) == ["detective_on_duty", "np_tracker", "supervisor"]
    assert len(wallet.issued) == 2
    assert wallet.withheld == ()
    decision = verdict(SMITH.principal, wallet.chains, broker(station.now, station), station.now)
    assert isinstance(decision, Permit)


def test_the_wallet_brings_the_statements_that_its_first_verifier_needs(station, courts):
    station.beat()
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    standing = Monitor()
    for statement in wallet.statements:
        standing.receive(statement, station.now)
    assert isinstance(verdict(SMITH.principal, wallet.chains, standing, station.now), Permit)


def test_each_right_says_that_this_domain_must_vouch_for_it(station, courts):
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    for right in wallet.issued:
        tests = right.certificate.certificate.validity.tests
        assert OnlineTest(TestKind.TIMED_CRL, MET.principal) in tests
    assert isinstance(verdict(SMITH.principal, wallet.chains, Monitor(), station.now), Denial)


def test_forty_cases_are_forty_rights_and_a_broker_adds_them_up(station, courts):
    """Each case brings a certificate of its own, for the tracker and for the supervisor."""
    cars = [f"AE05 {number:03}" for number in range(40)]
    for car in cars:
        station.assert_fact("case_assignment", [SMITH.principal, car])
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, car, car) for car in cars])
    decision = verdict(SMITH.principal, wallet.chains, broker(station.now, station, courts), station.now)
    assert isinstance(decision, Permit)
    plate = NUMBERPLATE.vocabulary["numberplate"].uid
    seen = [car for car in (*cars, "B4 NDIT") if see(decision.view, {plate: car}) is not None]
    assert seen == cars
    assert decision.limit is None


def test_what_a_domain_was_granted_twice_adds_up_for_its_members(station, courts):
    """Two certificates of the owner open different places to the Met; a detective of it sees both."""
    alone = Station(MET)
    alone.register_type(NUMBERPLATE.signed)
    places = ("Victoria", "Trumpington")
    alone.hold(
        [
            granted(PITO, MET, "subscribe", may_delegate=True, restriction=f'location == "{place}"')
            for place in places
        ]
    )
    there = 'location in ("Victoria", "Trumpington")'
    alone.load_policy(POLICY.replace("numberplate == $plate", f"numberplate == $plate and {there}"))
    alone.assert_fact("detective", [SMITH.principal])
    alone.assert_fact("case_assignment", [SMITH.principal, "42"])
    told(alone, courts)
    wallet = alone.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    decision = verdict(SMITH.principal, wallet.chains, broker(alone.now, alone, courts), alone.now)
    assert isinstance(decision, Permit)
    plate, where = (NUMBERPLATE.vocabulary[name].uid for name in ("numberplate", "location"))
    seen = [place for place in (*places, "Oxford") if see(decision.view, {plate: PLATE, where: place})]
    assert seen == list(places)


def test_rights_are_renewed_when_half_of_their_time_is_over(station, courts):
    shown = [order(courts, SMITH, "42", PLATE, days=30)]
    first = {one.id for one in station.login(SMITH.principal, shown).issued}
    station.now = later(0.4 * DAY)
    told(station, courts)
    assert {one.id for one in station.login(SMITH.principal, shown).issued} == first
    station.now = later(0.6 * DAY)
    told(station, courts)
    renewed = station.login(SMITH.principal, shown)
    assert first.isdisjoint(one.id for one in renewed.issued)
    assert all(one.until == later(1.6 * DAY) for one in renewed.issued)
    assert station.now < renewed.renew_before < min(one.until for one in renewed.issued)


def test_an_order_for_somebody_else_counts_for_nothing(station, courts):
    with raises("REFUSED-ACTIVATION"):
        station.activate(SMITH.principal, "np_tracker", None, [order(courts, JONES, "42", PLATE)])


def test_an_order_that_a_stranger_signed_counts_for_nothing(station):
    forged = Station(BROWN).appoint(SMITH.principal, "court_order", ["42", PLATE], until(DAY))
    with raises("REFUSED-ACTIVATION"):
        station.activate(SMITH.principal, "np_tracker", None, [forged])


def test_an_order_whose_signature_does_not_hold_is_refused_as_such(station, courts):
    signed = order(courts, SMITH, "42", PLATE)
    with pytest.raises(BadSignature):
        station.activate(SMITH.principal, "np_tracker", None, [replace(signed, signature=bytes(64))])


def test_an_order_that_nobody_vouches_for_now_counts_for_nothing(courts):
    deaf = met()
    with raises("REFUSED-ACTIVATION"):
        deaf.activate(SMITH.principal, "np_tracker", None, [order(courts, SMITH, "42", PLATE)])


def test_an_unknown_role_is_refused_as_such(station):
    with raises("INPUT-UNKNOWN-ROLE"):
        station.activate(SMITH.principal, "np_traker", None, [])


def test_what_the_domain_cannot_pass_on_is_withheld(courts):
    poor = Station(MET)
    poor.register_type(NUMBERPLATE.signed)
    poor.hold([granted(PITO, MET, "subscribe", may_delegate=False)])
    poor.load_policy(POLICY)
    poor.assert_fact("detective", [SMITH.principal])
    poor.assert_fact("case_assignment", [SMITH.principal, "42"])
    told(poor, courts)
    wallet = poor.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    assert wallet.issued == ()
    assert len(wallet.withheld) == 2
    assert poor.rights_of(SMITH.principal).rows == ()


@pytest.mark.parametrize("order_", [(False, True), (True, False)])
def test_a_certificate_that_cannot_be_passed_on_stands_in_the_way_of_none_that_can(courts, order_):
    station = Station(MET)
    station.register_type(NUMBERPLATE.signed)
    station.hold([granted(PITO, MET, "subscribe", may_delegate=one) for one in order_])
    station.load_policy(POLICY)
    station.assert_fact("detective", [SMITH.principal])
    station.assert_fact("case_assignment", [SMITH.principal, "42"])
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    assert (len(wallet.issued), wallet.withheld) == (2, ())


def test_of_two_actions_the_one_that_the_domain_can_pass_on_is_worth_issuing(courts):
    """A right to publish and subscribe, of a domain that may only subscribe now, lets one subscribe."""
    station, both = met(), POLICY.replace("may subscribe to", "may publish and subscribe to", 1)
    held = {action: granted(PITO, MET, action, may_delegate=True) for action in ("publish", "subscribe")}
    with raises("INPUT-ROLE-POLICY"):
        station.load_policy(both)
    station.hold([*held.values()])
    station.load_policy(both)
    station.hold([held["subscribe"]])
    told(station, courts)
    wallet = station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    assert (len(wallet.issued), wallet.withheld) == (2, ())
    decision = verdict(SMITH.principal, wallet.chains, broker(station.now, station), station.now)
    assert isinstance(decision, Permit)


def test_an_appointment_of_the_domain_itself_need_not_be_shown():
    text = """policy "Own"
appointment officer(rank: int) by here
role member(rank: int)
rule member(rank)
    while officer(rank)
    until officer ends
end
"""
    station = Station(MET)
    station.load_policy(text)
    appointed = station.appoint(SMITH.principal, "officer", [3], until(DAY))
    (active,) = station.activate(SMITH.principal, "member", None, [])
    assert active.membership.arguments == (3,)
    assert station.appointments().rows == (appointed,)
    gone = station.revoke_appointment(appointed.id, "left")
    assert [one.role for one in gone.memberships] == ["member"]
    assert listed(gone.statement) == {appointed.id, active.certificate.id}
    assert station.appointments().rows == ()
    with raises("REFUSED-ACTIVATION"):
        station.activate(SMITH.principal, "member", None, [])


# ---------------------------------------------------------------- taking away


def test_kinds_of_arguments_never_mix():
    station = Station(MET)  # without a policy, nothing says of which kind an argument must be
    assert station.assert_fact("level", [1])
    assert station.assert_fact("level", [True])
    assert station.assert_fact("level", [1.0])
    assert not station.assert_fact("level", [1])
    assert station.retract_fact("level", ["1"]) == Revoked(is_news=False)
    station.retract_fact("level", [True])
    assert {(type(row[0]), row[0]) for row in station.facts("level").rows} == {(int, 1), (float, 1.0)}


def test_what_was_said_under_an_earlier_policy_is_retracted_still():
    station = met(policy=POLICY.replace("fact detective", "fact old(n: int)\nfact detective"))
    station.assert_fact("old", [1])
    station.load_policy(POLICY)
    with raises("INPUT-UNKNOWN-FACT"):
        station.retract_fact("old", [2])
    assert station.retract_fact("old", [1]).is_news
    with raises("INPUT-UNKNOWN-FACT"):
        station.retract_fact("old", [1])


def test_only_what_this_domain_vouches_for_is_revoked_here(station, courts):
    shown = order(courts, SMITH, "42", PLATE)
    station.login(SMITH.principal, [shown])
    for other in (shown.id, station.held(station.now)[0].id):
        with raises("REFUSED-NOT-OURS"):
            station.revoke([other], "not ours")
    with raises("INPUT-UNKNOWN-CERTIFICATE"):
        station.revoke([bytes(32)], "unknown")


def test_a_certificate_that_the_domain_key_signed_elsewhere_can_be_registered_and_revoked(station):
    signed = granted(MET, BROWN, "publish", topic_pattern("/admin/policy", MET.principal))
    station.hold([signed])
    assert station.revoke([signed.id], "lost").ids == (signed.id,)


# ---------------------------------------------------------------- policies


def test_a_policy_that_only_moves_its_rules_takes_nothing(station, courts):
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    loaded = station.load_policy("# a remark\n" + POLICY.replace("\nrule ", "\n\n\nrule "))
    assert loaded.version == 2
    assert loaded.revoked == Revoked()


def test_a_policy_that_accepts_other_courts_takes_what_rested_on_the_old_ones(station, courts):
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    gone = station.load_policy(POLICY.replace(str(courts.key.principal), str(BROWN.principal))).revoked
    assert [one.role for one in gone.memberships] == ["np_tracker", "supervisor"]


def test_a_policy_imports_the_roles_of_a_parent():
    parent = """policy "Nation"
fact sworn(who: principal)
role officer()
rule officer()
    while sworn(holder)
    for 1 hour
end
"""
    child = """policy "Met"
import nation
role sergeant()
rule sergeant()
    while officer()
    until officer ends
end
"""
    station = Station(MET)
    station.load_policy(child, parents={"nation": parent})
    station.assert_fact("sworn", [SMITH.principal])
    again = station.restarted()
    assert roles(again.login(SMITH.principal, []).memberships) == ["officer", "sergeant"]


# ---------------------------------------------------------------- administration


def test_an_administrator_is_whoever_holds_the_certificate_for_the_topic(station):
    right = granted(MET, BROWN, "publish", topic_pattern("/admin/policy", MET.principal))
    assert isinstance(
        station.authorised(BROWN.principal, [right], AdminAct.CHANGE_POLICY, station.now), Permit
    )
    for act in (AdminAct.READ_POLICY, AdminAct.CHANGE_FACTS, AdminAct.READ_AUDIT):
        with pytest.raises(PolicyRefusal):
            station.authorised(BROWN.principal, [right], act, station.now)
    with pytest.raises(PolicyRefusal):
        station.authorised(JONES.principal, [right], AdminAct.CHANGE_POLICY, station.now)


@pytest.mark.parametrize("act", AdminAct)
def test_the_domain_key_needs_no_certificate_and_everybody_else_does(station, act):
    assert isinstance(station.authorised(MET.principal, [], act, station.now), Permit)
    with pytest.raises(PolicyRefusal):
        station.authorised(BROWN.principal, [], act, station.now)


def test_an_administrator_whose_certificate_was_revoked_is_none(station):
    right = granted(MET, BROWN, "subscribe", topic_pattern("/admin/audit", MET.principal))
    station.hold([right])
    station.authorised(BROWN.principal, [right], AdminAct.READ_AUDIT, station.now)
    station.revoke([right.id], "left")
    with pytest.raises(PolicyRefusal):
        station.authorised(BROWN.principal, [right], AdminAct.READ_AUDIT, station.now)


def test_the_policy_itself_can_make_administrators():
    text = """policy "Offices"
fact clerk(who: principal)
role clerk_of_facts()
rule clerk_of_facts()
    while clerk(holder)
    for 8 hours
grant clerk_of_facts()
    may publish topic "/admin/facts" of here
end
"""
    station = Station(MET)
    station.load_policy(text)
    station.assert_fact("clerk", [BROWN.principal])
    wallet = station.login(BROWN.principal, [])
    station.authorised(BROWN.principal, wallet.chains, AdminAct.CHANGE_FACTS, station.now)
    station.retract_fact("clerk", [BROWN.principal])
    with pytest.raises(PolicyRefusal):
        station.authorised(BROWN.principal, wallet.chains, AdminAct.CHANGE_FACTS, station.now)


def test_another_domains_administrator_is_a_stranger_here(station):
    right = granted(PITO, BROWN, "publish", topic_pattern("/admin/policy", PITO.principal))
    blanket = granted(BROWN, BROWN, "publish", TypePattern(None, exact_name("x"), None))
    with pytest.raises(PolicyRefusal):
        station.authorised(BROWN.principal, [right, blanket], AdminAct.CHANGE_POLICY, station.now)


# ---------------------------------------------------------------- once, and once only


def test_a_request_with_a_key_is_done_once(station):
    calls = []

    def act() -> bytes:
        calls.append(station.appoint(SMITH.principal, "medal", [], until(DAY)).id)
        return calls[-1]

    first = station.once("k1", b"digest", act)
    assert station.once("k1", b"digest", act) == first
    assert station.restarted().once("k1", b"digest", act) == first
    assert len(calls) == 1
    with raises("INPUT-IDEMPOTENCY-KEY"):
        station.once("k1", b"another", act)
    assert station.once("k2", b"digest", act) != first


def test_a_request_that_failed_is_not_remembered_and_leaves_nothing(station):
    head = station.audit_head()

    def broken() -> bytes:
        station.appoint(SMITH.principal, "medal", [], until(DAY))
        raise Broke

    with pytest.raises(Broke):
        station.once("k1", b"digest", broken)
    assert station.audit_head() == head
    assert station.appointments().rows == ()
    assert station.once("k1", b"other", lambda: b"fine") == b"fine"


def test_the_same_key_of_another_actor_is_another_key(station):
    station.once("k", b"d", lambda: b"mine")
    assert station.once("k", b"d", lambda: b"yours", actor=BROWN.principal) == b"yours"


def test_an_answer_is_forgotten_in_time(station):
    station.once("k", b"d", lambda: b"old")
    station.now = later(2 * DAY)
    assert station.once("k", b"e", lambda: b"new") == b"new"


# ---------------------------------------------------------------- limits


def test_numbers_have_limits(courts):
    limits = AccessLimits(page=5, shown=2, memberships_each=1, facts=3, fact_rows=2, held=1, types=1)
    station = met(settings=AccessSettings(limits=limits))
    told(station, courts)
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        station.assert_fact("detective", [BROWN.principal])
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        station.replace_facts("detective", [[one.principal] for one in (SMITH, JONES, BROWN)])
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    with raises("INPUT-TOO-MANY-SHOWN"):
        station.login(SMITH.principal, [order(courts, SMITH, str(case), PLATE) for case in range(3)])
    with raises("UNAVAILABLE-ACCESS-CONTROL-FULL"):
        station.hold([granted(PITO, MET, "publish")])
    for limit in (0, 6):
        with raises("INPUT-PAGE"):
            station.register(limit=limit)
    with raises("INPUT-PAGE"):
        station.register(after="x")


def test_every_act_leaves_one_record(station, courts):
    before = station.audit_head().length
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    station.retract_fact("case_assignment", [SMITH.principal, "42"])
    records = station.audit(after=before).rows
    assert [record.act for record in records] == ["login", "fact.retract"]
    assert records[0].actor == MET.principal
    assert dict(records[1].details)["revoked"] == "4"


def test_the_audit_and_the_register_come_in_pages(station, courts):
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    records, page = [], station.audit(limit=2)
    while page.after is not None:
        records += page.rows
        page = station.audit(after=int(page.after), limit=2)
    records += page.rows
    assert [one.number for one in records] == list(range(1, station.audit_head().length + 1))
    entries, page = [], station.register(limit=1)
    while page.after is not None:
        entries += page.rows
        page = station.register(after=page.after, limit=1)
    assert entries == list(station.register().rows)
    assert len(entries) == 3


def test_the_owner_of_a_type_can_do_everything_with_it(station):
    assert (
        station.who_can(Action.PUBLISH, NUMBERPLATE.name, None, station.now).rows[0].principal
        == PITO.principal
    )


def test_what_hangs_from_a_certificate_that_its_owner_has_revoked_is_withheld(courts):
    owner, station = Station(PITO), Station(MET)
    station.register_type(NUMBERPLATE.signed)
    given = granted(PITO, MET, "subscribe", may_delegate=True)
    owner.hold([given])
    station.hold([given])
    station.load_policy(POLICY)
    station.assert_fact("detective", [SMITH.principal])
    station.assert_fact("case_assignment", [SMITH.principal, "42"])
    told(station, courts, owner)
    assert len(station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)]).issued) == 2
    station.receive_statement(owner.revoke([given.id], "contract ended").statement)
    wallet = station.login(SMITH.principal, [])
    assert wallet.issued == ()
    assert {(one.right, one.code) for one in wallet.withheld} == {
        ("subscribe uk.gov.pito.Numberplate", "CREDENTIAL-REVOKED")
    }
    assert all(f"ask `{PITO.principal}` for a new grant" in one.why for one in wallet.withheld)


def test_a_premise_that_is_only_asked_once_is_not_watched():
    text = """policy "Given"
fact member(who: principal)
fact invited(who: principal)
role guest()
role friend()
rule guest()
    given invited(holder)
    while member(holder)
    for 8 hours
rule friend()
    given guest()
    for 4 hours
end
"""
    station = Station(MET)
    station.load_policy(text)
    for fact in ("member", "invited"):
        station.assert_fact(fact, [SMITH.principal])
    assert roles(station.login(SMITH.principal, []).memberships) == ["guest", "friend"]
    assert station.retract_fact("invited", [SMITH.principal]) == Revoked()
    assert [one.role for one in station.retract_fact("member", [SMITH.principal]).memberships] == ["guest"]
    assert roles(station.memberships_of(SMITH.principal, station.now).rows) == ["friend"]


def test_what_expired_is_kept_for_a_while_and_then_forgotten(station, courts):
    station.once("k", b"d", lambda: b"x")
    for day in range(3):
        station.now = later(day * DAY)
        told(station, courts)
        station.beat()
        station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE, days=day + 1)])
        check_consistent(station)
    assert len(station.rights_of(SMITH.principal).rows) == 6
    station.now = later(9 * DAY)
    station.beat()
    check_consistent(station)
    assert len(station.rights_of(SMITH.principal).rows) == 2, "the last ones ended less than a week ago"
    station.now = later(30 * DAY)
    station.beat()
    check_consistent(station)
    assert station.rights_of(SMITH.principal).rows == ()
    with station.store.reading() as tables:
        kept = {table.sql.name.removeprefix("domain_"): tables.count(table) for table in ALL_TABLES}
    for emptied in ("memberships", "supports", "testers", "revoked", "answers"):
        assert kept[emptied] == 0
    assert kept["appointments"] == 0
    assert kept["rights"] == 1
    assert station.audit_head().length == kept["audit"]
