"""What does a domain say about the validity of what it issued, and what does it hear from others?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from maia.credentials import Principal, SignedCertificate, certificate_from_bytes
from maia.credentials.appointments import appointment_from_bytes
from maia.credentials.statement_encoding import sign_statement
from maia.credentials.statements import OneTimeAnswer, SignedStatement
from maia.domain.access_answers import Page, Revoked
from maia.domain.access_core import AccessCore, principals
from maia.domain.access_refusals import NotOurs, UnknownCertificate
from maia.domain.access_store import OneOf, Tables
from maia.domain.access_tables import APPOINTMENTS, RIGHTS, STATEMENTS, TESTERS
from maia.domain.cascade import lose
from maia.domain.housekeeping import forget_expired
from maia.domain.issuing import held_certificates
from maia.domain.pages import cursor_number, page_limit
from maia.domain.turn import Turn
from maia.domain.validity_publisher import read_statement
from maia.events import Instant
from maia.roles import Support, SupportKind

__all__ = ["AccessStatements"]

_AT_ONCE: Final = 500
_TESTERS_MAX: Final = 4096


class AccessStatements(AccessCore):
    """The validity publisher of a domain, and its ear."""

    # ------------------------------------------------------------ saying

    def due(self, now: Instant) -> list[SignedStatement]:
        """Return the statements to be published now: the next timed list, where it is time for it.

        Also ends what rests on certificates of others that nobody vouches for
        any more; a list without a period then says so.
        """
        if self.next_due(now) > now:
            return []
        with self._turn(self.principal, now) as turn:
            self._let_go_of_the_stale(turn)
            signed = []
            if turn.ids:
                turn.record("statement.stale", ("fallen", str(len(turn.memberships))))
                at_once = self._taken_away(turn).statement
                signed += [at_once] if at_once is not None else []
            signed += self._publisher.state_due(turn.tables, now)
            forget_expired(turn.tables, now, self._settings)
            return signed

    def next_due(self, now: Instant) -> Instant:
        """Return when `due` wants to be asked again; `now` means at once."""
        with self._looking() as tables:
            moments = [self._publisher.next_due(tables, now)]
            if self._publisher.is_silent(tables, now):
                moments = [Instant(now + self._settings.period_s * 1_000_000)]
            standing = self._standing(tables)
            for tester in self._testers(tables):
                fresh = standing.fresh_until(tester, now)
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
            rows = tables.find(STATEMENTS, {}, limit=limit, order="number", after=cursor_number(after))
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
            self._check_vouched_for(tables, signed, now)
        return sign_statement(OneTimeAnswer(self.principal, certificate, request, nonce), self._key)

    def _check_vouched_for(self, tables: Tables, signed: SignedCertificate, now: Instant) -> None:
        said = signed.certificate
        testers = {said.issuer, *(test.by for test in said.validity.tests)}
        if self.principal not in testers:
            raise NotOurs("this domain does not vouch for the certificate")
        problem = self._tester(tables).problem_with(signed, now)
        if problem is not None:
            raise problem
        if not said.validity.contains(now):
            raise NotOurs("the certificate does not hold at this moment")

    # ------------------------------------------------------------ hearing

    def hear_statement(self, signed: SignedStatement, *, actor: Principal, now: Instant) -> Revoked:
        """Believe a statement of another issuer; whatever rested on what it takes back falls here too.

        Statements of issuers that nothing here depends on are not kept.
        """
        by = signed.statement.by
        with self._turn(actor, now) as turn:
            if by == self.principal or by not in self._issuers_wanted(turn.tables, now):
                return Revoked()
            heard = self._standing(turn.tables).hear(signed, now)
            if not heard.is_news:
                return Revoked()
            self._is_ahead = True
            self._keep_heard(turn.tables, by)
            lost = [Support(SupportKind.CERTIFICATE, one) for one in sorted(heard.revoked)]
            lose(turn, lost, f"revoked by {by}")
            if turn.ids or heard.problem is not None:
                said = "" if heard.problem is None else heard.problem.code
                turn.record("statement.hear", ("by", str(by)), ("problem", said), *_fallen(turn))
            return self._taken_away(turn)

    def issuers_wanted(self, now: Instant) -> frozenset[Principal]:
        """Return whose statements this domain must hear: of whose certificates anything here depends."""
        with self._looking() as tables:
            return self._issuers_wanted(tables, now)

    def heard_statements(self, by: Principal, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what is known of another issuer: a witness of its audit."""
        with self._looking() as tables:
            return self._standing(tables).statements(by, now)

    def _issuers_wanted(self, tables: Tables, now: Instant) -> frozenset[Principal]:
        wanted = set(self._testers(tables))
        policy = self._shelf.in_force(tables)
        if policy is not None:
            wanted |= {one for name in policy.appointments for one in policy.issuers(name)}
        for signed in held_certificates(tables, now):
            wanted |= {signed.certificate.issuer, *(test.by for test in signed.certificate.validity.tests)}
        return frozenset(wanted - {self.principal})

    def _testers(self, tables: Tables) -> Iterator[Principal]:
        """Yield who must vouch for certificates of others that something here is watched for."""
        return principals(tables.distinct(TESTERS, "tester", {}, limit=_TESTERS_MAX))

    def _let_go_of_the_stale(self, turn: Turn) -> None:
        """Let fall what rests on a certificate of others that nobody vouches for at this moment."""
        standing = self._standing(turn.tables)
        for tester in list(self._testers(turn.tables)):
            if standing.fresh_until(tester, turn.now) is None:
                self._let_go_of(turn, tester)
                # A clock that is set back after a restart must not find the period open again.
                self._keep_heard(turn.tables, tester)

    def _let_go_of(self, turn: Turn, tester: Principal) -> None:
        check = self._tester(turn.tables)
        after: bytes | None = None
        where = {"tester": tester.key}
        while rows := turn.tables.find(TESTERS, where, limit=_AT_ONCE, order="certificate", after=after):
            after = rows[-1].certificate
            ids = tuple(row.certificate for row in rows)
            certificates = turn.tables.find(APPOINTMENTS, {"id": OneOf(ids)}, limit=_AT_ONCE)
            bad = [
                row.id
                for row in certificates
                if check.problem_with_appointment(appointment_from_bytes(row.certificate), turn.now)
                is not None
            ]
            lose(turn, [Support(SupportKind.CERTIFICATE, one) for one in bad], f"nobody vouches: {tester}")
            # Nothing here watches them now; whoever activates a role with one of them again puts it back.
            turn.tables.delete(TESTERS, {"tester": tester.key, "certificate": OneOf(ids)})


def _fallen(turn: Turn) -> Sequence[tuple[str, str]]:
    return (("revoked", str(len(turn.ids))), ("fallen", str(len(turn.memberships))))
