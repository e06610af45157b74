"""How does one broker live as a process of its own?

`maia broker` prepares it and calls `serve` here: the data folder is taken so
that no second broker uses it, the status endpoint opens beside the network's
port, and both close in order when the process is stopped.

While it runs, it follows its settings, its credential folders and its types
(`net/following.py`). The issuer of its certificates puts new ones into their folder, by hand
or as a domain's server does (`[[push]]`); what cannot be read, or would not let the
broker connect any more, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final, TypeAlias

from maia.api.testers import Fetched, fetching
from maia.broker.server.config import BrokerConfig, PreparedBroker, prepare, pushed_to
from maia.broker.server.ledger_upkeep import LedgerWitness, ledger_upkeep
from maia.broker.server.server import RunningBroker, run_broker
from maia.clock import system_now
from maia.config.constitutions import Quorums, constitutions_of, keep_quorums, read_quorums, remembered_in
from maia.config.input_files import read_certificates
from maia.config.settings import settings_changed
from maia.credentials import SignedCertificate
from maia.errors import Unavailable
from maia.keystore.lookup_tables import keep_lookups_fresh, refresh_lookups
from maia.ledger.files import LedgerFiles
from maia.net.expiry import ExpiryWatch
from maia.net.following import following
from maia.net.links import LinkLimits
from maia.net.observer import Records
from maia.net.process import (
    DataFolderInUse,
    beside,
    one_of,
    own_folder,
    until_set_back,
    until_told_to_stop,
    watched,
)
from maia.net.status_endpoint import StatusSource, answering
from maia.net.stores import FolderStore, MemoryStore, Store
from maia.net.telemetry import Telemetry

if TYPE_CHECKING:
    from maia.broker.server.log_recording import LogRecorder
    from maia.net.statement_links import StatementLinks

__all__ = ["DataFolderInUse", "Listening", "serve", "watching"]


Receive: TypeAlias = Callable[[PreparedBroker, str, Path], Coroutine[None, None, None]]
"""Receives certificates for a broker at an address, for as long as it runs, into a folder."""
_KEPT: Final = "kept"
_LIVE: Final = frozenset({"credentials", "types", "join"})
"""Settings that a running broker takes in."""
_GAUGES: Final = (
    "clients",
    "peers",
    "links_waiting",
    "types",
    "certificates",
    "subscriptions",
    "advertisements",
)


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a broker that is ready answers."""

    address: str
    principal: str
    status: str | None
    statement_address: str | None = None


async def serve(  # noqa: PLR0913 - most are named at the call
    prepared: PreparedBroker,
    telemetry: Telemetry,
    ready: Callable[[Listening], None],
    *,
    overhear: Callable[[bytes], None] | None = None,
    sockets: Sequence[socket] = (),
    processes: tuple[str, ...] = (),
    reread: Callable[[], BrokerConfig] | None = None,
    receive: Receive | None = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, then say goodbye on every link.

    One of several `processes` is handed the `sockets` at which it listens (`processes.py`).
    `reread` returns the settings as they are written now. `receive` keeps certificates that are pushed to it.
    """
    config = prepared.config
    links = LinkLimits(links=config.limits.links, half_open=config.limits.links_before_welcome)
    try:
        with (
            _own(config.data, telemetry) as store,
            _event_log(prepared, telemetry) as recorder,
            LedgerFiles(config.ledger_folder) if config.ledger_folder else nullcontext() as ledger,
        ):
            keep_quorums(config.data, prepared.quorums)
            await refresh_lookups(prepared.lookups, telemetry)  # before a client can subscribe
            async with run_broker(
                prepared.key,
                replace(prepared.settings(config.listen), processes=processes),
                listen=config.listen,
                sockets=sockets,
                store=_WithTypes(store, prepared.types_to_keep()),
                limits=links,
                records=telemetry,
                overhear=overhear,
                recorder=recorder,
                ledger=ledger,
                by_statement=_statement_links(prepared),
                listen_by_statement=config.identity_listen,
            ) as running:
                if recorder is not None:
                    recorder.missing = running.missing
                connections = running.runner.connections
                with watched(lambda: (len(connections), connections.ended)):
                    async with (
                        beside(keep_lookups_fresh(prepared.lookups, telemetry)),
                        _following(prepared, telemetry, running, reread or (lambda: config)) as needs_restart,
                        _fetching(config, telemetry, running),
                        _receiving(receive, prepared, running),
                        _upkeep(prepared, ledger, telemetry),
                    ):
                        await _answer_until_stopped(prepared, telemetry, running, ready, needs_restart)
    except ExceptionGroup as group:
        raise one_of(group) from group


def _statement_links(prepared: PreparedBroker) -> StatementLinks | None:
    if prepared.identity is None:
        return None
    from maia.net.statement_links import StatementLinks

    return StatementLinks(prepared.identity, system_now)


@asynccontextmanager
async def _following(
    prepared: PreparedBroker, telemetry: Telemetry, running: RunningBroker, reread: Callable[[], BrokerConfig]
) -> AsyncIterator[asyncio.Event]:
    """Take in what changes in the broker's settings, certificates and types, and warn of what ends.

    Yield what is set when a setting has changed that needs a restart.
    """
    in_use, needs_restart = replace(prepared, broken={}), asyncio.Event()

    async def own_certificates() -> tuple[SignedCertificate, ...]:
        return in_use.credentials

    def quorums_now() -> Quorums:
        config = in_use.config
        found = read_quorums((*config.credentials, *remembered_in(config.data)))
        keep_quorums(config.data, found)
        return found

    def prepared_now() -> PreparedBroker:
        return prepare(reread(), now=running.clock(), open_key=lambda _path: prepared.key)

    async def take() -> None:
        nonlocal in_use
        broker, perform, now = running.broker, running.runner.perform, running.clock()
        # Constitutions first: a member that was replaced has no say, whatever becomes of the rest.
        perform(broker.adopt(constitutions_of(await asyncio.to_thread(quorums_now)), now))
        found = await asyncio.to_thread(prepared_now)
        if changed := settings_changed(in_use.config, found.config, live=_LIVE):
            telemetry.note("restart-needed", {"settings": " ".join(changed)})
            needs_restart.set()
            return
        for path, problem in found.broken.items():
            if path not in in_use.broken:
                telemetry.note("refused", {"code": problem.code, "why": problem.message})
        perform(broker.hold(found.credentials, now))
        known = in_use.types_to_keep()
        new = {name: data for name, data in found.types_to_keep().items() if name not in known}
        if new:
            perform(broker.learn(new, now))
        perform(broker.join(found.settings(running.address).seeds, now))
        in_use = found
        expiry.look(found.credentials)

    def files() -> tuple[Path, ...]:
        config = in_use.config
        types = () if config.types is None else (config.types,)
        pushed = pushed_to(config)
        return (*config.read_from, *config.credentials, *types, *([] if pushed is None else [pushed]))

    expiry = ExpiryWatch(own_certificates, telemetry, running.clock, days=prepared.config.expiry_days)
    async with beside(following(files, take, telemetry), expiry.run()):
        yield needs_restart


def _receiving(
    receive: Receive | None, prepared: PreparedBroker, running: RunningBroker
) -> AbstractAsyncContextManager[None]:
    """Keep what issuers push to this broker in its data folder, where it is taken in as it appears."""
    folder = pushed_to(prepared.config)
    return (
        nullcontext()
        if receive is None or folder is None
        else beside(receive(prepared, running.address, folder))
    )


def _fetching(
    config: BrokerConfig, telemetry: Telemetry, running: RunningBroker
) -> AbstractAsyncContextManager[None]:
    """Fetch statements that are missed, where the configuration allows it, while the body runs."""

    async def missed() -> tuple[SignedCertificate, ...]:
        return running.broker.not_vouched_for(running.clock())

    async def hear(found: Fetched) -> None:
        running.runner.perform(running.broker.hear(found.statements, running.clock()))

    return fetching(
        frozenset(config.statements_fetch_from),
        missed=missed,
        hear=hear,
        records=telemetry,
        clock=running.clock,
    )


async def _answer_until_stopped(
    prepared: PreparedBroker,
    telemetry: Telemetry,
    running: RunningBroker,
    ready: Callable[[Listening], None],
    needs_restart: asyncio.Event,
) -> None:
    source, config = _status_source(running, telemetry), prepared.config
    async with answering(
        source, config.status, config.data, metrics=config.metrics, records=telemetry
    ) as status:
        principal = str(prepared.key.principal)
        listening = Listening(running.address, principal, status, running.statement_address)
        async with asyncio.TaskGroup() as waiting:
            clock = waiting.create_task(until_set_back(running.clock, by_s=config.skew_s))
            await until_told_to_stop(needs_restart, ready=lambda: ready(listening))
            clock.cancel()
        telemetry.note("stopping", {"address": running.address})


def _status_source(running: RunningBroker, telemetry: Telemetry) -> StatusSource:
    telemetry.show(running.deliveries)

    def metrics() -> bytes:
        status = running.status()
        for name in _GAUGES:
            value = status.get(name)
            if isinstance(value, int):
                telemetry.measure(f"maia_{name}", value)
        telemetry.measure("maia_store_is_failing", bool(status.get("unkept")))
        log = status.get("log")
        for name, value in log.items() if isinstance(log, dict) else ():
            if not isinstance(value, str):
                telemetry.measure(f"maia_log_{name}", value)
        return telemetry.metrics()

    def why_not_ready() -> str:
        """Say why no client should be sent here: it leaves, has found no other broker, cannot record."""
        status = running.status()
        overlay, log = status.get("overlay"), status.get("log")
        if status.get("draining"):
            return "this broker is being stopped"
        if isinstance(overlay, dict) and not overlay.get("is_joined", True):
            return "this broker has not joined the network yet"
        if status.get("unkept"):
            return f"no new request is taken on: {status['unkept']}"
        if isinstance(log, dict) and log.get("problem"):
            return f"nothing is recorded: {log['problem']}"
        return ""

    def detail() -> str:
        log = running.status().get("log")
        missing = log.get("missing_events") if isinstance(log, dict) else 0
        return (
            f"missing: {missing} publications that other brokers may have; they are asked\n"
            if missing
            else ""
        )

    return StatusSource(lambda: not why_not_ready(), metrics, running.status, why_not_ready, detail)


@contextmanager
def _event_log(prepared: PreparedBroker, telemetry: Telemetry) -> Iterator[LogRecorder | None]:
    """Open the event log, if this broker keeps one, for as long as the process runs."""
    config = prepared.config
    if config.log_folder is None:
        yield None
        return
    # Arrow takes a while to load, and most brokers record nothing.
    from maia.broker.server.log_recording import LogRecorder, RecorderLimits
    from maia.log.disk.event_log import EventLog
    from maia.log.disk.shipping import PlaceCopy
    from maia.log.format.retention import Keep, Retention
    from maia.places import place_of

    days, megabytes = config.log_keep_days, config.log_keep_mb
    keep = Keep(None if days is None else days * 86_400.0, None if megabytes is None else megabytes << 20)
    with EventLog.open(config.log_folder) as log:
        for cut in log.cuts:
            telemetry.note("log-cut", {"file": cut.file, "offset": cut.offset, "size": cut.size})
        copy = None
        if config.log_place is not None:
            copy = PlaceCopy(place_of(str(config.log_place)), config.log_folder)
            try:
                copy.check()
            except Unavailable as problem:
                telemetry.note("log-place-failed", problem.as_record())
        yield LogRecorder(
            log,
            copy=copy,
            clock=system_now,
            records=telemetry,
            retention=Retention(keep),
            limits=RecorderLimits(roll_s=config.log_roll_s),
        )


def _upkeep(
    prepared: PreparedBroker, ledger: LedgerFiles | None, telemetry: Telemetry
) -> AbstractAsyncContextManager[None]:
    """Synchronise, roll and have witnessed what is put on record, while the body runs."""
    config, witness = prepared.config, None
    if config.ledger_witness is not None and prepared.ledger_witness is not None:
        witness = LedgerWitness(
            config.ledger_witness, prepared.ledger_witness, prepared.key, config.credentials
        )
    return ledger_upkeep(ledger, tables=config.ledger_parquet, witness=witness, records=telemetry)


class _WithTypes:
    """A store that also hands the broker the definitions of a type folder, to be verified like its own."""

    def __init__(self, store: Store, types: Mapping[str, bytes]) -> None:
        self._store, self._types = store, types

    def load(self) -> Mapping[str, bytes]:
        return {**self._types, **self._store.load()}

    def keep(self, changes: Mapping[str, bytes | None]) -> None:
        self._store.keep(changes)


@contextmanager
def _own(data: Path | None, records: Records) -> Iterator[Store]:
    """Take the data folder for this process alone, for as long as it runs."""
    if data is None:
        yield MemoryStore()
        return
    with own_folder(data, records):
        yield FolderStore(data / _KEPT)


async def watching(
    paths: Sequence[Path], take: Callable[[tuple[SignedCertificate, ...]], None], records: Records
) -> None:
    """Hand over all certificates whenever a file has come, gone or changed; `take` raises to refuse them."""

    async def read() -> None:
        take(tuple(await asyncio.to_thread(read_certificates, paths)))

    await following(lambda: paths, read, records, from_start=False)
