"""Who holds which right, by which chain, until when, and what would a member of a role be able to do?

The register has every certificate that this domain issued or holds, and those
by which a holder passed a right on (dissertation 6.2). It finds the principals
that might be able to do something; the policy kernel alone decides whether
they are, from the same certificates that a broker would get. What a role is
granted the policy says, and the kernel decides what follows, with a certificate
that is made for the question and never leaves this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from maia.credentials import (
    ALL_ATTRIBUTES,
    Action,
    AuthorisationCertificate,
    Authority,
    Principal,
    SignedCertificate,
    SignedKind,
    SigningKey,
    TopicName,
    TypeName,
    TypePattern,
    Validity,
    VerifiedChain,
    certificate_from_bytes,
    covers_request,
    find_chains,
    issue,
    principal_from_bytes,
)
from maia.credentials.appointments import Given
from maia.credentials.authority import composed
from maia.credentials.statements import AuditHead
from maia.domain.access.audit import AuditRecord, record_from_bytes
from maia.domain.access.core import AccessCore, rule_name
from maia.domain.access.issuance import NAME, about, held_certificates, row_of, sample_resources
from maia.domain.access.memberships import activated_of
from maia.domain.access.policy_store import was_replaced
from maia.domain.access.results import (
    Ability,
    Activated,
    EntryKind,
    Holder,
    Page,
    RegisterEntry,
    cursor_bytes,
    page_limit,
)
from maia.domain.access.settings import check_room
from maia.domain.access.unit_of_work import UnitOfWork, audit_head
from maia.domain.storage.store import Tables, Where
from maia.domain.storage.tables import AuditRow, MembershipRow, RightRow, active_memberships, valid_rights
from maia.errors import BadInput, BrokenCredential
from maia.events import SECOND, AttributeUid, Instant
from maia.policy import Decision, Denial, Evidence, Facts, Permit, Request, decide, gather_evidence, shows
from maia.roles import possible_rights
from maia.types import VerifiedType
from maia.validity import Tester

_POOL_MAX: Final = 512
_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class WhoCan:
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
            question = WhoCan(action, known, attribute_of(known, attribute), at)
            tester = self._revocations(tables, at if now is None else now)
            return self._who_can(tables, question, tester, after, limit)

    def _who_can(
        self, tables: Tables, question: WhoCan, tester: Tester, after: str | None, limit: int
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
        question: WhoCan,
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
        passes_on = any(chain.may_delegate for chain in evidence.chains)
        if isinstance(decision, Permit):
            uid = question.attribute
            is_yes = uid is None or any(shows(window, uid) for window in decision.view.windows)
            return (
                Holder(principal, decision.view, decision.until, chains, may_pass_on=passes_on)
                if is_yes else None
            )  # fmt: skip
        if decision.code != "POLICY-CONDITION-NOT-MET":
            return None
        ends = [one.validity.not_after for one in evidence.chains if one.validity.not_after is not None]
        until = min(ends, default=None)
        return Holder(principal, None, until, chains, is_conditional=True, may_pass_on=passes_on)

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

    def _candidates(self, tables: Tables, question: WhoCan, after: bytes | None, limit: int) -> list[bytes]:
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
        count, most = work.tables.count(RightRow, by_issuer, is_delegated), self._settings.limits.rights_each
        check_room(count + 1, most, "one principal passes on at most {} rights")
        row = row_of(signed, EntryKind.DELEGATED, work)
        work.tables.put(row)
        return entry_of(row)

    def _check_delegation(self, work: UnitOfWork, signed: SignedCertificate) -> None:
        certificate = signed.certificate
        if not isinstance(certificate, AuthorisationCertificate):
            raise BrokenCredential(
                "CREDENTIAL-REGISTRATION", "only a certificate that passes a right on is registered"
            )
        self._cache.check(signed)
        end = certificate.validity.not_after
        if end is not None and end < work.now:
            raise BrokenCredential("CREDENTIAL-REGISTRATION", "the certificate has expired")
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
        raise BrokenCredential(
            "CREDENTIAL-REGISTRATION",
            "its issuer holds no right through this domain that may be passed on and covers any of it",
        )

    def _chains(
        self, pool: Sequence[SignedCertificate], certificate: AuthorisationCertificate, now: Instant
    ) -> Iterator[VerifiedChain]:
        """Yield the chains by which the issuer of a certificate has something of what it passes on."""
        owner = certificate.authority.resources.owner
        if owner is None:
            raise BrokenCredential(
                "CREDENTIAL-REGISTRATION",
                "a certificate that is registered names the owner of what it is about",
            )
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

    # ------------------------------------------------------------ what can be asked

    def was_replaced(self, text: str, parents: Mapping[str, str]) -> bool:
        """Return whether this policy was in force once, and another is now."""
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
        """Return whether a membership is, or was, this principal's."""
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
        raise BadInput(
            "INPUT-TYPE-NOT-REGISTERED", f"type `{event_type.name.name}` has no attribute `{name[:64]!r}`"
        )
    return event_type.vocabulary[name].uid


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
