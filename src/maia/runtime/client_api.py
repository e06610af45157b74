"""How does an application publish and subscribe?

    async with maia.connect("127.0.0.1:7400", key=key, credentials=wallet, network=network) as client:
        publisher = await client.advertise(definition)
        await publisher.publish(numberplate="AE05 XYZ", location="Victoria")
        await publisher.flush()

Refusals are raised where they can be acted upon, with the code of whoever
decided. Connections that break are made again, and everything that stood is
asked for again, without the application doing anything.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

from maia.client import (
    Challenged,
    Changed,
    ClientClosed,
    ClientSession,
    ClientSettings,
    Connected,
    Delivered,
    Disconnected,
    Gone,
    KnownVersion,
    Missed,
    NotConnected,
    Notice,
    Shown,
    Stands,
    StateKnown,
    Taken,
    TypeTold,
    UnknownToClient,
    Withdrawn,
    histories,
    known_version,
)
from maia.client.entries import Entry, Numbering
from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    VerifiedConstitution,
)
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.predicates import ALWAYS, Predicate, parse_predicate
from maia.runtime.clock import system_now
from maia.runtime.links import LinkLimits
from maia.runtime.node_runner import NodeRunner
from maia.runtime.publisher import Publisher
from maia.runtime.records import Records
from maia.runtime.revalidating import AskingTesters, Revalidate, Revalidator
from maia.runtime.subscription import Subscription
from maia.runtime.testers_shown import bringing_statements
from maia.types import SignedDefinition, check_predicate, definition_from_bytes
from maia.wire.effects import Effect

__all__ = ["Client", "EventType", "connect"]

EventType: TypeAlias = SignedDefinition | Sequence[SignedDefinition] | TypeName | str
"""A definition, a definition after those it was made from, or the name of one that is known."""

ANSWER_S: Final = 30.0
"""How long an application waits for an answer unless it says otherwise."""


class Client:
    """A connection to a network. Made by `maia.connect`."""

    def __init__(
        self,
        session: ClientSession,
        settings: ClientSettings,
        clock: Callable[[], Instant],
        revalidate: Revalidate,
    ) -> None:
        """Take a session over; `connect` runs it."""
        self._session = session
        self._revalidator = Revalidator(revalidate, self._vouched)
        self._settings = settings
        self._clock = clock
        self._runner: NodeRunner | None = None
        self._answers: dict[int, asyncio.Future[object]] = {}
        self._publishers: dict[int, Publisher] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._types: dict[TypeName, KnownVersion] = {}
        self._connected: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_telling = False
        self.broker: Principal | None = None
        """The broker that this client is connected to now, if it is."""

    # -------------------------------------------------------- what an application asks for

    def learn(self, *history: SignedDefinition) -> None:
        """Verify a type version after those it was made from; it can be named from now on."""
        self._known_from(history)

    async def advertise(
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - what everybody calls it
        *,
        numbering: Numbering | None = None,
        timeout_s: float = ANSWER_S,
    ) -> Publisher:
        """Ask to publish events of a type, narrowed by a filter; raise the refusal if that is denied.

        With `numbering`, what is published again under the same numbers is
        taken for the same; without, every publisher has a stream of its own.
        """
        known = await self._known(event_type, timeout_s)
        entry, effects = self._session.advertise(known, _predicate(filter, known), self._clock(), numbering)
        publisher = Publisher(self, entry)
        self._publishers[entry.ref] = publisher
        await self._standing(entry, effects, timeout_s)
        return publisher

    async def subscribe(
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - what everybody calls it
        *,
        durable: str | None = None,
        state: bool = False,
        timeout_s: float = ANSWER_S,
    ) -> Subscription:
        """Ask for the events of a type that a filter admits; raise the refusal if that is denied.

        With a `durable` name of your choice, what was published while you were
        away comes first. The broker must record the type. With `state`, the
        last publication of each publisher comes first, as far as you may see
        it now; `await subscription.state_known()` says when that is done.
        """
        known = await self._known(event_type, timeout_s)
        wanted = _predicate(filter, known)
        entry, effects = self._session.subscribe(known, wanted, self._clock(), durable=durable, state=state)
        subscription = Subscription(self, entry)
        self._subscriptions[entry.ref] = subscription
        await self._standing(entry, effects, timeout_s)
        return subscription

    async def show(
        self,
        certificates: Iterable[SignedCertificate] = (),
        statements: Iterable[SignedStatement] = (),
        *,
        timeout_s: float = ANSWER_S,
    ) -> None:
        """Show the broker more certificates, or newer statements, within this connection.

        What stands is decided again with them, and may show more from now on.
        They are remembered for what is asked for later, here or after a reconnection.
        """
        number, effects = self._session.show(certificates, statements)
        answer = self._answer(number)
        self.perform(effects)
        self.take_notices()
        await self._in_time(answer, timeout_s)

    # -------------------------------------------------------- what publishers and subscriptions ask for

    @property
    def session(self) -> ClientSession:
        """Return the session, for publishers and subscriptions."""
        return self._session

    def now(self) -> Instant:
        """Return the present moment by the client's clock."""
        return self._clock()

    def perform(self, effects: Iterable[Effect]) -> None:
        """Have effects of the session performed."""
        assert self._runner is not None  # noqa: S101 - set before the client is handed out
        self._runner.perform(effects)

    def check_room(self) -> None:
        """Read on while every subscription has room; otherwise leave what arrives to TCP."""
        link = None
        if self._runner is not None and self._session.link is not None:
            link = self._runner.connections.find(self._session.link)
        if link is not None:
            link.read_on(all(one.has_room for one in self._subscriptions.values()))

    async def withdraw(self, entry: Entry, timeout_s: float, *, forget: bool = False) -> None:
        """Take back what stands, and wait until the broker has."""
        self._publishers.pop(entry.ref, None)
        self._subscriptions.pop(entry.ref, None)
        if self._is_closed:
            return
        self.check_room()  # nobody will take what this one left lying, and the answer has to be read
        answer = self._answer(entry.ref)
        self.perform(self._session.withdraw(entry, self._clock(), forget=forget))
        await self._in_time(answer, timeout_s)

    # -------------------------------------------------------- inside

    async def _known(self, event_type: EventType, timeout_s: float) -> KnownVersion:
        match event_type:
            case SignedDefinition():
                return self._known_from((event_type,))
            case str():
                return self._named(event_type)
            case TypeName():
                return self._types.get(event_type) or await self._asked_for(event_type, timeout_s)
            case _:
                return self._known_from(event_type)

    def _known_from(self, history: Sequence[SignedDefinition]) -> KnownVersion:
        known = known_version(history, at=self._clock(), constitutions=self._settings.constitutions)
        self._types[known.event_type.name] = known
        return known

    def _named(self, name: str) -> KnownVersion:
        found = [known for known in self._types.values() if known.event_type.name.name == name]
        if len(found) != 1:
            shown = name[:64].encode("unicode_escape").decode()
            raise UnknownToClient(
                f"`{shown}` names {len(found)} of the types that this client was given; "
                "say which with a definition or a full name"
            )
        return found[0]

    async def _asked_for(self, name: TypeName, timeout_s: float) -> KnownVersion:
        number, effects = self._session.ask_for_type(name, self._clock())
        answer = self._answer(number)
        self.perform(effects)
        told = await self._in_time(answer, timeout_s)
        assert isinstance(told, TypeTold)  # noqa: S101 - nothing else answers this number
        history = [definition_from_bytes(data) for data in told.definitions]
        if not history or history[-1].definition.name != name:
            raise UnknownToClient(f"the broker does not know version `{name.version}` of `{name.name}`")
        return self._known_from(history)

    async def _standing(self, entry: Entry, effects: Iterable[Effect], timeout_s: float) -> None:
        answer = self._answer(entry.ref)
        self.perform(effects)
        try:
            await self._in_time(answer, timeout_s, entry)
        except (MaiaError, asyncio.CancelledError):
            self._publishers.pop(entry.ref, None)
            self._subscriptions.pop(entry.ref, None)
            self.perform(self._session.withdraw(entry, self._clock()))
            raise

    def _answer(self, number: int) -> asyncio.Future[object]:
        if self._is_closed:
            raise ClientClosed("the client is closed")
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        return answer

    async def _in_time(
        self, answer: asyncio.Future[object], timeout_s: float, entry: Entry | None = None
    ) -> object:
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            if entry is not None and entry.problem is not None:
                raise entry.problem from None  # an answer came, and it was to ask again later
            raise NotConnected(f"no answer came within {timeout_s:g} seconds") from None

    def take_notices(self) -> None:
        """Tell everybody concerned what the session has heard; what they do about it comes back here."""
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while notices := self._session.take_notices():
                for notice in notices:
                    self._tell(notice)
                for publisher in list(self._publishers.values()):
                    publisher.pump()
        finally:
            self._is_telling = False

    def _tell(self, notice: Notice) -> None:
        match notice:
            case Delivered(refs=refs):
                for ref in refs:
                    if ref in self._subscriptions:
                        self._subscriptions[ref].take(notice)
                self.check_room()
            case Missed(ref=ref) | Changed(ref=ref) | StateKnown(ref=ref) if ref in self._subscriptions:
                self._subscriptions[ref].note(notice)
            case Taken(ref=ref) if ref in self._publishers:
                self._publishers[ref].take(notice)
            case Stands(ref=number) | Withdrawn(ref=number) | TypeTold(id=number) | Shown(id=number):
                self._resolve(number, notice)
            case Challenged():
                self._revalidator.take(notice)
            case Gone(ref=ref, problem=problem):
                self._end(ref, problem)
            case Connected() | Disconnected():
                self._tell_of_link(notice)
            case _:
                pass  # an answer that nobody waits for any more

    def _tell_of_link(self, notice: Connected | Disconnected) -> None:
        self.broker = notice.broker if isinstance(notice, Connected) else None
        if self._connected is None or self._connected.done():
            return
        if isinstance(notice, Connected):
            self._connected.set_result(None)
        elif notice.is_final:
            self._connected.set_exception(notice.problem)

    def _vouched(
        self, challenged: Challenged, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> None:
        if not self._is_closed:
            self.perform(self._session.vouch(challenged.id, answers, problem))

    def _resolve(self, number: int, notice: Notice) -> None:
        answer = self._answers.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(notice)

    def _end(self, ref: int, problem: MaiaError) -> None:
        answer = self._answers.pop(ref, None)
        if answer is not None and not answer.done():
            answer.set_exception(problem)
        for standing in (self._publishers.pop(ref, None), self._subscriptions.pop(ref, None)):
            if standing is not None:
                standing.end(problem)
                self.check_room()

    async def opened(self, runner: NodeRunner, timeout_s: float) -> None:
        """Connect for the first time; `connect` calls this once."""
        self._runner = runner
        self._connected = asyncio.get_running_loop().create_future()
        self.perform(self._session.start(self._clock()))
        try:
            async with asyncio.timeout(timeout_s):
                await self._connected
        except TimeoutError:
            where = "`, `".join(self._settings.addresses)
            raise NotConnected(f"no broker at `{where}` could be reached in {timeout_s:g} seconds") from None

    async def closed(self) -> None:
        """Say goodbye and end whatever is waited for; `connect` calls this once."""
        self._is_closed = True
        await self._revalidator.stop()
        problem: Unavailable = ClientClosed("the client is closed")
        for ref in {*self._answers, *self._publishers, *self._subscriptions}:
            self._end(ref, problem)
        if self._runner is not None:
            await self._runner.drain(self._session.close(self._clock()))


@asynccontextmanager
async def connect(  # noqa: PLR0913 - every one is named at the call
    address: str | Sequence[str],
    *,
    key: SigningKey,
    network: NetworkName,
    credentials: Iterable[SignedCertificate] = (),
    statements: Iterable[SignedStatement] = (),
    types: Iterable[SignedDefinition] = (),
    brokers: Iterable[Principal] | None = None,
    constitutions: tuple[VerifiedConstitution, ...] = (),
    dial_again_s: float = 0.25,
    limits: LinkLimits | None = None,
    records: Records | None = None,
    clock: Callable[[], Instant] = system_now,
    timeout_s: float = ANSWER_S,
    revalidate: Revalidate | None = None,
) -> AsyncIterator[Client]:
    """Connect to a network through one of its brokers, for as long as the body runs.

    Give several addresses to be connected to the next broker when one fails.
    The broker's right to connect is verified before any of `credentials` is
    shown; with `brokers`, nobody else is talked to. `types` can be named by
    their readable names later. `statements` say that certificates which demand
    it still count. Where none of them does, their testers are asked at the
    locations in the certificates; of newer ones brokers hear by themselves.
    Where one must be vouched for anew for each request, its tester is asked,
    or `revalidate` is.
    """
    addresses = (address,) if isinstance(address, str) else tuple(address)
    pinned = None if brokers is None else frozenset(brokers)
    settings = ClientSettings(
        network,
        addresses,
        tuple(credentials),
        pinned,
        constitutions,
        tuple(statements),
        dial_again_s=dial_again_s,
    )
    session = ClientSession(key, settings, random=os.urandom)
    client = Client(session, settings, clock, revalidate or AskingTesters(key))
    for history in histories(types):
        client.learn(*history)
    runner = NodeRunner(
        session,
        key,
        limits=limits,
        records=records,
        clock=clock,
        dial_again_s=0.0,  # the session itself waits before it dials again
        after_inputs=client.take_notices,
    )
    async with runner.running():
        try:
            async with bringing_statements(client, settings.credentials, settings.statements):
                await client.opened(runner, timeout_s)
                yield client
        finally:
            await client.closed()


def _predicate(filter_: str | Predicate, known: KnownVersion) -> Predicate:
    version = known.event_type
    predicate = parse_predicate(filter_, version.vocabulary) if isinstance(filter_, str) else filter_
    check_predicate(predicate, version)
    return predicate
