"""What comes out of the pages of a domain's HTTP interface? Structs; `maia.domain.http.answers` fills them.

Certificates and statements are given as their bytes (base64 in JSON), beside
what a person or a script wants to read of them.
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

import msgspec

from maia.api.requests import ApiArgument, BootConfiguration, Period

_Moment: TypeAlias = str | None
_Item = TypeVar("_Item")


class Page(msgspec.Struct, Generic[_Item], frozen=True):
    """Some items of a long answer; `next` is what to ask `after`, if there are more."""

    items: list[_Item]
    next: str | None


class DomainAnswer(msgspec.Struct, frozen=True):
    """Which domain this is; `instance` goes into every signed request."""

    principal: str
    instance: str
    now: str
    skew_s: int
    version: str
    has_policy: bool
    brokers: list[str] = []
    """Where its brokers are now, for clients and partners that knew them elsewhere."""


class ActsAnswer(msgspec.Struct, frozen=True):
    """What the caller may do as an administrator: `ACTION TOPIC`, such as `subscribe /admin/register`."""

    acts: list[str]


class Count(msgspec.Struct, frozen=True):
    """How many were new."""

    new: int


class News(msgspec.Struct, frozen=True):
    """Whether it was news."""

    is_news: bool


class StatementAnswer(msgspec.Struct, frozen=True):
    """A signed statement."""

    statement: bytes


class StatementPage(Page[StatementAnswer], frozen=True):
    """Some statements, and the type of the stream on which those that follow are published."""

    stream: bytes | None = None


class AppointmentAnswer(msgspec.Struct, frozen=True):
    """An appointment or role membership certificate."""

    id: str
    kind: str
    issuer: str
    holder: str
    name: str
    parameters: list[ApiArgument]
    valid: Period
    certificate: bytes


class AppointmentPage(Page[AppointmentAnswer], frozen=True):
    """Some appointments."""


class MembershipAnswer(msgspec.Struct, frozen=True):
    """A role that a principal has, or had."""

    id: str
    principal: str
    role: str
    arguments: list[ApiArgument]
    rule: str
    until: _Moment


class ActivationAnswer(msgspec.Struct, frozen=True):
    """A role that is active, and the certificate that says so."""

    membership: MembershipAnswer
    certificate: AppointmentAnswer


class MembershipPage(Page[ActivationAnswer], frozen=True):
    """Some active roles."""


class RightAnswer(msgspec.Struct, frozen=True):
    """A right, and the chain that leads from the owner to it."""

    id: str
    certificate: bytes
    chain: list[bytes]
    membership: str | None
    rule: str
    until: _Moment


class RightsAnswer(msgspec.Struct, frozen=True):
    """The rights of one membership."""

    items: list[RightAnswer]


class WithheldAnswer(msgspec.Struct, frozen=True):
    """A right that a rule grants and that the domain cannot pass on itself, why, and what mends it."""

    rule: str
    code: str
    right: str = ""
    why: str = ""


class WalletAnswer(msgspec.Struct, frozen=True):
    """What a login gives."""

    principal: str
    memberships: list[ActivationAnswer]
    rights: list[RightAnswer]
    chains: list[bytes]
    statements: list[bytes]
    renew_before: _Moment
    withheld: list[WithheldAnswer] = []
    types: list[bytes] = []
    """The definitions of the types that the rights are about."""


class OpenAnswer(msgspec.Struct, frozen=True):
    """A revoked certificate that a verifier without news accepts until then; without a moment, for ever."""

    id: str
    until: str | None


class RevokedAnswer(msgspec.Struct, frozen=True):
    """What was revoked, and the statement about it."""

    ids: list[str]
    memberships: list[MembershipAnswer]
    statement: bytes | None
    is_silent: bool
    is_news: bool = True
    """False: what was retracted did not hold."""
    still_open: list[OpenAnswer] = []
    """Certificates that demand no test, for verifiers that do not receive the statement."""
    closes_at: str | None = None
    """When the present lists end, and every other certificate is refused everywhere."""


class PolicyAnswer(msgspec.Struct, frozen=True):
    """The policy in force."""

    version: int
    digest: str
    text: str
    loaded_by: str
    loaded_at: str
    revoked: RevokedAnswer
    is_unchanged: bool = False
    """Whether it was loaded once more, and had been in force already."""


class FactPage(Page[list[ApiArgument]], frozen=True):
    """Some rows of a fact."""


class EntryAnswer(msgspec.Struct, frozen=True):
    """A line of the register."""

    kind: str
    id: str
    issuer: str
    subject: str
    may_delegate: bool
    valid: Period
    membership: str | None
    rule: str
    registered_at: str
    revoked_at: _Moment
    reason: str
    certificate: bytes


class EntryPage(Page[EntryAnswer], frozen=True):
    """Some lines of the register."""


class HolderAnswer(msgspec.Struct, frozen=True):
    """Who can, seeing what, until when, by which certificates."""

    principal: str
    until: _Moment
    windows: list[str]
    """Which events, in the filter language; several add up."""
    attributes: list[str] | None
    """None: all of them."""
    chains: list[list[str]]
    is_conditional: bool
    """A broker asks a condition at the moment of use, so what is seen cannot be said here."""
    transformations: list[str] = []
    """What becomes of attributes before they are seen: `place := first(place, 3)`."""
    may_pass_on: bool = False
    """It may let others; whom it has let is known here if it was registered here."""


class HolderPage(Page[HolderAnswer], frozen=True):
    """Some of those who can."""


class AbilityAnswer(msgspec.Struct, frozen=True):
    """Something that a member of a role would be able to do."""

    rule: str
    action: str
    resource: str
    attributes: list[str] | None
    windows: list[str] | None
    denial: str | None


class AbilitiesAnswer(msgspec.Struct, frozen=True):
    """Everything that a member of a role would be able to do."""

    items: list[AbilityAnswer]


class AuditAnswer(msgspec.Struct, frozen=True):
    """One audit record; `body` and `previous` are what its digest is made of."""

    number: int
    at: str
    actor: str
    act: str
    details: list[tuple[str, str]]
    digest: str
    previous: str
    body: bytes


class LedgerHeadAnswer(msgspec.Struct, frozen=True):
    """Where a ledger's head is in the audit, and how it contradicts what its broker stated before."""

    record: int
    problem: str | None


class AuditPage(msgspec.Struct, frozen=True):
    """Some audit records."""

    items: list[AuditAnswer]
    next: int | None


class AuditHeadAnswer(msgspec.Struct, frozen=True):
    """How long the audit is, and what its last record makes of all of them."""

    length: int
    digest: str


class TypeAnswer(msgspec.Struct, frozen=True):
    """A version of an event type."""

    id: str
    owner: str
    name: str
    version: str
    attributes: list[str]
    definition: bytes


class TypePage(Page[TypeAnswer], frozen=True):
    """Some types."""


class SubjectAnswer(msgspec.Struct, frozen=True):
    """A registered subject of the identity provider."""

    principal: str
    identifier: str
    attributes: dict[str, ApiArgument]
    registered_by: str
    registered_at: str
    certified_as: str | None = None


class SubjectPage(Page[SubjectAnswer], frozen=True):
    """Some subjects."""


class IdentityAnswer(msgspec.Struct, frozen=True):
    """An identity statement."""

    statement: bytes


class GuestAnswer(msgspec.Struct, frozen=True):
    """A guest statement, and what this provider says of the guest's home provider."""

    statement: bytes
    home: bytes


class ProviderAnswer(msgspec.Struct, frozen=True):
    """An identity provider that this domain trusts."""

    principal: str
    identifier: str
    trusted_by: str
    since: str
    until: _Moment


class ProviderPage(Page[ProviderAnswer], frozen=True):
    """Some trusted providers."""


class ApprovedAnswer(msgspec.Struct, frozen=True):
    """Which boots are approved, and the SHA-256 digests of the roots; `version` counts the changes."""

    version: int
    pcrs: list[int]
    configurations: list[BootConfiguration]
    roots: list[str]
    scan: int | None = None


class CredentialAnswer(msgspec.Struct, frozen=True):
    """A credential that only the caller's TPM opens: a file for `tpm2_activatecredential`."""

    credential: bytes


class NonceAnswer(msgspec.Struct, frozen=True):
    """For which nonce, over which registers of the SHA-256 bank, and until when a quote is expected."""

    nonce: str
    pcrs: list[int]
    until: str


class AttestedAnswer(msgspec.Struct, frozen=True):
    """Which approved boot a quote proves, its level, and until when it counts."""

    configuration: str
    level: int
    until: str
    is_rebooted: bool
