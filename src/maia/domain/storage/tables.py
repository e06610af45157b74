"""Which tables does a domain keep?

Moments are microseconds; `FOR_EVER` is kept where there is no end. Principals
are their 32 bytes. Signed documents are kept as the bytes that were signed,
beside the few fields by which they are found. Columns are made of the fields
of the row classes, so that a row and its table cannot disagree; texts compare
by code point in every database, as everywhere else in Maia.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType
from typing import Any, ClassVar, Final, TypeVar, dataclass_transform, get_args, get_type_hints

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
    Select,
    Table,
    Text,
    bindparam,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import ReadOnlyColumnCollection
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

ALL_TABLES: Final[list[type[TableRow]]] = []


class TableRow:
    """A row of a table of SQL. The class stands for the table; `c` are the columns of SQLAlchemy."""

    __slots__ = ()
    sql: ClassVar[Table]
    c: ClassVar[ReadOnlyColumnCollection[str, Column[Any]]]
    primary: ClassVar[tuple[Column[Any], ...]]
    by_key: ClassVar[Select[Any]]
    """The one statement that is asked all the time, built once."""

    @classmethod
    @cache
    def upsert(cls, dialect: str) -> Executable:
        """Return the statement that puts rows in the places of those with the same keys."""
        statement = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(cls.sql)
        changed = {one.name: statement.excluded[one.name] for one in cls.c if not one.primary_key}
        if not changed:
            return statement.on_conflict_do_nothing(index_elements=cls.primary)
        return statement.on_conflict_do_update(index_elements=cls.primary, set_=changed)


_Row = TypeVar("_Row", bound=TableRow)


@dataclass_transform(frozen_default=True)
def table(name: str, *, key: str, indexes: str = "") -> Callable[[type[_Row]], type[_Row]]:
    """Make a table with a column for each field; an index names fields that are asked together."""

    def made(row: type[_Row]) -> type[_Row]:
        row = dataclass(frozen=True, slots=True)(row)
        called, hints = f"domain_{name}", get_type_hints(row)
        row.sql = Table(
            called,
            SCHEMA,
            *(_column(one.name, hints[one.name]) for one in fields(row)),  # type: ignore[arg-type]
            PrimaryKeyConstraint(*key.split()),
            *(
                Index(f"{called}_by_{'_'.join(index.split())}", *index.split())
                for index in indexes.split(",")
                if index
            ),
            sqlite_with_rowid=False,
        )
        row.c, row.primary = row.sql.c, tuple(row.sql.c[part] for part in key.split())
        matches = (column == bindparam(f"key_{place}") for place, column in enumerate(row.primary))
        row.by_key = select(row.sql).where(*matches)
        ALL_TABLES.append(row)
        return row

    return made


def _column(name: str, annotation: object) -> Column[Any]:  # `Any`: a cell of any class
    kinds = get_args(annotation) or (annotation,)
    (kind,) = (one for one in kinds if one is not NoneType)
    return Column(name, _COLUMN_TYPES[kind], nullable=NoneType in kinds, autoincrement=False)


FENCE: Final = Table(
    "domain_fence",
    SCHEMA,
    Column("one", Integer, primary_key=True, autoincrement=False),
    Column("generation", BigInteger, nullable=False),
    Column("version", Integer, nullable=False),
)


@table("meta", key="name")
class MetaRow(TableRow):
    """A number and some bytes of which there is one: the next sequence, the head of the audit."""

    name: str
    number: int
    data: bytes


@table("policies", key="version")
class PolicyRow(TableRow):
    """A policy that was put in force, with the texts and the types that it was read with."""

    version: int
    text: str
    read_with: bytes
    digest: bytes
    loaded_by: bytes
    loaded_at: int


@table("types", key="id", indexes="number, owner name version")
class TypeRow(TableRow):
    """A version of an event type."""

    id: bytes
    number: int
    owner: str
    name: str
    version: str
    definition: bytes
    registered_at: int


@table(
    "rights",
    key="id",
    indexes="number, subject number, about subject, membership, kind number, is_revalidated id, rule number, "
    "issuer kind, not_after",
)
class RightRow(TableRow):
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
    certificate: bytes
    registered_by: bytes
    registered_at: int
    membership: bytes = b""
    rule: str = ""
    granted: bytes = b""
    is_revalidated: int = 0
    revoked_at: int | None = None
    reason: str = ""


@table(
    "appointments", key="id", indexes="number, holder number, kind number, name number, membership, not_after"
)
class AppointmentRow(TableRow):
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
    revoked_at: int | None = None
    reason: str = ""


@table("facts", key="name digest")
class FactRow(TableRow):
    """A fact that holds; `digest` is one of its arguments in their canonical form."""

    name: str
    digest: bytes
    arguments: bytes
    since: int


@table("fact_arguments", key="name position value digest", indexes="name digest")
class FactArgumentRow(TableRow):
    """One argument of a fact, so that facts are found by any one of them."""

    name: str
    position: int
    value: bytes
    digest: bytes


@table("memberships", key="id", indexes="number, principal number, role number, way until, until")
class MembershipRow(TableRow):
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
    ended_at: int | None = None
    reason: str = ""


@table("supports", key="support dependent", indexes="dependent")
class SupportRow(TableRow):
    """A membership or a right depends on a fact, an appointment or another membership."""

    support: bytes
    dependent: bytes
    sort: str
    is_watched: int


@table("testers", key="kind tester certificate", indexes="tester, certificate")
class TesterRow(TableRow):
    """Whose statements, of which kind, a certificate demands that something here depends on."""

    kind: str
    tester: bytes
    certificate: bytes


@table("witnessed", key="issuer length digest")
class WitnessRow(TableRow):
    """What another domain once stated about its audit: how long it was, and its digest."""

    issuer: bytes
    length: int
    digest: bytes
    sequence: int
    heard_at: int


@table("revoked", key="id", indexes="not_after")
class RevokedRow(TableRow):
    """The id of a certificate that every list names until the certificate has expired."""

    id: bytes
    not_after: int
    revoked_at: int


@table("statements", key="number", indexes="sort number, not_after")
class StatementRow(TableRow):
    """A statement of this domain, in the order of signing; a plain list has no period."""

    number: int
    sort: str
    signed: bytes
    not_before: int | None
    not_after: int | None
    signed_at: int


@table("received", key="issuer number")
class ReceivedRow(TableRow):
    """What another issuer stated last, so that no older statement is accepted after a restart."""

    issuer: bytes
    number: int
    record: bytes


@table("audit", key="number")
class AuditRow(TableRow):
    """One record of the audit."""

    number: int
    body: bytes
    previous: bytes
    digest: bytes


@table("answers", key="actor key", indexes="until")
class AnswerRow(TableRow):
    """The answer to a request with an idempotency key."""

    actor: bytes
    key: str
    request: bytes
    answer: bytes
    until: int


@table("subjects", key="key", indexes="number, identifier")
class SubjectRow(TableRow):
    """A subject of the identity provider; `attributes` are in their canonical form."""

    key: bytes
    number: int
    identifier: str
    attributes: bytes
    registered_by: bytes
    registered_at: int


@table("proved", key="subject")
class ProvedRow(TableRow):
    """What a subject's last quote proved beside its level: a scan, properties; in their canonical form."""

    subject: bytes
    attributes: bytes


@table("subject_certificates", key="key")
class SubjectCertificateRow(TableRow):
    """The X.509 certificates that a subject was registered by, its own first; `name` is what that says."""

    key: bytes
    name: str
    chain: bytes


@table("providers", key="key", indexes="number")
class ProviderRow(TableRow):
    """An identity provider whose subjects get guest statements here, from `since` to `until`."""

    key: bytes
    number: int
    identifier: str
    trusted_by: bytes
    since: int
    until: int


@table("tpms", key="subject", indexes="endorsement, level subject")
class TpmRow(TableRow):
    """The TPM of a subject: its keys, what it is asked at present, and what its last quote was worth.

    `challenge` is the digest of a secret that only this TPM can open, until `is_bound`; `nonce` is
    empty where no quote is expected. `level` is 0 without a boot that counts.
    """

    subject: bytes
    endorsement: bytes
    key: bytes
    challenge: bytes
    is_bound: int = 0
    nonce: bytes = b""
    nonce_until: int = 0
    resets: int = 0
    clock_ms: int = 0
    configuration: str = ""
    level: int = 0
    until: int = 0


def valid_rights(now: Instant) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a right is neither revoked nor expired."""
    return RightRow.c.revoked_at.is_(None), RightRow.c.not_after >= now


def active_memberships(now: Instant) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a membership has neither ended nor expired."""
    return MembershipRow.c.ended_at.is_(None), MembershipRow.c.until >= now
