"""Who gets which right in this domain, and what ends when something changes?

`AccessControl` is the access control service of one organisation (dissertation
6.1): policy, appointments and facts in; role memberships, certificates and
statements about them out. Each act is one transaction of the store and one
record of the audit, if it changes anything; what it returns is safe. Acts are
called one at a time. Whether the actor may do it is asked before, with
`authorised`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Principal,
    SignedCertificate,
    TypeName,
    TypePattern,
    Validity,
    certificate_from_bytes,
    covers_request,
)
from maia.credentials.appointments import (
    X509_WORD,
    AppointmentKind,
    Argument,
    Given,
    ParameterKind,
    SignedAppointment,
    VerifiedAppointment,
    Word,
    appointment_from_bytes,
    read_word,
)
from maia.credentials.authority import EVENT_ACTIONS
from maia.credentials.certificate import TestKind
from maia.credentials.statements import AuditHead
from maia.domain.access import unit_of_work as remembering
from maia.domain.access.attestations import AccessAttestations
from maia.domain.access.audit import LEDGER_HEAD, AuditRecord, keep_head
from maia.domain.access.cascade import end_dependents, end_memberships, mark_revoked, revoke_ids
from maia.domain.access.core import rule_name
from maia.domain.access.identities import AccessIdentities
from maia.domain.access.issuance import held_certificates, row_of
from maia.domain.access.memberships import StoreWorld, active_row, membership_from_bytes
from maia.domain.access.passed_on import check_passed_on
from maia.domain.access.policy_store import loaded_of, newest, revoke_ungranted
from maia.domain.access.register import AccessRegister
from maia.domain.access.results import (
    Activated,
    EntryKind,
    IssuedRight,
    LoadedPolicy,
    Page,
    RegisterEntry,
    Revoked,
    Wallet,
    Withheld,
    cursor_bytes,
    page_limit,
)
from maia.domain.access.settings import check_room
from maia.domain.access.statements import AccessStatements
from maia.domain.access.unit_of_work import UnitOfWork, shortened
from maia.domain.facts import store as facts_on_record
from maia.domain.facts.store import mark_unpublished
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import AppointmentRow, FactRow, MembershipRow, RightRow, valid_rights
from maia.errors import BadInput, BrokenCredential, Refusal
from maia.events import Instant
from maia.roles import (
    Policy,
    RoleMembership,
    activate,
    appointment_called,
    fact_called,
    rights,
    stated_arguments,
)
from maia.roles.policy import Declaration, ResourceKind, Tier, tier_of_certificate, tier_of_grant
from maia.sealing.groups.membership import VERSIONS_MAX
from maia.sealing.member.expected import SHOWN_MAX, ExpectedMember
from maia.types import SignedDefinition, VerifiedType
from maia.validity import Monitor

_NOT_CERTIFIED: Final = frozenset({"INPUT-UNKNOWN-SUBJECT", "CREDENTIAL-X509"})
_NO_PARENTS: Final[Mapping[str, str]] = {}
_OPEN: Final = (TestKind.CRL, TestKind.FOLLOWED_CRL)
"""Tests that a certificate passes at verifiers to which its revocation does not come."""
_TOLD_MAX: Final = 1024
"""Rights of which key servers are told when the domain starts."""


class AccessControl(AccessStatements, AccessRegister, AccessIdentities, AccessAttestations):
    """The access control service of the domain that holds `key`."""

    # ------------------------------------------------------------ types, certificates, policy

    def register_type(self, signed: SignedDefinition, *, actor: Principal, now: Instant) -> VerifiedType:
        """Verify and keep a version of an event type, so that policies can speak of it."""
        with self._begin(actor, now) as work:
            verified = self._registry.register(work, signed)
            work.record("type.register", type=verified.name.name, id=verified.id)
            return verified

    def types(self, now: Instant) -> Mapping[TypeName, VerifiedType]:
        with self._store.reading() as tables:
            return self._registry.holding(tables, now)

    def hold(self, certificates: Iterable[SignedCertificate], *, actor: Principal, now: Instant) -> int:
        """Keep certificates that lead from owners to this domain; return how many were new.

        What the domain's own key issued elsewhere is registered so, and can be revoked from then on.
        """
        with self._begin(actor, now) as work:
            shown = list(certificates)
            own = [one for one in shown if one.certificate.issuer == self.principal]
            unknown = [one for one in own if work.tables.get(RightRow, one.id) is None]
            check_tiers(work.tables, self._policies.in_force(work.tables), now, unknown)
            new = [one for one in shown if self._register_certificate(work, one)]
            rows = work.tables.find_in(RightRow, RightRow.c.id, (one.id for one in new))
            mark_revoked(work, rows, self._tester(work.tables))
            count = work.tables.count(RightRow, RightRow.c.kind == EntryKind.HELD.value)
            check_room(count, self._settings.limits.held, "a domain holds at most {} certificates")
            if new:
                work.record("hold", certificates=" ".join(one.id.hex()[:16] for one in new))
            return len(new)

    def held(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates that lead to this domain and have not expired."""
        with self._store.reading() as tables:
            return held_certificates(tables, now)

    def take_to_push(self, now: Instant) -> list[tuple[Principal, tuple[SignedCertificate, ...]]]:
        """Return the certificates that are new, each with its subject and behind those that lead to it."""
        ids, self.to_push = self.to_push, []
        found: list[tuple[Principal, tuple[SignedCertificate, ...]]] = []
        with self._store.reading() as tables:
            held = held_certificates(tables, now)
            for row in tables.find_in(RightRow, RightRow.c.id, ids):
                signed = certificate_from_bytes(row.certificate)
                said = signed.certificate
                if not isinstance(said.subject, Principal) or said.subject == self.principal:
                    continue
                chain: tuple[SignedCertificate, ...] = (signed,)
                if isinstance(said, AuthorisationCertificate):
                    with suppress(BrokenCredential):  # its subject may have the rest
                        chain = self._issuer.chain_to(signed, held, now)
                found.append((said.subject, chain))
        return found

    def take_to_tell(self, now: Instant, *, every: bool) -> list[ExpectedMember]:
        """Return who was newly given rights to read sealed types, or all, for the key servers of these.

        Each comes with all its rights to the type: one that was renewed has not begun anew.
        """
        ids, self.to_tell = self.to_tell, []
        with self._store.reading() as tables:
            counts = (
                RightRow.c.kind == EntryKind.ISSUED.value,
                RightRow.c.subject != b"",
                *valid_rights(now),
            )
            if every:
                rows = tables.find(
                    RightRow, *counts, limit=_TOLD_MAX, order=RightRow.c.number, descending=True
                )
            else:
                rows = tables.find_in(RightRow, RightRow.c.id, ids)
            sealed = _sealed(self._registry.holding(tables, now).values())
            held, found = held_certificates(tables, now), list[ExpectedMember]()
            for subject in {row.subject: None for row in rows if row.subject} if sealed else ():
                to_it = RightRow.c.subject == subject
                given = tables.find(RightRow, *counts, to_it, limit=_TOLD_MAX, order=RightRow.c.number)
                certificates = [certificate_from_bytes(row.certificate) for row in given]
                for versions in sealed:
                    pool = self._leading_to(certificates, versions, held, now)
                    if pool:
                        found.append(ExpectedMember(Principal(subject), versions, pool))
            return found

    def _leading_to(
        self,
        given: Iterable[SignedCertificate],
        versions: tuple[VerifiedType, ...],
        held: Sequence[SignedCertificate],
        now: Instant,
    ) -> tuple[SignedCertificate, ...]:
        """Return the certificates among these that let their subject read a type, and what leads to them."""
        found: dict[bytes, SignedCertificate] = {}
        for signed in given:
            said = signed.certificate
            if isinstance(said, AuthorisationCertificate) and any(
                covers_request(said.authority, Action.SUBSCRIBE, one.name) for one in versions
            ):
                with suppress(BrokenCredential):  # it counts for nothing before what leads to us is here
                    found |= {one.id: one for one in self._issuer.chain_to(signed, held, now)}
        return tuple(found.values())[-SHOWN_MAX:]

    def shown_statements(self, now: Instant) -> Monitor:
        """Return what is known of the validity of certificates that lead to this domain, and of its own."""
        with self._store.reading() as tables:
            known = self._validity(tables).copy()
            for one in self._publisher.current(tables, now):
                known.receive(one, now)
            return known

    def load_policy(
        self,
        text: str,
        *,
        actor: Principal,
        now: Instant,
        parents: Mapping[str, str] | None = None,
        owners: Mapping[str, str] | None = None,
    ) -> LoadedPolicy:
        """Put a policy in force, or refuse it with all its errors and keep the last good one.

        `parents` are the texts of the role sets that the policy imports, each
        after those that it imports itself. `owners` are the keys that the actor knows by names in the
        text. Memberships and rights that the new
        policy does not grant end. The one that is in force already stays as
        it is, with its version.
        """
        with self._begin(actor, now) as work:
            types = self._policies.types(work, owners or {})
            same = self._policies.unchanged(work, text, parents or _NO_PARENTS, types)
            if same is not None:
                return replace(loaded_of(same), is_unchanged=True)
            before = self._policies.in_force(work.tables)
            policy, row = self._policies.put_in_force(work, text, parents or _NO_PARENTS, types)
            check_tiers(work.tables, policy, now)
            check_passed_on(
                policy,
                self._registry.holding(work.tables, now).values(),
                held_certificates(work.tables, now),
                now,
                cache=self._cache,
                constitutions=self._settings.constitutions,
            )
            revoke_ungranted(work, policy, before=before)
            self.has_new_policy = True
            work.record("policy.load", version=row.version, digest=row.digest, **work.revoked())
            return loaded_of(row, self._state_revoked_and_facts(work))

    def policy(self) -> LoadedPolicy | None:
        """Return the policy in force; None: there is none that can be read, and nothing is granted."""
        with self._store.reading() as tables:
            row = newest(tables)
            return None if row is None or self._policies.in_force(tables) is None else loaded_of(row)

    def types_of_members(self) -> frozenset[tuple[Action, TypePattern]]:
        """Return which types the policy in force lets members publish, or subscribe to."""
        with self._store.reading() as tables:
            policy = self._policies.in_force(tables)
        if policy is None:
            return frozenset()
        granted = [one.privilege for some in policy.grants.values() for one in some]
        return frozenset(
            (action, TypePattern(policy.owner(one.resource.owner), one.resource.pattern, None))
            for one in granted
            if one.resource.kind is ResourceKind.TYPE
            for action in one.actions & EVENT_ACTIONS
        )

    # ------------------------------------------------------------ appointments and facts

    def appoint(
        self,
        holder: Principal | Word,
        name: str,
        parameters: Sequence[Given],
        validity: Validity,
        *,
        actor: Principal,
        now: Instant,
    ) -> SignedAppointment:
        """Sign an appointment certificate with the domain's key and register it.

        Where a policy is in force, it declares the appointment, by this domain and with these parameters.
        A holder, or an argument, that is called `x509:NAME` is the subject with that certificate.
        """
        with self._begin(actor, now) as work:
            policy = self._policies.in_force(work.tables)
            declared = None if policy is None else appointment_called(policy, name)
            if isinstance(holder, Word):
                holder = self._certified_as(work.tables, holder.text, now)
            stated = self._arguments(work.tables, declared, parameters, now)
            signed = self._roles.appoint(work, holder, name, stated, validity)
            work.record("appoint", name=name, holder=holder, id=signed.id)
            return signed

    def revoke_appointment(
        self, appointment: bytes, reason: str, *, actor: Principal, now: Instant
    ) -> Revoked:
        """Revoke an appointment of this domain, and all that depends on it."""
        with self._begin(actor, now) as work:
            if work.tables.get(AppointmentRow, appointment) is None:
                raise BadInput("INPUT-UNKNOWN-CERTIFICATE", "no appointment has this id")
            revoke_ids(work, [appointment], self._reason(reason), self.principal)
            work.record("appointment.revoke", id=appointment, reason=reason, **work.revoked())
            return self._state_revoked(work)

    def appointments(
        self, *, holder: Principal | None = None, after: str | None = None, limit: int = 100
    ) -> Page[SignedAppointment]:
        """Return appointments that this domain gave and has not revoked."""
        where = [
            AppointmentRow.c.kind == AppointmentKind.APPOINTMENT.value,
            AppointmentRow.c.issuer == self.principal.key,
            AppointmentRow.c.revoked_at.is_(None),
        ]
        if holder is not None:
            where.append(AppointmentRow.c.holder == holder.key)
        return self._page(
            AppointmentRow,
            *where,
            after=after,
            limit=limit,
            shape=lambda _, row: appointment_from_bytes(row.certificate),
        )

    def assert_fact(self, name: str, arguments: Sequence[Given], *, actor: Principal, now: Instant) -> bool:
        """Assert a fact; return whether it is new.

        Where a policy is in force, it declares the fact, with these parameters.
        """
        with self._begin(actor, now) as work:
            policy = self._policies.in_force(work.tables)
            declared = None if policy is None else fact_called(policy, name)
            row = self._arguments(work.tables, declared, arguments, now)
            is_news = facts_on_record.assert_fact(work.tables, name, row, self._settings.limits, now)
            if is_news:
                self.has_news |= mark_unpublished(work.tables, policy, name)
                work.record("fact.assert", fact=_called(name, row))
            return is_news

    def retract_fact(
        self, name: str, arguments: Sequence[Given], *, actor: Principal, now: Instant
    ) -> Revoked:
        """Retract a fact; memberships and rights that watch it end.

        A fact of an earlier policy can be retracted still. Retracting one that does not hold is no news.
        """
        with self._begin(actor, now) as work:
            policy = self._policies.in_force(work.tables)
            problem: BadInput | None = None
            try:
                declared = None if policy is None else fact_called(policy, name)
                row = self._arguments(work.tables, declared, arguments, None)
            except BadInput as found:
                problem, row = found, self._arguments(work.tables, None, arguments, None)
            lost = facts_on_record.retract_fact(work.tables, name, row)
            if not lost:
                if problem is not None:
                    raise problem
                return Revoked(is_news=False)
            end_dependents(work, lost, f"{name} holds no more")
            work.record("fact.retract", fact=_called(name, row), **work.revoked())
            return self._state_revoked_and_facts(work)

    def replace_facts(
        self, name: str, rows: Iterable[Sequence[Given]], *, actor: Principal, now: Instant
    ) -> Revoked:
        """Make exactly these rows hold, as a source says; what watches one that is gone ends.

        Where a policy is in force, it declares the fact, unless no row is left of it. A row that names an
        X.509 subject which is not registered, or whose certificate does not hold now, is left out.
        """
        with self._begin(actor, now) as work:
            policy, given = self._policies.in_force(work.tables), list(rows)
            declared = None if policy is None or not given else fact_called(policy, name)
            stated = [row for one in given if (row := self._known(work.tables, declared, one, now))]
            new, lost = facts_on_record.replace_facts(work.tables, name, stated, self._settings.limits, now)
            if not new and not lost:
                return Revoked()
            end_dependents(work, lost, f"{name} holds no more")
            work.record("facts.replace", fact=name, new=new, gone=len(lost), **work.revoked())
            return self._state_revoked_and_facts(work)

    def facts(self, name: str, *, after: str | None = None, limit: int = 100) -> Page[tuple[Argument, ...]]:
        page_limit(limit, self._settings.limits)
        with self._store.reading() as tables:
            rows = tables.find(
                FactRow,
                FactRow.c.name == name,
                limit=limit,
                order=FactRow.c.digest,
                after=cursor_bytes(after),
            )
            found = tuple(map(facts_on_record.arguments_of, rows))
            return Page(found, rows[-1].digest.hex() if len(rows) == limit else None)

    # ------------------------------------------------------------ roles and rights

    def activate(
        self,
        principal: Principal,
        role: str,
        arguments: Sequence[Given | None] | None,
        shown: Iterable[SignedAppointment],
        *,
        actor: Principal,
        now: Instant,
        address: str | None = None,
    ) -> tuple[Activated, ...]:
        """Make `principal` a member of a role in every way that its rules allow; refuse if there is none.

        Without arguments: for all arguments that some rule allows.
        """
        with self._begin(actor, now) as work:
            verified = self._roles.verified(shown)
            world = StoreWorld(work.tables, self._tester(work.tables), now, verified)
            policy = self._policy_in_force(work.tables)
            found = activate(policy, world, principal, role, arguments, now, address=address)
            if not found:
                raise Refusal("REFUSED-ACTIVATION", f"no rule makes you a member of `{role}` now")
            taken = [self._roles.register(work, one, verified) for one in found]
            # A member that asks for what it has leaves no record, or any member could fill the disk.
            if work.given:
                work.record("activate", role=role, principal=principal, memberships=_new(taken))
            return tuple(activated for activated, _ in taken)

    def deactivate(self, membership: bytes, reason: str, *, actor: Principal, now: Instant) -> Revoked:
        """End a membership, and all that depends on it."""
        with self._begin(actor, now) as work:
            if work.tables.get(MembershipRow, membership) is None:
                raise BadInput("INPUT-UNKNOWN-MEMBERSHIP", "no membership has this id")
            end_memberships(work, [membership], self._reason(reason))
            work.record("deactivate", id=membership, reason=reason, **work.revoked())
            return self._state_revoked(work)

    def authorise(
        self, principal: Principal, membership: bytes, *, actor: Principal, now: Instant
    ) -> tuple[IssuedRight, ...]:
        """Issue all that the authorisation rules grant to this member, with the chains to the owners."""
        with self._begin(actor, now) as work:
            row = active_row(work.tables, membership, now)
            if row is None or row.principal != principal.key:
                raise Refusal("REFUSED-NOT-THEIR-MEMBERSHIP", "you are no member by this id now")
            issued, withheld = self._issue(work, membership_from_bytes(row.membership), ())
            if withheld and not issued:
                one = withheld[0]
                raise Refusal(
                    "REFUSED-NOT-THEIR-MEMBERSHIP",
                    f"the domain cannot pass on `{one.right}`: {one.why} [{one.code}]",
                )
            if work.given:
                work.record("authorise", membership=membership, issued=shortened(one.id for one in issued))
            return tuple(issued)

    def login(
        self,
        principal: Principal,
        shown: Iterable[SignedAppointment],
        *,
        actor: Principal,
        now: Instant,
        address: str | None = None,
    ) -> Wallet:
        """Activate every role that `principal` can have from `address`, and issue every right of them."""
        with self._begin(actor, now) as work:
            verified = self._roles.verified(shown)
            policy = self._policy_in_force(work.tables)
            world = StoreWorld(work.tables, self._tester(work.tables), now, verified)
            taken: list[tuple[Activated, bool]] = []
            # Each role is registered before the next one is tried, so that none is activated twice.
            for role in policy.roles_in_order:
                for found in activate(policy, world, principal, role, None, now, address=address):
                    taken.append(self._roles.register(work, found, verified))
            memberships = {one.membership.id: one for one, _ in taken}
            issued: list[IssuedRight] = []
            withheld: list[Withheld] = []
            for one in memberships.values():
                some, others = self._issue(work, one.membership, verified)
                issued += some
                withheld += others
            if work.given:
                given = {"memberships": _new(taken), "issued": shortened(one.id for one in issued)}
                work.record("login", principal=principal, **given)
            return self._wallet(work, principal, tuple(memberships.values()), issued, withheld)

    def register_delegation(
        self, signed: SignedCertificate, *, actor: Principal, now: Instant
    ) -> RegisterEntry:
        """Register a certificate by which a holder passed on a right through this domain; refuse others.

        What the domain's own key signed elsewhere is registered too.
        """
        with self._begin(actor, now) as work:
            if signed.certificate.issuer == self.principal:
                self._register_certificate(work, signed)
            entry = self._register_delegation(work, signed)
            work.record("delegation.register", id=signed.id)
            return entry

    def revoke(
        self,
        ids: Iterable[bytes],
        reason: str,
        *,
        actor: Principal,
        now: Instant,
        certificates: Iterable[SignedCertificate] = (),
    ) -> Revoked:
        """Revoke certificates of this domain, of any kind, and all that depends on them.

        `certificates` need not be in the register, where the domain's own key signed them.
        """
        with self._begin(actor, now) as work:
            wanted = list(ids)
            for signed in certificates:
                if signed.certificate.issuer == self.principal:
                    self._register_certificate(work, signed)
                elif work.tables.get(RightRow, signed.id) is None:
                    raise Refusal(
                        "REFUSED-NOT-OURS",
                        f"`{signed.id.hex()[:16]}…` was issued by another: ask its issuer to revoke it",
                    )
                wanted.append(signed.id)
            revoke_ids(work, wanted, self._reason(reason), self.principal)
            named = " ".join(one.hex()[:16] for one in wanted)
            work.record("revoke", ("ids", named), reason=reason, **work.revoked())
            closes_at = self._publisher.last_moment(work.tables, now)
            # Certificates that a verifier without the statement goes on accepting, and until when.
            rows = [row for row in (work.tables.get(RightRow, one) for one in work.ids) if row is not None]
            periods = [(row.id, certificate_from_bytes(row.certificate).certificate.validity) for row in rows]
            still_open = tuple(
                (one, validity.not_after)
                for one, validity in periods
                if all(test.kind in _OPEN for test in validity.tests)
            )
            return replace(self._state_revoked(work), still_open=still_open, closes_at=closes_at)

    def state_ledger_head(
        self, head: AuditHead, *, actor: Principal, now: Instant
    ) -> tuple[AuditRecord, str | None]:
        """Put on record how far a broker's ledger has come; say how that contradicts what it stated before.

        The audit is witnessed by other domains, and the ledger with it. A contradiction is on record too.
        """
        with self._begin(actor, now) as work:
            before = keep_head(work.tables, actor, head, int(now), now)
            problem = None
            if before is not None and before.length == head.length:
                problem = f"the broker once stated another head of {head.length} entries"
            elif before is not None:
                problem = f"the ledger had {before.length} entries, and now has {head.length}"
            contradiction = {} if problem is None else {"problem": problem}
            return work.record(LEDGER_HEAD, entries=head.length, head=head.digest, **contradiction), problem

    # ------------------------------------------------------------ for the HTTP interface

    def once(
        self, key: str, request: bytes, act: Callable[[], bytes], *, actor: Principal, now: Instant
    ) -> bytes:
        """Do `act` and remember its answer under `key`, or return the answer that is remembered.

        The same transaction keeps both. The same key with another `request`
        (a digest of it) is refused.
        """
        with self._begin(actor, now) as work:
            return remembering.answered_once(
                work.tables, key, request, act, actor=actor, now=now, settings=self._settings
            )

    # ------------------------------------------------------------ the parts

    def _register_certificate(self, work: UnitOfWork, signed: SignedCertificate) -> bool:
        """Register what others signed for this domain, or it signed elsewhere; return whether that is new."""
        if work.tables.get(RightRow, signed.id) is not None:
            return False
        self._cache.check(signed)
        own = signed.certificate.issuer == self.principal
        work.tables.put(row_of(signed, EntryKind.ISSUED if own else EntryKind.HELD, work))
        return True

    def _issue(
        self, work: UnitOfWork, membership: RoleMembership, shown: Sequence[VerifiedAppointment]
    ) -> tuple[list[IssuedRight], list[Withheld]]:
        policy = self._policy_in_force(work.tables)
        tester = self._tester(work.tables)
        world = StoreWorld(work.tables, tester, work.now, shown)
        granted = rights(policy, membership, world, work.now)
        for right in granted:
            self._roles.keep_foreign_certificates(work, right.depends_on, shown)
        if not granted:
            return [], []
        issued, withheld = self._issuer.issue_all(work, membership, granted, tester)
        return (
            [replace(one, rule=rule_name(policy, one.rule)) for one in issued],
            [replace(one, rule=rule_name(policy, one.rule)) for one in withheld],
        )

    def _wallet(
        self,
        work: UnitOfWork,
        principal: Principal,
        memberships: tuple[Activated, ...],
        issued: Sequence[IssuedRight],
        withheld: Sequence[Withheld],
    ) -> Wallet:
        chains = {one.id: one for right in issued for one in right.chain}
        ends = [right.until for right in issued] + [one.membership.until for one in memberships]
        first = min((end for end in ends if end is not None), default=None)
        # Half of a right's time must be over before it is renewed, and some must be left to do it in.
        renew = None if first is None else Instant(work.now + (first - work.now) * 2 // 3)
        return Wallet(
            principal,
            memberships,
            tuple(issued),
            tuple(chains.values()),
            self._publisher.current(work.tables, work.now),
            renew,
            tuple(withheld),
            self._types_of(work, [one.certificate for one in issued], chains.values()),
        )

    def _types_of(
        self,
        work: UnitOfWork,
        rights: Iterable[SignedCertificate],
        chains: Iterable[SignedCertificate],
    ) -> tuple[SignedDefinition, ...]:
        """Return the versions of the types that rights show, in the order of their registration.

        What a right is passed on from may convert events, too.
        """
        given = [one.certificate for one in rights]
        said = [one.authority for one in given if isinstance(one, AuthorisationCertificate)]
        steps = [
            step
            for one in (*given, *(one.certificate for one in chains))
            if isinstance(one, AuthorisationCertificate)
            for step in one.authority.transformations
        ]
        results = {(one.result.owner, one.result.name) for one in steps if one.result}
        patterns = [one.resources for one in said if isinstance(one.resources, TypePattern)]
        known = self._registry.holding(work.tables, work.now) if patterns else {}
        return tuple(
            one.signed
            for name, one in known.items()
            if (name.owner, name.name) in results
            or any(each.owner == name.owner and each.name.matches(name.name) for each in patterns)
        )

    def _known(
        self, tables: Tables, declared: Declaration | None, given: Sequence[Given], now: Instant
    ) -> tuple[Argument, ...] | None:
        try:
            return self._arguments(tables, declared, given, now)
        except (BadInput, BrokenCredential) as problem:
            if problem.code not in _NOT_CERTIFIED:
                raise
            return None

    def _arguments(
        self, tables: Tables, declared: Declaration | None, given: Sequence[Given], now: Instant | None
    ) -> tuple[Argument, ...]:
        """Return arguments as they were declared; without a policy, by their form.

        `now` is when the certificate of a subject that is called `x509:NAME` has to hold; None for never.
        """
        kinds = {} if declared is None else dict(enumerate(one.kind for one in declared.parameters))
        named = [
            self._certified_as(tables, one.text, now)
            if isinstance(one, Word)
            and one.text.startswith(X509_WORD)
            and kinds.get(place, ParameterKind.PRINCIPAL) is ParameterKind.PRINCIPAL
            else one
            for place, one in enumerate(given)
        ]
        if declared is not None:
            return stated_arguments(declared, named)
        return tuple(read_word(one, None) if isinstance(one, Word) else one for one in named)

    def _reason(self, reason: str) -> str:
        return reason[: self._settings.limits.reason]


def _new(taken: Sequence[tuple[Activated, bool]]) -> str:
    return " ".join(one.membership.id.hex()[:16] for one, is_new in taken if is_new)


def _called(name: str, arguments: Sequence[Argument]) -> str:
    return f"{name}({', '.join(str(argument) for argument in arguments)})"


# ------------------------------------------------------------ sub-domains or brokers, never both

# The policy in force says what the server itself issues. What was signed by
# hand with the domain's key, and registered here, counts as well.


_SIGNED_BY_HAND_MAX: Final = 1 << 14


def check_tiers(
    tables: Tables, policy: Policy | None, now: Instant, new: Iterable[SignedCertificate] = ()
) -> None:
    """Refuse certificates of the domain, or a policy, that do not go with what it holds already."""
    found: dict[Tier, str] = {}
    if policy is not None:
        for grant in (one for some in policy.grants.values() for one in some):
            tier = tier_of_grant(grant, policy.domain)
            if tier is not None:
                found.setdefault(tier, f"the grant to `{grant.role}` in {grant.place}")
    where = (RightRow.c.kind == EntryKind.ISSUED.value, RightRow.c.membership == b"", *valid_rights(now))
    rows = tables.find(RightRow, *where, limit=_SIGNED_BY_HAND_MAX, order=RightRow.c.number)
    for signed in (*(certificate_from_bytes(row.certificate) for row in rows), *new):
        tier = tier_of_certificate(signed.certificate)
        if tier is not None:
            found.setdefault(tier, f"certificate {signed.id.hex()[:16]}…")
    if len(found) > 1:
        one, other = (f"{tier.value} by {why}" for tier, why in found.items())
        raise Refusal(
            "REFUSED-TIERS",
            f"a domain holds sub-domains or brokers, never both; it would hold {one}, and {other}",
        )


def _sealed(known: Iterable[VerifiedType]) -> list[tuple[VerifiedType, ...]]:
    """Return the newest versions of each type whose newest one is sealed, oldest first."""
    by_type: dict[bytes, list[VerifiedType]] = {}
    for one in known:
        by_type.setdefault(one.type_id, []).append(one)
    return [tuple(some[-VERSIONS_MAX:]) for some in by_type.values() if some[-1].sealing is not None]
