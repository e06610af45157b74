"""What can happen to a node, and what can it ask for?

A broker and a client are values: `handle(input, now)` returns effects, and
does nothing else. The asyncio runtime performs the effects over TLS; the
simulated runtime performs them in one process from one seed. Neither can tell
which of the two it runs in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

from maia.credentials import Principal
from maia.events import Instant

__all__ = [
    "Close",
    "Count",
    "Dial",
    "DialFailed",
    "Effect",
    "Input",
    "Keep",
    "LinkClosed",
    "LinkId",
    "LinkOpened",
    "Note",
    "Received",
    "Send",
    "Tick",
    "WakeAt",
]

LinkId = NewType("LinkId", int)
"""One connection of this node; never used again after it closed."""


@dataclass(frozen=True, slots=True)
class LinkOpened:
    """A connection stands, and `peer` has proved its key in the handshake of the transport.

    `dialled` is the address that this node dialled, or None if the peer dialled us.
    """

    link: LinkId
    peer: Principal
    dialled: str | None


@dataclass(frozen=True, slots=True)
class LinkClosed:
    """A connection is gone, whoever ended it."""

    link: LinkId


@dataclass(frozen=True, slots=True)
class Received:
    """One whole message arrived, within the size limit that held for this link."""

    link: LinkId
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DialFailed:
    """Nobody answered at an address, or not with a valid handshake."""

    address: str


@dataclass(frozen=True, slots=True)
class Tick:
    """The moment that was asked for with `WakeAt` has come, or a little later."""


Input: TypeAlias = LinkOpened | LinkClosed | Received | DialFailed | Tick


@dataclass(frozen=True, slots=True)
class Send:
    """Send one message. The same bytes object may go to many links."""

    link: LinkId
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Close:
    """Send what is queued, then close the link; `code` goes to the log."""

    link: LinkId
    code: str


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection to an address such as `127.0.0.1:7400`."""

    address: str


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a `Tick` at this moment; the earliest request counts."""

    at: Instant


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep `data` under `name` across restarts; None forgets it. Done before the next input."""

    name: str
    data: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Note:
    """Write one line to the log: an event with named fields, never a secret, never per event."""

    event: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Count:
    """Add to a metric."""

    name: str
    amount: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)


Effect: TypeAlias = Send | Close | Dial | WakeAt | Keep | Note | Count
