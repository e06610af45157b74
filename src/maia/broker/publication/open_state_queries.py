"""Who waits to hear what was said last, and who has still to answer?"""

from __future__ import annotations

from dataclasses import dataclass

from maia.events import Instant
from maia.wire.effects import LinkId

__all__ = ["Client", "Question"]


@dataclass(frozen=True, slots=True)
class Client:
    """A subscriber that waits for an answer."""

    link: LinkId
    ref: int
    request: int


@dataclass(slots=True)
class Question:
    """A question about the state of a type that was not answered by everybody yet."""

    id: bytes
    type_id: bytes
    asker: Client | LinkId | None
    """A client, a neighbouring broker, or this broker itself."""
    waits_for: set[LinkId]
    until: Instant
    is_whole: bool = True
