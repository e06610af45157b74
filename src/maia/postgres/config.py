"""What shall a connector store and release, and can it?

    database = "postgresql://connector@/clinic"     or MAIA_POSTGRES_DATABASE
    broker = "127.0.0.1:7400"

    [[store]]                                       events of a type land in a table
    name = "prescribed"
    definition = "prescribe.type"
    table = "prescribed"

    [[release]]                                     rows of a table become events of a type
    name = "prescriptions"
    definition = "prescription.type"
    table = "prescriptions"

    [[derive]]                                      events of events, in the transaction that stores them
    store = "prescribed"
    release = "prescriptions"
    query = "SELECT patient, drug FROM arrived JOIN treats USING (doctor, patient)"

Everything that can be checked without the database is checked before anything is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from maia.client.errors import BadDurableName, check_durable_name
from maia.config.constitutions import read_constitutions
from maia.config.input_files import read_certificates, read_definitions, read_owner
from maia.config.settings import (
    Addresses,
    BadConfig,
    Defaults,
    Loopback,
    Mismatch,
    OutsideMetrics,
    Paths,
    PrincipalWord,
    Secret,
    Text,
    WrittenConfig,
    build,
    gather,
    settings_of,
)
from maia.config.start_checks import check_folder, opened
from maia.credentials import NetworkName, SignedCertificate, SigningKey, VerifiedConstitution
from maia.events import Attribute, Instant, Kind
from maia.predicates import Predicate, parse_predicate
from maia.types import SignedDefinition, VerifiedType, verify_definition

_NAME: Final = r"[a-z][a-z0-9_]{0,29}"
_PART: Final = r"[A-Za-z_][A-Za-z0-9_$]{0,62}"
_COLUMN: Final = r"[A-Za-z_][A-Za-z0-9_$-]{0,62}"

Name = Annotated[
    str, Meta(pattern=rf"^{_NAME}\Z", description="1 to 30 of `a-z 0-9 _`, and a letter at the beginning")
]
SchemaName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_]{0,15}\Z", description="1 to 16 of `a-z 0-9 _`, beginning with a letter"),
]
Table = Annotated[
    str,
    Meta(
        pattern=rf"^{_PART}(?:\.{_PART})?\Z",
        description="a table such as `alarms` or `shop.alarms`, in the case in which PostgreSQL knows it",
    ),
]
ColumnWord = Annotated[
    str, Meta(pattern=rf"^{_COLUMN}={_COLUMN}\Z", description="ATTRIBUTE=COLUMN such as `numberplate=plate`")
]


# ------------------------------------------------------------ what the operator writes


class StoreSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a type land in a table."""

    name: Name
    definition: Paths
    """The definition of the type, after those that it was made from."""
    table: Table
    filter: Text = "true"
    """Which events, in the filter language."""
    shown_as: Paths = ()
    """The type that the connector's right converts events into, if it does."""
    durable: Text = ""
    """The name of the durable subscription; default: `postgres/NAME`."""
    operation: Text | None = None
    """The attribute that says `insert`, `delete` or `truncate`: the table is then a replica."""


class ReleaseSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table become events of a type."""

    name: Name
    definition: Paths
    table: Table | None = None
    """The table whose rows are released; without one, only derived events are."""
    on: tuple[Literal["insert", "update", "delete", "truncate"], ...] = ("insert",)
    """Which writes release a row."""
    operation: Text | None = None
    """The attribute that says `insert`, `delete` or `truncate`; deletes are not released without one."""
    columns: tuple[ColumnWord, ...] = ()
    """ATTRIBUTE=COLUMN where the table calls an attribute differently."""
    filter: Text = "true"
    """Advertise no more than this."""

    def __post_init__(self) -> None:
        taken_away = [one for one in self.on if one in ("delete", "truncate")]
        if taken_away and self.operation is None:
            problem = f"`{taken_away[0]}` needs `operation`: an attribute of the type that says what happened"
            raise Mismatch("on", problem)


class DeriveSetting(msgspec.Struct, frozen=True, kw_only=True):
    """A query makes events of events, and the transaction that stores these releases those."""

    store: Name
    release: Name
    query: Text
    """One SELECT whose columns are called as attributes are; `arrived` are the rows just stored."""

    def __post_init__(self) -> None:
        if ";" in self.query.rstrip().rstrip(";"):
            raise Mismatch("query", "is one SELECT, without `;`")


class PostgresConfig(WrittenConfig, frozen=True, kw_only=True):
    """One connector's settings as the operator wrote them: words and paths, nothing opened yet."""

    database: Secret
    """How PostgreSQL is reached: a URL or key words. It can hold a password."""
    key: Path
    """The connector's signing key: what it stores and releases is under this principal's rights."""
    network: Text
    coordinator: PrincipalWord
    credentials: Paths
    """Certificates and constitutions of quorums: files, and folders of *.cert and *.quorum."""
    broker: Addresses
    """The broker, or several of the organisation; they must record the types that are stored and released."""
    data: Path
    """A folder, not on the database's disk, which says what has left the database."""
    schema: SchemaName = "maia"
    """The schema of the connector's own tables."""
    store: tuple[StoreSetting, ...] = ()
    release: tuple[ReleaseSetting, ...] = ()
    derive: tuple[DeriveSetting, ...] = ()
    status: Loopback = "127.0.0.1:0"
    """Where to answer /health, /ready, /metrics and /status; loopback only; `off` for nowhere."""
    metrics: OutsideMetrics = "off"
    """Where other machines may ask for /health, /ready and /metrics: numbers, in the clear, for everyone."""


_OWN: Final = settings_of(PostgresConfig)
_NEEDED: Final = tuple(one.encode_name for one in msgspec.structs.fields(PostgresConfig) if one.required)


def read_config(
    file: Path | None,
    *,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    defaults: Defaults | None = None,
) -> PostgresConfig:
    """Put the three sources together and check every value; raise BadConfig at the first wrong one."""
    settings = gather(
        _OWN, file=file, environment=environment, prefix="MAIA_POSTGRES_", flags=flags, defaults=defaults
    )
    for name in _NEEDED:
        if name not in settings:
            where = "the options" if file is None else f"`{file}`"
            raise BadConfig(f"{where}: `{name}` is missing; a connector cannot run without it")
    origins = {name: one.origin for name, one in settings.items()}
    config = build(PostgresConfig, _OWN, settings, origins=origins)
    for name, declared in (("store", config.store), ("release", config.release)):
        names = [one.name for one in declared]
        for one in names:
            if names.count(one) > 1:
                raise config.wrong(name, f"declares `{one}` twice")
    for derived in config.derive:
        if derived.store not in {one.name for one in config.store}:
            raise config.wrong("derive", f"names `{derived.store}`, which no `[[store]]` declares")
        if any(one.name == derived.store and one.operation is not None for one in config.store):
            raise config.wrong(
                "derive", f"names `{derived.store}`, which is a replica: nothing is derived of it"
            )
        if derived.release not in {one.name for one in config.release}:
            raise config.wrong("derive", f"names `{derived.release}`, which no `[[release]]` declares")
    if not config.broker:
        raise config.wrong("broker", "names no broker")
    if not config.store and not config.release:
        where = f"`{file}`"
        raise BadConfig(f"{where}: nothing is declared; write `[[store]]` or `[[release]]`")
    return config


# ------------------------------------------------------------ what it means


@dataclass(frozen=True, slots=True)
class TableName:
    """A table with its schema."""

    schema: str
    table: str

    def __str__(self) -> str:
        """Return the name as people write it."""
        return f"{self.schema}.{self.table}"


def _table_named(word: str) -> TableName:
    schema, _, table = word.rpartition(".")
    return TableName(schema or "public", table)


@dataclass(frozen=True, slots=True)
class TableStore:
    """A subscription whose events land in a table."""

    name: str
    history: tuple[SignedDefinition, ...] = field(repr=False)
    event_type: VerifiedType = field(repr=False)
    """The type in whose names events arrive."""
    filter: Predicate
    table: TableName
    durable: str
    shown_as: tuple[SignedDefinition, ...] = field(default=(), repr=False)
    derived: tuple[tuple[str, str], ...] = ()
    """Release and query of each derivation."""
    operation: str | None = None
    """The attribute that says what was done to a row, if the table is a replica."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Return the attributes that are the table's columns."""
        return tuple(one for one in self.event_type.attributes if one.name != self.operation)


@dataclass(frozen=True, slots=True)
class Release:
    """An advertisement whose events come out of a table, or of derivations."""

    name: str
    history: tuple[SignedDefinition, ...] = field(repr=False)
    event_type: VerifiedType = field(repr=False)
    filter: Predicate
    table: TableName | None
    on: tuple[str, ...]
    columns: Mapping[str, str]
    """The table's column for each attribute, by name; the operation has none."""
    operation: str | None = None
    """The attribute that says what was done to the row."""


@dataclass(frozen=True, slots=True)
class PreparedConnector:
    """Everything that a connector needs, opened and checked; only `prepare` makes one."""

    config: PostgresConfig
    key: SigningKey = field(repr=False)
    network: NetworkName
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(repr=False)
    stores: tuple[TableStore, ...]
    releases: tuple[Release, ...]


def prepare(
    config: PostgresConfig, *, now: Instant, open_key: Callable[[Path], SigningKey]
) -> PreparedConnector:
    """Open and check whatever the configuration names; raise at the first thing that is wrong."""
    key = opened(config, "key", lambda: open_key(config.key))
    coordinator = opened(config, "coordinator", lambda: read_owner(config.coordinator))
    network = opened(config, "network", lambda: NetworkName(coordinator, config.network))
    credentials = tuple(opened(config, "credentials", lambda: read_certificates(config.credentials)))
    constitutions = opened(config, "credentials", lambda: read_constitutions(config.credentials))
    check_folder(config, "data", config.data)

    def typed(table: str, paths: Paths) -> tuple[tuple[SignedDefinition, ...], VerifiedType]:
        history = opened(config, table, lambda: tuple(read_definitions(paths)))
        event_type = opened(config, table, lambda: verified_history(history, now, constitutions))
        for attribute in event_type.attributes:
            if attribute.name.startswith("maia_"):
                raise config.wrong(table, f"cannot have the attribute `{attribute.name}`: `maia_…` is taken")
        return history, event_type

    stores = []
    for one in config.store:
        history, event_type = typed("store", one.definition)
        shown, arrives_as = typed("store", one.shown_as) if one.shown_as else ((), event_type)
        durable = one.durable or f"postgres/{one.name}"
        try:
            check_durable_name(durable)
        except BadDurableName as problem:
            raise config.wrong("store", problem.message) from problem
        stores.append(
            TableStore(
                one.name,
                history,
                arrives_as,
                _filter(config, "store", one.filter, arrives_as),
                _table_named(one.table),
                durable,
                shown,
                tuple(
                    (derived.release, derived.query.rstrip().rstrip(";"))
                    for derived in config.derive
                    if derived.store == one.name
                ),
                _operation(config, "store", one.operation, arrives_as),
            )
        )
    releases = []
    for declared in config.release:
        history, event_type = typed("release", declared.definition)
        releases.append(
            Release(
                declared.name,
                history,
                event_type,
                _filter(config, "release", declared.filter, event_type),
                None if declared.table is None else _table_named(declared.table),
                tuple(sorted(set(declared.on))),
                _columns(config, declared, event_type),
                _operation(config, "release", declared.operation, event_type),
            )
        )
    return PreparedConnector(config, key, network, credentials, constitutions, tuple(stores), tuple(releases))


def verified_history(
    history: Sequence[SignedDefinition], now: Instant, constitutions: tuple[VerifiedConstitution, ...]
) -> VerifiedType:
    """Verify a definition after those it was made from; return the last."""
    found: VerifiedType | None = None
    for signed in history:
        found = verify_definition(signed, at=now, previous=found, constitutions=constitutions)
    if found is None:
        raise BadConfig("no definition is named")
    return found


def _filter(config: PostgresConfig, table: str, text: str, event_type: VerifiedType) -> Predicate:
    return opened(config, table, lambda: parse_predicate(text, event_type.vocabulary))


def _columns(config: PostgresConfig, declared: ReleaseSetting, event_type: VerifiedType) -> dict[str, str]:
    columns = {attribute.name: attribute.name for attribute in event_type.attributes}
    for word in declared.columns:
        attribute, _, column = word.partition("=")
        if attribute not in columns:
            raise config.wrong(
                "release", f"`{declared.name}` names `{attribute}`, which its type does not have"
            )
        columns[attribute] = column
    if declared.operation is not None:
        columns.pop(declared.operation, None)
    return columns


def _operation(config: PostgresConfig, table: str, name: str | None, event_type: VerifiedType) -> str | None:
    """Return the attribute that says what was done to a row, if one does; it is a string of the type."""
    found = None if name is None else event_type.vocabulary.get(name)
    if name is not None and (found is None or found.kind is not Kind.STRING):
        raise config.wrong(
            table, f"`operation` is `{name}`, which is no attribute of kind string of its type"
        )
    return name
