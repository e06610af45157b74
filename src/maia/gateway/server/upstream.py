"""How does an MQTT client's session publish and subscribe at the broker, as its own principal?

An `Upstream` is one Maia client with one account key. Events leave in frames as full as can be; for each
the session learns what the broker answered. What arrives waits until the MQTT client has room, so that
TCP slows the broker down and nothing piles up here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, Protocol

from maia.client import RowsRefused
from maia.client.api.client import Client, connect
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.client.errors import ClientClosed
from maia.clock import system_now
from maia.credentials import NetworkName, SignedCertificate, SigningKey, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import Value
from maia.gateway.mqtt.effects import Message, Subscribed
from maia.gateway.refused_rows import refused_rows
from maia.gateway.topic_table import Interest, Row, TopicTable, matches
from maia.predicates import Predicate
from maia.types import SignedDefinition

__all__ = ["Progress", "Receiver", "Upstream", "UpstreamSettings"]

_EVENTS_AT_A_TIME: Final = 4096
_EVENTS_TOGETHER: Final = 256
"""How many events leave in one frame, if so many wait."""
_CLOSE_S: Final = 5.0
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """Which network, and what MQTT topics mean there."""

    brokers: tuple[str, ...]
    network: NetworkName
    table: TopicTable
    definitions: tuple[Sequence[SignedDefinition], ...] = field(repr=False)
    """Of each row of the table: the version of its type, after those it was made from."""
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    connect_s: float = 10.0


class Receiver(Protocol):
    """Where messages of a subscription go."""

    async def room(self) -> int:
        """Return how many messages can be taken, when it is one at least."""
        ...

    def take(self, messages: Sequence[Message]) -> None:
        """Take as many messages as there is room for, or fewer."""

    def ended(self, number: int, problem: MaiaError) -> None:
        """Take note that the broker has ended a subscription."""


@dataclass(slots=True)
class _Position:
    """A recorded frame, and how many of its messages the MQTT client has not acknowledged."""

    position: bytes
    outstanding: int


@dataclass(slots=True)
class Progress:
    """How far an MQTT client has come in a durable subscription; it outlives connections to the broker."""

    subscription: Subscription | None = None
    done: bytes | None = None
    """The frame before that one: after a reconnection, the subscription goes on behind it."""
    position: bytes | None = None
    """The recorded frame whose messages were handed to the session last."""
    rows: int = 0
    """How many of its events were."""
    places: deque[_Position] = field(default_factory=deque)

    def place(self, position: bytes) -> _Position | None:
        """Return where to count messages of a frame; None if the client is done with all of them."""
        known = next((one for one in self.places if one.position == position), None)
        if known is None and position != self.position:
            known = _Position(position, 0)
            self.places.append(known)
        return known

    def settle(self) -> None:
        """Tell the broker how far the client has come, without a gap."""
        upto = None
        while self.places and self.places[0].outstanding == 0:
            upto = self.places.popleft().position
        if upto is not None and self.subscription is not None:
            self.subscription.acknowledge(upto)


@dataclass(slots=True)
class _Served:
    """One Maia subscription: an interest of an MQTT filter; `progress` if it is durable."""

    subscription: Subscription
    progress: Progress | None
    position: bytes | None = None
    """The recorded frame whose events it is taking."""
    to_skip: int = 0
    """How many more of them were handed to the session before a reconnection."""


class Upstream:
    """One Maia client on behalf of one account."""

    def __init__(
        self,
        settings: UpstreamSettings,
        key: SigningKey,
        credentials: Iterable[SignedCertificate],
        refused: Callable[[MaiaError], None],
        progress: dict[str, Progress],
    ) -> None:
        """Hold an account's key; `refused` is called when brokers do not let it connect any more.

        `progress` is of durable subscriptions, by their names, and belongs to the session.
        """
        self._settings, self._refused = settings, refused
        self._key, self._credentials = key, tuple(credentials)
        self._client: Client | None = None
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._lanes: dict[int, _Lane] = {}
        self._served: dict[int, list[_Served]] = {}
        self._tasks: dict[int, list[asyncio.Task[None]]] = {}
        self._progress = progress
        self.own_streams: set[bytes] = set()

    # -------------------------------------------------------- the beginning and the end

    def start(self) -> None:
        """Begin to connect to a broker; `opened` waits for it."""
        self._running = asyncio.create_task(self._run())

    async def opened(self) -> Client:
        """Return the client once it is connected; raise what the broker refused, or that there is none."""
        await asyncio.shield(self._opened)
        assert self._client is not None  # noqa: S101 - set before
        return self._client

    @property
    def has_failed(self) -> bool:
        """Say whether it could not connect; another one is to be made."""
        return self._opened.cancelled() or (self._opened.done() and self._opened.exception() is not None)

    async def _run(self) -> None:
        settings = self._settings
        try:
            async with connect(
                settings.brokers,
                key=self._key,
                network=settings.network,
                credentials=self._credentials,
                constitutions=settings.constitutions,
                timeout_s=settings.connect_s,
            ) as client:
                for history in settings.definitions:
                    client.learn(*history)
                self._client = client
                self._opened.set_result(None)
                while not self._stopping.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await self._stopping.wait()
                    if client.refused is not None:
                        self._refused(client.refused)
        except MaiaError as problem:
            if not self._opened.done():
                self._opened.set_exception(problem)
                self._opened.exception()  # whoever waits gets it; a client may have gone meanwhile
        finally:
            self._opened.cancel()

    async def show(self, certificates: Iterable[SignedCertificate]) -> None:
        """Show the broker certificates that were issued meanwhile."""
        new = [one for one in certificates if one not in self._credentials]
        if new and self._client is not None:
            self._credentials += tuple(new)
            with suppress(MaiaError):
                await self._client.show(new)

    async def stop(self, *, forget: bool = False) -> None:
        """Publish what waits, then say goodbye; `forget` ends durable subscriptions for good."""
        with suppress(TimeoutError, MaiaError):
            async with asyncio.timeout(_CLOSE_S):
                await asyncio.gather(*(lane.drained() for lane in self._lanes.values()))
        for number in list(self._served):
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await self.close(number, forget=forget)
        tasks = [task for some in self._tasks.values() for task in some]
        tasks += [lane.task for lane in self._lanes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    # -------------------------------------------------------- publish

    def publish(
        self, row: int, event: Mapping[str, Value], answered: Callable[[MaiaError | None], None]
    ) -> None:
        """Publish an event; `answered` is called when the broker has taken it on, or why it has not."""
        lane = self._lanes.get(row)
        if lane is None:
            lane = self._lanes[row] = _Lane(self, self._settings.table.rows[row])
        lane.put(event, answered)

    async def advertise(self, row: Row, on_answer: Callable[[int, int, MaiaError | None], None]) -> Publisher:
        """Ask for the right to publish on a row's type."""
        client = await self.opened()
        publisher = await client.advertise(row.event_type.name, on_answer=on_answer)
        self.own_streams.add(publisher.stream)
        return publisher

    def refused_rows(
        self, events: Sequence[Mapping[str, Value]], refused: int, row: Row
    ) -> frozenset[int] | None:
        """Return which of some events the broker has refused; None if that cannot be told."""
        constitutions = self._settings.constitutions
        principal, now = self._key.principal, system_now()
        return refused_rows(events, refused, row.event_type, principal, self._credentials, constitutions, now)

    # -------------------------------------------------------- subscribe

    async def open(
        self, number: int, subscribed: Subscribed, receiver: Receiver, client_id: str, *, wants_state: bool
    ) -> tuple[MaiaError | None, ...]:
        """Subscribe to everything that a filter wants; return what was refused, interest by interest."""
        problems: list[MaiaError | None] = []
        self._served[number], self._tasks[number] = [], []
        for interest in subscribed.interests:
            row = self._settings.table.rows[interest.row]
            name = (
                _durable_name(client_id, subscribed, interest)
                if subscribed.is_durable and row.is_durable
                else None
            )
            asks_state = wants_state and row.is_retained
            progress = None if name is None else self._progress.setdefault(name, Progress())
            try:
                subscription = await self.subscribe(
                    row,
                    interest.predicate,
                    durable=name,
                    after=None if progress is None else progress.done,
                    state=asks_state and name is None,
                )
            except MaiaError as problem:
                problems.append(problem)
                continue
            problems.append(None)
            subscription.acknowledges_itself = False
            if progress is not None:
                progress.subscription = subscription
            served = _Served(subscription, progress)
            self._served[number].append(served)
            serving = self._serve(
                number, subscribed, row, served, receiver, is_state=asks_state and name is None
            )
            self._tasks[number].append(asyncio.create_task(serving))
            if asks_state and name is not None:
                self.query_state(number, subscribed, receiver)
        return tuple(problems)

    def query_state(self, number: int, subscribed: Subscribed, receiver: Receiver) -> None:
        """Bring the retained messages of a subscription, beside it."""

        async def bring() -> None:
            for interest in subscribed.interests:
                row = self._settings.table.rows[interest.row]
                if row.is_retained:
                    with suppress(MaiaError):
                        beside = await self.subscribe(row, interest.predicate, durable=None, state=True)
                        await self._take_state(number, subscribed, row, beside, receiver)
                        await beside.unsubscribe()

        self._tasks.setdefault(number, []).append(asyncio.create_task(bring()))

    async def forget(self, client_id: str, subscriptions: Iterable[Subscribed]) -> None:
        """End what a session left at the broker that has ended while its client was away."""
        for subscribed in subscriptions:
            for interest in subscribed.interests:
                name = _durable_name(client_id, subscribed, interest)
                self._progress.pop(name, None)
                with suppress(MaiaError):
                    row = self._settings.table.rows[interest.row]
                    left = await self.subscribe(row, interest.predicate, durable=name, state=False)
                    await left.unsubscribe(forget=True)

    async def close(self, number: int, *, forget: bool) -> None:
        """Take a subscription back."""
        for task in self._tasks.pop(number, ()):
            task.cancel()
        for served in self._served.pop(number, ()):
            with suppress(MaiaError):
                await served.subscription.unsubscribe(forget=forget and served.progress is not None)

    async def subscribe(
        self, row: Row, predicate: Predicate, *, durable: str | None, state: bool, after: bytes | None = None
    ) -> Subscription:
        """Subscribe to a row's type; raise what the broker refused."""
        client = await self.opened()
        return await client.subscribe(
            row.event_type.name, predicate, durable=durable, after=after, state=state
        )

    async def _serve(
        self,
        number: int,
        subscribed: Subscribed,
        row: Row,
        served: _Served,
        receiver: Receiver,
        *,
        is_state: bool,
    ) -> None:
        """Hand on what arrives until the subscription ends; an end that was not asked for is reported."""
        try:
            if is_state:
                await self._take_state(number, subscribed, row, served.subscription, receiver)
            while events := await served.subscription.some(_EVENTS_AT_A_TIME):
                await self._hand_on(number, subscribed, row, served, events, receiver)
        except ClientClosed:
            return
        except MaiaError as problem:
            receiver.ended(number, problem)

    async def _hand_on(  # noqa: PLR0912 - which messages, and how far that brings the client
        self,
        number: int,
        subscribed: Subscribed,
        row: Row,
        served: _Served,
        events: list[ReceivedEvent],
        receiver: Receiver,
    ) -> None:
        delivered, progress, place, skipped = events[0].delivered, served.progress, None, 0
        position = delivered.position
        if progress is not None and position is not None:
            # What was handed to the session before a reconnection is sent again by the session itself.
            place = progress.place(position)
            if position != served.position:
                served.position, served.to_skip = position, progress.rows
                if position != progress.position:
                    progress.done, progress.position, progress.rows = progress.position, position, 0
                    served.to_skip = 0
            skipped = min(served.to_skip, len(events))
            served.to_skip -= skipped
            if place is not None:
                place.outstanding += 1  # until all of the frame was handed on
        is_own = delivered.stream in self.own_streams
        token = (progress, place) if progress is not None and place is not None else None
        wanted: dict[str, bool] = {}
        at = skipped
        while at < len(events):
            room = await receiver.room()
            messages: list[Message] = []
            part = events[at : at + room]
            for event in part:
                levels, payload, content_type = row.message_of(event)
                topic = "/".join(levels)
                is_wanted = wanted.get(topic)
                if is_wanted is None:
                    is_wanted = wanted[topic] = matches(subscribed.levels, levels)
                if is_wanted:
                    messages.append(Message(number, topic, payload, content_type, False, is_own, token))
            at += len(part)
            if place is not None:
                place.outstanding += len(messages)
            if progress is not None:
                progress.rows += len(part)
            if messages:
                receiver.take(messages)
        if progress is not None and place is not None:
            place.outstanding -= 1
            progress.settle()
        elif progress is not None and not progress.places and position is not None:
            served.subscription.acknowledge(position)

    async def _take_state(
        self, number: int, subscribed: Subscribed, row: Row, subscription: Subscription, receiver: Receiver
    ) -> None:
        for event in await self.newest_state(row, subscription):
            levels, payload, content_type = row.message_of(event)
            if payload and matches(subscribed.levels, levels):
                await receiver.room()
                receiver.take([Message(number, "/".join(levels), payload, content_type, True, False)])

    async def newest_state(self, row: Row, subscription: Subscription) -> list[ReceivedEvent]:
        """Return the retained event of each topic: of several publishers, the latest."""
        await subscription.state_known()
        newest: dict[str, ReceivedEvent] = {}
        while subscription.waiting:
            for event in await subscription.some(_EVENTS_AT_A_TIME):
                topic = "/".join(row.message_of(event)[0])
                if topic not in newest or event.published_at >= newest[topic].published_at:
                    newest[topic] = event
        return list(newest.values())

    @staticmethod
    def acknowledge(token: object) -> None:
        """Take note that the MQTT client has a message for good."""
        match token:
            case (Progress() as progress, _Position() as place):
                place.outstanding -= 1
                progress.settle()


def _durable_name(client_id: str, subscribed: Subscribed, interest: Interest) -> str:
    """Return the name of a durable subscription; names belong to the account's key."""
    whose = f"share\x00{subscribed.group}" if subscribed.group is not None else f"client\x00{client_id}"
    what = f"{whose}\x00{'/'.join(subscribed.levels)}\x00{interest.row}"
    return f"mqtt-{sha256(what.encode()).hexdigest()[:40]}"


class _Lane:
    """The events of one row on their way to the broker, in order."""

    def __init__(self, upstream: Upstream, row: Row) -> None:
        self._upstream, self._row = upstream, row
        self._queue: deque[tuple[Mapping[str, Value], Callable[[MaiaError | None], None]]] = deque()
        self._sent: deque[tuple[Mapping[str, Value], Callable[[MaiaError | None], None]]] = deque()
        self._woken, self._empty = asyncio.Event(), asyncio.Event()
        self._publisher: Publisher | None = None
        self.task = asyncio.create_task(self._run())

    def put(self, event: Mapping[str, Value], answered: Callable[[MaiaError | None], None]) -> None:
        self._queue.append((event, answered))
        self._empty.clear()
        self._woken.set()

    async def drained(self) -> None:
        """Return when the broker has answered for everything."""
        if self._queue or self._sent:
            await self._empty.wait()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._queue:
                some = [self._queue.popleft() for _ in range(min(len(self._queue), _EVENTS_TOGETHER))]
                unsent = some
                try:
                    if self._publisher is None:
                        self._publisher = await self._upstream.advertise(self._row, self._answer)
                    self._sent.extend(unsent)
                    unsent = []
                    await self._publisher.publish_many([event for event, _ in some])
                except MaiaError as problem:
                    # Nothing of a frame with a mistake is sent. If the publisher has ended, all are answered.
                    if not unsent and self._publisher is not None:
                        unsent = [self._sent.pop() for _ in range(min(len(some), len(self._sent)))][::-1]
                    for _, answered in unsent:
                        answered(problem)
                    self._check_empty()

    def _answer(self, rows: int, refused: int, problem: MaiaError | None) -> None:
        if problem is not None:
            self._publisher = None
            rows = len(self._sent)
        some = [self._sent.popleft() for _ in range(min(rows, len(self._sent)))]
        which: frozenset[int] | None = frozenset(range(len(some)))
        if refused:
            problem = RowsRefused(refused)
            which = self._upstream.refused_rows([event for event, _ in some], refused, self._row)
        for number, (_, answered) in enumerate(some):
            # If it is not known which were refused, none is acknowledged: it might be lost.
            answered(problem if which is None or number in which else None)
        self._check_empty()

    def _check_empty(self) -> None:
        if not self._queue and not self._sent:
            self._empty.set()
