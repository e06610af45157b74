"""The register says who can do what, by which chain and until when; the kernel decides, not the register."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    Action,
    BadSignature,
    OnlineTest,
    Revalidation,
    RevocationList,
    TestKind,
    TypeName,
    issue,
    period_from,
    sign_statement,
)
from maia.credentials.appointments import BadArgument
from maia.domain.access.results import EntryKind
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.events import Instant
from maia.predicates.language.parser import parse_predicate
from maia.testing.refusals import raises
from support.access_control import (
    BROWN,
    DAY,
    JONES,
    MET,
    NOON,
    NUMBERPLATE,
    PITO,
    POLICY,
    SMITH,
    Station,
    broker,
    court,
    granted,
    later,
    met,
    order,
    told,
    until,
    verdict,
)
from support.policy import MALLORY, group, key, named

PLATE = "AE05 XYZ"
READ = Action.SUBSCRIBE


@pytest.fixture
def courts() -> Station:
    return court()


@pytest.fixture
def station(courts) -> Station:
    """The Met, where Smith and Jones track a plate each."""
    made = met()
    told(made, courts)
    made.assert_fact("case_assignment", [JONES.principal, "43"])
    made.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    made.login(JONES.principal, [order(courts, JONES, "43", "OTHER 1", days=0.5)])
    return made


def who_can(station: Station, attribute: str | None = "location", at=NOON, action=READ):
    """The people of a whole answer, from pages of one."""
    people, after = [], None
    while True:
        page = station.who_can(action, NUMBERPLATE.name, attribute, at, now=station.now, after=after, limit=1)
        people += page.rows
        after = page.after
        if after is None:
            return {one.principal: one for one in people}


def test_the_answer_is_about_the_moment_that_was_asked_about(station):
    assert JONES.principal in who_can(station, at=later(0.4 * DAY))
    assert JONES.principal not in who_can(station, at=later(0.6 * DAY))
    assert SMITH.principal not in who_can(station, at=later(2 * DAY))


def test_asking_about_the_future_changes_nothing(station, courts):
    who_can(station, at=later(300 * DAY))
    assert station.login(SMITH.principal, []).issued != ()


def test_an_attribute_that_a_right_hides_cannot_be_read(station):
    wallet = station.login(SMITH.principal, [])
    tracker = next(one for one in wallet.issued if not one.certificate.certificate.may_delegate)
    station.revoke([tracker.id], "no more locations")
    assert SMITH.principal not in who_can(station, "location")
    assert SMITH.principal in who_can(station, "timestamp")
    assert SMITH.principal in who_can(station, None)


def test_what_was_revoked_is_gone_from_the_answer_and_stays_in_the_register(station):
    station.retract_fact("detective", [SMITH.principal])
    assert SMITH.principal not in who_can(station)
    entries = station.rights_of(SMITH.principal).rows
    assert len(entries) == 2
    assert all(entry.revoked_at == NOON and entry.reason for entry in entries)
    assert {entry.kind for entry in station.register(standing_at=NOON).rows} == {
        EntryKind.HELD,
        EntryKind.ISSUED,
    }
    assert len(station.register(standing_at=NOON).rows) == 3


def test_nobody_publishes_but_the_owner(station):
    assert set(who_can(station, None, action=Action.PUBLISH)) == {PITO.principal}


def test_what_was_passed_on_is_registered_and_falls_with_what_it_came_from(station):
    passed_on = granted(SMITH, BROWN, "subscribe", attributes="timestamp", validity=until(3600))
    entry = station.register_delegation(passed_on)
    assert entry.kind is EntryKind.DELEGATED
    assert station.register_delegation(passed_on) == entry
    assert BROWN.principal in who_can(station, "timestamp")
    assert BROWN.principal not in who_can(station, "location")
    assert {len(chain) for chain in who_can(station, "timestamp")[BROWN.principal].chains} == {3}
    station.retract_fact("case_assignment", [SMITH.principal, "42"])
    assert BROWN.principal not in who_can(station, "timestamp")


def test_a_delegation_of_a_delegation_is_followed_to_the_owner(station):
    first = granted(
        SMITH, BROWN, "subscribe", attributes="timestamp", may_delegate=True, validity=until(3600)
    )
    second = granted(BROWN, key(40), "subscribe", attributes="timestamp", validity=until(3600))
    with raises("CREDENTIAL-REGISTRATION"):
        station.register_delegation(second)
    station.register_delegation(first)
    station.register_delegation(second)
    assert {len(chain) for chain in who_can(station, "timestamp")[key(40).principal].chains} == {4}


def test_a_right_passed_on_to_a_group_reaches_whoever_is_named_in_it(station):
    team = granted(SMITH, group(SMITH, "team"), "subscribe", attributes="timestamp", validity=until(3600))
    station.register_delegation(team)
    assert BROWN.principal not in who_can(station, "timestamp")
    station.hold([named(SMITH, "team", BROWN)])
    assert BROWN.principal in who_can(station, "timestamp")


@pytest.mark.parametrize(
    ("signed", "refusal"),
    [
        (granted(MALLORY, BROWN, "subscribe"), "CREDENTIAL-REGISTRATION"),
        (granted(JONES, BROWN, "publish"), "CREDENTIAL-REGISTRATION"),
        (granted(PITO, BROWN, "subscribe"), "CREDENTIAL-REGISTRATION"),
        (named(SMITH, "team", BROWN), "CREDENTIAL-REGISTRATION"),
    ],
    ids=["of a stranger", "of another action", "around the domain", "of a name"],
)
def test_a_certificate_that_does_not_pass_on_a_right_of_this_domain_is_not_registered(
    station, signed, refusal
):
    with raises(refusal):
        station.register_delegation(signed)


def test_a_delegation_whose_signature_does_not_hold_is_not_registered(station):
    signed = granted(SMITH, BROWN, "subscribe", attributes="timestamp")
    with pytest.raises(BadSignature):
        station.register_delegation(replace(signed, signature=bytes(64)))


def test_somebody_whose_right_hangs_on_a_condition_is_shown_as_such(courts):
    text = POLICY.replace(
        "    where numberplate == $plate\nend",
        "    where numberplate == $plate\n    provided duty == true\nend",
    )
    assert text != POLICY
    text = text.replace("fact detective", "fact duty(who: principal)\nfact detective", 1)
    station = met(policy=text)
    told(station, courts)
    station.login(SMITH.principal, [order(courts, SMITH, "42", PLATE)])
    tracker = next(
        one
        for one in station.login(SMITH.principal, []).issued
        if not one.certificate.certificate.may_delegate
    )
    assert not who_can(station, "timestamp")[SMITH.principal].is_conditional
    station.revoke([tracker.id], "")
    assert who_can(station, "timestamp")[SMITH.principal].is_conditional
    assert who_can(station, "timestamp")[SMITH.principal].view is None


def test_pages_end_also_where_hardly_anybody_can(courts):
    limits = AccessLimits(page=10, looked_at=2)
    station = met(settings=AccessSettings(limits=limits))
    told(station, courts)
    for number in range(5):
        detective = key(50 + number)
        station.assert_fact("detective", [detective.principal])
        station.assert_fact("case_assignment", [detective.principal, "42"])
        station.login(detective.principal, [order(courts, detective, "42", PLATE)])
    assert len(who_can(station)) == 7
    first = station.who_can(READ, NUMBERPLATE.name, "location", NOON, limit=10)
    assert len(first.rows) < 7
    assert first.after is not None


def test_a_question_about_what_is_not_known_is_refused(station):
    with raises("INPUT-TYPE-NOT-REGISTERED"):
        station.who_can(READ, TypeName(PITO.principal, "Nothing", "0"), None, NOON)
    with raises("INPUT-TYPE-NOT-REGISTERED"):
        station.who_can(READ, NUMBERPLATE.name, "colour", NOON)
    for cursor in ("zz", "-1"):
        with raises("INPUT-PAGE"):
            station.who_can(READ, NUMBERPLATE.name, None, NOON, after=cursor)


# ---------------------------------------------------------------- what would be


def test_what_a_role_would_be_able_to_do_is_what_its_member_can(station):
    (ability,) = station.would_be_able("np_tracker", [PLATE], NOON)
    wallet = station.login(SMITH.principal, [])
    tracker = next(one for one in wallet.issued if not one.certificate.certificate.may_delegate)
    decision = verdict(SMITH.principal, tracker.chain, broker(NOON, station), NOON)
    assert ability.denial is None
    assert ability.view.windows == decision.view.windows
    assert ability.action is READ
    assert ability.resource == NUMBERPLATE.name.name


def test_a_right_says_which_line_of_the_policy_granted_it(station):
    line = 1 + POLICY[: POLICY.index("grant np_tracker")].count("\n")
    named = f"grant np_tracker, policy, line {line}"
    assert named in {one.rule for one in station.rights_of(SMITH.principal).rows}
    assert named in {one.rule for one in station.login(SMITH.principal, []).issued}
    assert [one.rule for one in station.would_be_able("np_tracker", [PLATE], NOON)] == [named]
    start, end = POLICY.index("grant np_tracker"), POLICY.index("grant supervisor")
    station.load_policy(POLICY[:start] + POLICY[end:])
    assert named not in {one.rule for one in station.rights_of(SMITH.principal).rows}


def test_a_question_leaves_no_trace(station):
    head, entries = station.audit_head(), station.register().rows
    station.would_be_able("np_tracker", [PLATE], NOON)
    assert (station.audit_head(), station.register().rows) == (head, entries)


def test_a_role_would_be_able_to_do_nothing_that_the_domain_cannot_pass_on():
    poor = Station(MET)
    poor.register_type(NUMBERPLATE.signed)
    poor.load_policy(POLICY)
    (ability,) = poor.would_be_able("np_tracker", [PLATE], NOON)
    assert ability.view is None
    assert ability.denial == "POLICY-NO-CHAIN"


def test_the_values_of_a_role_are_in_what_it_would_see(station):
    (ability,) = station.would_be_able("np_tracker", ["X 1"], NOON)
    wanted = parse_predicate('numberplate == "X 1"', NUMBERPLATE.vocabulary)
    assert [window.admits for window in ability.view.windows] == [wanted]


def test_a_role_that_does_not_exist_or_other_arguments_are_refused(station):
    with raises("INPUT-UNKNOWN-ROLE"):
        station.would_be_able("np_traker", [PLATE], NOON)
    with pytest.raises(BadArgument):
        station.would_be_able("np_tracker", [7], NOON)
    with raises("REFUSED-NO-POLICY"):
        Station(MET).would_be_able("np_tracker", [PLATE], NOON)


@pytest.mark.parametrize("kind", TestKind)
def test_testers_are_asked_for_what_they_have_not_stated_and_for_nothing_else(station, kind):
    """A list without a period confirms what demands one, and no statement what is asked for each request."""
    plain = station.held(station.now)[0].certificate
    tested = issue(
        replace(
            plain, validity=plain.validity.with_tests(OnlineTest(kind, PITO.principal)), comment="tested"
        ),
        PITO,
    )
    station.hold([tested])
    missed = () if kind in (TestKind.ONE_TIME, TestKind.FOLLOWED_CRL) else (tested,)
    assert station.not_vouched_for(station.now) == missed
    period = period_from(station.now, microseconds=30_000_000)
    valid, none = frozenset({tested.id}), frozenset()
    for said in (
        RevocationList(PITO.principal, 1, None if kind is TestKind.CRL else period, none),
        Revalidation(PITO.principal, 1, period, valid),
    ):
        station.receive_statement(sign_statement(said, PITO))
    assert station.not_vouched_for(station.now) == ()
    is_timed = kind in (TestKind.TIMED_CRL, TestKind.REVALIDATION)
    assert station.not_vouched_for(Instant(period.not_after - 1_000_000)) == (missed if is_timed else ())
