"""What does a domain say about the validity of what it issued, and what does it hear from others?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from maia.credentials import Principal, certificate_from_bytes
from maia.credentials.appointments import appointment_from_bytes
from maia.credentials.encoding.statements import check_statement, sign_statement
from maia.credentials.validity.online_tests import TestKind
from maia.credentials.validity.statements import AuditHead, OneTimeAnswer, RevocationList, SignedStatement
from maia.domain.access.audit import keep_audit_head, witnessed_heads
from maia.domain.access.cascade import forget_expired, lose, revoke_again
from maia.domain.access.core import AccessCore, principals
from maia.domain.access.issuance import held_certificates
from maia.domain.access.refusals import NotOurs, UnknownCertificate
from maia.domain.access.results import Page, Revoked, cursor_number, page_limit
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.access.validity import DomainTester
from maia.domain.access.validity_publisher import read_statement
from maia.domain.facts.published import is_overdue, stated_facts
from maia.domain.storage.store import AT_ONCE, Tables
from maia.domain.storage.tables import APPOINTMENTS, RIGHTS, STATEMENTS, TESTERS, AppointmentRow
from maia.events import Instant
from maia.roles import Support, SupportKind

__all__ = ["AccessStatements"]

_TIMED: Final = (TestKind.TIMED_CRL, TestKind.REVALIDATION)
_TESTERS_MAX: Final = 4096


class AccessStatements(AccessCore):
    """The validity publisher of a domain, and its ear."""

    # ------------------------------------------------------------ saying

    def due(self, now: Instant) -> list[SignedStatement]:
        """Return the statements to be published now: the next timed list, where it is time for it.

        Facts that have become true are among them, if conditions ask for them.
        Also ends what rests on certificates of others that nobody vouches for
        any more; a list without a period then says so.
        """
        self.has_news = False
        if self.next_due(now) > now:
            return []
        with self._turn(self.principal, now) as turn:
            self._let_go_of_the_stale(turn)
            signed = []
            if turn.ids:
                turn.record("statement.stale", ("fallen", str(len(turn.memberships))))
                at_once = self._taken_away(turn).statement
                signed += [at_once] if at_once is not None else []
            new = self._facts_now(turn) if is_overdue(turn.tables) else None
            signed += [new] if new is not None else []
            facts = stated_facts(turn.tables, self._shelf.in_force(turn.tables))
            signed += self._publisher.state_due(turn.tables, now, facts)
            forget_expired(turn.tables, now, self._settings)
            return signed

    def next_due(self, now: Instant) -> Instant:
        """Return when `due` wants to be asked again; `now` means at once."""
        with self._looking() as tables:
            if is_overdue(tables):
                return now
            moments = [self._publisher.next_due(tables, now)]
            if self._publisher.is_silent(tables, now):
                moments = [Instant(now + self._settings.period_s * 1_000_000)]
            standing = self._standing(tables)
            for tester, kind in self._timed_testers(tables):
                fresh = standing.fresh_until(tester, now, kind)
                moments.append(now if fresh is None else Instant(fresh + 1))
            return max(now, min(moments))

    def is_silent(self, now: Instant) -> bool:
        """Say whether more is revoked than a list can name, so that nothing is stated."""
        with self._looking() as tables:
            return self._publisher.is_silent(tables, now)

    def current_statements(self, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer everything: the lists that hold now or will, and the newest one."""
        with self._looking() as tables:
            return self._publisher.current(tables, now)

    def statements(self, *, after: str | None = None, limit: int = 100) -> Page[SignedStatement]:
        """Return the statements that this domain signed, the oldest that is kept first."""
        page_limit(limit, self._settings.limits)
        with self._looking() as tables:
            rows = tables.find(STATEMENTS, limit=limit, order=STATEMENTS.c.number, after=cursor_number(after))
            more = str(rows[-1].number) if len(rows) == limit else None
            return Page(tuple(map(read_statement, rows)), more)

    def revalidate_once(
        self, certificate: bytes, request: bytes, nonce: bytes, *, now: Instant
    ) -> SignedStatement:
        """Say that a certificate is valid for one request of one verifier; refuse if it is not."""
        with self._looking() as tables:
            row = tables.get(RIGHTS, certificate)
            if row is None:
                raise UnknownCertificate("no certificate of the register has this id")
            signed = certificate_from_bytes(row.certificate)
            said = signed.certificate
            if self.principal not in {said.issuer, *(test.by for test in said.validity.tests)}:
                raise NotOurs("this domain does not vouch for the certificate")
            problem = self._tester(tables).problem_with(signed, now)
            if problem is not None:
                raise problem
            if not said.validity.contains(now):
                raise NotOurs("the certificate does not hold at this moment")
        return sign_statement(OneTimeAnswer(self.principal, certificate, request, nonce), self._key)

    # ------------------------------------------------------------ hearing

    def hear_statement(self, signed: SignedStatement, *, actor: Principal, now: Instant) -> Revoked:
        """Believe a statement of another issuer; whatever rested on what it takes back falls here too.

        Statements of issuers that nothing here depends on are not kept. One of this domain itself that the
        store does not know says that the store was put back from an old copy: it goes on from there.
        """
        by = signed.statement.by
        if by == self.principal:
            return self._hear_own(signed, actor, now)
        with self._turn(actor, now) as turn:
            if by not in self._issuers_wanted(turn.tables, now):
                return Revoked()
            heard = self._standing(turn.tables).hear(signed, now)
            if not heard.is_news:
                return Revoked()
            self._is_ahead = True
            self._keep_heard(turn.tables, by)
            # An issuer may list what it likes, and revokes its own certificates alone.
            check = self._tester(turn.tables)
            rows = turn.tables.find_in(APPOINTMENTS, APPOINTMENTS.c.id, sorted(heard.revoked))
            bad = [row.id for row in rows if _is_bad(check, row, now)]
            lose(turn, [Support(SupportKind.CERTIFICATE, one) for one in bad], f"revoked by {by}")
            problem = keep_audit_head(turn.tables, signed.statement, now) or heard.problem
            if turn.ids or problem is not None:
                said = "" if problem is None else problem.code
                turn.record("statement.hear", ("by", str(by)), ("problem", said), *_fallen(turn))
            return self._taken_away(turn)

    def _hear_own(self, signed: SignedStatement, actor: Principal, now: Instant) -> Revoked:
        """Go back behind nothing that this domain has said: no number, no period, no revocation.

        A store that was put back may have signed lists of its own meanwhile, up to the same numbers and
        beyond: what another history of it has revoked counts, whatever its number.
        """
        said = signed.statement
        if isinstance(said, OneTimeAnswer):
            return Revoked()
        with self._looking() as tables:
            is_behind = self._publisher.is_behind(tables, said)
            if not is_behind and not self._publisher.is_beside(tables, said):
                return Revoked()
        check_statement(signed)
        with self._turn(actor, now) as turn:
            self._publisher.go_on_from(turn.tables, said)
            if isinstance(said, RevocationList):
                revoke_again(turn, said.revoked, "revoked before the store was put back", self.principal)
            if is_behind or turn.ids:
                turn.record("statement.own", ("number", str(said.sequence)), *_fallen(turn))
            return self._taken_away(turn)

    def issuers_wanted(self, now: Instant) -> frozenset[Principal]:
        """Return whose statements this domain must hear: of whose certificates anything here depends."""
        with self._looking() as tables:
            return self._issuers_wanted(tables, now)

    def heard_statements(self, by: Principal, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what another issuer says now, as far as it was heard."""
        with self._looking() as tables:
            return self._standing(tables).statements(by, now)

    def witnessed(self, by: Principal, *, after: str | None = None, limit: int = 100) -> Page[AuditHead]:
        """Return the heads of another domain's audit that this one has heard it state, the shortest first."""
        page_limit(limit, self._settings.limits)
        with self._looking() as tables:
            return witnessed_heads(tables, by, cursor_number(after), limit)

    def _issuers_wanted(self, tables: Tables, now: Instant) -> frozenset[Principal]:
        wanted = set(principals(tables.distinct(TESTERS.c.tester, limit=_TESTERS_MAX)))
        policy = self._shelf.in_force(tables)
        if policy is not None:
            wanted |= {one for name in policy.appointments for one in policy.issuers(name)}
        for signed in held_certificates(tables, now):
            wanted |= {signed.certificate.issuer, *(test.by for test in signed.certificate.validity.tests)}
        return frozenset(wanted - {self.principal})

    def _timed_testers(self, tables: Tables) -> Iterator[tuple[Principal, TestKind]]:
        """Yield who must vouch, again and again, for certificates of others that something is watched for."""
        for kind in _TIMED:
            keys = tables.distinct(TESTERS.c.tester, TESTERS.c.kind == kind.value, limit=_TESTERS_MAX)
            yield from ((tester, kind) for tester in principals(keys))

    def _let_go_of_the_stale(self, turn: UnitOfWork) -> None:
        """Let fall what rests on a certificate of others that nobody vouches for at this moment."""
        standing, check = self._standing(turn.tables), self._tester(turn.tables)
        for tester, kind in list(self._timed_testers(turn.tables)):
            if standing.fresh_until(tester, turn.now, kind) is not None:
                continue
            where = (TESTERS.c.kind == kind.value, TESTERS.c.tester == tester.key)
            while rows := turn.tables.find(TESTERS, *where, limit=AT_ONCE, order=TESTERS.c.certificate):
                ids = [row.certificate for row in rows]
                # To ask is to see that the period is over, which it then is for good.
                found = turn.tables.find_in(APPOINTMENTS, APPOINTMENTS.c.id, ids)
                bad = [
                    Support(SupportKind.CERTIFICATE, row.id) for row in found if _is_bad(check, row, turn.now)
                ]
                lose(turn, bad, f"no valid statement of {tester}")
                # Nothing here watches them now; the next activation with one of them registers it again.
                turn.tables.delete_in(TESTERS, TESTERS.c.certificate, ids)
            # A clock that is set back after a restart must not find the period open again.
            self._keep_heard(turn.tables, tester)


def _is_bad(check: DomainTester, row: AppointmentRow, now: Instant) -> bool:
    return check.problem_with_appointment(appointment_from_bytes(row.certificate), now) is not None


def _fallen(turn: UnitOfWork) -> Sequence[tuple[str, str]]:
    return (("revoked", str(len(turn.ids))), ("fallen", str(len(turn.memberships))))
