"""How does one gateway live as a process of its own?

It listens for MQTT clients, for HTTP clients, or for both, on behalf of the same accounts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from maia.errors import MaiaError
from maia.gateway.server.account_folder import AccountFolder
from maia.gateway.server.config import PreparedGateway
from maia.gateway.server.connections import accept_clients
from maia.gateway.server.gateway import Gateway
from maia.gateway.server.upstream import Upstream
from maia.net.addresses import bind
from maia.net.doorman import Doorman
from maia.net.observer import Records
from maia.net.process import own_folder, until_told_to_stop, watched
from maia.net.status_endpoint import StatusSource, answering
from maia.net.telemetry import Telemetry
from maia.net.tls import foreign_context

if TYPE_CHECKING:
    from maia.gateway.server.http.application import HttpDoor


_LOOK_S: Final = 5.0
"""How often account folders are looked at for new certificates."""


@dataclass(frozen=True, slots=True)
class GatewayListening:
    """Where a gateway that is ready answers."""

    address: str
    principal: str
    status: str | None = None
    http: str | None = None


async def serve(
    prepared: PreparedGateway,
    telemetry: Telemetry,
    ready: Callable[[GatewayListening], None],
    *,
    mqtt: bool = True,
) -> None:
    """Run a gateway until SIGTERM or Ctrl-C, then end every session in order; HTTP alone without `mqtt`."""
    config = prepared.config
    context = None
    if config.tls_certificate is not None and config.tls_key is not None:
        context = foreign_context(config.tls_certificate, config.tls_key)
    async with AsyncExitStack() as stack:
        stack.enter_context(own_folder(config.data, telemetry))
        gateway = Gateway(prepared, telemetry)
        stack.push_async_callback(gateway.stop)
        doorman = Doorman(config.connections_while_busy)
        stack.callback(doorman.stop)
        http, address, door = None, "", None
        if config.http_listen is not None:
            from maia.gateway.server.http.application import HttpDoor
            from maia.net.http_listener import listening

            door = HttpDoor(prepared, telemetry)
            http = await stack.enter_async_context(
                listening(
                    door.application(),
                    context,
                    config.http_listen,
                    connections=config.http_connections,
                    doorman=doorman,
                )
            )
            stack.push_async_callback(door.stop)  # before the listener waits for its streams to end
        if mqtt:
            taken, address = bind(config.listen)
            accepting = asyncio.create_task(accept_clients(gateway, taken, context, doorman))
            stack.callback(accepting.cancel)
        if door is None:  # what HTTP connections leave behind is not counted
            stack.enter_context(watched(lambda: (gateway.connections, gateway.ended)))

        def upstreams() -> Iterator[tuple[str, Upstream]]:
            yield from gateway.upstreams()
            if door is not None:
                yield from door.callers.upstreams()

        looking = asyncio.create_task(show_new_certificates(AccountFolder(config.data), upstreams, telemetry))
        stack.callback(looking.cancel)
        source = _status_source(gateway, door, telemetry)
        status = await stack.enter_async_context(
            answering(source, config.status, config.data, metrics=config.metrics, records=telemetry)
        )
        answers = GatewayListening(address or str(http), "gateway", status, http)
        await until_told_to_stop(ready=lambda: ready(answers))
        telemetry.note("stopping", {"address": address or str(http)})


async def show_new_certificates(
    accounts: AccountFolder, upstreams: Callable[[], Iterable[tuple[str, Upstream]]], records: Records
) -> None:
    """Show brokers what is issued to connected accounts from now on, so that none has to reconnect."""
    stamps: dict[str, int] = {}
    while True:
        served: dict[str, list[Upstream]] = {}
        for account, upstream in upstreams():
            served.setdefault(account, []).append(upstream)
        found = {account: accounts.stamp(account) for account in served}
        for account, stamp in found.items():
            if stamps.get(account, stamp) == stamp:
                continue
            try:
                certificates = accounts.certificates(account)
            except MaiaError as problem:
                records.note("refused", problem.as_record())
                continue
            for upstream in served[account]:
                await upstream.show(certificates)
        stamps = found
        await asyncio.sleep(_LOOK_S)


def _status_source(gateway: Gateway, door: HttpDoor | None, telemetry: Telemetry) -> StatusSource:
    def status() -> dict[str, object]:
        return {**gateway.status(), **({} if door is None else door.status())}

    def metrics() -> bytes:
        for name, value in status().items():
            if isinstance(value, int):
                telemetry.measure(f"maia_gateway_{name}", value)
        return telemetry.metrics()

    return StatusSource(is_ready=lambda: True, metrics=metrics, status=status)
