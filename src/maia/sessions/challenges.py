"""Which certificates have to be checked anew for one request, who answers, and how long does a check stand?

A certificate may demand that its tester vouches for it anew for each request
(dissertation 6.2.3). The verifier, a broker or a key server, sends its peer a
challenge: questions with random numbers of its own and the digest of the
request. The peer fetches the answers, about certificates and requests of its
own alone, and the request waits meanwhile: so many of one principal and so
many in all, each for a while. An answer is accepted on the link that the
question went to, once, and for the one request that it was asked for (A30).
What it permits stands for one lease, at every verifier
(docs/decisions/one-time-tests.md). Nothing here survives a restart: the
verifier asks anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

from maia.credentials import (
    Principal,
    SignedCertificate,
    SignedStatement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.credentials.statements import NONCE_BYTES, BrokenStatement, OneTimeAnswer
from maia.errors import BrokenCredential, MaiaError, Refusal, Unavailable
from maia.events import INSTANT_MAX, Instant
from maia.validity import (
    Once,
    OneTimeQuestion,
    OpenQuestions,
    VouchedFor,
    one_time_tests,
    question_from_bytes,
    question_to_bytes,
)
from maia.wire.codec import encode
from maia.wire.effects import Count, Effect, LinkId, Send
from maia.wire.messages import Challenge, Vouched

CONNECTION: Final = 0
"""The reference by which a challenge names the right to connect; requests are numbered from 1."""
_SECOND: Final = 1_000_000
_Held = TypeVar("_Held")
_Held_co = TypeVar("_Held_co", covariant=True)


class NotVouchedFor(Refusal):
    """A certificate must be vouched for anew for each request, and the answers did not do that."""

    code = "REFUSED-NOT-VOUCHED-FOR"


class TooManyQuestions(Unavailable):
    """As many requests wait for one-time answers as may, of one principal or of all."""

    code = "UNAVAILABLE-ONE-TIME-QUOTA"


class QuestionNotOurs(Refusal):
    """A verifier asked about a certificate or a request that is not ours: no tester was asked."""

    code = "REFUSED-QUESTION"


# ------------------------------------------------------------ the verifier


class OneTimeLimits(Protocol):
    """How long a verifier waits for an answer, and for how many questions and requests at one time."""

    @property
    def one_time_s(self) -> int: ...
    @property
    def one_time_questions(self) -> int: ...
    @property
    def one_time_requests_per_principal(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Asked(Generic[_Held_co]):
    """What waits for one-time answers: whose request, on which link, about what.

    `about` tells what waits on one link apart; the peer knows it as `ref`.
    """

    principal: Principal
    link: LinkId
    about: Hashable
    ref: int
    digest: bytes = field(repr=False)
    waits: _Held_co


@dataclass(frozen=True, slots=True)
class OpenChallenge(Generic[_Held_co]):
    """The questions that a peer was sent, and how long their answers are waited for."""

    id: int
    asked: Asked[_Held_co]
    questions: tuple[OneTimeQuestion, ...] = field(repr=False)
    seconds: int
    until: Instant

    def effects(self) -> list[Effect]:
        """Return what sends the challenge to the peer."""
        questions = [question_to_bytes(question) for question in self.questions]
        message = Challenge(self.id, self.asked.ref, self.seconds, questions)
        return [Send(self.asked.link, encode(message)), Count("maia_challenges_total")]


@dataclass(frozen=True, slots=True)
class Checked(Generic[_Held_co]):
    """What became of a challenge: what may stand on its answers, and the refusal if some are missing."""

    asked: Asked[_Held_co]
    vouched: VouchedFor | None
    missing: MaiaError | None
    problems: tuple[MaiaError, ...] = ()
    """What was wrong with answers that do not count."""

    def effects(self) -> list[Effect]:
        """Return what counts the answers that do not count."""
        return [
            Count("maia_statements_refused_total", labels={"code": problem.code}) for problem in self.problems
        ]


class ChallengeDesk(Generic[_Held]):
    """The challenges of one verifier that are open; one check stands for one lease."""

    __slots__ = (
        "_by_about",
        "_by_id",
        "_dues",
        "_lease_s",
        "_limits",
        "_made",
        "_of_principal",
        "_questions",
        "_random",
    )

    def __init__(self, limits: OneTimeLimits, *, lease_s: int, random: Callable[[int], bytes]) -> None:
        self._limits, self._lease_s, self._random = limits, lease_s, random
        self._questions = OpenQuestions(limit=limits.one_time_questions, patience=limits.one_time_s * _SECOND)
        self._by_id: dict[int, OpenChallenge[_Held]] = {}
        self._by_about: dict[tuple[LinkId, Hashable], int] = {}
        self._of_principal: Counter[Principal] = Counter()
        self._dues: list[int] = []  # a heap; challenges that were answered leave their moments behind
        self._made = 0

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def questions(self) -> int:
        return len(self._questions)

    def is_asked(self, link: LinkId, about: Hashable) -> bool:
        return (link, about) in self._by_about

    def next_due(self) -> Instant | None:
        """Return when a challenge may have been waited for long enough."""
        return Instant(self._dues[0]) if self._dues else None

    def ask(
        self, asked: Asked[_Held], wanted: Iterable[Once], now: Instant, *, seconds_max: int | None = None
    ) -> OpenChallenge[_Held]:
        """Open a challenge, in place of an earlier one about the same; refuse one too many."""
        self.drop(asked.link, asked.about)
        wanted = sorted(wanted, key=lambda one: (one[0], one[1].key))
        self._check_room(asked.principal, len(wanted))
        questions = [
            self._questions.ask(
                certificate, by, request=asked.digest, nonce=self._random(NONCE_BYTES), now=now
            )
            for certificate, by in wanted
        ]
        self._made += 1
        # Half a lease at most: the next check is asked for half way through the last one.
        seconds = min(self._limits.one_time_s, max(1, self._lease_s // 2))
        seconds = seconds if seconds_max is None else min(seconds, seconds_max)
        until = Instant(min(INSTANT_MAX, now + seconds * _SECOND))
        opened = OpenChallenge(self._made, asked, tuple(questions), seconds, until)
        self._by_id[opened.id] = opened
        self._by_about[asked.link, asked.about] = opened.id
        self._of_principal[asked.principal] += 1
        heappush(self._dues, until)
        return opened

    def _check_room(self, principal: Principal, questions: int) -> None:
        most = self._limits.one_time_requests_per_principal
        if self._of_principal[principal] >= most:
            raise TooManyQuestions(f"{most} of your requests wait to be vouched for already")
        if len(self._questions) + questions > self._limits.one_time_questions:
            raise TooManyQuestions("as many one-time answers are waited for as may be")

    def redeem(self, link: LinkId, message: Vouched, now: Instant) -> Checked[_Held] | None:
        """Close a challenge with what came as answers; None if it is not open on this link."""
        opened = self._by_id.get(message.id)
        if opened is None or opened.asked.link != link:
            return None
        own = {question.nonce for question in opened.questions}
        once: set[Once] = set()
        problems: list[MaiaError] = []
        for data in message.answers:
            try:
                once.add(self._spent(data, opened.asked.digest, own, now))
            except MaiaError as problem:
                problems.append(problem)
        self._close(opened)
        refused = NotVouchedFor(
            "a certificate of yours must be vouched for, for this very request, and was not"
        )
        missing = None if all((one.certificate, one.by) in once for one in opened.questions) else refused
        vouched = VouchedFor.for_a_lease(frozenset(once), now, self._lease_s)
        return Checked(opened.asked, vouched, missing, tuple(problems))

    def _spent(self, data: bytes, digest: bytes, own: set[bytes], now: Instant) -> Once:
        signed = statement_from_bytes(data)
        answer = signed.statement
        # The question of another peer stays open for that peer.
        if not isinstance(answer, OneTimeAnswer) or answer.nonce not in own:
            raise BrokenStatement(
                "STATEMENT-NOT-ASKED", "an answer is to another question than was asked here"
            )
        return self._questions.redeem(signed, now).spend(digest)

    def overdue(self, now: Instant) -> list[Checked[_Held]]:
        """Close the challenges that are waited for no longer."""
        if not self._dues or self._dues[0] > now:
            return []
        while self._dues and self._dues[0] <= now:
            heappop(self._dues)
        late = [one for one in self._by_id.values() if one.until <= now]
        for opened in late:
            self._close(opened)
        missing = Unavailable(
            "UNAVAILABLE-NOT-VOUCHED-FOR",
            "no tester vouched in time for a certificate of yours that demands it",
        )
        return [Checked(opened.asked, None, missing) for opened in late]

    def drop(self, link: LinkId, about: Hashable) -> None:
        """Forget a challenge: what waited for it is gone, or asked for anew."""
        number = self._by_about.get((link, about))
        if number is not None:
            self._close(self._by_id[number])

    def forget_link(self, link: LinkId) -> None:
        for opened in [one for one in self._by_id.values() if one.asked.link == link]:
            self._close(opened)

    def _close(self, opened: OpenChallenge[_Held]) -> None:
        asked = opened.asked
        del self._by_id[opened.id]
        del self._by_about[asked.link, asked.about]
        self._questions.close(opened.questions)
        self._of_principal[asked.principal] -= 1
        if not self._of_principal[asked.principal]:
            del self._of_principal[asked.principal]


# ------------------------------------------------------------ the peer that is asked

OwnQuestions: TypeAlias = tuple[tuple[OneTimeQuestion, SignedCertificate], ...]
"""Questions, each with the certificate that it is about: this says where its testers can be asked."""


@dataclass(frozen=True, slots=True)
class Challenged:
    """A verifier waits, so many seconds, for answers to these questions before it decides about `ref`.

    The application has them answered, and `vouch` brings the answers. `is_standing` says that the
    request was accepted before: it is worth trying again where a tester does not answer.
    """

    id: int
    ref: int
    seconds: int
    questions: OwnQuestions = field(repr=False)
    is_standing: bool


class OwnChallenges:
    """The challenges of one link that we have not answered yet: of each reference the latest."""

    __slots__ = ("_open", "_problems")

    def __init__(self) -> None:
        self._open: dict[int, Challenge] = {}
        self._problems: dict[int, MaiaError] = {}

    def __contains__(self, number: int) -> bool:
        """Return whether the verifier waits for the answers to this challenge."""
        return number in self._open

    def open(
        self,
        number: int,
        message: Challenge,
        digest: bytes,
        find: Callable[[bytes], SignedCertificate | None],
        *,
        is_standing: bool,
    ) -> Challenged:
        """Return what has to be answered; raise if a question is not about our request and certificates.

        `digest` names our request; `find` returns the certificate of an id, if it is ours.
        """
        self.forget(message.ref)
        questions = tuple(_own_question(data, digest, find) for data in message.questions)
        self._open[number] = message
        return Challenged(number, message.ref, int(message.seconds), questions, is_standing)

    def answer(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None = None
    ) -> Vouched | None:
        """Return the message that brings answers, if the verifier still waits for them.

        `problem` is why there are fewer than were asked for.
        """
        message = self._open.pop(number, None)
        if message is None:
            return None
        if problem is not None:
            self._problems[message.ref] = problem
        return Vouched(message.id, [statement_to_bytes(signed) for signed in answers])

    def is_open(self, ref: int) -> bool:
        """Return whether the verifier waits for answers before it decides about `ref`."""
        return any(message.ref == ref for message in self._open.values())

    def reason(self, ref: int, code: str) -> MaiaError | None:
        """Return why no tester vouched, if that is the `code` of a refusal: it is known better here."""
        known = self._problems.pop(ref, None)
        return known if code == NotVouchedFor.code else None

    def forget(self, ref: int) -> None:
        """Have nothing answered about `ref` any more."""
        self._problems.pop(ref, None)
        self._open = {number: message for number, message in self._open.items() if message.ref != ref}

    def clear(self) -> None:
        """Forget everything: the link is gone."""
        self._open.clear()
        self._problems.clear()


def _own_question(
    data: bytes, digest: bytes, find: Callable[[bytes], SignedCertificate | None]
) -> tuple[OneTimeQuestion, SignedCertificate]:
    try:
        question = question_from_bytes(data)
    except BrokenCredential as problem:
        raise QuestionNotOurs(problem.message) from problem
    signed = find(question.certificate)
    if signed is None or (signed.id, question.by) not in one_time_tests(signed):
        raise QuestionNotOurs("we are asked about a certificate that demands no such answer, or is not ours")
    if question.request != digest:
        raise QuestionNotOurs("we are asked about another request than our own")
    return question, signed
