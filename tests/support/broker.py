"""Brokers and clients connected in memory: every message in order, nothing lost, time by hand.

Faults belong to the simulation; here a test says what happens and in which
order. Clients are hand-made and can say anything, hostile things included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from maia.broker import Broker, BrokerSettings
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SigningKey,
    certificate_to_bytes,
)
from maia.events import AttributeUid, Instant, Value, frame_of
from maia.predicates import ALWAYS, Predicate
from maia.types import definition_to_bytes
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.effects import (
    Close,
    Count,
    Dial,
    DialFailed,
    Effect,
    Input,
    Keep,
    LinkClosed,
    LinkId,
    LinkOpened,
    Note,
    Received,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Bye,
    Deliver,
    Ended,
    Failed,
    Greeting,
    Hello,
    Message,
    Ping,
    Pong,
    Publish,
    RenewAll,
    Subscribe,
    Withdraw,
)
from maia.wire.names import network_to_bytes
from maia.wire.requests import (
    EdgeRequest,
    digest_of_request,
    digest_of_standing,
    request_to_bytes,
    sign_request,
)
from support.numberplate import (
    LOCATION,
    NUMBERPLATE,
    NUMBERPLATE_KINDS,
    TIMESTAMP,
    NumberplateBrokers,
    NumberplateStory,
    add_brokers,
    tell_numberplate_story,
)

NOW = Instant.parse("2026-11-15T12:00:00Z")
SEED = b"tests of the broker"
SECOND = 1_000_000


def random_from(seed: bytes) -> Callable[[int], bytes]:
    """Return a source of bytes that are the same in every run."""
    counter = [0]

    def more(size: int) -> bytes:
        counter[0] += 1
        block = sha256(seed + counter[0].to_bytes(8, "big")).digest()
        return (block * (size // 32 + 1))[:size]

    return more


@dataclass(slots=True)
class Running:
    """A broker, whether it runs, and what it has kept and said."""

    name: str
    key: SigningKey
    settings: BrokerSettings
    broker: Broker
    alive: bool = True
    wake_at: Instant | None = None
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    next_link: int = 1

    def noted(self, event: str) -> list[Mapping[str, object]]:
        """Return the fields of the log lines with this name."""
        return [note.fields for note in self.notes if note.event == event]


@dataclass(slots=True)
class Client:
    """Somebody with a key who can say anything; what it hears is in `heard`."""

    net: Net
    key: SigningKey
    credentials: tuple[SignedCertificate, ...]
    heard: list[Message] = field(default_factory=list)
    link: LinkId | None = None
    closed: bool = False
    says_hello: bool = True
    address: str | None = None
    remote: str | None = None
    random: Callable[[int], bytes] = field(default_factory=lambda: random_from(b"client"))
    stream: bytes = b"s" * 16
    next_sequence: int = 0
    next_ref: int = 1

    @property
    def principal(self) -> Principal:
        return self.key.principal

    # ---- what it does

    def say(self, message: Message) -> Client:
        self.net.from_client(self, encode(message))
        return self

    def say_bytes(self, data: bytes) -> Client:
        self.net.from_client(self, data)
        return self

    def hello(self, **changes: Any) -> Client:
        said = Hello(
            PROTOCOL_VERSION,
            network_to_bytes(self.net.story.network),
            shown(self.credentials),
            self.random(16),
            self.address,
        )
        fields = {name: getattr(said, name) for name in said.__struct_fields__}
        return self.say(Hello(**(fields | changes)))

    def request(self, action: Action, filter: Predicate = ALWAYS, **changes: Any) -> bytes:  # noqa: A002
        story = self.net.story
        told: dict[str, Any] = {
            "action": action,
            "network": story.network,
            "event_type": story.definition.definition.name,
            "stream": self.stream,
            "at": self.net.now,
            "nonce": self.random(16),
            "filter": filter,
        }
        key = changes.pop("signed_by", self.key)
        return request_to_bytes(sign_request(EdgeRequest(**(told | changes)), key))

    def subscribe(self, filter: Predicate = ALWAYS, **changes: Any) -> int:  # noqa: A002
        return self._ask(Subscribe, Action.SUBSCRIBE, filter, changes)

    def advertise(self, filter: Predicate = ALWAYS, **changes: Any) -> int:  # noqa: A002
        return self._ask(Advertise, Action.PUBLISH, filter, changes)

    def _ask(
        self,
        kind: type[Subscribe | Advertise],
        action: Action,
        filter: Predicate,  # noqa: A002 - the word of every caller
        changes: dict[str, Any],
    ) -> int:
        ref = changes.pop("ref", None)
        if ref is None:
            ref, self.next_ref = self.next_ref, self.next_ref + 1
        definitions = changes.pop("definitions", [definition_to_bytes(self.net.story.definition)])
        credentials = changes.pop("credentials", self.credentials)
        data = changes.pop("request", None) or self.request(action, filter, **changes)
        self.say(kind(ref, data, shown(credentials), definitions))
        return ref

    def renew_all(self, asked: Mapping[int, bytes], **changes: Any) -> int:
        """Renew all that stands, which is said to be these requests by their references."""
        standing = [(ref, digest_of_request(request)) for ref, request in asked.items()]
        number, self.next_ref = self.next_ref, self.next_ref + 1
        told = {"entries": len(standing), "digest": digest_of_standing(standing)} | changes
        self.say(RenewAll(number, **told))
        return number

    def unsubscribe(self, ref: int) -> Client:
        return self.say(Withdraw(1000 + ref, ref))

    def unadvertise(self, ref: int) -> Client:
        return self.say(Withdraw(1000 + ref, ref))

    def publish(self, ref: int, *events: Mapping[AttributeUid, Value], **changes: Any) -> int:
        kinds = changes.pop("kinds", NUMBERPLATE_KINDS)
        sequence = changes.pop("sequence", None)
        if sequence is None:
            sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        frame = frame_of(events, kinds)
        self.say(Publish(ref, sequence, int(self.net.now), frame.rows, frame_to_columns(frame)))
        return sequence

    def hang_up(self) -> None:
        self.net.hang_up(self)

    # ---- what it hears

    def all_heard(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.heard if isinstance(message, kind)]

    def last(self, kind: type[Any]) -> Any:
        found = self.all_heard(kind)
        assert found, f"no {kind.__name__} among {self.heard}"
        return found[-1]

    def was_accepted(self, ref: int) -> bool:
        return any(message.id == ref for message in self.all_heard(Accepted))

    def code_of(self, ref: int) -> str | None:
        """Return the code with which a request failed."""
        return next((message.code for message in self.all_heard(Failed) if message.id == ref), None)

    def ended_with(self, ref: int) -> str | None:
        return next((message.code for message in self.all_heard(Ended) if ref in message.refs), None)

    @property
    def bye(self) -> str | None:
        """Return the code with which the broker closed the link."""
        return next((message.code for message in self.all_heard(Bye)), None)

    def events(self, ref: int | None = None) -> list[dict[AttributeUid, Value]]:
        """Return what was delivered, by row."""
        return [
            dict(event)
            for message in self.all_heard(Deliver)
            if ref is None or ref in message.refs
            for event in columns_to_frame(message.columns, message.rows).events()
        ]

    def take_events(self) -> list[dict[AttributeUid, Value]]:
        events = self.events()
        self.heard = [message for message in self.heard if not isinstance(message, Deliver)]
        return events


class Net:
    """Some brokers and clients, a queue of what is under way, and a clock that a test moves."""

    def __init__(self, *, now: Instant = NOW, **settings: Any) -> None:
        self.now = now
        self.story: NumberplateStory = tell_numberplate_story(SEED, now=now)
        self.cast: NumberplateBrokers = add_brokers(self.story, SEED)
        self.settings = settings
        self.brokers: dict[str, Running] = {}
        self.clients: dict[tuple[str, LinkId], Client] = {}
        self.clients_so_far = 0
        self.wires: dict[tuple[str, LinkId], tuple[str, LinkId]] = {}
        self.queue: deque[Callable[[], None]] = deque()
        self.carried: list[tuple[str, str, Message]] = []
        """What brokers said to each other: from, to, message."""

    # ---- who is there

    def broker(self, name: str = "CCS broker", *, seeds: Sequence[str] = (), **changes: Any) -> Running:
        """Start a broker of the story, or another one with a connect right given by PITO."""
        key, credentials = self._identity(name)
        settings = BrokerSettings(
            network=self.story.network,
            address=address_of(name),
            credentials=changes.pop("credentials", credentials),
            seeds=tuple(address_of(seed) for seed in seeds),
            **(self.settings | changes),
        )
        running = Running(name, key, settings, self._new_broker(key, settings, {}))
        self.brokers[name] = running
        self._perform(running, running.broker.start(self.now))
        self.settle()
        return running

    def _identity(self, name: str) -> tuple[SigningKey, tuple[SignedCertificate, ...]]:
        if name in self.cast.keys:
            return self.cast.keys[name], self.cast.credentials[name]
        key = SigningKey.from_seed(sha256(SEED + name.encode()).digest())
        return key, (connect_right(self.story, key.principal),)

    def _new_broker(self, key: SigningKey, settings: BrokerSettings, kept: Mapping[str, bytes]) -> Broker:
        seed = key.principal.key + len(self.brokers).to_bytes(4, "big") + self.now.to_bytes(8, "big")
        return Broker(key, settings, random=random_from(seed), kept=kept)

    def crash(self, name: str) -> None:
        """Stop a broker at once: nobody is told but by the loss of their links."""
        running = self.brokers[name]
        running.alive = False
        for end in [end for end in self.wires if end[0] == name]:
            self._cut(end)
        self.settle()

    def restart(self, name: str, kept: Mapping[str, bytes] | None = None) -> Running:
        running = self.brokers[name]
        if running.alive:
            self.crash(name)
        running.broker = self._new_broker(
            running.key, running.settings, running.kept if kept is None else kept
        )
        running.alive, running.wake_at = True, None
        self._perform(running, running.broker.start(self.now))
        self.settle()
        return running

    def drain(self, name: str) -> None:
        running = self.brokers[name]
        self._perform(running, running.broker.drain(self.now))
        self.settle()
        running.alive = False

    def client(self, who: str, at: str = "CCS broker", **changes: Any) -> Client:
        """Connect somebody of the story, with all certificates of the story that concern them."""
        self.clients_so_far += 1
        key = changes.pop("key", None) or self.story.keys[who]
        client = Client(
            self,
            key,
            changes.pop("credentials", self.story.certificates),
            random=random_from(who.encode() + self.clients_so_far.to_bytes(4, "big")),
            **changes,
        )
        client.stream = sha256(who.encode()).digest()[:16]
        self.connect(client, at)
        self.settle()
        return client

    def connect(self, client: Client, at: str) -> None:
        running = self.brokers[at]
        link = LinkId(running.next_link)
        running.next_link += 1
        client.link, client.closed = link, False
        self.clients[at, link] = client
        self._input(running, LinkOpened(link, client.principal, None, client.remote))

    # ---- what happens

    def settle(self) -> Net:
        """Let everything arrive that is under way."""
        steps = 0
        while self.queue:
            self.queue.popleft()()
            steps += 1
            assert steps < 200_000, "the network does not come to rest"
        return self

    def advance(self, seconds: float, *, step: float | None = None) -> Net:
        """Move the clock, waking whoever asked for it, in the order of the moments asked for."""
        end = Instant(self.now + int(seconds * SECOND))
        while True:
            wakes = [one.wake_at for one in self.brokers.values() if one.alive and one.wake_at is not None]
            first = min(wakes, default=None)
            if first is None or first > end:
                break
            self.now = max(self.now, first)
            for running in self.brokers.values():
                if running.alive and running.wake_at is not None and running.wake_at <= self.now:
                    running.wake_at = None
                    self._input(running, Tick())
            self.settle()
        self.now = end
        return self

    def from_client(self, client: Client, data: bytes) -> None:
        if client.closed or client.link is None:
            return
        at = self._home(client)
        self.queue.append(lambda: self._input(self.brokers[at], Received(client.link, data)))
        self.settle()

    def hang_up(self, client: Client) -> None:
        at = self._home(client)
        del self.clients[at, client.link]
        client.closed = True
        self._input(self.brokers[at], LinkClosed(client.link))
        self.settle()

    def _home(self, client: Client) -> str:
        return next(at for (at, link), one in self.clients.items() if one is client and link == client.link)

    # ---- the machinery

    def _input(self, running: Running, happened: Input) -> None:
        if running.alive:
            self._perform(running, running.broker.handle(happened, self.now))

    def _perform(self, running: Running, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(link, data):
                    self._send(running.name, link, data)
                case Close(link, _):
                    self.queue.append(lambda end=(running.name, link): self._cut(end))
                case Dial(address):
                    self.queue.append(lambda address=address: self._dial(running, address))
                case WakeAt(at):
                    running.wake_at = at if running.wake_at is None else min(at, running.wake_at)
                case Keep(name, None):
                    running.kept.pop(name, None)
                case Keep(name, data):
                    running.kept[name] = data
                case Note():
                    running.notes.append(effect)
                case Count(name, amount, _):
                    running.counts[name] = running.counts.get(name, 0) + amount

    def _send(self, name: str, link: LinkId, data: bytes) -> None:
        def arrive() -> None:
            client = self.clients.get((name, link))
            if client is not None:
                self._client_hears(client, data)
                return
            other = self.wires.get((name, link))
            if other is not None:
                self.carried.append((name, other[0], decode(data)))
                self._input(self.brokers[other[0]], Received(other[1], data))

        self.queue.append(arrive)

    def _client_hears(self, client: Client, data: bytes) -> None:
        message = decode(data)
        client.heard.append(message)
        if isinstance(message, Greeting) and client.says_hello:
            client.hello()
        if isinstance(message, Ping):
            client.say(Pong(message.nonce))

    def _dial(self, running: Running, address: str) -> None:
        other = next((one for one in self.brokers.values() if one.settings.address == address), None)
        if not running.alive:
            return
        if other is None or not other.alive or other is running:
            self._input(running, DialFailed(address))
            return
        here, there = (running.name, LinkId(running.next_link)), (other.name, LinkId(other.next_link))
        running.next_link += 1
        other.next_link += 1
        self.wires[here], self.wires[there] = there, here
        self._input(running, LinkOpened(here[1], other.key.principal, address))
        self._input(other, LinkOpened(there[1], running.key.principal, None))

    def _cut(self, end: tuple[str, LinkId]) -> None:
        client = self.clients.pop(end, None)
        if client is not None:
            client.closed = True
        other = self.wires.pop(end, None)
        for one in (end, other):
            if one is not None:
                self.wires.pop(one, None)
                self._input(self.brokers[one[0]], LinkClosed(one[1]))


def shown(certificates: Iterable[SignedCertificate]) -> list[bytes]:
    return [certificate_to_bytes(signed) for signed in certificates]


def address_of(name: str) -> str:
    return f"{name.replace(' ', '-')}:7400"


def connect_right(story: NumberplateStory, subject: Principal) -> SignedCertificate:
    return story.grant("PITO", subject, story.network_pattern, Action.CONNECT)


def sighting(
    plate: str = "LC04 ABC", where: str = "Victoria", *, at: Instant = NOW
) -> dict[AttributeUid, Value]:
    return {NUMBERPLATE: plate, TIMESTAMP: at, LOCATION: where}
