"""How does a reader of a log ask a type's key manager for the keys of the past?

It dials the manager, checks its greeting as every member does, and asks page
by page until the manager has no more. It is a node as a value, like a member:
no socket and no clock. What it found is in `answer` when `is_done`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final

from maia.credentials import Principal, SignedCertificate, SignedStatement, SigningKey, VerificationCache
from maia.errors import BadInput, MaiaError, ProtocolViolation, Refusal, Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, AttributeUid, Instant
from maia.predicates import Predicate
from maia.sealing.groups.manager_links import ManagerLink, ManagerLinks
from maia.sealing.keys.history import PastAnswer, PastEpoch, past_info, unpack_past
from maia.sealing.keys.key_ring import KeyTerms
from maia.sealing.member.past_keys import history_question
from maia.sealing.member.settings import MemberSettings
from maia.sessions.challenges import Challenged
from maia.sessions.session import Established
from maia.types import VerifiedType
from maia.validity import Monitor
from maia.wire.effects import Close, DialFailed, Effect, Input, LinkClosed, LinkOpened, Received, Tick, WakeAt
from maia.wire.messages import Accepted, Bye, Challenge, Failed, HistoryKeysReply, Message

PAGES_MAX: Final = 4096
"""Answers that are taken from one manager."""


class HistoryRefused(Refusal):
    """The manager of a type does not hand out the keys that were asked for."""

    code = "REFUSED-HISTORY-KEYS"


class ManagerUnreachable(Unavailable):
    """The manager of a type does not answer, or not properly."""

    code = "UNAVAILABLE-HISTORY-KEYS"


class NotSealed(BadInput):
    """A type that is not sealed has no keys."""

    code = "INPUT-NOT-SEALED"


class HistoryAsker:
    """One question for the keys of one type in one period."""

    def __init__(  # noqa: PLR0913 - every one is named at the call
        self,
        key: SigningKey,
        settings: MemberSettings,
        versions: Sequence[VerifiedType],
        *,
        credentials: Sequence[SignedCertificate],
        random: Callable[[int], bytes],
        since: Instant | None = None,
        until: Instant | None = None,
        standing: Monitor | None = None,
    ) -> None:
        """Ask with `credentials` for the keys of a type, of which these are versions, oldest first.

        `standing` shows the manager that they still count, where they demand it.
        """
        sealing = versions[-1].sealing
        if sealing is None:
            raise NotSealed(f"`{versions[-1].name.name}` is not sealed, and has no keys")
        self._key, self._settings, self._versions = key, settings, tuple(versions)
        self._credentials = tuple(credentials)
        self._since = Instant(INSTANT_MIN) if since is None else since
        self._until = Instant(INSTANT_MAX) if until is None else until
        self._links = ManagerLinks(
            settings,
            own=lambda: settings.credentials,
            random=random,
            cache=VerificationCache(),
            standing=standing,
        )
        self._manager = self._links.of(sealing.manager)
        self._manager.addresses = tuple(dict.fromkeys((*sealing.addresses, *settings.addresses)))
        self._pages = 0
        self._numbers = count(1)
        self._challenges: list[Challenged] = []
        self._found: list[PastEpoch] = []
        self.writers: dict[Principal, tuple[SignedCertificate, ...]] = {}
        """Who has published what the keys open, and what spoke for it, as far as the manager knows."""
        self.answers: dict[AttributeUid, Predicate] = {}
        """What the answers are about of which there are keys."""
        self.terms: KeyTerms | None = None
        self.problem: MaiaError | None = None
        self.is_done = False

    @property
    def answer(self) -> tuple[PastEpoch, ...]:
        """Return the keys that were handed out."""
        return tuple(self._found)

    def start(self, now: Instant) -> list[Effect]:
        """Dial the manager."""
        return self._links.dial(self._manager, now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        """Take one input on. Whatever goes wrong ends in `problem`."""
        match happened:
            case LinkOpened():
                effects, _ = self._links.opened(happened, now)
                if self._manager.session is None:
                    return [*effects, *self._gave_up(ManagerUnreachable("somebody else answers there"))]
                return effects
            case Received(link=link, data=data) if self._links.on(link) is self._manager:
                assert self._manager.session is not None  # noqa: S101 - this is its link
                try:
                    effects, message = self._links.receive(self._manager.session, data, now)
                    return [*effects, *self._heard(message, now)]
                except MaiaError as problem:
                    return self._gave_up(problem)
            case LinkClosed() | DialFailed() if not self.is_done:
                return self._another_address(now)
            case Tick() if not self.is_done and self._manager.is_idle:
                return self._links.dial(self._manager, now)
        return []

    def _another_address(self, now: Instant) -> list[Effect]:
        self._links.lost(self._manager, now)
        if self._manager.failures > 2 * len(self._manager.addresses):
            return self._gave_up(ManagerUnreachable("the manager of the type's keys does not answer"))
        return [] if self._manager.due is None else [WakeAt(self._manager.due)]

    def _heard(self, message: Message | Established | None, now: Instant) -> list[Effect]:
        manager = self._manager
        match message:
            case None | Accepted():
                return []
            case Bye(message=said):
                return self._gave_up(HistoryRefused(said or "the manager has closed the link"))
            case Established():
                self._links.welcomed(manager, now)
                return [*self._links.show(manager, self._credentials, now), *self._asked(manager, after=0)]
            case Failed(code=code, message=said):
                why = manager.challenges.reason(self._pages, code)
                return self._gave_up(why or HistoryRefused(f"{said} [{code}]"))
            case HistoryKeysReply():
                return self._told(manager, message)
            case Challenge(ref=ref):
                return [] if ref != self._pages else self._challenged(manager, message)
        raise ProtocolViolation(f"`{type(message).__name__}` was not expected from a manager at this point")

    def _asked(self, manager: ManagerLink, *, after: int) -> list[Effect]:
        shown = manager.signed_key(self._key)
        self._pages += 1
        question = history_question(
            self._pages,
            self._versions,
            self._credentials,
            shown,
            since=self._since,
            until=self._until,
            after=after,
        )
        return self._links.say(manager, question)

    def _challenged(self, manager: ManagerLink, message: Challenge) -> list[Effect]:
        """Have the manager's one-time questions answered, if they are about our certificates."""
        type_id, own = self._versions[-1].type_id, self._credentials
        challenged = manager.challenged(
            next(self._numbers),
            message,
            member=self._key.principal,
            type_id=type_id,
            own=own,
            is_past=True,
            is_standing=False,
        )
        self._challenges.append(challenged)
        return []

    def take_challenges(self) -> list[Challenged]:
        """Return the one-time questions since the last call."""
        taken, self._challenges = self._challenges, []
        return taken

    def vouch(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[Effect]:
        """Bring the manager the answers that it waits for; `problem` says why there are not more of them."""
        message = None if self.is_done else self._manager.challenges.answer(number, answers, problem)
        return [] if message is None else self._links.say(self._manager, message)

    def _told(self, manager: ManagerLink, message: HistoryKeysReply) -> list[Effect]:
        type_id = self._versions[-1].type_id
        if message.id != self._pages or message.type_id != type_id:
            raise ProtocolViolation("the manager answers another question")
        info = past_info(type_id, manager=manager.principal, reader=self._key.principal)
        answer: PastAnswer = unpack_past(manager.secured.open(message.sealed, info))
        self._found += answer.epochs
        self.writers |= answer.writers
        self.answers |= answer.answers
        self.terms = KeyTerms.from_record(message.terms)
        if message.after is not None and self._pages < PAGES_MAX:
            return self._asked(manager, after=message.after)
        self.is_done = True
        return self._closed()

    def _gave_up(self, problem: MaiaError) -> list[Effect]:
        self.problem, self.is_done = problem, True
        return self._closed()

    def _closed(self) -> list[Effect]:
        return [Close(link, "DONE") for link in self._links.open_links()]
