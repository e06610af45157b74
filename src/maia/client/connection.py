"""How far is this client from being able to ask for anything, and what does it do about that?

It dials, shakes hands (`maia.sessions.session`), listens for as long as the
broker gives signs of life, and begins again with the next address when a link
ends. It shows its certificates only to a peer that has shown that it was made a
broker of the network (A19), and only those for its own right to connect. What stood
is asked for again after each welcome (`requests.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from maia.back_off import doubled, jittered
from maia.client.alarms import IDENTITY, SESSION, Alarms
from maia.client.errors import ClientClosed, ConnectionRefused, ElsewhereServed, is_passing, told_by_broker
from maia.client.notices import Connected, Disconnected
from maia.client.requests import Requests
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import Action, Principal, certificate_from_bytes
from maia.credentials.identity import SignedIdentity, VerifiedIdentity, pack_identity
from maia.errors import BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import Instant, just_after, seconds_after
from maia.policy import Request
from maia.sessions.challenges import CONNECTION, NotVouchedFor
from maia.sessions.session import ROUNDS_IN_A_LEASE, Endpoint, Established, PeerSilent, Session, Stage
from maia.validity import VouchedFor
from maia.wire.codec import encode
from maia.wire.effects import Close, Dial, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import Bye, Challenge, Deliver, Identify, Message, Published, ServedElsewhere

# The wait before a client dials again.


_ADDRESSES_MAX: Final = 64


class Redialling:
    """Which address comes next, and after how long."""

    __slots__ = ("_failures", "_process", "_random", "_settings", "_turn", "addresses")

    def __init__(self, settings: ClientSettings, random: Callable[[int], bytes]) -> None:
        self._settings, self._random, self.addresses = settings, random, settings.addresses
        self._turn = self._failures = 0
        self._process: str | None = None

    @property
    def address(self) -> str:
        """Return the address whose turn it is."""
        addresses = self.addresses
        if self._process is not None:
            addresses = (self._process, *addresses)
        return addresses[self._turn % len(addresses)]

    def also(self, addresses: Iterable[str]) -> None:
        """Try these, too: brokers have moved there."""
        self.addresses = tuple(dict.fromkeys((*self.addresses, *addresses)))[:_ADDRESSES_MAX]

    def go_to(self, address: str) -> bool:
        """Dial this process of a broker next; say no if entries have led to another one before."""
        if self._process not in {None, address}:
            return False
        self._process, self._turn = address, -1
        return True

    def succeeded(self) -> None:
        """Wait for a short time after the next failure."""
        self._failures = 0

    def failed_s(self) -> float:
        """Go on to the next address; return how many seconds to wait before it is dialled.

        Twice as long each time, and not in step with other clients.
        """
        self._turn += 1
        self._failures += 1
        settings = self._settings
        whole = doubled(settings.dial_again_s, self._failures, most=settings.dial_again_most_s)
        return jittered(whole, self._random)


_REVOKED: Final = "POLICY-REVOKED"


class Connection(Endpoint[Session]):
    """A client's link to one broker after the other; there is one link at a time, or none."""

    def __init__(
        self,
        principal: Principal,
        settings: ClientSettings,
        wallet: Wallet,
        requests: Requests,
        alarms: Alarms,
        random: Callable[[int], bytes],
    ) -> None:
        """Begin without a link."""
        super().__init__(settings.network, instance=random(16))
        self._settings, self._wallet, self._requests, self._alarms = settings, wallet, requests, alarms
        self._redialling = Redialling(settings, random)
        self._connecting = Request(principal, Action.CONNECT, settings.network)
        self._session: Session | None = None
        self._last_broker: Principal | None = None
        self._identity, self._is_identified = settings.identity, False
        self.is_dialling = self.is_closed = False

    @property
    def link(self) -> LinkId | None:
        """Return the present link, if there is one."""
        return None if self._session is None else self._session.id

    @property
    def is_ready(self) -> bool:
        """Return whether a broker has welcomed this client."""
        return self._session is not None and self._session.is_ready

    def know(self, addresses: Iterable[str]) -> None:
        """Look for a broker at these addresses, too."""
        self._redialling.also(addresses)

    # -------------------------------------------------------- a link begins

    def dial(self) -> list[Effect]:
        """Look for a broker at the next address."""
        self.is_dialling = True
        return [Dial(self._redialling.address)]

    def opened(self, opened: LinkOpened, now: Instant) -> list[Effect]:
        """Take a link over, and wait for the broker's greeting."""
        if not self.is_dialling:
            return [Close(opened.link, "PROTOCOL-WRONG-BROKER")]
        self.is_dialling = False
        self._session = Session(
            opened.link, opened.peer, opened.dialled, Stage.AWAITING_GREETING, opened_at=now, heard_at=now
        )
        self._hold_identity_of_broker(opened.identity)
        # By a statement link the broker knows the client's statement already.
        self._is_identified = opened.identity is not None
        self._alarms.ask(SESSION, seconds_after(now, self._settings.handshake_s))
        return []

    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return the certificates that speak for the right to connect; raise if there are none."""
        return self._wallet.needed_for(self._connecting, now)

    def own_statements(self, now: Instant) -> list[bytes]:
        """Return the statements that these demand."""
        statements = self._wallet.statements_for(now, self.own_credentials(now))
        # What is too long to be shown now was no use: the broker knows such statements by itself, or never.
        return statements if sum(map(len, statements)) < HANDSHAKE_BYTES_MAX // 2 else []

    def admit(self, session: Session, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Verify that the peer is a broker of the network, and one of those to talk to (C16)."""
        del vouched
        settings, peer = self._settings, session.peer
        if settings.brokers is not None and peer not in settings.brokers:
            raise Refusal("REFUSED-BROKER-NOT-TRUSTED", f"`{peer}` is not one of the brokers to talk to")
        try:
            shown = [certificate_from_bytes(data) for data in session.shown]
            asked = Request(peer, Action.CONNECT, settings.network)
            statements = session.take_statements(lambda _: True)
            self._wallet.check_broker(asked, shown, statements, now, brokers_of=settings.brokers_of)
        except MaiaError as problem:
            raise Refusal(
                "REFUSED-BROKER-NOT-TRUSTED",
                f"`{peer}` has not shown that it is a broker of `{settings.network.name}`: {problem.message}",
            ) from problem
        return []

    def challenged(self, session: Session, message: Challenge) -> list[Effect]:
        """Have the application get answers about the client's own right to connect."""
        if message.ref != CONNECTION:
            return super().challenged(session, message)
        self._requests.challenged_to_connect(message, self._connecting)
        return []

    def _ready(self, session: Session, now: Instant) -> list[Effect]:
        self._redialling.succeeded()
        self._requests.notices.append(Connected(session.peer))
        is_another = self._last_broker not in {None, session.peer}
        self._last_broker = session.peer
        is_open = self._wallet.is_entitled(
            session.peer, Action.SERVE, self._settings.network, session.shown, now
        )
        self._requests.meet_broker(session.peer, is_open=is_open)
        asking = self._requests.ask_for_everything(session.lease_s, now, is_another_broker=is_another)
        if self._identity is not None and not self._is_identified:
            # First: what is asked for next may depend on it.
            asking = [*self.hold_identity(self._identity, self._requests.next_number()), *asking]
        self._look_again(now)
        return [Note("connected", {"broker": str(session.peer)}), *self.sent(asking)]

    # -------------------------------------------------------- identity statements

    def hold_identity(self, identity: SignedIdentity, number: int) -> list[bytes]:
        """Show this statement from now on; return what shows it on the present link, if there is one."""
        self._identity, self._is_identified = identity, self.is_ready
        return self._requests.show(Identify(number, pack_identity(identity)))

    def _hold_identity_of_broker(self, identity: VerifiedIdentity | None) -> None:
        assert self._session is not None  # noqa: S101 - it is about the peer of the present link
        self._session.identity = identity
        if identity is None:
            self._alarms.forget(IDENTITY)
        else:
            self._session.ends_with_identity = True
            self._alarms.ask(IDENTITY, just_after(identity.statement.not_after))

    def _identified(self, session: Session, message: Identify, now: Instant) -> list[Effect]:
        """Take a renewed statement of the broker; a bad one changes nothing, and the old one expires."""
        trust = self._settings.trust
        if trust is None or not session.ends_with_identity:
            return []
        try:
            self._hold_identity_of_broker(trust.verified(message.statement, session.peer, now))
        except MaiaError as problem:
            return [Note("identity-refused", {"broker": str(session.peer), **problem.as_record()})]
        return []

    def broker_expired(self, now: Instant) -> list[Effect]:
        """Leave a broker whose identity statement has expired; the next link is opened with a new one."""
        if self._session is None:
            return []
        return self._left(
            BrokenCredential(
                "CREDENTIAL-IDENTITY-EXPIRED", "the identity statement of the broker has expired"
            ),
            now,
        )

    # -------------------------------------------------------- a broker speaks

    def received(self, data: bytes, now: Instant) -> list[Effect]:
        """Take a message on; leave a broker that sends what it must not."""
        assert self._session is not None  # noqa: S101 - it came on its link
        try:
            effects, message = self.receive(self._session, data, now)
            if type(message) is Deliver or type(message) is Published:  # most are, and need no answer
                self._requests.told(message, now)
                return effects
            return [*effects, *self._answered(self._session, message, now)]
        except MaiaError as problem:
            return self._left(problem, now)

    def _answered(
        self, session: Session, message: Message | Established | None, now: Instant
    ) -> list[Effect]:
        match message:
            case None:
                return []
            case Established():
                return self._ready(session, now)
            case Bye(code=code, message=sentence):
                return self._dismissed(told_by_broker(code, sentence), now)
            case Challenge(ref=ref) if ref == CONNECTION:
                return self.challenged(session, message)
            case Identify():
                return self._identified(session, message, now)
            case ServedElsewhere(id=ref, address=address) if self._was_accepted(
                ref
            ) and self._redialling.go_to(address):
                # Its process was away, and the shared address led to another one: all of this link goes back.
                return self._left(ElsewhereServed(address), now)
            case _:
                return self.sent(self._requests.told(message, now))

    def _was_accepted(self, ref: int) -> bool:
        """Return whether a broker has accepted an entry, on this link or on one before."""
        entry = self._requests.find(ref)
        return entry is not None and entry.was_accepted

    # -------------------------------------------------------- a link ends

    def lost(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Begin again, with the next address; what stood will be asked for again."""
        self._session, self.is_dialling = None, False
        self._alarms.forget(IDENTITY)
        is_final = isinstance(problem, Refusal | ProtocolViolation | BrokenCredential)
        self._requests.notices.append(Disconnected(problem, is_final))
        self._requests.link_lost()
        if problem.code == _REVOKED:
            self._requests.give_everything_up(problem)
        self._alarms.ask(SESSION, seconds_after(now, self._redialling.failed_s()))
        return [Note("disconnected", problem.as_record())]

    def close(self) -> list[Effect]:
        """Say goodbye; nothing happens after this."""
        effects = self._hung_up("CLOSED", "the client is done", ClientClosed.code)
        self._session, self.is_closed = None, True
        return effects

    def _left(self, problem: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker, saying why if it did something wrong."""
        if not self.is_ready and isinstance(problem, Refusal) and problem.code.startswith("POLICY-"):
            network = self._settings.network.name
            said = f"you may not connect to the network `{network}`: {problem.message}"
            problem = ConnectionRefused(problem.code, said)
        sentence = "the client leaves" if isinstance(problem, ProtocolViolation) else None
        return [*self._hung_up(problem.code, sentence, problem.code), *self.lost(problem, now)]

    def _hung_up(self, code: str, sentence: str | None, closing: str) -> list[Effect]:
        """Close the link; only a peer that has shown that it is a broker gets a reason."""
        session = self._session
        if session is None:
            return []
        was_verified = session.stage is not Stage.AWAITING_GREETING
        said = [encode(Bye(code, sentence))] if was_verified and sentence is not None else []
        return [*self.sent(said), Close(session.id, closing)]

    def _dismissed(self, told: MaiaError, now: Instant) -> list[Effect]:
        """Leave a broker that said goodbye; a client that is not vouched for has nothing to wait for."""
        problem = self._requests.why_unconnected(told)
        effects = self._left(problem, now)
        if told.code == NotVouchedFor.code and not is_passing(problem.code):
            self._requests.give_everything_up(problem)
        return effects

    # -------------------------------------------------------- time passes

    def look(self, now: Instant) -> list[Effect]:
        """Dial again, ping a quiet broker, or give up one that takes too long or is silent."""
        if self._session is None:
            if self.is_dialling or self.is_closed:
                return []
            if self._identity is not None and self._identity.statement.not_after < now:
                # A broker would end the link: one is opened again when there is a new statement.
                problem = "your identity statement has expired; get a new one from your provider"
                return self.lost(BrokenCredential("CREDENTIAL-IDENTITY-EXPIRED", problem), now)
            return self.dial()
        if not self._session.is_ready:
            return self._left(
                Unavailable("UNAVAILABLE-NOT-CONNECTED", "the broker did not end the handshake in time"), now
            )
        try:
            pinged = self._session.ping()
        except PeerSilent:
            return self._left(
                Unavailable("UNAVAILABLE-NOT-CONNECTED", "the broker sent nothing for a whole lease"), now
            )
        self._look_again(now)
        return pinged

    def _look_again(self, now: Instant) -> None:
        self._alarms.ask(SESSION, seconds_after(now, self._requests.lease_s / ROUNDS_IN_A_LEASE))

    def sent(self, messages: Iterable[bytes]) -> list[Effect]:
        """Return what sends messages to the broker, if there is a link."""
        link = self.link
        return [] if link is None else [Send(link, data) for data in messages]
