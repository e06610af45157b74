"""What does a broker want to have vouched for, and is that ours to ask for?

A certificate may demand that its tester vouches for it anew for each request
(dissertation 6.2.3). The broker puts the questions, and the client has them
answered: those about certificates of its own, by the testers that these name,
for the request that it has made itself, and no others. A question belongs to
the link that it came on; what is answered later answers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from maia.client.entries import Entry, EntryStage
from maia.client.notices import Challenged
from maia.client.problems import QuestionNotOurs
from maia.client.wallet import Wallet
from maia.credentials import Principal, SignedCertificate, SignedStatement, TestKind, statement_to_bytes
from maia.credentials.one_time import OneTimeQuestion, question_from_bytes
from maia.errors import BrokenCredential, MaiaError
from maia.policy import Request, request_digest
from maia.wire.codec import encode
from maia.wire.messages import Challenge, Vouched

__all__ = ["CONNECTING", "NOT_VOUCHED_FOR", "Challenges"]

CONNECTING: Final = 0
"""The reference by which a broker asks about the right to connect."""

NOT_VOUCHED_FOR: Final = "REFUSED-NOT-VOUCHED-FOR"
"""What a broker says when the answers that it was brought did not do."""


class Challenges:
    """The challenges of the present link that are not answered yet: of each entry the latest."""

    __slots__ = ("_open", "_principal", "_problems", "_wallet")

    def __init__(self, principal: Principal, wallet: Wallet) -> None:
        """Begin with nothing asked."""
        self._principal, self._wallet = principal, wallet
        self._open: dict[int, Challenge] = {}
        self._problems: dict[int, MaiaError] = {}

    def ask(self, number: int, entry: Entry, message: Challenge) -> Challenged:
        """Return what the application has to have answered; raise if one of it is not ours to ask for."""
        version = entry.known.event_type
        asked = Request(self._principal, entry.action, version.name, version, entry.filter)
        is_standing = entry.stage is EntryStage.STANDS or entry.was_accepted
        return self.ask_for(number, asked, message, is_standing=is_standing)

    def ask_for(self, number: int, asked: Request, message: Challenge, *, is_standing: bool) -> Challenged:
        """Return what the application has to have answered about a request of its own."""
        self.forget(message.ref)
        questions = [self._checked(asked, data) for data in message.questions]
        self._open[number] = message
        return Challenged(number, message.ref, int(message.seconds), tuple(questions), is_standing)

    def answer(
        self, number: int, answers: Iterable[SignedStatement], problem: MaiaError | None
    ) -> list[bytes]:
        """Return the message that brings answers, if anybody waits for them still."""
        message = self._open.pop(number, None)
        if message is None:
            return []
        if problem is not None:
            self._problems[message.ref] = problem
        return [encode(Vouched(message.id, [statement_to_bytes(signed) for signed in answers]))]

    def waits(self, ref: int) -> bool:
        """Say whether a broker waits for answers before it decides about an entry."""
        return any(message.ref == ref for message in self._open.values())

    def reason(self, ref: int, problem: MaiaError) -> MaiaError:
        """Return why nobody vouched, which the client knows better than the broker that says so."""
        known = self._problems.pop(ref, None)
        return problem if known is None or problem.code != NOT_VOUCHED_FOR else known

    def forget(self, ref: int) -> None:
        """Have nothing answered for an entry any more."""
        self._problems.pop(ref, None)
        self._open = {number: message for number, message in self._open.items() if message.ref != ref}

    def clear(self) -> None:
        """Forget everything: the link is gone."""
        self._open.clear()
        self._problems.clear()

    def _checked(self, asked: Request, data: bytes) -> tuple[OneTimeQuestion, SignedCertificate]:
        question = _read(data)
        signed = self._wallet.find(question.certificate)
        if signed is None or question.by not in _one_time_testers(signed):
            raise QuestionNotOurs("the broker asks about a certificate that nobody has to vouch for")
        if question.request != request_digest(asked):
            raise QuestionNotOurs("the broker asks about another request than this client's own")
        return question, signed


def _read(data: bytes) -> OneTimeQuestion:
    try:
        return question_from_bytes(data)
    except BrokenCredential as problem:
        raise QuestionNotOurs(problem.message) from problem


def _one_time_testers(signed: SignedCertificate) -> list[Principal]:
    return [test.by for test in signed.certificate.validity.tests if test.kind is TestKind.ONE_TIME]
