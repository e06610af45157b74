"""Whom does this domain know, with which attributes, and whose guests does it accept?

The identity provider of a domain (Gismo 4). An administrator registers
subjects; a registered subject asks for a short-lived statement about itself
whenever it needs one. Nothing of a statement is kept: an attribute that is
removed is in no statement from then on, and in none at all once the last one
with it has expired. A trust relation with another provider is an act of an
administrator: dated, revocable, one-way, in the audit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from maia.credentials import Principal, principal_from_bytes
from maia.credentials.appointments import X509_WORD, Argument, Given, Word, read_word
from maia.credentials.identity import (
    PROVIDER_ATTRIBUTE,
    TPM_ATTRIBUTE,
    Identity,
    SignedIdentity,
    attributes_from_bytes,
    attributes_to_bytes,
    guest_statement,
    is_checked_attribute,
    issue_identity,
    verify_identity,
)
from maia.credentials.x509_chains import VerifiedX509, verify_x509_chain
from maia.credentials.x509_names import distinguished_name
from maia.domain.access.attestations import level_of, proved_of
from maia.domain.access.core import AccessCore
from maia.domain.access.results import Page
from maia.domain.access.settings import check_room
from maia.domain.access.unit_of_work import end_of, next_number
from maia.domain.storage.store import Tables
from maia.domain.storage.tables import (
    FOR_EVER,
    ProvedRow,
    ProviderRow,
    SubjectCertificateRow,
    SubjectRow,
    TpmRow,
)
from maia.errors import BadInput, BrokenCredential, Refusal
from maia.events import SECOND, AttributeUid, Instant, named_uid


@dataclass(frozen=True, slots=True)
class Subject:
    """A registered subject."""

    principal: Principal
    identifier: str
    attributes: Mapping[AttributeUid, Argument]
    registered_by: Principal
    registered_at: Instant
    certified_as: str | None = None
    """What its X.509 certificate calls it, if it was registered by one."""


@dataclass(frozen=True, slots=True)
class TrustedProvider:
    """A provider of another domain, and how long this one has trusted it and will."""

    principal: Principal
    identifier: str
    trusted_by: Principal
    since: Instant
    until: Instant | None


@dataclass(frozen=True, slots=True)
class Guest:
    """A guest statement, and this provider's own statement about the guest's home provider."""

    statement: SignedIdentity
    home: SignedIdentity


class AccessIdentities(AccessCore):
    """The identity provider of a domain."""

    # ------------------------------------------------------------ subjects

    def register_subject(
        self,
        principal: Principal,
        identifier: str,
        attributes: Mapping[str, Given],
        certificates: Sequence[bytes] = (),
        *,
        actor: Principal,
        now: Instant,
    ) -> Subject:
        """Register a subject, or replace what is registered about it; attributes left out are gone.

        Where the settings name X.509 authorities, the subject's certificate has to lead to one of them.
        """
        proved = self._proved(principal, certificates, now)
        read = {
            named_uid(name): read_word(value, None) if isinstance(value, Word) else value
            for name, value in attributes.items()
        }
        if len(read) < len(attributes):
            raise BadInput("INPUT-SUBJECT", "an attribute is given twice: `_` and `-` are one sign of a name")
        for name in filter(is_checked_attribute, read):
            raise BadInput(
                "INPUT-SUBJECT", f"the attribute `{name}` is given by the provider itself, after a check"
            )
        with self._begin(actor, now) as work:
            known = work.tables.get(SubjectRow, principal.key)
            others = work.tables.find(SubjectRow, SubjectRow.c.identifier == identifier, limit=2)
            if any(row.key != principal.key for row in others):
                raise BadInput("INPUT-SUBJECT", f"another key is registered as `{identifier}`")
            count = work.tables.count(SubjectRow) + (known is None)
            check_room(count, self._settings.limits.subjects, "a provider has at most {} subjects")
            # A statement is made for the trial: what cannot be stated is not registered.
            trial = (principal, identifier, read, now, self._settings.identity_s)
            try:
                self._stated(*trial, community=self._settings.community or "trial")
            except BrokenCredential as problem:
                raise BadInput(
                    "INPUT-SUBJECT", f"the subject cannot be registered: {problem.message}"
                ) from problem
            number = next_number(work.tables, "subjects") if known is None else known.number
            row = SubjectRow(
                principal.key, number, identifier, attributes_to_bytes(read), actor.key, int(now)
            )
            work.tables.put(row)
            certified = None if proved is None else _certified(principal, proved.name, certificates)
            work.tables.delete(SubjectCertificateRow, SubjectCertificateRow.c.key == principal.key)
            if certified is not None:
                work.tables.put(certified)
            # Names, not values: the audit is read by more people than the register of subjects.
            names = " ".join(sorted(read))
            known_as = {} if proved is None else {"certified_as": proved.name}
            work.record(
                "subject.register", subject=principal, identifier=identifier, attributes=names, **known_as
            )
            return _subject(row, certified)

    def remove_subject(self, principal: Principal, reason: str, *, actor: Principal, now: Instant) -> None:
        """Remove a subject: it gets no statement from now on."""
        with self._begin(actor, now) as work:
            if not work.tables.delete(SubjectRow, SubjectRow.c.key == principal.key):
                raise BadInput("INPUT-UNKNOWN-SUBJECT", "no subject is registered with this key")
            work.tables.delete(TpmRow, TpmRow.c.subject == principal.key)
            work.tables.delete(ProvedRow, ProvedRow.c.subject == principal.key)
            work.tables.delete(SubjectCertificateRow, SubjectCertificateRow.c.key == principal.key)
            reason = reason[: self._settings.limits.reason]
            work.record("subject.remove", subject=principal, reason=reason)

    def subject(self, principal: Principal) -> Subject:
        with self._store.reading() as tables:
            row = tables.get(SubjectRow, principal.key)
            if row is None:
                raise BadInput("INPUT-UNKNOWN-SUBJECT", "no subject is registered with this key")
            return _subject(row, tables.get(SubjectCertificateRow, row.key))

    def subjects(self, *, after: str | None = None, limit: int = 100) -> Page[Subject]:
        """Return the registered subjects, in the order of registration."""
        return self._page(SubjectRow, after=after, limit=limit, shape=_listed)

    def identity(
        self, principal: Principal, *, now: Instant, lifetime_s: int | None = None
    ) -> SignedIdentity:
        """Issue a statement about a registered subject, for at most the lifetime of the settings."""
        with self._store.reading() as tables:
            row = tables.get(SubjectRow, principal.key)
            if row is None:
                raise Refusal(
                    "REFUSED-NOT-REGISTERED",
                    "no subject is registered with your key; an administrator registers it",
                )
            attributes = attributes_from_bytes(row.attributes)
            seconds = min(lifetime_s or self._settings.identity_s, self._settings.identity_s)
            certified = tables.get(SubjectCertificateRow, principal.key)
            # Figure 4 of the paper: the certificate is validated for each statement.
            proved = self._proved(principal, () if certified is None else _chain(certified), now)
            if proved is not None:
                seconds = min(seconds, (proved.not_after - _whole(now)) // SECOND)
            level, until = level_of(tables, principal, now)
            if level:
                attributes |= proved_of(tables, principal)
                attributes[TPM_ATTRIBUTE] = level
                seconds = min(seconds, (until - _whole(now)) // SECOND)
            return self._stated(principal, row.identifier, attributes, now, seconds)

    def _certified_as(self, tables: Tables, word: str, now: Instant | None) -> Principal:
        """Return the subject that `x509:NAME` means, by a certificate that holds `now`, if told."""
        name = distinguished_name(word.removeprefix(X509_WORD))
        found = tables.find(SubjectCertificateRow, SubjectCertificateRow.c.name == name, limit=2)
        if len(found) != 1:
            known = "two subjects are" if found else "no subject is"
            raise BadInput("INPUT-UNKNOWN-SUBJECT", f"{known} registered by a certificate of `{name}`")
        principal = principal_from_bytes(found[0].key)
        if now is not None:
            self._proved(principal, _chain(found[0]), now)
        return principal

    def _proved(
        self, principal: Principal, certificates: Sequence[bytes], now: Instant
    ) -> VerifiedX509 | None:
        """Verify the certificate of a subject; None where the settings name no authorities."""
        if not self._settings.authorities:
            if certificates:
                raise BadInput(
                    "INPUT-SUBJECT", "no X.509 authority is trusted here: see `identity.authorities`"
                )
            return None
        if not certificates:
            raise BadInput("INPUT-SUBJECT", "subjects are registered by their X.509 certificates here")
        lists = self._settings.revocation_lists()
        own, *others = certificates
        proved = verify_x509_chain(own, others, self._settings.authorities, now=now, revocation_lists=lists)
        if proved.principal != principal:
            raise BadInput("INPUT-SUBJECT", "the certificate is for another key than the subject's")
        return proved

    # ------------------------------------------------------------ guests

    def trust_provider(
        self, provider: Principal, identifier: str, until: Instant | None, *, actor: Principal, now: Instant
    ) -> TrustedProvider:
        """Trust a provider of another domain from now on; its subjects can be guests here."""
        if provider == self.principal:
            raise BadInput("INPUT-SUBJECT", "a domain's own provider needs no trust relation")
        if until is not None and until <= now:
            raise BadInput("INPUT-SUBJECT", "the trust relation would have ended already")
        with self._begin(actor, now) as work:
            known = work.tables.get(ProviderRow, provider.key)
            count = work.tables.count(ProviderRow) + (known is None)
            check_room(count, self._settings.limits.providers, "a domain trusts at most {} providers")
            number = next_number(work.tables, "providers") if known is None else known.number
            row = ProviderRow(provider.key, number, identifier, actor.key, int(now), end_of(until))
            try:
                self._about_provider(row, now, self._settings.community or "trial")
            except BrokenCredential as problem:
                raise BadInput(
                    "INPUT-SUBJECT", f"the provider cannot be trusted as that: {problem.message}"
                ) from problem
            work.tables.put(row)
            ends = "unbounded" if until is None else str(until)
            work.record("provider.trust", provider=provider, identifier=identifier, until=ends)
            return _provider(row)

    def distrust_provider(self, provider: Principal, reason: str, *, actor: Principal, now: Instant) -> None:
        """Trust a provider no more: its subjects get no guest statement from now on."""
        with self._begin(actor, now) as work:
            if not work.tables.delete(ProviderRow, ProviderRow.c.key == provider.key):
                raise BadInput("INPUT-UNKNOWN-SUBJECT", "no provider with this key is trusted here")
            reason = reason[: self._settings.limits.reason]
            work.record("provider.distrust", provider=provider, reason=reason)

    def providers(self, *, after: str | None = None, limit: int = 100) -> Page[TrustedProvider]:
        """Return the trusted providers, also those whose time is over."""
        return self._page(ProviderRow, after=after, limit=limit, shape=lambda _, row: _provider(row))

    def guest_identity(self, principal: Principal, signed: SignedIdentity, *, now: Instant) -> Guest:
        """Issue a guest statement to the subject of a home statement of a provider that is trusted here."""
        community = self._community()
        with self._store.reading() as tables:
            row = tables.get(ProviderRow, signed.statement.issuer.key)
            row = None if row is None or row.until < now else row
            verified = verify_identity(
                signed,
                subject=principal,
                community=community,
                providers=() if row is None else (signed.statement.issuer,),
                now=now,
            )
            if row is None:  # the verification above has refused it already
                raise BrokenCredential("CREDENTIAL-IDENTITY-PROVIDER", "the provider is not trusted here")
            ends = min(int(now) + self._settings.identity_s * SECOND, row.until)
            statement = guest_statement(verified, self._key, not_after=_whole(Instant(ends)))
            return Guest(statement, self._about_provider(row, now, community))

    # ------------------------------------------------------------ the parts

    def _community(self) -> str:
        if self._settings.community is None:
            raise Refusal(
                "REFUSED-NO-IDENTITY-PROVIDER",
                "this domain issues no identity statements: it has no community",
            )
        return self._settings.community

    def _about_provider(self, row: ProviderRow, now: Instant, community: str) -> SignedIdentity:
        attributes: dict[AttributeUid, Argument] = {PROVIDER_ATTRIBUTE: True}
        left = max(1, min(self._settings.identity_s, (row.until - int(now)) // SECOND))
        provider = principal_from_bytes(row.key)
        return self._stated(provider, row.identifier, attributes, now, left, community=community)

    def _stated(
        self,
        subject: Principal,
        identifier: str,
        attributes: Mapping[AttributeUid, Argument],
        now: Instant,
        seconds: int,
        *,
        community: str | None = None,
    ) -> SignedIdentity:
        community = self._community() if community is None else community
        starts = _whole(now)
        ends = Instant(starts + seconds * SECOND)
        home = self.principal
        said = Identity(home, community, subject, identifier, attributes, starts, ends, home)
        return issue_identity(said, self._key)


def _whole(moment: Instant) -> Instant:
    """Return the whole second that a moment lies in: statements have no finer ones."""
    return Instant(moment - moment % SECOND)


def _certified(principal: Principal, name: str, certificates: Sequence[bytes]) -> SubjectCertificateRow:
    chain = json.dumps([one.hex() for one in certificates]).encode()
    return SubjectCertificateRow(principal.key, name, chain)


def _chain(row: SubjectCertificateRow) -> list[bytes]:
    return [bytes.fromhex(one) for one in json.loads(row.chain)]


def _listed(tables: Tables, row: SubjectRow) -> Subject:
    return _subject(row, tables.get(SubjectCertificateRow, row.key))


def _subject(row: SubjectRow, certified: SubjectCertificateRow | None) -> Subject:
    return Subject(
        principal_from_bytes(row.key),
        row.identifier,
        attributes_from_bytes(row.attributes),
        principal_from_bytes(row.registered_by),
        Instant(row.registered_at),
        None if certified is None else certified.name,
    )


def _provider(row: ProviderRow) -> TrustedProvider:
    return TrustedProvider(
        principal_from_bytes(row.key),
        row.identifier,
        principal_from_bytes(row.trusted_by),
        Instant(row.since),
        None if row.until == FOR_EVER else Instant(row.until),
    )
