"""What speaks for and against certificates, and what does that change?"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from maia.wire.message_fields import (
    AnyMessage,
    Code,
    Credentials,
    Moment,
    Number,
    StatementBytes,
    Text,
)

__all__ = [
    "Changed",
    "Show",
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
