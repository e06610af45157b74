"""How does a key server live as a process of its own?

`maia domain serve` prepares it and calls `serve_domain` here: the data folder
is taken so that no second server uses it, the store is fenced, the status
endpoint opens beside the network's port, and all of it closes in order when
the process is stopped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from maia.clock import system_now
from maia.config.constitutions import keep_quorums
from maia.config.input_files import readable_in
from maia.config.settings import settings_changed
from maia.credentials import SignedCertificate, SignedStatement, SigningKey
from maia.domain import DomainSettings, KeyServer
from maia.domain.server.config import DomainConfig, PreparedDomain, prepare_domain
from maia.domain.storage.fenced_store import FencedStore
from maia.events import Instant
from maia.net.addresses import bind
from maia.net.expiry import ExpiryWatch
from maia.net.following import following
from maia.net.links import LinkLimits
from maia.net.node_runner import NodeRunner
from maia.net.observer import Records
from maia.net.process import beside, one_of, own_folder, until_told_to_stop
from maia.net.status_endpoint import StatusSource, answering
from maia.net.stores import MemoryStore, Store
from maia.net.telemetry import Telemetry
from maia.sealing.groups.membership import Claim
from maia.sealing.keys.secrets import Secret
from maia.sealing.member.expected import ExpectedMember

if TYPE_CHECKING:
    from maia.domain.server.access import RunningAccess


_STORE: Final = "groups.sqlite"
_LIVE: Final = frozenset({"credentials", "history", "broker.hear", "policy.types", "policy.held"})
"""Settings that a running server takes in."""
_AT_REST: Final = b"maia/1/domain-at-rest"
_GAUGES: Final = ("members", "links_waiting", "types", "versions", "evicted", "revoked")


@dataclass(frozen=True, slots=True)
class DomainListening:
    """Where a key server that is ready answers."""

    address: str
    principal: str
    status: str | None
    api: str | None = None


@dataclass(frozen=True, slots=True)
class RunningKeyServer:
    """A key server that listens: where, and what an operator may ask of it."""

    address: str
    server: KeyServer
    runner: NodeRunner
    clock: Callable[[], Instant]

    def status(self) -> dict[str, object]:
        """Return links, types, epochs and counters."""
        return self.server.status(self.clock())


@asynccontextmanager
async def run_key_server(
    key: SigningKey,
    settings_at: Callable[[str], DomainSettings],
    *,
    listen: str,
    store: Store | None = None,
    limits: LinkLimits | None = None,
    records: Records | None = None,
    clock: Callable[[], Instant] = system_now,
) -> AsyncIterator[RunningKeyServer]:
    """Run a key server while the body runs, and say goodbye on every link at the end."""
    store = MemoryStore() if store is None else store
    kept = store.load()
    listening, bound = bind(listen)
    # The signing key has a file of its own, so a copy of the data folder alone opens nothing.
    at_rest = Secret.from_bytes(key.reveal_seed()).derive(_AT_REST)
    with listening:
        server = KeyServer(key, settings_at(bound), at_rest=at_rest, random=os.urandom, kept=kept)
        # A refresh that broke off half way would hand out keys that no other member has. The store is whole.
        runner = NodeRunner(
            server, key, store=store, limits=limits, records=records, clock=clock, stops_when_it_fails=True
        )
        async with runner.running():
            runner.perform(server.start(clock()))
            runner.listen(listening)
            try:
                yield RunningKeyServer(bound, server, runner, clock)
            finally:
                await runner.drain(server.drain(clock()))


async def serve_domain(
    prepared: PreparedDomain,
    telemetry: Telemetry,
    ready: Callable[[DomainListening], None],
    *,
    reread: Callable[[], DomainConfig] | None = None,
) -> None:
    """Run a key server until SIGTERM or Ctrl-C, then say goodbye on every link.

    `reread` returns the settings as they are written now.
    """
    config = prepared.config
    links = LinkLimits(links=config.limits.links, half_open=config.limits.links_before_welcome)
    try:
        with own_folder(config.data, telemetry), closing(FencedStore(config.data / _STORE)) as store:
            keep_quorums(config.data, prepared.quorums)
            async with (
                run_key_server(
                    prepared.key,
                    prepared.settings,
                    listen=config.listen,
                    store=store,
                    limits=links,
                    records=telemetry,
                ) as running,
                _access(prepared, telemetry, running) as access,
                _following(prepared, telemetry, running, access, reread or (lambda: config)) as needs_restart,
            ):
                await _answer_until_stopped(prepared, telemetry, running, access, ready, needs_restart)
    except ExceptionGroup as group:
        raise one_of(group) from group


@asynccontextmanager
async def _access(
    prepared: PreparedDomain, telemetry: Telemetry, running: RunningKeyServer
) -> AsyncIterator[RunningAccess | None]:
    """Run the access control service beside the key groups, where there is one."""
    if prepared.access is None:
        yield None
        return
    from maia.domain.server.access import access_running
    from maia.domain.server.statement_stream import DomainIdentity

    def on_revoked(ids: Iterable[bytes]) -> None:
        running.runner.perform(running.server.revoke(ids, running.clock()))

    def on_statement(signed: SignedStatement) -> None:
        running.runner.perform(running.server.hear(signed, running.clock()))

    def on_right(right: ExpectedMember) -> None:
        claim = Claim(right.principal, right.versions, right.pool)
        running.runner.perform(running.server.expect(claim, running.clock()))

    identity = DomainIdentity(prepared.key, prepared.network, prepared.credentials)
    async with access_running(
        prepared.access,
        identity,
        data=prepared.config.data,
        records=telemetry,
        on_revoked=on_revoked,
        on_statement=on_statement,
        on_right=on_right,
    ) as access:
        # What was stated while this process was not there, or before it served any key group.
        for signed in await access.service.ask(lambda one: one.current_statements(running.clock())):
            on_statement(signed)
        yield access


@asynccontextmanager
async def _following(
    prepared: PreparedDomain,
    telemetry: Telemetry,
    running: RunningKeyServer,
    access: RunningAccess | None,
    reread: Callable[[], DomainConfig],
) -> AsyncIterator[asyncio.Event]:
    """Take in what changes in the server's settings, certificates and types, and warn of what ends.

    Yield what is set when a setting has changed that needs a restart.
    """
    in_use, needs_restart = prepared, asyncio.Event()

    async def own_certificates() -> list[SignedCertificate]:
        now = system_now()
        held = [] if access is None else await access.service.ask(lambda one: one.held(now))
        return [*in_use.credentials, *held]

    def prepared_now() -> PreparedDomain:
        return prepare_domain(reread(), now=running.clock(), open_key=lambda _path: prepared.key)

    async def take() -> None:
        nonlocal in_use
        found = await asyncio.to_thread(prepared_now)
        if changed := settings_changed(in_use.config, found.config, live=_LIVE):
            telemetry.note("restart-needed", {"settings": " ".join(changed)})
            needs_restart.set()
            return
        settings = found.settings(running.address)
        running.runner.perform(running.server.hold(settings, running.clock()))
        if access is not None and found.access is not None:
            await access.take(found.access, found.credentials)
        in_use = found

    def files() -> tuple[Path, ...]:
        config = in_use.config
        access_config = config.access
        own = () if access_config is None else (*access_config.policy_types, *access_config.policy_held)
        return (*config.read_from, *config.credentials, *config.history, *own)

    async def issued() -> list[SignedCertificate]:
        config = in_use.config.access
        return [] if config is None else await asyncio.to_thread(readable_in, config.policy_issued)

    days = prepared.config.expiry_days
    expiry = ExpiryWatch(own_certificates, telemetry, system_now, days=days, issued=issued)
    async with beside(following(files, take, telemetry), expiry.run()):
        yield needs_restart


async def _answer_until_stopped(
    prepared: PreparedDomain,
    telemetry: Telemetry,
    running: RunningKeyServer,
    access: RunningAccess | None,
    ready: Callable[[DomainListening], None],
    needs_restart: asyncio.Event,
) -> None:
    source, config = _status_source(running, access, telemetry), prepared.config
    async with answering(
        source, config.status, config.data, metrics=config.metrics, records=telemetry
    ) as status:
        api = None if access is None else access.address
        listening = DomainListening(running.address, str(prepared.key.principal), status, api)
        await until_told_to_stop(needs_restart, ready=lambda: ready(listening))
        telemetry.note("stopping", {"address": running.address})


def _status_source(
    running: RunningKeyServer, access: RunningAccess | None, telemetry: Telemetry
) -> StatusSource:
    def status() -> dict[str, object]:
        return running.status() | ({} if access is None else access.status())

    def metrics() -> bytes:
        status = running.status()
        for name in _GAUGES:
            value = status.get(name)
            if isinstance(value, int):
                telemetry.measure(f"maia_{name}", value)
        return telemetry.metrics()

    return StatusSource(is_ready=lambda: not running.status().get("draining"), metrics=metrics, status=status)
