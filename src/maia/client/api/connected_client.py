"""What does an application do with a connected client?

A `Client` passes the application's requests to the session, and the session's
notices to publishers, subscriptions and calls that wait for an answer. It is
made by `connect` (`api/client.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from maia.api.revalidation import Revalidate, Revalidator
from maia.client import (
    Accepted,
    Acknowledged,
    Challenged,
    Changed,
    ClientClosed,
    ClientSession,
    ClientSettings,
    Connected,
    CredentialsAdded,
    Delivered,
    Disconnected,
    Ended,
    GapDetected,
    KnownVersion,
    Notice,
    PutOff,
    RightEnds,
    StateKnown,
    TypeReceived,
    Warned,
    Withdrawn,
)
from maia.client.api.publisher import TRYING_AGAIN, OnAnswer, OnWarning, Publisher
from maia.client.api.subscription import AskedSubscription, Subscription
from maia.client.api.topics import Topic, TopicsSubscription, by_tree, new_publication
from maia.client.api.types import EventType, KnownTypes, predicate_for, requirement_for, topic_pattern
from maia.client.entries import Numbering, RequestEntry
from maia.client.errors import ElsewhereServed
from maia.credentials import Owner, Principal, SignedCertificate, SignedStatement, TopicName, TypeName
from maia.credentials.identity import SignedIdentity
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.net.node_runner import NodeRunner
from maia.predicates import ALWAYS, Predicate
from maia.types import SignedDefinition, VerifiedType
from maia.types.definition import TOPIC, tree_meant
from maia.wire.effects import Effect

# ------------------------------------------------------------ calls that wait for an answer


_P = ParamSpec("_P")
_T = TypeVar("_T")
_PROCESSES_MAX: Final = 64
ANSWER_S: Final = 30.0
"""How long an application waits for an answer unless it says otherwise."""


class Answers:
    """Calls that wait for an answer of the broker, by the numbers of their questions."""

    def __init__(self) -> None:
        """Wait for nothing yet."""
        self._awaited: dict[int, asyncio.Future[Notice]] = {}
        self.is_closed = False

    def __iter__(self) -> Iterator[int]:
        """Yield the number of whatever is waited for."""
        return iter(self._awaited)

    def awaited(self, number: int) -> asyncio.Future[Notice]:
        """Return what will hold the answer to `number`; called before it is asked for."""
        if self.is_closed:
            raise ClientClosed("the client is closed")
        answer: asyncio.Future[Notice] = asyncio.get_running_loop().create_future()
        self._awaited[number] = answer
        return answer

    def resolve(self, number: int, notice: Notice) -> None:
        """Hand an answer to the call that waits for it, if there is one."""
        answer = self._awaited.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(notice)

    def fail(self, number: int, problem: MaiaError) -> None:
        """Fail the call that waits for an answer."""
        answer = self._awaited.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_exception(problem)


# ------------------------------------------------------------ the client

ConnectElsewhere: TypeAlias = (
    "Callable[[str, tuple[SignedCertificate, ...]], AbstractAsyncContextManager[Client]]"
)


OnEnding: TypeAlias = Callable[[MaiaError], None]
"""Called before something that is granted to this client ends: two weeks, and two days."""


class HeldOpen:
    """The body of a `connect`, kept open in one task: what is entered there is left there."""

    def __init__(self, connecting: AbstractAsyncContextManager[Client]) -> None:
        """Connect to nothing yet."""
        self._connecting, self._ends = connecting, asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> Client:
        """Return the client once it is connected; raise why it cannot be."""
        opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        def ended(task: asyncio.Task[None]) -> None:
            if not opened.done():
                opened.set_exception(task.exception() or ClientClosed("the client was closed"))

        self._task = asyncio.create_task(self._live(opened))
        self._task.add_done_callback(ended)
        try:
            return await opened
        except asyncio.CancelledError:
            self._task.cancel()
            raise

    async def end(self) -> None:
        """Disconnect."""
        self._ends.set()
        if self._task is not None:
            await self._task

    async def _live(self, opened: asyncio.Future[Client]) -> None:
        async with self._connecting as client:
            opened.set_result(client)
            await self._ends.wait()


# Any: what a coroutine takes and yields is the business of its event loop.
def _follows(
    ask: Callable[Concatenate[Client, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Client, _P], Coroutine[Any, Any, _T]]:
    """Have the same asked of the process of the broker that serves a type, if another one does."""

    @wraps(ask)
    async def following(self: Client, /, *args: _P.args, **named: _P.kwargs) -> _T:
        try:
            return await ask(self, *args, **named)
        except ElsewhereServed as moved:
            timeout_s = named.get("timeout_s", ANSWER_S)
            assert isinstance(timeout_s, int | float)  # noqa: S101 - all that follow take one
            return await ask(await self._connected_to(moved, timeout_s), *args, **named)

    return following


def _when_awaited(
    ask: Callable[Concatenate[Client, _P], Coroutine[Any, Any, Subscription]],
) -> Callable[Concatenate[Client, _P], AskedSubscription]:
    """Ask for nothing before the answer is awaited, or a loop over its events begins."""

    @wraps(ask)
    def asking(self: Client, /, *args: _P.args, **named: _P.kwargs) -> AskedSubscription:
        return AskedSubscription(lambda: ask(self, *args, **named))

    return asking


def _short(principal: Principal) -> str:
    return f"{str(principal)[:16]}…"


class Client:
    """A connection to a network. Made by `maia.connect`."""

    def __init__(
        self,
        session: ClientSession,
        settings: ClientSettings,
        clock: Callable[[], Instant],
        revalidate: Revalidate,
        on_warning: OnWarning | None = None,
        folders: Sequence[Path] = (),
        on_ending: OnEnding | None = None,
    ) -> None:
        """Take a session over; `connect` runs it."""
        self._session = session
        self._revalidator = Revalidator(revalidate, self._vouched)
        self._settings = settings
        self._clock = clock
        self._runner: NodeRunner | None = None
        self._answers = Answers()
        self._types = KnownTypes(clock, settings.constitutions, folders)
        self._publishers: dict[int, Publisher] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._has_asked = asyncio.Event()
        """Set once something was asked for: from then on it is known whether it is of a sealed type."""
        self._has_asked_sealed = False
        self._by_type: dict[TypeName, Publisher] = {}
        """The publishers of `publish`, which advertises a type when it is first named."""
        self._advertise_lock = asyncio.Lock()
        self._connected: asyncio.Future[None] | None = None
        self._on_waiting: Callable[[MaiaError], None] | None = None
        self._unreachable: MaiaError | None = None
        self._is_telling = False
        self._connect_elsewhere: ConnectElsewhere | None = None
        """How to connect to another process of the same broker; None for a client that was sent there."""
        self._elsewhere: dict[str, Client] = {}
        self._elsewhere_lock = asyncio.Lock()
        self._lives: list[HeldOpen] = []
        self._on_warning, self._on_ending = on_warning, on_ending
        self._hindered: set[int] = set()
        """The requests whose holders know that no broker serves them now: the next acceptance is news."""
        self.broker: Principal | None = None
        """The broker that this client is connected to now, if it is."""
        self._is_away = asyncio.Event()
        """Set while no broker can be reached."""
        self.refused: MaiaError | None = None
        """Why brokers do not let this client connect any more, if that is so."""

    def __repr__(self) -> str:
        """Return who is connected to which broker of which network; no key, and no certificate."""
        network, broker = self._settings.network.name, self.broker
        state = "not connected" if broker is None else f"connected to {_short(broker)}"
        state = "closed" if self._answers.is_closed else state
        return f"<Client {_short(self._session.principal)} of {network}, {state}>"

    # -------------------------------------------------------- what an application asks for

    def learn(self, *history: SignedDefinition) -> None:
        """Verify a type version after those it was made from; it can be named from now on."""
        self._types.learn(history)

    async def versions(
        self, name: str, owner: Owner, *, timeout_s: float = ANSWER_S
    ) -> tuple[VerifiedType, ...]:
        """Ask the network for all versions of a type, and return them, each behind the one before it.

        The broker asks the others; what is told is verified against the owner's key, and can be named then.
        A version that no broker has told is not in it: brokers can withhold, and never forge.
        """
        ask = partial(self._definitions_of, timeout_s=timeout_s)
        return await self._types.versions(owner, name, ask)

    @_follows
    async def advertise(  # noqa: PLR0913 - most are named at the call
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - the field's name for it
        *,
        requires: str | Predicate = NO_REQUIREMENT,
        numbering: Numbering | None = None,
        signs: bool = False,
        written_as: EventType | None = None,
        on_warning: OnWarning | None = None,
        on_answer: OnAnswer | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Publisher:
        """Ask to publish events of a type, narrowed by a filter; raise the refusal if that is denied.

        Only subscribers whose identity statement meets `requires`, such as
        `nationality == "uk" or clearance >= 3`, get what is published, unless a publication says otherwise.
        With `numbering`, what is published again under the same numbers is
        taken for the same; without, every publisher has a stream of its own.
        A publisher that `signs` proves to subscribers that it has written these values itself.
        If your right converts what you write into events of this type, name the type that you write
        with `written_as`: events are then given in its names.
        `on_warning` is called with the reason why what is published cannot get far at this moment,
        and None when it can again; `on_answer` whenever the broker has answered for events.
        A key server that the broker does not reach yet is waited for, up to `timeout_s`.
        """
        known = await self._meant(event_type, timeout_s)
        wanted, required = predicate_for(filter, known, topic_pattern(event_type)), requirement_for(requires)
        written = None if written_as is None else await self._meant(written_as, timeout_s)
        entry, effects = self._session.advertise(
            known, wanted, self._clock(), numbering, signs=signs, requires=required, written=written
        )
        publisher = Publisher(self, entry, on_warning or self._on_warning, on_answer)
        self._publishers[entry.ref] = publisher
        await self._standing(entry, effects, timeout_s)
        return publisher

    async def publish(
        self,
        what: str | TopicName | TypeName | Sequence[Topic],
        event: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float = ANSWER_S,
        **values: object,
    ) -> None:
        """Publish one event of a type, or on a topic or several, and wait until the broker has accepted it.

        Subscribers to two of the topics get an event on several once.
        The first event of a type, or on a tree of topics, asks for the right to publish there. For many
        events, `advertise` the type or the topic, and publish with what that returns.
        """
        one_by_one = [what] if isinstance(what, str | TopicName | TypeName) else [*dict.fromkeys(what)]
        publishers, paths = list[Publisher](), list[dict[str, object]]()
        for one in one_by_one:
            what_of, path = one, one.path if isinstance(one, TopicName) else None
            if isinstance(one, str) and one.startswith("/"):
                what_of, path = tree_meant(one)
            publishers.append(await self._publisher_of(what_of, timeout_s))
            paths.append({} if path is None else {TOPIC.name: path})
        common = new_publication([one.event_type for one in publishers], len(one_by_one))
        for publisher, on_topic in zip(publishers, paths, strict=True):
            await publisher.publish({**(event or {}), **values, **on_topic, **common})
        for publisher in dict.fromkeys(publishers):
            await publisher.flush(timeout_s=timeout_s)

    async def _publisher_of(self, what: str | TopicName | TypeName, timeout_s: float) -> Publisher:
        """Return the publisher of a type for single events, made for the first of them."""
        name = (await self._meant(what, timeout_s)).event_type.name
        async with self._advertise_lock:
            publisher = self._by_type.get(name)
            if publisher is None or not any(
                publisher in one._publishers.values() for one in (self, *self._elsewhere.values())
            ):
                publisher = self._by_type[name] = await self.advertise(name, timeout_s=timeout_s)
        return publisher

    @_when_awaited
    @_follows
    async def subscribe(  # noqa: PLR0913 - most are named at the call
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - the field's name for it
        *,
        requires: str | Predicate = NO_REQUIREMENT,
        durable: str | None = None,
        after: bytes | None = None,
        upto: bytes | None = None,
        state: bool = False,
        shown_as: EventType | None = None,
        on_warning: OnWarning | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Subscription:
        """Ask for the events of a type that a filter admits; raise the refusal if that is denied.

        `await` it for a subscription, or write `async for event in client.subscribe(…)` right away.

        Only events of publishers whose identity statement meets `requires` arrive.
        Of a topic, such as `/news/uk`, or a pattern of topics, such as `/news/+/sport`, you get the
        events on these topics and on all below them. With a `durable` name of your
        choice, what was published while you were away comes first. The broker must
        record the type. An application that keeps the `position` of the last delivery together with what
        it made of it goes on `after` it, so that a crash of either repeats nothing. Several readers share
        a name: one with an empty `upto` gets positions and row counts alone, and acknowledges; the others
        each get what is behind one position and `upto` another, whose delivery is the last.
        With `state`, the last publication of each publisher that you may see comes first, and of topics
        the last event on each; `await subscription.state_known()` says when that is done.
        If your right converts events into another type, name it with `shown_as`: filter and events are
        then in its names.
        `on_warning` is called with the reason why nothing can arrive at this moment, as when the
        broker has no keys of a sealed type, and None when events can again.
        """
        known = await self._meant(event_type, timeout_s)
        result = None if shown_as is None else await self._meant(shown_as, timeout_s)
        wanted = predicate_for(filter, result or known, topic_pattern(event_type))
        entry, effects = self._session.subscribe(
            known,
            wanted,
            self._clock(),
            durable=durable,
            after=after,
            upto=upto,
            state=state,
            requires=requirement_for(requires),
            shown_as=None if result is None else result.event_type,
        )
        subscription = Subscription(self, entry, on_warning or self._on_warning)
        self._subscriptions[entry.ref] = subscription
        await self._standing(entry, effects, timeout_s)
        return subscription

    async def subscribe_to(
        self,
        topics: Iterable[Topic],
        filter: str | Predicate = ALWAYS,  # noqa: A002 - the field's name for it
        *,
        requires: str | Predicate = NO_REQUIREMENT,
        durable: str | None = None,
        state: bool = False,
        on_warning: OnWarning | None = None,
        timeout_s: float = ANSWER_S,
    ) -> TopicsSubscription:
        """Ask for the events on several topics, and below them, of one tree or of several.

        An event that is on two of the topics arrives once. All else is as for `subscribe`.
        """
        parts = list[Subscription]()
        try:
            for tree, some in by_tree(topics).items():
                known = await self._meant(tree, timeout_s)
                parts.append(
                    await self.subscribe(
                        known.event_type.name,
                        predicate_for(filter, known, *map(topic_pattern, some)),
                        requires=requires,
                        durable=durable,
                        state=state,
                        on_warning=on_warning,
                        timeout_s=timeout_s,
                    )
                )
        except MaiaError:
            for one in parts:
                await one.unsubscribe(timeout_s=timeout_s)
            raise
        return TopicsSubscription(parts)

    async def show(
        self,
        certificates: Iterable[SignedCertificate] = (),
        statements: Iterable[SignedStatement] = (),
        *,
        timeout_s: float = ANSWER_S,
    ) -> None:
        """Show the broker more certificates, or newer statements, within this connection.

        Accepted requests are rechecked with them, and may show more from now on.
        They are remembered for what is asked for later, here or after a reconnection.
        """
        certificates, statements = tuple(certificates), tuple(statements)
        await self._answer_to(*self._session.show(certificates, statements), timeout_s)
        for there in self._elsewhere.values():
            await there.show(certificates, statements, timeout_s=timeout_s)

    async def identify(self, identity: SignedIdentity, *, timeout_s: float = ANSWER_S) -> None:
        """Show the broker a renewed identity statement within this connection; its attributes act at once.

        It is shown on every later connection too. If the broker refuses it, the one before counts until
        it expires.
        """
        await self._answer_to(*self._session.identify(identity), timeout_s)

    # -------------------------------------------------------- other processes of the broker

    async def _connected_to(self, moved: ElsewhereServed, timeout_s: float) -> Client:
        """Return a client of the process of the broker that serves a type; raise `moved` if there is none."""
        address = moved.address
        async with self._elsewhere_lock:
            if address in self._elsewhere:
                return self._elsewhere[address]
            if self._connect_elsewhere is None or len(self._elsewhere) >= _PROCESSES_MAX:
                raise moved
            # What this client was shown to hold meanwhile goes along: the wallet is the session's own.
            held = HeldOpen(self._connect_elsewhere(address, self._session.certificates))
            try:
                async with asyncio.timeout(timeout_s):
                    there = self._elsewhere[address] = await held.begin()
            except TimeoutError:
                said = f"the process at `{address}` did not answer in {timeout_s:g} seconds"
                raise Unavailable("UNAVAILABLE-NOT-CONNECTED", said) from None
            self._lives.append(held)
            there._types = self._types
            return there

    # -------------------------------------------------------- what publishers and subscriptions ask for

    def _now(self) -> Instant:
        """Return the present moment by the client's clock."""
        return self._clock()

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Have effects of the session performed."""
        assert self._runner is not None  # noqa: S101 - set before the client is handed out
        self._runner.perform(effects)

    def _check_room(self) -> None:
        """Read on while every subscription has room; otherwise leave what arrives to TCP."""
        link = None
        if self._runner is not None and self._session.link is not None:
            link = self._runner.connections.find(self._session.link)
        if link is not None:
            link.read_on(all(one._has_room for one in self._subscriptions.values()))

    async def _withdraw(self, entry: RequestEntry, timeout_s: float, *, forget: bool = False) -> None:
        """Withdraw a request, and wait until the broker has."""
        self._publishers.pop(entry.ref, None)
        self._subscriptions.pop(entry.ref, None)
        if self._answers.is_closed:
            return
        self._check_room()  # events that were left in it are dropped, and the answer has to be read
        effects = self._session.withdraw(entry, self._clock(), forget=forget)
        await self._answer_to(entry.ref, effects, timeout_s)

    # -------------------------------------------------------- what is asked of the session

    async def _meant(self, event_type: EventType, timeout_s: float) -> KnownVersion:
        ask = partial(self._definitions_of, timeout_s=timeout_s)
        known = await self._types.meant(event_type, ask)
        self._has_asked_sealed |= known.event_type.sealing is not None
        self._has_asked.set()
        return known

    @_follows
    async def _definitions_of(self, name: TypeName, *, every: bool = False, timeout_s: float) -> TypeReceived:
        asked = self._session.ask_for_type(name, self._clock(), every=every)
        told = await self._answer_to(*asked, timeout_s)
        assert isinstance(told, TypeReceived)  # noqa: S101 - nothing else answers this number
        return told

    def _vouched(
        self, challenged: Challenged, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> None:
        if not self._answers.is_closed:
            self._perform(self._session.vouch(challenged.id, answers, problem))

    async def _standing(self, entry: RequestEntry, effects: Iterable[Effect], timeout_s: float) -> None:
        try:
            await self._answer_to(entry.ref, effects, timeout_s, entry)
        except (MaiaError, asyncio.CancelledError):
            self._publishers.pop(entry.ref, None)
            self._subscriptions.pop(entry.ref, None)
            self._perform(self._session.withdraw(entry, self._clock()))
            raise

    async def _answer_to(
        self, number: int, effects: Iterable[Effect], timeout_s: float, entry: RequestEntry | None = None
    ) -> Notice:
        """Ask, and wait for the answer; raise if none comes, with what is known of the reason."""
        answer = self._answers.awaited(number)
        self._perform(effects)
        self._take_notices()
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            if entry is not None and entry.problem is not None:
                raise entry.problem from None  # an answer came, and it was to ask again later
            raise Unavailable(
                "UNAVAILABLE-NOT-CONNECTED", f"no answer came within {timeout_s:g} seconds"
            ) from None

    # -------------------------------------------------------- notices of the session

    def _take_notices(self) -> None:
        """Hand each notice of the session to its publisher, subscription or call."""
        if self._is_telling or not (notices := self._session.take_notices()):
            return
        self._is_telling = True
        try:
            while notices:
                for notice in notices:
                    self._tell(notice)
                for publisher in list(self._publishers.values()):
                    publisher._pump()
                notices = self._session.take_notices()
        finally:
            self._is_telling = False

    def _tell(self, notice: Notice) -> None:
        match notice:
            case Delivered(refs=refs):
                for ref in refs:
                    if ref in self._subscriptions:
                        self._subscriptions[ref]._take(notice)
            case Acknowledged(ref=ref) if ref in self._publishers:
                self._publishers[ref]._take(notice)
            case GapDetected(ref=ref) | Changed(ref=ref) | StateKnown(ref=ref) if ref in self._subscriptions:
                self._subscriptions[ref]._note(notice)
            case Warned() | PutOff() | RightEnds():
                self._tell_of_hindrance(notice)
            case (
                Accepted(ref=number)
                | Withdrawn(ref=number)
                | TypeReceived(id=number)
                | CredentialsAdded(id=number)
            ):
                self._answers.resolve(number, notice)
                if number in self._hindered and isinstance(notice, Accepted):
                    self._tell_of_hindrance(Warned(number, None))
            case Challenged():
                self._revalidator.take(notice)
            case Ended(ref=ref, problem=problem):
                self._end(ref, problem)
            case Connected() | Disconnected():
                self._tell_of_link(notice)
            case _:
                pass  # an answer that no call waits for any more

    def _tell_of_hindrance(self, notice: Warned | PutOff | RightEnds) -> None:
        if isinstance(notice, RightEnds):
            if self._on_ending is not None:
                self._on_ending(notice.problem)
            return
        publisher = self._publishers.get(notice.ref)
        standing = publisher or self._subscriptions.get(notice.ref)
        self._hindered.discard(notice.ref)
        if standing is None:
            return
        if isinstance(notice, PutOff):
            self._hindered.add(notice.ref)
            if publisher is not None:
                publisher._put_off()
        if isinstance(notice, Warned) or str(standing.warning) != str(notice.problem):
            standing._warn(notice.problem)

    def _tell_of_link(self, notice: Connected | Disconnected) -> None:
        self.broker = notice.broker if isinstance(notice, Connected) else None
        if self.broker is None:
            self._is_away.set()
        else:
            self._is_away.clear()
        is_final = isinstance(notice, Disconnected) and notice.is_final
        self.refused = notice.problem if isinstance(notice, Disconnected) and is_final else None
        if self._connected is None or self._connected.done():
            if isinstance(notice, Disconnected):
                self._tell_of_loss(notice.problem, is_final=is_final)
            return
        if isinstance(notice, Connected):
            self._connected.set_result(None)
        elif notice.is_final:
            self._connected.set_exception(notice.problem)
        else:
            is_new = self._unreachable is None
            self._unreachable = notice.problem
            if is_new and self._on_waiting is not None:
                self._on_waiting(notice.problem)

    def _tell_of_loss(self, problem: MaiaError, *, is_final: bool) -> None:
        """Warn the holders of requests once that there is no link, and again if brokers refuse a new one."""
        if not is_final:
            problem = Unavailable(problem.code, f"{problem.message}{TRYING_AGAIN}")
        standings: dict[int, Publisher | Subscription] = {**self._publishers, **self._subscriptions}
        for ref, standing in standings.items():
            if ref not in self._hindered or (is_final and str(standing.warning) != str(problem)):
                standing._warn(problem)
                self._hindered.add(ref)

    def _end(self, ref: int, problem: MaiaError) -> None:
        self._hindered.discard(ref)
        self._answers.fail(ref, problem)
        for standing in (self._publishers.pop(ref, None), self._subscriptions.pop(ref, None)):
            if standing is not None:
                standing._end(problem)
                self._check_room()

    # -------------------------------------------------------- the beginning and the end

    async def _opened(
        self, runner: NodeRunner, timeout_s: float, on_waiting: Callable[[MaiaError], None] | None = None
    ) -> None:
        """Connect for the first time; `connect` calls this once."""
        self._runner, self._on_waiting = runner, on_waiting
        self._connected = asyncio.get_running_loop().create_future()
        self._perform(self._session.start(self._clock()))
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected
        except TimeoutError:
            if self._unreachable is not None:
                said = f"{self._unreachable.message}; tried for {timeout_s:g} seconds"
                raise Unavailable("UNAVAILABLE-NOT-CONNECTED", said) from None
            where = "`, `".join(self._settings.addresses)
            raise Unavailable(
                "UNAVAILABLE-NOT-CONNECTED",
                f"no broker at `{where}` could be reached in {timeout_s:g} seconds",
            ) from None

    async def _closed(self) -> None:
        """Say goodbye and end whatever is waited for; `connect` calls this once."""
        self._answers.is_closed = True
        await asyncio.gather(*(one.end() for one in self._lives), return_exceptions=True)
        await self._revalidator.stop()
        problem: Unavailable = ClientClosed("the client is closed")
        for ref in {*self._answers, *self._publishers, *self._subscriptions}:
            self._end(ref, problem)
        if self._runner is not None:
            await self._runner.drain(self._session.close(self._clock()))


async def takes_part_openly(client: Client) -> bool:
    """Wait until a client asks to publish or read; say whether brokers on the way learn of it."""
    await client._has_asked.wait()
    return not client._has_asked_sealed
