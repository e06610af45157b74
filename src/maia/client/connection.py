"""How far is this client from being able to ask for anything, and what does it do about that?

It dials, greets, listens for as long as the broker gives signs of life, and
begins again with the next address when a link ends. What stood is asked for
again after each welcome; what that is, the book knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from maia.client.backoff import LOOKS_IN_A_LEASE, Redialling, SignsOfLife
from maia.client.errors import ClientClosed, NotConnected, WrongBroker, is_passing, told_by_broker
from maia.client.handshake import Handshake
from maia.client.notices import Connected, Disconnected
from maia.client.registry import Book
from maia.client.settings import ClientSettings
from maia.client.timers import SESSION, Alarms, later
from maia.credentials import Principal
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal
from maia.events import Instant
from maia.sessions.challenges import CONNECTION, NotVouchedFor
from maia.wire.codec import decode, encode
from maia.wire.effects import Close, Dial, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.messages import Bye, Challenge, Greeting, Message, Ping, Pong, Show, Welcome

__all__ = ["Connection", "SessionStage"]

_REVOKED: Final = "POLICY-REVOKED"


class SessionStage(Enum):
    """How far the client is from being able to ask for anything."""

    IDLE = "idle"
    DIALLING = "dialling"
    AWAITING_GREETING = "awaiting greeting"
    AWAITING_WELCOME = "awaiting welcome"
    READY = "ready"
    CLOSED = "closed"


class Connection:
    """A client's link to one broker after the other; there is one link at a time, or none."""

    def __init__(
        self,
        settings: ClientSettings,
        handshake: Handshake,
        book: Book,
        alarms: Alarms,
        random: Callable[[int], bytes],
    ) -> None:
        """Begin without a link."""
        self._handshake_s = settings.handshake_s
        self._handshake = handshake
        self._book = book
        self._alarms = alarms
        self._redialling = Redialling(settings, random)
        self._signs = SignsOfLife()
        self._peer: Principal | None = None
        self._last_broker: Principal | None = None
        self.stage = SessionStage.IDLE
        self.link: LinkId | None = None

    @property
    def is_ready(self) -> bool:
        """Say whether a broker has welcomed this client."""
        return self.stage is SessionStage.READY

    # -------------------------------------------------------- a link begins

    def dial(self) -> list[Effect]:
        """Look for a broker at the next address."""
        self.stage = SessionStage.DIALLING
        return [Dial(self._redialling.address)]

    def opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        """Take a link over, and wait for the broker's greeting."""
        if self.stage is not SessionStage.DIALLING:
            return [Close(opened.link, WrongBroker.code)]
        self.link, self._peer = opened.link, opened.peer
        self._handshake.begin()
        self.stage = SessionStage.AWAITING_GREETING
        self._alarms.ask(SESSION, later(now, self._handshake_s))
        return []

    def _greeted(self, greeting: Greeting, now: Instant) -> list[Effect]:
        assert self._peer is not None  # noqa: S101 - a link is open
        answer = self._handshake.answer(greeting, self._peer, now)
        self.stage = SessionStage.AWAITING_WELCOME
        return self.sent(map(encode, answer))

    def _welcomed(self, lease_s: int, now: Instant) -> list[Effect]:
        assert self._peer is not None  # noqa: S101 - a link is open
        self.stage = SessionStage.READY
        self._redialling.succeeded()
        self._book.note(Connected(self._peer))
        is_another, self._last_broker = self._peer != self._last_broker, self._peer
        asking = self._book.ask_for_everything(lease_s, now, is_another_broker=is_another)
        self._look_again(now)
        return [Note("connected", {"broker": str(self._peer)}), *self.sent(asking)]

    # -------------------------------------------------------- a broker speaks

    def received(self, data: bytes, now: Instant) -> list[Effect]:
        """Take a message on; leave a broker that says what it must not."""
        self._signs.heard()
        try:
            return self._answered(decode(data), now)
        except (ProtocolViolation, Refusal) as problem:
            return self._left(problem, now)

    def _answered(self, message: Message, now: Instant) -> list[Effect]:
        match self.stage, message:
            case _, Bye(code=code, message=sentence):
                return self._dismissed(told_by_broker(code, sentence), now)
            case ((SessionStage.AWAITING_WELCOME | SessionStage.READY), Challenge(ref=ref)) if (
                ref == CONNECTION
            ):
                asked = self._handshake.connecting
                self._book.challenged_to_connect(message, asked, is_ready=self.is_ready)
                return []
            case SessionStage.READY, Ping(nonce=nonce):
                return self._said(Pong(nonce))
            case SessionStage.READY, Pong():
                return []
            case SessionStage.READY, _:
                return self.sent(self._book.told(message, now))
            case SessionStage.AWAITING_GREETING, Greeting():
                return self._greeted(message, now)
            case SessionStage.AWAITING_GREETING, Show(statements=statements):
                self._handshake.was_shown(statements)
                return []
            case SessionStage.AWAITING_WELCOME, Welcome(lease_s=lease_s):
                return self._welcomed(lease_s, now)
        raise WrongBroker(f"the broker said `{type(message).__name__}` before its turn")

    # -------------------------------------------------------- a link ends

    def lost(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Begin again, with the next address; what stood will be asked for again."""
        self.link = self._peer = None
        self.stage = SessionStage.IDLE
        is_final = isinstance(problem, Refusal | ProtocolViolation | BrokenCredential)
        self._book.note(Disconnected(problem, is_final))
        self._book.link_lost()
        if problem.code == _REVOKED:
            self._book.give_everything_up(problem)
        self._alarms.ask(SESSION, later(now, self._redialling.failed_s()))
        return [Note("disconnected", problem.as_record())]

    def close(self) -> list[Effect]:
        """Say goodbye; nothing happens after this."""
        effects = self._goodbye("CLOSED", "the client is done")
        if self.link is not None:
            effects.append(Close(self.link, ClientClosed.code))
        self.stage = SessionStage.CLOSED
        self.link = None
        return effects

    def _left(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker, saying why if it did something wrong."""
        is_its_fault = isinstance(problem, ProtocolViolation)
        effects = self._goodbye(problem.code, "the client leaves") if is_its_fault else []
        if self.link is not None:
            effects.append(Close(self.link, problem.code))
        return [*effects, *self.lost(problem, now)]

    def _dismissed(self, told: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker that said goodbye; whoever is not vouched for any more has nothing to wait for."""
        problem = self._book.why_unconnected(told)
        effects = self._left(problem, now)
        if told.code == NotVouchedFor.code and not is_passing(problem.code):
            self._book.give_everything_up(problem)
        return effects

    # -------------------------------------------------------- time passes

    def look(self, now: Instant) -> list[Effect]:
        """Dial again, or give up a broker that takes too long or is silent."""
        match self.stage:
            case SessionStage.IDLE:
                return self.dial()
            case SessionStage.AWAITING_GREETING | SessionStage.AWAITING_WELCOME:
                return self._left(NotConnected("the broker did not end the handshake in time"), now)
            case SessionStage.READY:
                return self._look_for_signs_of_life(now)
        return []

    def _look_for_signs_of_life(self, now: Instant) -> list[Effect]:
        """Ask a quiet broker whether it is there, and leave one that is silent for a whole lease."""
        if self._signs.is_silent:
            return self._left(NotConnected("nothing was heard from the broker for a whole lease"), now)
        self._look_again(now)
        return self._said(Ping(0)) if self._signs.look() else []

    def _look_again(self, now: Instant) -> None:
        self._alarms.ask(SESSION, later(now, self._book.lease_s / LOOKS_IN_A_LEASE))

    # -------------------------------------------------------- what is said

    def sent(self, messages: Iterable[bytes]) -> list[Effect]:
        """Return what sends messages to the broker, if there is a link."""
        link = self.link
        return [] if link is None else [Send(link, data) for data in messages]

    def _said(self, message: Message) -> list[Effect]:
        return self.sent([encode(message)])

    def _goodbye(self, code: str, sentence: str) -> list[Effect]:
        """Return a last word to a broker; whoever has not shown that it is one hears nothing at all."""
        was_verified = self.stage in {SessionStage.AWAITING_WELCOME, SessionStage.READY}
        return self._said(Bye(code, sentence)) if was_verified else []
