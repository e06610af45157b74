"""What can be asked about the rights of a domain?

Who holds which right, and what a member of a role would be able to do: the
policy says what the role is granted, and the kernel decides what follows, with a
certificate that is made for the question and never leaves this file. So the
answer is the one that a broker would give.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    SignedKind,
    SigningKey,
    TopicName,
    TypePattern,
    Validity,
    covers_request,
    issue,
)
from maia.credentials.appointments import Given
from maia.credentials.statements import AuditHead
from maia.domain.access.audit import AuditRecord, record_from_bytes
from maia.domain.access.core import rule_name
from maia.domain.access.issuance import held_certificates, sample_resources
from maia.domain.access.policy_store import was_replaced
from maia.domain.access.register import AccessRegister, entry_of
from maia.domain.access.results import Ability, Activated, Page, RegisterEntry
from maia.domain.access.role_activation import activated_of
from maia.domain.access.unit_of_work import audit_head
from maia.domain.storage.store import Tables, Where
from maia.domain.storage.tables import AuditRow, MembershipRow, RightRow, active_memberships, valid_rights
from maia.events import SECOND, Instant
from maia.policy import Denial, Request
from maia.roles import possible_rights
from maia.types import VerifiedType


class AccessQuestions(AccessRegister):
    """The register and the audit of a domain."""

    def was_replaced(self, text: str, parents: Mapping[str, str]) -> bool:
        """Say whether this policy was in force once, and another is now."""
        with self._store.reading() as tables:
            return was_replaced(tables, text, parents)

    def rights_of(
        self, principal: Principal, *, after: str | None = None, limit: int = 100
    ) -> Page[RegisterEntry]:
        """Return every certificate of the register that speaks to `principal`, revoked ones too."""
        return self._entries((RightRow.c.subject == principal.key,), after, limit)

    def register(
        self, *, standing_at: Instant | None = None, after: str | None = None, limit: int = 100
    ) -> Page[RegisterEntry]:
        """Return the register in order of registration; only what is valid at a moment if one is given."""
        where = () if standing_at is None else valid_rights(standing_at)
        return self._entries(where, after, limit)

    def memberships_of(
        self, principal: Principal, now: Instant, *, after: str | None = None, limit: int = 100
    ) -> Page[Activated]:
        where = (MembershipRow.c.principal == principal.key, *active_memberships(now))
        return self._page(MembershipRow, *where, after=after, limit=limit, shape=activated_of)

    def is_of(self, principal: Principal, membership: bytes) -> bool:
        """Say whether a membership is, or was, this principal's."""
        with self._store.reading() as tables:
            row = tables.get(MembershipRow, membership)
            return row is not None and row.principal == principal.key

    def would_be_able(self, role: str, arguments: Sequence[Given], now: Instant) -> tuple[Ability, ...]:
        """Return what a member of a role would be able to do, as the kernel would decide it."""
        with self._store.reading() as tables:
            found = self._abilities(tables, role, arguments, now)
            policy = self._policies.in_force(tables)
            return tuple(replace(one, rule=rule_name(policy, one.rule)) for one in found)

    def audit(self, *, after: int = 0, limit: int = 100) -> Page[AuditRecord]:
        """Return the audit records that follow number `after`."""
        return self._page(
            AuditRow,
            after=str(max(0, after)),
            limit=limit,
            shape=lambda _, row: record_from_bytes(row.body, row.previous),
        )

    def audit_head(self) -> AuditHead:
        """Return how long the audit is and what its last record makes of all of them."""
        with self._store.reading() as tables:
            return audit_head(tables)

    def _entries(self, where: tuple[Where, ...], after: str | None, limit: int) -> Page[RegisterEntry]:
        with self._store.reading() as tables:
            policy = self._policies.in_force(tables)
            return self._page(
                RightRow,
                *where,
                after=after,
                limit=limit,
                shape=lambda _, row: replace(entry_of(row), rule=rule_name(policy, row.rule)),
            )

    def _abilities(
        self, tables: Tables, role: str, arguments: Sequence[Given], now: Instant
    ) -> Iterator[Ability]:
        # A key that no principal has: even a certificate that leaked would be of no use.
        seed = sha256(self._key.sign(SignedKind.REQUEST, b"what would a member be able to do")).digest()
        member = SigningKey.from_seed(seed).principal
        held, tester = held_certificates(tables, now), self._revocations(tables, now)
        types = tuple(self._registry.holding(tables, now).values())
        start = Instant(now - now % SECOND)
        validity = Validity(start, Instant(start + SECOND))
        for right in possible_rights(self._policy_in_force(tables), role, arguments, member, now):
            authority, privilege, rule = right.authority, right.grant.privilege, right.grant.id
            named = (privilege if authority is None else authority).attributes
            attributes = None if named is ALL_ATTRIBUTES else tuple(sorted(named))
            if authority is None:
                # Facts decide about values in the restriction, so the kernel cannot be asked.
                shown = f"{privilege.resource.kind.value} {privilege.resource.pattern}"
                for action in _in_order(privilege.actions):
                    yield Ability(rule, action, shown, attributes, None, None, right.restriction)
                continue
            certificate = AuthorisationCertificate(self.principal, member, False, authority, validity)
            pool = [*held, issue(certificate, self._key)]
            for request in _requests(types, authority, member):
                _, decision = self._decided(request, pool, now, tester)
                resource = request.resource
                shown = resource.path if isinstance(resource, TopicName) else resource.name
                if isinstance(decision, Denial):
                    yield Ability(rule, request.action, shown, attributes, None, decision.code)
                else:
                    yield Ability(rule, request.action, shown, attributes, decision.view, None)


def _requests(types: Iterable[VerifiedType], authority: Authority, member: Principal) -> Iterator[Request]:
    """Yield what can be asked for under an authority: each type that is known here, or one example."""
    for action in _in_order(authority.actions):
        if isinstance(authority.resources, TypePattern):
            for event_type in types:
                if covers_request(authority, action, event_type.name):
                    yield Request(member, action, event_type.name, event_type)
        elif authority.resources.owner is not None:
            for resource in list(sample_resources(authority.resources, authority.resources.owner))[:1]:
                yield Request(member, action, resource)


def _in_order(actions: Iterable[Action]) -> list[Action]:
    return sorted(actions, key=lambda one: one.value)
