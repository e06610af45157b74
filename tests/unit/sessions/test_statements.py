"""One intake for validity statements: what is new is kept and acted upon, once."""

from __future__ import annotations

from dataclasses import replace

from maia.credentials import SignedStatement, TestKind, statement_to_bytes
from maia.events import Instant
from maia.sessions.session import Session, SessionLimits, Stage
from maia.sessions.statements import KEPT_STATEMENTS, StatementIntake
from maia.testing.refusals import raises
from maia.validity import Changed
from maia.wire.effects import Count, Effect, LinkId, Note
from support.statements import HOLDER, ISSUER, TESTER, certificate, crl, moment

TESTED = certificate(TestKind.CRL)


class Verifier:
    """What it is called with is in `heard`."""

    def __init__(self, kept: dict[str, bytes] | None = None) -> None:
        self.intake, self.heard = StatementIntake(kept or {}), list[Changed]()

    def changed(self, heard: Changed, now: Instant) -> list[Effect]:
        self.heard.append(heard)
        return [Note("changed", {})]

    def take(self, *statements: SignedStatement) -> list[Effect]:
        return self.intake.take(statements, moment(0), self.changed)


def test_a_new_statement_is_acted_upon_once() -> None:
    verifier = Verifier()
    assert verifier.take(crl(1, TESTED)) == [Count("maia_statements_received_total"), Note("changed", {})]
    assert verifier.take(crl(1, TESTED)) == []
    (heard,) = verifier.heard
    assert heard.revoked == {TESTED.id}


def test_a_forged_statement_is_counted_and_changes_nothing() -> None:
    verifier, forged = Verifier(), replace(crl(1, TESTED), signature=bytes(64))
    (counted,) = verifier.take(forged)
    assert isinstance(counted, Count)
    assert counted.name == "maia_statements_refused_total"
    assert not verifier.heard


def test_one_bad_statement_does_not_stop_those_after_it() -> None:
    verifier = Verifier()
    verifier.take(replace(crl(1), signature=bytes(64)), crl(1, by=ISSUER))
    assert [one.by for one in verifier.heard] == [ISSUER.principal]


def test_what_was_kept_survives_a_restart() -> None:
    before = Verifier()
    before.take(crl(1, TESTED))
    kept = before.intake.kept(TESTER.principal)
    assert kept.data is not None
    after = Verifier({kept.name: kept.data})
    assert after.intake.monitor.check(TESTED, moment(1)) is not None
    assert after.take(crl(1, TESTED)) == []


def test_what_ends_is_acted_upon_like_what_arrives_and_stays_over_after_a_restart() -> None:
    """A78: whatever the clock says then."""
    timed, before = certificate(TestKind.TIMED_CRL), Verifier()
    before.take(crl(1, since=0))
    assert before.intake.advance(moment(29), before.changed) == []
    assert before.intake.advance(moment(30), before.changed) == [Note("changed", {})]
    assert before.heard[-1].concerns(timed)
    kept = before.intake.kept(TESTER.principal)
    assert kept.data is not None
    assert Verifier({kept.name: kept.data}).intake.monitor.check(timed, moment(10)) is not None


def test_a_record_that_cannot_be_read_is_no_start() -> None:
    """To leave it out would be to believe again what was revoked."""
    with raises("INPUT-KEPT-STATEMENTS"):
        StatementIntake({KEPT_STATEMENTS + "00": b"no record"})


def test_what_a_peer_shows_is_acted_upon_whatever_becomes_of_the_peer() -> None:
    verifier = Verifier()
    peer = Session(LinkId(1), HOLDER.principal, None, Stage.READY, opened_at=moment(0), heard_at=moment(0))
    peer.hold([statement_to_bytes(crl(1, TESTED)), statement_to_bytes(crl(1, by=ISSUER))], SessionLimits())
    verifier.intake.take_shown(peer, lambda by: by == TESTER.principal, moment(0), verifier.changed)
    assert [one.by for one in verifier.heard] == [TESTER.principal]
    assert Note("changed", {}) in verifier.intake.shown_effects
