"""The client: what happens to it, one input after the other, and what it asks for in return.

    session.handle(Received(link, data), now) -> [Send(...), WakeAt(...), ...]
    session.take_notices() -> [Delivered(...), Taken(...), ...]

It has no clock and no socket. It shows its credentials to nobody who has not
first shown a right to connect to the network (A19), renews what stands before
the lease ends, and asks for all of it again after a reconnection.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import Enum
from itertools import count
from typing import Final, TypeVar, assert_never

from maia.client.asking import message_asking_for
from maia.client.duplicates import SeenFrames
from maia.client.entries import Advertised, Entry, EntryStage, Subscribed
from maia.client.notices import (
    Connected,
    Delivered,
    Disconnected,
    Gone,
    Notice,
    Stands,
    Taken,
    TypeTold,
    Withdrawn,
)
from maia.client.problems import (
    BrokerNotTrusted,
    ClientClosed,
    NotConnected,
    WrongBroker,
    is_passing,
    told_by_broker,
)
from maia.client.settings import ClientSettings
from maia.client.types import KnownVersion
from maia.client.wallet import Wallet
from maia.credentials import (
    Action,
    Principal,
    SigningKey,
    TypeName,
    certificate_from_bytes,
    principal_from_bytes,
)
from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import INSTANT_MAX, Instant
from maia.policy import Request
from maia.predicates import Predicate
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame
from maia.wire.effects import (
    Close,
    Dial,
    DialFailed,
    Effect,
    Input,
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
    Published,
    Subscribe,
    TypeQuery,
    TypeReply,
    Unadvertise,
    Unsubscribe,
    Welcome,
)
from maia.wire.messages import Column as WireColumn
from maia.wire.names import network_to_bytes, type_to_bytes

__all__ = ["ClientSession", "SessionStage"]

_SECOND: Final = 1_000_000
_TYPE_UNKNOWN: Final = "TYPE-UNKNOWN"
_ASK_AGAIN: Final = frozenset({"UNAVAILABLE-LEASE-ENDED", "INPUT-UNKNOWN-REF"})
"""Why something ended that the client still wants: it asks for it again at once."""

_EntryT = TypeVar("_EntryT", Advertised, Subscribed)


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
        self._instance = random(16)
        self._network = network_to_bytes(settings.network)
        self.stage = SessionStage.IDLE
        self._link: LinkId | None = None
        self._peer: Principal | None = None
        self._turn = 0
        self._failures = 0
        self._lease_s = 0
        self._heard_at = Instant(0)
        self._numbers = count(1)
        self._entries: dict[int, Entry] = {}
        self._withdrawals: dict[int, int] = {}
        self._questions: dict[int, TypeQuery] = {}
        self._alarms: list[tuple[int, int]] = []  # moments and references; 0 is the session itself
        self._look_at: Instant | None = None
        self._promised: Instant | None = None
        self._notices: list[Notice] = []

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
        notices, self._notices = self._notices, []
        return notices

    def start(self, now: Instant) -> list[Effect]:
        """Begin to look for a broker."""
        return self._finished(self._dial(), now)

    def advertise(
        self, known: KnownVersion, filter_: Predicate, now: Instant
    ) -> tuple[Advertised, list[Effect]]:
        """Ask to publish events of a type; raise the refusal if no credential speaks for that."""
        return self._ask_first(Advertised(next(self._numbers), known, filter_, self._random(16)), now)

    def subscribe(
        self, known: KnownVersion, filter_: Predicate, now: Instant
    ) -> tuple[Subscribed, list[Effect]]:
        """Ask for events of a type; raise the refusal if no credential speaks for that."""
        entry = Subscribed(next(self._numbers), known, filter_, self._random(16))
        entry.seen = SeenFrames(self._settings.streams)
        return self._ask_first(entry, now)

    def withdraw(self, entry: Entry, now: Instant) -> list[Effect]:
        """Ask to take back what was asked for; `Withdrawn` follows."""
        if entry.ref not in self._entries or entry.stage is EntryStage.WITHDRAWING:
            return []
        if self._link is None or entry.stage is EntryStage.WAITING:
            self._forget(entry)
            self._notices.append(Withdrawn(entry.ref))
            return []
        entry.stage = EntryStage.WITHDRAWING
        return self._finished([self._withdrawal(entry)], now)

    def ask_for_type(self, name: TypeName, now: Instant) -> tuple[int, list[Effect]]:
        """Ask the broker for the definitions of a type version; `TypeTold` follows."""
        number = next(self._numbers)
        self._questions[number] = TypeQuery(number, type_to_bytes(name))
        return number, self._finished(self._said(self._questions[number]) if self.is_ready else [], now)

    def has_room(self, entry: Advertised) -> bool:
        """Say whether another frame may be under way; the application waits otherwise."""
        settings = self._settings
        return (
            entry.stage is EntryStage.STANDS
            and len(entry.under_way) < settings.frames_under_way
            and entry.bytes_under_way < settings.bytes_under_way
        )

    def publish(self, entry: Advertised, rows: int, columns: list[WireColumn], now: Instant) -> list[Effect]:
        """Send one frame, and remember it until the broker has taken it on."""
        sequence = entry.next_sequence
        data = encode(
            Publish(entry.ref, sequence, +now, rows, columns)
        )  # the plus makes an int of an Instant
        entry.next_sequence += 1
        entry.under_way[sequence] = data
        entry.bytes_under_way += len(data)
        if self._link is None or entry.stage is not EntryStage.STANDS:
            return []
        return [Send(self._link, data)]

    def close(self, now: Instant) -> list[Effect]:
        """Say goodbye; nothing happens after this."""
        effects: list[Effect] = []
        if self._link is not None:
            effects = [*self._said(Bye("CLOSED", "the client is done")), Close(self._link, ClientClosed.code)]
        self.stage = SessionStage.CLOSED
        self._link = None
        del now
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
                effects = []
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
        return self._finished([*effects, *self._due(now)], now)

    def _opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        if self.stage is not SessionStage.DIALLING:
            return [Close(opened.link, WrongBroker.code)]
        self._link, self._peer = opened.link, opened.peer
        self.stage = SessionStage.AWAITING_GREETING
        self._look_later(_later(now, self._settings.handshake_s))
        return []

    def _received(self, data: bytes, now: Instant) -> list[Effect]:
        self._heard_at = now
        try:
            return self._answered(decode(data), now)
        except (ProtocolViolation, Refusal) as problem:
            return self._left(problem, now)

    def _answered(self, message: Message, now: Instant) -> list[Effect]:
        match self.stage, message:
            case SessionStage.READY, _:
                return self._told(message, now)
            case _, Bye(code=code, message=sentence):
                return self._left(told_by_broker(code, sentence), now)
            case SessionStage.AWAITING_GREETING, Greeting():
                return self._greeted(message, now)
            case SessionStage.AWAITING_WELCOME, Welcome(lease_s=lease_s):
                return self._welcomed(lease_s, now)
        raise WrongBroker(f"the broker said `{type(message).__name__}` before its turn")

    # -------------------------------------------------------- handshake

    def _greeted(self, greeting: Greeting, now: Instant) -> list[Effect]:
        """Verify the broker's right to connect, and only then show our own."""
        self._check_broker(greeting, now)
        connect = Request(self._key.principal, Action.CONNECT, self._settings.network)
        shown = self._wallet.needed_for(connect, now)
        self.stage = SessionStage.AWAITING_WELCOME
        return self._said(Hello(PROTOCOL_VERSION, self._network, shown, self._instance, None))

    def _check_broker(self, greeting: Greeting, now: Instant) -> None:
        peer, settings = self._peer, self._settings
        assert peer is not None  # noqa: S101 - a link is open
        if greeting.version != PROTOCOL_VERSION or greeting.network != self._network:
            raise WrongBroker(f"whoever answered is no broker of network `{settings.network.name}`")
        if settings.brokers is not None and peer not in settings.brokers:
            raise BrokerNotTrusted(f"`{peer}` is not one of the brokers to talk to")
        try:
            shown = [certificate_from_bytes(data) for data in greeting.credentials]
            self._wallet.check_shown(Request(peer, Action.CONNECT, settings.network), shown, now)
        except MaiaError as problem:
            raise BrokerNotTrusted(
                f"`{peer}` has not shown a right to connect to `{settings.network.name}`: {problem.message}"
            ) from problem

    def _welcomed(self, lease_s: int, now: Instant) -> list[Effect]:
        assert self._peer is not None  # noqa: S101 - a link is open
        self.stage = SessionStage.READY
        self._lease_s = max(1, lease_s)
        self._failures = 0
        self._notices.append(Connected(self._peer))
        self._look_later(_later(now, self._lease_s / 3))
        effects: list[Effect] = [Note("connected", {"broker": str(self._peer)})]
        for question in self._questions.values():
            effects += self._said(question)
        for entry in list(self._entries.values()):
            effects += self._ask(entry, now)
        return effects

    # -------------------------------------------------------- what a broker tells

    def _told(self, message: Message, now: Instant) -> list[Effect]:
        match message:
            case Deliver():
                self._delivered(message)
            case Published(ref=ref, sequence=sequence, refused_rows=refused_rows):
                self._taken(ref, sequence, refused_rows)
            case Accepted(id=number, until=until):
                return self._accepted(number, until, now)
            case Failed(id=number, code=code, message=sentence):
                return self._failed(number, code, sentence, now)
            case Ended(ref=ref, code=code, message=sentence):
                return self._ended(ref, code, sentence, now)
            case Ping(nonce=nonce):
                return self._said(Pong(nonce))
            case Pong():
                pass
            case TypeReply(id=number, definitions=definitions):
                if self._questions.pop(number, None) is not None:
                    self._notices.append(TypeTold(number, tuple(definitions)))
            case Bye(code=code, message=sentence):
                return self._left(told_by_broker(code, sentence), now)
            case _:
                raise WrongBroker(f"`{type(message).__name__}` is nothing that a client is told")
        return []

    def _delivered(self, message: Deliver) -> None:
        wanted = [entry for ref in message.refs if isinstance(entry := self._entries.get(ref), Subscribed)]
        fresh = [
            entry
            for entry in wanted
            if entry.stage is not EntryStage.WITHDRAWING
            and entry.seen.is_new(message.publisher, message.stream, message.sequence)
        ]
        if not fresh:
            return
        version = fresh[0].known.event_type
        if any(entry.known.event_type.id != version.id for entry in fresh):
            raise WrongBroker("one delivery was for subscriptions to different types")
        self._notices.append(
            Delivered(
                tuple(entry.ref for entry in fresh),
                principal_from_bytes(message.publisher),
                message.stream,
                message.sequence,
                Instant(message.published_at),
                columns_to_frame(message.columns, message.rows, version.kinds),
            )
        )

    def _taken(self, ref: int, sequence: int, refused_rows: int) -> None:
        entry = self._entries.get(ref)
        if not isinstance(entry, Advertised):
            return
        under_way = entry.under_way
        while under_way and (first := next(iter(under_way))) <= sequence:
            entry.bytes_under_way -= len(under_way.pop(first))
        self._notices.append(Taken(ref, sequence, refused_rows))

    def _accepted(self, number: int, until: Instant | int | None, now: Instant) -> list[Effect]:
        withdrawn = self._withdrawals.pop(number, None)
        if withdrawn is not None:
            self._end_withdrawal(withdrawn)
            return []
        entry = self._entries.get(number)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        stood = entry.stage is EntryStage.STANDS
        entry.stage, entry.was_accepted, entry.is_renewing = EntryStage.STANDS, True, False
        entry.hands_over, entry.failures = False, 0
        self._look_at_entry(entry, _later(now, self._lease_s / 2))
        if stood:
            return []
        self._notices.append(Stands(entry.ref, None if until is None else Instant(until)))
        if self._link is None or not isinstance(entry, Advertised):
            return []
        # What the last broker did not answer for goes out again under its old numbers.
        return [Send(self._link, data) for data in entry.under_way.values()]

    def _failed(self, number: int, code: str, sentence: str, now: Instant) -> list[Effect]:
        withdrawn = self._withdrawals.pop(number, None)
        if withdrawn is not None:  # it had ended by itself
            self._end_withdrawal(withdrawn)
            return []
        entry = self._entries.get(number)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        if code == _TYPE_UNKNOWN and not entry.hands_over:
            entry.hands_over = True
            return self._ask(entry, now)
        if is_passing(code) and entry.was_accepted:
            return self._ask_later(entry, now)
        stood = entry.stage is EntryStage.STANDS
        self._give_up(entry, told_by_broker(code, sentence))
        return [self._withdrawal(entry)] if stood else []

    def _ended(self, ref: int, code: str, sentence: str, now: Instant) -> list[Effect]:
        entry = self._entries.get(ref)
        if entry is None or entry.stage is EntryStage.WITHDRAWING:
            return []
        if code in _ASK_AGAIN or is_passing(code):
            # Frames that were on their way when it ended are answered like this too; one request is enough.
            return [] if entry.stage is EntryStage.ASKED else self._ask(entry, now)
        self._give_up(entry, told_by_broker(code, sentence))
        return []

    # -------------------------------------------------------- asking

    def _ask_first(self, entry: _EntryT, now: Instant) -> tuple[_EntryT, list[Effect]]:
        message = self._message_asking_for(entry, now)  # raises before anything is remembered
        self._entries[entry.ref] = entry
        if not self.is_ready:
            return entry, []
        entry.stage = EntryStage.ASKED
        return entry, self._finished(self._said(message), now)

    def _ask(self, entry: Entry, now: Instant) -> list[Effect]:
        try:
            message = self._message_asking_for(entry, now)
        except MaiaError as problem:  # a credential has expired meanwhile, for instance
            self._give_up(entry, problem)
            return []
        entry.stage = EntryStage.ASKED
        return self._said(message)

    def _renew(self, entry: Entry, now: Instant) -> list[Effect]:
        effects = self._ask(entry, now)
        if effects:
            entry.stage, entry.is_renewing = EntryStage.STANDS, True
        return effects

    def _ask_later(self, entry: Entry, now: Instant) -> list[Effect]:
        if not entry.is_renewing:
            entry.stage = EntryStage.WAITING
        entry.failures += 1
        wait_s = min(self._lease_s / 4, self._settings.dial_again_s * 2.0 ** min(entry.failures, 10))
        self._look_at_entry(entry, _later(now, wait_s))
        return []

    def _message_asking_for(self, entry: Entry, now: Instant) -> Advertise | Subscribe:
        return message_asking_for(
            entry,
            key=self._key,
            network=self._settings.network,
            wallet=self._wallet,
            nonce=self._random(16),
            now=now,
        )

    def _withdrawal(self, entry: Entry) -> Effect:
        number = next(self._numbers)
        self._withdrawals[number] = entry.ref
        kind = Unadvertise if isinstance(entry, Advertised) else Unsubscribe
        (effect,) = self._said(kind(number, entry.ref))
        return effect

    def _end_withdrawal(self, ref: int) -> None:
        entry = self._entries.get(ref)
        if entry is not None:
            self._forget(entry)
            self._notices.append(Withdrawn(ref))

    def _give_up(self, entry: Entry, problem: MaiaError) -> None:
        self._forget(entry)
        self._notices.append(Gone(entry.ref, problem))

    def _forget(self, entry: Entry) -> None:
        self._entries.pop(entry.ref, None)
        entry.look_at = None

    # -------------------------------------------------------- links that end, and new ones

    def _dial(self) -> list[Effect]:
        self.stage = SessionStage.DIALLING
        addresses = self._settings.addresses
        return [Dial(addresses[self._turn % len(addresses)])]

    def _left(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker, saying why unless it was the one to leave."""
        effects: list[Effect] = []
        if self._link is not None:
            if isinstance(problem, ProtocolViolation):
                effects += self._said(Bye(problem.code, "the client leaves"))
            effects.append(Close(self._link, problem.code))
        return [*effects, *self._lost(problem, now)]

    def _lost(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Begin again somewhere else; what stood will be asked for again."""
        is_final = isinstance(problem, Refusal | ProtocolViolation)
        self._link = self._peer = None
        self.stage = SessionStage.IDLE
        self._notices.append(Disconnected(problem, is_final))
        self._withdrawals.clear()
        for entry in list(self._entries.values()):
            if entry.stage is EntryStage.WITHDRAWING:  # it went with the link
                self._end_withdrawal(entry.ref)
            entry.stage, entry.is_renewing, entry.hands_over = EntryStage.WAITING, False, True
            entry.look_at = None
        self._turn += 1
        self._failures += 1
        self._look_later(_later(now, self._back_off_s()))
        return [Note("disconnected", problem.as_record())]

    def _back_off_s(self) -> float:
        settings = self._settings
        whole = min(settings.dial_again_most_s, settings.dial_again_s * 2.0 ** min(self._failures - 1, 30))
        return whole * (0.5 + int.from_bytes(self._random(2), "big") / (1 << 17))

    # -------------------------------------------------------- time

    def _due(self, now: Instant) -> list[Effect]:
        """Do whatever has come due: dial again, renew, ask again, give a silent broker up."""
        effects: list[Effect] = []
        if self._promised is not None and self._promised <= now:
            self._promised = None
        while self._alarms and self._alarms[0][0] <= now:
            at, ref = heapq.heappop(self._alarms)
            if ref == 0 and self._look_at == at:
                self._look_at = None
                effects += self._look_at_session(now)
            entry = self._entries.get(ref)
            if entry is not None and entry.look_at == at:
                entry.look_at = None
                effects += self._look(entry, now)
        return effects

    def _look_at_session(self, now: Instant) -> list[Effect]:
        match self.stage:
            case SessionStage.IDLE:
                return self._dial()
            case SessionStage.AWAITING_GREETING | SessionStage.AWAITING_WELCOME:
                return self._left(NotConnected("the broker did not end the handshake in time"), now)
            case SessionStage.READY if _later(self._heard_at, self._lease_s) <= now:
                return self._left(NotConnected("nothing was heard from the broker for a whole lease"), now)
            case SessionStage.READY:
                self._look_later(_later(now, self._lease_s / 3))
                is_quiet = _later(self._heard_at, self._lease_s / 3) <= now
                return self._said(Ping(0)) if is_quiet else []
        return []

    def _look(self, entry: Entry, now: Instant) -> list[Effect]:
        if not self.is_ready or entry.stage is EntryStage.WITHDRAWING:
            return []
        return self._renew(entry, now) if entry.stage is EntryStage.STANDS else self._ask(entry, now)

    def _look_later(self, at: Instant) -> None:
        self._look_at = at
        heapq.heappush(self._alarms, (at, 0))

    def _look_at_entry(self, entry: Entry, at: Instant) -> None:
        entry.look_at = at
        heapq.heappush(self._alarms, (at, entry.ref))

    # -------------------------------------------------------- small change

    def _said(self, message: Message) -> list[Effect]:
        return [] if self._link is None else [Send(self._link, encode(message))]

    def _finished(self, effects: list[Effect], now: Instant) -> list[Effect]:
        """Ask for the next moment, unless the runtime knows of it."""
        del now
        if self._alarms and (self._promised is None or self._alarms[0][0] < self._promised):
            self._promised = Instant(self._alarms[0][0])
            return [*effects, WakeAt(self._promised)]
        return effects


def _later(now: Instant, seconds: float) -> Instant:
    return Instant(min(INSTANT_MAX, now + int(seconds * _SECOND)))
