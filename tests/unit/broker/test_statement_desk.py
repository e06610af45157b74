"""Whose word a broker's desk waits for, how much it remembers of that, and when it looks again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.rights import validity as statement_desk
from maia.broker.rights.validity import ValidityTracker
from maia.credentials import (
    CertificateStale,
    FactList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    issue,
    period_from,
    sign_statement,
)
from maia.events import AttributeUid, Instant
from maia.predicates import Comparison, Operator
from maia.validity import Changed
from maia.wire.effects import Effect
from support.statements import HOLDER, ISSUER, SECOND, TESTER, certificate, crl, moment

LINK = 7
SEVERAL = [SigningKey.from_seed(bytes([number]) * 32) for number in range(100, 106)]
ON_DUTY = Comparison(AttributeUid("on-duty"), Operator.EQ, True)


def desk_that_met(*certificates: SignedCertificate, issuers_max: int = 16) -> ValidityTracker:
    desk = ValidityTracker({}, issuers_max=issuers_max)
    desk.met(certificates, frozenset(one.id for one in certificates))
    return desk


def hear(desk: ValidityTracker, signed: SignedStatement, at: float) -> list[frozenset[bytes]]:
    """Have a statement taken in; return the certificates that it concerns, if it is new."""
    touched: list[frozenset[bytes]] = []

    def changed(heard: Changed, now: Instant) -> list[Effect]:
        touched.append(desk.touched_by(heard))
        return []

    desk.intake.take([signed], moment(at), changed)
    return touched


def ended(desk: ValidityTracker, at: float) -> list[frozenset[bytes]]:
    """Let time pass; return the certificates that something concerns which has ended, or begun."""
    return [desk.touched_by(changed) for changed in desk.monitor.advance(moment(at))]


def conditional(by: SigningKey) -> SignedCertificate:
    """Return a certificate of somebody that holds while somebody is on duty."""
    plain = certificate().certificate
    authority = replace(plain.authority, condition=ON_DUTY)
    return issue(replace(plain, issuer=by.principal, authority=authority), by)


# ------------------------------------------------------------ room


def test_who_had_to_make_room_is_not_asked_for_any_more():
    first, second = (certificate(TestKind.TIMED_CRL, by=by) for by in SEVERAL[:2])
    desk = desk_that_met(first, second, issuers_max=1)
    assert set(desk.issuers) == set(desk.new) == {SEVERAL[1].principal}
    assert [one.by for one in desk.evicted] == [SEVERAL[0].principal]


def test_whoever_was_heard_makes_room_for_nobody():
    """A39: its word must end in time, and so somebody has to look after it."""
    heard, other = certificate(TestKind.TIMED_CRL), certificate(TestKind.TIMED_CRL, by=SEVERAL[0])
    desk = desk_that_met(heard, issuers_max=1)
    hear(desk, crl(1, since=0), 0)
    desk.met([other], frozenset({other.id}))
    assert set(desk.issuers) == {TESTER.principal}
    assert not desk.evicted


def test_whoever_was_heard_is_listened_to_however_many_strangers_are_named(monkeypatch):
    """A74: room for streams is made of those to whom there was never a reason to listen."""
    monkeypatch.setattr(statement_desk, "_STREAMS_MAX", 4)
    desk = ValidityTracker({}, issuers_max=16)
    heard = desk.listen(TESTER.principal)
    hear(desk, crl(1), 0)
    for stranger in SEVERAL:
        desk.listen(stranger.principal)
    assert heard in desk.streams
    assert len(desk.streams) <= 4


def test_certificates_on_which_nothing_rests_are_forgotten_when_there_are_too_many(monkeypatch):
    """A74: whoever shows certificates without end fills nothing; what somebody rests on stays."""
    monkeypatch.setattr(statement_desk, "_CERTIFICATES_MAX", 3)
    many = [certificate(TestKind.TIMED_CRL, comment=f"certificate {number}") for number in range(9)]
    desk = desk_that_met(many[0])
    desk.dependencies.note(LINK, frozenset({many[0].id}))
    desk.met(many, frozenset(one.id for one in many))
    assert many[0].id in desk.certificates
    assert len(desk.certificates) <= 3
    assert desk.issuers[TESTER.principal].certificates <= desk.certificates.keys()


def test_conditions_are_forgotten_with_the_last_that_rests_on_them():
    ours = conditional(ISSUER)
    desk = desk_that_met(ours)
    desk.dependencies.note(LINK, frozenset({ours.id}))
    desk.given_up(moment(0), after_us=0)
    assert set(desk.conditional) == {ours.id}
    desk.dependencies.forget(LINK)
    desk.given_up(moment(0), after_us=0)
    assert not desk.conditional


# ------------------------------------------------------------ what a word changes


def test_facts_concern_the_conditions_of_their_issuer_and_nobody_elses():
    """A40: what one domain says of somebody is no reason to look at what another has granted."""
    ours, theirs = conditional(ISSUER), conditional(SEVERAL[0])
    desk = desk_that_met(ours, theirs)
    period = period_from(moment(0), microseconds=30 * SECOND)
    said = sign_statement(
        FactList(ISSUER.principal, 1, period, {(HOLDER.principal, "on-duty"): True}), ISSUER
    )
    assert hear(desk, said, 0) == [{ours.id}]


def test_a_word_that_was_seen_to_end_stays_over_when_the_clock_goes_back():
    """A27, A39: the broker looked after its end, and its clock is set back afterwards."""
    tested = certificate(TestKind.TIMED_CRL)
    desk = desk_that_met(tested)
    hear(desk, crl(1, since=0), 0)
    assert ended(desk, 31) == [{tested.id}]
    assert isinstance(desk.monitor.check(tested, moment(10)), CertificateStale)


def test_a_word_that_was_stated_in_advance_is_looked_at_when_it_begins():
    """A right that waits for it is served from its first moment on, and nobody has to ask again."""
    tested = certificate(TestKind.TIMED_CRL)
    desk = desk_that_met(tested)
    hear(desk, crl(1, since=60), 0)
    (issuer,) = desk.issuers.values()
    assert desk.is_missed(issuer, moment(0))
    assert desk.monitor.next_change() == moment(60)
    assert ended(desk, 60) == [{tested.id}]
    assert not desk.is_missed(issuer, moment(60))


def test_lists_that_are_followed_are_asked_for_and_never_missed():
    followed = certificate(TestKind.FOLLOWED_CRL)
    desk = desk_that_met(followed)
    (issuer,) = desk.issuers.values()
    assert desk.new == {issuer.by: issuer}
    assert not desk.is_missed(issuer, moment(0))
    assert not desk.is_refused(followed, moment(0))
    hear(desk, crl(1, followed), 0)
    assert desk.is_refused(followed, moment(0))


@pytest.mark.parametrize("kind", [TestKind.CRL, TestKind.TIMED_CRL])
def test_of_whom_nothing_was_heard_nothing_is_missed_on_the_way(kind):
    """Another broker has decided; this one refuses by what it has heard, and not by what it has not."""
    tested = certificate(kind)
    desk = desk_that_met(tested)
    assert not desk.is_refused(tested, moment(0))
    hear(desk, crl(1, since=0), 0)
    assert not desk.is_refused(tested, moment(0))
    assert desk.is_refused(tested, moment(31)) == (kind is TestKind.TIMED_CRL)
    hear(desk, crl(2, tested), 31)
    assert desk.is_refused(tested, moment(31))
