"""How does a broker come to life?

It binds its address, restores what it kept, and then answers every peer that
connects, until its body ends. `maia broker` runs one in a process of its own;
tests and demonstrations run several of them in one process.

Demonstrations and tests may tap the brokers that they run themselves: a tap is shown every
message before the broker is. A broker of an operator never writes down what it receives.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Final, Self

from maia.api.revalidation import AskingTesters, Revalidator
from maia.broker import Broker, BrokerSettings, BrokerTurn
from maia.broker.log.recording import NO_LOG, first_to_reread
from maia.broker.streams.disclosures import DeliveryTally
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.errors import BadInput, MaiaError
from maia.events import Instant
from maia.ledger.files import LedgerFiles
from maia.net.addresses import bind, host_and_port
from maia.net.links import LinkLimits
from maia.net.node_runner import NodeRunner, Recorder
from maia.net.observer import Records
from maia.net.process import process_id
from maia.net.stores import MemoryStore, Store
from maia.wire.effects import Effect, Input, Received
from maia.wire.messages import RecordedRun

if TYPE_CHECKING:
    from maia.net.statement_links import StatementLinks


HEARD_BYTES_MAX: Final = 64 << 20
"""How much is written down; then a mark says that there was more."""

_PREFIX: Final = struct.Struct(">I")
_MORE: Final = 0xFFFFFFFF


class TappedBroker:
    """A broker whose messages a tap is shown too."""

    __slots__ = ("_broker", "_show")

    def __init__(self, broker: Broker, show: Callable[[bytes], None]) -> None:
        self._broker, self._show = broker, show

    def handle(self, happened: Input, now: Instant, /) -> list[Effect]:
        """Take one input on."""
        self.show((happened,))
        return self._broker.handle(happened, now)

    def turn(self, now: Instant, /) -> TappedTurn:
        """Begin a turn whose messages are shown."""
        return TappedTurn(self, self._broker.turn(now))

    def show(self, inputs: Sequence[Input]) -> None:
        """Show the tap what was received."""
        for happened in inputs:
            if isinstance(happened, Received):
                self._show(bytes(happened.data))


class TappedTurn:
    """A turn of such a broker."""

    __slots__ = ("_tapped", "_turn", "leave")

    def __init__(self, tapped: TappedBroker, turn: BrokerTurn) -> None:
        self._tapped, self._turn, self.leave = tapped, turn, turn.leave

    def take(self, inputs: Sequence[Input], /) -> None:
        """Take one input on, or the messages of one read."""
        self._tapped.show(inputs)
        self._turn.take(inputs)


class TapFile:
    """Messages one behind the other in a file, each in the file before its broker has seen it."""

    __slots__ = ("_file", "_room")

    def __init__(self, path: Path, *, bytes_max: int = HEARD_BYTES_MAX) -> None:
        self._file = path.open("wb", buffering=0)
        self._room = bytes_max

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self._file.close()

    def write(self, message: bytes) -> None:
        """Append a message, or the mark that some are missing."""
        if self._room < 0:
            return
        self._room -= len(message) + _PREFIX.size
        self._file.write(_PREFIX.pack(len(message)) + message if self._room >= 0 else _PREFIX.pack(_MORE))


@dataclass(frozen=True, slots=True)
class TappedMessage:
    """What was written down, and whether it is everything."""

    messages: tuple[bytes, ...]
    is_whole: bool


def read_heard(path: Path) -> TappedMessage:
    """Return the messages of a file; one that its writer could not finish counts as missing."""
    data = path.read_bytes()
    messages = tuple(_messages(data))
    return TappedMessage(messages, sum(len(one) + _PREFIX.size for one in messages) == len(data))


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + _PREFIX.size <= len(data):
        (size,) = _PREFIX.unpack_from(data, at)
        at += _PREFIX.size
        if at + size > len(data):
            return
        yield data[at : at + size]
        at += size


_FLUSH_S: Final = 10.0
_LOOK_AT_IDENTITY_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that listens: where, and what an operator may ask of it."""

    address: str
    broker: Broker
    runner: NodeRunner
    clock: Callable[[], Instant]
    recorder: Recorder | None = None
    ledger: LedgerFiles | None = None
    statement_address: str | None = None
    """Where statement links are accepted, if they are."""

    def deliveries(self) -> DeliveryTally:
        """Return what was delivered so far."""
        return self.broker.deliveries

    def missing(self) -> Mapping[bytes, list[RecordedRun]]:
        """Return what its event log is known to lack, by type."""
        log = self.broker.parts.recording
        return {} if log is None else log.missing()

    def status(self) -> dict[str, object]:
        """Return links, tables, leases, counters, and how far the event log is."""
        found = {**self.broker.status(self.clock()), "pid": os.getpid()}
        found["bytes"] = self.runner.connections.traffic()
        log = found.get("log")
        if self.recorder is not None and isinstance(log, Mapping):
            found["log"] = {**log, **self.recorder.status()}
        if self.ledger is not None:
            head = self.ledger.head
            found["ledger"] = {"entries": head.entries, "check": head.check.hex()}
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
    ledger: LedgerFiles | None = None,
    by_statement: StatementLinks | None = None,
    listen_by_statement: str | None = None,
    sockets: Sequence[socket] = (),
) -> AsyncIterator[RunningBroker]:
    """Run a broker while the body runs, and say goodbye on every link at the end.

    It listens at `listen`, or else at the settings' address. Port 0 stands for
    any free port, and the broker is then known by the one it found. A demonstration
    may `overhear` its messages. A broker whose
    settings say that it records needs a `recorder`, and one that puts deliveries on record
    a `ledger`. Statement links are accepted
    at `listen_by_statement`, beside the TLS links; they need `by_statement`. With `sockets`
    that listen already, it listens there and nowhere else.
    """
    if settings.recording is not None and recorder is None:
        raise BadInput("INPUT-BROKER-SETTINGS", "a broker that records needs an event log")
    if settings.ledger is not None and ledger is None:
        raise BadInput("INPUT-BROKER-SETTINGS", "a broker that puts deliveries on record needs a ledger")
    store = MemoryStore() if store is None else store
    kept = store.load()
    bound = settings.address
    if not sockets:
        listening, bound = bind(settings.address if listen is None else listen)
        sockets = (listening,)
    if host_and_port(settings.address)[1] == 0:
        settings = replace(settings, address=bound)
    with ExitStack() as ports:
        for one in sockets:
            ports.enter_context(one).setblocking(False)
        log = NO_LOG
        if recorder is not None:
            most = settings.limits.recorded_frames_reread
            log = await asyncio.to_thread(recorder.at_start, first_to_reread(kept), frames_max=most)
        broker = Broker(key, settings, random=os.urandom, kept=kept, process_id=process_id, log=log)
        node = broker if overhear is None else TappedBroker(broker, overhear)
        runner = NodeRunner(
            node,
            key,
            store=store,
            limits=limits,
            records=records,
            clock=clock,
            recorder=recorder,
            ledger=ledger,
            outlives_its_store=True,
            after_inputs=lambda: _take_challenges(broker, revalidator),
            by_statement=by_statement,
        )
        # A broker asks about its own certificates alone, where these say: it is its own wallet.
        revalidator = Revalidator(
            AskingTesters(key),
            lambda asked, answers, _problem: runner.perform(broker.vouch(asked.id, answers, clock())),
        )
        async with runner.running():
            runner.perform(broker.start(clock()))
            for one in sockets:
                runner.listen(one)
            statement_address = None
            if listen_by_statement is not None:
                also, statement_address = bind(listen_by_statement)
                runner.listen(also, by_statement=True)
            renewing = None
            if by_statement is not None:
                runner.perform(broker.identify(by_statement.identity().own, clock()))
                renewing = asyncio.create_task(_renew_identity(broker, runner, by_statement, records))
            try:
                yield RunningBroker(bound, broker, runner, clock, recorder, ledger, statement_address)
            finally:
                if renewing is not None:
                    renewing.cancel()
                await revalidator.stop()
                if recorder is not None:
                    with suppress(TimeoutError):  # a full disk must not keep a broker from stopping
                        await asyncio.wait_for(recorder.flush(), _FLUSH_S)
                await runner.drain(broker.drain(clock()))


async def _renew_identity(
    broker: Broker, runner: NodeRunner, links: StatementLinks, records: Records | None
) -> None:
    """Show peers what is put in the place of the broker's own statement; what is none changes nothing."""
    shown, refused = links.identity().own, ""
    while True:
        await asyncio.sleep(_LOOK_AT_IDENTITY_S)
        try:
            found = (await asyncio.to_thread(links.identity)).own
        except MaiaError as problem:
            if records is not None and problem.message != refused:
                refused = problem.message
                records.note("refused", {"code": problem.code, "why": problem.message})
            continue
        if found.id != shown.id:
            shown, refused = found, ""
            runner.perform(broker.identify(found, links.clock()))


def _take_challenges(broker: Broker, revalidator: Revalidator) -> None:
    for challenged in broker.take_challenges():
        revalidator.take(challenged)
