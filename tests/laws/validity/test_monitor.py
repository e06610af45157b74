"""Whatever an adversary does to the delivery of statements, no right lasts longer than it should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import (
    CertificateRevoked,
    FactList,
    RevocationList,
    TestKind,
    period_from,
    sign_statement,
)
from maia.events import Instant
from maia.validity import Monitor
from reference.standing_model import StandingModel
from support.statements import (
    HOLDER,
    ISSUER,
    SECOND,
    TESTER,
    certificate,
    crl,
    honest_series,
    moment,
    revalidation,
)

pytestmark = pytest.mark.laws

CERTIFICATES = (
    certificate(),
    certificate(TestKind.CRL),
    certificate(TestKind.FOLLOWED_CRL),
    certificate(TestKind.TIMED_CRL),
    certificate(TestKind.REVALIDATION),
    certificate(TestKind.REVALIDATION, TestKind.TIMED_CRL),
    certificate(TestKind.TIMED_CRL, by=ISSUER),
)
TIMED = certificate(TestKind.TIMED_CRL)


@st.composite
def deliveries(draw):
    """Draw what honest issuers say, and a delivery with losses, repetitions, another order and restarts."""
    said = [
        *draw(honest_series(CERTIFICATES, TESTER)),
        *draw(honest_series(CERTIFICATES, ISSUER)),
        *draw(honest_series(CERTIFICATES, TESTER, positive=True)),
    ]
    steps = st.tuples(st.sampled_from(said), st.sampled_from([0, 0, 0.5, 1, 2, 5]), st.booleans())
    return draw(st.lists(steps, max_size=25))


def hear(standing, signed, now):
    """Receive a statement as a verifier does: what is over by now has gone before."""
    standing.advance(now)
    changed = standing.receive(signed, now)
    return None if changed.refused is not None else changed


@given(deliveries())
def test_asking_changes_nothing(steps):
    standing, now = Monitor(), moment(0)
    for signed, waits, _ in steps:
        now = Instant(now + round(waits * SECOND))
        standing.receive(signed, now)
        held, due = standing.exported(), standing.next_change()
        for one in CERTIFICATES:
            for at in (now, Instant(now + 3 * SECOND), moment(100), moment(-100)):
                standing.check(one, at)
                standing.steady_until([one], at)
        assert (standing.exported(), standing.next_change()) == (held, due)


@given(deliveries())
def test_whatever_is_answered_otherwise_than_before_was_told(steps):
    """Nothing that was decided has to be looked at again but where `receive` or `advance` says so."""
    standing, now = Monitor(), moment(0)
    answers = {one: type(standing.check(one, now)) for one in CERTIFICATES}
    for signed, waits, advances in steps:
        now = Instant(now + round(waits * SECOND))
        told = standing.advance(now) if advances else []
        told.append(standing.receive(signed, now))
        told += standing.advance(now)
        for one in CERTIFICATES:
            answer = type(standing.check(one, now))
            assert answer is answers[one] or any(changed.concerns(one) for changed in told)
            answers[one] = answer


@given(deliveries(), st.integers(0, 40))
def test_what_is_steady_stays_good_or_refused_all_the_while(steps, second):
    standing, now = Monitor(), moment(0)
    for signed, waits, _ in steps:
        now = Instant(now + round(waits * SECOND))
        hear(standing, signed, now)
    for one in CERTIFICATES:
        until = standing.steady_until([one], now)
        at = Instant(now + second * SECOND if until is None else min(until, now + second * SECOND))
        assert (standing.check(one, at) is None) is (standing.check(one, now) is None)


@given(deliveries())
def test_a_verifier_knows_what_follows_from_everything_it_was_shown(steps):
    standing, model, now = Monitor(), StandingModel(), moment(0)
    for signed, waits, restarts in steps:
        now = Instant(now + round(waits * SECOND))
        hear(standing, signed, now)
        model.show(signed.statement, now)
        standing = Monitor.reloaded(standing.exported()) if restarts else standing
        for one in CERTIFICATES:
            assert (standing.check(one, now) is None) is model.accepts(one, now)


@given(deliveries())
def test_a_restart_changes_nothing(steps):
    once, again, now = Monitor(), Monitor(), moment(0)
    for signed, waits, restarts in steps:
        now = Instant(now + round(waits * SECOND))
        assert hear(once, signed, now) == hear(again, signed, now)
        again = Monitor.reloaded(again.exported()) if restarts else again
        assert once.exported() == again.exported()


@given(honest_series(CERTIFICATES, TESTER), st.data())
def test_who_has_received_more_lists_is_never_the_more_permissive_one(series, data):
    """Until a newer list begins, a verifier that received it refuses whatever one that did not refuses."""
    second = data.draw(st.integers(0, 20))
    few = series[: data.draw(st.integers(1, len(series)))]
    periods = [(signed, signed.statement.period) for signed in series]
    more = few + [signed for signed, period in periods if period and period.not_before > moment(second)]
    one, other = Monitor(), Monitor()
    for standing, said in ((one, few), (other, data.draw(st.permutations(more)))):
        for signed in said:
            hear(standing, signed, moment(0))
    for certificate_ in CERTIFICATES:
        if isinstance(one.check(certificate_, moment(second)), CertificateRevoked):
            assert isinstance(other.check(certificate_, moment(second)), CertificateRevoked)


@given(deliveries())
def test_numbers_never_go_back(steps):
    standing, now, highest = Monitor(), moment(0), {}
    for signed, waits, restarts in steps:
        now = Instant(now + round(waits * SECOND))
        hear(standing, signed, now)
        standing = Monitor.reloaded(standing.exported()) if restarts else standing
        said = signed.statement
        if isinstance(said, RevocationList):
            highest[said.by] = max(highest.get(said.by, 0), said.sequence)
            assert standing.sequence_of(said.by) == highest[said.by]


@given(deliveries())
def test_what_is_reported_as_revoked_is_what_is_refused_from_then_on(steps):
    standing, now, heard_at = Monitor(), moment(0), {}
    for signed, waits, _ in steps:
        now = Instant(now + round(waits * SECOND))
        before = standing.revoked_by(signed.statement.by)
        heard = hear(standing, signed, now)
        after = standing.revoked_by(signed.statement.by)
        # A list of a later period gives back by itself, when it begins, what the one before has revoked.
        if heard is not None and isinstance(signed.statement, RevocationList):
            assert heard.revoked == after - before
            assert heard.restored <= before - after
            if heard_at.get(signed.statement.by) == now:  # no time has passed that could give anything back
                assert heard.restored == before - after
        else:
            assert after <= before
        heard_at[signed.statement.by] = now


@given(
    honest_series(CERTIFICATES[:1], TESTER),
    st.integers(0, 7),
    st.lists(st.tuples(st.integers(0, 14), st.integers(-20, 20)), max_size=30),
)
def test_withheld_statements_never_extend_a_right_beyond_what_was_said_before(series, revoked_at, steps):
    """After a revocation, whoever does not hear of it fails closed when the last statement before it ends.

    The clock of the verifier jumps about as it likes.
    """
    before = series[:revoked_at]
    number = len(before) + 1
    ends = [one.statement.period.not_after for one in before if one.statement.period is not None]
    start = max((int(end - moment(0)) // SECOND + 1 for end in ends), default=0)
    after = [
        crl(number, TIMED),
        crl(number + 1, TIMED, since=start, lasting=4),
        crl(number + 2, TIMED, since=start + 4, lasting=4),
    ]
    standing, told = Monitor(), False
    for index, second in steps:
        signed = [*before, *after][index % (len(before) + len(after))]
        hear(standing, signed, moment(second))
        told = told or signed in after
        if standing.check(TIMED, moment(second)) is None:
            assert not told
            assert moment(second) <= max(ends)


@given(
    honest_series(CERTIFICATES[:1], TESTER),
    st.lists(st.tuples(st.integers(0, 6), st.integers(-5, 30)), max_size=30),
)
def test_a_period_that_was_seen_to_be_over_never_counts_again(series, steps):
    """The clock may step back, and old statements may be shown again: what is over stays over."""
    standing, known, over = Monitor(), set(), set()
    for index, second in steps:
        at, signed = moment(second), series[index % len(series)]
        over |= {one for one in known if _ends(one) < at}
        hear(standing, signed, at)
        known.add(signed)
        over |= {one for one in known if _ends(one) < at}
        if standing.check(TIMED, at) is None:
            assert any(one.statement.period.contains(at) for one in known - over if one.statement.period)


def _ends(signed):
    period = signed.statement.period
    return moment(10_000) if period is None else period.not_after


@st.composite
def dishonest_series(draw):
    """Draw statements of an issuer that reuses numbers and lets periods overlap."""
    make = st.builds(
        lambda number, revoked, since, lasting: crl(
            number, *revoked, since=since, lasting=lasting if since is not None else 30
        ),
        st.integers(1, 4),
        st.lists(st.sampled_from(CERTIFICATES), unique=True),
        st.one_of(st.none(), st.integers(0, 12)),
        st.integers(1, 8),
    )
    return draw(st.lists(make, min_size=1, max_size=10))


@given(dishonest_series(), st.lists(st.integers(0, 2), min_size=10, max_size=10))
def test_an_issuer_that_breaks_the_rules_only_takes_away(series, waits):
    """Conflicts and overlaps: what is accepted is accepted by every reading of what was shown."""
    standing, now, shown = Monitor(), moment(0), []
    for signed, waited in zip(series, waits, strict=False):
        now = Instant(now + waited * SECOND)
        hear(standing, signed, now)
        shown.append(signed.statement)
        newest = max(said.sequence for said in shown)
        for one in CERTIFICATES:
            if standing.check(one, now) is None and one.certificate.validity.tests:
                if one.certificate.validity.tests[0].by != TESTER.principal:
                    continue
                assert all(one.id not in said.revoked for said in shown if said.sequence == newest)
        if standing.check(TIMED, now) is None:
            assert any(said.period is not None and said.period.contains(now) for said in shown)


@given(st.permutations(range(4)), st.integers(0, 11))
def test_statements_that_are_there_in_time_may_come_in_any_order(order, second):
    said = [
        crl(1, since=0, lasting=6),
        crl(2, CERTIFICATES[0]),
        crl(3, CERTIFICATES[0], since=6, lasting=6),
        crl(4, CERTIFICATES[0], CERTIFICATES[1]),
    ]
    standing = Monitor()
    for index in order:
        hear(standing, said[index], moment(0))
    assert standing.check(TIMED, moment(second)) is None
    assert standing.revoked_by(TESTER.principal) == {CERTIFICATES[0].id, CERTIFICATES[1].id}
    assert standing.fresh_until(TESTER.principal, moment(second)) == moment(12) - 1


@given(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 8)), min_size=1, max_size=8))
def test_a_revalidation_is_believed_only_where_the_newest_agrees(steps):
    """Also an issuer of revalidations that breaks the rules cannot vouch by two tongues."""
    one = certificate(TestKind.REVALIDATION)
    standing, now, shown = Monitor(), moment(0), []
    for number, vouches, since in steps:
        signed = revalidation(number, *([one] if vouches else []), since=since, lasting=3)
        hear(standing, signed, now)
        shown.append(signed.statement)
        newest = max(said.sequence for said in shown)
        if standing.check(one, now) is None:
            assert all(one.id in said.valid for said in shown if said.sequence == newest)
            assert any(one.id in said.valid and said.period.contains(now) for said in shown)
        now = Instant(now + SECOND)


@given(honest_series(CERTIFICATES, TESTER), st.integers(0, 30))
def test_a_newcomer_who_is_told_what_is_held_knows_what_follows(series, second):
    old, new = Monitor(), Monitor()
    for signed in series:
        hear(old, signed, moment(0))
    told = old.statements(TESTER.principal, moment(second))
    for signed in reversed(told):
        hear(new, signed, moment(second))
    for one in CERTIFICATES:
        assert (old.check(one, moment(second)) is None) is (new.check(one, moment(second)) is None)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.sampled_from([1, 1.0, True, "x", None]))),
    st.lists(st.tuples(st.booleans(), st.sampled_from([0, 0.5, 1, 3])), min_size=12, max_size=12),
)
def test_facts_are_those_of_the_newest_list_that_has_begun_where_the_newest_of_all_agrees(lists, deliveries):
    """Lists of an issuer begin one after the other, and a new one may begin before the old one ends."""
    standing, now, heard, start = Monitor(), moment(0), [], 0
    for number, ((later, lasting, value), (arrives, waits)) in enumerate(
        zip(lists, deliveries, strict=False), start=1
    ):
        start += later
        if arrives:
            hear(standing, stated(number, start, lasting, value), now)
            heard.append((number, start, lasting, value))
        now = Instant(now + round(waits * SECOND))
        begun = [one for one in heard if moment(one[1]) <= now]
        _, since, lasts, said = max(begun, default=(0, 0, 0, None))
        expected = None if since + lasts <= (now - moment(0)) / SECOND else said
        last = heard[-1][3] if heard else None
        if (type(last), last) != (type(expected), expected):
            expected = None  # taken back, or not yet said
        told = standing.facts_about(HOLDER.principal, now).get(TESTER.principal, {}).get("grade")
        assert (type(told), told) == (type(expected), expected)


def stated(number, start, lasting, value):
    facts = {} if value is None else {(HOLDER.principal, "grade"): value}
    period = period_from(moment(start), microseconds=lasting * SECOND)
    return sign_statement(FactList(TESTER.principal, number, period, facts), TESTER)
