"""Who holds which right, by which chain, until when?

The register has every certificate that this domain issued or holds, and those
by which a holder passed a right on (dissertation 6.2). It finds the principals
that might be able to do something; the policy kernel alone decides whether
they are, from the same certificates that a broker would get.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    TypeName,
    VerifiedChain,
    certificate_from_bytes,
    find_chains,
    principal_from_bytes,
)
from maia.credentials.authority import composed
from maia.domain.access.core import AccessCore
from maia.domain.access.issuance import NAME, about, held_certificates, row_of, sample_resources
from maia.domain.access.refusals import BadRegistration, ServiceFull, UnknownType
from maia.domain.access.results import EntryKind, Holder, Page, RegisterEntry, cursor_bytes, page_limit
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import RightRow, valid_rights
from maia.errors import BrokenCredential
from maia.events import AttributeUid, Instant
from maia.policy import (
    ConditionNotMet,
    Decision,
    Evidence,
    Facts,
    Permit,
    Request,
    decide,
    gather_evidence,
    shows,
)
from maia.types import VerifiedType
from maia.validity import Tester

_POOL_MAX: Final = 512
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class Question:
    """Who can do `action` with a type at a moment, reading one attribute if one is named?"""

    action: Action
    event_type: VerifiedType
    attribute: AttributeUid | None
    at: Instant


class AccessRegister(AccessCore):
    """The register of a domain."""

    # ------------------------------------------------------------ who can?

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
        revoked `now` (or at that moment, if it is not given). Rights count as
        valid while the issuers of their validity statements go on stating so.
        They come in the order of their keys.
        """
        with self._store.reading() as tables:
            known = self._registry.named(tables, event_type, at)
            question = Question(action, known, attribute_of(known, attribute), at)
            tester = self._revocations(tables, at if now is None else now)
            return self._who_can(tables, question, tester, after, limit)

    def _who_can(
        self, tables: Tables, question: Question, tester: Tester, after: str | None, limit: int
    ) -> Page[Holder]:
        looked_at_max = self._settings.limits.looked_at
        page_limit(limit, self._settings.limits)
        shared = self._shared(tables, question.at)
        last = cursor_bytes(after)
        found: list[Holder] = []
        looked_at = 0
        while looked_at < looked_at_max:
            most = min(limit, _AT_ONCE, looked_at_max - looked_at)
            candidates = self._candidates(tables, question, last, limit=most)
            for candidate in candidates:
                last, looked_at = candidate, looked_at + 1
                holder = self._holder(tables, question, principal_from_bytes(candidate), shared, tester)
                if holder is not None:
                    found.append(holder)
                if len(found) == limit:
                    return Page(tuple(found), last.hex())
            if not candidates:
                return Page(tuple(found))
        return Page(tuple(found), None if last is None else last.hex())

    def _holder(
        self,
        tables: Tables,
        question: Question,
        principal: Principal,
        shared: Sequence[SignedCertificate],
        tester: Tester,
    ) -> Holder | None:
        """Return what the kernel grants one principal, or None."""
        request = Request(principal, question.action, question.event_type.name, question.event_type)
        pool = self._pool_of(tables, principal, question.at, shared)
        evidence, decision = self._decided(request, pool, question.at, tester)
        # A decision answers the question with a yes, or with a yes under a condition.
        chains = tuple(chain.certificates for chain in evidence.chains if chain.certificates)
        if isinstance(decision, Permit):
            uid = question.attribute
            is_yes = uid is None or any(shows(window, uid) for window in decision.view.windows)
            return Holder(principal, decision.view, decision.until, chains) if is_yes else None
        if decision.kind is not ConditionNotMet:
            return None
        ends = [one.validity.not_after for one in evidence.chains if one.validity.not_after is not None]
        return Holder(principal, None, min(ends, default=None), chains, is_conditional=True)

    def _decided(
        self, request: Request, pool: Sequence[SignedCertificate], at: Instant, tester: Tester
    ) -> tuple[Evidence, Decision]:
        """Ask the kernel; also return the chains that it decides by."""
        known = self._settings.constitutions
        evidence = gather_evidence(
            request, pool, at=at, cache=self._cache, constitutions=known, standing=tester
        )
        return evidence, decide(request, evidence, Facts(), at)

    def _pool_of(
        self, tables: Tables, principal: Principal, at: Instant, shared: Sequence[SignedCertificate]
    ) -> list[SignedCertificate]:
        """Return every certificate on record that can be part of a chain to `principal`."""
        pool = {signed.id: signed for signed in shared}
        known, frontier = {self.principal.key}, {principal.key}
        while frontier and len(pool) < _POOL_MAX:
            known |= frontier
            to_these = RightRow.c.subject.in_(sorted(frontier))
            rows = tables.find(
                RightRow, to_these, *valid_rights(at), limit=_POOL_MAX, order=RightRow.c.number
            )
            found = [certificate_from_bytes(row.certificate) for row in rows]
            pool |= {signed.id: signed for signed in found}
            frontier = {signed.certificate.issuer.key for signed in found} - known
        return list(pool.values())[:_POOL_MAX]

    def _shared(self, tables: Tables, at: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates that may be part of any principal's chain: to the domain, and to names."""
        to_names = RightRow.c.subject == b""
        rows = tables.find(RightRow, to_names, *valid_rights(at), limit=_AT_ONCE, order=RightRow.c.number)
        return (*held_certificates(tables, at), *(certificate_from_bytes(row.certificate) for row in rows))

    def _candidates(self, tables: Tables, question: Question, after: bytes | None, limit: int) -> list[bytes]:
        """Return the next principals that might be able to, in the order of their keys."""
        groups, found = [about(question.event_type.name), ""], set[bytes]()
        valid, to_names = valid_rights(question.at), RightRow.c.subject == b""
        if tables.count(RightRow, *valid, RightRow.c.about.in_(groups), to_names):
            groups.append(NAME)
        for one in groups:
            # An empty subject means a name or a threshold, and comes after no key.
            where = (*valid, RightRow.c.about == one)
            found |= set(tables.distinct(RightRow.c.subject, *where, limit=limit, after=after or b""))
        owner = question.event_type.name.owner
        if isinstance(owner, Principal) and (after is None or owner.key > after):
            found.add(owner.key)
        return sorted(found)[:limit]

    # ------------------------------------------------------------ what was passed on

    def _register_delegation(self, work: UnitOfWork, signed: SignedCertificate) -> RegisterEntry:
        """Register a certificate by which a holder passed on a right that leads through this domain."""
        known = work.tables.get(RightRow, signed.id)
        if known is not None:
            return entry_of(known)
        self._check_delegation(work, signed)
        by_issuer = RightRow.c.issuer == signed.certificate.issuer.key
        is_delegated = RightRow.c.kind == EntryKind.DELEGATED.value
        if work.tables.count(RightRow, by_issuer, is_delegated) >= self._settings.limits.rights_each:
            raise ServiceFull(f"one principal passes on at most {self._settings.limits.rights_each} rights")
        row = row_of(signed, EntryKind.DELEGATED, work)
        work.tables.put(row)
        return entry_of(row)

    def _check_delegation(self, work: UnitOfWork, signed: SignedCertificate) -> None:
        certificate = signed.certificate
        if not isinstance(certificate, AuthorisationCertificate):
            raise BadRegistration("only a certificate that passes a right on is registered")
        self._cache.check(signed)
        end = certificate.validity.not_after
        if end is not None and end < work.now:
            raise BadRegistration("the certificate has expired")
        shared = self._shared(work.tables, work.now)
        pool = self._pool_of(work.tables, certificate.issuer, work.now, shared)
        tester = self._tester(work.tables)
        good = [one for one in pool if tester.check(one, work.now) is None]
        for chain in self._chains(good, certificate, work.now):
            leads_here = chain.root == self.principal or any(
                signed.certificate.issuer == self.principal for signed in chain.certificates
            )
            if (
                leads_here
                and chain.may_delegate
                and composed(chain.authority, certificate.authority) is not None
            ):
                return
        raise BadRegistration(
            "its issuer holds no right through this domain that may be passed on and covers any of it"
        )

    def _chains(
        self, pool: Sequence[SignedCertificate], certificate: AuthorisationCertificate, now: Instant
    ) -> Iterator[VerifiedChain]:
        """Yield the chains by which the issuer of a certificate has something of what it passes on."""
        owner = certificate.authority.resources.owner
        if owner is None:
            raise BadRegistration("a certificate that is registered names the owner of what it is about")
        for resource in sample_resources(certificate.authority.resources, owner):
            for action in sorted(certificate.authority.actions, key=lambda one: one.value):
                try:
                    yield from find_chains(
                        pool,
                        root=owner,
                        subject=certificate.issuer,
                        action=action,
                        resource=resource,
                        at=now,
                        cache=self._cache,
                        # One that leads through this domain counts, whatever another one grants besides.
                        doubtful=frozenset(signed.id for signed in pool),
                        constitutions=self._settings.constitutions,
                    )
                except BrokenCredential:
                    continue


def entry_of(row: RightRow) -> RegisterEntry:
    """Return a row of the register as an answer."""
    return RegisterEntry(
        EntryKind(row.kind),
        certificate_from_bytes(row.certificate),
        row.membership or None,
        row.rule,
        Instant(row.registered_at),
        None if row.revoked_at is None else Instant(row.revoked_at),
        row.reason,
    )


def attribute_of(event_type: VerifiedType, name: str | None) -> AttributeUid | None:
    """Return the uid of the attribute with a name; None without one."""
    if name is None:
        return None
    if name not in event_type.vocabulary:
        raise UnknownType(f"type `{event_type.name.name}` has no attribute `{name[:64]!r}`")
    return event_type.vocabulary[name].uid
