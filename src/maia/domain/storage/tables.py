"""Which tables does a domain keep?

Moments are microseconds; `FOR_EVER` is kept where there is no end. Principals
are their 32 bytes. Signed documents are kept as the bytes that were signed,
beside the few fields by which they are found. Columns are made of the fields
of the row classes, so that a row and its table cannot disagree; texts compare
by code point in every database, as everywhere else in Maia.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Final, Generic, TypeVar, get_args, get_type_hints

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Executable,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Text,
    bindparam,
    select,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.types import TypeEngine

from maia.events import Instant

SCHEMA_VERSION: Final = 1
SCHEMA: Final = MetaData()

FOR_EVER: Final = (1 << 63) - 1
"""The end of something that has none."""

# `Any`: SQLAlchemy's own type for a column of any Python class.
_COLUMN_TYPES: Final[dict[type, TypeEngine[Any]]] = {
    int: BigInteger(),
    str: Text().with_variant(Text(collation="C"), "postgresql"),
    bytes: LargeBinary(),
}

Row = TypeVar("Row")
ALL_TABLES: Final[list[Table[Any]]] = []


class Table(Generic[Row]):
    """A table of SQL whose rows are values of one class; each index names fields that are asked together.

    `c` are its columns, as SQLAlchemy has them.
    """

    def __init__(
        self, name: str, row: type[Row], key: tuple[str, ...], indexes: tuple[tuple[str, ...], ...] = ()
    ) -> None:
        """Make a column of each field of `row`."""
        self.name, self.row = name, row
        hints, called = get_type_hints(row), f"domain_{name}"
        self.sql = SqlTable(
            called,
            SCHEMA,
            *(_column(field.name, hints[field.name]) for field in fields(row)),  # type: ignore[arg-type]
            PrimaryKeyConstraint(*key),
            *(Index(f"{called}_by_{'_'.join(index)}", *index) for index in indexes),
            sqlite_with_rowid=False,
        )
        self.c = self.sql.c
        self.key = tuple(self.c[part] for part in key)
        # The one statement that is asked all the time is built once.
        matches = (column == bindparam(f"key_{place}") for place, column in enumerate(self.key))
        self.by_key = select(self.sql).where(*matches)
        self._upserts: dict[str, Executable] = {}
        ALL_TABLES.append(self)

    def upsert(self, dialect: str) -> Executable:
        """Return the statement that puts rows in the places of those with the same keys."""
        if dialect not in self._upserts:
            insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
            statement = insert(self.sql)
            changed = {one.name: statement.excluded[one.name] for one in self.c if not one.primary_key}
            self._upserts[dialect] = (
                statement.on_conflict_do_update(index_elements=self.key, set_=changed)
                if changed
                else statement.on_conflict_do_nothing(index_elements=self.key)
            )
        return self._upserts[dialect]


def _column(name: str, annotation: object) -> Column[Any]:  # `Any`: a cell of any class
    kinds = get_args(annotation) or (annotation,)
    (kind,) = (one for one in kinds if one is not NoneType)
    return Column(name, _COLUMN_TYPES[kind], nullable=NoneType in kinds, autoincrement=False)


FENCE: Final = SqlTable(
    "domain_fence",
    SCHEMA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
)


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
    """An appointment or role membership certificate: ours, or one that something here depends on.

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
    """A membership or a right depends on a fact, an appointment or another membership."""

    support: bytes
    dependent: bytes
    sort: str
    is_watched: int


@dataclass(frozen=True, slots=True)
class TesterRow:
    """Whose statements, of which kind, a certificate demands that something here depends on."""

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
class ReceivedRow:
    """What another issuer stated last, so that no older statement is accepted after a restart."""

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
class SubjectRow:
    """A subject of the identity provider; `attributes` are in their canonical form."""

    key: bytes
    number: int
    identifier: str
    attributes: bytes
    registered_by: bytes
    registered_at: int


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """An identity provider whose subjects get guest statements here, from `since` to `until`."""

    key: bytes
    number: int
    identifier: str
    trusted_by: bytes
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class TpmRow:
    """The TPM of a subject: its keys, what it is asked at present, and what its last quote was worth.

    `challenge` is the digest of a secret that only this TPM can open, until `is_bound`; `nonce` is
    empty where no quote is expected. `level` is 0 without a boot that counts.
    """

    subject: bytes
    endorsement: bytes
    key: bytes
    challenge: bytes
    is_bound: int
    nonce: bytes
    nonce_until: int
    resets: int
    clock_ms: int
    configuration: str
    level: int
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
RECEIVED: Final = Table("received", ReceivedRow, ("issuer", "number"))
AUDIT: Final = Table("audit", AuditRow, ("number",))
ANSWERS: Final = Table("answers", AnswerRow, ("actor", "key"), (("until",),))
SUBJECTS: Final = Table("subjects", SubjectRow, ("key",), (("number",), ("identifier",)))
PROVIDERS: Final = Table("providers", ProviderRow, ("key",), (("number",),))
TPMS: Final = Table("tpms", TpmRow, ("subject",), (("endorsement",), ("level", "subject")))


def valid_rights(now: Instant) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a right is neither revoked nor expired."""
    return RIGHTS.c.revoked_at.is_(None), RIGHTS.c.not_after >= now


def active_memberships(now: Instant) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a membership has neither ended nor expired."""
    return MEMBERSHIPS.c.ended_at.is_(None), MEMBERSHIPS.c.until >= now
