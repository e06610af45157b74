"""Which tables does a domain keep?

Moments are microseconds; `FOR_EVER` stands where there is no end. Principals
are their 32 bytes. Whatever is signed is kept as the bytes that were signed,
beside the few fields by which it is looked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from maia.domain.storage.store import Table

__all__ = [
    "ALL_TABLES",
    "ANSWERS",
    "APPOINTMENTS",
    "AUDIT",
    "FACTS",
    "FACT_ARGUMENTS",
    "HEARD",
    "MEMBERSHIPS",
    "META",
    "NONCES",
    "POLICIES",
    "REVOKED",
    "RIGHTS",
    "STATEMENTS",
    "SUPPORTS",
    "TESTERS",
    "TYPES",
    "WITNESSED",
    "AnswerRow",
    "AppointmentRow",
    "AuditRow",
    "FactArgumentRow",
    "FactRow",
    "HeardRow",
    "MembershipRow",
    "MetaRow",
    "NonceRow",
    "PolicyRow",
    "RevokedRow",
    "RightRow",
    "StatementRow",
    "SupportRow",
    "TesterRow",
    "TypeRow",
    "WitnessRow",
]


@dataclass(frozen=True, slots=True)
class MetaRow:
    """A number and some bytes of which there is one: the next sequence, the head of the audit."""

    name: str
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """A policy that was put in force, with the texts and the types that it was read with."""

    version: int
    text: str
    read_with: bytes
    digest: bytes
    loaded_by: bytes
    loaded_at: int


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A version of an event type."""

    id: bytes
    number: int
    owner: str
    name: str
    version: str
    definition: bytes
    registered_at: int


@dataclass(frozen=True, slots=True)
class RightRow:
    """A certificate of the register: issued here, delegated on, or held by the domain itself.

    `about` is the one resource that the certificate speaks of, or empty where
    it speaks of many; `subject` is empty where it speaks to no single key.
    `granted` is a digest of what a rule granted, so that the same is not issued
    twice; `membership` and `rule` are empty where no rule granted it. Rights
    with `is_revalidated` hold only while a statement names them as valid.
    """

    id: bytes
    number: int
    kind: str
    issuer: bytes
    subject: bytes
    about: str
    not_after: int
    membership: bytes
    rule: str
    granted: bytes
    is_revalidated: int
    certificate: bytes
    registered_by: bytes
    registered_at: int
    revoked_at: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class AppointmentRow:
    """An appointment or role membership certificate: ours, or one of others that something here rests on.

    `membership` is the one that a role membership certificate of ours is about.
    """

    id: bytes
    number: int
    kind: str
    issuer: bytes
    holder: bytes
    name: str
    not_after: int
    membership: bytes
    certificate: bytes
    registered_by: bytes
    registered_at: int
    revoked_at: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class FactRow:
    """A fact that holds; `digest` is one of its arguments in their canonical form."""

    name: str
    digest: bytes
    arguments: bytes
    since: int


@dataclass(frozen=True, slots=True)
class FactArgumentRow:
    """One argument of a fact, so that facts are found by any one of them."""

    name: str
    position: int
    value: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class MembershipRow:
    """A role that is, or was, active; ended ones are kept until they would have expired.

    `way` is a digest of everything but the time: two activations in one way
    are one membership.
    """

    id: bytes
    number: int
    principal: bytes
    role: str
    rule: str
    way: bytes
    until: int
    membership: bytes
    certificate: bytes
    activated_by: bytes
    activated_at: int
    ended_at: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class SupportRow:
    """A membership or a right rests on something: a fact, an appointment or another membership."""

    support: bytes
    dependent: bytes
    sort: str
    is_watched: int


@dataclass(frozen=True, slots=True)
class TesterRow:
    """Whose statements a certificate of others demands, and of which kind, on which something here rests."""

    kind: str
    tester: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class WitnessRow:
    """What another domain once stated about its audit: how long it was, and its digest."""

    issuer: bytes
    length: int
    digest: bytes
    sequence: int
    heard_at: int


@dataclass(frozen=True, slots=True)
class RevokedRow:
    """The id of a certificate that every list names until the certificate has expired."""

    id: bytes
    not_after: int
    revoked_at: int


@dataclass(frozen=True, slots=True)
class StatementRow:
    """A statement of this domain, in the order of signing; a plain list has no period."""

    number: int
    sort: str
    signed: bytes
    not_before: int | None
    not_after: int | None
    signed_at: int


@dataclass(frozen=True, slots=True)
class HeardRow:
    """What another issuer stated last, so that no older statement is believed after a restart."""

    issuer: bytes
    number: int
    record: bytes


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One record of the audit."""

    number: int
    body: bytes
    previous: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The answer to a request with an idempotency key."""

    actor: bytes
    key: str
    request: bytes
    answer: bytes
    until: int


@dataclass(frozen=True, slots=True)
class NonceRow:
    """The nonce of a request that must not be heard a second time."""

    principal: bytes
    nonce: bytes
    until: int


META: Final = Table("meta", MetaRow, ("name",))
POLICIES: Final = Table("policies", PolicyRow, ("version",))
TYPES: Final = Table("types", TypeRow, ("id",), (("number",), ("owner", "name", "version")))
RIGHTS: Final = Table(
    "rights",
    RightRow,
    ("id",),
    (
        ("number",),
        ("subject", "number"),
        ("about", "subject"),
        ("membership",),
        ("kind", "number"),
        ("is_revalidated", "id"),
        ("rule", "number"),
        ("issuer", "kind"),
        ("not_after",),
    ),
)
APPOINTMENTS: Final = Table(
    "appointments",
    AppointmentRow,
    ("id",),
    (
        ("number",),
        ("holder", "number"),
        ("kind", "number"),
        ("name", "number"),
        ("membership",),
        ("not_after",),
    ),
)
FACTS: Final = Table("facts", FactRow, ("name", "digest"))
FACT_ARGUMENTS: Final = Table(
    "fact_arguments", FactArgumentRow, ("name", "position", "value", "digest"), (("name", "digest"),)
)
MEMBERSHIPS: Final = Table(
    "memberships",
    MembershipRow,
    ("id",),
    (("number",), ("principal", "number"), ("role", "number"), ("way", "until"), ("until",)),
)
SUPPORTS: Final = Table("supports", SupportRow, ("support", "dependent"), (("dependent",),))
TESTERS: Final = Table(
    "testers", TesterRow, ("kind", "tester", "certificate"), (("tester",), ("certificate",))
)
WITNESSED: Final = Table("witnessed", WitnessRow, ("issuer", "length", "digest"))
REVOKED: Final = Table("revoked", RevokedRow, ("id",), (("not_after",),))
STATEMENTS: Final = Table("statements", StatementRow, ("number",), (("sort", "number"), ("not_after",)))
HEARD: Final = Table("heard", HeardRow, ("issuer", "number"))
AUDIT: Final = Table("audit", AuditRow, ("number",))
ANSWERS: Final = Table("answers", AnswerRow, ("actor", "key"), (("until",),))
NONCES: Final = Table("nonces", NonceRow, ("principal", "nonce"), (("until",),))

ALL_TABLES: Final = (
    META,
    POLICIES,
    TYPES,
    RIGHTS,
    APPOINTMENTS,
    FACTS,
    FACT_ARGUMENTS,
    MEMBERSHIPS,
    SUPPORTS,
    TESTERS,
    REVOKED,
    STATEMENTS,
    HEARD,
    WITNESSED,
    AUDIT,
    ANSWERS,
    NONCES,
)
