"""Which requests wait for somebody's word that was asked for just for them?

A certificate may demand that its tester vouches for it anew for each request
(dissertation 6.2.3). The verifier, a broker or a key server, asks with numbers
of its own, whoever made the request fetches the answers, and what was asked
for waits here meanwhile: so many requests of one principal and so many in all,
each for a while. An answer is accepted on the link that the question went to,
once, and for the one request that it was asked for (A30). Nothing here
survives a restart: it is asked anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from maia.credentials import AnswerNotAsked, Principal, statement_from_bytes
from maia.credentials.validity.one_time import OneTimeQuestion, OpenQuestions, question_to_bytes
from maia.credentials.validity.statements import NONCE_BYTES, OneTimeAnswer
from maia.credentials.validity.validity_state import Once
from maia.errors import MaiaError, Refusal, Unavailable
from maia.events import SECOND, Instant
from maia.wire.effects import LinkId
from maia.wire.messages import Challenge

__all__ = [
    "Asked",
    "Challenged",
    "NotVouchedFor",
    "NotVouchedForInTime",
    "OneTimePending",
    "OneTimeLimits",
    "Redeemed",
    "TooManyQuestions",
]

_Waits_co = TypeVar("_Waits_co", covariant=True)
_Held = TypeVar("_Held")


class NotVouchedFor(Refusal):
    """A certificate must be vouched for anew for each request, and the answers did not do that."""

    code = "REFUSED-NOT-VOUCHED-FOR"


class NotVouchedForInTime(Unavailable):
    """A certificate must be vouched for anew for each request, and no answer came in time."""

    code = "UNAVAILABLE-NOT-VOUCHED-FOR"


class TooManyQuestions(Unavailable):
    """As many requests wait for one-time answers as may, of one principal or of all."""

    code = "UNAVAILABLE-ONE-TIME-QUOTA"


@dataclass(frozen=True, slots=True)
class OneTimeLimits:
    """How much a verifier waits for at one time."""

    seconds: int = 20
    """How long an answer is waited for."""
    questions: int = 4096
    """Questions that are open at one time."""
    questions_per_request: int = 8
    requests_per_principal: int = 256
    """What waits for answers, of one principal over all its links."""


@dataclass(frozen=True, slots=True)
class Asked(Generic[_Waits_co]):
    """For whom, on which link and for which request somebody's word is asked for."""

    principal: Principal
    link: LinkId
    ref: int
    digest: bytes = field(repr=False)
    waits: _Waits_co


@dataclass(frozen=True, slots=True)
class Challenged(Generic[_Waits_co]):
    """What was asked of somebody, and how long the answers are waited for."""

    id: int
    asked: Asked[_Waits_co]
    questions: tuple[OneTimeQuestion, ...] = field(repr=False)
    until: Instant

    @property
    def wanted(self) -> frozenset[Once]:
        """Return who is to vouch for which certificates."""
        return frozenset((question.certificate, question.by) for question in self.questions)

    def message(self, ref: int, seconds: int) -> Challenge:
        """Return how it is put to whoever has to bring the answers."""
        return Challenge(self.id, ref, seconds, [question_to_bytes(question) for question in self.questions])


@dataclass(frozen=True, slots=True)
class Redeemed(Generic[_Waits_co]):
    """A challenge that is over, who has vouched for what, and what was wrong with other answers."""

    challenged: Challenged[_Waits_co]
    once: frozenset[Once] = field(repr=False)
    problems: tuple[MaiaError, ...] = ()


class OneTimePending(Generic[_Held]):
    """The challenges of one verifier that are open."""

    __slots__ = ("_by_id", "_by_ref", "_limits", "_made", "_of_principal", "_questions")

    def __init__(self, limits: OneTimeLimits) -> None:
        self._limits = limits
        self._questions = OpenQuestions(limit=limits.questions, patience=limits.seconds * SECOND)
        self._by_id: dict[int, Challenged[_Held]] = {}
        self._by_ref: dict[tuple[LinkId, int], int] = {}
        self._of_principal: Counter[Principal] = Counter()
        self._made = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def questions(self) -> int:
        """Return how many questions are open."""
        return len(self._questions)

    def is_asked(self, link: LinkId, ref: int) -> bool:
        """Say whether a challenge for this reference is open."""
        return (link, ref) in self._by_ref

    def ask(
        self,
        asked: Asked[_Held],
        wanted: Iterable[Once],
        *,
        until: Instant,
        now: Instant,
        random: Callable[[int], bytes],
    ) -> Challenged[_Held]:
        """Open a challenge, in place of an earlier one for the same reference; refuse one too many."""
        self.drop(asked.link, asked.ref)
        wanted = sorted(wanted, key=lambda one: (one[0], one[1].key))
        self._check_room(asked.principal, len(wanted))
        questions = [
            self._questions.ask(certificate, by, request=asked.digest, nonce=random(NONCE_BYTES), now=now)
            for certificate, by in wanted
        ]
        self._made += 1
        challenged = Challenged(self._made, asked, tuple(questions), until)
        self._by_id[challenged.id] = challenged
        self._by_ref[asked.link, asked.ref] = challenged.id
        self._of_principal[asked.principal] += 1
        return challenged

    def _check_room(self, principal: Principal, questions: int) -> None:
        most = self._limits.requests_per_principal
        if self._of_principal[principal] >= most:
            raise TooManyQuestions(f"{most} of your requests wait to be vouched for already")
        if len(self._questions) + questions > self._limits.questions:
            raise TooManyQuestions("as many one-time answers are waited for as may be")

    def redeem(
        self, link: LinkId, number: int, answers: Iterable[bytes], now: Instant
    ) -> Redeemed[_Held] | None:
        """Close a challenge with what came as answers; None if it is not open on this link."""
        challenged = self._by_id.get(number)
        if challenged is None or challenged.asked.link != link:
            return None
        own = {question.nonce for question in challenged.questions}
        once: set[Once] = set()
        problems: list[MaiaError] = []
        for data in answers:
            try:
                once.add(self._spent(data, challenged.asked.digest, own, now))
            except MaiaError as problem:
                problems.append(problem)
        self._close(challenged)
        return Redeemed(challenged, frozenset(once), tuple(problems))

    def _spent(self, data: bytes, digest: bytes, own: set[bytes], now: Instant) -> Once:
        signed = statement_from_bytes(data)
        answer = signed.statement
        # Somebody else's question stays open for whoever it was put to.
        if not isinstance(answer, OneTimeAnswer) or answer.nonce not in own:
            raise AnswerNotAsked("an answer is to another question than was asked here")
        return self._questions.redeem(signed, now).spend(digest)

    def overdue(self, now: Instant) -> list[Challenged[_Held]]:
        """Close and return the challenges that are waited for no longer."""
        late = [one for one in self._by_id.values() if one.until <= now]
        for challenged in late:
            self._close(challenged)
        return late

    def drop(self, link: LinkId, ref: int) -> None:
        """Forget what was asked for a reference: it is gone, or asked for anew."""
        number = self._by_ref.get((link, ref))
        if number is not None:
            self._close(self._by_id[number])

    def forget_link(self, link: LinkId) -> None:
        """Forget everything that was asked on a link that is gone."""
        for challenged in list(self._on(link)):
            self._close(challenged)

    def _on(self, link: LinkId) -> Iterator[Challenged[_Held]]:
        return (one for one in self._by_id.values() if one.asked.link == link)

    def _close(self, challenged: Challenged[_Held]) -> None:
        asked = challenged.asked
        del self._by_id[challenged.id]
        del self._by_ref[asked.link, asked.ref]
        self._questions.close(challenged.questions)
        self._of_principal[asked.principal] -= 1
        if not self._of_principal[asked.principal]:
            del self._of_principal[asked.principal]
