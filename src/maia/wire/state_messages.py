"""How is it asked and told what publishers said last?"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from maia.wire.message_fields import (
    AnyMessage,
    Digest,
    Key,
    Number,
    Token,
)

__all__ = [
    "AskState",
    "StateDone",
    "StateFrame",
    "StateGone",
    "StateQuery",
    "StateTold",
]


class AskState(AnyMessage, tag=84, frozen=True):
    """What is the present state, as far as the subscription `ref` shows it? Then wait for news."""

    id: Number
    ref: Number


class StateTold(AnyMessage, tag=85, frozen=True):
    """What is known of the state was delivered; `is_whole` says whether everybody has answered."""

    id: Number
    is_whole: bool


class StateQuery(AnyMessage, tag=86, frozen=True):
    """A broker asks the next one on the way to publishers: what did they say last?"""

    question: Token
    type_id: Digest


class StateFrame(AnyMessage, tag=87, frozen=True):
    """The last frame of one publisher, as a `Carried` or a `Sealed`, in answer to a question."""

    question: Token
    frame: Annotated[bytes, Meta(max_length=1 << 24)]


class StateDone(AnyMessage, tag=88, frozen=True):
    """That was all; `is_whole` says whether everybody behind has answered."""

    question: Token
    is_whole: bool


class StateGone(AnyMessage, tag=89, frozen=True):
    """What a publisher said last counts no more: its right was taken away."""

    type_id: Digest
    publisher: Key
    stream: Token
