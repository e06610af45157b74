"""Who replays, reorders, withholds, or turns the clock gains nothing: what was revoked stays revoked."""

from __future__ import annotations

import pytest

from maia.canonical import write_canonical
from maia.credentials import (
    BadSignature,
    BadStatement,
    CertificateNotRevalidated,
    CertificateRevoked,
    CertificateStale,
    RevocationList,
    SignedKind,
    StatementOld,
    TestKind,
    Validity,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.credentials.statements import PERIOD_MAX
from maia.events import INSTANT_MAX, Instant
from maia.testing.refusals import error_code
from maia.validity import Monitor
from support.statements import ISSUER, NOON, STRANGER, TESTER, certificate, crl, moment, revalidation

BY = TESTER.principal
TIMED = certificate(TestKind.TIMED_CRL)
VOUCHED = certificate(TestKind.REVALIDATION)
UNTESTED = certificate()
OF_ISSUER = certificate(TestKind.TIMED_CRL, by=ISSUER)


def refused_as(standing, signed, seconds):
    standing.advance(moment(seconds))  # as verifiers do before they decide
    problem = standing.check(signed, moment(seconds))
    return None if problem is None else type(problem)


def restarted(standing):
    return Monitor.reloaded(standing.exported())


# ---------------------------------------------------------------- A39: lists


def test_an_old_list_does_not_bring_a_right_back():
    """A39 (rollback): the list from before the revocation is shown again, as often as one likes."""
    standing, old = Monitor(), crl(1, since=0)
    standing.receive(old, moment(0))
    standing.receive(crl(2, TIMED), moment(1))
    for second in range(2, 30):
        standing.receive(old, moment(second))
        assert refused_as(standing, TIMED, second) is CertificateRevoked


def test_a_verifier_that_begins_with_the_new_list_takes_nothing_from_the_old_one_but_its_time():
    """A39 (reorder): an older list that comes late cannot say that anything is not revoked."""
    standing = Monitor()
    standing.receive(crl(2, TIMED), moment(1))
    assert standing.receive(crl(1, since=0), moment(2)).restored == frozenset()
    assert refused_as(standing, TIMED, 2) is CertificateRevoked
    assert standing.sequence_of(BY) == 2


@pytest.mark.parametrize("number", [1, 2])
def test_an_old_plain_list_is_refused(number):
    """A39 (rollback): it says nothing about time, so it says nothing at all any more."""
    standing = Monitor()
    standing.receive(crl(3, TIMED), moment(0))
    assert isinstance(standing.receive(crl(number), moment(0)).refused, StatementOld)


def test_a_list_that_has_run_out_makes_nothing_fresh():
    """A39 (replay): a timed list is worth nothing after its time, however late it is shown."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(30))
    assert refused_as(standing, TIMED, 30) is CertificateStale


def test_a_gap_is_not_bridged():
    """A39 (gap): between two lists nothing holds, not for a microsecond."""
    standing = Monitor()
    standing.receive(crl(1, since=0, lasting=10), moment(0))
    standing.receive(crl(2, since=10.000_002, lasting=10), moment(0))
    assert refused_as(standing, TIMED, 9.999_999) is None
    assert refused_as(standing, TIMED, 10) is CertificateStale
    assert refused_as(standing, TIMED, 10.000_001) is CertificateStale
    assert refused_as(standing, TIMED, 10.000_002) is None


def test_who_blocks_the_list_stops_the_right_and_does_not_keep_it():
    """A39, S17: the attacker holds back the list with the revocation; the right ends with the one before."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    # crl(2, TIMED) and crl(3, TIMED, since=30) are on their way for ever.
    assert refused_as(standing, TIMED, 29.999_999) is None
    assert refused_as(standing, TIMED, 30) is CertificateStale
    assert refused_as(standing, TIMED, 3_000_000) is CertificateStale


def test_who_blocks_a_revalidation_stops_the_right_too():
    """A39, S17: the same for the positive form."""
    standing = Monitor()
    standing.receive(revalidation(1, VOUCHED, since=0), moment(0))
    assert refused_as(standing, VOUCHED, 30) is CertificateStale


def test_of_two_publishers_the_newest_number_wins_and_not_the_first_answer():
    """A39, S16: two servers of one issuer answer; the one that is behind answers first, or last."""
    stale, fresh = crl(4, since=0), crl(5, TIMED)
    for order in ((stale, fresh), (fresh, stale)):
        standing = Monitor()
        for signed in order:
            standing.receive(signed, moment(1))
        assert refused_as(standing, TIMED, 1) is CertificateRevoked


def test_one_issuer_has_no_say_over_the_certificates_of_another():
    """A39: a stranger neither revokes, nor restores, nor keeps fresh what is not its own."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(9, TIMED, UNTESTED, since=0, by=STRANGER), moment(0))
    assert refused_as(standing, TIMED, 1) is None
    assert refused_as(standing, UNTESTED, 1) is None
    standing.receive(crl(2, TIMED), moment(1))
    standing.receive(crl(10, since=30, by=STRANGER), moment(1))
    assert refused_as(standing, TIMED, 1) is CertificateRevoked
    assert refused_as(standing, OF_ISSUER, 31) is CertificateStale


def test_two_lists_with_one_number_take_away_what_either_takes_away():
    """A39: a fork of the issuer, or a thief of its key, is reported and restores nothing."""
    mild, strict = crl(1, since=0), crl(1, TIMED, since=0)
    for order in ((mild, strict), (strict, mild)):
        standing = Monitor()
        standing.receive(order[0], moment(0))
        assert error_code(standing.receive(order[1], moment(0)).problem) == "STATEMENT-CONFLICT"
        for signed in order:
            assert not standing.receive(signed, moment(1)).is_news
        assert refused_as(standing, TIMED, 1) is CertificateRevoked


def test_two_revalidations_with_one_number_confirm_what_both_confirm():
    """A39: no peer is confirmed by one of two tongues."""
    other = certificate(TestKind.REVALIDATION, comment="another")
    one, two = revalidation(1, VOUCHED, other, since=0), revalidation(1, VOUCHED, since=0)
    for order in ((one, two), (two, one)):
        standing = Monitor()
        for signed in order:
            standing.receive(signed, moment(0))
        assert refused_as(standing, VOUCHED, 1) is None
        assert refused_as(standing, other, 1) is CertificateNotRevalidated


def test_the_number_is_signed():
    """A39: giving an old list a new number breaks its signature."""
    data = statement_to_bytes(crl(1, since=0)).replace(b"(8:sequence1:1)", b"(8:sequence1:9)")
    standing = Monitor()
    assert isinstance(standing.receive(statement_from_bytes(data), moment(0)).refused, BadSignature)
    assert refused_as(standing, TIMED, 0) is CertificateStale


def test_a_list_in_the_name_of_another_is_no_list():
    """A39: no peer speaks for another key."""
    body = crl(1, since=0).body
    data = b"(6:signed%b(9:signature7:ed2551964:%b))" % (
        body,
        STRANGER.sign(SignedKind.VALIDITY_STATEMENT, body),
    )
    assert isinstance(Monitor().receive(statement_from_bytes(data), moment(0)).refused, BadSignature)


# ---------------------------------------------------------------- A27, S13: times in statements


def _body(*period):
    return write_canonical(
        (
            b"revocation-list",
            (b"version", b"1"),
            (b"by", (b"ed25519", BY.key)),
            (b"sequence", b"1"),
            *period,
            (b"revoked", b""),
        )
    )


def _bounds(start, end):
    return (b"period", (b"not-before", start), (b"not-after", end))


GOOD = b"2026-11-15_12:00:00.000000"


@pytest.mark.parametrize(
    "period",
    [
        (b"period",),
        (b"period", (b"not-before", GOOD)),
        (b"period", (b"not-after", GOOD)),
        (b"period", (b"not-after", GOOD), (b"not-before", GOOD)),
        _bounds(GOOD, b"2026-11-15_11:59:59.999999"),
        _bounds(GOOD, b"unbounded"),
        _bounds(b"unbounded", GOOD),
        _bounds(GOOD, b"9999-12-31_23:59:59.999999"),
        _bounds(b"0000-01-01_00:00:00.000000", GOOD),
        _bounds(b"2026-06-30_23:59:60.000000", b"2026-06-30_23:59:60.000000"),
        _bounds(b"9223372036854775807", b"9223372036854775808"),
        _bounds(b"-1", b"-1"),
        _bounds(b"NaN", b"NaN"),
        _bounds(b"", b""),
    ],
)
def test_a_period_that_is_missing_a_bound_or_means_nothing_is_refused(period):
    """A27, S13: nothing in a statement is open by default, and no time in it is absurd."""
    body = _body(period)
    signature = TESTER.sign(SignedKind.VALIDITY_STATEMENT, body)
    with pytest.raises(BadStatement):
        statement_from_bytes(b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, signature))


def test_a_period_of_a_thousand_years_is_not_signed_either():
    """A27: an issuer cannot promise by a slip what it could not take back."""
    with pytest.raises(BadStatement):
        RevocationList(BY, 1, Validity(NOON, Instant(INSTANT_MAX)), frozenset())
    longest = Validity(NOON, Instant(NOON + PERIOD_MAX - 1))
    assert sign_statement(RevocationList(BY, 1, longest, frozenset()), TESTER)


# ---------------------------------------------------------------- A78: clocks


def test_at_the_edges_of_a_period_a_microsecond_decides():
    """A78: just inside is inside, just outside is outside; no tolerance was stated, so there is none."""
    for second, expected in (
        (-0.000_001, CertificateStale),
        (0, None),
        (29.999_999, None),
        (30, CertificateStale),
    ):
        standing = Monitor()
        standing.receive(crl(1, since=0), moment(-1))
        assert refused_as(standing, TIMED, second) is expected


def test_setting_the_clock_back_brings_no_ended_period_back():
    """A78: once the verifier has seen a period end, it has ended, whatever the clock says next."""
    standing = Monitor()
    signed = crl(1, since=0)
    standing.receive(signed, moment(0))
    assert refused_as(standing, TIMED, 30) is CertificateStale
    assert refused_as(standing, TIMED, 10) is CertificateStale
    assert not standing.receive(signed, moment(10)).is_news
    assert refused_as(standing, TIMED, 10) is CertificateStale
    standing.receive(crl(2, since=30), moment(10))
    assert not standing.receive(signed, moment(10)).is_news
    assert refused_as(standing, TIMED, 10) is CertificateStale


def test_a_statement_that_was_refused_because_it_was_over_is_refused_after_the_clock_was_set_back():
    """A78: an old list, first shown too late, does not count when it is shown again at an earlier hour."""
    standing, old = Monitor(), crl(1, since=0)
    standing.receive(crl(2), moment(0))
    for second in (30, 10):
        assert isinstance(standing.receive(old, moment(second)).refused, StatementOld)
    assert refused_as(standing, TIMED, 10) is CertificateStale


def test_hearing_something_later_ends_a_period_too():
    """A78: the verifier has seen a later moment when it received the next statement, without being asked."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(2), moment(30))
    assert refused_as(standing, TIMED, 10) is CertificateStale


def test_a_clock_that_leapt_ahead_and_came_back_recovers_with_the_next_statement():
    """A78: a glitch does not shut a verifier out for longer than the statements it held."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    assert refused_as(standing, TIMED, 10_000_000) is CertificateStale
    standing.receive(crl(2, since=30), moment(20))
    assert refused_as(standing, TIMED, 30) is None


def test_two_verifiers_with_different_clocks_each_end_by_their_own():
    """A78: the one that is behind accepts longer by exactly its error, and no statement makes it longer."""
    ahead, behind, signed = Monitor(), Monitor(), crl(1, since=0)
    skew = 5
    ahead.receive(signed, moment(0 + skew))
    behind.receive(signed, moment(0 - skew))
    assert refused_as(ahead, TIMED, 25 + skew) is CertificateStale
    assert refused_as(behind, TIMED, 34.999_999 - skew) is None
    assert refused_as(behind, TIMED, 35 - skew) is CertificateStale
    # A revocation needs no clock.
    behind.receive(crl(2, TIMED), moment(31 - skew))
    assert refused_as(behind, TIMED, 31 - skew) is CertificateRevoked


# ---------------------------------------------------------------- A82: restart


def test_a_restart_forgets_no_revocation_and_no_number():
    """A82: what was revoked stays revoked, and what was old stays old."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(2, TIMED, UNTESTED), moment(1))
    standing.receive(crl(1, UNTESTED, by=ISSUER), moment(1))
    standing = restarted(standing)
    assert refused_as(standing, TIMED, 2) is CertificateRevoked
    assert refused_as(standing, UNTESTED, 2) is CertificateRevoked
    assert not standing.receive(crl(1, since=0), moment(2)).is_news
    assert isinstance(standing.receive(crl(1), moment(2)).refused, StatementOld)
    assert standing.sequence_of(BY) == 2


def test_a_restart_with_the_clock_set_back_brings_nothing_back():
    """A82, A78: what had ended before the restart has ended after it."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    assert refused_as(standing, TIMED, 31) is CertificateStale
    standing = restarted(standing)
    assert refused_as(standing, TIMED, 10) is CertificateStale


def test_after_a_restart_an_ended_period_cannot_be_shown_again():
    """A82, A78: neither the restart nor the clock lets an old statement lend its time once more."""
    standing, old = Monitor(), crl(1, since=0)
    standing.receive(old, moment(0))
    standing.receive(crl(2), moment(31))
    standing = restarted(standing)
    assert isinstance(standing.receive(old, moment(10)).refused, StatementOld)
    assert refused_as(standing, TIMED, 10) is CertificateStale


def test_a_restart_forgets_no_contradiction():
    """A82: the strict reading of two lists with one number survives."""
    standing = Monitor()
    standing.receive(crl(1, since=0), moment(0))
    standing.receive(crl(1, TIMED, since=0, lasting=10), moment(0))
    standing = restarted(standing)
    assert refused_as(standing, TIMED, 1) is CertificateRevoked
    assert standing.fresh_until(BY, moment(1)) == moment(10) - 1
