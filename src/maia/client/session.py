"""The client: what happens to it, one input after the other, and what it asks for in return.

    session.handle(Received(link, data), now) -> [Send(...), WakeAt(...), ...]
    session.take_notices() -> [Delivered(...), Taken(...), ...]

It has no clock and no socket. It shows its credentials to nobody who has not
first shown a right to connect to the network (A19), renews what stands before
the lease ends, and asks for all of it again after a reconnection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, assert_never

from maia.client.alarms import RENEWAL, SESSION, Alarms, later
from maia.client.book import Book
from maia.client.challenges import CONNECTING, NOT_VOUCHED_FOR
from maia.client.duplicates import SeenFrames
from maia.client.entries import Advertised, Entry, Numbering, Subscribed
from maia.client.notices import Connected, Disconnected, Notice
from maia.client.problems import (
    BrokerNotTrusted,
    ClientClosed,
    NotConnected,
    StateAndDurable,
    WrongBroker,
    check_durable_name,
    is_passing,
    told_by_broker,
)
from maia.client.settings import ClientSettings
from maia.client.types import KnownVersion
from maia.client.wallet import Wallet
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    certificate_from_bytes,
    certificate_to_bytes,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal
from maia.events import Instant
from maia.policy import Request
from maia.predicates import Predicate
from maia.wire.codec import decode, encode
from maia.wire.effects import (
    Close,
    Dial,
    DialFailed,
    Effect,
    Input,
    LinkClosed,
    LinkId,
    LinkOpened,
    LogRead,
    Note,
    Received,
    Recorded,
    Send,
    Tick,
    WakeAt,
)
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Bye,
    Challenge,
    Greeting,
    Hello,
    Message,
    Ping,
    Pong,
    Show,
    Welcome,
)
from maia.wire.messages import Column as WireColumn
from maia.wire.names import network_to_bytes

__all__ = ["ClientSession", "SessionStage"]

_LOOKS_IN_A_LEASE: Final = 3
_REVOKED: Final = "POLICY-REVOKED"


class SessionStage(Enum):
    """How far the client is from being able to ask for anything."""

    IDLE = "idle"
    DIALLING = "dialling"
    AWAITING_GREETING = "awaiting greeting"
    AWAITING_WELCOME = "awaiting welcome"
    READY = "ready"
    CLOSED = "closed"


class ClientSession:
    """One client of one network, as a value that is handed time, chance and messages."""

    def __init__(self, key: SigningKey, settings: ClientSettings, *, random: Callable[[int], bytes]) -> None:
        """Make a client that holds `key`; it dials nobody before `start`."""
        self._key = key
        self._settings = settings
        self._random = random
        self._wallet = Wallet(settings.credentials, settings.constitutions)
        self._wallet.add_statements(settings.statements)
        self._alarms = Alarms()
        self._book = Book(key, settings, self._wallet, self._alarms, random)
        self._instance = random(16)
        self._network = network_to_bytes(settings.network)
        self._connecting = Request(key.principal, Action.CONNECT, settings.network)
        self.stage = SessionStage.IDLE
        self._link: LinkId | None = None
        self._peer: Principal | None = None
        self._last_broker: Principal | None = None
        self._turn = 0
        self._failures = 0
        self._was_heard = False
        self._silent_looks = 0
        self._shown: list[SignedStatement] = []
        """By which statements the broker says that its certificates still count."""

    # -------------------------------------------------------- what the application asks for

    @property
    def link(self) -> LinkId | None:
        """Return the present link, if there is one."""
        return self._link

    @property
    def is_ready(self) -> bool:
        """Say whether a broker has welcomed this client."""
        return self.stage is SessionStage.READY

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices, self._book.notices = self._book.notices, []
        return notices

    def start(self, now: Instant) -> list[Effect]:
        """Begin to look for a broker."""
        del now
        return self._finished(self._dial())

    def advertise(
        self, known: KnownVersion, filter_: Predicate, now: Instant, numbering: Numbering | None = None
    ) -> tuple[Advertised, list[Effect]]:
        """Ask to publish events of a type; raise the refusal if no credential speaks for that."""
        frames = numbering or Numbering(self._random(16))
        entry = Advertised(
            self._book.next_number(), known, filter_, frames.stream, next_sequence=frames.first
        )
        return entry, self._finished(self._sent(self._book.add(entry, now, is_ready=self.is_ready)))

    def subscribe(
        self,
        known: KnownVersion,
        filter_: Predicate,
        now: Instant,
        *,
        durable: str | None = None,
        state: bool = False,
    ) -> tuple[Subscribed, list[Effect]]:
        """Ask for events of a type; raise the refusal if no credential speaks for that.

        With a `durable` name, the broker goes on where it was acknowledged to be.
        With `state`, what publishers said last comes first.
        """
        check_durable_name(durable)
        if durable is not None and state:
            raise StateAndDurable("a durable subscription goes on where it was: it has no use for the state")
        seen = SeenFrames(self._settings.streams)
        number, stream = self._book.next_number(), self._random(16)
        entry = Subscribed(number, known, filter_, stream, seen=seen, durable=durable, wants_state=state)
        return entry, self._finished(self._sent(self._book.add(entry, now, is_ready=self.is_ready)))

    def acknowledge(self, entry: Subscribed, position: int) -> list[Effect]:
        """Say that the application wants nothing up to a position again."""
        return self._sent(self._book.acknowledge(entry, position))

    def withdraw(self, entry: Entry, now: Instant, *, forget: bool = False) -> list[Effect]:
        """Ask to take back what was asked for; `Withdrawn` follows. `forget` takes its cursor along."""
        del now
        asking = self._book.withdraw(entry, is_ready=self.is_ready, forget=forget)
        return self._finished(self._sent(asking))

    def ask_for_type(self, name: TypeName, now: Instant) -> tuple[int, list[Effect]]:
        """Ask the broker for the definitions of a type version; `TypeTold` follows."""
        del now
        number = self._book.next_number()
        asking = self._book.ask_for_type(number, name)
        return number, self._finished(self._sent(asking) if self.is_ready else [])

    def show(
        self,
        certificates: Iterable[SignedCertificate],
        statements: Iterable[SignedStatement],
    ) -> tuple[int, list[Effect]]:
        """Hold more certificates and statements, and show them to the broker; `Shown` follows."""
        certificates, statements = tuple(certificates), tuple(statements)
        self._wallet.add(certificates)
        self._wallet.add_statements(statements)
        number = self._book.next_number()
        asking = self._book.show(
            number,
            [certificate_to_bytes(signed) for signed in certificates],
            [statement_to_bytes(signed) for signed in statements],
            is_ready=self.is_ready,
        )
        return number, self._finished(self._sent(asking))

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None = None
    ) -> list[Effect]:
        """Bring the answers to a challenge; `problem` says why there are fewer than were asked for."""
        return self._finished(self._sent(self._book.vouch(number, answers, problem)))

    def has_room(self, entry: Advertised) -> bool:
        """Say whether another frame may be under way; the application waits otherwise."""
        return self._book.has_room(entry)

    def publish(self, entry: Advertised, rows: int, columns: list[WireColumn], now: Instant) -> list[Effect]:
        """Send one frame, and remember it until the broker has taken it on."""
        return self._sent(self._book.publish(entry, rows, columns, now))

    def close(self, now: Instant) -> list[Effect]:
        """Say goodbye; nothing happens after this."""
        del now
        effects = self._goodbye("CLOSED", "the client is done")
        if self._link is not None:
            effects.append(Close(self._link, ClientClosed.code))
        self.stage = SessionStage.CLOSED
        self._link = None
        return effects

    # -------------------------------------------------------- what happens

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on."""
        if self.stage is SessionStage.CLOSED:
            return []
        match happened:
            case Received(link=link, data=data):
                effects = self._received(data, now) if link == self._link else []
            case Tick():
                self._alarms.woken()
                effects = []
            case Recorded() | LogRead():
                effects = []  # a client records nothing
            case LinkOpened():
                effects = self._opened(happened, now)
            case LinkClosed(link=link):
                gone = NotConnected("the broker closed the connection")
                effects = self._lost(gone, now) if link == self._link else []
            case DialFailed(address=address):
                nobody = NotConnected(f"no broker answers at `{address}`")
                effects = self._lost(nobody, now) if self.stage is SessionStage.DIALLING else []
            case _:
                assert_never(happened)
        return self._finished([*effects, *self._due(now)])

    def _opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        if self.stage is not SessionStage.DIALLING:
            return [Close(opened.link, WrongBroker.code)]
        self._link, self._peer, self._shown = opened.link, opened.peer, []
        self.stage = SessionStage.AWAITING_GREETING
        self._alarms.ask(SESSION, later(now, self._settings.handshake_s))
        return []

    def _received(self, data: bytes, now: Instant) -> list[Effect]:
        self._was_heard, self._silent_looks = True, 0
        try:
            return self._answered(decode(data), now)
        except (ProtocolViolation, Refusal) as problem:
            return self._left(problem, now)

    def _answered(self, message: Message, now: Instant) -> list[Effect]:
        match self.stage, message:
            case _, Bye(code=code, message=sentence):
                return self._dismissed(told_by_broker(code, sentence), now)
            case ((SessionStage.AWAITING_WELCOME | SessionStage.READY), Challenge(ref=ref)) if (
                ref == CONNECTING
            ):
                self._book.challenged_to_connect(message, self._connecting, is_ready=self.is_ready)
                return []
            case SessionStage.READY, Ping(nonce=nonce):
                return self._said(Pong(nonce))
            case SessionStage.READY, Pong():
                return []
            case SessionStage.READY, _:
                return self._sent(self._book.told(message, now))
            case SessionStage.AWAITING_GREETING, Greeting():
                return self._greeted(message, now)
            case SessionStage.AWAITING_GREETING, Show(statements=statements):
                self._shown = [statement_from_bytes(data) for data in statements]
                return []
            case SessionStage.AWAITING_WELCOME, Welcome(lease_s=lease_s):
                return self._welcomed(lease_s, now)
        raise WrongBroker(f"the broker said `{type(message).__name__}` before its turn")

    # -------------------------------------------------------- handshake

    def _greeted(self, greeting: Greeting, now: Instant) -> list[Effect]:
        """Verify the broker's right to connect, and only then show our own."""
        self._check_broker(greeting, now)
        shown = self._wallet.needed_for(self._connecting, now)
        self.stage = SessionStage.AWAITING_WELCOME
        statements = self._wallet.statements_for(shown)
        # What is too long to be said now was no use: the broker knows such statements by itself, or never.
        fits = sum(map(len, statements)) < HANDSHAKE_BYTES_MAX // 2
        vouched = self._said(Show(0, [], statements)) if statements and fits else []
        hello = Hello(PROTOCOL_VERSION, self._network, shown, self._instance, None)
        return [*vouched, *self._said(hello)]

    def _check_broker(self, greeting: Greeting, now: Instant) -> None:
        peer, settings = self._peer, self._settings
        assert peer is not None  # noqa: S101 - a link is open
        if greeting.version != PROTOCOL_VERSION or greeting.network != self._network:
            raise WrongBroker(f"whoever answered is no broker of network `{settings.network.name}`")
        if settings.brokers is not None and peer not in settings.brokers:
            raise BrokerNotTrusted(f"`{peer}` is not one of the brokers to talk to")
        try:
            shown = [certificate_from_bytes(data) for data in greeting.credentials]
            asked = Request(peer, Action.CONNECT, settings.network)
            self._wallet.check_shown(asked, shown, self._shown, now)
        except MaiaError as problem:
            raise BrokerNotTrusted(
                f"`{peer}` has not shown a right to connect to `{settings.network.name}`: {problem.message}"
            ) from problem

    def _welcomed(self, lease_s: int, now: Instant) -> list[Effect]:
        assert self._peer is not None  # noqa: S101 - a link is open
        self.stage = SessionStage.READY
        self._failures = 0
        self._book.notices.append(Connected(self._peer))
        is_another, self._last_broker = self._peer != self._last_broker, self._peer
        asking = self._book.ask_for_everything(lease_s, now, is_another_broker=is_another)
        self._alarms.ask(SESSION, later(now, self._book.lease_s / _LOOKS_IN_A_LEASE))
        return [Note("connected", {"broker": str(self._peer)}), *self._sent(asking)]

    # -------------------------------------------------------- links that end, and new ones

    def _dial(self) -> list[Effect]:
        self.stage = SessionStage.DIALLING
        addresses = self._settings.addresses
        return [Dial(addresses[self._turn % len(addresses)])]

    def _left(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker, saying why if it did something wrong."""
        is_its_fault = isinstance(problem, ProtocolViolation)
        effects = self._goodbye(problem.code, "the client leaves") if is_its_fault else []
        if self._link is not None:
            effects.append(Close(self._link, problem.code))
        return [*effects, *self._lost(problem, now)]

    def _dismissed(self, told: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker that said goodbye; whoever is not vouched for any more has nothing to wait for."""
        problem = self._book.why_unconnected(told)
        effects = self._left(problem, now)
        if told.code == NOT_VOUCHED_FOR and not is_passing(problem.code):
            self._book.give_everything_up(problem)
        return effects

    def _lost(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Begin again, with the next address; what stood will be asked for again."""
        self._link = self._peer = None
        self.stage = SessionStage.IDLE
        is_final = isinstance(problem, Refusal | ProtocolViolation | BrokenCredential)
        self._book.notices.append(Disconnected(problem, is_final))
        self._book.link_lost()
        if problem.code == _REVOKED:
            self._book.give_everything_up(problem)
        self._turn += 1
        self._failures += 1
        self._alarms.ask(SESSION, later(now, self._back_off_s()))
        return [Note("disconnected", problem.as_record())]

    def _back_off_s(self) -> float:
        """Return how long to wait: twice as long each time, and not in step with other clients."""
        settings = self._settings
        whole = min(settings.dial_again_most_s, settings.dial_again_s * 2.0 ** min(self._failures - 1, 30))
        return whole * (0.5 + int.from_bytes(self._random(2), "big") / (1 << 17))

    # -------------------------------------------------------- time

    def _due(self, now: Instant) -> list[Effect]:
        """Do whatever has come due: dial again, renew, ask again, give a silent broker up."""
        effects: list[Effect] = []
        for whose in self._alarms.due(now):
            if whose == SESSION:
                effects += self._look(now)
            elif whose == RENEWAL:
                effects += self._sent(self._book.renew_everything(now)) if self.is_ready else []
            elif self.is_ready:
                effects += self._sent(self._book.look(whose, now))
        return effects

    def _look(self, now: Instant) -> list[Effect]:
        match self.stage:
            case SessionStage.IDLE:
                return self._dial()
            case SessionStage.AWAITING_GREETING | SessionStage.AWAITING_WELCOME:
                return self._left(NotConnected("the broker did not end the handshake in time"), now)
            case SessionStage.READY:
                return self._look_for_signs_of_life(now)
        return []

    def _look_for_signs_of_life(self, now: Instant) -> list[Effect]:
        """Ask a quiet broker whether it is there, and leave one that is silent for a whole lease.

        Looks are counted, not moments compared: a process that was stopped for
        a while looks at the clock before it reads what has arrived meanwhile.
        """
        if self._silent_looks >= _LOOKS_IN_A_LEASE:
            return self._left(NotConnected("nothing was heard from the broker for a whole lease"), now)
        self._alarms.ask(SESSION, later(now, self._book.lease_s / _LOOKS_IN_A_LEASE))
        was_heard, self._was_heard = self._was_heard, False
        self._silent_looks = 0 if was_heard else self._silent_looks + 1
        # Renewals and their answers are further apart than two looks.
        return self._said(Ping(0)) if self._silent_looks > 1 else []

    # -------------------------------------------------------- small change

    def _goodbye(self, code: str, sentence: str) -> list[Effect]:
        """Return a last word to a broker; whoever has not shown that it is one hears nothing at all."""
        was_verified = self.stage in {SessionStage.AWAITING_WELCOME, SessionStage.READY}
        return self._said(Bye(code, sentence)) if was_verified else []

    def _said(self, message: Message) -> list[Effect]:
        return self._sent([encode(message)])

    def _sent(self, messages: Iterable[bytes]) -> list[Effect]:
        link = self._link
        return [] if link is None else [Send(link, data) for data in messages]

    def _finished(self, effects: list[Effect]) -> list[Effect]:
        """Ask for the next moment, unless the runtime knows of it."""
        wake = self._alarms.to_promise()
        return effects if wake is None else [*effects, WakeAt(wake)]
