"""Who performs what one MQTT session asks for?

A `Driver` holds one session, the connection that it has now, and its Maia client. It hands inputs
to the session and performs the effects: bytes to the socket, events to the broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from itertools import groupby
from typing import Final, Protocol, assert_never

from maia.clock import system_now
from maia.errors import MaiaError
from maia.events import SECOND
from maia.gateway.mqtt.effects import (
    Acknowledge,
    Attached,
    BrokerAnswered,
    CloseConnection,
    CloseSubscription,
    Effect,
    Input,
    Lost,
    Message,
    Messages,
    OpenSubscription,
    QueryState,
    Received,
    SessionOver,
    SubscriptionAnswered,
    SubscriptionEnded,
    Tick,
    ToBroker,
    WakeAt,
    Write,
)
from maia.gateway.mqtt.packets import Connect, Reason
from maia.gateway.mqtt.session import MqttSession
from maia.gateway.server.upstream import Progress, Upstream

__all__ = ["Driver", "Household"]


_WRITTEN_TOGETHER: Final = 64 << 10


class Household(Protocol):
    """What a driver needs of its gateway."""

    published: int
    """Messages of clients that went to the broker."""
    delivered: int
    """Messages that went to clients."""

    def retainer(self, driver: Driver) -> Upstream:
        """Return the account's Maia client for retained messages, which outlives connections."""
        ...

    def join(self, driver: Driver, number: int, effect: OpenSubscription) -> None:
        """Make a session a member of a share group."""

    def leave(self, driver: Driver, number: int | None) -> None:
        """End a membership in a share group, if there is one; None for all of them."""

    def keep(self, driver: Driver) -> None:
        """Write a lasting session to disk."""

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
        self.upstream: Upstream | None = None
        self.progress: dict[str, Progress] = {}
        self.transport: asyncio.Transport | None = None
        self.is_over = False
        self._room, self._writable = asyncio.Event(), True
        self._is_reading = True
        self._unwritten = bytearray()
        self._answered: list[tuple[int, MaiaError | None]] = []
        self._is_flushing = False
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -------------------------------------------------------- the connection's side

    def attach(self, transport: asyncio.Transport, connect: Connect, assigned_id: str | None) -> None:
        """Go on with a connection whose client has proved who it is."""
        self.transport, self._writable, self._is_reading = transport, True, False
        self.feed(Attached(connect, assigned_id))

    def received(self, data: bytes) -> None:
        """Take bytes of the client."""
        self.feed(Received(data))

    def lost(self, transport: asyncio.Transport, reason: Reason | None = None) -> None:
        """Take note that a connection is gone, unless another has taken its place."""
        if transport is self.transport:
            self.feed(Lost(reason))

    def writable(self, is_writable: bool) -> None:
        """Take note whether the client reads fast enough."""
        self._writable = is_writable
        self._check_room()

    def refused(self, problem: MaiaError) -> None:
        """Take note that brokers do not let this principal connect any more."""
        self.feed(Lost(Reason.NOT_AUTHORIZED, problem))

    # -------------------------------------------------------- the broker's side

    async def room(self) -> int:
        """Return how many messages the client can take, when it can take any."""
        while not self.has_room:
            self._room.clear()
            await self._room.wait()
        return self.session.room

    @property
    def has_room(self) -> bool:
        """Say whether the client can take another message now."""
        return self._writable and self.session.room > 0

    def take(self, messages: Sequence[Message]) -> None:
        """Hand messages to the session, and what it makes of them to the client, in one write."""
        self.household.delivered += len(messages)
        self.feed(Messages(messages))
        self._write_now()

    def ended(self, number: int, problem: MaiaError) -> None:
        """Take note that the broker has ended a subscription."""
        self.feed(SubscriptionEnded(number, problem))

    # -------------------------------------------------------- effects

    def feed(self, happened: Input) -> None:
        """Hand an input to the session, and perform what it asks for."""
        before = len(self.session.subscriptions)
        effects = self.session.handle(happened, system_now())
        self._perform(effects)
        self._check_room()
        session = self.session
        is_changed = len(session.subscriptions) != before or not session.is_connected
        if session.is_persistent and is_changed and not self.is_over:
            self.household.keep(self)
        if not session.is_connected and not session.has_will and not self.is_over:
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
        if self.has_room:
            self._room.set()
        transport, wanted = self.transport, self.session.wants_input
        if wanted is not self._is_reading and transport is not None and not transport.is_closing():
            self._is_reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    # Many messages come with one read, and many answers with one frame: what follows is written together.
    def _flush_soon(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        while self._answered:
            answered, self._answered = self._answered, []
            for problem, same in groupby(answered, key=lambda one: one[1]):
                self.feed(BrokerAnswered(tuple(handle for handle, _ in same), problem))
        self._write_now()

    def _write_now(self) -> None:
        if self._unwritten and self.transport is not None:
            self.transport.write(bytes(self._unwritten))
        self._unwritten.clear()

    def _perform(self, effects: Iterable[Effect]) -> None:  # noqa: PLR0912 - one case an effect
        for effect in effects:
            match effect:
                case Write(data):
                    self._unwritten += data
                    if len(self._unwritten) > _WRITTEN_TOGETHER:
                        self._write_now()
                    else:
                        self._flush_soon()
                case Acknowledge(token):
                    Upstream.acknowledge(token)
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
                case WakeAt(at):
                    self._wake_after((at - system_now()) / SECOND)
                case SessionOver():
                    self.is_over = True
                    self.household.over(self)
                case _:
                    assert_never(effect)

    def _publish(self, effect: ToBroker) -> None:
        handle = effect.handle

        def answered(problem: MaiaError | None) -> None:
            if handle is not None:
                self._answered.append((handle, problem))
                self._flush_soon()

        row = self.session.table.rows[effect.row]
        upstream = self.household.retainer(self) if row.is_retained else self.upstream
        if upstream is not None:
            self.household.published += 1
            upstream.publish(effect.row, effect.event, answered)

    def _open(self, effect: OpenSubscription) -> None:
        if effect.subscribed.group is not None:
            self.household.join(self, effect.number, effect)
            return

        async def opened(upstream: Upstream) -> None:
            problems = await upstream.open(
                effect.number,
                effect.subscribed,
                self,
                self.session.client_id,
                wants_state=effect.wants_state,
            )
            self.feed(SubscriptionAnswered(effect.number, problems))

        if self.upstream is not None:
            self.spawn(opened(self.upstream))

    def _close(self, problem: MaiaError | None) -> None:
        self._write_now()
        if self.transport is not None:
            self.transport.close()
            self.transport = None
        self.household.leave(self, None)
        if problem is not None:
            self.household.note("closing", {"account": self.account, **problem.as_record()})

    def _wake_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, seconds) + 0.001, self.feed, Tick())

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
