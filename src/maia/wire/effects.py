"""What can happen to a node, and what can it ask for?

A broker and a client are values: `handle(input, now)` returns effects, and
does nothing else. The asyncio runtime performs the effects over TLS; the
simulated runtime performs them in one process from one seed. Neither can tell
which of the two it runs in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NewType, TypeAlias

import msgspec

from maia.credentials import Principal
from maia.credentials.identity import VerifiedIdentity
from maia.events import INSTANT_MIN, Instant

LinkId = NewType("LinkId", int)
"""One connection of this node; never used again after it closed."""


# Structs: a busy node makes several for each message, and a frozen dataclass takes five times as long.
class _QuietlyPrinted(msgspec.Struct, frozen=True):
    """Prints its first field alone: the other one is bytes that belong in no log."""

    def __repr__(self) -> str:
        """Return what a person may see of it."""
        first = self.__struct_fields__[0]
        return f"{type(self).__name__}({first}={getattr(self, first)!r})"


class LinkOpened(msgspec.Struct, frozen=True):
    """A connection is open, and `peer` has proved its key in the handshake of the transport.

    `dialled` is the address that this node dialled, or None if the peer dialled us.
    `remote` is the host that the peer dialled from, where the transport knows it.
    `identity` is the statement by which a statement link was opened; a TLS link has none.
    """

    link: LinkId
    peer: Principal
    dialled: str | None
    remote: str | None = None
    identity: VerifiedIdentity | None = None


class LinkClosed(msgspec.Struct, frozen=True):
    """A connection has ended, by either side."""

    link: LinkId


class Received(_QuietlyPrinted, frozen=True):
    """One whole message arrived, within the size limit that held for this link."""

    link: LinkId
    data: bytes


class DialFailed(msgspec.Struct, frozen=True):
    """No node answered at an address, or not with a valid handshake."""

    address: str
    why: str = ""
    """The reason, for people; empty if it is not known."""


class Tick(msgspec.Struct, frozen=True):
    """The moment that was asked for with `WakeAt` has come, or a little later."""


class Recorded(msgspec.Struct, frozen=True):
    """Every frame that was to be recorded up to this position is safe; `problem`: why no more is, for now."""

    upto: int
    problem: str = ""


class Kept(msgspec.Struct, frozen=True):
    """All that was to be kept is safe again; `problem`: why nothing is, for now."""

    problem: str = ""


class Logged(msgspec.Struct, frozen=True):
    """One frame of the event log: its position, when it was recorded, and its bytes on the wire."""

    position: int
    recorded_at: Instant
    data: bytes

    def __repr__(self) -> str:
        """Return its place alone: the bytes belong in no log."""
        return f"Logged(position={self.position})"


@dataclass(frozen=True, slots=True)
class LogAtStart:
    """What a broker knows of its event log when it starts."""

    next_position: int = 1
    """Where the next frame goes."""
    recent: Iterable[Logged] = field(default=(), repr=False)
    """Frames that were recorded since the memory of publications was last kept, oldest first."""


class LogRead(msgspec.Struct, frozen=True):
    """What `ReadLog` found: frames in order, and how far the log was looked through for them.

    `removed_upto` is the last position at which retention has removed a frame of this type, 0 for none.
    `problem` is the code of what is wrong with the log, if it could not be read any further.
    """

    read: int
    frames: tuple[Logged, ...]
    upto: int
    removed_upto: int
    problem: str | None = None


Input: TypeAlias = LinkOpened | LinkClosed | Received | DialFailed | Tick | Recorded | LogRead | Kept


class Send(_QuietlyPrinted, frozen=True, gc=False):
    """Send one message. The same bytes object may go to many links."""

    link: LinkId
    data: bytes


class Close(msgspec.Struct, frozen=True):
    """Send what is queued, then close the link; `code` goes to the log."""

    link: LinkId
    code: str


class ReadLater(msgspec.Struct, frozen=True):
    """Take nothing more from a link until this moment: what its peer says meanwhile waits in TCP."""

    link: LinkId
    until: Instant


class Dial(msgspec.Struct, frozen=True):
    """Open a connection to an address such as `127.0.0.1:7400`."""

    address: str


class WakeAt(msgspec.Struct, frozen=True):
    """Send a `Tick` at this moment; the earliest request counts."""

    at: Instant


class Keep(_QuietlyPrinted, frozen=True):
    """Keep `data` under `name` across restarts; None forgets it. Done before the next input.

    Whoever is at `link` may rely on it as soon as it is answered: where nothing can be kept, it is not.
    """

    name: str
    data: bytes | None
    link: LinkId | None = None


class Record(_QuietlyPrinted, frozen=True):
    """Append a frame to the event log at this position; `Recorded` follows when it is safe.

    Positions grow by one from the first that the node started with. Frames of one turn are written together.
    """

    position: int
    data: bytes


class Disclose(_QuietlyPrinted, frozen=True):
    """Put a delivery on record in the ledger; done before anything is sent that was asked for with it.

    The first entry that `begins` counts numbers anew starts a new file.
    """

    begins: bool
    data: bytes


class ReadLog(msgspec.Struct, frozen=True):
    """Read frames of a type from a position on, at most so many frames and about so many bytes.

    `LogRead` follows, with the same number. Nothing behind `upto` is looked at. What was recorded
    before `since` may be left out.
    """

    read: int
    type_id: bytes
    first: int
    upto: int
    frames_max: int
    bytes_max: int
    since: int = INSTANT_MIN


class Note(msgspec.Struct, frozen=True):
    """Write one line to the log: an event with named fields, never a secret, never per event."""

    event: str
    fields: Mapping[str, object]


class Count(msgspec.Struct, frozen=True, gc=False):
    """Add to a metric."""

    name: str
    amount: int = 1
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)


Effect: TypeAlias = (
    Send | Close | ReadLater | Dial | WakeAt | Keep | Note | Count | Record | ReadLog | Disclose
)
