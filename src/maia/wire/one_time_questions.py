"""What does a verifier want to have vouched for, and is that ours to ask for?

A certificate may demand that its tester vouches for it anew for each request
(dissertation 6.2.3). A broker or a key server puts the questions, and whoever
made the request has them answered: those about certificates of its own, by
the testers that these name, for the request that it has made itself, and no
others. The digest of that request stands in every question.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from maia.credentials import SignedCertificate
from maia.credentials.validity.one_time import OneTimeQuestion, question_from_bytes
from maia.credentials.validity.one_time_answers import one_time_tests
from maia.errors import BrokenCredential, Refusal
from maia.wire.messages import Challenge

__all__ = ["Challenged", "OwnQuestions", "QuestionNotOurs", "own_questions"]

OwnQuestions: TypeAlias = tuple[tuple[OneTimeQuestion, SignedCertificate], ...]
"""Questions, each with the certificate that it is about: this says where its testers can be asked."""


class QuestionNotOurs(Refusal):
    """Somebody asked to have something vouched for that is not ours: nobody was asked for it."""

    code = "REFUSED-QUESTION"


@dataclass(frozen=True, slots=True)
class Challenged:
    """A verifier waits, so many seconds, for answers to these questions before it decides about `ref`.

    Whoever gets this has them answered, and `vouch` brings the answers.
    `is_standing` says that the request was accepted before: it is worth trying
    again where a tester does not answer.
    """

    id: int
    ref: int
    seconds: int
    questions: OwnQuestions = field(repr=False)
    is_standing: bool


def own_questions(
    message: Challenge, digest: bytes, find: Callable[[bytes], SignedCertificate | None]
) -> OwnQuestions:
    """Return the questions of a challenge; raise if one is not about our request and certificates.

    `find` returns the certificate of an id, if it is ours.
    """
    return tuple(_checked(data, digest, find) for data in message.questions)


def _checked(
    data: bytes, digest: bytes, find: Callable[[bytes], SignedCertificate | None]
) -> tuple[OneTimeQuestion, SignedCertificate]:
    question = _read(data)
    signed = find(question.certificate)
    if signed is None or (signed.id, question.by) not in one_time_tests(signed):
        raise QuestionNotOurs("we are asked about a certificate that nobody has to vouch for")
    if question.request != digest:
        raise QuestionNotOurs("we are asked about another request than our own")
    return question, signed


def _read(data: bytes) -> OneTimeQuestion:
    try:
        return question_from_bytes(data)
    except BrokenCredential as problem:
        raise QuestionNotOurs(problem.message) from problem
