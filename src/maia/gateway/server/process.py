"""How does one gateway live as a process of its own?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from maia.gateway.server.config import PreparedGateway
from maia.gateway.server.gateway import Connection, Gateway
from maia.net.addresses import bind
from maia.net.data_folder import own_folder
from maia.net.signals import until_told_to_stop
from maia.net.telemetry import Telemetry
from maia.net.tls import foreign_context

__all__ = ["Listening", "serve"]

_HANDSHAKE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a gateway that is ready answers."""

    address: str
    principal: str
    status: str | None = None


async def serve(prepared: PreparedGateway, telemetry: Telemetry, ready: Callable[[Listening], None]) -> None:
    """Run a gateway until SIGTERM or Ctrl-C, then end every session in order."""
    config = prepared.config
    context = None
    if config.tls_certificate is not None and config.tls_key is not None:
        context = foreign_context(config.tls_certificate, config.tls_key)
    with own_folder(config.data):
        gateway = Gateway(prepared, telemetry)
        listening, address = bind(config.listen)
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(gateway),
            sock=listening,
            ssl=context,
            ssl_handshake_timeout=None if context is None else _HANDSHAKE_S,
        )
        looking = asyncio.create_task(gateway.show_new_certificates())
        try:
            ready(Listening(address, "gateway of MQTT clients"))
            await until_told_to_stop()
            telemetry.note("stopping", {"address": address})
        finally:
            looking.cancel()
            server.close()
            await gateway.stop()
