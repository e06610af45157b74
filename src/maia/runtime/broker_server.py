"""How does a broker come to life?

It binds its address, restores what it kept, and then answers whoever
connects, until its body ends. `maia broker` runs one in a process of its own;
tests and demonstrations run several of them in one process.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from maia.broker import Broker, BrokerSettings
from maia.credentials import SigningKey
from maia.events import Instant
from maia.runtime.addresses import bind, host_and_port
from maia.runtime.clock import system_now
from maia.runtime.links import LinkLimits
from maia.runtime.node_runner import NodeRunner
from maia.runtime.overhearing import Overheard
from maia.runtime.records import Records
from maia.runtime.stores import MemoryStore, Store

__all__ = ["RunningBroker", "run_broker"]


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that listens: where, and what an operator may ask of it."""

    address: str
    broker: Broker
    runner: NodeRunner
    clock: Callable[[], Instant]

    def status(self) -> dict[str, object]:
        """Return links, tables, leases and counters."""
        return self.broker.status(self.clock())


@asynccontextmanager
async def run_broker(  # noqa: PLR0913 - every one is named at the call
    key: SigningKey,
    settings: BrokerSettings,
    *,
    listen: str | None = None,
    store: Store | None = None,
    limits: LinkLimits | None = None,
    records: Records | None = None,
    clock: Callable[[], Instant] = system_now,
    overhear: Callable[[bytes], None] | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run a broker while the body runs, and say goodbye on every link at the end.

    It listens at `listen`, or else at the settings' address. Port 0 stands for
    any free port, and the broker is then known by the one it found. Whoever
    demonstrates what a broker hears may `overhear` its messages.
    """
    store = MemoryStore() if store is None else store
    kept = store.load()
    listening, bound = bind(settings.address if listen is None else listen)
    if host_and_port(settings.address)[1] == 0:
        settings = replace(settings, address=bound)
    with listening:
        broker = Broker(key, settings, random=os.urandom, kept=kept, process_id=os.getpid)
        node = broker if overhear is None else Overheard(broker, overhear)
        runner = NodeRunner(node, key, store=store, limits=limits, records=records, clock=clock)
        async with runner.running():
            runner.perform(broker.start(clock()))
            runner.listen(listening)
            try:
                yield RunningBroker(bound, broker, runner, clock)
            finally:
                await runner.drain(broker.drain(clock()))
