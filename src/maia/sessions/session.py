"""How does a link between two nodes begin, live and end?

    we accepted                                  we dialled
    ------------------------------------------   ------------------------------------------------
    open   -> Show, Greeting, await Hello        open     -> await Greeting
    Hello  -> admit, Welcome, ready              Greeting -> admit, Show, Hello, await Welcome
                                                 Welcome  -> ready

The link has proved the peer's key before. Each side then admits the peer to this
very network, by the certificates and validity statements that the peer shows,
before it sends or believes anything else (A11, A12). The side that dials shows
its certificates only to a peer that has shown its own (A19). Where a right to
connect must be checked each time, the hello waits for the answers to a
challenge. A message out of turn ends the link.

Brokers, clients, key servers, members of key groups and readers of history
all speak this protocol: each is an `Endpoint` that says what it shows and whom
it admits. A ready link is looked after three times in a lease (`Session.ping`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, TypeVar

from maia.credentials import (
    NetworkName,
    Principal,
    SignedCertificate,
    SignedStatement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.credentials.identity import VerifiedIdentity
from maia.errors import MaiaError, ProtocolViolation, Unavailable
from maia.events import Instant
from maia.policy import GrantTestedOnce
from maia.sessions.challenges import Checked
from maia.validity import Monitor, VouchedFor, named_testers
from maia.wire.codec import decode, encode
from maia.wire.effects import Close, Effect, LinkId, Send
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Bye,
    Challenge,
    Greeting,
    Hello,
    Identify,
    Message,
    Ping,
    Pong,
    Show,
    Vouched,
    Welcome,
)
from maia.wire.names import network_to_bytes

ROUNDS_IN_A_LEASE: Final = 3
"""How often a ready link is looked after while a lease lasts."""
_ROUNDS_UNASKED: Final = 2
_ROUNDS_SILENT: Final = 4
"""A silent peer is asked in the third round and again in the fourth, and given up in the fifth."""
_STATEMENTS_SHOWN_MAX: Final = 64
_PING: Final = encode(Ping(0))
"""As nodes of ours ask; a message has one form, so the bytes say what it is."""
_PONG: Final = encode(Pong(0))


class PeerSilent(Unavailable):
    """The peer sent nothing for a whole lease."""

    code = "UNAVAILABLE-PEER-SILENT"


class Established:
    """Both sides have proved their right to connect: the session has become ready."""


class Stage(Enum):
    """How far a session has come."""

    AWAITING_GREETING = "awaiting greeting"
    AWAITING_HELLO = "awaiting hello"
    AWAITING_WELCOME = "awaiting welcome"
    READY = "ready"
    CLOSING = "closing"


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How much a node takes from a peer."""

    bytes_before_welcome: int = 512 << 10
    """What a peer may send, in all its messages, before it is admitted."""
    statements: int = 64
    """Statements of a peer that are held until it shows certificates that they are about; the newest."""
    statement_bytes: int = 1 << 20


@dataclass(slots=True)
class Session:
    """One peer on one link: how far the handshake has come, and what the peer has shown."""

    id: LinkId
    peer: Principal
    dialled: str | None
    """The address that we dialled; None if the peer dialled us."""
    stage: Stage
    opened_at: Instant
    heard_at: Instant
    instance: bytes = b""
    """Tells the peer's process from others that hold its key."""
    address: str | None = None
    """Where the peer can be dialled, if it is a broker."""
    lease_s: int = 0
    """For how long the peer that welcomed us believes a silent client to be there."""
    shown: tuple[bytes, ...] = field(default=(), repr=False)
    """The certificates that the peer has shown."""
    statements: list[bytes] = field(default_factory=list, repr=False)
    """The validity statements that the peer has shown and that were not taken in yet."""
    received_bytes: int = 0
    """How many bytes the peer has sent before its welcome."""
    silent_rounds: int = 0
    identity: VerifiedIdentity | None = None
    """The peer's identity statement in force, as this node has verified it; its attributes act now."""
    statement: bytes = field(default=b"", repr=False)
    """The short form of that statement, in which it travels with the peer's frames."""
    ends_with_identity: bool = False
    """Whether the link was opened by a statement, and lasts as long as one is in force."""

    @property
    def is_ready(self) -> bool:
        """Return whether both sides have proved their right to connect."""
        return self.stage is Stage.READY

    def hold(self, statements: Iterable[bytes], limits: SessionLimits) -> None:
        """Hold statements that the peer shows; raise for what is none, and hold nothing of it."""
        shown = tuple(statements)
        for data in shown:
            statement_from_bytes(data)  # the bytes are held: what was read takes many times the memory
        self.statements += shown
        del self.statements[: -limits.statements]
        while sum(map(len, self.statements)) > limits.statement_bytes:
            del self.statements[0]

    def take_statements(self, is_wanted: Callable[[Principal], bool]) -> list[SignedStatement]:
        """Return the held statements by issuers that are wanted, and hold them no more."""
        read = [(data, statement_from_bytes(data)) for data in self.statements]
        self.statements = [data for data, signed in read if not is_wanted(signed.statement.by)]
        return [signed for _, signed in read if is_wanted(signed.statement.by)]

    def ping(self) -> list[Effect]:
        """Count a round: nothing, a ping to a peer that has been silent, or raise `PeerSilent`.

        Rounds are counted and not moments compared: a process that was stopped for a while reads
        the clock before it reads what has arrived meanwhile.
        """
        self.silent_rounds += 1
        if self.silent_rounds <= _ROUNDS_UNASKED:
            return []
        if self.silent_rounds > _ROUNDS_SILENT:
            raise PeerSilent("the peer sent nothing for a whole lease")
        return [Send(self.id, _PING)]


_SessionT = TypeVar("_SessionT", bound=Session)


class Endpoint(ABC, Generic[_SessionT]):
    """One node of one network, as its peers meet it."""

    def __init__(
        self,
        network: NetworkName,
        *,
        instance: bytes,
        address: str | None = None,
        lease_s: int = 0,
        limits: SessionLimits | None = None,
    ) -> None:
        """`instance` tells this process from others; brokers have an `address`, accepting nodes a lease."""
        self.network, self.instance = network, instance
        self.session_limits = SessionLimits() if limits is None else limits
        self._network_bytes = network_to_bytes(network)
        self._address, self._lease_s = address, lease_s

    # -------------------------------------------------------- what each kind of node decides

    @abstractmethod
    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return the certificates to show to a peer; a dialling node does so after it has admitted it."""

    @abstractmethod
    def own_statements(self, now: Instant) -> list[bytes]:
        """Return the validity statements that these certificates demand."""

    @abstractmethod
    def admit(self, session: _SessionT, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Raise unless what the peer has shown gives it the right to connect; `vouched` are its answers."""

    def challenge(self, session: _SessionT, hello: Hello, now: Instant) -> list[Effect]:
        """Send a peer that cannot be admitted yet the challenge by which it could be; nothing if none."""
        del session, hello, now
        return []

    def redeem(self, session: _SessionT, message: Vouched, now: Instant) -> Checked[object] | None:
        """Return what became of a challenge that this message answers."""
        del session, message, now
        return None

    def challenged(self, session: _SessionT, message: Challenge) -> list[Effect]:
        """Have questions about our own right to connect answered; the peer waits with its welcome."""
        del session
        raise ProtocolViolation(
            "PROTOCOL-OUT-OF-TURN", f"`{type(message).__name__}` asks for answers that this node cannot get"
        )

    def identified(self, session: _SessionT, message: Identify, now: Instant) -> list[Effect]:
        """Take the identity statement that a peer shows before it is admitted."""
        del session, now
        raise ProtocolViolation(
            "PROTOCOL-OUT-OF-TURN",
            f"`{type(message).__name__}` is nothing that this node takes in a handshake",
        )

    # -------------------------------------------------------- the protocol

    def open(self, session: _SessionT, now: Instant) -> list[Effect]:
        """Greet a peer that has dialled us; a peer that we have dialled greets first."""
        if session.stage is not Stage.AWAITING_HELLO:
            return []
        shown = self.own_credentials(now)
        greeting = Greeting(PROTOCOL_VERSION, self._network_bytes, shown, self.instance)
        return self._introduced(session, greeting, now)

    def receive(
        self, session: _SessionT, data: bytes, now: Instant
    ) -> tuple[list[Effect], Message | Established | None]:
        """Take a message of the peer; return what the protocol answers, and what is left to the node.

        Left are that the session is `Established`, a `Bye`, and what comes on a ready link.
        """
        session.heard_at, session.silent_rounds = now, 0
        if session.stage is Stage.READY:
            if data == _PING:
                return [Send(session.id, _PONG)], None
            if data == _PONG:
                return [], None
            message = decode(data)
            if type(message) is Ping:
                return [Send(session.id, encode(Pong(message.nonce)))], None
            return [], None if type(message) is Pong else message
        session.received_bytes += len(data)
        if session.received_bytes > self.session_limits.bytes_before_welcome:
            raise ProtocolViolation("PROTOCOL-BEYOND-SHARE", "more was sent than a handshake takes")
        return self._handshake(session, decode(data), now)

    def _handshake(
        self, session: _SessionT, message: Message, now: Instant
    ) -> tuple[list[Effect], Message | Established | None]:
        match session.stage, message:
            case _, Bye():
                return [], message
            case Stage.AWAITING_GREETING | Stage.AWAITING_HELLO, Show(certificates=[], statements=shown):
                session.hold(shown, self.session_limits)
                return [], None
            case Stage.AWAITING_HELLO | Stage.AWAITING_WELCOME, Identify():
                return self.identified(session, message, now), None
            case Stage.AWAITING_GREETING, Greeting():
                self._introduce(session, message)
                admitted = self.admit(session, None, now)
                hello = Hello(
                    PROTOCOL_VERSION,
                    self._network_bytes,
                    self.own_credentials(now),
                    self.instance,
                    self._address,
                )
                session.stage = Stage.AWAITING_WELCOME
                return [*admitted, *self._introduced(session, hello, now)], None
            case Stage.AWAITING_HELLO, Hello():
                self._introduce(session, message)
                return self._admitted(session, message, None, now)
            case Stage.AWAITING_HELLO, Vouched():
                checked = self.redeem(session, message, now)
                if checked is None or not isinstance(checked.asked.waits, Hello):
                    raise ProtocolViolation(
                        "PROTOCOL-OUT-OF-TURN", "no question was asked about your right to connect"
                    )
                return self._admitted(session, checked.asked.waits, checked, now)
            case Stage.AWAITING_WELCOME, Challenge():
                return self.challenged(session, message), None
            case Stage.AWAITING_WELCOME, Welcome(lease_s=lease_s):
                session.stage, session.lease_s = Stage.READY, lease_s
                return [], Established()
        raise ProtocolViolation(
            "PROTOCOL-OUT-OF-TURN",
            f"`{type(message).__name__}` was not expected on a link that is {session.stage.value}",
        )

    def _introduce(self, session: _SessionT, shown: Greeting | Hello) -> None:
        if shown.version != PROTOCOL_VERSION:
            raise ProtocolViolation(
                "PROTOCOL-VERSION", f"version `{shown.version}` of the protocol is not spoken here"
            )
        if shown.network != self._network_bytes:
            raise ProtocolViolation(
                "PROTOCOL-WRONG-NETWORK",
                f"the two sides are of different networks, this one of `{self.network.name}`: "
                "compare the names and the coordinators",
            )
        session.shown, session.instance = tuple(shown.credentials), shown.instance
        session.address = shown.address if isinstance(shown, Hello) else session.dialled

    def _admitted(
        self, session: _SessionT, hello: Hello, checked: Checked[object] | None, now: Instant
    ) -> tuple[list[Effect], Message | Established | None]:
        try:
            admitted = self.admit(session, None if checked is None else checked.vouched, now)
        except GrantTestedOnce as problem:
            if checked is not None:
                raise checked.missing or problem from None
            challenged = self.challenge(session, hello, now)
            if not challenged:
                raise
            return challenged, None
        session.stage = Stage.READY
        return [*admitted, Send(session.id, encode(Welcome(self._lease_s)))], Established()

    def _introduced(self, session: _SessionT, message: Greeting | Hello, now: Instant) -> list[Effect]:
        statements = self.own_statements(now)
        sent: list[Effect] = [Send(session.id, encode(Show(0, [], statements)))] if statements else []
        return [*sent, Send(session.id, encode(message))]


def statements_for(own: Iterable[SignedCertificate], monitor: Monitor | None, now: Instant) -> list[bytes]:
    """Return the statements that our own certificates demand, unless they are too long to be shown."""
    if monitor is None:
        return []
    found = [
        statement_to_bytes(signed)
        for by in sorted(named_testers(own), key=lambda one: one.key)
        for signed in monitor.statements(by, now)
    ]
    is_too_long = len(found) > _STATEMENTS_SHOWN_MAX or sum(map(len, found)) > HANDSHAKE_BYTES_MAX // 2
    return [] if is_too_long else found


def goodbye(link: LinkId, problem: MaiaError) -> list[Effect]:
    """Close a link, and tell the peer why."""
    return [Send(link, encode(Bye(problem.code, problem.message))), Close(link, problem.code)]
