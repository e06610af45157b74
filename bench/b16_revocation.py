"""How long does a right go on that was taken back, with ten thousand others standing?

Three brokers, each a process of its own, with subscriptions that rest on
certificates which their issuer vouches for. In each round a hundred of them,
spread over the three, are revoked by one statement, which the issuer publishes
at the first broker, while some events are on their way. A delay is that from
sending the statement until the subscriber has read that its subscription has
ended: nothing follows that on its connection. When the issuer's broker has answered, events are published
there; one of them that reaches a revoked subscriber of the same broker is a
leak.

The peer is mosquitto with an ACL file, which is written anew and read on
SIGHUP; its delay is that until the last message that comes through. RabbitMQ
asks again when a cached answer is over; Pulsar caches for 60 seconds and
Artemis for 10 by default, which stands here on paper.
"""

from __future__ import annotations

import os
import select
import selectors
import signal
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from itertools import count
from pathlib import Path

from msgspec.structs import replace

from harness import Benchmark, Case, Figure, NotMeasured, at_most
from live_network import (
    PATIENCE_S,
    READ_BYTES,
    BrokerProcess,
    MaiaConnection,
    World,
    broker_process,
    new_publisher,
    new_world,
)
from live_peers import MissingPeer, MqttConnection, mosquitto
from maia.clock import system_now
from maia.credentials import (
    Action,
    AuthorisationCertificate,
    Authority,
    OnlineTest,
    Principal,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    TestKind,
    TypePattern,
    exact_name,
    issue,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.events import frame_of
from maia.predicates import ALWAYS, Predicate
from maia.types import definition_to_bytes, validity_definition, validity_type_name
from maia.types.verified import STATEMENT
from maia.wire.codec import decode
from maia.wire.columns import frame_label, frame_to_columns
from maia.wire.messages import (
    Accepted,
    Advertise,
    Deliver,
    Ended,
    Failed,
    Message,
    Ping,
    Pong,
    Publish,
    Published,
)
from maia.wire.requests import EdgeRequest, request_to_bytes, sign_request

BROKERS = 3
PER_CLIENT = 500
HOUR = 3600 * 1_000_000
SETTINGS = {"lease_s": 3600, "limits": {"requests_per_minute": 1_000_000}}
PUT_OFF = {"UNAVAILABLE-STATEMENT-AWAITED", "TYPE-UNKNOWN"}


def cases(quick: bool) -> Iterator[Case]:
    """Yield our delays and leaks, then the delays against the peer."""
    standing, falling, rounds = (300, 30, 2) if quick else (10_000, 100, 10)
    with Place(standing) as place:
        played = [place.round(falling) for _ in range(rounds)]
        leaked = sum(place.leaks(falling) for _ in range(rounds))
        disturbed = place.disturbed()
    everywhere = [_p99([delay for delays in one for delay in delays]) for one in played]
    case = f"p99 from revoke to the end over {BROKERS} brokers, {falling} of {standing:,} subscriptions fall"
    yield Figure(f"{case}: milliseconds", [one / 1000 for one in everywhere], at_most(8))
    yield Figure("deliveries at the local broker after the revocation returned", [leaked], at_most(0))
    yield Figure("subscriptions that ended and should not have", [disturbed], at_most(0))
    yield _against_mosquitto([_p99(one[0]) for one in played], standing, falling, rounds)


def _p99(delays: Sequence[float]) -> float:
    return statistics.quantiles(delays, n=100, method="inclusive")[98]


# ---------------------------------------------------------------- ours


class Listener(MaiaConnection):
    """A subscriber that reads everything it is told, and when."""

    def __init__(
        self, world: World, broker: BrokerProcess, name: str, credentials: Sequence[SignedCertificate]
    ) -> None:
        """Connect under a key of its own."""
        super().__init__(world, broker, world.key(name), credentials)
        self.ended_at: dict[int, float] = {}
        self.labels: set[bytes] = set()

    def stands(self, filters: Sequence[Predicate]) -> list[int]:
        """Subscribe, as often as the broker says that it waits for a statement."""
        waiting, found = list(filters), []
        while waiting:
            asked = [self.request(Action.SUBSCRIBE, one) for one in waiting]
            # Nothing is remembered of a request that is put off, the definition that it hands over included.
            asked[0] = replace(asked[0], definitions=[self.world.definition])
            by_ref = {one.id: filter_ for one, filter_ in zip(asked, waiting, strict=True)}
            self.say(*asked)
            answers = [self._answer() for _ in asked]
            found += [one.id for one in answers if isinstance(one, Accepted)]
            failed = [one for one in answers if isinstance(one, Failed)]
            assert all(one.code in PUT_OFF for one in failed), failed[-1]
            waiting = [by_ref[one.id] for one in failed]
            time.sleep(0.25 if waiting else 0)
        return found

    def _answer(self) -> Message:
        while True:
            while not self._heard:
                data = self.socket.recv(READ_BYTES)
                assert data, "the broker hung up"
                self._heard += map(decode, self._splitter.feed(data))
            message = self._heard.pop(0)
            if isinstance(message, Accepted | Failed):
                return message

    def wait_readable(self) -> None:
        """Wait until something has arrived; what TLS has read already does not wake a selector."""
        if not self.socket.pending():
            found, _, _ = select.select([self.socket], [], [], PATIENCE_S)
            assert found, "the broker said nothing more"

    def read(self) -> None:
        """Take note of all that has arrived."""
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while True:
                data = self.socket.recv(READ_BYTES)
                assert data, "the broker hung up"
                now = time.perf_counter()
                for message in map(decode, self._splitter.feed(data)):
                    self._take(message, now)

    def _take(self, message: Message, now: float) -> None:
        match message:
            case Ended(refs=refs):
                self.ended_at |= dict.fromkeys(refs, now)
            case Deliver(label=label):
                self.labels.add(label)
            case Ping(nonce=nonce):
                self.socket.setblocking(True)
                self.say(Pong(nonce))
                self.socket.setblocking(False)


class Issuer(MaiaConnection):
    """The owner of everything, which states at its broker what it has revoked."""

    def __init__(self, world: World, broker: BrokerProcess) -> None:
        """Connect, and advertise the stream of statements."""
        super().__init__(world, broker, world.owner, [world.connect_right(world.owner.principal)])
        self._revoked: set[bytes] = set()
        self._numbers = count(1)
        name = validity_type_name(world.owner.principal)
        asked = EdgeRequest(
            Action.PUBLISH, world.network, name, ALWAYS, self.stream, system_now(), os.urandom(16)
        )
        definition = definition_to_bytes(validity_definition(world.owner))
        self.say(Advertise(1, request_to_bytes(sign_request(asked, world.owner)), [], [definition]))
        self.wait_for(Accepted)

    def vouch(self) -> None:
        """State that all that is not listed counts for an hour."""
        self.send(self._statement(timed=True))
        self.wait_for(Published)

    def revocation(self, certificates: Sequence[SignedCertificate]) -> SignedStatement:
        """Return a list that is in force at once."""
        self._revoked |= {one.id for one in certificates}
        return self._statement(timed=False)

    def _statement(self, *, timed: bool) -> SignedStatement:
        period = period_from(system_now(), microseconds=HOUR) if timed else None
        said = RevocationList(
            self.world.owner.principal, next(self._numbers), period, frozenset(self._revoked)
        )
        return sign_statement(said, self.world.owner)

    def send(self, signed: SignedStatement) -> None:
        """Publish a statement, and wait for nothing."""
        event = {STATEMENT.uid: statement_to_bytes(signed)}
        columns = frame_to_columns(frame_of([event], {STATEMENT.uid: STATEMENT.kind}))
        self.say(Publish(1, next(self._sequences), +system_now(), 1, columns))


def own_tested_right(world: World, name: str) -> SignedCertificate:
    """Return the same for a key of the world."""
    return tested_right(world, name, world.key(name).principal)


def tested_right(world: World, name: str, subject: Principal) -> SignedCertificate:
    """Return a right to subscribe that counts while the owner vouches for it."""
    pattern = TypePattern(world.owner.principal, exact_name(world.event_type.name.name), None)
    test = OnlineTest(TestKind.TIMED_CRL, world.owner.principal)
    certificate = AuthorisationCertificate(
        world.owner.principal,
        subject,
        False,
        Authority(pattern, frozenset({Action.SUBSCRIBE})),
        world.validity.with_tests(test),
        name,
    )
    return issue(certificate, world.owner)


class Place:
    """Three brokers with so many subscriptions, a publisher and an issuer at the first of them."""

    def __init__(self, standing: int) -> None:
        """Prepare nothing before it is entered."""
        self._standing, self._stack, self._names = standing, ExitStack(), count()
        self.world = new_world()

    def __enter__(self) -> Place:
        stack, brokers = self._stack, list[BrokerProcess]()
        for number in range(BROKERS):
            join = [one.address for one in brokers]
            started = broker_process(self.world, f"broker {number}", join=join, **SETTINGS)
            brokers.append(stack.enter_context(started))
        self._brokers = brokers
        self.issuer = stack.enter_context(closing(Issuer(self.world, brokers[0])))
        self.issuer.vouch()
        self._selector = stack.enter_context(closing(selectors.EpollSelector()))
        self._others = list(self._bystanders())
        self.publisher = stack.enter_context(closing(new_publisher(self.world, brokers[0], rows=1)))
        return self

    def __exit__(self, *_problem: object) -> None:
        self._stack.close()

    def _listener(self, number: int, right: SignedCertificate, name: str) -> Listener:
        key = self.world.key(name)
        shown = [self.world.connect_right(key.principal), right]
        return self._stack.enter_context(closing(Listener(self.world, self._brokers[number], name, shown)))

    def _bystanders(self) -> Iterator[Listener]:
        """Yield clients whose subscriptions stand and match nothing; each rests on a right of its own."""
        left, number = self._standing, count()
        while left:
            some = min(PER_CLIENT, left)
            name = f"bystander {next(self._names)}"
            listener = self._listener(next(number) % BROKERS, own_tested_right(self.world, name), name)
            first = self._standing - left
            listener.stands([self.world.filter(f"speed > {1000 + first + one}") for one in range(some)])
            listener.socket.setblocking(False)
            left -= some
            yield listener

    def round(self, falling: int) -> list[list[float]]:
        """Revoke so many subscriptions; return, for each broker, the delays in microseconds."""
        victims = list(self._victims(falling))
        self._publish(5)  # which are still on their way to some
        statement = self.issuer.revocation([right for _, right, _ in victims])
        waiting = {listener: refs for listener, _, refs in victims}
        started = time.perf_counter()
        self.issuer.send(statement)
        self._read_until_ended(waiting)
        self.issuer.wait_for(Published)
        self._hang_up(waiting)
        return [[(one.ended_at[ref] - started) * 1e6 for ref in refs] for one, refs in waiting.items()]

    def leaks(self, falling: int) -> int:
        """Revoke so many, publish as soon as that has returned, and return how much still arrives."""
        victims = self._served_victims(falling)
        self.issuer.send(self.issuer.revocation([right for _, right, _ in victims]))
        self.issuer.wait_for(Published)
        after = self._publish(5)
        waiting = {listener: refs for listener, _, refs in victims}
        self._read_until_ended(waiting)
        self._hang_up(waiting)
        here = victims[0][0]
        return len(here.labels & after)

    def _hang_up(self, listeners: Iterable[Listener]) -> None:
        for one in listeners:
            self._selector.unregister(one)
            one.close()

    def _served_victims(self, falling: int) -> list[tuple[Listener, SignedCertificate, list[int]]]:
        """Return subscribers that have received events, all of which have arrived: nothing is on its way."""
        victims, got = list(self._victims(falling)), self._publish(5)
        self._read_until(lambda: all(got <= one.labels for one, _, _ in victims), "an event did not arrive")
        return victims

    def _victims(self, falling: int) -> Iterator[tuple[Listener, SignedCertificate, list[int]]]:
        for number in range(BROKERS):
            some = falling // BROKERS + (number < falling % BROKERS)
            name = f"victim {next(self._names)}"
            right = own_tested_right(self.world, name)
            listener = self._listener(number, right, name)
            refs = listener.stands([self.world.filter(f"speed > {-one}") for one in range(some)])
            listener.socket.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ)
            yield listener, right, refs

    def _publish(self, frames: int) -> set[bytes]:
        """Publish events that every victim would get, and return the labels of their frames."""
        labels: set[bytes] = set()
        publisher = self.publisher
        for _ in range(frames):
            block, _ = self.publisher.next_block()
            self.publisher.socket.sendall(block)
            published = self.publisher.wait_for(Published)
            assert isinstance(published, Published)
            labels.add(frame_label(publisher.key.principal.key, publisher.stream, published.sequence))
        return labels

    def _read_until_ended(self, waiting: dict[Listener, list[int]]) -> None:
        self._read_until(
            lambda: all(len(one.ended_at) == len(refs) for one, refs in waiting.items()),
            "a revoked subscription did not end",
        )
        time.sleep(0.1)  # for whatever should not come any more
        for listener in waiting:
            listener.read()

    def _read_until(self, is_done: Callable[[], bool], problem: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_done():
            assert time.monotonic() < until, problem
            for key, _ in self._selector.select(1):
                assert isinstance(key.fileobj, Listener)
                key.fileobj.read()

    def disturbed(self) -> int:
        """Return how many subscriptions of bystanders have ended."""
        for one in self._others:
            one.read()
        return sum(len(one.ended_at) for one in self._others)


# ---------------------------------------------------------------- mosquitto


def _against_mosquitto(ours: list[float], standing: int, falling: int, rounds: int) -> Case:
    case = "p99 at the local broker / mosquitto's last delivery after SIGHUP with another ACL file"
    try:
        with tempfile.TemporaryDirectory(prefix="maia-bench-") as folder:
            theirs = _mosquitto_delays(Path(folder, "acl"), standing, falling, rounds)
    except MissingPeer as missing:
        return NotMeasured(case, str(missing), at_most(1))
    ratios = [one / max(1.0, other) for one, other in zip(ours, theirs, strict=True)]
    return Figure(case, ratios, at_most(1), ours_us=ours, peer_us=theirs)


def _mosquitto_delays(acl: Path, standing: int, falling: int, rounds: int) -> list[float]:
    _write_acl(acl, may_read=True)
    # One listener, and one file that says what anybody may do, as its manual describes it.
    with mosquitto(more=[f"acl_file {acl}"]) as peer, ExitStack() as stack:

        def connected(name: str) -> MqttConnection:
            return stack.enter_context(closing(MqttConnection(peer.port, name)))

        for number in range(0, standing, PER_CLIENT):
            topics = [f"other/{number + one}" for one in range(min(PER_CLIENT, standing - number))]
            connected(f"bystander-{number}").subscribe(*topics)
        publisher, reader = connected("publisher"), connected("reader")
        publisher.publish_to("cars/1", rows=1)
        reader.subscribe("cars/1", *(f"cars/{number}" for number in range(2, falling + 1)))
        reader.socket.setblocking(False)
        return [_mosquitto_delay(peer.pid, acl, publisher, reader) for _ in range(rounds)]


def _write_acl(acl: Path, *, may_read: bool) -> None:
    lines = ["topic write cars/#", "topic readwrite other/#", *(["topic read cars/#"] if may_read else [])]
    acl.write_text("\n".join(lines) + "\n", encoding="ascii")
    acl.chmod(0o700)


def _mosquitto_delay(pid: int, acl: Path, publisher: MqttConnection, reader: MqttConnection) -> float:
    """Return the microseconds from taking the right away until the last message came through."""
    before = _last_of_stream(publisher, reader, seconds=0.3)
    assert before, "nothing came before the right was taken away"
    started = time.perf_counter()
    _write_acl(acl, may_read=False)
    os.kill(pid, signal.SIGHUP)
    ended = _last_of_stream(publisher, reader, seconds=1.0)
    _write_acl(acl, may_read=True)
    os.kill(pid, signal.SIGHUP)
    time.sleep(0.3)
    return max(0.0, (ended or started) - started) * 1e6


def _last_of_stream(publisher: MqttConnection, reader: MqttConnection, *, seconds: float) -> float | None:
    """Publish a message every half millisecond, and return when the last one came."""
    arrived: float | None = None
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        publisher.socket.sendall(publisher.next_block()[0])
        time.sleep(0.0005)
        with suppress(BlockingIOError):
            while reader.socket.recv(READ_BYTES):
                arrived = time.perf_counter()
    return arrived


BENCH = Benchmark(
    number=16,
    name="revocation",
    about="from revoking a right to the end of what rests on it, over three brokers",
    cases=cases,
    stood="Pulsar caches answers for 60 s and Artemis for 10 s by default, on paper",
    peer_lacks="mosquitto has one broker and one file for everybody, reads all of it again, and tells "
    "nobody; frames, attributes and chains of certificates are ours alone",
)
