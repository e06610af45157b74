"""How does a broker come to life?

It binds its address, restores what it kept, and then answers whoever
connects, until its body ends. `maia broker` runs one in a process of its own;
tests and demonstrations run several of them in one process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

from maia.broker import Broker, BrokerSettings
from maia.broker.durable.log_state import NO_LOG, LogAtStart
from maia.broker.durable.log_writer import first_to_reread
from maia.broker.server.tap import TappedBroker
from maia.broker.settings import BadSettings
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.events import Instant
from maia.net.addresses import bind, host_and_port
from maia.net.links import LinkLimits
from maia.net.node_runner import NodeRunner, Recorder
from maia.net.observer import Records
from maia.net.stores import MemoryStore, Store
from maia.validity.revalidation import AskingTesters, Revalidator

__all__ = ["RunningBroker", "run_broker"]

_FLUSH_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that listens: where, and what an operator may ask of it."""

    address: str
    broker: Broker
    runner: NodeRunner
    clock: Callable[[], Instant]
    recorder: Recorder | None = None

    def status(self) -> dict[str, object]:
        """Return links, tables, leases, counters, and how far the event log is."""
        found = self.broker.status(self.clock())
        log = found.get("log")
        if self.recorder is not None and isinstance(log, Mapping):
            found["log"] = {**log, **self.recorder.status()}
        return found


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
    recorder: Recorder | None = None,
) -> AsyncIterator[RunningBroker]:
    """Run a broker while the body runs, and say goodbye on every link at the end.

    It listens at `listen`, or else at the settings' address. Port 0 stands for
    any free port, and the broker is then known by the one it found. Whoever
    demonstrates what a broker hears may `overhear` its messages. A broker whose
    settings say that it records needs a `recorder`.
    """
    if settings.recording is not None and recorder is None:
        raise BadSettings("a broker that records needs an event log")
    store = MemoryStore() if store is None else store
    kept = store.load()
    listening, bound = bind(settings.address if listen is None else listen)
    if host_and_port(settings.address)[1] == 0:
        settings = replace(settings, address=bound)
    with listening:
        log = NO_LOG if recorder is None else await _log_at_start(recorder, settings, kept)
        broker = Broker(key, settings, random=os.urandom, kept=kept, process_id=os.getpid, log=log)
        node = broker if overhear is None else TappedBroker(broker, overhear)
        runner = NodeRunner(
            node,
            key,
            store=store,
            limits=limits,
            records=records,
            clock=clock,
            recorder=recorder,
            after_inputs=lambda: _take_challenges(broker, revalidator),
        )
        # A broker asks about its own certificates alone, where these say: it is its own wallet.
        revalidator = Revalidator(
            AskingTesters(key),
            lambda asked, answers, _problem: runner.perform(broker.vouch(asked.id, answers, clock())),
        )
        async with runner.running():
            runner.perform(broker.start(clock()))
            runner.listen(listening)
            try:
                yield RunningBroker(bound, broker, runner, clock, recorder)
            finally:
                await revalidator.stop()
                if recorder is not None:
                    with suppress(TimeoutError):  # a full disk must not keep a broker from stopping
                        await asyncio.wait_for(recorder.flush(), _FLUSH_S)
                await runner.drain(broker.drain(clock()))


def _take_challenges(broker: Broker, revalidator: Revalidator) -> None:
    for challenged in broker.take_challenges():
        revalidator.take(challenged)


async def _log_at_start(
    recorder: Recorder, settings: BrokerSettings, kept: Mapping[str, bytes]
) -> LogAtStart:
    most = settings.limits.recorded_frames_reread
    return await asyncio.to_thread(recorder.at_start, first_to_reread(kept), frames_max=most)
