"""What speaks for and against certificates, and what does that change?"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from maia.wire.message_fields import (
    AnswerBytes,
    AnyMessage,
    Code,
    Credentials,
    Moment,
    Number,
    QuestionBytes,
    StatementBytes,
    Text,
)

__all__ = [
    "Challenge",
    "Changed",
    "Show",
    "Vouched",
]


class Show(AnyMessage, tag=80, frozen=True):
    """These certificates speak for me too; these statements say which certificates still count.

    On a ready link, what stands there is decided again, and `Accepted` follows
    under this number. Before that, statements alone are shown, for the
    certificates of the greeting or hello that comes next.
    """

    id: Number
    certificates: Credentials
    statements: Annotated[list[StatementBytes], Meta(max_length=64)]


class Changed(AnyMessage, tag=83, frozen=True):
    """What stands under `ref` rests on another right from now on, and may show less, or more."""

    ref: Number
    until: Moment | None
    code: Code
    message: Text


class Challenge(AnyMessage, tag=90, frozen=True):
    """A broker: I decide about `ref` when these questions are answered, and wait so many seconds for that.

    The client has its certificates' testers answer them. A challenge takes the place of an earlier one for
    the same reference.
    """

    id: Number
    ref: Number
    seconds: Number
    questions: Annotated[list[QuestionBytes], Meta(min_length=1, max_length=64)]


class Vouched(AnyMessage, tag=91, frozen=True):
    """A client: here are the signed answers to a challenge, as many as there are; none if nobody vouches."""

    id: Number
    answers: Annotated[list[AnswerBytes], Meta(max_length=64)]
