"""Who gets which right in this domain, and what ends when something changes?

`AccessControl` is the access control service of one organisation (dissertation
6.1): policy, appointments and facts in; role memberships, certificates and
statements about them out. Each act is one transaction of the store and one
record of the audit; what an act returns is safe when it returns. Acts are
called one at a time. Whether the actor may do it is asked before, with
`authorised`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SigningKey,
    TypeName,
    Validity,
)
from maia.credentials.appointments import SignedAppointment
from maia.credentials.statements import AuditHead, SignedStatement
from maia.domain.access_answers import (
    Ability,
    Activated,
    AdminAct,
    Entry,
    Holder,
    Issued,
    LoadedPolicy,
    Page,
    Revoked,
    Wallet,
)
from maia.domain.access_settings import AccessSettings
from maia.domain.access_store import DomainStore
from maia.domain.audit import AuditRecord
from maia.events import Instant, PresentValue
from maia.policy import Permit
from maia.types import SignedDefinition, VerifiedType

__all__ = ["AccessControl"]


class AccessControl:
    """The access control service of the domain that holds `key`."""

    def __init__(self, key: SigningKey, store: DomainStore, settings: AccessSettings | None = None) -> None:
        """Work on what the store holds; a policy that cannot be read any more grants nothing."""
        raise NotImplementedError

    # ------------------------------------------------------------ may this actor do this?

    def authorised(
        self, actor: Principal, pool: Sequence[SignedCertificate], act: AdminAct, now: Instant
    ) -> Permit:
        """Return the permit of the kernel for an administrative act; raise its refusal if there is none.

        `pool` is what the actor showed. The domain key needs nothing.
        """
        raise NotImplementedError

    # ------------------------------------------------------------ what the policy stands on

    def register_type(self, signed: SignedDefinition, *, actor: Principal, now: Instant) -> VerifiedType:
        """Verify and keep a version of an event type, so that policies can speak of it."""
        raise NotImplementedError

    def types(self, now: Instant) -> Mapping[TypeName, VerifiedType]:
        """Return the versions of types that hold now."""
        raise NotImplementedError

    def hold(self, certificates: Iterable[SignedCertificate], *, actor: Principal, now: Instant) -> int:
        """Keep certificates that lead from owners to this domain; return how many were new."""
        raise NotImplementedError

    def held(self, now: Instant) -> tuple[SignedCertificate, ...]:
        """Return the certificates that lead to this domain and have not expired."""
        raise NotImplementedError

    def load_policy(
        self, text: str, *, actor: Principal, now: Instant, parents: Mapping[str, str] | None = None
    ) -> LoadedPolicy:
        """Put a policy in force, or refuse it with all its errors and keep the last good one.

        `parents` are the texts of the role sets that the policy imports.
        Memberships and rights that the new policy does not grant fall.
        """
        raise NotImplementedError

    def policy(self) -> LoadedPolicy | None:
        """Return the policy in force; None: there is none, and nothing is granted."""
        raise NotImplementedError

    # ------------------------------------------------------------ appointments and facts

    def appoint(
        self,
        holder: Principal,
        name: str,
        parameters: Sequence[PresentValue | Principal],
        validity: Validity,
        *,
        actor: Principal,
        now: Instant,
    ) -> SignedAppointment:
        """Sign an appointment certificate with the domain's key and register it."""
        raise NotImplementedError

    def revoke_appointment(
        self, appointment: bytes, reason: str, *, actor: Principal, now: Instant
    ) -> Revoked:
        """Take back an appointment of this domain, and everything that rests on it."""
        raise NotImplementedError

    def appointments(
        self, *, holder: Principal | None = None, after: str | None = None, limit: int = 100
    ) -> Page[SignedAppointment]:
        """Return appointments that this domain gave and has not taken back."""
        raise NotImplementedError

    def assert_fact(
        self, name: str, arguments: Sequence[PresentValue | Principal], *, actor: Principal, now: Instant
    ) -> bool:
        """Say that a fact holds; return whether that is news."""
        raise NotImplementedError

    def retract_fact(
        self, name: str, arguments: Sequence[PresentValue | Principal], *, actor: Principal, now: Instant
    ) -> Revoked:
        """Say that a fact holds no more; whatever watched it falls."""
        raise NotImplementedError

    def replace_facts(
        self,
        name: str,
        rows: Iterable[Sequence[PresentValue | Principal]],
        *,
        actor: Principal,
        now: Instant,
    ) -> Revoked:
        """Make exactly these rows hold, as a source says; whatever watched one that is gone falls."""
        raise NotImplementedError

    def facts(
        self, name: str, *, after: str | None = None, limit: int = 100
    ) -> Page[tuple[PresentValue | Principal, ...]]:
        """Return the rows of a fact."""
        raise NotImplementedError

    # ------------------------------------------------------------ roles and rights

    def activate(
        self,
        principal: Principal,
        role: str,
        arguments: Sequence[PresentValue | Principal] | None,
        shown: Iterable[SignedAppointment],
        *,
        actor: Principal,
        now: Instant,
    ) -> tuple[Activated, ...]:
        """Make `principal` a member of a role in every way that its rules allow; refuse if there is none.

        Without arguments: for all arguments that some rule allows.
        """
        raise NotImplementedError

    def deactivate(self, membership: bytes, reason: str, *, actor: Principal, now: Instant) -> Revoked:
        """End a membership, and everything that rests on it."""
        raise NotImplementedError

    def authorise(
        self, principal: Principal, membership: bytes, *, actor: Principal, now: Instant
    ) -> tuple[Issued, ...]:
        """Issue whatever the authorisation rules grant to this member, with the chains to the owners."""
        raise NotImplementedError

    def login(
        self,
        principal: Principal,
        shown: Iterable[SignedAppointment],
        *,
        actor: Principal,
        now: Instant,
    ) -> Wallet:
        """Activate every role that `principal` can have, and issue every right of them."""
        raise NotImplementedError

    def register_delegation(self, signed: SignedCertificate, *, actor: Principal, now: Instant) -> Entry:
        """Note that somebody passed on a right that leads through this domain; refuse one that does not."""
        raise NotImplementedError

    def revoke(self, ids: Iterable[bytes], reason: str, *, actor: Principal, now: Instant) -> Revoked:
        """Take back certificates of this domain, whatever they are, and everything that rests on them."""
        raise NotImplementedError

    # ------------------------------------------------------------ statements

    def hear_statement(self, signed: SignedStatement, *, actor: Principal, now: Instant) -> Revoked:
        """Believe a statement of another issuer; whatever rested on what it takes back falls here too."""
        raise NotImplementedError

    def due(self, now: Instant) -> list[SignedStatement]:
        """Return the statements to be published now: the next timed list, where it is time for it."""
        raise NotImplementedError

    def next_due(self, now: Instant) -> Instant:
        """Return when `due` wants to be asked again; a moment that has passed means at once."""
        raise NotImplementedError

    def current_statements(self, now: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer everything: the list that holds now, and the newest one."""
        raise NotImplementedError

    def statements(self, *, after: str | None = None, limit: int = 100) -> Page[SignedStatement]:
        """Return the statements that this domain signed, the oldest that is kept first."""
        raise NotImplementedError

    def revalidate_once(
        self, certificate: bytes, request: bytes, nonce: bytes, *, now: Instant
    ) -> SignedStatement:
        """Say that a certificate is valid for one request of one verifier; refuse if it is not."""
        raise NotImplementedError

    # ------------------------------------------------------------ questions

    def who_can(
        self,
        action: Action,
        event_type: TypeName,
        attribute: str | None,
        at: Instant,
        *,
        after: str | None = None,
        limit: int = 100,
    ) -> Page[Holder]:
        """Return who can do `action` with the type at that moment, reading `attribute` if one is named."""
        raise NotImplementedError

    def rights_of(self, principal: Principal, *, after: str | None = None, limit: int = 100) -> Page[Entry]:
        """Return every certificate of the register that speaks to `principal`, revoked ones too."""
        raise NotImplementedError

    def register(
        self, *, standing_at: Instant | None = None, after: str | None = None, limit: int = 100
    ) -> Page[Entry]:
        """Return the register in the order of its entries; only what stands at a moment, if one is given."""
        raise NotImplementedError

    def memberships_of(
        self, principal: Principal, now: Instant, *, after: str | None = None, limit: int = 100
    ) -> Page[Activated]:
        """Return the roles that are active."""
        raise NotImplementedError

    def would_be_able(
        self, role: str, arguments: Sequence[PresentValue | Principal], now: Instant
    ) -> tuple[Ability, ...]:
        """Return what a member of a role would be able to do, as the kernel would decide it."""
        raise NotImplementedError

    def audit(self, *, after: int = 0, limit: int = 100) -> Page[AuditRecord]:
        """Return the audit records that follow number `after`."""
        raise NotImplementedError

    def audit_head(self) -> AuditHead:
        """Return how long the audit is and what its last record makes of all of them."""
        raise NotImplementedError

    # ------------------------------------------------------------ for the HTTP interface

    def once(
        self, key: str, request: bytes, act: Callable[[], bytes], *, actor: Principal, now: Instant
    ) -> bytes:
        """Do `act` and remember its answer under `key`, or return the answer that is remembered.

        The same transaction keeps both. The same key with another `request`
        (a digest of it) is refused.
        """
        raise NotImplementedError

    def use_nonce(self, principal: Principal, nonce: bytes, *, until: Instant, now: Instant) -> None:
        """Remember the nonce of a request until then; refuse one that was used, also before a restart."""
        raise NotImplementedError
