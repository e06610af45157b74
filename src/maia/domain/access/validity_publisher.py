"""When does a domain state what it has revoked, and what exactly?

One list follows the other (dissertation 6.2.3): no two periods overlap and
none leaves a gap, also over a restart and over steps of the clock, because
every moment that was ever covered is remembered. A revocation is stated at
once in a list without a period. All lists share one numbering that never goes
back; a number is safe in the store before the statement leaves. Facts
that changed are stated at once too, for the time that lists cover already:
the new list of facts takes the place of those before it.

A list names what is revoked and has not expired. If that is more than one list
can name, the domain states nothing: a list that left something out would
bring it back to life, and silence lets everything go stale.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from maia.credentials import SigningKey, Validity
from maia.credentials.statements import (
    FactList,
    Revalidation,
    RevocationList,
    SignedStatement,
    StatedFacts,
    period_from,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.domain.access.audit import AUDIT_START
from maia.domain.access.settings import AccessSettings
from maia.domain.access.unit_of_work import audit_head, next_number
from maia.domain.facts.store import mark_published
from maia.domain.storage.records import from_cell, to_cell
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import AuditRow, MetaRow, RevokedRow, RightRow, StatementRow, valid_rights
from maia.errors import MaiaError, Unavailable
from maia.events import SECOND, Instant

_COVERED: Final = "covered"
_LISTS: Final = "lists"
_REVALIDATIONS: Final = "revalidations"
_FACTS: Final = "stated facts"
_STATEMENTS: Final = "statements"
_NUMBERING: Final[dict[type, str]] = {RevocationList: _LISTS, Revalidation: _REVALIDATIONS, FactList: _FACTS}
_PERIODS_MAX: Final = 64
"""How many stretches of covered time are remembered one by one; the oldest are joined beyond."""

_Stretch = tuple[int, int]
"""The first and the last moment of an unbroken row of periods."""
_Covered = tuple[_Stretch, ...]


class ValidityPublisher:
    """Signs the statements of one domain."""

    def __init__(self, key: SigningKey, settings: AccessSettings) -> None:
        """Sign with `key`, in the rhythm of the settings."""
        self._key, self._settings = key, settings

    # ------------------------------------------------------------ signing

    def state_now(self, tables: Tables, now: Instant) -> SignedStatement | None:
        """Sign a list without a period, for a revocation that was just made; None: there is no room."""
        revoked = self._revoked(tables, now)
        return None if revoked is None else self._list(tables, revoked, None, now)

    def state_facts(self, tables: Tables, now: Instant, facts: StatedFacts) -> SignedStatement | None:
        """Sign facts that changed, for as long as lists were stated; None: the next list will say them."""
        last = next((last for first, last in _covered(tables) if first <= now <= last), None)
        if last is None:
            return None
        # Earlier lists of facts are not sent any more: a verifier that has this one refuses them as old.
        tables.delete(StatementRow, StatementRow.c.sort == _FACTS, StatementRow.c.not_after >= now)
        return self._facts(tables, facts, Validity(now, Instant(last)), now)

    def state_due(
        self, tables: Tables, now: Instant, facts: StatedFacts | None = None
    ) -> list[SignedStatement]:
        """Sign the list for the next time that none covers, if it is time for it, and `facts` beside it."""
        covered = _covered(tables)
        start, end = self._next_period(covered, now)
        revoked = self._revoked(tables, now)
        if revoked is None or start - now > self._settings.lead_s * SECOND:
            return []
        period = period_from(start, microseconds=end - start + 1)
        _remember(tables, covered, (start, end))
        signed = [self._list(tables, revoked, period, now)]
        where = (RightRow.c.is_revalidated == 1, *valid_rights(now))
        rows = tables.find(RightRow, *where, limit=self._settings.limits.revoked_in_a_list)
        if rows:
            valid, number = frozenset(row.id for row in rows), next_number(tables, _REVALIDATIONS)
            said = sign_statement(Revalidation(self._key.principal, number, period, valid), self._key)
            signed.append(self._kept(tables, _REVALIDATIONS, said, period, now))
        if facts is not None:
            signed.append(self._facts(tables, facts, period, now))
        mark_published(tables, facts)
        # Statements that are over go, and ids whose certificates expired so long ago that no clock errs.
        newest = tables.get(MetaRow, _STATEMENTS)
        if newest is not None:
            is_old = StatementRow.c.number <= newest.number - self._settings.limits.statements_kept
            tables.delete(StatementRow, is_old, StatementRow.c.not_after <= now)
            tables.delete(StatementRow, is_old, StatementRow.c.not_after.is_(None))
        tables.delete(RevokedRow, RevokedRow.c.not_after <= now - self._settings.kept_s * SECOND)
        return signed

    def next_due(self, tables: Tables, now: Instant) -> Instant:
        """Return when the next list is to be signed."""
        start, _ = self._next_period(_covered(tables), now)
        return Instant(max(now, start - self._settings.lead_s * SECOND))

    def is_silent(self, tables: Tables, now: Instant) -> bool:
        """Return whether more is revoked than a list can name."""
        return (
            tables.count(RevokedRow, RevokedRow.c.not_after >= now) > self._settings.limits.revoked_in_a_list
        )

    def is_behind(self, tables: Tables, said: RevocationList | Revalidation | FactList) -> bool:
        """Return whether a statement of this domain has a number that was not given out here yet."""
        known = tables.get(MetaRow, _NUMBERING[type(said)])
        return known is None or known.number < said.sequence

    def is_from_another_history(self, tables: Tables, said: RevocationList | Revalidation | FactList) -> bool:
        """Return whether a list of this domain was signed by a store that has done what this one has not.

        A list states the audit of its moment; that of the lists of this store is part of its own.
        """
        if not isinstance(said, RevocationList) or said.audit is None or said.audit == AUDIT_START:
            return False
        row = tables.get(AuditRow, said.audit.length)
        return row is None or row.digest != said.audit.digest

    def advance_past(self, tables: Tables, said: RevocationList | Revalidation | FactList) -> None:
        """Give no number again that a statement of this domain has, and cover no time that it covers."""
        if self.is_behind(tables, said):
            tables.put(MetaRow(_NUMBERING[type(said)], said.sequence, b""))
        period = said.period
        if period is not None and period.not_before is not None and period.not_after is not None:
            _remember(tables, _covered(tables), (period.not_before, period.not_after))

    # ------------------------------------------------------------ what was signed

    def current(self, tables: Tables, now: Instant) -> tuple[SignedStatement, ...]:
        """Return the statements whose periods are not over and the newest list, in the order of signing."""
        return tuple(_read(row.signed) for row in self.current_rows(tables, now))

    def current_rows(self, tables: Tables, now: Instant) -> list[StatementRow]:
        """Return the same as it is stored."""
        timed = tables.find(
            StatementRow, StatementRow.c.not_after >= now, limit=_PERIODS_MAX, order=StatementRow.c.number
        )
        newest = tables.find(
            StatementRow, StatementRow.c.sort == _LISTS, limit=1, order=StatementRow.c.number, descending=True
        )
        rows = {row.number: row for row in (*timed, *newest)}
        return [rows[number] for number in sorted(rows)]

    def last_moment(self, tables: Tables, now: Instant) -> Instant | None:
        """Return the end of the last list that was signed, up to which a verifier without news goes by it."""
        said = [signed.statement for signed in self.current(tables, now)]
        periods = [one.period for one in said if isinstance(one, RevocationList) and one.period is not None]
        return max((one.not_after for one in periods if one.not_after is not None), default=None)

    # ------------------------------------------------------------ the parts

    def _next_period(self, covered: Iterable[_Stretch], now: Instant) -> tuple[Instant, int]:
        """Return the first moment from `now` on that no list covers, and the last one of its period."""
        start, later = int(now), None
        for first, last in sorted(covered):
            if first <= start <= last:
                start = last + 1
            elif first > start:
                later = first
                break
        end = start + self._settings.period_s * SECOND - 1
        return Instant(start), end if later is None else min(end, later - 1)

    def _revoked(self, tables: Tables, now: Instant) -> frozenset[bytes] | None:
        most = self._settings.limits.revoked_in_a_list
        rows = tables.find(
            RevokedRow, RevokedRow.c.not_after >= now, limit=most + 1, order=RevokedRow.c.not_after
        )
        return None if len(rows) > most else frozenset(row.id for row in rows)

    def _list(
        self, tables: Tables, revoked: frozenset[bytes], period: Validity | None, now: Instant
    ) -> SignedStatement:
        number = next_number(tables, _LISTS)
        said = RevocationList(self._key.principal, number, period, revoked, audit_head(tables))
        return self._kept(tables, _LISTS, sign_statement(said, self._key), period, now)

    def _facts(self, tables: Tables, facts: StatedFacts, period: Validity, now: Instant) -> SignedStatement:
        said = FactList(self._key.principal, next_number(tables, _FACTS), period, facts)
        return self._kept(tables, _FACTS, sign_statement(said, self._key), period, now)

    def _kept(
        self, tables: Tables, sort: str, signed: SignedStatement, period: Validity | None, now: Instant
    ) -> SignedStatement:
        start, end = (None, None) if period is None else (period.not_before, period.not_after)
        number = next_number(tables, _STATEMENTS)
        tables.put(StatementRow(number, sort, statement_to_bytes(signed), start, end, now))
        return signed


@lru_cache(maxsize=8)  # each login hands them out, and to take a long list apart costs a tenth of a second
def _read(signed: bytes) -> SignedStatement:
    try:
        return statement_from_bytes(signed)
    except MaiaError as problem:
        raise Unavailable("UNAVAILABLE-DOMAIN-STORE", "a statement in the store cannot be read") from problem


def _covered(tables: Tables) -> list[_Stretch]:
    row = tables.get(MetaRow, _COVERED)
    if row is None:
        return []
    return list(from_cell(_Covered, row.data, "the periods of earlier lists"))


def _remember(tables: Tables, covered: Iterable[_Stretch], new: _Stretch) -> None:
    """Note that a period is taken; what touches is joined, and so is the oldest beyond the maximum."""
    joined: list[_Stretch] = []
    for first, last in sorted((*covered, new)):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    while len(joined) > _PERIODS_MAX:
        # Also takes the gap between the two: no list will ever cover it, and none needs to, it is long past.
        joined[:2] = [(joined[0][0], joined[1][1])]
    tables.put(MetaRow(_COVERED, len(joined), to_cell(_Covered, tuple(joined))))
