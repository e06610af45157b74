"""How does one sharing server live as a process of its own?"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Final

from maia.errors import MaiaError
from maia.net.http_listener import listening
from maia.net.process import beside, own_folder, until_told_to_stop
from maia.net.status_endpoint import StatusSource, answering
from maia.net.telemetry import Telemetry
from maia.net.tls import ordinary_context
from maia.share.addresses import SECRET_BYTES, AddressBook
from maia.share.application import ShareDoor
from maia.share.config import ShareConfig
from maia.share.tables import SharedTables

_CHAIN_S: Final = 60.0
"""How often what was put on record is chained."""


@dataclass(frozen=True, slots=True)
class ShareListening:
    """Where a sharing server that is ready answers."""

    address: str
    principal: str
    status: str | None = None


async def serve(config: ShareConfig, telemetry: Telemetry, ready: Callable[[ShareListening], None]) -> None:
    """Run a sharing server until SIGTERM or Ctrl-C."""
    context = None
    if config.tls_certificate is not None and config.tls_key is not None:
        context = ordinary_context(config.tls_certificate, config.tls_key)
    warnings.simplefilter("ignore")  # what a table lacks is said in its metadata
    async with AsyncExitStack() as stack:
        stack.enter_context(own_folder(config.data, telemetry))
        tables = SharedTables(config)
        stack.callback(tables.close)
        door = ShareDoor(config, tables, AddressBook(os.urandom(SECRET_BYTES)), telemetry)
        stack.callback(door.close)
        address = await stack.enter_async_context(
            listening(door.application(), context, config.listen, connections=config.connections)
        )
        door.endpoint = config.endpoint_at(address)
        await stack.enter_async_context(beside(_chain(tables, telemetry)))
        source = _status_source(door, telemetry)
        status = await stack.enter_async_context(
            answering(source, config.status, config.data, metrics=config.metrics, records=telemetry)
        )
        answers = ShareListening(address, f"share {config.share}", status)
        await until_told_to_stop(ready=lambda: ready(answers))
        telemetry.note("stopping", {"address": address})


async def _chain(tables: SharedTables, telemetry: Telemetry) -> None:
    """Chain what was put on record, again and again."""
    while True:
        await asyncio.sleep(_CHAIN_S)
        try:
            await asyncio.to_thread(tables.chain)
        except (MaiaError, OSError) as problem:
            code = problem.code if isinstance(problem, MaiaError) else "UNAVAILABLE-LEDGER"
            telemetry.note("failed", {"code": code})


def _status_source(door: ShareDoor, telemetry: Telemetry) -> StatusSource:
    def metrics() -> bytes:
        for name, value in door.status().items():
            with suppress(ValueError):
                telemetry.measure(f"maia_share_{name}", value)
        return telemetry.metrics()

    return StatusSource(is_ready=lambda: bool(door.endpoint), metrics=metrics, status=door.status)
