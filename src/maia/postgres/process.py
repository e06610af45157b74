"""How does one connector live as a process of its own?

`maia postgres run` prepares it and calls `serve` here. Each store and each release has a connection to
the database of its own. When the database or the broker goes away, all that is lost is time: everything
begins again where the database says it was. A transaction of an earlier connection may still end meanwhile;
each transaction here is void unless the state is the one that it was begun with.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import psycopg
from psycopg import sql

from maia.back_off import doubled, jittered
from maia.broker.server.process import watching
from maia.client.api.client import Client, connect
from maia.config.input_files import read_principal
from maia.credentials import Principal, SignedCertificate
from maia.errors import MaiaError, Unavailable
from maia.net.observer import Records
from maia.net.process import own_folder, until_told_to_stop
from maia.net.status_endpoint import StatusSource, answering
from maia.postgres.broker_links import LOOK_S, BrokerLink
from maia.postgres.config import PreparedConnector
from maia.postgres.outbox import ConnectorInUse
from maia.postgres.positions import (
    DatabaseIdentity,
    NotInstalled,
    Positions,
    RestoredDatabase,
    bind,
    identity_of,
)
from maia.postgres.release import ReleaseTask
from maia.postgres.schema import channel, installed_releases
from maia.postgres.store import StoreNumbers, StoreTask
from maia.postgres.values import Connection, connected, database_problem, rows_of

_AGAIN_S: Final = 0.2
_AGAIN_MOST_S: Final = 30.0
_REPORT_S: Final = 60.0
_KEEP_S: Final = 60.0
"""How long rows are kept that a broker has taken on, if there is another one: what the first has not passed
on when it is lost leaves again."""
_FATAL: Final = (RestoredDatabase, NotInstalled)

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Running:
    """A connector that is ready."""

    broker: str
    principal: str
    stores: tuple[str, ...]
    releases: tuple[str, ...]


class _ConnectorTask(Protocol):
    """A store or a release."""

    name: str
    is_serving: asyncio.Event
    problem: MaiaError | None

    async def serve(self, connection: Connection, schema: str, incarnation: str) -> None:
        """Work until the connection or the right ends."""

    async def give_up(self) -> None:
        """Withdraw from the broker."""


async def serve(prepared: PreparedConnector, records: Records, ready: Callable[[Running], None]) -> None:
    """Run a connector until SIGTERM or Ctrl-C; what is under way then is done when it starts again."""
    with own_folder(prepared.config.data, records):
        working = asyncio.create_task(_work(prepared, records, ready))
        stopping = asyncio.create_task(until_told_to_stop())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (working, stopping):
            task.cancel()
        ended, _ = await asyncio.gather(working, stopping, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended


async def _work(prepared: PreparedConnector, records: Records, ready: Callable[[Running], None]) -> None:
    positions = Positions(prepared.config.data)
    identity = await _again(lambda: _identity(prepared, positions), records, "database")
    links = [BrokerLink(one, identity.brokers.get(one, one)) for one in prepared.config.broker]
    stores = [
        StoreTask(one, link=link, links=links, numbers=numbers, positions=positions, records=records)
        for one, numbers in ((one, StoreNumbers()) for one in prepared.stores)
        for link in links
    ]
    keep_s = _KEEP_S if len(links) > 1 else 0.0
    releases = [
        ReleaseTask(one, links=list(links), positions=positions, records=records, keep_s=keep_s)
        for one in prepared.releases
    ]
    tasks: Sequence[_ConnectorTask] = [*stores, *releases]
    try:
        async with asyncio.TaskGroup() as connections:
            for link in links:
                connections.create_task(_stay_connected(link, prepared, identity, records))
            await _first_client(links)
            try:
                answers = _answering(prepared, links, stores, releases, records)
                async with answers, asyncio.TaskGroup() as group:
                    for task in tasks:
                        group.create_task(_run(task, prepared, identity, records))
                    group.create_task(_listen(prepared, releases, records))
                    group.create_task(_report(stores, releases, records))
                    while not _is_ready(links, stores, releases):
                        await asyncio.sleep(LOOK_S)
                    names = (
                        tuple(one.name for one in prepared.stores),
                        tuple(one.name for one in prepared.releases),
                    )
                    broker = next((one.key for one in links if one.is_up), links[0].key)
                    ready(Running(broker, str(prepared.key.principal), *names))
            finally:
                await asyncio.gather(*(task.give_up() for task in tasks))
    except BaseExceptionGroup as problems:
        first: BaseException = problems
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _first_client(links: Sequence[BrokerLink]) -> None:
    waiting = [asyncio.create_task(one.has_client.wait()) for one in links]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waiting:
            one.cancel()


def _is_ready(
    links: Sequence[BrokerLink], stores: Sequence[StoreTask], releases: Sequence[ReleaseTask]
) -> bool:
    """Return whether every release is published, and every store served by one broker."""
    served = [stores[start : start + len(links)] for start in range(0, len(stores), len(links))]
    return (
        any(one.is_up for one in links)
        and all(any(one.is_serving.is_set() for one in some) for some in served)
        and all(one.is_serving.is_set() for one in releases)
    )


# ------------------------------------------------------------ the database


async def _identity(prepared: PreparedConnector, positions: Positions) -> DatabaseIdentity:
    async with connected(prepared.config.database) as connection:
        identity = await identity_of(connection, prepared.config.schema)
        positions.check(identity)
        await _check_installed(connection, prepared)
        return identity


async def _check_installed(connection: Connection, prepared: PreparedConnector) -> None:
    schema = prepared.config.schema
    found = await rows_of(connection, "SELECT name FROM {s}.stores", s=sql.Identifier(schema))
    stores = {name for (name,) in found}
    releases = await installed_releases(connection, schema)
    for declared, known in ((prepared.stores, stores), (prepared.releases, releases)):
        missing = [one.name for one in declared if one.name not in known]
        if missing:
            raise NotInstalled(
                f"`{missing[0]}` of the file is not in the database: run `maia postgres install`"
            )


async def _bind(prepared: PreparedConnector, address: str, broker: str) -> None:
    config = prepared.config
    async with connected(config.database) as connection:
        await bind(connection, config.schema, address=address, broker=broker, addresses=config.broker)


async def _run(
    task: _ConnectorTask,
    prepared: PreparedConnector,
    identity: DatabaseIdentity,
    records: Records,
) -> None:
    """Let one store or release work, again and again."""
    failures = 0
    config, loop = prepared.config, asyncio.get_running_loop()
    while True:
        if isinstance(task, StoreTask):
            await task.link.has_client.wait()
        began = loop.time()
        try:
            async with connected(config.database, is_queue=isinstance(task, ReleaseTask)) as connection:
                found = await identity_of(connection, config.schema)
                if found.incarnation != identity.incarnation or found.is_copy:
                    raise RestoredDatabase("the database was replaced by another while the connector ran")
                records.note("serving", {"task": task.name})
                task.problem = None
                await task.serve(connection, config.schema, identity.incarnation)
        except _FATAL:
            raise
        except MaiaError as problem:
            if not isinstance(problem, ConnectorInUse):
                await task.give_up()
            task.problem = problem
        except (psycopg.Error, OSError) as problem:
            task.problem = _shown(problem)
        task.is_serving.clear()
        if task.problem is not None:
            records.note("failed", {"task": task.name, **task.problem.as_record()})
        failures = failures + 1 if loop.time() - began < _AGAIN_MOST_S else 1
        await _pause(failures)


async def _listen(prepared: PreparedConnector, releases: Sequence[ReleaseTask], records: Records) -> None:
    """Wake the releases whenever a transaction that releases something has committed."""
    if not releases:
        return
    failures = 0
    while True:
        try:
            async with connected(prepared.config.database) as connection:
                name = sql.Identifier(channel(prepared.config.schema))
                await connection.execute(sql.SQL("LISTEN {}").format(name))
                failures = 0
                for task in releases:
                    task.woken.set()
                async for _ in connection.notifies():
                    for task in releases:
                        task.woken.set()
        except (psycopg.Error, OSError) as problem:
            records.note("failed", {"task": "listener", **_shown(problem).as_record()})
        failures += 1
        await _pause(failures)


def _shown(problem: psycopg.Error | OSError) -> MaiaError:
    if isinstance(problem, psycopg.Error):
        return database_problem(problem)
    return Unavailable("UNAVAILABLE-POSTGRES", f"the connection failed: {type(problem).__name__}")


# ------------------------------------------------------------ the broker


async def _stay_connected(
    link: BrokerLink, prepared: PreparedConnector, identity: DatabaseIdentity, records: Records
) -> None:
    """Be connected to one broker; if it refuses the connector, go on with the others, if there are any."""
    failures = 0
    while True:
        try:
            if link.address not in identity.brokers or identity.may_rebind:
                # The first time, the broker that answers is the one, and no other from then on.
                async with _client(prepared, records, link.address, None) as client:
                    answering = str(client.broker)
                await _again(lambda: _bind(prepared, link.address, answering), records, "database")  # noqa: B023 - awaited
                link.key = answering
            async with _client(prepared, records, link.address, read_principal(link.key)) as client:
                link.client = client
                link.has_client.set()
                await _renew(prepared, client, records)
        except MaiaError as problem:
            if len(prepared.config.broker) == 1:
                raise
            records.note("failed", {"task": f"broker {link.address}", **problem.as_record()})
        failures += 1
        await _pause(failures)


@asynccontextmanager
async def _client(
    prepared: PreparedConnector, records: Records, address: str, broker: Principal | None
) -> AsyncIterator[Client]:
    """Connect to a broker; one that is away is waited for, one that refuses the connector is not."""
    failures = 0
    while True:
        async with AsyncExitStack() as stack:
            connecting = connect(
                address,
                key=prepared.key,
                network=prepared.network,
                credentials=prepared.credentials,
                constitutions=prepared.constitutions,
                brokers=None if broker is None else [broker],
            )
            try:
                client = await stack.enter_async_context(connecting)
            except Unavailable as problem:
                records.note("failed", {"task": "broker", **problem.as_record()})
            else:
                yield client
                return
        failures += 1
        await _pause(failures)


async def _renew(prepared: PreparedConnector, client: Client, records: Records) -> None:
    """Show certificates that were put into the folder meanwhile."""
    shown = {one.id for one in prepared.credentials}
    fresh: asyncio.Queue[tuple[SignedCertificate, ...]] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(watching(prepared.config.credentials, fresh.put_nowait, records))
        while True:
            found = [one for one in await fresh.get() if one.id not in shown]
            try:
                await client.show(found)
            except MaiaError as problem:
                records.note("failed", {"task": "credentials", **problem.as_record()})
                continue
            shown.update(one.id for one in found)
            records.note("credentials-shown", {"certificates": len(found)})


# ------------------------------------------------------------ small change


@asynccontextmanager
async def _answering(
    prepared: PreparedConnector,
    links: Sequence[BrokerLink],
    stores: Sequence[StoreTask],
    releases: Sequence[ReleaseTask],
    records: Records,
) -> AsyncIterator[None]:
    """Answer /health, /ready, /metrics and /status, while the body runs."""
    config = prepared.config

    def is_ready() -> bool:
        return _is_ready(links, stores, releases)

    def state(task: _ConnectorTask, done: int) -> dict[str, object]:
        problem = None if task.problem is None else task.problem.as_record()
        return {"serving": task.is_serving.is_set(), "events": done, "problem": problem}

    def status() -> dict[str, object]:
        return {
            "principal": str(prepared.key.principal),
            "network": prepared.network.name,
            "address": ", ".join(config.broker),
            "broker": next((one.key for one in links if one.is_up), None),
            "brokers": {one.address: one.key if one.is_up else None for one in links},
            "tasks": {
                **{one.name: state(one, one.stored) for one in stores},
                **{one.name: state(one, one.published) for one in releases},
            },
        }

    def metrics() -> bytes:
        numbers = {
            "maia_postgres_events_stored_total": sum(one.stored for one in stores),
            "maia_postgres_rows_released_total": sum(one.published for one in releases),
            "maia_postgres_ready": int(is_ready()),
        }
        return "".join(f"{name} {number}\n" for name, number in numbers.items()).encode()

    source = StatusSource(is_ready, metrics, status)
    async with answering(source, config.status, config.data, metrics=config.metrics, records=records):
        yield


async def _report(stores: Sequence[StoreTask], releases: Sequence[ReleaseTask], records: Records) -> None:
    """Write one line a minute about what was done in it."""
    before = (0, 0)
    while True:
        await asyncio.sleep(_REPORT_S)
        now = sum(one.stored for one in stores), sum(one.published for one in releases)
        if now != before:
            records.note("worked", {"stored": now[0] - before[0], "published": now[1] - before[1]})
            before = now


async def _again(work: Callable[[], Awaitable[_Found]], records: Records, what: str) -> _Found:
    failures = 0
    while True:
        try:
            return await work()
        except (psycopg.Error, OSError) as problem:
            shown = _shown(problem)
            if isinstance(shown, Unavailable):
                failures += 1
                records.note("failed", {"task": what, **shown.as_record()})
                await _pause(failures)
                continue
            raise shown from None


async def _pause(failures: int) -> None:
    await asyncio.sleep(jittered(doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S), os.urandom))
