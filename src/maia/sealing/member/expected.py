"""How does a domain make a right known to the manager of a type's keys, before its holder asks for them?

The manager begins the keys of the right, so that what is published from then on can be opened when the
holder comes. The domain proves its own key and its right to connect, says what it has to say, and is handed
nothing.

    announcing = Announcing(settings, rights, random=os.urandom)
    announcing.start(now)             -> effects: dial the manager
    announcing.handle(happened, now)  -> effects: tell it what rights there are
    announcing.is_over, .accepted, .refused
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.credentials import Principal, SignedCertificate, VerificationCache, certificate_to_bytes
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.sealing.member.manager_links import ManagerLink, ManagerLinks
from maia.sealing.member.settings import MemberSettings
from maia.sessions.session import Established, Session, goodbye, statements_for
from maia.types import Sealing, VerifiedType, definition_to_bytes
from maia.validity import Monitor
from maia.wire.effects import DialFailed, Effect, Input, LinkClosed, LinkOpened, Received
from maia.wire.messages import Accepted, Bye, ExpectMember, Failed, Message

ANNOUNCED_MAX: Final = 64
"""Principals whose rights are made known over one connection."""
SHOWN_MAX: Final = 256
"""Certificates that are shown for one of them."""


@dataclass(frozen=True, slots=True)
class ExpectedMember:
    """A holder of rights to a sealed type, the versions of the type, and what leads from its owner to it."""

    principal: Principal
    versions: tuple[VerifiedType, ...] = field(repr=False)
    pool: tuple[SignedCertificate, ...] = field(repr=False)

    def is_over(self, now: Instant) -> bool:
        """Return whether none of the rights counts any more."""
        own = (one.certificate for one in self.pool if one.certificate.subject == self.principal)
        return all(one.validity.not_after is not None and one.validity.not_after < now for one in own)

    @property
    def sealing(self) -> Sealing:
        """Return who manages the keys of the type, and where."""
        sealing = self.versions[-1].sealing
        assert sealing is not None  # noqa: S101 - only rights to sealed types are made known
        return sealing


class Announcing(ManagerLinks):
    """One conversation with one manager, as a value that is handed time, chance and messages."""

    def __init__(
        self,
        settings: MemberSettings,
        rights: Sequence[ExpectedMember],
        *,
        random: Callable[[int], bytes],
        standing: Monitor | None = None,
    ) -> None:
        """Make these rights known, all to the same manager; `standing` shows that they still count."""
        super().__init__(settings, random=random, cache=VerificationCache(), standing=standing)
        self._waiting = dict(enumerate(rights[:ANNOUNCED_MAX], start=1))
        sealing = rights[0].sealing
        self._manager: ManagerLink = self.of(sealing.manager)
        self._manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *settings.addresses)))
        self.accepted: list[ExpectedMember] = []
        self.refused: list[tuple[ExpectedMember, str]] = []
        """What the manager does not count now, and the code of the reason."""
        self.is_over = False

    def start(self, now: Instant) -> list[Effect]:
        """Look for the manager at its first address."""
        effects = self.dial(self._manager, now)
        self.is_over = not effects
        return effects

    def leave(self) -> list[Effect]:
        """Say goodbye, if there is a link still."""
        session = self._manager.session
        problem = Unavailable("UNAVAILABLE-SHUTDOWN", "everything was said")
        return [] if session is None else goodbye(session.id, problem)

    def own_statements(self, now: Instant) -> list[bytes]:
        """Return the statements by which our right to connect, and the rights that we tell of, count."""
        shown: Iterable[SignedCertificate] = (
            *self.settings.credentials,
            *(signed for right in self._waiting.values() for signed in right.pool),
        )
        return statements_for(shown, self._standing, now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on."""
        match happened:
            case LinkOpened():
                effects, not_found = self.opened(happened, now)
                return [*effects, *(self._next_address(now) if not_found else [])]
            case Received(data=data) if (session := self._manager.session) is not None:
                try:
                    effects, message = self.receive(session, data, now)
                    return [*effects, *self._heard(session, message)]
                except MaiaError as problem:
                    self.is_over = True
                    return goodbye(session.id, problem)
            case LinkClosed() | DialFailed() if not self.is_over:
                return self._next_address(now)
        return []

    def _next_address(self, now: Instant) -> list[Effect]:
        manager = self._manager
        self.lost(manager, now)
        self.is_over = manager.turn >= len(manager.addresses)
        return [] if self.is_over else self.dial(manager, now)

    def _heard(self, session: Session, message: Message | Established | None) -> list[Effect]:
        match message:
            case Established():
                return [one for number, right in self._waiting.items() for one in self._told(number, right)]
            case Accepted(id=number) if number in self._waiting:
                self.accepted.append(self._waiting.pop(number))
            case Failed(id=number, code=code) if number in self._waiting:
                self.refused.append((self._waiting.pop(number), code))
            case Bye():
                self.is_over = True
        if not self._waiting:
            self.is_over = True
        return []

    def _told(self, number: int, right: ExpectedMember) -> list[Effect]:
        definitions = [definition_to_bytes(version.signed) for version in right.versions]
        pool = [certificate_to_bytes(signed) for signed in right.pool]
        return self.say(self._manager, ExpectMember(number, right.principal.key, definitions, pool))
