"""What can be asked about the rights of a domain?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from maia.credentials import Action, Principal, TypeName
from maia.credentials.arguments import Given
from maia.credentials.validity.statements import AuditHead
from maia.domain.access.audit import AuditRecord, record_from_bytes
from maia.domain.access.core import AccessCore
from maia.domain.access.issuance import held_certificates
from maia.domain.access.policy_store import was_replaced
from maia.domain.access.possible_rights import Supposition, abilities
from maia.domain.access.register import Question, attribute_of, entry_of
from maia.domain.access.results import Ability, Activated, Holder, Page, RegisterEntry
from maia.domain.access.role_activation import activated_of
from maia.domain.access.unit_of_work import audit_head
from maia.domain.access.validity import RegisterTester
from maia.domain.storage.pages import cursor_number, page_limit
from maia.domain.storage.store import Where
from maia.domain.storage.tables import AUDIT, MEMBERSHIPS, RIGHTS, active_memberships, valid_rights
from maia.events import Instant

__all__ = ["AccessQuestions"]


class AccessQuestions(AccessCore):
    """The register and the audit of a domain."""

    def who_can(
        self,
        action: Action,
        event_type: TypeName,
        attribute: str | None,
        at: Instant,
        *,
        now: Instant | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Holder]:
        """Return who can do `action` with the type at that moment, reading `attribute` if one is named.

        The kernel decides, from the certificates on record that are not
        revoked `now` (or at that moment, if it is not given). Rights stand as
        long as those who must vouch for them go on doing so.
        """
        with self._looking() as tables:
            known = self._registry.named(tables, event_type, at)
            question = Question(action, known, attribute_of(known, attribute), at)
            tester = RegisterTester(self._tester(tables), at if now is None else now)
            return self._register.who_can(tables, question, tester, after=after, limit=limit)

    def was_replaced(self, text: str, parents: Mapping[str, str]) -> bool:
        """Say whether this policy was in force once, and another is now."""
        with self._looking() as tables:
            return was_replaced(tables, text, parents)

    def rights_of(
        self, principal: Principal, *, after: str | None = None, limit: int = 100
    ) -> Page[RegisterEntry]:
        """Return every certificate of the register that speaks to `principal`, revoked ones too."""
        return self._entries((RIGHTS.c.subject == principal.key,), after, limit)

    def register(
        self, *, standing_at: Instant | None = None, after: str | None = None, limit: int = 100
    ) -> Page[RegisterEntry]:
        """Return the register in the order of its entries; only what stands at a moment, if one is given."""
        where = () if standing_at is None else valid_rights(standing_at)
        return self._entries(where, after, limit)

    def memberships_of(
        self, principal: Principal, now: Instant, *, after: str | None = None, limit: int = 100
    ) -> Page[Activated]:
        """Return the roles that are active."""
        page_limit(limit, self._settings.limits)
        where = (MEMBERSHIPS.c.principal == principal.key, *active_memberships(now))
        with self._looking() as tables:
            rows = tables.find(
                MEMBERSHIPS, *where, limit=limit, order=MEMBERSHIPS.c.number, after=cursor_number(after)
            )
            found = tuple(activated_of(tables, row) for row in rows)
            return Page(found, str(rows[-1].number) if len(rows) == limit else None)

    def is_of(self, principal: Principal, membership: bytes) -> bool:
        """Say whether a membership is, or was, this principal's."""
        with self._looking() as tables:
            row = tables.get(MEMBERSHIPS, membership)
            return row is not None and row.principal == principal.key

    def would_be_able(self, role: str, arguments: Sequence[Given], now: Instant) -> tuple[Ability, ...]:
        """Return what a member of a role would be able to do, as the kernel would decide it."""
        with self._looking() as tables:
            given = Supposition(
                key=self._key,
                policy=self._policy_in_force(tables),
                held=held_certificates(tables, now),
                types=tuple(self._registry.holding(tables, now).values()),
                tester=RegisterTester(self._tester(tables), now),
                cache=self._cache,
                now=now,
                constitutions=self._settings.constitutions,
            )
            found = abilities(given, role, arguments)
            return tuple(replace(one, rule=self._rule_called(tables, one.rule)) for one in found)

    def audit(self, *, after: int = 0, limit: int = 100) -> Page[AuditRecord]:
        """Return the audit records that follow number `after`."""
        page_limit(limit, self._settings.limits)
        with self._looking() as tables:
            rows = tables.find(AUDIT, limit=limit, order=AUDIT.c.number, after=max(0, after))
            found = tuple(record_from_bytes(row.body, row.previous) for row in rows)
            return Page(found, str(rows[-1].number) if len(rows) == limit else None)

    def audit_head(self) -> AuditHead:
        """Return how long the audit is and what its last record makes of all of them."""
        with self._looking() as tables:
            return audit_head(tables)

    def _entries(self, where: tuple[Where, ...], after: str | None, limit: int) -> Page[RegisterEntry]:
        page_limit(limit, self._settings.limits)
        with self._looking() as tables:
            rows = tables.find(RIGHTS, *where, limit=limit, order=RIGHTS.c.number, after=cursor_number(after))
            found = (replace(entry_of(row), rule=self._rule_called(tables, row.rule)) for row in rows)
            return Page(tuple(found), str(rows[-1].number) if len(rows) == limit else None)
