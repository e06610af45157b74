"""How do the brokers and servers of a scene come to run, and how does a reader come to its rights?

Each is a process of its own: `maia broker`, `maia domain serve`, and where a
database takes part, a PostgreSQL server of this run alone with `maia postgres
run`. The first broker records what it carries, and each keeps a ledger of what it
delivers. An
organisation registers what it knows of a reader over the HTTP interface of its
server; the reader logs in there, as `maia login` does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from maia.clock import system_now
from maia.credentials import (
    Principal,
    SignedStatement,
    certificate_from_bytes,
    certificate_to_text,
    statement_from_bytes,
)
from maia.demo.processes import (
    BROKER_FILE,
    CONNECTOR_FILE,
    DOMAIN_FILE,
    LOG_FOLDER,
    Child,
    Starting,
    home_of,
    start,
    stop_all,
    write_node,
)
from maia.demo.scenes.scene import HOLDER, Cast, Database, Organisation, Reader, Wallet
from maia.errors import Unavailable
from maia.expressions import NO_KEYS, TransformationKeys
from maia.keystore.lookup_tables import create_transformation_keys, load_transformation_keys
from maia.testing.postgres_server import postgres_binaries, running_server
from maia.types import definition_to_text

if TYPE_CHECKING:
    from maia.api.client import DomainClient
    from maia.api.requests import ApiArgument
    from maia.ledger.records import Disclosure


_LEDGER: Final = "ledger"
_SECRETS: Final = "transformations.key"
_STORED: Final = "stored"
_STATEMENTS_S: Final = 600
"""How long the list of what is revoked holds: longer than a scene takes, so that Spark finds it in force."""


class FactNotRetracted(Unavailable):
    """A fact was retracted at a server, and the network did not learn of it."""

    code = "UNAVAILABLE-FACT-NOT-RETRACTED"


@dataclass(slots=True)
class World:
    """All that runs."""

    cast: Cast
    folder: Path
    addresses: dict[str, str] = field(default_factory=dict)
    """Where each broker listens, and each server answers."""
    children: dict[str, Child] = field(default_factory=dict)
    database: str | None = None
    """How the PostgreSQL server of this run is reached."""

    @property
    def secrets(self) -> Path | None:
        """Return the file with the secrets of pseudonyms and noise, if the scene has any."""
        return self.folder / _SECRETS if self.cast.scene.secrets_of else None

    def transformation_keys(self) -> TransformationKeys:
        """Return the secrets, with which the kernel calculates what the brokers should."""
        return NO_KEYS if self.secrets is None else load_transformation_keys(self.secrets)

    def stop(self) -> None:
        """Stop all processes."""
        stop_all(list(self.children.values()))

    def disclosures(self) -> dict[Principal, list[Disclosure]]:
        """Return what the ledgers of all brokers, which have stopped, say about each recipient."""
        from maia.ledger.files import disclosures_in

        found: dict[Principal, list[Disclosure]] = {}
        for name in self.cast.scene.brokers:
            for one in disclosures_in(home_of(self.folder, name) / _LEDGER):
                found.setdefault(Principal(one.recipient), []).append(one)
        return found

    def kill(self, name: str) -> None:
        """End a process at once, as a power cut would."""
        self.children[name].kill()

    def start_again(self, name: str) -> None:
        """Start a process that was killed, and wait until it is ready."""
        begun = start(name, home_of(self.folder, name))
        self.children[name] = begun.process
        begun.address()

    # ------------------------------------------------------------ in the database; calls block

    def forget_row(self, row: tuple[str, str]) -> None:
        """Delete a row of the table that the database's queries ask."""
        one = self._declared()
        where = sql.SQL("DELETE FROM {} WHERE ({}, {}) = (%s, %s)")
        names = (sql.Identifier(name) for name in (one.table, *one.columns))
        self._execute(where.format(*names), row)

    def stored(self) -> int:
        """Return how many events the database has stored."""
        found = self._execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(_STORED)))
        return int(found[0][0])

    def make_table(self) -> None:
        """Make the table that the queries ask, with its rows."""
        one = self._declared()
        names = [sql.Identifier(name) for name in (one.table, *one.columns)]
        self._execute(sql.SQL("CREATE TABLE {} ({} text NOT NULL, {} text NOT NULL)").format(*names))
        for row in sorted(one.rows):
            self._execute(sql.SQL("INSERT INTO {} ({}, {}) VALUES (%s, %s)").format(*names), row)

    def _declared(self) -> Database:
        database = self.cast.scene.database
        assert database is not None  # noqa: S101 - only scenes with one ask
        return database

    # Any: rows of PostgreSQL have columns of any type.
    def _execute(self, statement: sql.Composed, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
        assert self.database is not None  # noqa: S101 - it runs while the scene does
        with psycopg.connect(self.database) as connection:
            found = connection.execute(statement, values)
            return found.fetchall() if found.description else []

    # ------------------------------------------------------------ at an organisation; calls block

    def register(self, reader: Reader) -> None:
        """Let a reader's organisation register what it knows of it."""
        from maia.api.requests import FactBody
        from maia.api.responses import News

        with self._calling(reader.organisation, reader.organisation) as office:
            for name, arguments in reader.facts:
                body = FactBody(name, self._arguments(reader, arguments))
                office.call("POST", "/v1/facts", body, answer=News)

    def retract(self, reader: Reader, name: str, arguments: Sequence[str]) -> SignedStatement:
        """Let the organisation withdraw a fact; return its statement about what has ended with it."""
        from maia.api.requests import FactBody
        from maia.api.responses import RevokedAnswer

        with self._calling(reader.organisation, reader.organisation) as office:
            body = FactBody(name, self._arguments(reader, arguments))
            fallen = office.call("POST", "/v1/facts/retraction", body, answer=RevokedAnswer)
            if fallen.statement is None or not office.last.is_published:
                raise FactNotRetracted(
                    f"no broker has acted on it that `{name}` of {reader.name} holds no more"
                )
        return statement_from_bytes(fallen.statement)

    def log_in(self, reader: Reader) -> Wallet:
        """Let a reader log in, and return what the policy gives it."""
        from maia.api.requests import LoginBody
        from maia.api.responses import WalletAnswer

        with self._calling(reader.organisation, reader.name) as office:
            found = office.call("POST", "/v1/login", LoginBody([]), answer=WalletAnswer)
        certificates = tuple(map(certificate_from_bytes, found.chains))
        return Wallet(certificates, tuple(map(statement_from_bytes, found.statements)))

    def _calling(self, organisation: str, who: str) -> DomainClient:
        from maia.api.client import DomainClient

        cast = self.cast
        return DomainClient(
            self.addresses[organisation], domain=cast.principal(organisation), key=cast.keys[who]
        )

    def _arguments(self, reader: Reader, arguments: Sequence[str]) -> list[ApiArgument]:
        from maia.api.requests import TypedArgument

        key = str(self.cast.principal(reader.name))
        return [TypedArgument(principal=key) if one is HOLDER else one for one in arguments]


@contextmanager
def world_at_work(cast: Cast, folder: Path) -> Iterator[World]:
    """Run the scene's brokers and servers while the body runs."""
    world = World(cast, folder)
    scene = cast.scene
    if scene.secrets_of is not None:
        create_transformation_keys(folder / _SECRETS, cast.principal(scene.secrets_of))
    with ExitStack() as stack:
        stack.callback(world.stop)
        first, *others = scene.brokers
        recorded = {one.type_name for one in scene.publishers}
        if scene.database is not None:
            world.database = stack.enter_context(running_server(postgres_binaries()))
            recorded |= {one.type_name for one in scene.database.derives}
        log = {"log.folder": LOG_FOLDER, "log.types": sorted(recorded)}
        world.addresses[first] = _start_broker(world, first, log).address()
        joining = {name: _start_broker(world, name, {"join": [world.addresses[first]]}) for name in others}
        world.addresses |= {name: one.address() for name, one in joining.items()}
        serving = {one.name: _start_server(world, one) for one in scene.organisations}
        world.addresses |= {name: one.interface() for name, one in serving.items()}
        if scene.database is not None:
            start_connector(world, scene.database)
        yield world


def start_connector(world: World, database: Database) -> None:
    """Install the connector in the database, run it, and wait until it is connected."""
    from maia.keystore.key_files import load_signing_key
    from maia.postgres import schema
    from maia.postgres.config import prepare, read_config
    from maia.postgres.values import connected

    home = home_of(world.folder, database.name)
    _write_types(world.cast, home)
    world.make_table()
    tables = [_table("store", {"name": _STORED, "definition": _type_file(database.stores), "table": _STORED})]
    for number, one in enumerate(database.derives):
        name = f"derived_{number}"
        tables.append(_table("release", {"name": name, "definition": _type_file(one.type_name)}))
        tables.append(_table("derive", {"store": _STORED, "release": name, "query": one.query}))
    settings = {"listen": None, "database": world.database, "broker": world.addresses[database.broker]}
    _write(world, database.name, CONNECTOR_FILE, settings, tables="".join(tables))
    config = read_config(home / CONNECTOR_FILE, flags={}, environment={})
    prepared = prepare(config, now=system_now(), open_key=load_signing_key)

    async def install() -> None:
        async with connected(config.database) as connection:
            await schema.install(connection, prepared, role="maia")

    asyncio.run(install())
    _started(world, database.name).address()


def _table(name: str, settings: Mapping[str, str]) -> str:
    return f"[[{name}]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())


def _type_file(name: str) -> str:
    return f"types/{name}.type"


def _start_broker(world: World, name: str, settings: Mapping[str, object]) -> Starting:
    home = home_of(world.folder, name)
    _write_types(world.cast, home)
    kept: dict[str, object] = {"ledger.folder": _LEDGER, "ledger.all": True}
    if world.secrets is not None:
        kept["transformation_keys"] = str(world.secrets)
    _write(world, name, BROKER_FILE, {"types": "types", **kept, **settings})
    return _started(world, name)


def _start_server(world: World, one: Organisation) -> Starting:
    home = home_of(world.folder, one.name)
    _write_types(world.cast, home)
    (home / "the.policy").write_text(one.policy, encoding="utf-8")
    held = world.cast.certificates[one.name][1:]
    for number, signed in enumerate(held):
        (home / f"held-{number}.cert").write_text(certificate_to_text(signed), encoding="utf-8")
    settings = {
        "api.listen": "127.0.0.1:0",
        "broker.addresses": [world.addresses[one.broker]],
        "policy.file": "the.policy",
        "policy.types": [_type_file(name) for name in world.cast.definitions],
        "policy.held": [f"held-{number}.cert" for number in range(len(held))],
        "statements.period_s": _STATEMENTS_S,
    }
    _write(world, one.name, DOMAIN_FILE, settings)
    return _started(world, one.name)


def _write_types(cast: Cast, home: Path) -> None:
    (home / "types").mkdir(parents=True)
    for name, definition in cast.definitions.items():
        (home / "types" / f"{name}.type").write_text(definition_to_text(definition), encoding="utf-8")


def _write(world: World, name: str, file: str, settings: Mapping[str, object], *, tables: str = "") -> None:
    cast = world.cast
    write_node(
        home_of(world.folder, name),
        file=file,
        key=cast.keys[name],
        network=cast.network,
        certificates=cast.certificates[name],
        settings=settings,
        tables=tables,
    )


def _started(world: World, name: str) -> Starting:
    begun = start(name, home_of(world.folder, name))
    world.children[name] = begun.process
    return begun
