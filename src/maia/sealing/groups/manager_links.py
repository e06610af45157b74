"""Is this the manager that the owner of a type has named, and how far has the talk with it come?

    idle -> dialling -> awaiting greeting -> awaiting welcome -> ready

A member dials the addresses that it knows, one after the other. Addresses
are hints: the peer must prove the manager's own key, and show that it may be
part of the network, before it is shown any certificate. Every stage has a
deadline, and each failure doubles the wait before the next attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum

from maia.credentials import (
    Action,
    CertificateRevoked,
    Principal,
    SignedCertificate,
    SignedStatement,
    VerificationCache,
    VerifiedConstitution,
    Witness,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.errors import ProtocolViolation, Unavailable
from maia.events import INSTANT_MAX, Instant
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.sealing.groups.validity import WithShown, held_statements, shown_statements
from maia.sealing.keys.delivery import SessionKey
from maia.sealing.member.settings import MemberSettings
from maia.wire.codec import encode
from maia.wire.effects import Close, Dial, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.messages import PROTOCOL_VERSION, Greeting, Hello, Message, Show
from maia.wire.names import network_to_bytes

__all__ = ["LinkStage", "ManagerLink", "ManagerLinks", "ManagerSilent", "NotTheManager", "later"]

_SECOND = 1_000_000


class NotTheManager(ProtocolViolation):
    """Another server answers at the address of a type's manager, or it may not connect to this network."""

    code = "PROTOCOL-NOT-THE-MANAGER"


class ManagerSilent(Unavailable):
    """The manager of a type did not answer in time."""

    code = "UNAVAILABLE-MANAGER-SILENT"


class LinkStage(Enum):
    """How far the talk with a manager has come."""

    IDLE = "idle"
    DIALLING = "dialling"
    AWAITING_GREETING = "awaiting greeting"
    AWAITING_WELCOME = "awaiting welcome"
    READY = "ready"


@dataclass(slots=True)
class ManagerLink:
    """One manager and the link to it."""

    principal: Principal
    addresses: tuple[str, ...] = ()
    stage: LinkStage = LinkStage.IDLE
    link: LinkId | None = None
    turn: int = 0
    failures: int = 0
    lost_at: Instant | None = None
    """When the last attempt to reach it failed."""
    problem: str = ""
    """The error code of the last server that answered; empty if none did."""
    session: SessionKey | None = field(default=None, repr=False)
    instance: bytes = b""
    due: Instant | None = None
    """When the present stage has lasted too long, or when to dial again."""
    check_at: Instant | None = None
    awaits_check: bool = False
    statements: tuple[SignedStatement, ...] = field(default=(), repr=False)
    """What the manager has shown, for the certificates of its greeting."""
    rests_on: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    """The certificates by which it may be part of the network."""

    @property
    def is_ready(self) -> bool:
        """Say whether the manager has welcomed this member."""
        return self.stage is LinkStage.READY

    @property
    def is_away(self) -> bool:
        """Say whether it was looked for at every address in vain, and is to be looked for again later."""
        return self.stage is LinkStage.IDLE and self.failures >= max(1, len(self.addresses))

    @property
    def secured(self) -> SessionKey:
        """Return the encryption key of the session with a manager that is ready."""
        assert self.session is not None  # noqa: S101 - a session begins with the welcome
        return self.session

    @property
    def address(self) -> str:
        """Return the address whose turn it is."""
        return self.addresses[self.turn % len(self.addresses)] if self.addresses else ""

    def waits_at(self, address: str | None) -> bool:
        """Say whether a connection to this address is awaited."""
        return self.stage is LinkStage.DIALLING and self.address == address


class ManagerLinks:
    """The managers that a member knows, and the links to them."""

    def __init__(
        self,
        settings: MemberSettings,
        *,
        random: Callable[[int], bytes],
        cache: VerificationCache,
        standing: Witness | None = None,
    ) -> None:
        """Begin empty; `standing` holds the statements received, about our own and others' certificates."""
        self._settings, self._random, self._cache = settings, random, cache
        self._standing = standing
        self._instance = random(16)
        self._network = network_to_bytes(settings.network)
        self._managers: dict[Principal, ManagerLink] = {}
        self._links: dict[LinkId, ManagerLink] = {}

    def adopt(self, constitutions: tuple[VerifiedConstitution, ...]) -> None:
        """Use these constitutions for a quorum that owns the network from now on."""
        self._settings = replace(self._settings, constitutions=constitutions)

    def all(self) -> list[ManagerLink]:
        """Return every manager."""
        return list(self._managers.values())

    def of(self, principal: Principal) -> ManagerLink:
        """Return a manager, idle if it was not known before."""
        return self._managers.setdefault(principal, ManagerLink(principal))

    def on(self, link: LinkId) -> ManagerLink | None:
        """Return the manager at the other end of a link."""
        return self._links.get(link)

    def open_links(self) -> list[LinkId]:
        """Return the open links."""
        return list(self._links)

    def clear(self) -> None:
        """Forget all managers."""
        self._links.clear()
        self._managers.clear()

    def waiting_at(self, address: str | None) -> list[ManagerLink]:
        """Return the managers that are looked for at an address."""
        return [one for one in self._managers.values() if one.waits_at(address)]

    def dial(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Look for a manager at the address whose turn it is."""
        if not manager.addresses:
            return []
        manager.stage, manager.due = LinkStage.DIALLING, later(now, self._settings.again_max_s)
        return [Dial(manager.address)]

    def opened(self, opened: LinkOpened, now: Instant) -> tuple[list[Effect], list[ManagerLink]]:
        """Take a connection on; return also the managers that were not found at its address."""
        # Several managers may be sought at one address; the server that answers is one of them, or none.
        waiting = self.waiting_at(opened.dialled)
        found = next((one for one in waiting if one.principal == opened.peer), None)
        if found is None:
            for one in waiting:
                one.problem = NotTheManager.code
            fields = {"address": opened.dialled, "peer": str(opened.peer), "code": NotTheManager.code}
            return [Close(opened.link, NotTheManager.code), Note("refused", fields)], waiting
        found.stage, found.link = LinkStage.AWAITING_GREETING, opened.link
        found.due = later(now, self._settings.handshake_s)
        self._links[opened.link] = found
        return [], [one for one in waiting if one is not found]

    def shown(self, manager: ManagerLink, message: Show) -> None:
        """Hold the statements that a manager shows before its greeting."""
        if message.certificates:
            raise NotTheManager("a manager shows its certificates in the greeting")
        manager.statements = held_statements(manager.statements, message)

    def show(self, manager: ManagerLink, own: tuple[SignedCertificate, ...], now: Instant) -> list[Effect]:
        """Show a manager the statements by which our own certificates still count."""
        message = shown_statements(self._standing, own, now)
        return [] if message is None else self.say(manager, message)

    def greeted(
        self,
        manager: ManagerLink,
        message: Greeting,
        shown: tuple[SignedCertificate, ...],
        now: Instant,
    ) -> list[Effect]:
        """Check a manager's greeting, and only then show it who we are."""
        if message.version != PROTOCOL_VERSION or message.network != self._network:
            raise NotTheManager("the manager uses another protocol, or is in another network")
        pool = tuple(certificate_from_bytes(one) for one in message.credentials)
        request = Request(manager.principal, Action.CONNECT, self._settings.network)
        evidence = gather_evidence(
            request,
            pool,
            at=now,
            cache=self._cache,
            constitutions=self._settings.constitutions,
            standing=WithShown(self._standing, manager.statements, now),
        )
        manager.statements = ()
        manager.rests_on = tuple(signed for chain in evidence.chains for signed in chain.certificates)
        if not isinstance(decide(request, evidence, NO_FACTS, now), Permit):
            raise NotTheManager("the manager may not be part of this network")
        manager.stage, manager.instance = LinkStage.AWAITING_WELCOME, message.instance
        credentials = [certificate_to_bytes(signed) for signed in shown]
        hello = Hello(PROTOCOL_VERSION, self._network, credentials, self._instance, None)
        return [*self.show(manager, shown, now), *self.say(manager, hello)]

    def check_not_revoked(self, manager: ManagerLink, now: Instant) -> None:
        """Refuse to go on with a manager whose right was revoked meanwhile."""
        if self._standing is None:
            return
        for signed in manager.rests_on:
            if isinstance(self._standing.problem_with(signed, now), CertificateRevoked):
                raise NotTheManager("the manager's right to be part of this network was revoked")

    def welcomed(self, manager: ManagerLink, now: Instant) -> None:
        """Begin a session, with an encryption key of its own."""
        manager.stage, manager.due, manager.problem = LinkStage.READY, None, ""
        manager.check_at, manager.awaits_check = later(now, self._settings.check_s), False
        manager.session = SessionKey(self._random)

    def lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link, and dial the next address later. The session's key is gone."""
        if manager.link is not None:
            self._links.pop(manager.link, None)
        manager.link, manager.session, manager.check_at, manager.statements = None, None, None, ()
        manager.stage = LinkStage.IDLE
        manager.turn += 1
        manager.failures += 1
        manager.lost_at = now
        manager.due = self.again(manager.failures, now)

    def say(self, manager: ManagerLink, message: Message) -> list[Effect]:
        """Send a message, if there is a link."""
        return [] if manager.link is None else [Send(manager.link, encode(message))]

    def dial_again(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Dial a manager at once that would be dialled later, but not twice within the shortest wait."""
        is_waiting = manager.stage is LinkStage.IDLE and manager.due is not None
        if not is_waiting or manager.lost_at is None or now < later(manager.lost_at, self._settings.again_s):
            return []
        return self.dial(manager, now)

    def again(self, failures: int, now: Instant) -> Instant:
        """Return when to try again after so many failures."""
        wait = min(self._settings.again_max_s, self._settings.again_s << min(failures - 1, 16))
        return later(now, wait)


def later(now: Instant, seconds: int) -> Instant:
    """Return the moment so many seconds later, or the last moment there is."""
    return Instant(min(INSTANT_MAX, now + seconds * _SECOND))
