"""What does a client want to stand at its broker, and how far is each of it?

An entry outlives links: its reference and its stream stay the same when the
client reconnects, and the numbers of its frames go on.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from maia.client.duplicates import SeenFrames
from maia.client.known_types import KnownVersion
from maia.credentials import Action
from maia.errors import BadInput, MaiaError
from maia.events import Instant
from maia.predicates import Predicate

__all__ = ["Advertised", "BadNumbering", "RequestEntry", "EntryStage", "Numbering", "Subscribed"]

_STREAM_BYTES: Final = 16
_NUMBER_MAX: Final = 2**63 - 1


class BadNumbering(BadInput):
    """A stream has another size than streams have, or a number is none that a frame may bear."""

    code = "INPUT-NUMBERING"


@dataclass(frozen=True, slots=True)
class Numbering:
    """How a publisher's frames are told apart: by their stream, and by numbers that grow.

    A publisher that may have to say the same thing twice chooses both itself,
    and the network takes the second time for what it is.
    """

    stream: bytes
    first: int = 0

    def __post_init__(self) -> None:
        """Refuse what does not fit into a message."""
        if len(self.stream) != _STREAM_BYTES or not 0 <= self.first <= _NUMBER_MAX:
            raise BadNumbering(f"a stream has {_STREAM_BYTES} bytes, and its numbers begin at 0 or later")


class EntryStage(Enum):
    """How far a request has come on the present link."""

    WAITING = "waiting"
    """Not asked for on this link yet."""
    ASKED = "asked"
    STANDS = "stands"
    WITHDRAWING = "withdrawing"


@dataclass(slots=True)
class RequestEntry:
    """Something to be asked for again and again, for as long as the application wants it."""

    ref: int
    known: KnownVersion = field(repr=False)
    filter: Predicate = field(repr=False)
    stream: bytes
    stage: EntryStage = EntryStage.WAITING
    was_accepted: bool = False
    is_renewing: bool = False
    hands_over: bool = True
    """Whether the next request hands the definitions over."""
    failures: int = 0
    problem: MaiaError | None = field(default=None, repr=False)
    """Why it was last put off."""
    is_warned: bool = False
    """Whether the broker has said that it cannot be served at this moment."""
    asked_at: Instant | None = None
    asked: bytes = field(default=b"", repr=False)
    """The digest of the latest request, signed at `asked_at`."""
    limit: MaiaError | None = field(default=None, repr=False)
    """That the latest request had no room for all certificates that speak for it, if that is so."""

    @property
    def action(self) -> Action:
        """Return what the request asks for."""
        return Action.SUBSCRIBE


@dataclass(slots=True)
class Subscribed(RequestEntry):
    """A subscription, and which frames its application has had."""

    seen: SeenFrames = field(default_factory=lambda: SeenFrames(1), repr=False)
    durable: str | None = None
    """The name of its cursor, if what was missed is to come later."""
    arrived: int | None = None
    """The position of the last recorded frame that was handed to the application."""
    acknowledged: int = 0
    wants_state: bool = False
    """Whether it asks for the present state whenever it stands anew."""
    state_asked: int | None = None
    """The number of the question that was not answered yet."""


@dataclass(slots=True)
class Advertised(RequestEntry):
    """An advertisement, and the frames that the broker has not answered for."""

    next_sequence: int = 0
    under_way: OrderedDict[int, bytes] = field(default_factory=OrderedDict, repr=False)

    @property
    def action(self) -> Action:
        """Return what the request asks for."""
        return Action.PUBLISH
