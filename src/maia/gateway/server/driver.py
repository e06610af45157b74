"""Who performs what one MQTT session asks for?

A `Driver` holds one session, the connection that it has now, and its Maia client. It hands inputs
to the session and performs the effects: bytes to the socket, events to the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable, Iterable
from typing import Final, Protocol, assert_never

from maia.clock import system_now
from maia.errors import MaiaError
from maia.events import SECOND
from maia.gateway.mqtt.effects import (
    Acknowledge,
    Attached,
    BrokerAnswered,
    ClockTick,
    CloseConnection,
    CloseSubscription,
    Effect,
    Input,
    Lost,
    Messages,
    OpenSubscription,
    QueryState,
    ReceivedBytes,
    SessionOver,
    SubscriptionAnswered,
    SubscriptionEnded,
    ToBroker,
    WakeSessionAt,
    Write,
)
from maia.gateway.mqtt.packets import ConnectPacket, ReasonCode
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.server.shares import AccountShares
from maia.gateway.server.upstream import DurableProgress, Upstream

_UNREAD_BYTES: Final = 256 << 10
"""How much of what a client is answered may wait for it to be read before the client is not read either."""


class ClientLink(Hashable, Protocol):
    """The connection of an MQTT client."""

    account: str | None
    """The account whose share it is counted in, once its client has proved one."""

    @property
    def unread(self) -> int:
        """Return how many bytes wait for the client to read."""
        ...

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Close behind what was written."""

    def drop(self) -> None:
        """End the connection at once."""

    def read_on(self, wanted: bool) -> None:
        """Read on, or leave what arrives to TCP."""


class Household(Protocol):
    """What a driver needs of its gateway."""

    published: int
    """Messages of clients that went to the broker."""
    delivered: int
    """Messages that went to clients."""
    skipped: int
    """Messages that clients did not get, because they did not read."""
    shares: AccountShares
    """What accounts hold."""

    def retainer(self, driver: Driver) -> Upstream | None:
        """Return the account's Maia client for wills and retained messages, which outlives connections."""
        ...

    def join(self, driver: Driver, number: int, effect: OpenSubscription) -> None:
        """Make a session a member of a share group."""

    def leave(self, driver: Driver, number: int | None) -> None:
        """End a membership in a share group, if there is one; None for all of them."""

    def keep(self, driver: Driver) -> asyncio.Event:
        """Keep a lasting session; return what is set when it is on disk."""
        ...

    def over(self, driver: Driver) -> None:
        """Take note that a session has ended."""

    def away(self, account: str) -> None:
        """Forget an account's key if none of its clients is connected."""

    def note(self, event: str, fields: dict[str, object]) -> None:
        """Write a log line."""


class Driver:
    """One MQTT session and its two sides."""

    def __init__(self, household: Household, account: str, session: MqttSession) -> None:
        """Drive a session of an account, which has no connection yet."""
        self.household, self.account, self.session = household, account, session
        self.unread = household.shares.reader(account)
        self.upstream: Upstream | None = None
        self.progress: dict[str, DurableProgress] = {}
        self.connection: ClientLink | None = None
        self.is_over = False
        self._has_room, self._room_is_wanted, self._writable = asyncio.Event(), False, True
        self._is_reading = True
        self._unwritten: list[bytes] = []
        self._unsent: dict[Upstream, None] = {}
        self._kept: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -------------------------------------------------------- the connection's side

    def attach(self, connection: ClientLink, connect: ConnectPacket, assigned_id: str | None) -> None:
        """Go on with a connection whose client has proved who it is."""
        self.connection, self._writable, self._is_reading = connection, True, False
        self.feed(Attached(connect, assigned_id))

    def received(self, data: bytes | memoryview) -> None:
        """Take bytes of the client."""
        self.feed(ReceivedBytes(data))

    def lost(self, connection: ClientLink, reason: ReasonCode | None = None) -> None:
        """Take note that a connection is gone, unless another has taken its place."""
        if connection is self.connection:
            self.feed(Lost(reason))

    def writable(self, is_writable: bool) -> None:
        """Take note whether the client reads fast enough."""
        self._writable = is_writable
        self._check_room()

    def refused(self, problem: MaiaError) -> None:
        """Take note that brokers do not let this principal connect any more."""
        self.feed(Lost(ReasonCode.NOT_AUTHORIZED, problem))

    # -------------------------------------------------------- the broker's side

    @property
    def room(self) -> int:
        """Return how many messages the client can take now."""
        return self.session.room if self._writable else 0

    async def until_room(self) -> None:
        """Wait until the client can take a message."""
        while self.room <= 0:
            self._has_room.clear()
            self._room_is_wanted = True
            await self._has_room.wait()

    def take(self, messages: Messages) -> None:
        """Hand messages to the session, and what it makes of them to the client, in one write."""
        self.household.delivered += len(messages.messages)
        self.feed(messages)

    def answered(self, answers: list[tuple[int, int, MaiaError | None]]) -> None:
        """Take note of what the broker answered for messages of the client."""
        self.feed(BrokerAnswered(answers))

    def skipped(self, messages: int) -> None:
        """Take note of messages that the client does not get, because it does not read."""
        self.household.skipped += messages

    def ended(self, number: int, problem: MaiaError) -> None:
        """Take note that a subscription has ended."""
        self.feed(SubscriptionEnded(number, problem))

    # -------------------------------------------------------- effects

    def feed(self, happened: Input) -> None:
        """Hand an input to the session, and perform what it asks for."""
        session = self.session
        before = (session.is_connected, len(session.subscriptions))
        effects = self.session.handle(happened, system_now())
        if effects:
            self._perform(effects)
        if self._unwritten:
            self._write_now()
        while self._unsent:  # after all messages of one read
            self._unsent.popitem()[0].send()
        self._check_room()
        if before == (True, len(session.subscriptions)) and session.is_connected:
            return  # nearly always
        if session.is_persistent and not self.is_over:
            self._kept = self.household.keep(self)
        if not session.is_connected and not self.is_over:
            self.let_go()

    def let_go(self, *, forget: bool = False) -> None:
        """Stop the session's Maia client: while its client is away, the gateway can do nothing for it."""
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            self.spawn(upstream.stop(forget=forget))
        self.household.away(self.account)

    async def settled(self) -> None:
        """Return when nothing of an earlier connection is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _check_room(self) -> None:
        if self._room_is_wanted and self.room > 0:
            self._room_is_wanted = False
            self._has_room.set()
        if self.connection is not None:
            wanted = self.session.wants_input and (
                self._writable or self.connection.unread < _UNREAD_BYTES  # what is writable has left
            )
            if wanted is not self._is_reading:
                self._is_reading = wanted
                self.connection.read_on(wanted)

    def _write_now(self) -> None:
        if self.connection is not None and self._unwritten:
            self.connection.write(b"".join(self._unwritten))
        self._unwritten.clear()

    def _perform(self, effects: Iterable[Effect]) -> None:  # noqa: PLR0912 - one case an effect
        for effect in effects:
            match effect:
                case Write(data):
                    self._unwritten.append(data)
                case Acknowledge(token, messages):
                    Upstream.acknowledge(token, messages)
                case ToBroker():
                    self._publish(effect)
                case CloseConnection(problem):
                    self._close(problem)
                case OpenSubscription():
                    self._open(effect)
                case QueryState(number):
                    subscribed = self.session.subscriptions.get(number)
                    if self.upstream is not None and subscribed is not None:
                        self.upstream.query_state(number, subscribed, self)
                case CloseSubscription(number):
                    self.household.leave(self, number)
                    if self.upstream is not None:
                        self.spawn(self.upstream.close(number, forget=True))
                case WakeSessionAt(at):
                    self._wake_after((at - system_now()) / SECOND)
                case SessionOver():
                    self.is_over = True
                    self.household.over(self)
                case _:
                    assert_never(effect)

    def _publish(self, effect: ToBroker) -> None:
        row, upstream = self.session.table.rows[effect.row], self.upstream
        if row.is_retained or upstream is None:  # the will of a client that has been away for a while
            upstream = self.household.retainer(self)
        if upstream is not None:
            self.household.published += effect.rows
            upstream.publish(
                effect.row,
                effect.columns,
                effect.rows,
                effect.handle,
                self.answered,
                is_one=effect.is_one,
            )
            self._unsent[upstream] = None

    def _open(self, effect: OpenSubscription) -> None:
        if effect.subscribed.group is not None:
            self.household.join(self, effect.number, effect)
            return

        async def opened(upstream: Upstream) -> None:
            problems = await upstream.open(
                effect.number, effect.subscribed, self, self.session.client_id, wants_state=effect.wants_state
            )
            await self.subscribed(effect.number, problems)

        if self.upstream is not None:
            self.spawn(opened(self.upstream))

    async def subscribed(self, number: int, problems: tuple[MaiaError | None, ...]) -> None:
        """Answer for a subscription, which is on disk by then if it lasts."""
        if self._kept is not None:
            await self._kept.wait()
        self.feed(SubscriptionAnswered(number, problems))

    def _close(self, problem: MaiaError | None) -> None:
        self._write_now()
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.household.leave(self, None)
        if problem is not None:
            self.household.note("closing", {"account": self.account, **problem.as_record()})

    def _wake_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, seconds) + 0.001, self.feed, ClockTick())

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine beside everything else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End timer and tasks; the Maia client is stopped by its owner."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
