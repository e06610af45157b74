"""How does one broker live as a process of its own?

`maia broker` prepares it and calls `serve` here: the data folder is taken so
that no second broker uses it, the status endpoint opens beside the network's
port, and both close in order when the process is stopped.

The issuer of the broker's certificates puts new ones into its credential folder, by hand
or as a domain's server does (`[[push]]`). The folder is read again and again; what
cannot be read, or would not let the broker connect any more, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final

from maia.broker.server.config import BrokerConfig, PreparedBroker
from maia.broker.server.ledger_upkeep import LedgerWitness, ledger_upkeep
from maia.broker.server.server import RunningBroker, run_broker
from maia.clock import system_now
from maia.config.constitutions import constitutions_of, keep_quorums, read_quorums, remembered_in
from maia.config.input_files import QUORUM_SUFFIX, read_certificates
from maia.config.start_checks import right_to_connect
from maia.credentials import SignedCertificate, SignedStatement
from maia.errors import MaiaError
from maia.keystore.lookup_tables import keep_lookups_fresh, refresh_lookups
from maia.ledger.files import LedgerFiles
from maia.net.expiry import ExpiryWatch
from maia.net.links import LinkLimits
from maia.net.observer import Records
from maia.net.process import DataFolderInUse, beside, one_of, own_folder, until_told_to_stop, watched
from maia.net.status_endpoint import StatusSource, answering
from maia.net.stores import FolderStore, MemoryStore, Store
from maia.net.telemetry import Telemetry
from maia.validity.fetch import fetching

if TYPE_CHECKING:
    from maia.broker.server.log_recording import LogRecorder
    from maia.net.statement_links import StatementLinks

__all__ = ["DataFolderInUse", "Listening", "serve", "watching"]


_KEPT: Final = "kept"
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


async def serve(
    prepared: PreparedBroker,
    telemetry: Telemetry,
    ready: Callable[[Listening], None],
    *,
    overhear: Callable[[bytes], None] | None = None,
    sockets: Sequence[socket] = (),
    processes: tuple[str, ...] = (),
) -> None:
    """Run a broker until SIGTERM or Ctrl-C, then say goodbye on every link.

    One of several `processes` is handed the `sockets` at which it listens (`processes.py`).
    """
    config = prepared.config
    links = LinkLimits(links=config.limits.links, half_open=config.limits.links_before_welcome)
    try:
        with (
            _own(config.data) as store,
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
                connections = running.runner.connections
                with watched(lambda: (len(connections), connections.ended)):
                    async with (
                        beside(keep_lookups_fresh(prepared.lookups, telemetry)),
                        _renewing(prepared, telemetry, running),
                        _fetching(config, telemetry, running),
                        _upkeep(prepared, ledger, telemetry),
                    ):
                        await _answer_until_stopped(prepared, telemetry, running, ready)
    except ExceptionGroup as group:
        raise one_of(group) from group


def _statement_links(prepared: PreparedBroker) -> StatementLinks | None:
    if prepared.identity is None:
        return None
    from maia.net.statement_links import StatementLinks

    return StatementLinks(prepared.identity, system_now)


@asynccontextmanager
async def _renewing(
    prepared: PreparedBroker, telemetry: Telemetry, running: RunningBroker
) -> AsyncIterator[None]:
    """Take over certificates that were renewed, and warn of those that end, while the body runs."""
    held = prepared.credentials

    async def own_certificates() -> tuple[SignedCertificate, ...]:
        return held

    def take(certificates: tuple[SignedCertificate, ...]) -> None:
        nonlocal held
        now, config = running.clock(), prepared.config
        # Constitutions first: a member that was replaced has no say, whatever becomes of the rest.
        quorums = read_quorums((*config.credentials, *remembered_in(config.data)))
        keep_quorums(config.data, quorums)
        in_force = constitutions_of(quorums)
        running.runner.perform(running.broker.adopt(in_force, now))
        right_to_connect(config, prepared.key, prepared.network, certificates, now, in_force)
        running.runner.perform(running.broker.hold(certificates, now))
        held = certificates
        expiry.look(held)

    expiry = ExpiryWatch(own_certificates, telemetry, running.clock, days=prepared.config.expiry_days)
    renewing = watching(prepared.config.credentials, take, telemetry)
    async with beside(renewing, expiry.run()):
        yield


def _fetching(
    config: BrokerConfig, telemetry: Telemetry, running: RunningBroker
) -> AbstractAsyncContextManager[None]:
    """Fetch statements that are missed, where the configuration allows it, while the body runs."""

    def hear(statements: tuple[SignedStatement, ...]) -> None:
        running.runner.perform(running.broker.hear(statements, running.clock()))

    return fetching(
        frozenset(config.statements_fetch_from),
        missed=running.broker.not_vouched_for,
        hear=hear,
        records=telemetry,
        clock=running.clock,
    )


async def _answer_until_stopped(
    prepared: PreparedBroker, telemetry: Telemetry, running: RunningBroker, ready: Callable[[Listening], None]
) -> None:
    source, config = _status_source(running, telemetry), prepared.config
    async with answering(
        source, config.status, config.data, metrics=config.metrics, records=telemetry
    ) as status:
        principal = str(prepared.key.principal)
        ready(Listening(running.address, principal, status, running.statement_address))
        await until_told_to_stop()
        telemetry.note("stopping", {"address": running.address})


def _status_source(running: RunningBroker, telemetry: Telemetry) -> StatusSource:
    telemetry.show(running.deliveries)

    def metrics() -> bytes:
        status = running.status()
        for name in _GAUGES:
            value = status.get(name)
            if isinstance(value, int):
                telemetry.measure(f"maia_{name}", value)
        log = status.get("log")
        for name, value in log.items() if isinstance(log, dict) else ():
            telemetry.measure(f"maia_log_{name}", value)
        return telemetry.metrics()

    def is_ready() -> bool:
        """Say whether clients should be sent here: not while it leaves, nor before it found the others."""
        status = running.status()
        overlay = status.get("overlay")
        has_joined = overlay.get("is_joined", True) if isinstance(overlay, dict) else True
        return bool(has_joined) and not status.get("draining")

    return StatusSource(is_ready=is_ready, metrics=metrics, status=running.status)


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
    from maia.log.format.retention import Keep, Retention

    days, megabytes = config.log_keep_days, config.log_keep_mb
    keep = Keep(None if days is None else days * 86_400.0, None if megabytes is None else megabytes << 20)
    with EventLog.open(config.log_folder) as log:
        for cut in log.cuts:
            telemetry.note("log-cut", {"file": cut.file, "offset": cut.offset, "size": cut.size})
        yield LogRecorder(
            log,
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
def _own(data: Path | None) -> Iterator[Store]:
    """Take the data folder for this process alone, for as long as it runs."""
    if data is None:
        yield MemoryStore()
        return
    with own_folder(data):
        yield FolderStore(data / _KEPT)


LOOK_S: Final = 5.0


async def watching(
    paths: Sequence[Path],
    take: Callable[[tuple[SignedCertificate, ...]], None],
    records: Records,
    *,
    every_s: float = LOOK_S,
) -> None:
    """Hand over all certificates whenever a file has come, gone or changed; `take` raises to refuse them."""
    seen = await asyncio.to_thread(_stamps, paths)
    while True:
        await asyncio.sleep(every_s)
        found = await asyncio.to_thread(_stamps, paths)
        if found == seen:
            continue
        seen = found
        try:
            take(tuple(await asyncio.to_thread(read_certificates, paths)))
        except MaiaError as problem:
            records.note("refused", {"code": problem.code, "why": problem.message})


def _stamps(paths: Sequence[Path]) -> frozenset[tuple[str, int, int]]:
    found: set[tuple[str, int, int]] = set()
    for path in paths:
        folder = (*path.glob("*.cert"), *path.glob(f"*{QUORUM_SUFFIX}")) if path.is_dir() else (path,)
        for file in folder:
            try:
                stat = file.stat()
            except OSError:
                continue  # it is being replaced; the next round sees it
            found.add((str(file), stat.st_mtime_ns, stat.st_size))
    return frozenset(found)
