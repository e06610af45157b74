"""How does an MQTT client's session publish and subscribe at the broker, as its own principal?

An `Upstream` is one Maia client with one account key. Events leave in frames as full as can be; for each
the session learns what the broker answered. What arrives waits until the MQTT client has room, so that
TCP slows the broker down and nothing piles up here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from secrets import token_bytes
from typing import Final, Protocol

import msgspec

from maia.client import Delivered
from maia.client.api.by_frame import (
    call_on_arrival,
    call_on_waiting,
    is_full,
    next_frame,
    share_publications,
    stream_of,
)
from maia.client.api.client import Client, connect
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.client.batch import OutgoingFrame
from maia.client.entries import SeenPublications
from maia.client.errors import ClientClosed
from maia.clock import system_now
from maia.credentials import NetworkName, Principal, SignedCertificate, SigningKey, VerifiedConstitution
from maia.errors import MaiaError, Unavailable
from maia.events import AttributeUid
from maia.gateway.mqtt.effects import Messages, SubscribedFilter
from maia.gateway.server.lanes import OnAnswers, PublishLane, Sent, refused_rows
from maia.gateway.server.shares import Unread
from maia.gateway.topic_table import Columns, TopicInterest, TopicRow, TopicTable, matches
from maia.predicates import NEVER, Predicate
from maia.types import SignedDefinition
from maia.types.definition import PUBLICATION

_EVENTS_AT_A_TIME: Final = 4096
_CLOSE_S: Final = 5.0
_NUMBER_BYTES: Final = 16
_LOOK_S: Final = 1.0
_SKIPPED_FROM: Final = 4
"""Messages with QoS 0 are skipped from this part of the bytes on that end a subscription with another."""
_PAUSE_S: Final = 1.0
"""How long a subscription is taken back at least whose reader does not read."""
_PART_BYTES: Final = 256 << 10
"""How much is handed to a reader before it is asked whether it has room for more."""


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
    brokers_of: frozenset[Principal] | None = None


class Receiver(Protocol):
    """Where messages of a subscription go."""

    unread: Unread
    """How many bytes of them wait."""

    @property
    def room(self) -> int:
        """Return how many messages can be taken now."""
        ...

    async def until_room(self) -> None:
        """Wait until a message can be taken."""

    def take(self, messages: Messages) -> None:
        """Take as many messages as there is room for, or fewer."""

    def skipped(self, messages: int) -> None:
        """Take note of messages that it does not get, because too many bytes wait."""

    def ended(self, number: int, problem: MaiaError) -> None:
        """Take note that a subscription has ended."""


@dataclass(slots=True)
class _Position:
    """A recorded frame, and how many of its messages the MQTT client has not acknowledged."""

    position: bytes
    outstanding: int


@dataclass(slots=True)
class DurableProgress:
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


class _Frame(msgspec.Struct):
    """A delivered frame as messages, and how many of them were handed on."""

    messages: list[tuple[str, bytes, str | None]]
    unwanted: frozenset[str]
    """Topics that the filter does not admit."""
    is_own: bool
    position: bytes | None
    place: _Position | None
    at: int
    size: int


@dataclass(slots=True)
class _Served:
    """One Maia subscription: an interest of an MQTT filter; `progress` if it is durable."""

    number: int
    subscribed: SubscribedFilter
    interest: TopicInterest
    row: TopicRow
    receiver: Receiver
    subscription: Subscription
    names: tuple[tuple[str, AttributeUid], ...]
    """What the row calls the columns of frames."""
    is_admitted: bool
    """True if the filter admits the one topic that all messages of the row have."""
    progress: DurableProgress | None
    frame: _Frame | None = None
    is_handing_on: bool = False
    """True while it hands on, or waits for room to."""
    position: bytes | None = None
    """The recorded frame whose events it is taking."""
    to_skip: int = 0
    """How many more of them were handed to the session before a reconnection."""
    is_over: bool = False
    """True once it was ended here, for a reader that does not read."""
    is_paused: bool = False
    """True while it is taken back at the broker, until its reader reads again."""


class Upstream:
    """One Maia client on behalf of one account."""

    def __init__(
        self,
        settings: UpstreamSettings,
        key: SigningKey,
        credentials: Iterable[SignedCertificate],
        refused: Callable[[MaiaError], None],
        progress: dict[str, DurableProgress],
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
        self._lanes: dict[int, PublishLane] = {}
        self._served: dict[int, list[_Served]] = {}
        self._tasks: dict[int, set[asyncio.Task[None]]] = {}
        self._progress = progress
        self._one_state = asyncio.Lock()
        """Held while retained messages are handed on: they are all in memory until the reader has them."""
        self._queries: set[int] = set()
        """Subscriptions whose retained messages are asked for next."""
        self._seen = SeenPublications()
        """A publication on several topics comes once, whichever filters admit it."""
        self.own_streams: set[bytes] = set()
        self.sent: Sent | None = None
        """Of a client that several sessions publish with: whose events are in its latest frames."""
        self.is_own: Callable[[bytes], bool] = lambda _label: False
        """Says whether a frame that another client of the account has sent is the session's own."""

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
        """Return whether it could not connect; another one is to be made."""
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
                brokers_of=settings.brokers_of,
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
        tasks += [lane.advertising for lane in self._lanes.values() if lane.advertising is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.set()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)

    # -------------------------------------------------------- publish

    def publish(
        self, row: int, columns: Columns, rows: int, handle: int, answered: OnAnswers, *, is_one: bool = False
    ) -> None:
        """Put events of one row behind those that wait; `send` sends them, and `answered` is called.

        With `is_one`, they are one publication on several topics.
        """
        if is_one:
            columns = {**columns, PUBLICATION.name: (token_bytes(_NUMBER_BYTES),) * rows}
        lane = self._lanes.get(row)
        if lane is None:
            lane = self._lanes[row] = PublishLane(
                self._settings.table.rows[row], self.advertise, self.refused_rows, self.sent
            )
        lane.give(columns, rows, handle, answered)

    def send(self) -> None:
        """Send what waits, as far as there is room for it; the rest follows by itself."""
        for lane in self._lanes.values():
            lane.send()

    async def advertise(self, row: TopicRow) -> Publisher:
        """Ask for the right to publish on a row's type."""
        client = await self.opened()
        publisher = await client.advertise(row.event_type.name)
        self.own_streams.add(stream_of(publisher))
        return publisher

    def refused_rows(
        self, frames: Sequence[OutgoingFrame], refused: int, row: TopicRow
    ) -> frozenset[int] | None:
        """Return which of some events the broker has refused; None if that cannot be told."""
        constitutions = self._settings.constitutions
        principal, now = self._key.principal, system_now()
        return refused_rows(frames, refused, row.event_type, principal, self._credentials, constitutions, now)

    # -------------------------------------------------------- subscribe

    async def open(
        self,
        number: int,
        subscribed: SubscribedFilter,
        receiver: Receiver,
        client_id: str,
        *,
        wants_state: bool,
    ) -> tuple[MaiaError | None, ...]:
        """Subscribe to everything that a filter wants; return what was refused, interest by interest."""
        problems: list[MaiaError | None] = []
        opened = self._served[number] = []
        for interest in subscribed.interests:
            row = self._settings.table.rows[interest.row]
            name = (
                _durable_name(client_id, subscribed, interest)
                if subscribed.is_durable and row.is_durable
                else None
            )
            asks_state = wants_state and row.is_retained
            progress = None if name is None else self._progress.setdefault(name, DurableProgress())
            try:
                subscription = await self.subscribe(
                    row,
                    interest.predicate,
                    durable=name,
                    after=None if progress is None else progress.done,
                    state=asks_state and name is None,
                )
                share_publications(subscription, self._seen)
            except MaiaError as problem:
                problems.append(problem)
                continue
            problems.append(None)
            if self._served.get(number) is not opened:  # its client has gone, or taken it back meanwhile
                with suppress(MaiaError):
                    await subscription.unsubscribe()
                continue
            subscription.acknowledges_itself = False
            if progress is not None:
                progress.subscription = subscription
            names = tuple((one.name, one.uid) for one in subscription.event_type.attributes)
            only = row.only_topic
            is_admitted = only is not None and matches(subscribed.levels, only.split("/"))
            served = _Served(
                number, subscribed, interest, row, receiver, subscription, names, is_admitted, progress
            )
            opened.append(served)
            self._spawn(number, self._serve(served, is_state=asks_state and name is None))
            if asks_state and name is not None:
                self.query_state(number, subscribed, receiver)
        return tuple(problems)

    def query_state(self, number: int, subscribed: SubscribedFilter, receiver: Receiver) -> None:
        """Bring the retained messages of a subscription, beside it; one that waits to begin is enough."""
        if number in self._queries:
            return
        self._queries.add(number)

        async def bring() -> None:
            async with self._one_state:
                self._queries.discard(number)
                for interest in subscribed.interests:
                    row = self._settings.table.rows[interest.row]
                    if row.is_retained:
                        with suppress(MaiaError):
                            beside = await self.subscribe(row, interest.predicate, durable=None, state=True)
                            newest = await self.newest_state(row, beside)
                            await beside.unsubscribe()
                            await self._hand_on_state(number, subscribed, row, newest, receiver)

        self._spawn(number, bring())

    def _spawn(self, number: int, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        tasks = self._tasks.setdefault(number, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def forget(self, client_id: str, subscriptions: Iterable[SubscribedFilter]) -> None:
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
            call_on_arrival(served.subscription, None)
            call_on_waiting(served.subscription, None)
            with suppress(MaiaError):
                await served.subscription.unsubscribe(forget=forget and served.progress is not None)

    async def subscribe(
        self,
        row: TopicRow,
        predicate: Predicate,
        *,
        durable: str | None,
        state: bool,
        after: bytes | None = None,
    ) -> Subscription:
        """Subscribe to a row's type; raise what the broker refused."""
        client = await self.opened()
        return await client.subscribe(
            row.event_type.name, predicate, durable=durable, after=after, state=state
        )

    async def _serve(self, served: _Served, *, is_state: bool) -> None:
        """Hand the state on, and from then on what arrives when it arrives."""
        if is_state:
            try:
                async with self._one_state:
                    newest = await self.newest_state(served.row, served.subscription)
                    await self._hand_on_state(
                        served.number, served.subscribed, served.row, newest, served.receiver
                    )
            except MaiaError as problem:
                served.receiver.ended(served.number, problem)
                return
        call_on_waiting(served.subscription, served.receiver.unread.add)
        call_on_arrival(served.subscription, partial(self._hand_on, served))
        self._hand_on(served)

    def _hand_on(self, served: _Served) -> None:
        """Hand on what has arrived while there is room; an end that was not asked for is reported."""
        if served.is_handing_on:
            self._shed(served)
            return
        served.is_handing_on = True
        receiver = served.receiver
        while True:
            frame = served.frame
            if frame is None:
                delivered = next_frame(served.subscription)
                if delivered is None:
                    break
                frame = served.frame = self._begin(served, delivered)
            while frame.at < len(frame.messages):
                room = receiver.room
                if room <= 0:
                    self._spawn(served.number, self._hand_on_later(served, frame))
                    self._shed(served)  # the end may have come before
                    return
                self._hand_on_part(served, frame, room)
            served.frame = None
            if served.progress is not None:
                self._end_frame(served, served.progress, frame)
        served.is_handing_on = False
        problem = served.subscription.problem
        if problem is not None and not isinstance(problem, ClientClosed):
            call_on_arrival(served.subscription, None)
            receiver.ended(served.number, problem)

    async def _hand_on_later(self, served: _Served, frame: _Frame) -> None:
        served.receiver.unread.add(frame.size)
        try:
            await served.receiver.until_room()
        finally:
            served.receiver.unread.add(-frame.size)
        served.is_handing_on = False
        self._hand_on(served)

    def _shed(self, served: _Served) -> None:
        """Let go of what waits for a reader that does not read, if it is too much or the right has ended.

        What is durable stays otherwise: its broker sends `limits.durable_bytes_under_way` and no more. What
        would be skipped (QoS 0) is not asked for until the reader reads again: it would be sent, decrypted
        and decoded in vain, and others would have to wait for that (A116).
        """
        receiver, ended = served.receiver, served.subscription.problem
        problem = ended if ended is not None and not isinstance(ended, ClientClosed) else None
        if problem is None and served.progress is None:
            problem = receiver.unread.problem(share=1 if served.subscribed.granted else _SKIPPED_FROM)
            if problem is None and is_full(served.subscription):
                problem = Unavailable(
                    "UNAVAILABLE-QUOTA-UNREAD", f"{served.subscription.waiting} events wait for a client"
                )
        if problem is None and not served.is_over:
            return
        while (skipped := next_frame(served.subscription)) is not None:
            receiver.skipped(skipped.frame.rows)
        if problem is None or served.is_over:
            return
        if served.subscribed.granted or problem is ended:
            served.is_over = True
            receiver.ended(served.number, problem)
        elif not served.is_paused:
            served.is_paused = True
            self._spawn(served.number, self._pause(served))

    async def _pause(self, served: _Served) -> None:
        """Ask for no event until the reader reads, and for a moment at least; its right stays watched."""
        try:
            await self._ask_anew(served, NEVER)
            await asyncio.sleep(_PAUSE_S)
            await served.receiver.until_room()
            await self._ask_anew(served, served.interest.predicate)
        except MaiaError as problem:
            served.receiver.ended(served.number, problem)
        served.is_paused = False

    async def _ask_anew(self, served: _Served, predicate: Predicate) -> None:
        """Put a subscription with another filter in the place of this one; what waits in it is skipped."""
        left = served.subscription
        served.subscription = await self.subscribe(served.row, predicate, durable=None, state=False)
        share_publications(served.subscription, self._seen)
        served.subscription.acknowledges_itself = False
        call_on_waiting(served.subscription, served.receiver.unread.add)
        call_on_arrival(served.subscription, partial(self._hand_on, served))
        call_on_arrival(left, None)
        with suppress(MaiaError):
            await left.unsubscribe()
        while (skipped := next_frame(left)) is not None:
            served.receiver.skipped(skipped.frame.rows)
        call_on_waiting(left, None)
        self._hand_on(served)

    def _begin(self, served: _Served, delivered: Delivered) -> _Frame:
        frame, progress, position = delivered.frame, served.progress, delivered.position
        given = frame.columns
        columns = {name: given[uid].values for name, uid in served.names if uid in given}
        messages = served.row.messages_of(columns, frame.rows)
        unwanted: frozenset[str] = frozenset()
        if not served.is_admitted:
            topics, wanted = {one[0] for one in messages}, served.subscribed.levels
            unwanted = frozenset(one for one in topics if not matches(wanted, one.split("/")))
        place, skipped = None, 0
        if progress is not None and position is not None:
            # What was handed to the session before a reconnection is sent again by the session itself.
            place = progress.place(position)
            if position != served.position:
                served.position, served.to_skip = position, progress.rows
                if position != progress.position:
                    progress.done, progress.position, progress.rows = progress.position, position, 0
                    served.to_skip = 0
            skipped = min(served.to_skip, frame.rows)
            served.to_skip -= skipped
            if place is not None:
                place.outstanding += 1  # until all of the frame was handed on
        is_own = served.subscribed.options.no_local and (
            delivered.stream in self.own_streams or self.is_own(delivered.label)
        )
        return _Frame(messages, unwanted, is_own, position, place, skipped, delivered.size)

    @staticmethod
    def _hand_on_part(served: _Served, frame: _Frame, room: int) -> None:
        progress, place = served.progress, frame.place
        part = frame.messages[frame.at : frame.at + room]
        if frame.size > _PART_BYTES:
            size = 0
            for several, (_, payload, _) in enumerate(part, start=1):
                size += len(payload)
                if size >= _PART_BYTES:
                    del part[several:]
                    break
        frame.at += len(part)
        if progress is not None:
            progress.rows += len(part)
        if frame.unwanted:
            part = [one for one in part if one[0] not in frame.unwanted]
        if place is not None:
            place.outstanding += len(part)
        if part:
            token = None if progress is None or place is None else (progress, place)
            served.receiver.take(Messages(served.number, part, False, frame.is_own, token))

    @staticmethod
    def _end_frame(served: _Served, progress: DurableProgress, frame: _Frame) -> None:
        if frame.place is not None:
            frame.place.outstanding -= 1
            progress.settle()
        elif not progress.places and frame.position is not None:
            served.subscription.acknowledge(frame.position)

    @staticmethod
    async def _hand_on_state(
        number: int,
        subscribed: SubscribedFilter,
        row: TopicRow,
        newest: list[ReceivedEvent],
        receiver: Receiver,
    ) -> None:
        for event in newest:
            topic, payload, content_type = row.message_of(event)
            is_there = payload and not row.clears(event)
            if is_there and matches(subscribed.levels, topic.split("/")):
                await receiver.until_room()
                receiver.take(Messages(number, [(topic, payload, content_type)], True, False))

    async def newest_state(self, row: TopicRow, subscription: Subscription) -> list[ReceivedEvent]:
        """Return the retained event of each topic: of several publishers, the latest."""
        await subscription.state_known()
        newest: dict[str, ReceivedEvent] = {}
        while subscription.waiting:
            for event in await subscription.some(_EVENTS_AT_A_TIME):
                topic = row.message_of(event)[0]
                if topic not in newest or event.published_at >= newest[topic].published_at:
                    newest[topic] = event
        return list(newest.values())

    @staticmethod
    def acknowledge(token: object, messages: int) -> None:
        """Take note that the MQTT client has so many messages for good."""
        match token:
            case (DurableProgress() as progress, _Position() as place):
                place.outstanding -= messages
                progress.settle()


def _durable_name(client_id: str, subscribed: SubscribedFilter, interest: TopicInterest) -> str:
    """Return the name of a durable subscription; names belong to the account's key."""
    whose = f"share\x00{subscribed.group}" if subscribed.group is not None else f"client\x00{client_id}"
    what = f"{whose}\x00{'/'.join(subscribed.levels)}\x00{interest.row}"
    return f"mqtt-{sha256(what.encode()).hexdigest()[:40]}"
