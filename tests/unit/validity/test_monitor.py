"""What one verifier knows of statements, told as short stories."""

from __future__ import annotations

import pytest

from maia.credentials import (
    ALL_ACTIONS,
    AnyResource,
    BadSignature,
    BadStatement,
    CertificateRevoked,
    CertificateStale,
    CertificateTestedOnce,
    FactList,
    NetworkName,
    OneTimeAnswer,
    StatementOld,
    TestKind,
    TypeName,
    issue,
    period_from,
    root_handover_certificate,
    sign_statement,
)
from maia.testing import grant
from maia.testing.refusals import error_code
from maia.validity import ASSUMED_GOOD, Changed, Monitor, named_testers, speakers
from maia.validity import series as standing_room
from maia.validity.series import EARLY_MAX, HOLDS_MAX, SAID_MAX, SOURCES_MAX, SeriesKind
from support.statements import (
    HOLDER,
    ISSUER,
    SECOND,
    STRANGER,
    TESTER,
    certificate,
    crl,
    moment,
    revalidation,
)

UNTESTED = certificate()
FOLLOWED = certificate(TestKind.FOLLOWED_CRL)
LISTED = certificate(TestKind.CRL)
TIMED = certificate(TestKind.TIMED_CRL)
VOUCHED = certificate(TestKind.REVALIDATION)
ONCE = certificate(TestKind.ONE_TIME)
BY = TESTER.principal


def code_of(standing, signed, seconds, **named):
    problem = standing.check(signed, moment(seconds), **named)
    return None if problem is None else type(problem)


# ---------------------------------------------------------------- nothing received


def test_who_has_received_nothing_refuses_whatever_demands_a_test():
    standing = Monitor()
    assert code_of(standing, UNTESTED, 0) is None
    assert code_of(standing, FOLLOWED, 0) is None
    assert code_of(standing, LISTED, 0) is CertificateStale
    assert code_of(standing, TIMED, 0) is CertificateStale
    assert code_of(standing, VOUCHED, 0) is CertificateStale
    assert code_of(standing, ONCE, 0) is CertificateTestedOnce


def test_who_only_chooses_certificates_assumes_the_best():
    assert all(ASSUMED_GOOD.check(one, moment(0)) is None for one in (LISTED, TIMED, VOUCHED, ONCE))


def test_the_problem_names_the_certificate():
    problem = Monitor().check(TIMED, moment(0))
    assert problem.as_record()["certificate"] == TIMED.id.hex()
    assert problem.field == "validity.online"
    assert str(BY) in problem.message


# ---------------------------------------------------------------- lists


@pytest.mark.parametrize("by", [TESTER, ISSUER], ids=["tester", "issuer"])
def test_lists_that_are_followed_revoke_and_are_not_waited_for(by):
    standing = Monitor()
    standing.receive(crl(1, since=0, by=by), moment(0))
    assert code_of(standing, FOLLOWED, 3600) is None
    standing.receive(crl(2, FOLLOWED, by=by), moment(3600))
    assert code_of(standing, FOLLOWED, 3600) is CertificateRevoked
    assert named_testers([FOLLOWED]) == set()
    assert speakers(FOLLOWED) == {ISSUER.principal, TESTER.principal}


def test_an_issuer_revokes_also_what_demands_no_test():
    standing = Monitor()
    heard = standing.receive(crl(1, UNTESTED, by=ISSUER), moment(0))
    revoked, tests = frozenset((UNTESTED.id,)), frozenset((TestKind.CRL,))
    assert heard == Changed(ISSUER.principal, True, revoked=revoked, tests=tests)
    assert code_of(standing, UNTESTED, 0) is CertificateRevoked


def test_a_certificate_that_two_have_listed_stays_revoked_when_one_restores_it():
    standing = Monitor()
    standing.receive(crl(1, TIMED, since=0), moment(0))
    standing.receive(crl(1, TIMED, by=ISSUER), moment(0))
    assert standing.receive(crl(2, by=ISSUER), moment(1)).restored == {TIMED.id}
    assert code_of(standing, TIMED, 1) is CertificateRevoked
    assert standing.receive(crl(2), moment(2)).restored == {TIMED.id}
    assert code_of(standing, TIMED, 2) is None


def test_the_list_of_the_moment_is_kept_however_many_are_to_come():
    standing = Monitor()
    standing.receive(crl(1, TIMED, since=0), moment(0))
    for number in range(SAID_MAX + 5):
        standing.receive(crl(2 + number, since=30 * (number + 1)), moment(0))
    assert code_of(standing, TIMED, 29) is CertificateRevoked
    assert len(standing.statements(BY, moment(29))) <= SAID_MAX + HOLDS_MAX
    assert code_of(Monitor.reloaded(standing.exported()), TIMED, 29) is CertificateRevoked


# ---------------------------------------------------------------- revalidations


# ---------------------------------------------------------------- facts


def facts(number, since, lasting=30, by=TESTER, **values):
    named = {(HOLDER.principal, name.replace("_", "-")): value for name, value in values.items()}
    period = period_from(moment(since), microseconds=lasting * SECOND)
    return sign_statement(FactList(by.principal, number, period, named), by)


def test_facts_are_told_by_who_says_them_while_they_hold():
    standing = Monitor()
    standing.receive(facts(1, 0, on_duty=True), moment(0))
    standing.receive(facts(1, 0, by=STRANGER, on_duty=False), moment(0))
    assert standing.facts_about(HOLDER.principal, moment(29)) == {
        BY: {"on-duty": True},
        STRANGER.principal: {"on-duty": False},
    }
    assert standing.facts_about(ISSUER.principal, moment(29)) == {}
    assert standing.facts_about(HOLDER.principal, moment(30)) == {}


def test_who_is_left_out_of_a_newer_list_is_among_those_whose_facts_changed():
    standing = Monitor()
    standing.receive(facts(1, 0, on_duty=True), moment(0))
    assert standing.receive(facts(2, 10), moment(10)).about == {HOLDER.principal}
    assert standing.facts_about(HOLDER.principal, moment(10)) == {}


def test_facts_last_until_something_else_is_said_of_the_same_person():
    standing = Monitor()
    standing.receive(facts(1, 0, lasting=10, grade=1), moment(0))
    standing.receive(facts(2, 10, lasting=10, grade=1), moment(0))
    assert standing.facts_until(HOLDER.principal, moment(0)) == moment(20) - 1
    standing.receive(facts(3, 20, lasting=10, grade=1, on_duty=True), moment(0))
    assert standing.facts_until(HOLDER.principal, moment(0)) == moment(20) - 1
    assert standing.facts_until(HOLDER.principal, moment(20)) == moment(30) - 1


def test_newer_facts_that_come_when_the_older_ones_are_over_count_for_what_is_left_of_their_time():
    standing = Monitor()
    standing.receive(facts(1, 0, on_duty=True), moment(0))
    assert standing.facts_about(HOLDER.principal, moment(30)) == {}
    assert standing.receive(facts(2, 20, on_duty=False), moment(31)).problem is None
    assert standing.facts_about(HOLDER.principal, moment(31)) == {BY: {"on-duty": False}}
    assert standing.facts_about(HOLDER.principal, moment(50)) == {}


def test_of_two_fact_lists_with_one_number_what_both_say_holds():
    standing = Monitor()
    standing.receive(facts(1, 0, on_duty=True, grade=1), moment(0))
    heard = standing.receive(facts(1, 0, on_duty=True, grade=True), moment(0))
    assert error_code(heard.problem) == "STATEMENT-CONFLICT"
    assert standing.facts_about(HOLDER.principal, moment(0)) == {BY: {"on-duty": True}}


def test_facts_that_stay_the_same_concern_no_principal():
    standing = Monitor()
    standing.receive(facts(1, 0, on_duty=True), moment(0))
    assert standing.receive(facts(2, 30, on_duty=True), moment(20)).about == frozenset()


# ---------------------------------------------------------------- what is refused, and what is reported


def test_overlapping_periods_are_reported_and_the_later_one_makes_nothing_fresh():
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    heard = standing.receive(crl(2, UNTESTED, since=29.999_999), moment(1))
    assert error_code(heard.problem) == "STATEMENT-OVERLAP"
    assert heard.revoked == {UNTESTED.id}
    assert code_of(standing, TIMED, 29.999_999) is None
    assert code_of(standing, TIMED, 30) is CertificateStale
    assert standing.receive(crl(3, since=60), moment(31)).problem is None
    assert code_of(standing, TIMED, 60) is None


def test_a_period_far_ahead_is_reported_and_not_kept():
    standing = Monitor()
    ahead = EARLY_MAX / SECOND
    heard = standing.receive(crl(1, UNTESTED, since=ahead + 1), moment(0))
    assert error_code(heard.problem) == "STATEMENT-TOO-EARLY"
    assert heard.revoked == {UNTESTED.id}
    assert code_of(standing, TIMED, ahead + 1) is CertificateStale
    assert standing.receive(crl(2, since=ahead), moment(0)).problem is None


def test_of_two_lists_with_one_number_both_count():
    standing = Monitor()
    standing.receive(crl(1, LISTED, since=0, lasting=30), moment(0))
    heard = standing.receive(crl(1, TIMED, since=0, lasting=20), moment(0))
    assert error_code(heard.problem) == "STATEMENT-CONFLICT"
    assert standing.revoked_by(BY) == {LISTED.id, TIMED.id}
    assert standing.fresh_until(BY, moment(0)) == moment(20) - 1
    for number in range(SOURCES_MAX - 2):
        standing.receive(crl(1, since=0, lasting=number + 1), moment(0))
    assert error_code(standing.receive(crl(1, since=1), moment(0)).refused) == "STATEMENT-CONFLICT"


def test_a_disputed_period_cannot_be_shown_again_as_an_older_one():
    standing = Monitor()
    first, second = crl(1, since=0, lasting=30), crl(1)
    for signed in (first, second, crl(2)):
        standing.receive(signed, moment(0))
    assert isinstance(standing.receive(first, moment(1)).refused, StatementOld)
    assert code_of(standing, TIMED, 1) is CertificateStale


@pytest.mark.parametrize("series", [(crl, TIMED), (lambda *a, **k: revalidation(*a, VOUCHED, **k), VOUCHED)])
@pytest.mark.parametrize("how", ["it was seen to be over", "it came when it was over"])
def test_a_period_that_is_over_never_counts_again_when_the_clock_is_set_back(series, how):
    """A39: an old statement is shown once more, to a verifier whose clock goes wrong."""
    say, tested = series
    first, second = say(1, since=0), say(2, since=35)
    standing = Monitor()
    if how == "it was seen to be over":
        standing.receive(first, moment(0))
        assert code_of(standing, tested, 10) is None
    standing.receive(second, moment(36))
    if how == "it came when it was over":
        standing.receive(first, moment(36))
    assert code_of(standing, tested, 36) is None
    standing.receive(first, moment(10))
    assert code_of(standing, tested, 10) is CertificateStale


def test_a_one_time_answer_is_for_who_asked():
    answer = sign_statement(OneTimeAnswer(BY, ONCE.id, b"r" * 32, b"n" * 32), TESTER)
    assert error_code(Monitor().receive(answer, moment(0)).refused) == "STATEMENT-NOT-ASKED"


# ---------------------------------------------------------------- limits


def test_only_so_many_periods_are_kept_and_revocations_are_accepted_nevertheless():
    standing = Monitor()
    for number in range(1, HOLDS_MAX + 1):
        standing.receive(crl(number, since=number * 30), moment(0))
    heard = standing.receive(crl(HOLDS_MAX + 1, UNTESTED, since=(HOLDS_MAX + 1) * 30), moment(0))
    assert heard.revoked == {UNTESTED.id}
    assert standing.fresh_until(BY, moment(30)) == moment((HOLDS_MAX + 1) * 30) - 1


def test_there_is_room_for_so_many_issuers_and_certificates(monkeypatch):
    monkeypatch.setattr(standing_room, "ISSUERS_MAX", 1)
    monkeypatch.setattr(standing_room, "IDS_KEPT_MAX", 2)
    standing = Monitor()
    standing.receive(crl(1, UNTESTED, TIMED), moment(0))
    assert error_code(standing.receive(crl(1, by=ISSUER), moment(0)).refused) == "UNAVAILABLE-STANDING-FULL"
    assert (
        error_code(standing.receive(crl(2, UNTESTED, TIMED, LISTED), moment(0)).refused)
        == "UNAVAILABLE-STANDING-FULL"
    )
    assert standing.sequence_of(BY) == 1
    assert standing.receive(crl(2, LISTED), moment(0)).restored == {UNTESTED.id, TIMED.id}
    assert standing.receive(crl(3, LISTED, TIMED), moment(0)).revoked == {TIMED.id}


def test_periods_that_are_over_take_no_room(monkeypatch):
    monkeypatch.setattr(standing_room, "IDS_KEPT_MAX", 2)
    standing = Monitor()
    for number in range(1, 9):
        standing.receive(crl(number, UNTESTED, since=number * 30), moment(number * 30 - 5))
        # A question in the new period makes the verifier forget the one before.
        assert standing.check(TIMED, moment(number * 30)) is None
    assert standing.sequence_of(BY) == 8


# ---------------------------------------------------------------- who is asked, and how long that will do


def test_testers_are_named_by_certificates():
    both = certificate(TestKind.TIMED_CRL, by=ISSUER)
    assert named_testers([UNTESTED, TIMED, both]) == {BY, ISSUER.principal}
    assert named_testers([UNTESTED]) == frozenset()


def test_certificates_are_stale_after_the_first_of_their_statements_ends():
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(revalidation(1, VOUCHED, since=0, lasting=10), moment(0))
    assert standing.steady_until([TIMED, VOUCHED, UNTESTED], moment(0)) == moment(10) - 1
    assert standing.steady_until([TIMED], moment(0)) == moment(30) - 1
    assert standing.steady_until([UNTESTED, LISTED], moment(0)) is None
    assert standing.steady_until([certificate(TestKind.TIMED_CRL, by=STRANGER)], moment(5)) is None


def test_what_is_refused_now_stays_so_until_the_next_period_that_was_stated():
    standing = Monitor()
    standing.receive(crl(1, TIMED, since=0), moment(0))
    standing.receive(crl(2, since=30), moment(0))
    standing.receive(crl(1, since=50, by=ISSUER), moment(0))
    assert standing.steady_until([TIMED], moment(0)) == moment(30) - 1
    assert standing.steady_until([certificate(TestKind.TIMED_CRL, by=ISSUER)], moment(0)) == moment(50) - 1


def test_who_advances_is_told_what_has_ended_and_when_to_advance_again():
    standing = Monitor()
    assert standing.next_change() is None
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(2, since=30), moment(20))
    assert standing.next_change() == moment(30)
    assert standing.advance(moment(29)) == []
    assert standing.advance(moment(30)) == []  # the next list says the same
    assert standing.next_change() == moment(60)
    assert standing.advance(moment(60)) == [Changed(BY, tests=frozenset({TestKind.TIMED_CRL}))]
    assert standing.advance(moment(61)) == []
    assert standing.next_change() is None


def test_an_issuer_that_moves_its_periods_about_leaves_no_moments_behind():
    """A39: each statement cuts the one before short, and only the next moment is waited for."""
    standing = Monitor()
    for number in range(1, 300):
        assert standing.receive(facts(number, 1000 - number), moment(0)).is_news
    assert standing.next_change() == moment(1000 - 299)
    assert len(standing._moments) < 100


def test_a_copy_goes_its_own_way():
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    copy = standing.copy()
    copy.receive(crl(2, TIMED), moment(1))
    standing.receive(crl(2, since=30), moment(2))
    assert code_of(copy, TIMED, 3) is CertificateRevoked
    assert code_of(standing, TIMED, 31) is None
    assert copy.next_change() == moment(30)


# ---------------------------------------------------------------- restart


def test_a_record_that_was_damaged_is_an_error_and_not_a_fresh_start():
    standing = Monitor()
    standing.receive(crl(2, TIMED, since=0), moment(0))
    standing.receive(crl(3, TIMED, since=30), moment(0))
    (record,) = standing.exported()
    assert list(Monitor.reloaded([record])) == [BY]
    damaged = [
        b"",
        record[:-1],
        record.replace(b"5:lists", b"5:facts"),
        record.replace(b"5:lists", b"5:lasts"),
        record.replace(b"(6:newest32:", b"(6:newest31:"),
        record.replace(crl(3, TIMED, since=30).id, bytes(32)),
        record.replace(TIMED.id, UNTESTED.id),
        record.replace(b"(5:spent", b"(5:spend"),
    ]
    for data in damaged:
        with pytest.raises((BadStatement, BadSignature)):
            Monitor.reloaded([data])


def test_records_of_one_issuer_can_be_written_alone():
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(1, by=ISSUER), moment(0))
    standing.receive(facts(1, 0, on_duty=True), moment(0))
    assert len(standing.exported()) == 3
    assert len(standing.exported(BY)) == 2
    assert standing.sequence_of(BY, SeriesKind.FACTS) == 1


# ---------------------------------------------------------------- handed over for good


@pytest.mark.parametrize(
    "resource",
    [None, NetworkName(ISSUER.principal, "City"), TypeName(ISSUER.principal, "News", "0")],
    ids=str,
)
def test_what_was_handed_over_for_good_stands_whatever_its_issuer_says(resource):
    """C8: the successor of an owner does not depend on the owner's good will."""
    handover = issue(root_handover_certificate(ISSUER.principal, HOLDER.principal, resource), ISSUER)
    taken_back = grant(ISSUER, HOLDER, AnyResource(), *ALL_ACTIONS, may_delegate=True)
    standing = Monitor()
    standing.receive(crl(1, handover, taken_back, by=ISSUER), moment(0))
    assert code_of(standing, handover, 0) is None
    assert code_of(standing, taken_back, 0) is CertificateRevoked
