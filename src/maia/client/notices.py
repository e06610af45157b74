"""Which notices does a session give its application?

The application takes these after each input. Nothing in them is a promise of
the transport: each is what a broker said, checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from maia.client.authors import PublishedBy
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.events import Frame, Instant
from maia.policy.endings import EndsSoon
from maia.sessions.challenges import Challenged

__all__ = [
    "Challenged",
    "Changed",
    "Connected",
    "Delivered",
    "Disconnected",
    "Ended",
    "GapDetected",
    "Notice",
    "PutOff",
    "RightEnds",
    "CredentialsAdded",
    "Accepted",
    "StateKnown",
    "Acknowledged",
    "TypeReceived",
    "Warned",
    "Withdrawn",
]


@dataclass(frozen=True, slots=True)
class Connected:
    """A broker has shown its right to connect and has accepted ours."""

    broker: Principal


@dataclass(frozen=True, slots=True)
class Disconnected:
    """There is no broker now; `problem` says why, and whether trying again can help."""

    problem: MaiaError
    is_final: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """A request was accepted for the first time, or again after a reconnection."""

    ref: int
    until: Instant | None


@dataclass(frozen=True, slots=True)
class StateKnown:
    """What was said last was delivered; `is_whole` says whether every publisher's side has answered."""

    ref: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """A request was refused, or what it had achieved has ended for good."""

    ref: int
    problem: MaiaError


@dataclass(frozen=True, slots=True)
class Changed:
    """An accepted request depends on another right now, and may show less, or more; `problem` says why."""

    ref: int
    until: Instant | None
    problem: MaiaError


@dataclass(frozen=True, slots=True)
class Warned:
    """An accepted request cannot be served at this moment, and why; with no `problem`, it can again."""

    ref: int
    problem: MaiaError | None


@dataclass(frozen=True, slots=True)
class RightEnds:
    """A certificate of the client's ends soon, and no newer one grants the same; `problem` says which."""

    problem: EndsSoon


@dataclass(frozen=True, slots=True)
class PutOff:
    """The broker cannot do now what it was asked for, and why; it will be asked again."""

    ref: int
    problem: MaiaError


@dataclass(frozen=True, slots=True)
class CredentialsAdded:
    """The broker has received certificates and statements, and rechecked accepted requests."""

    id: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The broker has taken back what it was asked to take back."""

    ref: int


class Acknowledged(msgspec.Struct, frozen=True):
    """The broker has taken on every frame up to `sequence`; so many more rows were refused."""

    ref: int
    sequence: int
    refused_rows: int


class Delivered(msgspec.Struct, frozen=True):
    """Events for some subscriptions, each frame once for each of them."""

    refs: tuple[int, ...]
    publisher: Principal
    stream: bytes
    """What tells the streams of a publisher apart; it names none of them to the network."""
    label: bytes
    """What this frame is recognised by when it comes again; labels do not count frames."""
    published_at: Instant
    frame: Frame
    position: bytes | None = None
    """Where to go on behind this frame, if the subscription is durable: only its broker can read it."""
    by: PublishedBy | None = None
    """What came along about the publisher; None if nothing did."""
    size: int = 0
    """About how many bytes of memory it takes."""
    is_late: bool = False
    """Whether later ones of its publisher's stream came before: it was missing there, and was found since."""

    def __repr__(self) -> str:
        """Return whose it is, and none of its values."""
        return f"Delivered(refs={self.refs!r}, publisher={self.publisher!r}, label={self.label!r})"


@dataclass(frozen=True, slots=True)
class GapDetected:
    """The broker's event log is not whole up to this position: something may have been lost, and why."""

    ref: int
    position: bytes
    problem: MaiaError


@dataclass(frozen=True, slots=True)
class TypeReceived:
    """The broker's answer to a question about a type: signed definitions, which are not verified."""

    id: int
    definitions: tuple[bytes, ...] = field(repr=False)


Notice: TypeAlias = (
    Connected
    | Disconnected
    | Accepted
    | StateKnown
    | Ended
    | Changed
    | Warned
    | RightEnds
    | PutOff
    | Challenged
    | CredentialsAdded
    | Withdrawn
    | Acknowledged
    | Delivered
    | GapDetected
    | TypeReceived
)
