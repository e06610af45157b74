"""How does one broker use several cores? As several processes behind one address, each a broker of its own.

`maia broker --processes N` runs here. This process opens the ports and starts the
others, which accept connections from the shared port as they have time. A type has
its process, by its id: a client that asks another one for it is sent there, so that
publishers and subscribers of a type meet in one process, and its durable names are in one log.
Types that have to do with each other, and brokers elsewhere, are reached as ever: the
processes are members of the network like all brokers, each with a key and a port of its own.

The broker passes its rights on to its processes, by certificates that are worth no more than its own.
A process that ends is started again. Its port stays open meanwhile, so that connections wait for it
(docs/decisions/processes.md).
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from maia.back_off import Pauses
from maia.broker.server.config import BrokerConfig, PreparedBroker, prepare, read_config
from maia.broker.server.process import Listening, serve
from maia.clock import system_now
from maia.config.constitutions import constitutions_of
from maia.config.input_files import read_certificates
from maia.config.settings import settings_changed
from maia.config.start_checks import check_folder, right_as_broker
from maia.credentials import (
    AuthorisationCertificate,
    Authority,
    SignedCertificate,
    SigningKey,
    Validity,
    issue,
)
from maia.credentials.encoding.certificates import certificate_to_text
from maia.errors import MaiaError, Unavailable
from maia.keystore.key_files import create_key_file, load_signing_key, new_signing_key, process_key
from maia.net.addresses import bind, host_and_port
from maia.net.event_loop import run
from maia.net.following import following
from maia.net.process import RESTARTS, die_with_parent, one_of, own_folder, stop_process, until_told_to_stop
from maia.net.telemetry import Telemetry

PROCESSES_MAX: Final = 64
_LIVE: Final = frozenset({"types"})
"""Settings that processes take in by themselves."""
_AGAIN_S: Final = 0.5
_AGAIN_MOST_S: Final = 30.0
_STOP_S: Final = 20.0


class _Order(msgspec.Struct, frozen=True):
    """What a process is started with, on its standard input; it ends when that is closed."""

    config: str | None
    # Any: settings as they are written, which `read_config` checks.
    flags: dict[str, Any]
    sockets: list[int]
    """Descriptors of the ports: its own, and the one that all share."""
    processes: list[str]


@dataclass(slots=True)
class _Part:
    """One process, and what stays the same when it is started again."""

    folder: Path
    key: SigningKey = field(repr=False)
    own: socket.socket
    address: str
    ready: asyncio.Event = field(default_factory=asyncio.Event)


async def serve_processes(
    prepared: PreparedBroker,
    telemetry: Telemetry,
    ready: Callable[[Listening], None],
    *,
    reread: Callable[[], BrokerConfig],
    file: Path | None,
    flags: Mapping[str, object],
) -> None:
    """Run the processes of a broker until SIGTERM or Ctrl-C; `file` and `flags` are its own settings.

    `reread` returns them as they are written now.
    """
    config = prepared.config
    data = _checked(config)
    try:
        with own_folder(data, telemetry), ExitStack() as ports:
            shared, address = bind(config.listen)
            ports.enter_context(shared)
            parts = [_part(prepared, data, number, ports) for number in range(1, config.processes + 1)]
            for part in parts:
                _pass_on(prepared, prepared.credentials, part)
            listening = Listening(config.address or address, str(prepared.key.principal), None)

            needs_restart = asyncio.Event()

            async def take() -> None:
                found = await asyncio.to_thread(reread)
                if changed := settings_changed(config, found, live=_LIVE):
                    telemetry.note("restart-needed", {"settings": " ".join(changed)})
                    needs_restart.set()
                    return
                certificates = tuple(await asyncio.to_thread(read_certificates, config.credentials))
                for part in parts:
                    _pass_on(prepared, certificates, part)

            stop = asyncio.create_task(until_told_to_stop(needs_restart))
            async with asyncio.TaskGroup() as group:
                files = (*config.read_from, *config.credentials)
                tasks = [group.create_task(following(lambda: files, take, telemetry))]
                for number, part in enumerate(parts):
                    order = _order(config, parts, number, shared, file, flags)
                    tasks.append(group.create_task(_keep_running(part, order, telemetry)))
                started = group.create_task(_call_when_ready(parts, lambda: ready(listening)))
                await stop
                for task in (*tasks, started):
                    task.cancel()
    except ExceptionGroup as problems:
        raise one_of(problems) from problems


def _checked(config: BrokerConfig) -> Path:
    if config.processes > PROCESSES_MAX:
        raise config.wrong("processes", f"are at most {PROCESSES_MAX}")
    if config.data is None:
        raise config.wrong("processes", "need `data` too: each has a key of its own there")
    for name in ("identity.statement", "identity.listen", "ledger.witness"):
        if name in config.origins:
            raise config.wrong(name, "names one key, and each of several processes has its own")
    return config.data


# ------------------------------------------------------------ what a process has of its own


def _part(prepared: PreparedBroker, data: Path, number: int, ports: ExitStack) -> _Part:
    """Make the folder and the key of a process, unless they are there, and open its port."""
    config, path = prepared.config, process_key(data, number)
    folder = path.parent
    check_folder(config, "data", folder)
    if not path.exists():
        create_key_file(path, new_signing_key())
    is_any_port = host_and_port(config.listen)[1] == 0
    own, bound = bind(_beside(config.listen, 0 if is_any_port else number))
    ports.enter_context(own)
    seen = bound if config.address is None else _beside(config.address, number)
    return _Part(folder, load_signing_key(path), own, seen)


def _beside(address: str, number: int) -> str:
    """Return the address that is so many ports above another one."""
    host, port = address.rpartition(":")[0], host_and_port(address)[1]
    return f"{host}:{port + number}"


def _pass_on(prepared: PreparedBroker, held: tuple[SignedCertificate, ...], part: _Part) -> None:
    """Issue to a process what the broker itself holds and may pass on; raise if that does not let it connect.

    Attributes and restrictions are not repeated: those of the certificate before apply.
    """
    key, folder = prepared.key, part.folder / "certs"
    passed: dict[str, SignedCertificate] = {}
    for one in held:
        said = one.certificate
        if isinstance(said, AuthorisationCertificate) and said.subject == key.principal and said.may_delegate:
            authority = Authority(said.authority.resources, said.authority.actions)
            lasts = Validity(said.validity.not_before, said.validity.not_after)
            given = AuthorisationCertificate(key.principal, part.key.principal, False, authority, lasts)
            passed[f"{one.id.hex()[:24]}.cert"] = issue(given, key)
    config, now = prepared.config, system_now()
    right_as_broker(
        config, part.key, prepared.network, (*held, *passed.values()), now, constitutions_of(prepared.quorums)
    )
    check_folder(config, "data", folder)
    for name, signed in passed.items():
        if not (folder / name).exists():
            beside = folder / f".{name}.new"
            beside.write_text(certificate_to_text(signed))
            beside.replace(folder / name)
    for path in folder.glob("*.cert"):
        if path.name not in passed:
            path.unlink(missing_ok=True)


def _order(
    config: BrokerConfig,
    parts: list[_Part],
    number: int,
    shared: socket.socket,
    file: Path | None,
    flags: Mapping[str, object],
) -> _Order:
    """Return the settings of the broker with what is different for one process."""
    part, addresses = parts[number], [one.address for one in parts]
    own: dict[str, object] = {
        "key": str(part.folder / "process.key"),
        "credentials": [str(part.folder / "certs"), *(str(one.absolute()) for one in config.credentials)],
        "listen": config.listen,
        "address": part.address,
        "data": str(part.folder),
        "network": config.network,
        "coordinator": str(config.coordinator),
        "processes": "1",
    }
    if config.routing == "mesh":
        own |= {"neighbours": [addresses[0]]} if number else {}
    else:
        own["join"] = [*config.join, *(one for one in addresses if one != part.address)]
    if config.status != "off":
        is_any_port = host_and_port(config.status)[1] == 0
        own["status"] = config.status if is_any_port else _beside(config.status, number + 1)
    for name, folder in (("log.folder", config.log_folder), ("ledger.folder", config.ledger_folder)):
        if folder is not None:
            own[name] = str(folder.absolute() / part.folder.name)
    if config.log_place is not None:
        own["log.place"] = f"{config.log_place}/{part.folder.name}"
    given = {name: value for name, value in flags.items() if value is not None}
    sockets = [part.own.fileno(), shared.fileno()]
    return _Order(None if file is None else str(file), given | own, sockets, addresses)


# ------------------------------------------------------------ processes that end are started again


async def _call_when_ready(parts: list[_Part], ready: Callable[[], None]) -> None:
    for part in parts:
        await part.ready.wait()
    ready()


async def _keep_running(part: _Part, order: _Order, telemetry: Telemetry) -> None:
    pauses = Pauses(_AGAIN_S, most_s=_AGAIN_MOST_S, clock=asyncio.get_running_loop().time)
    while True:
        pauses.begin()
        status = await _run_once(part, order)
        if not part.ready.is_set():
            raise Unavailable(
                "UNAVAILABLE-PROCESS", f"`{part.folder.name}` ended with status {status} before it was ready"
            )
        wait_s = pauses.ended_s()
        fields = {"process": part.folder.name, "status": status, "again_s": wait_s}
        telemetry.note("process-ended", fields)
        await asyncio.sleep(wait_s)


async def _run_once(part: _Part, order: _Order) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "maia.broker.server.processes",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=order.sockets,
        env={name: value for name, value in os.environ.items() if name != RESTARTS},
    )  # fmt: skip
    assert process.stdin is not None  # noqa: S101 - a pipe
    assert process.stdout is not None  # noqa: S101 - a pipe
    try:
        with suppress(OSError):
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            await process.stdin.drain()
        if await process.stdout.readline():
            part.ready.set()
        return await process.wait()
    finally:
        await stop_process(process, within_s=_STOP_S)


# ------------------------------------------------------------ inside a process


def main() -> None:
    """Be one process of a broker, as the line on standard input says, until told to stop."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=_Order)
    die_with_parent()
    try:
        file = None if order.config is None else Path(order.config)
        reread = partial(read_config, file, flags=order.flags, environment=os.environ)
        config = reread()
        prepared = prepare(config, now=system_now(), open_key=load_signing_key)
        telemetry = Telemetry(sys.stderr, log_format=config.log_format, level=config.log_level)
        run(_serve_part(prepared, telemetry, order, reread))
    except MaiaError as problem:
        sys.stderr.write(f"maia: {problem.message} [{problem.code}]\n")
        sys.exit(1)


async def _serve_part(
    prepared: PreparedBroker, telemetry: Telemetry, order: _Order, reread: Callable[[], BrokerConfig]
) -> None:
    def ready(listening: Listening) -> None:
        sys.stdout.write(f"{listening.address}\n")
        sys.stdout.flush()

    sockets = [socket.socket(fileno=number) for number in order.sockets]
    processes = tuple(order.processes)
    await serve(prepared, telemetry, ready, sockets=sockets, processes=processes, reread=reread)


if __name__ == "__main__":
    main()
