"""How does a domain's access control service live inside its process?

`serve_domain` calls `access_running` beside the key groups: the database is
opened, the policy put in force, the HTTP interface listens, statements are
signed and published, facts are polled. All of it closes in order with the body.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from maia.clock import system_now
from maia.config.input_files import key_file_name
from maia.credentials import SignedCertificate, SignedStatement, SigningKey
from maia.domain.access.service import AccessControl
from maia.domain.facts.poller import FactAges, FactStream
from maia.domain.server.access_config import PreparedAccess
from maia.domain.server.background import (
    follow_issued,
    let_own_broker,
    policy_file,
    pollers,
    publish_statements,
    push_credentials,
    reload_at_signals,
    stop_when_fenced,
)
from maia.domain.server.expected_members import RightsTold
from maia.domain.server.service import DomainService
from maia.domain.server.statement_stream import DomainIdentity, StatementStream
from maia.errors import MaiaError
from maia.events import Instant
from maia.net.observer import Records
from maia.sealing.member.expected import ExpectedMember
from maia.wire.api_requests import INSTANCE_BYTES

_DATABASE: Final = "domain.sqlite"
_AGES: Final = "facts.json"


@dataclass(frozen=True, slots=True)
class RunningAccess:
    """The service while it runs."""

    address: str
    service: DomainService
    stream: StatementStream | None
    records: Records
    taken: set[bytes]
    """Ids of the certificates and types that the service was handed."""
    told: RightsTold

    async def take(self, prepared: PreparedAccess, credentials: tuple[SignedCertificate, ...]) -> None:
        """Take in new certificates and types, and connect with these credentials from now on."""
        await _register(self.service, prepared, self.records, self.taken)
        if self.stream is not None:
            self.stream.renew(credentials, prepared.hear)
        self.told.renew(credentials)

    def status(self) -> dict[str, object]:
        """Return what an operator may know of it."""
        carried = 0 if self.stream is None else self.stream.carried
        return {"interface": self.address, "statements_carried": carried}


@asynccontextmanager
async def access_running(  # noqa: PLR0913 - every one is named at the call
    prepared: PreparedAccess,
    identity: DomainIdentity,
    *,
    data: Path,
    records: Records,
    on_revoked: Callable[[Iterable[bytes]], None] = lambda _ids: None,
    on_statement: Callable[[SignedStatement], None] = lambda _signed: None,
    on_right: Callable[[ExpectedMember], None] = lambda _right: None,
    clock: Callable[[], Instant] = system_now,
) -> AsyncIterator[RunningAccess]:
    """Run the service while the body runs."""
    from maia.domain.storage.store import postgres_store, sqlite_store

    key, url = identity.key, prepared.config.database_url
    if url is not None and url.startswith("postgresql://"):
        opened = postgres_store(url)
    else:
        opened = sqlite_store(data / _DATABASE if url is None else Path(url.removeprefix("sqlite:///")))
    with closing(opened) as store:
        access = AccessControl(key, store, prepared.settings)
        service = DomainService(access, key, clock=clock, on_revoked=on_revoked, on_statement=on_statement)
        try:
            taken: set[bytes] = set()
            await _register(service, prepared, records, taken)
            policy = policy_file(prepared)
            if policy is not None:
                await policy.begin(service, records)
            async with _interface(service, key, prepared, records) as address:
                stream, background = _background(service, prepared, identity, data, records)
                told = RightsTold(service, identity, records, on_right)
                background += [told.run()]
                background += (
                    [push_credentials(prepared.pushes, service, address, records)] if prepared.pushes else []
                )
                async with asyncio.TaskGroup() as tasks:
                    running = [tasks.create_task(one) for one in background]
                    yield RunningAccess(address, service, stream, records, taken, told)
                    for one in running:
                        one.cancel()
        finally:
            service.close()


async def _register(
    service: DomainService, prepared: PreparedAccess, records: Records, taken: set[bytes]
) -> None:
    """Register those of the configured certificates and types that were not taken before."""
    now, actor = service.clock(), service.principal
    held = [one for one in prepared.held if one.id not in taken]
    if held:
        await service.ask(lambda access: access.hold(held, actor=actor, now=now))
        taken |= {one.id for one in held}
    for signed in [one for one in prepared.types if one.id not in taken]:
        taken.add(signed.id)
        try:
            await service.ask(
                lambda access: access.register_type(signed, actor=actor, now=now)  # noqa: B023 - awaited here
            )
        except MaiaError as problem:
            name = signed.definition.name.name
            records.note("refused", {"type": name, "code": problem.code, "why": problem.message})


def _background(
    service: DomainService, prepared: PreparedAccess, identity: DomainIdentity, data: Path, records: Records
) -> tuple[StatementStream | None, list[Coroutine[None, None, None]]]:
    """Return what runs beside the interface, and the stream if there is a broker."""
    ages, config = FactAges(data / _AGES), prepared.config
    streams = [
        FactStream(one, service, ages, clock=service.clock, records=records) for one in prepared.streams
    ]
    tasks = [
        publish_statements(service, records),
        follow_issued(config.policy_issued, service, records),
        reload_at_signals(policy_file(prepared), service, records),
        stop_when_fenced(service),
        *(one.run() for one in pollers(config.facts, service, ages, records)),
        *(one.watch() for one in streams),
    ]
    if prepared.own_broker is not None:
        broker, passes_on = prepared.own_broker, config.broker_own_delegates
        tasks.append(let_own_broker(*broker, service, identity.key, records, passes_on=passes_on))
    if not config.broker_addresses:
        return None, tasks
    listeners = tuple(one.listen for one in streams)
    stream = StatementStream(service, identity, prepared, records, listeners=listeners)
    service.carrier = stream
    return stream, [stream.run(), *tasks]


@asynccontextmanager
async def _interface(
    service: DomainService, key: SigningKey, prepared: PreparedAccess, records: Records
) -> AsyncIterator[str]:
    from maia.domain.http.application import application
    from maia.domain.http.authentication import Gate
    from maia.domain.http.calls import Pages
    from maia.net.http_listener import listening
    from maia.net.tls import serving_context

    config = prepared.config
    instance = os.urandom(INSTANCE_BYTES)
    gate = Gate(
        key.principal, instance=instance, clock=service.clock, skew_s=config.api_skew_s,
        is_revoked=lambda one: any((at / key_file_name(one)).exists() for at in config.policy_revoked),
    )  # fmt: skip
    pages = Pages(service, gate, policy=policy_file(prepared), brokers=config.broker_addresses)
    app = application(pages, records)
    async with listening(app, serving_context(key), config.api_listen) as address:
        yield address
