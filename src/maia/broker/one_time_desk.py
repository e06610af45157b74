"""Which requests wait for somebody's word that was asked for just for them?

A certificate may demand that its tester vouches for it anew for each request
(dissertation 6.2.3). The broker asks with numbers of its own, the client
fetches the answers, and what was asked for waits here meanwhile: so many
requests of one principal and so many in all, each for a while. An answer is
accepted on the link that the question went to, once, and for the one request
that it was asked for (A30). Nothing here survives a restart: it is asked anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from maia.broker.refusals import TooManyQuestions
from maia.broker.settings import BrokerLimits
from maia.credentials import AnswerNotAsked, Principal, SignedCertificate, statement_from_bytes
from maia.credentials.one_time import OneTimeQuestion, OpenQuestions
from maia.credentials.standing import Once
from maia.credentials.statements import NONCE_BYTES, OneTimeAnswer
from maia.errors import MaiaError
from maia.events import Instant
from maia.wire.effects import LinkId
from maia.wire.messages import Advertise, Hello, Subscribe, SubscribeDurable
from maia.wire.requests import EdgeRequest

__all__ = [
    "CONNECTING",
    "Asked",
    "Challenged",
    "HeldEntry",
    "HeldHello",
    "HeldRequest",
    "OneTimeDesk",
    "Redeemed",
]

_SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """A request that is decided when it is vouched for; its signature and its moment were checked."""

    message: Advertise | Subscribe | SubscribeDurable = field(repr=False)
    asked: EdgeRequest = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldEntry:
    """Something that stands, and is to be authorised anew from these certificates."""

    pool: tuple[SignedCertificate, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HeldHello:
    """A client that is welcomed when its right to connect is vouched for."""

    message: Hello = field(repr=False)


CONNECTING: Final = -1
"""The reference that stands for the connection itself: none that a client could give to a request."""


@dataclass(frozen=True, slots=True)
class Asked:
    """For whom, on which link and for which request somebody's word is asked for."""

    principal: Principal
    link: LinkId
    ref: int
    digest: bytes = field(repr=False)
    waits: HeldRequest | HeldEntry | HeldHello


@dataclass(frozen=True, slots=True)
class Challenged:
    """What was asked of a client, and how long the answers are waited for."""

    id: int
    asked: Asked
    questions: tuple[OneTimeQuestion, ...] = field(repr=False)
    until: Instant

    @property
    def wanted(self) -> frozenset[Once]:
        """Return who is to vouch for which certificates."""
        return frozenset((question.certificate, question.by) for question in self.questions)


@dataclass(frozen=True, slots=True)
class Redeemed:
    """A challenge that is over, who has vouched for what, and what was wrong with other answers."""

    challenged: Challenged
    once: frozenset[Once] = field(repr=False)
    problems: tuple[MaiaError, ...] = ()


class OneTimeDesk:
    """The challenges of one broker that are open."""

    __slots__ = ("_by_id", "_by_ref", "_limits", "_made", "_of_principal", "_questions")

    def __init__(self, limits: BrokerLimits) -> None:
        """Begin with nothing asked."""
        self._limits = limits
        self._questions = OpenQuestions(limit=limits.one_time_questions, patience=limits.one_time_s * _SECOND)
        self._by_id: dict[int, Challenged] = {}
        self._by_ref: dict[tuple[LinkId, int], int] = {}
        self._of_principal: Counter[Principal] = Counter()
        self._made = 0

    def __len__(self) -> int:
        """Return how many challenges are open."""
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
        asked: Asked,
        wanted: Iterable[Once],
        *,
        until: Instant,
        now: Instant,
        random: Callable[[int], bytes],
    ) -> Challenged:
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
        most = self._limits.one_time_requests_per_principal
        if self._of_principal[principal] >= most:
            raise TooManyQuestions(f"{most} of your requests wait to be vouched for already")
        if len(self._questions) + questions > self._limits.one_time_questions:
            raise TooManyQuestions("this broker waits for as many one-time answers as it may")

    def redeem(self, link: LinkId, number: int, answers: Iterable[bytes], now: Instant) -> Redeemed | None:
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
            raise AnswerNotAsked("an answer is to another question than was asked of this client")
        return self._questions.redeem(signed, now).spend(digest)

    def overdue(self, now: Instant) -> list[Challenged]:
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

    def _on(self, link: LinkId) -> Iterator[Challenged]:
        return (one for one in self._by_id.values() if one.asked.link == link)

    def _close(self, challenged: Challenged) -> None:
        asked = challenged.asked
        del self._by_id[challenged.id]
        del self._by_ref[asked.link, asked.ref]
        self._questions.close(challenged.questions)
        self._of_principal[asked.principal] -= 1
        if not self._of_principal[asked.principal]:
            del self._of_principal[asked.principal]
