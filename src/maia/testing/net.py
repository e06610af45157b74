"""Brokers and clients connected in memory: every message in order, nothing lost, time by hand.

    net = Net(cast)
    net.broker("north")
    lab, office = net.client("lab", "north"), net.client("office", "north")
    office.subscribe()
    lab.publish(lab.advertise(), {"ward": "A", "value": 1.5})
    assert office.events() == [{"ward": None, "value": 1.5}]

A test says what happens and in which order; faults by chance belong to `Simulation`. Brokers are the objects
that run in production. Clients are hand-made and can say anything, hostile things included.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, ClassVar

from maia.broker import Broker, BrokerSettings
from maia.broker.keys.keys import KeyRequests
from maia.broker.links.cursors import Cursor
from maia.broker.log.recording import first_to_reread
from maia.broker.parts import Parts
from maia.broker.rights.known_types import KEPT_TYPE
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    certificate_to_bytes,
    statement_to_bytes,
)
from maia.credentials.requirements import requirement_to_bytes
from maia.domain import DomainSettings, KeyServer
from maia.events import SECOND, AttributeUid, Instant, Value, frame_of
from maia.log.format.records import type_id_of
from maia.predicates import ALWAYS, Predicate
from maia.routing.overlay.table import distance, node_id_of_key, node_id_of_type
from maia.sealing import Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.testing.cast import BEGINNING, Cast, address_of, key_of, random_from
from maia.testing.statements import Statements
from maia.types import definition_to_bytes, validity_definition, validity_type_name
from maia.types.verified import STATEMENT, statement_to_event
from maia.validity import OneTimeQuestion, answer_question, question_from_bytes
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
    LogAtStart,
    Logged,
    LogRead,
    Note,
    ReadLog,
    Received,
    Record,
    Recorded,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Accepted,
    Advertise,
    Bye,
    Carried,
    Challenge,
    Deliver,
    DeliverLogged,
    Ended,
    Failed,
    Greeting,
    Hello,
    Message,
    Ping,
    Pong,
    Publish,
    Published,
    RenewAll,
    Sealed,
    SealedWithPlaintext,
    Seen,
    Subscribe,
    SubscribePart,
    Vouched,
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

Row = dict[AttributeUid, Value]
End = tuple[str, LinkId]
"""One end of a link: the name of a broker, and its number there."""


@dataclass(slots=True)
class NetBroker:
    """A broker, or a key server; whether it runs, and what it has kept and said."""

    name: str
    key: SigningKey
    settings: BrokerSettings | DomainSettings
    broker: Any  # a `Broker`, but for key servers
    alive: bool = True
    wake_at: Instant | None = None
    kept: dict[str, bytes] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    next_link: int = 1

    @property
    def parts(self) -> Parts:
        """Return what the broker is made of, for tests of its inside."""
        found: Parts = self.broker.parts
        return found

    def noted(self, event: str) -> list[Mapping[str, object]]:
        """Return the fields of the log lines with this name."""
        return [note.fields for note in self.notes if note.event == event]


@dataclass(slots=True)
class NetLog:
    """The event log of one broker."""

    safe: list[Logged] = field(default_factory=list)
    unsafe: list[Logged] = field(default_factory=list)
    is_slow: bool = False
    """Whether frames stay unsafe until the test says otherwise."""
    reads: list[ReadLog] = field(default_factory=list)
    removed_upto: dict[bytes, int] = field(default_factory=dict)
    problem: str | None = None

    def found(self, asked: ReadLog) -> LogRead:
        """Return what a broker asked to read."""
        fitting = [one for one in self.safe if asked.first <= one.position <= asked.upto]
        frames = [one for one in fitting if type_id_of(one.data) == asked.type_id][: asked.frames_max]
        upto = frames[-1].position if len(frames) == asked.frames_max else asked.upto
        removed = self.removed_upto.get(asked.type_id, 0)
        return LogRead(asked.read, tuple(frames), upto, removed, self.problem)


@dataclass(slots=True)
class NetClient:
    """A holder of a key who can say anything; what it hears is in `heard`."""

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
        """Return its public key."""
        return self.key.principal

    # ------------------------------------------------------------ what it does

    def say(self, message: Message) -> NetClient:
        """Send a message, whatever it is."""
        return self.say_bytes(encode(message))

    def say_bytes(self, data: bytes) -> NetClient:
        """Send bytes, whatever they are."""
        self.net.from_client(self, data)
        return self

    def hello(self, **changes: Any) -> NetClient:
        """Introduce itself; Any: changes are fields of the message."""
        said = Hello(
            PROTOCOL_VERSION,
            network_to_bytes(self.net.cast.network),
            shown(self.credentials),
            self.random(16),
            self.address,
        )
        fields = {name: getattr(said, name) for name in said.__struct_fields__}
        return self.say(Hello(**(fields | changes)))

    def request(self, action: Action, filter: Predicate = ALWAYS, **changes: Any) -> bytes:  # noqa: A002
        """Return a signed request; changes are its fields."""
        told: dict[str, Any] = {
            "action": action,
            "network": self.net.cast.network,
            "event_type": self.net.cast.type_name,
            "stream": self.stream,
            "at": self.net.now,
            "nonce": self.random(16),
            "filter": filter,
        }
        key = changes.pop("signed_by", self.key)
        return request_to_bytes(sign_request(EdgeRequest(**(told | changes)), key))

    def subscribe(self, filter: Predicate = ALWAYS, **changes: Any) -> int:  # noqa: A002
        """Ask for events, and return the reference of the request."""
        return self._ask(Subscribe, Action.SUBSCRIBE, filter, changes)

    def advertise(self, filter: Predicate = ALWAYS, **changes: Any) -> int:  # noqa: A002
        """Ask to publish, and return the reference of the request."""
        return self._ask(Advertise, Action.PUBLISH, filter, changes)

    def durable(
        self,
        name: str = "mine",
        filter: Predicate = ALWAYS,  # noqa: A002
        *,
        seen: int | None = None,
        upto: int | None = None,
        **changes: Any,
    ) -> int:
        """Ask for a durable subscription, after what was seen of it before; up to a position, as a part."""
        last = (name, None if seen is None else self._sealed_position(seen, name))
        if upto is None:
            return self._ask(Subscribe, Action.SUBSCRIBE, filter, changes, *last)
        end = self._sealed_position(upto, name) if upto else b""
        return self._ask(SubscribePart, Action.SUBSCRIBE, filter, changes, *last, end)

    def _ask(
        self,
        kind: type[Subscribe | Advertise],
        action: Action,
        filter: Predicate,  # noqa: A002
        changes: dict[str, Any],
        *more: Any,
    ) -> int:
        ref: int | None = changes.pop("ref", None)
        if ref is None:
            ref, self.next_ref = self.next_ref, self.next_ref + 1
        definitions = changes.pop("definitions", [definition_to_bytes(self.net.cast.definition)])
        credentials = changes.pop("credentials", self.credentials)
        data = changes.pop("request", None) or self.request(action, filter, **changes)
        self.say(kind(ref, data, shown(credentials), definitions, *more))
        return ref

    def renew_all(self, asked: Mapping[int, bytes], **changes: Any) -> int:
        """Renew all that stands, which is said to be these requests by their references."""
        standing = [(ref, digest_of_request(request)) for ref, request in asked.items()]
        number, self.next_ref = self.next_ref, self.next_ref + 1
        told: dict[str, Any] = {"entries": len(standing), "digest": digest_of_standing(standing)} | changes
        self.say(RenewAll(number, **told))
        return number

    def withdraw(self, ref: int) -> NetClient:
        """Take back what was asked for."""
        return self.say(Withdraw(1000 + ref, ref))

    def forget(self, ref: int) -> int:
        """Give a durable subscription up for good; return the number of the request."""
        self.say(Withdraw(900 + ref, ref, True))
        return 900 + ref

    def publish(
        self, ref: int, *events: Mapping[AttributeUid, Value], requires: Predicate | None = None, **said: Any
    ) -> int:
        """Publish events as one frame, and return its number."""
        sequence: int | None = said.pop("sequence", None)
        if sequence is None:
            sequence, self.next_sequence = self.next_sequence, self.next_sequence + 1
        frame = frame_of(events, said.pop("kinds", self.net.cast.kinds))
        told = (ref, sequence, int(self.net.now), frame.rows, frame_to_columns(frame))
        self.say(Publish(*told) if requires is None else Publish(*told, requirement_to_bytes(requires)))
        return sequence

    def acknowledge(self, ref: int, position: int) -> None:
        """Say that nothing of a durable subscription up to a position is wanted again."""
        self.say(Seen(ref, self._sealed_position(position, ref=ref)))

    def vouch(self, key: SigningKey, challenge: Challenge | None = None) -> None:
        """Have the last challenge answered by the holder of a key."""
        asked = self.last(Challenge) if challenge is None else challenge
        self.say(Vouched(asked.id, answers_to(asked, key)))

    def refuse(self, answers: Iterable[bytes] = ()) -> None:
        """Come back from the last challenge with other answers than it asked for, or with none."""
        self.say(Vouched(self.last(Challenge).id, list(answers)))

    def hang_up(self) -> None:
        """Go without a word."""
        self.net.hang_up(self)

    # ------------------------------------------------------------ what it hears

    def all_heard(self, kind: type[Any]) -> list[Any]:
        """Return all messages of a kind."""
        return [message for message in self.heard if isinstance(message, kind)]

    def last(self, kind: type[Any]) -> Any:
        """Return the last message of a kind."""
        found = self.all_heard(kind)
        assert found, f"no {kind.__name__} among {self.heard}"  # noqa: S101 - for the reader of a test
        return found[-1]

    def was_accepted(self, ref: int) -> bool:
        """Return whether a request was accepted."""
        return any(message.id == ref for message in self.all_heard(Accepted))

    def code_of(self, ref: int) -> str | None:
        """Return the code with which a request failed."""
        return next((message.code for message in self.all_heard(Failed) if message.id == ref), None)

    def ended_with(self, ref: int) -> str | None:
        """Return the code with which something that stood has ended."""
        return next((message.code for message in self.all_heard(Ended) if ref in message.refs), None)

    @property
    def bye(self) -> str | None:
        """Return the code with which the broker closed the link."""
        return next((message.code for message in self.all_heard(Bye)), None)

    def events(self, ref: int | None = None) -> list[Row]:
        """Return what was delivered, by row."""
        return _rows(one for one in self.all_heard(Deliver) if ref is None or ref in one.refs)

    def logged_events(self) -> list[Row]:
        """Return what was delivered from the log, by row."""
        return _rows(self.all_heard(DeliverLogged))

    def take_events(self) -> list[Row]:
        """Return what was delivered, of the log too, and forget it."""
        found = [message for message in self.heard if isinstance(message, Deliver | DeliverLogged)]
        self.heard = [message for message in self.heard if not isinstance(message, Deliver | DeliverLogged)]
        return _rows(found)

    # ------------------------------------------------------------ positions, which only its broker can read

    def positions(self) -> list[int]:
        """Return the numbers in the log of what was delivered."""
        return [self.opened(message.position) for message in self.all_heard(DeliverLogged)]

    def opened(self, position: bytes) -> int:
        """Return the number in the log that a position stands for."""
        (number,) = [one for cursor in self._cursors() if (one := cursor.opened(position)) is not None]
        return number

    def _cursors(self) -> Iterator[Cursor]:
        for running in self.net.brokers.values():
            if (durable := running.parts.durable) is not None:
                for (owner, _), cursor in durable._cursors.items():
                    if owner == self.principal.key:
                        yield cursor

    def _sealed_position(self, position: int, name: str | None = None, ref: int | None = None) -> bytes:
        for cursor in self._cursors():
            if cursor.name == name or (cursor.holder is not None and cursor.holder[1] == ref):
                return cursor.sealed(position)
        return bytes(24)  # of no cursor


class Net:
    """Some brokers and clients, a queue of what is under way, and a clock that a test moves."""

    first: ClassVar[str] = "broker"
    """The broker that is meant where a test names none."""
    keys_by_hand: ClassVar[bool] = True
    """Whether a test brings the keys of a sealed type (`hold`), and no key server does."""

    def __init__(self, cast: Cast, *, now: Instant = BEGINNING, **settings: Any) -> None:
        """Begin without brokers; `settings` are those of every broker."""
        self.now, self.cast, self.settings = now, cast, settings
        self.brokers: dict[str, NetBroker] = {}
        self.clients: dict[End, NetClient] = {}
        self.clients_so_far = 0
        self.wires: dict[End, End] = {}
        self.queue: deque[Callable[[], None]] = deque()
        self.carried: list[tuple[str, str, Message]] = []
        """What brokers said to each other: from, to, message."""
        self.tamper: Callable[[Message], Message] | None = None
        """What a router on the way makes of what brokers say to each other."""
        self.after_each: Callable[[], None] = lambda: None
        """Called after everything that happens to a broker."""
        self.rights: dict[str, tuple[SignedCertificate, ...]] = {}
        """What brokers may do with the type, beside connecting."""
        self.rings: dict[str, dict[bytes, KeyRing]] = defaultdict(dict)
        """The keys that a test has brought, by broker and type."""
        self.logs: dict[bytes, NetLog] = defaultdict(NetLog)

    @property
    def type_id(self) -> bytes:
        """Return what brokers know the type by."""
        return self.cast.type_id

    # ------------------------------------------------------------ brokers

    def broker(self, name: str = "", *, seeds: Sequence[str] = (), **changes: Any) -> NetBroker:
        """Start a broker of the cast, or another one with a right to connect."""
        name = name or self.first
        key, credentials = self.cast.identity(name)
        settings = BrokerSettings(
            network=self.cast.network,
            address=address_of(name),
            credentials=changes.pop("credentials", (*credentials, *self.rights.get(name, ()))),
            seeds=tuple(address_of(seed) for seed in seeds),
            **(self.settings | changes),
        )
        running = NetBroker(name, key, settings, self._new_broker(key, settings, {}))
        self.brokers[name] = running
        return self.do(running, running.broker.start(self.now))

    def key_server(self, name: str = "key server", **changes: Any) -> NetBroker:
        """Start a key server, whose keys brokers then ask for (`keys_by_hand` is off in such a net)."""
        key, credentials = self.cast.identity(name)
        settings = DomainSettings(self.cast.network, address_of(name), credentials, **changes)
        random = random_from(b"key server" + len(self.brokers).to_bytes(2, "big"))
        node = KeyServer(key, settings, at_rest=Secret.fresh(random_from(b"at rest")), random=random)
        running = self.brokers[name] = NetBroker(name, key, settings, node)
        return self.do(running, node.start(self.now))

    def _new_broker(self, key: SigningKey, settings: BrokerSettings, kept: Mapping[str, bytes]) -> Broker:
        if key.principal in {self.cast.identity(name)[0].principal for name in self.rights}:
            # Brokers with a right know the type from the start, as from a folder of types.
            known = self.cast.definition
            kept = {f"{KEPT_TYPE}{known.id.hex()}": definition_to_bytes(known), **kept}
        seed = key.principal.key + len(self.brokers).to_bytes(4, "big") + self.now.to_bytes(8, "big")
        log = self.logs[key.principal.key].safe
        recent = tuple(one for one in log if one.position >= first_to_reread(kept))
        at_start = LogAtStart(log[-1].position + 1 if log else 1, recent)
        made = Broker(key, settings, random=random_from(seed), kept=kept, log=at_start)
        if self.keys_by_hand and self.cast.definition.definition.sealing is not None:
            made.parts.keys.__class__ = _KeysByHand
        return made

    def crash(self, name: str) -> None:
        """Stop a broker at once: its peers learn of it by the loss of their links."""
        running = self.brokers[name]
        running.alive = False
        self.log(name).unsafe.clear()
        for end in [end for end in self.wires if end[0] == name]:
            self.cut(end)
        self.settle()

    def restart(self, name: str, kept: Mapping[str, bytes] | None = None) -> NetBroker:
        """Start a broker from what it has kept, or from something else."""
        running = self.brokers[name]
        if running.alive:
            self.crash(name)
        stored = running.kept if kept is None else kept
        if isinstance(running.settings, BrokerSettings):
            running.broker = self._new_broker(running.key, running.settings, stored)
        running.alive, running.wake_at = True, None
        return self.do(running, running.broker.start(self.now))

    def drain(self, name: str) -> None:
        """Stop a broker as its operator does."""
        running = self.brokers[name]
        self.do(running, running.broker.drain(self.now))
        running.alive = False

    def name_near(self, point_of: bytes, *others: str) -> str:
        """Return a name whose broker is nearer to a point of the ring than these, and so its rendezvous."""
        point = node_id_of_type(point_of)

        def away(name: str) -> int:
            return distance(node_id_of_key(self.cast.identity(name)[0].principal.key), point)

        nearest, number = min(map(away, others)), 0
        while away(f"third domain {number}") >= nearest:
            number += 1
        return f"third domain {number}"

    # ------------------------------------------------------------ clients

    def client(self, who: str, at: str = "", **changes: Any) -> NetClient:
        """Connect a member of the cast, with all certificates of the cast."""
        self.clients_so_far += 1
        client = NetClient(
            self,
            changes.pop("key", None) or self.cast.keys[who],
            changes.pop("credentials", self.cast.certificates),
            random=random_from(who.encode() + self.clients_so_far.to_bytes(4, "big")),
            **changes,
        )
        client.stream = sha256(who.encode()).digest()[:16]
        self.connect(client, at or self.first)
        self.settle()
        return client

    def guest(self, who: str, *rights: SignedCertificate, at: str = "", **changes: Any) -> NetClient:
        """Connect a person who is not in the cast, with the right to connect and these rights."""
        key = key_of(who)
        credentials = (self.cast.connect_right(key), *rights)
        return self.client(who, at, key=key, credentials=credentials, **changes)

    def connect(self, client: NetClient, at: str) -> None:
        """Open a link of a client, again after it was closed."""
        running = self.brokers[at]
        link = LinkId(running.next_link)
        running.next_link += 1
        client.link, client.closed = link, False
        self.clients[at, link] = client
        self.happen(running, LinkOpened(link, client.principal, None, client.remote))

    def from_client(self, client: NetClient, data: bytes) -> None:
        """Let a client's bytes arrive, and all that follows."""
        if client.closed or client.link is None:
            return
        running, link = self.brokers[self._home(client)[0]], client.link
        self.queue.append(lambda: self.happen(running, Received(link, data)))
        self.settle()

    def hang_up(self, client: NetClient) -> None:
        """Close the link of a client."""
        at, link = self._home(client)
        del self.clients[at, link]
        client.closed = True
        self.happen(self.brokers[at], LinkClosed(link))
        self.settle()

    def _home(self, client: NetClient) -> End:
        return next(end for end, one in self.clients.items() if one is client and end[1] == client.link)

    # ------------------------------------------------------------ what happens

    def settle(self) -> Net:
        """Let everything arrive that is under way."""
        for _ in range(200_000):
            if not self.queue:
                return self
            self.queue.popleft()()
        raise AssertionError("the network does not come to rest")

    def advance(self, seconds: float) -> Net:
        """Move the clock, and wake each broker at the moment it asked for."""
        return self.advance_to(Instant(self.now + int(seconds * SECOND)))

    def advance_to(self, end: Instant) -> Net:
        """Move the clock to a moment."""
        while True:
            wakes = [one.wake_at for one in self.brokers.values() if one.alive and one.wake_at is not None]
            first = min(wakes, default=None)
            if first is None or first > end:
                break
            self.now = max(self.now, first)
            for running in self.brokers.values():
                if running.alive and running.wake_at is not None and running.wake_at <= self.now:
                    running.wake_at = None
                    self.happen(running, Tick())
            self.settle()
        self.now = end
        return self

    def live(self, seconds: int, *renew: Callable[[], object]) -> None:
        """Let time pass while clients renew what they asked for."""
        for _ in range(0, seconds, 20):
            self.advance(20)
            for one in renew:
                one()

    def happen(self, running: NetBroker, happened: Input) -> None:
        """Tell a broker what has happened, and begin what it asks for."""
        if running.alive:
            self.perform(running, running.broker.handle(happened, self.now))
        self.after_each()

    def do(self, running: NetBroker, effects: Iterable[Effect]) -> NetBroker:
        """Perform what a broker asks for, and let everything arrive."""
        self.perform(running, effects)
        self.settle()
        return running

    def perform(self, running: NetBroker, effects: Iterable[Effect]) -> None:  # noqa: PLR0912 - each effect
        """Begin what a broker asks for."""
        log = self.logs[running.key.principal.key]
        for effect in effects:
            match effect:
                case Send(link, data):
                    self.send(running.name, link, data)
                case Close(link, _):
                    self.queue.append(partial(self.cut, (running.name, link)))
                case Dial(address):
                    self.queue.append(partial(self.dial, running, address))
                case WakeAt(at):
                    running.wake_at = at if running.wake_at is None else min(at, running.wake_at)
                case Keep(name, None):
                    running.kept.pop(name, None)
                case Keep(name, bytes(data)):
                    running.kept[name] = data
                case Note():
                    running.notes.append(effect)
                case Count(name, amount, _):
                    running.counts[name] = running.counts.get(name, 0) + amount
                case Record(position, data):
                    last = [*log.safe[-1:], *log.unsafe[-1:]]
                    assert not last or position == last[-1].position + 1  # noqa: S101 - as a log insists
                    log.unsafe.append(Logged(position, self.now, data))
                case ReadLog():
                    log.reads.append(effect)
                    self.queue.append(partial(self.happen, running, log.found(effect)))
                case _:
                    pass
        if log.unsafe and not log.is_slow:
            self.queue.append(lambda: self.sync(running.name) if log.unsafe else None)

    def send(self, name: str, link: LinkId, data: bytes) -> None:
        """Bring what a broker says on its way."""
        if self.tamper is not None and (name, link) in self.wires:
            data = encode(self.tamper(decode(data)))
        self.queue.append(lambda: self._arrive((name, link), data))

    def _arrive(self, end: End, data: bytes) -> None:
        client = self.clients.get(end)
        if client is not None:
            self.hears(client, data)
        elif (other := self.wires.get(end)) is not None:
            self.carried.append((end[0], other[0], decode(data)))
            self.happen(self.brokers[other[0]], Received(other[1], data))

    def hears(self, client: NetClient, data: bytes) -> None:
        """Let a client hear a message, and answer what every client answers."""
        message = decode(data)
        client.heard.append(message)
        if isinstance(message, Greeting) and client.says_hello:
            client.hello()
        if isinstance(message, Ping):
            client.say(Pong(message.nonce))

    def dial(self, running: NetBroker, address: str) -> None:
        """Let a broker dial another one."""
        other = next((one for one in self.brokers.values() if _address(one) == address), None)
        if not running.alive:
            return
        if other is None or not other.alive or other is running:
            self.happen(running, DialFailed(address))
            return
        here, there = (running.name, LinkId(running.next_link)), (other.name, LinkId(other.next_link))
        running.next_link += 1
        other.next_link += 1
        self.wires[here], self.wires[there] = there, here
        self.happen(running, LinkOpened(here[1], other.key.principal, address))
        self.happen(other, LinkOpened(there[1], running.key.principal, None))

    def cut(self, end: End) -> None:
        """Close a link; both ends notice."""
        client = self.clients.pop(end, None)
        if client is not None:
            client.closed = True
        other = self.wires.pop(end, None)
        for one in (end, other):
            if one is not None:
                self.wires.pop(one, None)
                self.happen(self.brokers[one[0]], LinkClosed(one[1]))

    def link(self, sender: str, receiver: str) -> LinkId:
        """Return the link on which one broker hears another one."""
        return next(
            there for (name, _), (at, there) in self.wires.items() if (name, at) == (sender, receiver)
        )

    def repeat(self, sender: str, receiver: str, *messages: Message) -> None:
        """Let one broker hear something from another one, which need not have said it."""
        link = self.link(sender, receiver)
        for message in messages:
            self.happen(self.brokers[receiver], Received(link, encode(message)))
            self.settle()

    def heard(self, running: NetBroker) -> list[Message]:
        """Return all that other brokers said to a broker."""
        return [message for _, to, message in self.carried if to == running.name]

    def frames(self, *, to: NetBroker | None = None) -> list[Message]:
        """Return the publications that brokers sent each other."""
        kinds = (Carried, Sealed, SealedWithPlaintext)
        return [
            message
            for _, receiver, message in self.carried
            if isinstance(message, kinds) and (to is None or receiver == to.name)
        ]

    # ------------------------------------------------------------ rights and keys of brokers

    def entitle(self, name: str, *actions: Action, **limits: Any) -> None:
        """Give a broker that has not started a right to the type."""
        right = self.cast.right(self.cast.identity(name)[0], *actions, **limits)
        self.rights[name] = (*self.rights.get(name, ()), right)

    def ring(self, *groups: AttributeUid | None, epochs: Collection[int] = (1,)) -> KeyRing:
        """Return a ring of the type; equal groups have equal secrets on all rings."""
        held = KeyRing(self.type_id)
        for epoch in epochs:
            held.learn(epoch, since=self.now)
            for uid in groups:
                secret = sha256(b"%b/%b/%d" % (self.cast.seed, (uid or "*").encode(), epoch)).digest()
                held.hold(GroupId(self.type_id, uid), epoch, Secret.from_bytes(secret))
        return held

    def hold(
        self, running: NetBroker, *groups: AttributeUid | None, epochs: Collection[int] = (1,)
    ) -> KeyRing | None:
        """Let a broker hold the keys of these groups in these epochs; of nothing, no ring at all."""
        held = self.ring(*groups, epochs=epochs) if groups else None
        self.use(running, held)
        return held

    def use(self, running: NetBroker, ring: KeyRing | None, kind: bytes | None = None) -> None:
        """Let a broker have another ring of a type; what waited for its keys goes on."""
        kind, held, parts = kind or self.type_id, self.rings[running.name], running.parts
        if ring is None:
            held.pop(kind, None)
        else:
            held[kind] = ring
        for name, certificates in self.rights.items():
            key, shows = self.cast.identity(name)
            parts.writers.learn(kind, key.principal, (*shows, *certificates))
        parts.streams.blinded.held = held.get
        self.do(running, running.broker._do(partial(parts.key_events.apply_new_keys, kind), self.now))

    # ------------------------------------------------------------ event logs

    def log(self, name: str = "") -> NetLog:
        """Return the event log of a broker."""
        return self.logs[self.brokers[name or self.first].key.principal.key]

    def sync(self, name: str = "") -> None:
        """Let the disk make everything safe."""
        log = self.log(name)
        log.safe += log.unsafe
        log.unsafe.clear()
        if log.safe:
            self.happen(self.brokers[name or self.first], Recorded(log.safe[-1].position))
        self.settle()

    def retain(self, first: int, name: str = "") -> None:
        """Remove what is older than a position from the log."""
        log = self.log(name)
        for one in [one for one in log.safe if one.position < first]:
            log.removed_upto[type_id_of(one.data) or b""] = one.position
        log.safe = [one for one in log.safe if one.position >= first]


class Issuer:
    """A domain that is connected to a broker and publishes its statements there."""

    def __init__(self, net: Net, who: str, at: str = "") -> None:
        """Connect, and advertise the stream of statements."""
        self.net, self.key = net, net.cast.keys[who]
        self.says = Statements(self.key)
        self.client = net.client(who, at)
        own = [one for one in net.cast.certificates if one.certificate.subject == self.key.principal]
        install = tuple(one for one in own if Action.INSTALL in one.certificate.authority.actions)  # type: ignore[union-attr]  # no names
        definition = definition_to_bytes(validity_definition(self.key, install))
        name = validity_type_name(self.key.principal)
        self.ref = self.client.advertise(definitions=[definition], event_type=name)
        assert self.client.was_accepted(self.ref), self.client.heard  # noqa: S101 - for the reader of a test

    def state(self, *statements: SignedStatement) -> None:
        """Publish statements in one frame, and wait for the answer."""
        before = len(self.client.all_heard(Published))
        events = [statement_to_event(signed) for signed in statements]
        self.client.publish(self.ref, *events, kinds={STATEMENT.uid: STATEMENT.kind})
        answers = len(self.client.all_heard(Published))
        assert answers == before + 1, self.client.heard  # noqa: S101 - for the reader of a test

    def vouch(self, seconds: float = 60.0, *, since: Instant | None = None) -> SignedStatement:
        """State that nothing but what is listed is revoked, for so many seconds from now."""
        signed = self.says.list_for(self.net.now if since is None else since, seconds)
        self.state(signed)
        return signed

    def revoke(self, *certificates: SignedCertificate) -> SignedStatement:
        """Revoke certificates, and publish that at once."""
        signed = self.says.revoke(*certificates)
        self.state(signed)
        return signed


class _KeysByHand(KeyRequests):
    """Requests for keys to which a test brings the answers, so that they may come at any moment."""

    __slots__ = ()

    def opens_any(self, type_id: bytes) -> bool | None:
        """Leave it open."""
        return None

    def opens(self, type_id: bytes, uid: AttributeUid) -> bool:
        """Expect no key."""
        return False


def _address(running: NetBroker) -> str | None:
    return getattr(running.settings, "address", None)  # a member of key groups has none


def shown(certificates: Iterable[SignedCertificate]) -> list[bytes]:
    """Return certificates as a message shows them."""
    return [certificate_to_bytes(signed) for signed in certificates]


def questions_of(challenge: Challenge) -> list[OneTimeQuestion]:
    """Return what a challenge asks."""
    return [question_from_bytes(data) for data in challenge.questions]


def answers_to(challenge: Challenge, key: SigningKey) -> list[bytes]:
    """Return the answers of the holder of a key to a challenge."""
    return [statement_to_bytes(answer_question(question, key)) for question in questions_of(challenge)]


def _rows(messages: Iterable[Deliver | DeliverLogged]) -> list[Row]:
    return [
        dict(event)
        for message in messages
        for event in columns_to_frame(message.columns, message.rows).events()
    ]
