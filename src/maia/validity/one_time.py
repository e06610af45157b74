"""Does the tester confirm this certificate now, for this very request?

A one-time revalidation has no period: the verifier itself asks, with a number
that cannot be guessed, and the answer is good for one authorisation and no
other (dissertation 6.2.3). A verifier keeps its open questions here. An
answer is accepted while its question is open, once, and only for the
certificate, the request and the tester that the question named.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, final

from maia.canonical import Limits, read_canonical, write_canonical
from maia.canonical.fields import octets, one, record
from maia.credentials.certificate import SignedCertificate, Validity
from maia.credentials.chains.chain import VerifiedChain
from maia.credentials.documents import KEY
from maia.credentials.keys import Principal, SigningKey
from maia.credentials.statements import (
    ID_BYTES,
    NONCE_BYTES,
    BadStatement,
    BrokenStatement,
    OneTimeAnswer,
    SignedStatement,
    check_statement,
    sign_statement,
)
from maia.errors import BadInput, BrokenCredential, Unavailable
from maia.events import INSTANT_MAX, SECOND, Instant
from maia.validity.monitor import Once, one_time_tests

QUESTIONS_MAX: Final = 4096
PATIENCE: Final = 30 * 1_000_000
"""How many microseconds a question stays open."""

_LIMITS: Final = Limits(size_max=512, depth_max=4, atom_max=64)
_SEAL: Final = object()


@dataclass(frozen=True, slots=True)
class OneTimeQuestion:
    """Does `by` confirm `certificate`, for the request of this digest? `nonce` makes it one question."""

    by: Principal
    certificate: bytes
    request: bytes
    nonce: bytes

    def __post_init__(self) -> None:
        """Refuse what cannot be answered."""
        if len(self.certificate) != ID_BYTES or len(self.request) != ID_BYTES:
            raise BadStatement(f"a certificate and a request are named by {ID_BYTES} bytes each")
        if len(self.nonce) != NONCE_BYTES:
            raise BadStatement(f"a nonce has {NONCE_BYTES} bytes")


_WRONG: Final = (BadStatement, "a field of the question is missing, unknown, repeated or out of order")
_OCTETS: Final = one(octets(0, _LIMITS.atom_max, _WRONG))
_QUESTION: Final = record(
    b"one-time-question",
    OneTimeQuestion,
    _WRONG,
    version_of="question",
    by=one(KEY),
    certificate=_OCTETS,
    request=_OCTETS,
    nonce=_OCTETS,
)


def question_to_bytes(question: OneTimeQuestion) -> bytes:
    """Return the bytes in which a question travels; it is not signed, for it says nothing."""
    return write_canonical(_QUESTION.write(question))


def question_from_bytes(data: bytes) -> OneTimeQuestion:
    """Read a question, strictly."""
    try:
        return _QUESTION.read(read_canonical(data, _LIMITS))
    except BadStatement:
        raise
    except (BadInput, BrokenCredential) as problem:
        raise BadStatement(f"the question cannot be read: {problem.message}") from problem


def answer_question(question: OneTimeQuestion, key: SigningKey) -> SignedStatement:
    """Vouch for the certificate that a question names; whether to do so is for the caller to know."""
    said = OneTimeAnswer(question.by, question.certificate, question.request, question.nonce)
    return sign_statement(said, key)


@final
class Revalidated:
    """The proof that an open question was answered; it can be spent once. Only `OpenQuestions` makes one."""

    __slots__ = ("_is_spent", "by", "certificate", "request")

    def __init__(self, question: OneTimeQuestion, seal: object) -> None:
        """Refuse to be built elsewhere."""
        if seal is not _SEAL:
            raise TypeError("only OpenQuestions.redeem makes a Revalidated")
        self.by, self.certificate, self.request = question.by, question.certificate, question.request
        self._is_spent = False

    def spend(self, request: bytes) -> tuple[bytes, Principal]:
        """Return the certificate and its tester, for the request asked about, and never again."""
        if self._is_spent:
            raise BrokenStatement("STATEMENT-NOT-ASKED", "a one-time answer was used before")
        self._is_spent = True
        if request != self.request:
            raise BrokenStatement("STATEMENT-NOT-ASKED", "a one-time answer is about another request")
        return self.certificate, self.by


class OpenQuestions:
    """The questions that this verifier has asked and that are not answered yet."""

    __slots__ = ("_limit", "_open", "_patience")

    def __init__(self, *, limit: int = QUESTIONS_MAX, patience: int = PATIENCE) -> None:
        """Keep at most `limit` questions open, each for `patience` microseconds."""
        self._limit, self._patience = limit, patience
        self._open: OrderedDict[bytes, tuple[OneTimeQuestion, Instant]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many questions are open."""
        return len(self._open)

    def ask(
        self, certificate: bytes, by: Principal, *, request: bytes, nonce: bytes, now: Instant
    ) -> OneTimeQuestion:
        """Open a question; `nonce` is fresh from a secure random source."""
        self._forget(now)
        if nonce in self._open:
            raise BadStatement("a nonce must be drawn anew for every question")
        if len(self._open) >= self._limit:
            raise Unavailable(
                "UNAVAILABLE-STANDING-FULL",
                f"{self._limit} one-time questions are open, and there is no room for more",
            )
        question = OneTimeQuestion(by, certificate, request, nonce)
        self._open[nonce] = (question, now)
        return question

    def redeem(self, signed: SignedStatement, now: Instant) -> Revalidated:
        """Accept the answer to an open question, and close it; refuse every other answer."""
        self._forget(now)
        answer = signed.statement
        if not isinstance(answer, OneTimeAnswer):
            raise BadStatement("a statement with a number answers no question")
        question, _ = self._open.get(answer.nonce, (None, now))
        asked = None if question is None else (question.by, question.certificate, question.request)
        if question is None or asked != (answer.by, answer.certificate, answer.request):
            raise BrokenStatement("STATEMENT-NOT-ASKED", "no question that is open is answered by this")
        check_statement(signed)
        del self._open[answer.nonce]
        return Revalidated(question, _SEAL)

    def close(self, questions: Iterable[OneTimeQuestion]) -> None:
        """Wait for the answers to these no longer."""
        for question in questions:
            self._open.pop(question.nonce, None)

    def _forget(self, now: Instant) -> None:
        """Close what was asked too long ago, and after a step back of the clock whatever seems to come."""
        late = [nonce for nonce, (_, at) in self._open.items() if not at <= now <= at + self._patience]
        for nonce in late:
            del self._open[nonce]


# What one-time answers permit, and for how long.


NO_ANSWERS: Final[frozenset[Once]] = frozenset()


@dataclass(frozen=True, slots=True)
class VouchedFor:
    """The testers that confirmed certificates, for one authorisation, and how long it may last."""

    once: frozenset[Once] = field(repr=False)
    since: Instant
    ask_at: Instant
    """When it is asked for anew, so that the next answers come before these have served."""
    until: Instant

    @classmethod
    def for_a_lease(cls, once: frozenset[Once], now: Instant, lease_s: float) -> VouchedFor | None:
        """Return what answers permit that came now: something for one lease, or nothing."""
        if not once:
            return None
        lease = round(lease_s * SECOND)
        return cls(once, now, _later(now, lease // 2), _later(now, lease))

    @classmethod
    def assumed(
        cls, certificates: Iterable[SignedCertificate], now: Instant, until: Instant | None = None
    ) -> VouchedFor:
        """Return answers as if every tester had confirmed, up to a moment: for asking, never for deciding."""
        once = frozenset(one for signed in certificates for one in one_time_tests(signed))
        return cls(once, now, now, Instant(INSTANT_MAX) if until is None else until)

    @property
    def serves(self) -> Validity:
        """Return the period in which it counts; a clock that goes back does not extend it."""
        return Validity(self.since, self.until)

    def counting(self, at: Instant) -> frozenset[Once]:
        """Return the answers that count at a moment."""
        return self.once if self.since <= at <= self.until else NO_ANSWERS


def questions_for(chains: Iterable[VerifiedChain], most: int) -> frozenset[Once]:
    """Return whom to ask for the first chains, as long as there is room for a whole chain more."""
    chosen = NO_ANSWERS
    for chain in chains:
        tests = frozenset(one for signed in chain.certificates for one in one_time_tests(signed))
        if len(chosen | tests) <= most:
            chosen |= tests
    return chosen


def _later(now: Instant, microseconds: int) -> Instant:
    return Instant(min(INSTANT_MAX, now + microseconds))
