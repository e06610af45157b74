"""Is this the manager that the owner of a type has named, and how far has the session with it come?

A member dials the addresses that it knows, one after the other. Addresses are
hints: the peer must prove the manager's own key, and show that it may connect
to the network (`maia.sessions`), before it is shown any certificate. Every
stage has a deadline, and each failure doubles the wait before the next
attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from maia.back_off import doubled
from maia.credentials import (
    Action,
    CertificateRevoked,
    Principal,
    SignedCertificate,
    SigningKey,
    VerificationCache,
    certificate_from_bytes,
    certificate_to_bytes,
)
from maia.errors import ProtocolViolation, Unavailable
from maia.events import Instant, seconds_after
from maia.policy import PolicyRefusal, Request
from maia.sealing.keys.delivery import EncryptionKey, SessionKey
from maia.sealing.member.settings import MemberSettings
from maia.sessions.admission import right_to_connect, with_shown
from maia.sessions.challenges import OwnChallenges
from maia.sessions.session import Endpoint, Session, Stage, statements_for
from maia.validity import Monitor, VouchedFor
from maia.wire.codec import encode
from maia.wire.effects import Close, Dial, Effect, LinkId, LinkOpened, Note, Send
from maia.wire.messages import Message, Show


class ManagerSilent(Unavailable):
    """The manager of a type did not answer in time."""

    code = "UNAVAILABLE-MANAGER-SILENT"


@dataclass(slots=True)
class ManagerLink:
    """One manager and the link to it."""

    principal: Principal
    addresses: tuple[str, ...] = ()
    session: Session | None = field(default=None, repr=False)
    """The present link, if there is one."""
    is_dialling: bool = False
    turn: int = 0
    failures: int = 0
    lost_at: Instant | None = None
    """When the last attempt to reach it failed."""
    problem: str = ""
    """The code of what was wrong with the last peer that answered; empty if none did."""
    session_key: SessionKey | None = field(default=None, repr=False)
    due: Instant | None = None
    """When the present stage has lasted too long, or when to dial again."""
    check_at: Instant | None = None
    awaits_check: bool = False
    rests_on: tuple[SignedCertificate, ...] = field(default=(), repr=False)
    """The certificates by which it may be part of the network."""
    challenges: OwnChallenges = field(default_factory=OwnChallenges, repr=False)

    @property
    def is_ready(self) -> bool:
        """Return whether the manager has welcomed this member."""
        return self.session is not None and self.session.is_ready

    @property
    def is_idle(self) -> bool:
        """Return whether there is no link to it, and none is awaited."""
        return self.session is None and not self.is_dialling

    @property
    def stage(self) -> str:
        """Return how far the session with it has come, for operators."""
        if self.session is not None:
            return self.session.stage.value
        return "dialling" if self.is_dialling else "idle"

    @property
    def is_away(self) -> bool:
        """Return whether it was looked for at every address in vain, and is to be looked for again later."""
        return self.is_idle and self.failures >= max(1, len(self.addresses))

    @property
    def secured(self) -> SessionKey:
        """Return the encryption key of the session with a manager that is ready."""
        assert self.session_key is not None  # noqa: S101 - it is made with the welcome
        return self.session_key

    def signed_key(self, key: SigningKey) -> EncryptionKey:
        """Return the key to which a manager that is ready seals what it hands us."""
        assert self.session is not None  # noqa: S101 - it is ready
        return self.secured.signed(key, manager=self.principal, session=self.session.instance)

    @property
    def address(self) -> str:
        return self.addresses[self.turn % len(self.addresses)] if self.addresses else ""

    def waits_at(self, address: str | None) -> bool:
        """Return whether a connection to this address is awaited."""
        return self.is_dialling and self.address == address


class ManagerLinks(Endpoint[Session]):
    """The managers that a member knows, and the links to them."""

    def __init__(
        self,
        settings: MemberSettings,
        *,
        random: Callable[[int], bytes],
        cache: VerificationCache,
        standing: Monitor | None = None,
    ) -> None:
        """Begin with no manager; `standing` is what is known on the validity of certificates."""
        super().__init__(settings.network, instance=random(16))
        self.settings, self._random, self._cache, self._standing = settings, random, cache, standing
        self._managers: dict[Principal, ManagerLink] = {}
        self._links: dict[LinkId, ManagerLink] = {}

    def of(self, principal: Principal) -> ManagerLink:
        """Return a manager, idle if it was not known before."""
        return self._managers.setdefault(principal, ManagerLink(principal))

    def owns(self, link: LinkId) -> bool:
        """Return whether what happens on a link is for this member."""
        return link in self._links

    def dials(self, address: str) -> bool:
        """Return whether this member waits for a link to an address."""
        return bool(self.waiting_at(address))

    def reach(self) -> list[tuple[Principal, bool, int]]:
        """Return which managers can be asked, and how often each was looked for in vain."""
        return [(one.principal, one.is_ready, one.failures) for one in self._managers.values()]

    def waiting_at(self, address: str | None) -> list[ManagerLink]:
        """Return the managers that are looked for at an address."""
        return [one for one in self._managers.values() if one.waits_at(address)]

    def dial(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Look for a manager at the address whose turn it is."""
        if not manager.addresses:
            return []
        manager.is_dialling, manager.due = True, seconds_after(now, self.settings.again_max_s)
        return [Dial(manager.address)]

    def opened(self, opened: LinkOpened, now: Instant) -> tuple[list[Effect], list[ManagerLink]]:
        """Take a connection on; return also the managers that were not found at its address."""
        # Several managers may be dialled at one address; the peer that answers is one of them, or none.
        waiting = self.waiting_at(opened.dialled)
        found = next((one for one in waiting if one.principal == opened.peer), None)
        if found is None:
            for one in waiting:
                one.problem = "PROTOCOL-NOT-THE-MANAGER"
            fields = {"address": opened.dialled, "peer": str(opened.peer), "code": "PROTOCOL-NOT-THE-MANAGER"}
            return [Close(opened.link, "PROTOCOL-NOT-THE-MANAGER"), Note("refused", fields)], waiting
        found.is_dialling, stage = False, Stage.AWAITING_GREETING
        found.session = Session(opened.link, opened.peer, opened.dialled, stage, opened_at=now, heard_at=now)
        found.due = seconds_after(now, self.settings.handshake_s)
        self._links[opened.link] = found
        return [], [one for one in waiting if one is not found]

    def show(self, manager: ManagerLink, now: Instant) -> list[Effect]:
        """Show a manager the statements by which our own certificates still count."""
        statements = self.own_statements(now)
        return self.say(manager, Show(0, [], statements)) if statements else []

    def own_credentials(self, now: Instant) -> list[bytes]:
        """Return the certificates that a manager is shown, once it was admitted."""
        del now
        return [certificate_to_bytes(signed) for signed in self.settings.credentials]

    def own_statements(self, now: Instant) -> list[bytes]:
        return statements_for(self.settings.credentials, self._standing, now)

    def admit(self, session: Session, vouched: VouchedFor | None, now: Instant) -> list[Effect]:
        """Verify that a manager may connect to the network."""
        del vouched
        try:
            right = right_to_connect(
                Request(session.peer, Action.CONNECT, self.settings.network),
                tuple(certificate_from_bytes(one) for one in session.shown),
                now,
                tester=with_shown(self._standing, session.take_statements(lambda _: True), now),
                cache=self._cache,
                constitutions=self.settings.constitutions,
            )
        except PolicyRefusal as problem:
            raise ProtocolViolation(
                "PROTOCOL-NOT-THE-MANAGER", "the manager may not be part of this network"
            ) from problem
        self._links[session.id].rests_on = right.certificates
        return []

    def check_not_revoked(self, manager: ManagerLink, now: Instant) -> None:
        """Refuse to go on with a manager whose right was revoked meanwhile."""
        if self._standing is None:
            return
        for signed in manager.rests_on:
            if isinstance(self._standing.check(signed, now), CertificateRevoked):
                raise ProtocolViolation(
                    "PROTOCOL-NOT-THE-MANAGER", "the manager's right to be part of this network was revoked"
                )

    def welcomed(self, manager: ManagerLink, now: Instant) -> None:
        """Begin a session, with an encryption key of its own."""
        manager.due, manager.problem = None, ""
        manager.check_at, manager.awaits_check = seconds_after(now, self.settings.check_s), False
        manager.session_key = SessionKey(self._random)

    def lost(self, manager: ManagerLink, now: Instant) -> None:
        """Go on without a link, and dial the next address later. The session's key is gone."""
        if manager.session is not None:
            self._links.pop(manager.session.id, None)
        manager.session, manager.session_key, manager.check_at = None, None, None
        manager.is_dialling = False
        manager.challenges.clear()
        manager.turn += 1
        manager.failures += 1
        manager.lost_at = now
        wait_s = doubled(self.settings.dial_again_s, manager.failures, most=float(self.settings.again_max_s))
        manager.due = seconds_after(now, wait_s)

    def say(self, manager: ManagerLink, message: Message) -> list[Effect]:
        return [] if manager.session is None else [Send(manager.session.id, encode(message))]

    def again(self, failures: int, now: Instant) -> Instant:
        """Return when to ask again after so many refusals."""
        wait = doubled(self.settings.again_s, failures, most=float(self.settings.again_max_s))
        return seconds_after(now, wait)
