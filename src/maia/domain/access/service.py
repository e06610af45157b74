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
from dataclasses import replace
from typing import Final

from maia.credentials import Principal, SignedCertificate, TypeName, Validity, certificate_from_bytes
from maia.credentials.appointments import (
    AppointmentKind,
    SignedAppointment,
    VerifiedAppointment,
    appointment_from_bytes,
)
from maia.credentials.arguments import Argument, Given, Word, read_word
from maia.credentials.validity.online_tests import TestKind
from maia.domain.access import unit_of_work as remembering
from maia.domain.access.cascade import end_memberships, lose, revoke_ids
from maia.domain.access.issuance import held_certificates, row_of
from maia.domain.access.memberships import StoreWorld, membership_from_bytes
from maia.domain.access.policy_store import let_go_of_what_is_not_granted, loaded_of, newest
from maia.domain.access.queries import AccessQuestions
from maia.domain.access.refusals import (
    ActivationRefused,
    NotOurs,
    NotTheirMembership,
    ServiceFull,
    UnknownCertificate,
    UnknownMembership,
)
from maia.domain.access.results import (
    Activated,
    EntryKind,
    Issued,
    LoadedPolicy,
    Page,
    RegisterEntry,
    Revoked,
    Wallet,
    Withheld,
    cursor_bytes,
    cursor_number,
    page_limit,
)
from maia.domain.access.role_activation import active_row
from maia.domain.access.statements import AccessStatements
from maia.domain.access.tiers import check_tiers
from maia.domain.access.unit_of_work import UnitOfWork
from maia.domain.facts import store as facts_on_record
from maia.domain.facts.published import want_said
from maia.domain.storage.tables import APPOINTMENTS, FACTS, MEMBERSHIPS, RIGHTS
from maia.errors import BadInput
from maia.events import Instant
from maia.roles import (
    AppointmentDeclaration,
    FactDeclaration,
    RoleMembership,
    activate,
    appointment_called,
    fact_called,
    rights,
    stated_arguments,
)
from maia.types import SignedDefinition, VerifiedType

__all__ = ["AccessControl"]

_NO_PARENTS: Final[Mapping[str, str]] = {}


class AccessControl(AccessStatements, AccessQuestions):
    """The access control service of the domain that holds `key`."""

    # ------------------------------------------------------------ what the policy stands on

    def register_type(self, signed: SignedDefinition, *, actor: Principal, now: Instant) -> VerifiedType:
        """Verify and keep a version of an event type, so that policies can speak of it."""
        with self._turn(actor, now) as turn:
            verified = self._registry.register(turn, signed)
            turn.record("type.register", ("type", verified.name.name), ("id", verified.id.hex()))
            return verified

    def types(self, now: Instant) -> Mapping[TypeName, VerifiedType]:
        """Return the versions of types that hold now."""
        with self._looking() as tables:
            return self._registry.holding(tables, now)

    def hold(self, certificates: Iterable[SignedCertificate], *, actor: Principal, now: Instant) -> int:
        """Keep certificates that lead from owners to this domain; return how many were new.

        What the domain's own key issued elsewhere is registered so, and can be revoked from then on.
        """
        with self._turn(actor, now) as turn:
            shown = list(certificates)
            own = [one for one in shown if one.certificate.issuer == self.principal]
            unknown = [one for one in own if turn.tables.get(RIGHTS, one.id) is None]
            check_tiers(turn.tables, self._shelf.in_force(turn.tables), now, unknown)
            new = [one for one in shown if self._put_on_record(turn, one)]
            if turn.tables.count(RIGHTS, RIGHTS.c.kind == EntryKind.HELD.value) > self._settings.limits.held:
                raise ServiceFull(f"a domain holds at most {self._settings.limits.held} certificates")
            turn.record("hold", ("certificates", " ".join(one.id.hex()[:16] for one in new)))
            return len(new)

    def held(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates that lead to this domain and have not expired."""
        with self._looking() as tables:
            return held_certificates(tables, now)

    def load_policy(
        self, text: str, *, actor: Principal, now: Instant, parents: Mapping[str, str] | None = None
    ) -> LoadedPolicy:
        """Put a policy in force, or refuse it with all its errors and keep the last good one.

        `parents` are the texts of the role sets that the policy imports, each
        after those that it imports itself. Memberships and rights that the new
        policy does not grant fall. The one that is in force already stays as
        it is, with its version.
        """
        with self._turn(actor, now) as turn:
            same = self._shelf.unchanged(turn, text, parents or _NO_PARENTS)
            if same is not None:
                return replace(loaded_of(same), is_unchanged=True)
            before = self._shelf.in_force(turn.tables)
            policy, row = self._shelf.put_in_force(turn, text, parents or _NO_PARENTS)
            check_tiers(turn.tables, policy, now)
            let_go_of_what_is_not_granted(turn, policy, before=before)
            turn.record(
                "policy.load", ("version", str(row.version)), ("digest", row.digest.hex()), *_taken(turn)
            )
            return loaded_of(row, self._taken_away_with_facts(turn))

    def policy(self) -> LoadedPolicy | None:
        """Return the policy in force; None: there is none that can be read, and nothing is granted."""
        with self._looking() as tables:
            row = newest(tables)
            return None if row is None or self._shelf.in_force(tables) is None else loaded_of(row)

    # ------------------------------------------------------------ appointments and facts

    def appoint(
        self,
        holder: Principal,
        name: str,
        parameters: Sequence[Given],
        validity: Validity,
        *,
        actor: Principal,
        now: Instant,
    ) -> SignedAppointment:
        """Sign an appointment certificate with the domain's key and register it.

        Where a policy is in force, it declares the appointment, by this domain and with these parameters.
        """
        with self._turn(actor, now) as turn:
            policy = self._shelf.in_force(turn.tables)
            declared = None if policy is None else appointment_called(policy, name)
            signed = self._desk.appoint(turn, holder, name, _stated(declared, parameters), validity)
            turn.record("appoint", ("name", name), ("holder", str(holder)), ("id", signed.id.hex()))
            return signed

    def revoke_appointment(
        self, appointment: bytes, reason: str, *, actor: Principal, now: Instant
    ) -> Revoked:
        """Take back an appointment of this domain, and everything that rests on it."""
        with self._turn(actor, now) as turn:
            if turn.tables.get(APPOINTMENTS, appointment) is None:
                raise UnknownCertificate("no appointment has this id")
            revoke_ids(turn, [appointment], self._reason(reason), self.principal)
            turn.record("appointment.revoke", ("id", appointment.hex()), ("reason", reason), *_taken(turn))
            return self._taken_away(turn)

    def appointments(
        self, *, holder: Principal | None = None, after: str | None = None, limit: int = 100
    ) -> Page[SignedAppointment]:
        """Return appointments that this domain gave and has not taken back."""
        page_limit(limit, self._settings.limits)
        where = [
            APPOINTMENTS.c.kind == AppointmentKind.APPOINTMENT.value,
            APPOINTMENTS.c.issuer == self.principal.key,
            APPOINTMENTS.c.revoked_at.is_(None),
        ]
        if holder is not None:
            where.append(APPOINTMENTS.c.holder == holder.key)
        with self._looking() as tables:
            rows = tables.find(
                APPOINTMENTS, *where, limit=limit, order=APPOINTMENTS.c.number, after=cursor_number(after)
            )
            found = tuple(appointment_from_bytes(row.certificate) for row in rows)
            return Page(found, str(rows[-1].number) if len(rows) == limit else None)

    def assert_fact(self, name: str, arguments: Sequence[Given], *, actor: Principal, now: Instant) -> bool:
        """Say that a fact holds; return whether that is news.

        Where a policy is in force, it declares the fact, with these parameters.
        """
        with self._turn(actor, now) as turn:
            policy = self._shelf.in_force(turn.tables)
            row = _stated(None if policy is None else fact_called(policy, name), arguments)
            is_news = facts_on_record.assert_fact(turn.tables, name, row, self._settings.limits, now)
            if is_news:
                self.has_news |= want_said(turn.tables, policy, name)
                turn.record("fact.assert", ("fact", _called(name, row)))
            return is_news

    def retract_fact(
        self, name: str, arguments: Sequence[Given], *, actor: Principal, now: Instant
    ) -> Revoked:
        """Say that a fact holds no more; whatever watched it falls.

        What was said under an earlier policy can be retracted still. What never held is no news.
        """
        with self._turn(actor, now) as turn:
            policy = self._shelf.in_force(turn.tables)
            problem: BadInput | None = None
            try:
                row = _stated(None if policy is None else fact_called(policy, name), arguments)
            except BadInput as told:
                problem, row = told, _stated(None, arguments)
            lost = facts_on_record.retract_fact(turn.tables, name, row)
            if not lost:
                if problem is not None:
                    raise problem
                return Revoked(is_news=False)
            lose(turn, lost, f"{name} holds no more")
            turn.record("fact.retract", ("fact", _called(name, row)), *_taken(turn))
            return self._taken_away_with_facts(turn)

    def replace_facts(
        self, name: str, rows: Iterable[Sequence[Given]], *, actor: Principal, now: Instant
    ) -> Revoked:
        """Make exactly these rows hold, as a source says; whatever watched one that is gone falls.

        Where a policy is in force, it declares the fact, unless no row is left of it.
        """
        with self._turn(actor, now) as turn:
            policy, given = self._shelf.in_force(turn.tables), list(rows)
            declared = None if policy is None or not given else fact_called(policy, name)
            stated = [_stated(declared, row) for row in given]
            new, lost = facts_on_record.replace_facts(turn.tables, name, stated, self._settings.limits, now)
            if not new and not lost:
                return Revoked()
            lose(turn, lost, f"{name} holds no more")
            changed = ("new", str(new)), ("gone", str(len(lost)))
            turn.record("facts.replace", ("fact", name), *changed, *_taken(turn))
            return self._taken_away_with_facts(turn)

    def facts(self, name: str, *, after: str | None = None, limit: int = 100) -> Page[tuple[Argument, ...]]:
        """Return the rows of a fact."""
        page_limit(limit, self._settings.limits)
        with self._looking() as tables:
            rows = tables.find(
                FACTS, FACTS.c.name == name, limit=limit, order=FACTS.c.digest, after=cursor_bytes(after)
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
    ) -> tuple[Activated, ...]:
        """Make `principal` a member of a role in every way that its rules allow; refuse if there is none.

        Without arguments: for all arguments that some rule allows.
        """
        with self._turn(actor, now) as turn:
            verified = self._desk.verified(shown)
            world = StoreWorld(turn.tables, self._tester(turn.tables), now, verified)
            policy = self._policy_in_force(turn.tables)
            found = activate(policy, world, principal, role, arguments, now)
            if not found:
                raise ActivationRefused(f"no rule makes you a member of `{role}` now")
            taken = [self._desk.take_in(turn, one, verified) for one in found]
            # Whoever asks for what it has leaves no record, or anybody could fill the disk with them.
            if turn.given:
                turn.record("activate", ("role", role), ("principal", str(principal)), _ids(taken))
            return tuple(activated for activated, _ in taken)

    def deactivate(self, membership: bytes, reason: str, *, actor: Principal, now: Instant) -> Revoked:
        """End a membership, and everything that rests on it."""
        with self._turn(actor, now) as turn:
            if turn.tables.get(MEMBERSHIPS, membership) is None:
                raise UnknownMembership("no membership has this id")
            end_memberships(turn, [membership], self._reason(reason))
            turn.record("deactivate", ("id", membership.hex()), ("reason", reason), *_taken(turn))
            return self._taken_away(turn)

    def authorise(
        self, principal: Principal, membership: bytes, *, actor: Principal, now: Instant
    ) -> tuple[Issued, ...]:
        """Issue whatever the authorisation rules grant to this member, with the chains to the owners."""
        with self._turn(actor, now) as turn:
            row = active_row(turn.tables, membership, now)
            if row is None or row.principal != principal.key:
                raise NotTheirMembership("you are no member by this id now")
            issued, withheld = self._issue(turn, membership_from_bytes(row.membership), ())
            if withheld and not issued:
                raise NotTheirMembership(f"the domain cannot pass on what it grants: {withheld[0].code}")
            if turn.given:
                turn.record("authorise", ("membership", membership.hex()), _issued(issued))
            return tuple(issued)

    def login(
        self,
        principal: Principal,
        shown: Iterable[SignedAppointment],
        *,
        actor: Principal,
        now: Instant,
    ) -> Wallet:
        """Activate every role that `principal` can have, and issue every right of them."""
        with self._turn(actor, now) as turn:
            verified = self._desk.verified(shown)
            policy = self._policy_in_force(turn.tables)
            world = StoreWorld(turn.tables, self._tester(turn.tables), now, verified)
            taken: list[tuple[Activated, bool]] = []
            # Each role is on record before the next one is looked at, so that none is activated twice.
            for role in policy.roles_in_order:
                for found in activate(policy, world, principal, role, None, now):
                    taken.append(self._desk.take_in(turn, found, verified))
            memberships = {one.membership.id: one for one, _ in taken}
            issued: list[Issued] = []
            withheld: list[Withheld] = []
            for one in memberships.values():
                some, others = self._issue(turn, one.membership, verified)
                issued += some
                withheld += others
            if turn.given:
                turn.record("login", ("principal", str(principal)), _ids(taken), _issued(issued))
            return self._wallet(turn, principal, tuple(memberships.values()), issued, withheld)

    def register_delegation(
        self, signed: SignedCertificate, *, actor: Principal, now: Instant
    ) -> RegisterEntry:
        """Note that somebody passed on a right that leads through this domain; refuse one that does not.

        What the domain's own key signed elsewhere is registered too.
        """
        with self._turn(actor, now) as turn:
            if signed.certificate.issuer == self.principal:
                self._put_on_record(turn, signed)
            entry = self._register.register_delegation(turn, signed, self._tester(turn.tables))
            turn.record("delegation.register", ("id", signed.id.hex()))
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
        """Take back certificates of this domain, whatever they are, and everything that rests on them.

        `certificates` need not be in the register, where the domain's own key signed them.
        """
        with self._turn(actor, now) as turn:
            wanted = list(ids)
            for signed in certificates:
                if signed.certificate.issuer == self.principal:
                    self._put_on_record(turn, signed)
                elif turn.tables.get(RIGHTS, signed.id) is None:
                    raise NotOurs(
                        f"`{signed.id.hex()[:16]}…` was issued by another: ask its issuer to revoke it"
                    )
                wanted.append(signed.id)
            revoke_ids(turn, wanted, self._reason(reason), self.principal)
            named = " ".join(one.hex()[:16] for one in wanted)
            turn.record("revoke", ("ids", named), ("reason", reason), *_taken(turn))
            closes_at = self._publisher.last_moment(turn.tables, now)
            # Certificates that a verifier without the statement goes on accepting, and until when.
            rows = [row for row in (turn.tables.get(RIGHTS, one) for one in turn.ids) if row is not None]
            periods = [(row.id, certificate_from_bytes(row.certificate).certificate.validity) for row in rows]
            still_open = tuple(
                (one, validity.not_after)
                for one, validity in periods
                if all(test.kind is TestKind.CRL for test in validity.tests)
            )
            return replace(self._taken_away(turn), still_open=still_open, closes_at=closes_at)

    # ------------------------------------------------------------ for the HTTP interface

    def once(
        self, key: str, request: bytes, act: Callable[[], bytes], *, actor: Principal, now: Instant
    ) -> bytes:
        """Do `act` and remember its answer under `key`, or return the answer that is remembered.

        The same transaction keeps both. The same key with another `request`
        (a digest of it) is refused.
        """
        with self._turn(actor, now) as turn:
            return remembering.answered_once(
                turn.tables, key, request, act, actor=actor, now=now, settings=self._settings
            )

    def use_nonce(self, principal: Principal, nonce: bytes, *, until: Instant, now: Instant) -> None:
        """Remember the nonce of a request until then; refuse one that was used, also before a restart."""
        with self._turn(principal, now) as turn:
            remembering.use_nonce(turn.tables, principal, nonce, until=until, now=now)

    # ------------------------------------------------------------ the parts

    def _put_on_record(self, turn: UnitOfWork, signed: SignedCertificate) -> bool:
        """Register what others signed for this domain, or it signed elsewhere; return whether that is new."""
        if turn.tables.get(RIGHTS, signed.id) is not None:
            return False
        self._cache.check(signed)
        own = signed.certificate.issuer == self.principal
        turn.tables.put(RIGHTS, [row_of(signed, EntryKind.ISSUED if own else EntryKind.HELD, turn)])
        return True

    def _issue(
        self, turn: UnitOfWork, membership: RoleMembership, shown: Sequence[VerifiedAppointment]
    ) -> tuple[list[Issued], list[Withheld]]:
        policy = self._policy_in_force(turn.tables)
        tester = self._tester(turn.tables)
        world = StoreWorld(turn.tables, tester, turn.now, shown)
        granted = rights(policy, membership, world, turn.now)
        for right in granted:
            self._desk.keep_relied_on(turn, right.rests_on, shown)
        issued, withheld = self._issuer.issue_all(turn, membership, granted, tester)
        return (
            [replace(one, rule=self._rule_called(turn.tables, one.rule)) for one in issued],
            [replace(one, rule=self._rule_called(turn.tables, one.rule)) for one in withheld],
        )

    def _wallet(
        self,
        turn: UnitOfWork,
        principal: Principal,
        memberships: tuple[Activated, ...],
        issued: Sequence[Issued],
        withheld: Sequence[Withheld],
    ) -> Wallet:
        chains = {one.id: one for right in issued for one in right.chain}
        ends = [right.until for right in issued] + [one.membership.until for one in memberships]
        first = min((end for end in ends if end is not None), default=None)
        # Half of a right's time must be over before it is renewed, and some must be left to do it in.
        renew = None if first is None else Instant(turn.now + (first - turn.now) * 2 // 3)
        return Wallet(
            principal,
            memberships,
            tuple(issued),
            tuple(chains.values()),
            self._publisher.current(turn.tables, turn.now),
            renew,
            tuple(withheld),
        )

    def _reason(self, reason: str) -> str:
        return reason[: self._settings.limits.reason]


def _taken(turn: UnitOfWork) -> tuple[tuple[str, str], ...]:
    """Return, for the audit, what a turn took away: how much, and the first few ids."""
    if not turn.ids:
        return ()
    some = " ".join(one.hex()[:16] for one in turn.ids[:16])
    return (("revoked", str(len(turn.ids))), ("fallen", str(len(turn.memberships))), ("ids", some))


def _ids(taken: Sequence[tuple[Activated, bool]]) -> tuple[str, str]:
    new = [one.membership.id.hex()[:16] for one, is_new in taken if is_new]
    return ("memberships", " ".join(new))


def _issued(issued: Sequence[Issued]) -> tuple[str, str]:
    return ("issued", " ".join(one.id.hex()[:16] for one in issued[:16]))


def _stated(
    declared: FactDeclaration | AppointmentDeclaration | None, given: Sequence[Given]
) -> tuple[Argument, ...]:
    """Return arguments as they were declared; without a policy, as they look."""
    if declared is not None:
        return stated_arguments(declared, given)
    return tuple(read_word(one, None) if isinstance(one, Word) else one for one in given)


def _called(name: str, arguments: Sequence[Argument]) -> str:
    return f"{name}({', '.join(str(argument) for argument in arguments)})"
