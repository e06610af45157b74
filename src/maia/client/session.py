"""The client: what happens to it, one input after the other, and what it asks for in return.

    session.handle(Received(link, data), now) -> [Send(...), WakeAt(...), ...]
    session.take_notices() -> [Delivered(...), Taken(...), ...]

It has no clock and no socket. It shows its credentials to nobody who has not
first shown that it was made a broker (A19), renews what stands before
the lease ends, and asks for all of it again after a reconnection. How it comes
to a broker is in `connection.py`, what it wants there in `requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, assert_never

from maia.client.alarms import ENDS, IDENTITY, RENEWAL, SESSION, Alarms
from maia.client.connection import Connection
from maia.client.entries import Advertised, KnownVersion, Numbering, RequestEntry, SeenFrames, Subscribed
from maia.client.errors import check_durable_name
from maia.client.notices import Notice, RightEnds
from maia.client.requests import Requests
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import (
    Action,
    Principal,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TypeName,
    certificate_to_bytes,
    statement_to_bytes,
)
from maia.credentials.identity import SignedIdentity
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import BadInput, MaiaError, Unavailable
from maia.events import AttributeUid, Instant, seconds_after
from maia.policy import Request
from maia.policy.endings import EndsSoon, Warned
from maia.policy.view import shows
from maia.predicates import Predicate
from maia.types import VerifiedType
from maia.wire.columns import frame_label
from maia.wire.effects import (
    DialFailed,
    Effect,
    Input,
    Kept,
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
from maia.wire.messages import Column as WireColumn
from maia.wire.messages import Show, TypeQuery, VersionsQuery
from maia.wire.names import type_to_bytes

_ENDS_S: Final = 3600.0
"""How often a client looks at which of its certificates end soon."""


class ClientSession:
    """One client of one network, as a value that is handed time, chance and messages."""

    def __init__(self, key: SigningKey, settings: ClientSettings, *, random: Callable[[int], bytes]) -> None:
        """Make a client that holds `key`; it dials nobody before `start`."""
        self.principal: Principal = key.principal
        self._settings = settings
        self._random = random
        self._wallet = Wallet(settings.credentials, settings.constitutions)
        self._wallet.add_statements(settings.statements)
        self._alarms, self._warned = Alarms(), Warned()
        self._requests = Requests(key, settings, self._wallet, self._alarms, random)
        self._notices = self._requests.notices
        self.has_room = self._requests.has_room
        """Says whether another frame of an advertisement may be under way; if not, the application waits."""
        self._connection = Connection(
            key.principal, settings, self._wallet, self._requests, self._alarms, random
        )

    # -------------------------------------------------------- what the application asks for

    @property
    def link(self) -> LinkId | None:
        """Return the present link, if there is one."""
        return self._connection.link

    @property
    def is_ready(self) -> bool:
        """Return whether a broker has welcomed this client."""
        return self._connection.is_ready

    def take_notices(self) -> list[Notice]:
        """Return what happened since this was last asked."""
        notices = self._notices
        if not notices:
            return []
        taken = notices.copy()
        notices.clear()
        return taken

    def start(self, now: Instant) -> list[Effect]:
        """Begin to look for a broker."""
        return self._finished([*self._connection.dial(), *self._warn_of_ends(now)])

    def know_brokers(self, addresses: Iterable[str]) -> None:
        """Look for a broker at these addresses, too, when the next is dialled."""
        self._connection.know(addresses)

    def advertise(
        self,
        known: KnownVersion,
        filter_: Predicate,
        now: Instant,
        numbering: Numbering | None = None,
        *,
        requires: Predicate = NO_REQUIREMENT,
        signs: bool = False,
        written: KnownVersion | None = None,
    ) -> tuple[Advertised, list[Effect]]:
        """Ask to publish events of a type; raise the refusal if no credential speaks for that.

        A publisher that `signs` gives each frame a signature of its own, which subscribers verify.
        `written` is the type of the events that its right converts into this one, if it does.
        """
        frames = numbering or Numbering(self._random(16))
        entry = Advertised(
            self._requests.next_number(),
            known,
            filter_,
            frames.stream,
            next_sequence=frames.first,
            signs=signs,
            requires=requires,
            written=written,
        )
        return entry, self._said(self._requests.add(entry, now))

    def subscribe(  # noqa: PLR0913 - most are named at the call
        self,
        known: KnownVersion,
        filter_: Predicate,
        now: Instant,
        *,
        durable: str | None = None,
        after: bytes | None = None,
        state: bool = False,
        requires: Predicate = NO_REQUIREMENT,
        shown_as: VerifiedType | None = None,
        upto: bytes | None = None,
    ) -> tuple[Subscribed, list[Effect]]:
        """Ask for events of a type; raise the refusal if no credential speaks for that.

        `requires` is what their publishers have to meet. With a `durable` name, the broker
        goes on where it was acknowledged to be, or behind the position `after` that the application has kept
        itself. With `state`, what publishers said last comes first.
        `shown_as` is the type that the right converts events into, if it does.
        """
        check_durable_name(durable)
        if durable is not None and state:
            raise BadInput(
                "INPUT-STATE-AND-DURABLE",
                "a durable subscription goes on where it was: it has no use for the state",
            )
        seen = SeenFrames(self._settings.streams)
        number, stream = self._requests.next_number(), self._random(16)
        entry = Subscribed(
            number,
            known,
            filter_,
            stream,
            seen=seen,
            durable=durable,
            arrived=after,
            wants_state=state,
            requires=requires,
        )
        entry.shown_as, entry.upto = shown_as, upto
        return entry, self._said(self._requests.add(entry, now))

    def acknowledge(self, entry: Subscribed, position: bytes) -> list[Effect]:
        """Say that the application wants nothing up to a position again."""
        return self._said(self._requests.acknowledge(entry, position))

    def withdraw(self, entry: RequestEntry, now: Instant, *, forget: bool = False) -> list[Effect]:
        """Ask to take back what was asked for; `Withdrawn` follows. `forget` takes its cursor along."""
        del now
        return self._said(self._requests.withdraw(entry, forget=forget))

    def ask_for_type(self, name: TypeName, now: Instant, *, every: bool = False) -> tuple[int, list[Effect]]:
        """Ask the broker for the definitions of a type version, or of all; `TypeTold` follows."""
        del now
        question = (VersionsQuery if every else TypeQuery)(self._requests.next_number(), type_to_bytes(name))
        return question.id, self._said(self._requests.ask_for_type(question))

    def hidden_from(self, entry: Subscribed, now: Instant) -> frozenset[AttributeUid]:
        """Return the attributes that no right of this client shows, of what a subscription delivers."""
        version = entry.known.event_type
        request = Request(self.principal, Action.SUBSCRIBE, version.name, version)
        windows = self._wallet.shown_by(request, now)
        uids = [attribute.uid for attribute in entry.delivered_type.attributes] if windows else []
        return frozenset(uid for uid in uids if not any(shows(window, uid) for window in windows))

    def show(
        self, certificates: Iterable[SignedCertificate], statements: Iterable[SignedStatement]
    ) -> tuple[int, list[Effect]]:
        """Hold more certificates and statements, and show them to the broker; `Shown` follows."""
        certificates, statements = tuple(certificates), tuple(statements)
        self._wallet.add(certificates)
        self._wallet.add_statements(statements)
        shown = [certificate_to_bytes(signed) for signed in certificates]
        said = [statement_to_bytes(signed) for signed in statements]
        message = Show(self._requests.next_number(), shown, said)
        return message.id, self._said(self._requests.show(message))

    @property
    def certificates(self) -> tuple[SignedCertificate, ...]:
        """Return what this client holds, with what was added since it connected."""
        return self._wallet.certificates

    def identify(self, identity: SignedIdentity) -> tuple[int, list[Effect]]:
        """Show a renewed identity statement from now on, on this link too; `CredentialsAdded` follows."""
        number = self._requests.next_number()
        return number, self._said(self._connection.hold_identity(identity, number))

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None = None
    ) -> list[Effect]:
        """Bring the answers to a challenge; `problem` says why there are fewer than were asked for."""
        return self._said(self._requests.vouch(number, answers, problem))

    def label_of(self, entry: Advertised, sequence: int) -> bytes:
        """Return what subscribers recognise a frame by."""
        return frame_label(self.principal.key, entry.stream, sequence)

    def publish(
        self,
        entry: Advertised,
        rows: int,
        columns: list[WireColumn],
        now: Instant,
        requires: Predicate | None = None,
    ) -> list[Effect]:
        """Send one frame, and remember it until the broker has taken it on.

        `requires` is what subscribers have to meet, in place of what the advertisement requires.
        """
        data, link = self._requests.publish(entry, rows, columns, now, requires), self._connection.link
        return [] if data is None or link is None else [Send(link, data)]

    def close(self, now: Instant) -> list[Effect]:
        """Say goodbye; nothing happens after this."""
        del now
        return self._connection.close()

    # -------------------------------------------------------- what happens

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on."""
        connection = self._connection
        if connection.is_closed:
            return []
        match happened:
            case Received(link=link, data=data):
                effects = connection.received(data, now) if link == connection.link else []
            case Tick():
                self._alarms.woken()
                effects = []
            case Recorded() | LogRead() | Kept():
                effects = []  # a client records nothing, and ends with its store
            case LinkOpened():
                effects = connection.opened(happened, now)
            case LinkClosed(link=link):
                gone = Unavailable("UNAVAILABLE-NOT-CONNECTED", "the broker closed the connection")
                effects = connection.lost(gone, now) if link == connection.link else []
            case DialFailed(address=address, why=why):
                nobody = Unavailable(
                    "UNAVAILABLE-NOT-CONNECTED",
                    f"no broker answers at `{address}`{f': {why}' if why else ''}",
                )
                effects = connection.lost(nobody, now) if connection.is_dialling else []
            case _:
                assert_never(happened)
        if self._alarms.is_quiet(now):
            return effects  # nearly always
        return self._finished([*effects, *self._due(now)])

    def _due(self, now: Instant) -> list[Effect]:
        """Do whatever has come due: dial again, renew, ask again, give a silent broker up."""
        effects: list[Effect] = []
        for whose in self._alarms.due(now):
            if whose == SESSION:
                effects += self._connection.look(now)
            elif whose == ENDS:
                effects += self._warn_of_ends(now)
            elif whose == IDENTITY:
                effects += self._connection.broker_expired(now)
            elif self.is_ready:
                requests = self._requests
                asking = requests.renew_everything(now) if whose == RENEWAL else requests.look(whose, now)
                effects += self._connection.sent(asking)
        return effects

    def _warn_of_ends(self, now: Instant) -> list[Effect]:
        """Say which certificates end soon, and look again later."""
        self._alarms.ask(ENDS, seconds_after(now, _ENDS_S))
        soon = self._warned.news(self._wallet.certificates, now)
        self._notices += (RightEnds(EndsSoon(one)) for one in soon)
        return [Note("expiring", one.fields()) for one in soon]

    def _said(self, asking: list[bytes]) -> list[Effect]:
        return self._finished(self._connection.sent(asking))

    def _finished(self, effects: list[Effect]) -> list[Effect]:
        """Ask for the next moment, unless the runtime knows of it."""
        wake = self._alarms.to_promise()
        return effects if wake is None else [*effects, WakeAt(wake)]
