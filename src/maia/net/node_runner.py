"""How does a node without I/O run on sockets, disks and clocks?

The runner hands a node its inputs, one after the other, and performs the
effects that it returns. It drives brokers, key servers and clients alike. What
the node keeps is on disk before anything that it sends leaves, so a crash never
takes back an answer that a peer has received.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, assert_never, runtime_checkable

from maia.bounded_map import BoundedMap
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.errors import MaiaError, Unavailable
from maia.events import SECOND, Instant
from maia.net.connections import BackOff, Connections
from maia.net.links import LinkLimits, SocketLink
from maia.net.observer import QuietRecords, Records
from maia.net.stores import MemoryStore, Store
from maia.wire.effects import (
    Close,
    Count,
    Dial,
    DialFailed,
    Disclose,
    Effect,
    Input,
    Keep,
    Kept,
    LinkClosed,
    LinkOpened,
    LogAtStart,
    Note,
    ReadLater,
    ReadLog,
    Received,
    Record,
    Send,
    Tick,
    WakeAt,
)

if TYPE_CHECKING:
    from maia.net.statement_links import StatementLinks


# ------------------------------------------------------------ timers

# Only the earliest moment is remembered: a node that is woken says again when it wants to be woken next.
# Clocks of machines are set while we sleep, so a node is never woken before the moment by its own clock.


_STARTS_US: Final = 5 * SECOND
"""For so long, one that refuses to be dialled may be about to listen."""
_ADDRESSES_REMEMBERED: Final = 1024
_LONGEST_SLEEP_S: Final = 5.0
"""The machine's clock may be set while we sleep, so it is looked at this often."""


class Timer(Protocol):
    """Something that will happen, unless it is called off."""

    def cancel(self) -> None:
        """Call it off."""
        ...


def _in_this_loop(seconds: float, then: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, then)


class AlarmClock:
    """The first moment at which the node wants to be woken."""

    __slots__ = ("_at", "_clock", "_later", "_ring", "_timer")

    def __init__(
        self,
        clock: Callable[[], Instant],
        ring: Callable[[], None],
        *,
        later: Callable[[float, Callable[[], None]], Timer] = _in_this_loop,
    ) -> None:
        """Call `ring` when a moment has come by `clock`; `later` does something after some seconds."""
        self._clock, self._ring, self._later = clock, ring, later
        self._at: Instant | None = None
        self._timer: Timer | None = None

    def wake_at(self, at: Instant) -> None:
        """Ring at a moment, unless an earlier one was asked for."""
        if self._at is None or at < self._at:
            self.stop()
            self._at = at
            self._sleep(at)

    def stop(self) -> None:
        """Ring no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._at = self._timer = None

    def _sleep(self, at: Instant) -> None:
        seconds = min(max(0.0, (at - self._clock()) / SECOND), _LONGEST_SLEEP_S)
        self._timer = self._later(seconds, self._look)

    def _look(self) -> None:
        at = self._at
        if at is not None and self._clock() < at:
            self._sleep(at)
            return
        self._at = self._timer = None
        self._ring()


# ------------------------------------------------------------ the event log

# `server/log_recording.py` records and reads with files and threads; most nodes have no log.


class Recorder(Protocol):
    """What a runner asks for frames to be recorded and read."""

    def at_start(self, since: int, *, frames_max: int) -> LogAtStart:
        """Return what a broker starts with: at most so many frames from a position on."""
        ...

    @property
    def is_full(self) -> bool:
        """Return whether nothing more should be read from links for now."""
        ...

    def status(self) -> Mapping[str, object]:
        """Return what an operator asks for."""
        ...

    def record(self, effect: Record) -> None:
        """Have a frame written."""
        ...

    def read(self, effect: ReadLog) -> None:
        """Have frames read."""
        ...

    async def flush(self) -> None:
        """Wait until everything is safe that was to be recorded so far."""
        ...

    async def run(
        self,
        *,
        give: Callable[[Input], None],
        fail: Callable[[MaiaError], None],
        after_writing: Callable[[], None],
    ) -> None:
        """Work until cancelled."""
        ...


# ------------------------------------------------------------ the runner


_KEEP_AGAIN_S: Final = 1.0
"""How often a store that takes nothing is tried again."""
_BATCH: Final = 256
"""How many inputs share one write to the store and one flush of each link."""


class DeliveryLedger(Protocol):
    """What a runner writes deliveries to before they leave."""

    def write(self, entries: Sequence[Disclose], /) -> None:
        """Add entries; a process that is killed afterwards has written them."""
        ...


class Node(Protocol):
    """A broker or a client."""

    def handle(self, happened: Input, now: Instant, /) -> list[Effect]:
        """Take one input on; after a `Tick`, say again when to be woken next."""
        ...


class NodeTurn(Protocol):
    """What several inputs that have come by now make a node do, part by part."""

    def take(self, inputs: Sequence[Input], /) -> None:
        """Take one input on, or the messages of one read."""
        ...

    def leave(self) -> list[Effect] | None:
        """Return what is to be done now; None if there is nothing more. What it returned before is done."""
        ...


@runtime_checkable
class TurnTaker(Node, Protocol):
    """A node that shares work between inputs, and has some of it done before it goes on with the rest."""

    def turn(self, now: Instant, /) -> NodeTurn:
        """Begin with no input."""
        ...


class _OneByOne:
    """The turn of a node that takes its inputs on one after the other."""

    __slots__ = ("_effects", "_handle", "_now")

    def __init__(self, handle: Callable[[Input, Instant], list[Effect]], now: Instant) -> None:
        self._handle, self._now = handle, now
        self._effects: list[Effect] = []

    def take(self, inputs: Sequence[Input], /) -> None:
        for happened in inputs:
            self._effects += self._handle(happened, self._now)

    def leave(self) -> list[Effect] | None:
        effects, self._effects = self._effects, []
        return effects or None


class NodeRunner:
    """One node, its connections, its store and its alarm clock."""

    def __init__(  # noqa: PLR0913 - every one is named at the call
        self,
        node: Node,
        key: SigningKey,
        *,
        store: Store | None = None,
        limits: LinkLimits | None = None,
        records: Records | None = None,
        clock: Callable[[], Instant] = system_now,
        random: Callable[[int], bytes] = os.urandom,
        dial_again_s: float = 0.25,
        after_inputs: Callable[[], None] = lambda: None,
        recorder: Recorder | None = None,
        ledger: DeliveryLedger | None = None,
        stops_when_it_fails: bool = False,
        outlives_its_store: bool = False,
        by_statement: StatementLinks | None = None,
    ) -> None:
        """Drive `node`, which proves on every connection that it holds `key`.

        `recorder` does what a node with an event log asks of it, and `ledger` has
        deliveries before they leave. `after_inputs`
        is called when the node has taken some inputs on, and when a link has
        room again. A node that `stops_when_it_fails` does not outlive an
        exception: its state may be torn, and its store is not. One that `outlives_its_store`
        is told when that takes nothing, and goes on; others end. `by_statement`
        says which of its links are statement links; the others are TLS.
        """
        self._begin: Callable[[Instant], NodeTurn] = (
            node.turn if isinstance(node, TurnTaker) else partial(_OneByOne, node.handle)
        )
        self._store: Store = MemoryStore() if store is None else store
        self._records: Records = QuietRecords() if records is None else records
        self._clock = clock
        self._after_inputs = after_inputs
        self._inputs: deque[Input] = deque()
        self._is_busy = False
        self._unflushed: dict[SocketLink, None] = {}
        self._later: dict[SocketLink, asyncio.TimerHandle] = {}
        self._refused_since: BoundedMap[str, Instant] = BoundedMap(_ADDRESSES_REMEMBERED)
        """Links that are not read for a while."""
        self._uncounted: list[Count] = []
        self._alarm = AlarmClock(clock, lambda: self.give(Tick()))
        self._failure: MaiaError | None = None
        self._body: asyncio.Task[object] | None = None
        self._recorder, self._ledger = recorder, ledger
        self._stops_when_it_fails = stops_when_it_fails
        self._outlives_its_store = outlives_its_store
        self._unkept: dict[str, bytes | None] = {}
        """What is still to be kept, in the order of the last word about each."""
        self._keeping_again: asyncio.TimerHandle | None = None
        self._is_reading = True
        back_off = BackOff(first_s=dial_again_s, most_s=30.0, random=random)
        link_limits = LinkLimits() if limits is None else limits
        self.connections = Connections(self, key, link_limits, back_off, by_statement)

    # -------------------------------------------------------- life

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the node while the body runs; every task ends before this does.

        The tasks live in a group of their own, so that what the body raises
        arrives as it is. If the node cannot go on, the body is cancelled and
        the reason raised.
        """
        self._body = asyncio.current_task()
        begun, stop = asyncio.Event(), asyncio.Event()
        living = asyncio.create_task(self._live(begun, stop))
        living.add_done_callback(lambda _living: None if stop.is_set() else self._cancel_body())
        try:
            await begun.wait()
            yield
        except asyncio.CancelledError:
            if self._failure is None or self._body is None:
                raise
            self._body.uncancel()
            raise self._failure from None
        finally:
            stop.set()
            await living

    async def _live(self, begun: asyncio.Event, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            self.connections.start(group)
            recording = None if self._recorder is None else group.create_task(self._record_on(self._recorder))
            begun.set()
            await stop.wait()
            if self._keeping_again is not None:
                self._keeping_again.cancel()
                self._keep_unkept()  # tried for the last time
            self._alarm.stop()
            self.connections.stop()
            if recording is not None:
                recording.cancel()

    async def _record_on(self, recorder: Recorder) -> None:
        await recorder.run(give=self.give, fail=self._fail, after_writing=self._check_room)

    def _check_room(self) -> None:
        """Read no links while too much waits for the disk: TCP slows the senders down."""
        if self._recorder is not None and self._is_reading is self._recorder.is_full:
            self._is_reading = not self._recorder.is_full
            self.connections.read_on(self._is_reading)

    def _fail(self, problem: MaiaError) -> None:
        """End everything: a node that cannot keep what it must keep says nothing more."""
        if self._failure is None:
            self._failure = problem
            self._cancel_body()

    def _cancel_body(self) -> None:
        if self._body is not None:
            self._body.cancel()

    def listen(self, listening: socket.socket, *, by_statement: bool = False) -> None:
        """Accept links at a socket that listens already: TLS links, or else statement links."""
        self.connections.listen(listening, by_statement=by_statement)

    async def drain(self, effects: Iterable[Effect]) -> None:
        """Accept no more connections, perform a node's last effects, and wait until its links are closed."""
        self.connections.stop_listening()
        self.perform(effects)
        await self.connections.closed()

    # -------------------------------------------------------- inputs

    def give(self, *happened: Input) -> None:
        """Tell the node what happened; while it is busy, later things wait for their turn."""
        inputs = self._inputs
        inputs.extend(happened)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while inputs or self._unflushed:
                if inputs:
                    self._take_turn()
                self._flush()  # which may report a lost link to the node
        finally:
            self._is_busy = False
        if self._uncounted:
            self._count()
        self._after_inputs()

    def _take_turn(self) -> None:
        """Let the node take on what has happened, and do what it asks for, part by part.

        What it left to do of its inputs is done once what it has said before is on its way.
        """
        turn, room = self._begin(self._clock()), _BATCH
        while room > 0 and self._inputs:
            some = self._next_inputs(room)
            self._take(turn, some)
            room -= len(some)
        while (effects := self._leave(turn)) is not None:
            self._perform(effects)
            self._flush()

    def _next_inputs(self, most: int) -> list[Input]:
        """Return the next input; a message with those that came on the same link right behind it."""
        inputs = self._inputs
        first = inputs.popleft()
        some = [first]
        while (
            inputs
            and type(first) is Received
            and len(some) < most
            and type(inputs[0]) is Received
            and inputs[0].link == first.link
        ):
            some.append(inputs.popleft())
        return some

    def _leave(self, turn: NodeTurn) -> list[Effect] | None:
        try:
            return turn.leave()
        except Exception as problem:  # noqa: BLE001 - the outermost loop: recorded
            self._note_failure("Rest", problem)
            return []

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform effects that the node asked for outside `handle`, such as at its start."""
        was_busy, self._is_busy = self._is_busy, True
        try:
            self._perform(list(effects))
        finally:
            self._is_busy = was_busy
        if not was_busy:
            self.give()  # what happened meanwhile

    def _take(self, turn: NodeTurn, inputs: Sequence[Input]) -> None:
        """Let the node take an input on, or all messages of one read."""
        try:
            turn.take(inputs)
        except Exception as problem:  # noqa: BLE001 - the outermost loop: recorded, and that link is closed
            happened = inputs[0]
            self._note_failure(type(happened).__name__, problem)
            if self._stops_when_it_fails:
                return
            if isinstance(happened, LinkOpened | Received):
                link = self.connections.find(happened.link)
                if link is not None:
                    link.fail(problem)
            elif isinstance(happened, Tick):
                # A node says at the end of each look when it wants the next one, and this look had no end.
                self._alarm.wake_at(Instant(self._clock() + SECOND))

    def _note_failure(self, what: str, problem: Exception) -> None:
        self._records.note("failed", {"input": what, "problem": _place_of(problem)})
        self._records.count("maia_failures_total", 1, {})
        if self._stops_when_it_fails:
            self._fail(
                Unavailable(
                    "UNAVAILABLE-NODE-FAILED", f"stopped after a failure inside: {_place_of(problem)}"
                )
            )

    # -------------------------------------------------------- effects

    def _perform(self, effects: Sequence[Effect]) -> None:
        if Keep in map(type, effects) and not self._kept(
            [effect for effect in effects if type(effect) is Keep]
        ):
            return
        if self._ledger is not None and not self._put_on_record(
            [effect for effect in effects if type(effect) is Disclose], self._ledger
        ):
            return
        find, unflushed = self.connections.find, self._unflushed
        for effect in effects:
            if type(effect) is Send:  # most are, and asking them first saves a busy node the rest
                link = find(effect.link)
                if link is not None:
                    link.send(effect.data)
                    unflushed[link] = None
            elif type(effect) is Count:
                self._uncounted.append(effect)  # no peer waits for it, and peers wait for what is sent
            else:
                self._perform_one(effect)

    def _kept(self, wishes: Sequence[Keep]) -> bool:
        """Keep everything that is to be kept before anything leaves; say whether the node goes on."""
        for wish in wishes:
            self._unkept.pop(wish.name, None)
            self._unkept[wish.name] = wish.data
        problem = None if self._keeping_again is not None else self._keep_unkept()
        if self._keeping_again is None and problem is None:
            return True
        if problem is not None and not self._outlives_its_store:
            self._fail(problem)
            return False
        for number in {wish.link for wish in wishes if wish.link is not None}:
            link = self.connections.find(number)
            if link is not None:
                link.fail(problem or Unavailable("UNAVAILABLE-STORE", "what it asks for cannot be kept"))
        if problem is not None:
            self._try_again_later()
            self._inputs.append(Kept(problem.message))
        return True

    def _keep_unkept(self) -> MaiaError | None:
        """Keep all that was to be kept so far; return what prevents that."""
        try:
            self._store.keep(self._unkept)
        except MaiaError as problem:
            if self._keeping_again is None:
                self._records.note("store-failed", problem.as_record())
            return problem
        self._unkept = {}
        return None

    def _try_again_later(self) -> None:
        self._keeping_again = asyncio.get_running_loop().call_later(_KEEP_AGAIN_S, self._keep_again)

    def _keep_again(self) -> None:
        """Try to keep what could not be kept before; tell the node once that has worked."""
        if self._keep_unkept() is not None:
            self._try_again_later()
            return
        self._keeping_again = None
        self._records.note("store-goes-on", {})
        self.give(Kept())

    def _put_on_record(self, entries: Sequence[Disclose], ledger: DeliveryLedger) -> bool:
        """Write what is about to be delivered to the ledger; say whether that worked."""
        try:
            if entries:
                ledger.write(entries)
        except MaiaError as problem:
            self._records.note("ledger-failed", problem.as_record())
            self._fail(problem)
            return False
        return True

    def _perform_one(self, effect: Effect) -> None:
        match effect:
            case WakeAt(at=at):
                self._alarm.wake_at(at)
            case Note(event=event, fields=fields):
                self._records.note(event, fields)
            case Close(link=number):
                self._close(self.connections.find(number))
            case ReadLater(link=number, until=until):
                self._read_later(self.connections.find(number), until)
            case Dial(address=address):
                self.connections.dial(address)
            case Record():
                assert self._recorder is not None  # noqa: S101 - a node records only if it was given a log
                self._recorder.record(effect)
                self._check_room()
            case ReadLog():
                assert self._recorder is not None  # noqa: S101 - the same
                self._recorder.read(effect)
            case Send() | Keep() | Count() | Disclose():
                pass  # done before, or after
            case _:
                assert_never(effect)

    def _close(self, link: SocketLink | None) -> None:
        if link is not None:
            link.close(asyncio.get_running_loop().time())

    def _read_later(self, link: SocketLink | None, until: Instant) -> None:
        """Leave what a peer says to TCP for a while: it slows down itself and no other peer."""
        if link is None or link.is_closing:
            return
        self._read_again(link)  # forgets an earlier wish
        link.read_on(False)
        wait_s = max(0.0, (until - self._clock()) / SECOND)
        self._later[link] = asyncio.get_running_loop().call_later(wait_s, self._read_again, link)

    def _read_again(self, link: SocketLink) -> None:
        waits = self._later.pop(link, None)
        if waits is not None:
            waits.cancel()
            link.read_on(self._is_reading)

    def _flush(self) -> None:
        """Write what the last inputs caused: one write for each link, however many messages there are."""
        unflushed, self._unflushed = self._unflushed, {}
        for link in unflushed:
            link.flush()

    def _count(self) -> None:
        uncounted, self._uncounted = self._uncounted, []
        for effect in uncounted:
            self._records.count(effect.name, effect.amount, effect.labels)

    # -------------------------------------------------------- what connections tell

    def opened(self, link: SocketLink) -> None:
        """Tell the node who is there."""
        assert link.peer is not None  # noqa: S101 - an open link has proved its key
        if link.dialled is not None:
            self._refused_since.pop(link.dialled)
        # What a node dialled says where the peer is; where it dialled from is known of the others alone.
        remote = link.remote if link.dialled is None else None
        self.give(LinkOpened(link.id, link.peer, link.dialled, remote, link.identity))

    def received(self, link: SocketLink, messages: list[bytes]) -> None:
        """Tell the node what was said."""
        number = link.id
        if len(messages) == 1:
            self.give(Received(number, messages[0]))
        else:
            self.give(*[Received(number, data) for data in messages])

    def closed(self, link: SocketLink, problem: Exception | None) -> None:
        """Tell the node who is gone; why goes to the log."""
        if isinstance(problem, MaiaError):
            self._records.note(
                "link-failed", {"link": link.id, "peer": str(link.peer), **problem.as_record()}
            )
            self._records.count("maia_links_failed_total", 1, {"code": problem.code})
        self._unflushed.pop(link, None)
        self._read_again(link)
        self.give(LinkClosed(link.id))

    def drained(self, link: SocketLink) -> None:
        """Let calls that waited for room go on."""
        del link
        self._after_inputs()

    def refused(self, problem: Exception, dialled: str | None) -> None:
        """Report to the node that an address it dialled does not answer."""
        code = problem.code if isinstance(problem, MaiaError) else type(problem).__name__
        self._records.count("maia_handshakes_failed_total", 1, {"code": code})
        if dialled is not None:
            since = self._refused_since.get(dialled)
            if since is None:
                since = self._clock()
                self._refused_since.put(dialled, since)
            # Whoever is started with others dials them before they listen.
            is_starting = isinstance(problem, ConnectionRefusedError) and self._clock() - since < _STARTS_US
            fields = {"address": dialled, "code": code, "why": _why(problem)}
            self._records.note("dial-again" if is_starting else "dial-failed", fields)
            self.give(DialFailed(dialled, _why(problem)))


def _place_of(problem: Exception) -> str:
    """Say what kind of exception it is and where it was raised; its text may hold secrets."""
    at = problem.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    kind = type(problem).__name__
    return kind if at is None else f"{kind} in {Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}"


def _why(problem: Exception) -> str:
    """Say in plain words why a peer could not be reached."""
    match problem:
        case MaiaError():
            return problem.message
        case ConnectionRefusedError():
            return "the connection was refused, so nothing listens there"
        case TimeoutError():
            return "it did not answer in time"
        case socket.gaierror():
            return "there is no such host"
        case ssl.SSLError() | ConnectionResetError() | EOFError():
            return "what listens there does not speak as a broker does"
        case OSError(strerror=str(strerror)):
            return strerror[:1].lower() + strerror[1:]
        case _:
            return ""
