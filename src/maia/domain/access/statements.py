"""What does a domain state about the validity of what it issued, and what does it receive from others?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from maia.credentials import Principal, SignedCertificate, certificate_from_bytes
from maia.credentials.appointments import appointment_from_bytes
from maia.credentials.certificate import TestKind
from maia.credentials.statements import (
    AuditHead,
    OneTimeAnswer,
    RevocationList,
    SignedStatement,
    check_statement,
    sign_statement,
)
from maia.domain.access.audit import keep_audit_head, witnessed_heads
from maia.domain.access.cascade import end_dependents, forget_expired, mark_revoked, revoke_again
from maia.domain.access.core import AccessCore, principals
from maia.domain.access.issuance import held_certificates
from maia.domain.access.memberships import DomainTester
from maia.domain.access.results import EntryKind, Page, Revoked, cursor_number, page_limit
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.facts.store import has_unpublished_facts, stated_facts
from maia.domain.storage.store import AT_ONCE, Tables
from maia.domain.storage.tables import AppointmentRow, RightRow, StatementRow, TesterRow, valid_rights
from maia.errors import BadInput, Refusal
from maia.events import SECOND, Instant
from maia.roles import Support, SupportKind
from maia.validity import lacking

_TIMED: Final = (TestKind.TIMED_CRL, TestKind.REVALIDATION)
_TESTERS_MAX: Final = 4096
_SOON_S: Final = 3
"""Lists are fetched so long before the last one ends, if they do not arrive by themselves."""


class AccessStatements(AccessCore):
    """The validity statements of a domain: those it signs and those it receives."""

    # ------------------------------------------------------------ signing

    def due(self, now: Instant) -> list[SignedStatement]:
        """Return the statements to be published now: the next timed list, where it is time for it.

        Facts that have become true are among them, if conditions ask for them.
        Also ends what depends on certificates of other issuers without a valid
        statement; a list without a period then says so.
        """
        self.has_news = False
        if self.next_due(now) > now:
            return []
        with self._begin(self.principal, now) as work:
            self._end_stale(work)
            signed = []
            if work.ids:
                work.record("statement.stale", ended=len(work.memberships))
                at_once = self._state_revoked(work).statement
                signed += [at_once] if at_once is not None else []
            new = self._state_facts(work) if has_unpublished_facts(work.tables) else None
            signed += [new] if new is not None else []
            facts = stated_facts(work.tables, self._policies.in_force(work.tables))
            signed += self._publisher.state_due(work.tables, now, facts)
            forget_expired(work.tables, now, self._settings)
            return signed

    def next_due(self, now: Instant) -> Instant:
        """Return when `due` wants to be asked again; `now` means at once."""
        with self._store.reading() as tables:
            if has_unpublished_facts(tables):
                return now
            moments = [self._publisher.next_due(tables, now)]
            if self._publisher.is_silent(tables, now):
                moments = [Instant(now + self._settings.period_s * 1_000_000)]
            validity = self._validity(tables)
            for tester, kind in self._timed_testers(tables):
                fresh = validity.fresh_until(tester, now, kind)
                moments.append(now if fresh is None else Instant(fresh + 1))
            return max(now, min(moments))

    def is_silent(self, now: Instant) -> bool:
        """Return whether more is revoked than a list can name, so that nothing is stated."""
        with self._store.reading() as tables:
            return self._publisher.is_silent(tables, now)

    def current_statements(self, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what a new verifier needs: the lists that hold now or will, and the newest one."""
        with self._store.reading() as tables:
            return self._publisher.current(tables, now)

    def current_stored(self, now: Instant) -> tuple[bytes, ...]:
        """Return what a new verifier needs, as it was signed."""
        with self._store.reading() as tables:
            return tuple(row.signed for row in self._publisher.current_rows(tables, now))

    def stored_statements(self, *, after: str | None = None, limit: int = 100) -> Page[bytes]:
        """Return the statements that this domain signed, the oldest that is kept first, as they lie there.

        Any stranger may ask, so nothing is taken apart, and an answer ends at so many bytes (A87).
        """
        limits, column = self._settings.limits, StatementRow.c.number
        page_limit(limit, limits)
        start = cursor_number(after)
        with self._store.reading() as tables:
            sizes = tables.sizes(StatementRow.c.signed, limit=limit, order=column, after=start)
            sums = accumulate(size for _, size in sizes)
            fitting = max(1, sum(1 for one in sums if one <= limits.page_bytes))
            rows = tables.find(StatementRow, limit=fitting, order=column, after=start)
        is_more = fitting < len(sizes) or len(rows) == limit
        return Page(tuple(row.signed for row in rows), str(rows[-1].number) if is_more else None)

    def revalidate_once(
        self, certificate: bytes, request: bytes, nonce: bytes, *, now: Instant
    ) -> SignedStatement:
        """Say that a certificate is valid for one request of one verifier; refuse if it is not."""
        with self._store.reading() as tables:
            row = tables.get(RightRow, certificate)
            if row is None:
                raise BadInput("INPUT-UNKNOWN-CERTIFICATE", "no certificate of the register has this id")
            signed = certificate_from_bytes(row.certificate)
            said = signed.certificate
            if self.principal not in {said.issuer, *(test.by for test in said.validity.tests)}:
                raise Refusal(
                    "REFUSED-NOT-OURS", "this domain does not state the validity of the certificate"
                )
            problem = self._tester(tables).check(signed, now)
            if problem is not None:
                raise problem
            if not said.validity.contains(now):
                raise Refusal("REFUSED-NOT-OURS", "the certificate does not hold at this moment")
        return sign_statement(OneTimeAnswer(self.principal, certificate, request, nonce), self._key)

    # ------------------------------------------------------------ receiving

    def receive_statement(self, signed: SignedStatement, *, actor: Principal, now: Instant) -> Revoked:
        """Accept a statement of another issuer; what depends on the certificates that it revokes ends.

        Statements of issuers that nothing here depends on are not kept. One of this domain itself that the
        store does not know means that the store was restored from an old copy: it goes on from there.
        """
        by = signed.statement.by
        if by == self.principal:
            return self._receive_own(signed, actor, now)
        with self._begin(actor, now) as work:
            if by not in self._issuers_followed(work.tables, now):
                return Revoked()
            received = self._validity(work.tables).receive(signed, now)
            if received.refused is not None:
                raise received.refused
            if not received.is_news:
                return Revoked()
            self._is_ahead = True
            self._keep_received(work.tables, by)
            # An issuer may list what it likes, and revokes its own certificates alone.
            check = self._tester(work.tables)
            rows = work.tables.find_in(AppointmentRow, AppointmentRow.c.id, sorted(received.revoked))
            bad = [row.id for row in rows if _is_bad(check, row, now)]
            end_dependents(work, [Support(SupportKind.CERTIFICATE, one) for one in bad], f"revoked by {by}")
            mark_revoked(work, work.tables.find_in(RightRow, RightRow.c.id, sorted(received.revoked)), check)
            problem = keep_audit_head(work.tables, signed.statement, now) or received.problem
            if work.ids or problem is not None:
                said = "" if problem is None else problem.code
                work.record("statement.receive", by=by, problem=said, **_ended(work))
            return self._state_revoked(work)

    def _receive_own(self, signed: SignedStatement, actor: Principal, now: Instant) -> Revoked:
        """Go back behind no statement of this domain: no number, no period, no revocation.

        A store that was restored may have signed lists of its own meanwhile, up to the same numbers and
        beyond: what another history of it has revoked counts, whatever its number.
        """
        said = signed.statement
        if isinstance(said, OneTimeAnswer):
            return Revoked()
        with self._store.reading() as tables:
            is_behind = self._publisher.is_behind(tables, said)
            if not is_behind and not self._publisher.is_from_another_history(tables, said):
                return Revoked()
        check_statement(signed)
        with self._begin(actor, now) as work:
            self._publisher.advance_past(work.tables, said)
            if isinstance(said, RevocationList):
                revoke_again(work, said.revoked, "revoked before the store was restored", self.principal)
            if is_behind or work.ids:
                work.record("statement.own", number=said.sequence, **_ended(work))
            return self._state_revoked(work)

    def issuers_followed(self, now: Instant) -> frozenset[Principal]:
        """Return the issuers whose statements this domain needs, because something here depends on them."""
        with self._store.reading() as tables:
            return self._issuers_followed(tables, now)

    def not_vouched_for(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return what others granted to this domain and their statements do not confirm, or not for long."""
        with self._store.reading() as tables:
            soon = Instant(now + _SOON_S * SECOND)
            return lacking(self._tester(tables), held_certificates(tables, now), soon)

    def received_statements(self, by: Principal, now: Instant) -> tuple[SignedStatement, ...]:
        """Return the statements of another issuer that hold now, as far as they were received."""
        with self._store.reading() as tables:
            return self._validity(tables).statements(by, now)

    def witnessed(self, by: Principal, *, after: str | None = None, limit: int = 100) -> Page[AuditHead]:
        """Return the heads of another domain's audit that this one has received, the shortest first."""
        page_limit(limit, self._settings.limits)
        with self._store.reading() as tables:
            return witnessed_heads(tables, by, cursor_number(after), limit)

    def _issuers_followed(self, tables: Tables, now: Instant) -> frozenset[Principal]:
        wanted = set(principals(tables.distinct(TesterRow.c.tester, limit=_TESTERS_MAX)))
        policy = self._policies.in_force(tables)
        if policy is not None:
            wanted |= {one for name in policy.appointments for one in policy.issuers(name)}
        is_delegated = RightRow.c.kind == EntryKind.DELEGATED.value
        issuers = tables.distinct(RightRow.c.issuer, is_delegated, *valid_rights(now), limit=_TESTERS_MAX)
        wanted |= set(principals(issuers))
        for signed in held_certificates(tables, now):
            wanted |= {signed.certificate.issuer, *(test.by for test in signed.certificate.validity.tests)}
        return frozenset(wanted - {self.principal})

    def _timed_testers(self, tables: Tables) -> Iterator[tuple[Principal, TestKind]]:
        """Yield the issuers of timed statements about certificates of others that something here watches."""
        for kind in _TIMED:
            keys = tables.distinct(TesterRow.c.tester, TesterRow.c.kind == kind.value, limit=_TESTERS_MAX)
            yield from ((tester, kind) for tester in principals(keys))

    def _end_stale(self, work: UnitOfWork) -> None:
        """End what depends on a certificate of another issuer that has no valid statement now."""
        validity, check = self._validity(work.tables), self._tester(work.tables)
        for tester, kind in list(self._timed_testers(work.tables)):
            if validity.fresh_until(tester, work.now, kind) is not None:
                continue
            where = (TesterRow.c.kind == kind.value, TesterRow.c.tester == tester.key)
            while rows := work.tables.find(TesterRow, *where, limit=AT_ONCE, order=TesterRow.c.certificate):
                ids = [row.certificate for row in rows]
                found = work.tables.find_in(AppointmentRow, AppointmentRow.c.id, ids)
                bad = [
                    Support(SupportKind.CERTIFICATE, row.id) for row in found if _is_bad(check, row, work.now)
                ]
                end_dependents(work, bad, f"no valid statement of {tester}")
                # Nothing here watches them now; the next activation with one of them registers it again.
                work.tables.delete_in(TesterRow, TesterRow.c.certificate, ids)
            # A clock that is set back after a restart must not find the period open again.
            validity.advance(work.now)
            self._keep_received(work.tables, tester)


def _is_bad(check: DomainTester, row: AppointmentRow, now: Instant) -> bool:
    return check.check_appointment(appointment_from_bytes(row.certificate), now) is not None


def _ended(work: UnitOfWork) -> dict[str, object]:
    return {"revoked": len(work.ids), "ended": len(work.memberships)}
