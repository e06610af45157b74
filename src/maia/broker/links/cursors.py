"""How far has a durable subscription come, and how is that kept?

A cursor belongs to a principal and a name that it chose. It says up to which
position of the event log its owner has acknowledged everything. It outlives
links, clients and this process.

Its owner gets positions sealed under a key of the cursor: one can be handed back, and compared with
nothing else. The numbers of the log count frames of all types, and those that the owner may not see (A91).
A position that was given for another frame, before a log was lost or put back, opens nothing.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Annotated, Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from msgspec import Meta

from maia.broker.links.runs import LogRuns
from maia.broker.links.transit import StreamOrder
from maia.errors import BadInput
from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.routing.duplicates import DuplicateMemory, MemoryLimits
from maia.wire.effects import Keep, LinkId
from maia.wire.message_fields import DurableName

KEPT_CURSOR: Final = "cursor/"
"""How the names under which cursors are kept begin."""
CURSOR_KEY_BYTES: Final = 32

_STREAMS: Final = 1024
_GAPS_MAX: Final = 16
_ROWS: Final = MemoryLimits(streams_max=_STREAMS, numbers_per_stream_max=4)


class BadCursor(BadInput):
    """What was kept as a cursor is none."""

    code = "INPUT-KEPT-CURSOR"


class UnderWay(NamedTuple):
    """A frame that was delivered and is not acknowledged."""

    position: int
    size: int = 0
    others_since: Instant | None = None
    """Since when other brokers may have it."""
    published_at: Instant | None = None


@dataclass(slots=True)
class Cursor:
    """One durable subscription, whether its owner is here or not."""

    owner: bytes
    name: str
    type_id: bytes
    key: bytes = field(repr=False)
    """Positions are sealed with it for its owner."""
    seen: int
    """Everything up to here is acknowledged, or was nothing for its owner to see."""
    kept_seen: int = 0
    """The position that is on disk."""
    next: int = 0
    """The position to deliver next."""
    seen_at: Instant | None = None
    """When the newest that was acknowledged was published: from there on a lost log is fetched again."""
    had_upto: Instant | None = None
    """The latest moment at which something was published that was acknowledged."""
    had_before: Instant | None = None
    """The same in a log that was lost: what was published before that is late in this one."""
    under_way: deque[UnderWay] = field(default_factory=deque, repr=False)
    """What was delivered and is not acknowledged."""
    bytes_under_way: int = 0
    holder: tuple[LinkId, int] | None = None
    """The link and reference of the owner, while it is here."""
    is_answered: bool = False
    """Whether its owner was told that it may go on: nothing comes before that, however much waits (A91)."""
    reading: int | None = None
    waits_since: Instant | None = None
    """Since when the frame at `next` waits for keys or for its signer's certificates, if it does."""
    waits_until: Instant | None = None
    """Up to when it waits, if their manager has answered and they were not in the answer."""
    is_stuck: bool = False
    """Whether the log could not be read any further; its owner may try again."""
    order: StreamOrder = field(default_factory=lambda: StreamOrder(_STREAMS), repr=False)
    rows: DuplicateMemory = field(default_factory=lambda: DuplicateMemory(_ROWS), repr=False)
    """Which rows were delivered since the owner came: parts of a sealed frame may have some in common."""
    gaps: list[tuple[int, str, str]] = field(default_factory=list, repr=False)
    """Behind which positions something is missing from the log, with a code and a text, oldest first."""
    gaps_told: int = 0
    """How many of these its owner has been sent."""
    runs: LogRuns = field(default_factory=LogRuns, repr=False)
    """In which run of the broker which positions were recorded."""
    upto: int | None = None
    """Where a range ends that is read beside the cursor itself: such a one is neither kept nor found."""
    shows: bool = True
    """Whether its owner is sent what is in frames, or only how many rows they have."""

    @property
    def is_attached(self) -> bool:
        return self.holder is not None

    def attach(self, holder: tuple[LinkId, int], *, arrived: int | None) -> None:
        """Begin again behind what was acknowledged, or behind what has arrived at this client already."""
        self.detach()
        self.holder, self.next, self.gaps_told = holder, self.seen + 1, 0
        self.is_answered = False
        self.order, self.rows = StreamOrder(_STREAMS), DuplicateMemory(_ROWS)
        if arrived is not None and arrived > self.seen:
            # Arrived is not acknowledged: if the client fails now, the next one gets it again.
            self.next = arrived + 1
            self.delivered(UnderWay(arrived))

    def sealed(self, position: int) -> bytes:
        """Return a position as its owner gets it: the same one always looks the same."""
        return AESSIV(self.key).encrypt(position.to_bytes(8, "big"), _of_run(self.runs.of(position)))

    def opened(self, sealed: bytes) -> int | None:
        """Return a position that its owner has handed back; None if this cursor has not given it."""
        for run in self.runs:
            with suppress(InvalidTag):
                position = int.from_bytes(AESSIV(self.key).decrypt(sealed, _of_run(run)), "big")
                return position if self.runs.of(position) == run else None
        return None

    def detach(self) -> None:
        """Take note that the owner is gone: what was not acknowledged will be delivered again."""
        self.holder, self.reading, self.is_stuck = None, None, False
        self.waits_since = self.waits_until = None
        self.under_way.clear()
        self.bytes_under_way = 0

    def note_gap(self, position: int, code: str, text: str) -> None:
        """Take note that something is missing behind a position; of too many, the newest are one."""
        if len(self.gaps) >= _GAPS_MAX:
            del self.gaps[-1]
        self.gaps.append((position, code, text))
        self.gaps_told = min(self.gaps_told, len(self.gaps) - 1)

    def take_gaps(self, before: int) -> list[tuple[int, str, str]]:
        """Return what is to be sent of gaps before a position, which counts as sent from now on."""
        found = [one for one in self.gaps[self.gaps_told :] if one[0] < before]
        self.gaps_told += len(found)
        return found

    def delivered(self, what: UnderWay) -> None:
        """Take note of what is under way now."""
        self.under_way.append(what)
        self.bytes_under_way += what.size

    def begin_in_another_log(self, now: Instant) -> None:
        """Take note that the log was lost: of what comes from others, its owner may have had later ones."""
        if self.had_upto is not None:
            self.had_before = min(self.had_upto, now)  # a publisher's clock may be ahead

    def had_later(self, published_at: Instant) -> bool:
        """Return whether its owner had something that was published later, in a log before this one."""
        return self.had_before is not None and published_at <= self.had_before

    def passed(self) -> None:
        """Take note that all before `next` is done: with nothing under way, it is seen."""
        if not self.under_way:
            self.seen = max(self.seen, self.next - 1)

    def acknowledge(self, position: int) -> bool:
        """Take note of what the owner has had; say whether that is news. Nobody acknowledges the future."""
        position = min(position, self.next - 1)
        while self.under_way and self.under_way[0].position <= position:
            had = self.under_way.popleft()
            self.bytes_under_way -= had.size
            self.seen_at = had.others_since or self.seen_at
            if had.published_at is not None:
                self.had_upto = max(had.published_at, self.had_upto or had.published_at)
        is_news = position > self.seen
        self.seen = max(self.seen, position)
        self.passed()
        while self.gaps_told and self.gaps[0][0] < position:
            # Something behind it was acknowledged: it has arrived.
            del self.gaps[0]
            self.gaps_told -= 1
        return is_news

    # ------------------------------------------------------------ on disk

    def kept(self, link: LinkId | None = None) -> Keep:
        """Return what puts it on disk as it is, before its owner at a link is answered."""
        self.kept_seen = self.seen
        moments = map(_number_of, (self.seen_at, self.had_upto, self.had_before))
        data = _Kept(self.owner, self.name, self.type_id, self.key, self.seen, self.gaps, *moments)
        return Keep(self._file, msgspec.msgpack.encode(data), link)

    def forgotten(self, link: LinkId) -> Keep:
        """Return what takes it off the disk, before its owner at a link is answered."""
        return Keep(self._file, None, link)

    @property
    def _file(self) -> str:
        # A digest: names may be longer than a file's name, and differ in nothing but case.
        return KEPT_CURSOR + sha256(self.owner + self.name.encode()).hexdigest()


def _number_of(moment: Instant | None) -> int | None:
    return None if moment is None else int(moment)


def _moment_of(number: int | None) -> Instant | None:
    return None if number is None else Instant(number)


def _of_run(run: bytes) -> list[bytes] | None:
    return [run] if run else None


_Moment = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]


class _Kept(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A cursor on disk."""

    owner: Annotated[bytes, Meta(min_length=32, max_length=32)]
    name: DurableName
    type_id: Annotated[bytes, Meta(min_length=32, max_length=32)]
    key: Annotated[bytes, Meta(min_length=CURSOR_KEY_BYTES, max_length=CURSOR_KEY_BYTES)]
    seen: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    gaps: list[tuple[int, str, str]] = []
    seen_at: _Moment | None = None
    had_upto: _Moment | None = None
    had_before: _Moment | None = None


_DECODER: Final = msgspec.msgpack.Decoder(_Kept)


def cursor_from_bytes(data: bytes) -> Cursor:
    try:
        found = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadCursor("what was kept as a cursor cannot be read") from problem
    about = found.owner, found.name, found.type_id, found.key, found.seen
    return Cursor(
        *about,
        kept_seen=found.seen,
        gaps=found.gaps,
        seen_at=_moment_of(found.seen_at),
        had_upto=_moment_of(found.had_upto),
        had_before=_moment_of(found.had_before),
    )
