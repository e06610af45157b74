"""What does a ledger of disclosures say, and how is a change of it found?

A broker writes one record for each frame and group of subscribers that see the same,
however many events and subscribers these are; single events that it delivers in one turn
share a record, as the events of a frame do. What repeats is written once and
referred to by its number: who received on which certificates (`Ground`), which of them
together (`Audience`), which attributes (`Shown`). Numbers count from one again after each `Begin`.

    Begin  Ground 1  Audience 1 = [1]  Shown 1 = [3265, 3266]  Disclosed(audience 1, shown 1, rows 0-255)  ...

Where a read is spread over many processes, each task writes records as a part, a file of its own, and the
chain names the parts and their checks (`Part`).

Entries are chained: the check of each covers the check of the one before. An entry that was
edited, taken out or moved is found by everyone who has the files. To find that the last entries
are missing, somebody has to know a later check (`maia ledger head`).

There are no values of events in a ledger, and no filters: of a View it has the digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from maia.errors import BadInput
from maia.events import AttributeUid, Instant

FORMAT: Final = 1
CHECK_BYTES: Final = 32
ENTRY_BYTES_MAX: Final = 64 << 20
EVENTS_MAX: Final = 1 << 20
"""Single events in one record; more than one read of a link can have."""


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """From here on numbers count from one again."""

    format: int
    broker: bytes
    """The key of the broker that delivers."""
    run: bytes
    """Another one each time that the broker starts."""
    at: int


class Ground(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Who receives, and by which right: the certificates, and the digest of the View that they give."""

    number: int
    recipient: bytes
    type_id: bytes
    version: bytes
    """The id of the type definition whose attributes the recipient sees."""
    view: bytes
    certificates: tuple[bytes, ...]
    """The ids of the certificates that were relied on."""


class Audience(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Recipients that are given the same."""

    number: int
    grounds: tuple[int, ...]


class Shown(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Attributes that are shown together."""

    number: int
    attributes: tuple[str, ...]


class Disclosed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Some rows of one frame are delivered."""

    at: int
    audience: int
    shown: int
    publisher: bytes
    stream: bytes
    sequence: int
    rows: tuple[int, ...]
    """Pairs: the first row, and how many follow it."""


class Summarised(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """The frame that is disclosed next is no publisher's: the broker has made it of events of a period."""

    stream: bytes
    sequence: int
    begins: int
    ends: int
    events: int
    """How many events what is shown was made of."""


class Opened(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """From now on recipients read a table by themselves; what they read, each `TableRead` says."""

    at: int
    audience: int
    shown: int
    source: str
    """What they read: a table of a database."""
    until: int | None
    """When it ends by itself, if nothing else is written about it."""


class Closed(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A recipient reads a table no longer."""

    at: int
    recipient: bytes
    source: str


class DisclosedEvents(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Frames of one event each are delivered: what single events of one turn have in common, once."""

    at: int
    audience: int
    shown: int
    publisher: bytes
    stream: bytes
    sequences: list[int]
    """Pairs: the number of the first frame, and how many follow it."""


class TableRead(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """A recipient has read a table by itself."""

    at: int
    recipient: bytes
    source: str
    role: str
    """The database role whose session it was."""
    number: int
    """Reads of one source are counted; 0 for some whose transactions had not committed at that moment."""
    reads: int
    rows: int
    """How many rows its View showed it; its own conditions may have left some of them out."""
    ids: tuple[str, ...] | None = None
    """Which rows, where the owner of the table demands that."""


class Part(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """What one of many tasks has written, in a file of its own beside the chain; its numbers are its own."""

    name: str
    check: bytes


LedgerRecord: TypeAlias = (
    Begin
    | Ground
    | Audience
    | Shown
    | Disclosed
    | Summarised
    | Opened
    | Closed
    | DisclosedEvents
    | TableRead
    | Part
)

_DECODER: Final = msgspec.msgpack.Decoder(list[LedgerRecord])
_ENCODER: Final = msgspec.msgpack.Encoder()


def records_to_bytes(records: Sequence[LedgerRecord]) -> bytes:
    """Return the bytes of one entry."""
    return _ENCODER.encode(records)


def records_from_bytes(data: bytes) -> list[LedgerRecord]:
    """Read one entry; its check is compared by the caller."""
    if len(data) > ENTRY_BYTES_MAX:
        raise BadInput("INPUT-LEDGER", f"an entry has at most {ENTRY_BYTES_MAX} bytes")
    try:
        return _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadInput("INPUT-LEDGER", f"an entry cannot be read: {problem}") from problem


def check_after(before: bytes, entry: bytes) -> bytes:
    """Return the check of an entry that follows the one with the check `before`."""
    return sha256(before + entry).digest()


def to_ranges(rows: Sequence[int]) -> tuple[int, ...]:
    """Return row numbers, which grow, as pairs of the first and how many follow it."""
    if not rows:
        return ()
    if rows[-1] - rows[0] == len(rows) - 1:  # most frames are delivered whole: without a look at each row
        return rows[0], len(rows) - 1
    found: list[int] = []
    for row in rows:
        if found and row == found[-2] + found[-1] + 1:
            found[-1] += 1
        else:
            found += (row, 0)
    return tuple(found)


def from_ranges(ranges: Sequence[int]) -> Iterator[int]:
    """Yield the row numbers in pairs of the first and how many follow it."""
    for at in range(0, len(ranges), 2):
        yield from range(ranges[at], ranges[at] + ranges[at + 1] + 1)


# ------------------------------------------------------------ reading


@dataclass(frozen=True, slots=True)
class Disclosure:
    """One recipient was given some rows of one frame."""

    at: Instant
    broker: bytes
    recipient: bytes
    type_id: bytes
    version: bytes
    view: bytes
    certificates: tuple[bytes, ...]
    publisher: bytes
    stream: bytes
    sequence: int
    ranges: tuple[int, ...]
    attributes: tuple[AttributeUid, ...]
    summary: Summarised | None = None
    """What these events were made of, if the broker has made them: then the log has none of them."""

    @property
    def rows(self) -> int:
        """Return how many events these are."""
        return sum(self.ranges[1::2]) + len(self.ranges) // 2


@dataclass(frozen=True, slots=True)
class StandingDisclosure:
    """One recipient may read a table by itself, from one moment until another."""

    since: Instant
    until: Instant | None
    """When it was closed, or ends by itself; None for neither."""
    by: bytes
    """The key of the domain that opened it."""
    recipient: bytes
    type_id: bytes
    version: bytes
    view: bytes
    certificates: tuple[bytes, ...]
    attributes: tuple[AttributeUid, ...]
    source: str


@dataclass(slots=True)
class LedgerReader:
    """Puts what repeats back in its place; every number has to be known."""

    standing: list[StandingDisclosure] = field(default_factory=list)
    """What recipients may, or might, read by themselves, in the order in which it was opened."""
    reads: dict[tuple[object, ...], TableRead] = field(default_factory=dict)
    """What recipients have read by themselves; a read that a crash had written twice is there once."""

    _begin: Begin | None = None
    _grounds: dict[int, Ground] = field(default_factory=dict)
    _audiences: dict[int, tuple[int, ...]] = field(default_factory=dict)
    _shown: dict[int, tuple[AttributeUid, ...]] = field(default_factory=dict)
    _summary: Summarised | None = None

    def read(self, records: Iterable[LedgerRecord]) -> Iterator[Disclosure]:
        """Yield a disclosure for each recipient, in the order in which they were written."""
        for record in records:
            match record:
                case Begin():
                    if record.format != FORMAT:
                        raise BadInput(
                            "INPUT-LEDGER",
                            f"version {record.format} of the ledger's format is not known here",
                        )
                    self._begin = record
                    self._grounds, self._audiences, self._shown = {}, {}, {}
                case Ground():
                    self._grounds[record.number] = record
                case Audience():
                    self._audiences[record.number] = record.grounds
                case Shown():
                    self._shown[record.number] = tuple(map(AttributeUid, record.attributes))
                case Summarised():
                    self._summary = record
                case Opened():
                    self._open(record)
                case Closed():
                    self._close(record.recipient, record.source, Instant(record.at))
                case TableRead():
                    about = record.at, record.recipient, record.source, record.number
                    self.reads[about] = record
                case Disclosed():
                    yield from self._disclosures(record)
                case DisclosedEvents():
                    yield from self._single_events(record)

    def _open(self, record: Opened) -> None:
        try:
            attributes = self._shown[record.shown]
            grounds = [self._grounds[number] for number in self._audiences[record.audience]]
        except KeyError as problem:
            raise BadInput(
                "INPUT-LEDGER", f"a disclosure refers to number {problem}, which was not written"
            ) from None
        if self._begin is None:
            raise BadInput("INPUT-LEDGER", "a disclosure is not as a domain writes it")
        at, until = Instant(record.at), None if record.until is None else Instant(record.until)
        for one in grounds:
            self._close(one.recipient, record.source, at)
            granted = (one.recipient, one.type_id, one.version, one.view, one.certificates)
            self.standing.append(
                StandingDisclosure(at, until, self._begin.broker, *granted, attributes, record.source)
            )

    def _close(self, recipient: bytes, source: str, at: Instant) -> None:
        for number, one in enumerate(self.standing):
            is_open = one.until is None or one.until > at
            if (one.recipient, one.source) == (recipient, source) and is_open:
                self.standing[number] = replace(one, until=at)

    def _single_events(self, record: DisclosedEvents) -> Iterator[Disclosure]:
        pairs = record.sequences
        if len(pairs) % 2 or any(one < 0 for one in pairs) or sum(pairs[1::2]) >= EVENTS_MAX:
            raise BadInput("INPUT-LEDGER", "a disclosure is not as a broker writes it")
        common = record.at, record.audience, record.shown, record.publisher, record.stream
        for sequence in from_ranges(pairs):
            yield from self._disclosures(Disclosed(*common, sequence, (0, 0)))

    def _disclosures(self, record: Disclosed) -> Iterator[Disclosure]:
        try:
            attributes = self._shown[record.shown]
            grounds = [self._grounds[number] for number in self._audiences[record.audience]]
        except KeyError as problem:
            raise BadInput(
                "INPUT-LEDGER", f"a disclosure refers to number {problem}, which was not written"
            ) from None
        ranges = record.rows
        if self._begin is None or len(ranges) % 2 or any(number < 0 for number in ranges):
            raise BadInput("INPUT-LEDGER", "a disclosure is not as a broker writes it")
        summary = self._summary
        if summary is not None and (summary.stream, summary.sequence) != (record.stream, record.sequence):
            summary = None
        for ground in grounds:
            yield Disclosure(
                Instant(record.at),
                self._begin.broker,
                ground.recipient,
                ground.type_id,
                ground.version,
                ground.view,
                ground.certificates,
                record.publisher,
                record.stream,
                record.sequence,
                ranges,
                attributes,
                summary,
            )
