"""Which tables are shown to which database roles, by whose certificates?

    database = "postgresql://records@db.example/hospital"
    [[tables]]
    table = "public.prescriptions"
    types = ["prescribe.type"]
    published_at = "published_at"
    [[readers]]
    principal = "auditor.pub"
    role = "auditor"
    credentials = ["certs"]

Everything is checked before the database is asked. An error names the file, the line and the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from maia.config.bounds_file import read_bounds
from maia.config.constitutions import read_constitutions
from maia.config.input_files import read_certificates, read_definition, read_principal
from maia.config.settings import (
    BadConfig,
    Mismatch,
    Paths,
    Positive,
    PrincipalWord,
    Secret,
    Text,
    Whole,
    build,
    from_file,
    settings_of,
)
from maia.credentials import SignedCertificate, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import AttributeUid, Instant
from maia.postgres.view_definitions import DeclaredTable
from maia.spark.governed.reader import Reader
from maia.types import VerifiedType, verify_definition


class TableConfig(Struct, frozen=True):
    """One `[[tables]]` table: where events of one type are stored."""

    table: Text
    """The table, such as `prescriptions` or `public.prescriptions`."""
    types: Paths
    """The type's definitions, the newest last."""
    name: Text | None = None
    """What views of it are called, after the role; the table's own name by default."""
    columns: Annotated[
        dict[str, str], Meta(description="attributes and columns, such as { patient = 'patient_id' }")
    ] = {}
    """Columns that are not called like their attribute."""
    published_at: Text | None = None
    """The column with the moment of publication: rows are shown by the right of that moment."""
    shown_as: Paths = ()
    """Definitions of types that rights may convert rows into."""
    plans: Literal["hidden", "open"] = "hidden"
    """Whether readers may see in plans and in the catalogue what their View asks of rows."""
    reads: Literal["off", "counted", "rows"] | None = None
    """What is on record of each read: nothing, how many rows, or which; counted if there is a ledger."""
    row_id: Text | None = None
    """With `reads = "rows"`: the column that names a row on record."""

    def __post_init__(self) -> None:
        """Refuse a table without a type, or with reads that cannot be on record."""
        if not self.types:
            raise Mismatch("types", "names no type definition")
        if (self.reads == "rows") is not (self.row_id is not None):
            raise Mismatch("row_id", 'names the column for `reads = "rows"`, and for no others')
        if self.plans == "open" and self.reads not in (None, "off"):
            raise Mismatch("reads", 'can be on record with `plans = "hidden"` alone')


class ReaderConfig(Struct, frozen=True):
    """One `[[readers]]` table: by which database role a principal reads, and with which certificates."""

    principal: PrincipalWord
    role: Text
    credentials: Paths
    tables: tuple[Text, ...] = ()
    """The tables that are shown, by their names; all of them by default."""


class ViewsConfig(Struct, frozen=True, kw_only=True):
    """The settings as the operator wrote them: words and paths, nothing opened yet."""

    database: Secret
    """How the owner of the views connects: an address, or words such as `dbname=hospital`."""
    tables: tuple[TableConfig, ...]
    readers: tuple[ReaderConfig, ...]
    schema: Text = "maia_views"
    """The schema of the views; it is made by the first `install`."""
    statements: Paths = ()
    """Validity statements, files and folders, beside those that testers are asked for."""
    bounds: Paths = ()
    """Files with bounds on what subscribers may ask for."""
    every_s: Positive = 5
    """How often `renew --watch` decides again."""
    lease_s: Whole = 0
    """How long a view shows rows unless it is renewed; 0 is until its right ends."""
    ledger: Path | None = None
    """A folder for the ledger, in which every view is on record."""
    owner: PrincipalWord | None = None
    """With a ledger: the domain that answers for the database, a key or .pub file."""


_KNOWN: Final = settings_of(ViewsConfig)


@dataclass(frozen=True, slots=True)
class ViewReader:
    """A principal, and the database role by which it reads which tables."""

    role: str
    reader: Reader
    tables: tuple[DeclaredTable, ...]
    problem: MaiaError | None = None
    """Why its certificates cannot be read: it then has no right, and the others have theirs."""


@dataclass(frozen=True, slots=True)
class PreparedViews:
    """Everything that the views are made from, read and verified."""

    config: ViewsConfig
    readers: tuple[ViewReader, ...]

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates of all readers, each once."""
        found = {one.id: one for reader in self.readers for one in reader.reader.credentials}
        return tuple(found.values())


def read_views_config(file: Path) -> ViewsConfig:
    """Read the file and check every value; raise BadConfig at the first wrong one."""
    settings = from_file(file, _KNOWN)
    for name in ("database", "tables", "readers"):
        if name not in settings:
            raise BadConfig(f"`{file}`: `{name}` is missing; views cannot be made without it")
    config = build(ViewsConfig, _KNOWN, settings)
    names = [_name_of(one) for one in config.tables]
    roles = [one.role for one in config.readers]
    for table, key, values in (("tables", "name", names), ("readers", "role", roles)):
        for number, value in enumerate(values, start=1):
            if value in values[: number - 1]:
                problem = f"number {number}: there is another one with the {key} `{value[:64]}`"
                raise settings[table].in_table(number, key).wrong(table, problem)
    if (config.ledger is None) is not (config.owner is None):
        raise BadConfig(f"`{file}`: give `ledger` and `owner` together: where views are on record, and whose")
    for number, one in enumerate(config.tables, start=1):
        if config.ledger is None and one.reads not in (None, "off"):
            problem = f"number {number}: reads are on record in a `ledger`, which is not named"
            raise settings["tables"].in_table(number, "reads").wrong("tables", problem)
    for number, reader in enumerate(config.readers, start=1):
        for name in reader.tables:
            if name not in names:
                problem = f"number {number}: there is no table `{name[:64]}`"
                raise settings["readers"].in_table(number, "tables").wrong("readers", problem)
    return config


def prepare_views(config: ViewsConfig, *, now: Instant) -> PreparedViews:
    """Read and verify the certificates and definitions that the settings name."""
    there = [path for one in config.readers for path in one.credentials if path.exists()]
    quorums, bounds = read_constitutions(there), tuple(read_bounds(config.bounds))
    tables = {_name_of(one): _declared(one, quorums, now) for one in config.tables}
    readers: list[ViewReader] = []
    for one in config.readers:
        certificates: tuple[SignedCertificate, ...] = ()
        problem: MaiaError | None = None
        try:
            certificates = tuple(read_certificates(list(one.credentials)))
        except MaiaError as found:
            problem = found
        reader = Reader(read_principal(one.principal), certificates, bounds=bounds, constitutions=quorums)
        shown = tuple(tables[name] for name in one.tables) or tuple(tables.values())
        readers.append(ViewReader(one.role, reader, shown, problem))
    return PreparedViews(config, tuple(readers))


def _name_of(table: TableConfig) -> str:
    return table.name or table.table.rpartition(".")[2]


def _declared(config: TableConfig, quorums: tuple[VerifiedConstitution, ...], now: Instant) -> DeclaredTable:
    versions: list[VerifiedType] = []
    try:
        for path in config.types:
            before = versions[-1] if versions else None
            definition = read_definition(path)
            versions.append(verify_definition(definition, at=now, previous=before, constitutions=quorums))
        results = map(read_definition, config.shown_as)
        others = [verify_definition(one, at=now, constitutions=quorums) for one in results]
    except MaiaError as problem:
        problem.add_note(f"for the table `{config.table}`")
        raise
    named: dict[AttributeUid, str] = {}
    for attribute in (each for version in versions for each in version.attributes):
        named[attribute.uid] = config.columns.get(attribute.name, attribute.name)
    known = {each.name for version in versions for each in version.attributes}
    for name in config.columns:
        if name not in known:
            raise BadConfig(f"`{name[:64]}` in `columns` of `{config.table}` is no attribute")
    schema, _, table = config.table.rpartition(".")
    return DeclaredTable(
        _name_of(config),
        (schema or "public", table),
        tuple(versions),
        columns=named,
        published_at=config.published_at,
        shown_as=tuple(others),
        hides_plans=config.plans == "hidden",
        records_reads=config.reads != "off" and config.plans == "hidden",
        row_id=config.row_id,
    )
