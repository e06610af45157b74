"""Which definitions of a type does a broker hand out?

The broker is the type registry's counter, not its authority: what it hands
out is checked by whoever asked (`type_folder.verified_lineage`).
"""

from __future__ import annotations

import asyncio
import os

from maia.client import (
    Challenged,
    ClientSession,
    ClientSettings,
    Connected,
    Disconnected,
    Ended,
    NotConnected,
    TypeReceived,
)
from maia.client.api.types import whole_lineage
from maia.clock import system_now
from maia.credentials import SigningKey, TypeName
from maia.net.node_runner import NodeRunner
from maia.types import SignedDefinition
from maia.validity.revalidation import Revalidator, asking_testers

__all__ = ["fetch_definitions"]


async def fetch_definitions(
    key: SigningKey, settings: ClientSettings, name: TypeName, *, timeout_s: float
) -> tuple[SignedDefinition, ...]:
    """Ask a broker for a version and those it was made from; nothing of the answer is verified."""
    session = ClientSession(key, settings, random=os.urandom)
    loop = asyncio.get_running_loop()
    connected: asyncio.Future[None] = loop.create_future()
    told: asyncio.Future[TypeReceived] = loop.create_future()

    def take_notices() -> None:
        for notice in session.take_notices():
            match notice:
                case Connected() if not connected.done():
                    connected.set_result(None)
                case Challenged():
                    revalidator.take(notice)
                case TypeReceived() if not told.done():
                    told.set_result(notice)
                case Ended(problem=problem) if not told.done():
                    told.set_exception(problem)
                case Disconnected(problem=problem, is_final=True):
                    waits = told if connected.done() else connected
                    if not waits.done():
                        waits.set_exception(problem)

    async def ask(wanted: TypeName) -> TypeReceived:
        nonlocal told
        told = loop.create_future()
        runner.perform(session.ask_for_type(wanted, system_now())[1])
        return await told

    runner = NodeRunner(session, key, after_inputs=take_notices)
    revalidator = Revalidator(
        asking_testers(key),
        lambda asked, answers, problem: runner.perform(session.vouch(asked.id, answers, problem)),
    )
    async with runner.running():
        runner.perform(session.start(system_now()))
        try:
            async with asyncio.timeout(timeout_s):
                await connected
                return await whole_lineage(name, ask)
        except TimeoutError:
            where = "`, `".join(settings.addresses)
            raise NotConnected(f"no broker at `{where}` answered in {timeout_s:g} seconds") from None
        finally:
            await revalidator.stop()
            await runner.drain(session.close(system_now()))
