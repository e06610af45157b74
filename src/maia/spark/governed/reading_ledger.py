"""What does the reader of a log put on record about the events that it reads?

The records are those of a broker's ledger (`maia.ledger`): who reads, by which certificates, which rows of
which frames, which attributes. The reader of a log is its own recipient, and writes the ledger itself, in the
task that opens the frames: rows go through the View there, what it shows is written as a part of the ledger,
and then it is handed on. No row is opened twice for it. What the user of a table makes of its rows, less or
nothing, is not on record.

A task that Spark runs again, or twice at once, shows the same rows and writes the same part: there is one. A
table that is read again is on record again. The driver chains the parts when the log is closed, a stream
after each batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from maia.broker.audiences.local_subscribers import class_key
from maia.clock import system_now
from maia.events import Attribute, AttributeUid, Instant, Kind
from maia.expressions.meaning import NO_KEYS
from maia.ledger.files import chain_parts, ledger_at, write_part
from maia.ledger.records import (
    FORMAT,
    Audience,
    Begin,
    Disclosed,
    DisclosedEvents,
    Ground,
    LedgerRecord,
    Shown,
    records_to_bytes,
    to_ranges,
)
from maia.places import place_of
from maia.policy import Request, View, gather_evidence
from maia.predicates import attributes_of
from maia.private_files import make_private_folder
from maia.spark.governed.opener import HIDDEN, SHOWN_META, FrameOpener, OpenedBatch, OpenedRows
from maia.spark.governed.plan import GovernedRead, Plan, summary_of_frames
from maia.spark.governed.reader import Reader, Slice
from maia.views.arrow_executor import ARROW_TYPES, to_arrow_hidden, to_arrow_rows

if TYPE_CHECKING:
    from maia.views.to_spark import TransformationKeySource

_RUN_BYTES: Final = 16
_HELD_BYTES: Final = 16 << 20
_HELD_ROWS: Final = 1 << 18
"""What a task holds back until it is on record: a part of the ledger is about so many rows."""
_BITS: Final = 40


class SeenBatch(NamedTuple):
    """What a View shows of opened rows, and which of them these are."""

    opened: OpenedBatch
    # Any: pyarrow is not typed.
    shown: Any
    numbers: Any


@dataclass(frozen=True, slots=True)
class SeenRows:
    """What the Views of some periods show of frames, by the kernels of Arrow. Pickled into the job."""

    opener: FrameOpener
    views: tuple[tuple[View, Mapping[AttributeUid, Kind]], ...] = field(repr=False)
    delivered: tuple[Attribute, ...]
    meta: tuple[str, ...] = ()
    asked: tuple[Attribute, ...] | None = None
    """The attributes of the table, where fewer are delivered here."""
    secrets: TransformationKeySource | None = field(default=None, repr=False)

    @property
    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        meta = [pa.field(name, SHOWN_META[name]) for name in self.meta]
        return pa.schema([*(pa.field(one.name, ARROW_TYPES[one.kind]) for one in self.delivered), *meta])

    @property
    def filtered_by(self) -> frozenset[str]:
        """Return the attributes, by name, of which the reader's own filter asks."""
        asked = frozenset[AttributeUid]().union(*(attributes_of(view.interest) for view, _ in self.views))
        return frozenset(one.name for one in self.delivered if one.uid in asked)

    def narrowed(self, columns: Collection[str]) -> SeenRows:
        """Return the same of some columns, by name: nothing is opened for the others alone."""
        delivered = tuple(one for one in self.delivered if one.name in columns)
        meta = tuple(name for name in self.meta if name in columns)
        uids = {one.uid for one in delivered}
        opener = self.opener.narrowed(uids, with_meta=bool(meta))
        kinds = [one.kinds for one in opener.periods]
        views = tuple((view, some) for (view, _), some in zip(self.views, kinds, strict=True))
        asked = self.asked or self.delivered
        return replace(self, opener=opener, views=views, delivered=delivered, meta=meta, asked=asked)

    def of(self, batches: Iterable[OpenedBatch]) -> Iterator[SeenBatch]:
        """Yield what is shown: each row by the View of its period."""
        keys = NO_KEYS if self.secrets is None else self.secrets.transformation_keys()
        views = [to_arrow_rows(view, dict(kinds), self.delivered, keys) for view, kinds in self.views]
        hidden = [
            to_arrow_hidden(view, dict(kinds), self.asked or self.delivered) for view, kinds in self.views
        ]
        schema = self.schema
        for one in batches:
            seen, numbers = views[one.period](one.rows)
            about = [
                hidden[one.period](one.rows.take(numbers))
                if name == HIDDEN
                else one.rows.column(name).take(numbers)
                for name in self.meta
            ]
            whole = pa.RecordBatch.from_arrays([*seen.columns, *about], schema=schema) if schema else seen
            yield SeenBatch(one, whole, numbers)


def seen_rows(read: GovernedRead, opener: FrameOpener, plans: Sequence[Plan]) -> SeenRows:
    """Return what some periods of a read show."""
    views = tuple((one.slice.view, dict(one.kinds)) for one in plans)
    return SeenRows(opener, views, read.delivered, tuple(read.meta), secrets=read.access.secrets)


@dataclass(frozen=True, slots=True)
class ReadingLedger:
    """Where, and by which rights, one read of a table is put on record. Pickled into the job."""

    folder: str
    table: str
    """Another one for each table that is made."""
    recipient: bytes
    grounds: tuple[tuple[bytes, bytes, bytes, tuple[bytes, ...]], ...]
    """Type, version, View and certificates of each period."""
    delivered: tuple[Attribute, ...]

    def narrowed(self, delivered: tuple[Attribute, ...]) -> ReadingLedger:
        """Return the same for a read of some attributes."""
        return replace(self, delivered=delivered)

    def shown(self, seen: Iterable[SeenBatch], read: str) -> Iterator[Any]:
        """Yield the rows that a task shows, each after it is on record."""
        held: list[Any] = []
        rows = size = 0
        draft = ShownFrames(self.delivered)
        for one in seen:
            draft.add(one)
            held.append(one.shown)
            rows, size = rows + one.shown.num_rows, size + one.shown.nbytes
            if rows >= _HELD_ROWS or size >= _HELD_BYTES:
                self.write(draft, read)
                yield from held
                held, rows, size, draft = [], 0, 0, ShownFrames(self.delivered)
        self.write(draft, read)
        yield from held

    def write(self, draft: ShownFrames, read: str) -> None:
        """Put on record that a read shows these frames."""
        if draft:
            timeless = records_to_bytes(list(self._records(draft, read, 0)))
            records = list(self._records(draft, read, int(system_now())))
            write_part(ledger_at(self.folder), read, records, timeless)

    def _records(self, draft: ShownFrames, read: str, at: int) -> Iterator[LedgerRecord]:
        yield Begin(FORMAT, self.recipient, sha256(read.encode()).digest()[:_RUN_BYTES], at)
        for number, ground in enumerate(self.grounds, start=1):
            yield Ground(number, self.recipient, *ground)
            yield Audience(number, (number,))
        numbers: dict[tuple[str, ...], int] = {}
        for uids in (*(one[1] for one in draft.frames), *(one[1] for one in draft.events)):
            if uids not in numbers:
                numbers[uids] = len(numbers) + 1
                yield Shown(numbers[uids], uids)
        for period, uids, publisher, stream, sequence, ranges in draft.frames:
            yield Disclosed(at, period + 1, numbers[uids], publisher, stream, sequence, ranges)
        for (period, uids, publisher, stream), found in draft.events.items():
            pairs = list(to_ranges(sorted(found)))
            yield DisclosedEvents(at, period + 1, numbers[uids], publisher, stream, pairs)


def chain_reads(ledger: str) -> None:
    """Chain what the tasks of reads have written, also of jobs that were killed."""
    folder = ledger_at(ledger)
    if isinstance(folder, Path):
        make_private_folder(folder)
    chain_parts(folder)


def reading_ledger(read: GovernedRead, plans: Sequence[Plan], folder: str | PathLike[str]) -> ReadingLedger:
    """Return how what some periods show is put on record, and chain what killed jobs have left."""
    if read.is_summary:
        raise summary_of_frames()
    event_type = read.event_type
    grounds = tuple(
        (
            event_type.type_id,
            event_type.id,
            class_key(one.slice.view, event_type),
            _certificates(read.request, read.access.reader, one.slice),
        )
        for one in plans
    )
    place = str(place_of(folder))
    chain_reads(place)
    return ReadingLedger(place, uuid4().hex, read.access.reader.principal.key, grounds, read.delivered)


_Frame: TypeAlias = tuple[int, tuple[str, ...], bytes, bytes, int, tuple[int, ...]]
"""Period, attributes, publisher, stream, sequence, and ranges of rows."""
_Event: TypeAlias = tuple[int, tuple[str, ...], bytes, bytes]
_Written: TypeAlias = tuple[list[_Frame], list[tuple[_Event, list[int]]]]


class ShownFrames:
    """Which rows of which frames are shown, with which attributes: a draft of records, of no reader yet."""

    def __init__(self, delivered: Sequence[Attribute]) -> None:
        self._delivered = delivered
        self.frames: list[_Frame] = []
        self.events: defaultdict[_Event, list[int]] = defaultdict(list)
        """Sequences of frames of one event: these have one record together."""

    def __bool__(self) -> bool:
        return bool(self.frames or self.events)

    def to_bytes(self) -> bytes:
        """Return the draft, for a file that is handed out later, and again."""
        return msgspec.msgpack.encode((self.frames, list(self.events.items())))

    @classmethod
    def from_bytes(cls, data: bytes) -> ShownFrames:
        """Read what `to_bytes` wrote; nothing more can be added to it."""
        frames, events = msgspec.msgpack.decode(data, type=_Written)
        draft = cls(())
        draft.frames, draft.events = frames, defaultdict(list, events)
        return draft

    def add(self, seen: SeenBatch) -> None:
        """Note what a batch shows."""
        numbers = np.asarray(seen.numbers, dtype=np.int64)
        if not len(numbers):
            return
        frames = seen.opened.frames
        ends = np.cumsum([one.rows for one in frames])
        of_frame = np.searchsorted(ends, numbers, side="right")
        local = numbers - (ends - [one.rows for one in frames])[of_frame]
        kinds, uids = self._kinds(seen.shown)
        # Neighbours in one frame that show the same are one run, after a sort if they are mixed.
        key = of_frame * len(uids) + kinds
        if len(uids) > 1:
            order = np.argsort(key, kind="stable")
            key, local = key[order], local[order]
        begins = np.flatnonzero(np.diff(key, prepend=-1))
        for first, last in zip(begins.tolist(), [*begins[1:].tolist(), len(key)], strict=True):
            number, kind = divmod(int(key[first]), len(uids))
            self._add(seen.opened.period, frames[number], uids[kind], local[first:last])

    def _add(
        self, period: int, opened: OpenedRows, uids: tuple[str, ...], local: npt.NDArray[np.int64]
    ) -> None:
        frame = opened.frame
        rows = local if isinstance(opened.numbers, range) else np.sort(np.asarray(opened.numbers)[local])
        if frame.rows == 1 and rows[0] == 0:
            self.events[period, uids, frame.publisher, frame.stream].append(frame.sequence)
        else:
            about = frame.publisher, frame.stream, frame.sequence
            self.frames.append((period, uids, *about, _ranges(rows)))

    def _kinds(self, shown: Any) -> tuple[npt.NDArray[np.int64], list[tuple[str, ...]]]:
        """Return which attributes each row shows: a number for each row, and what it stands for."""
        kinds = np.zeros(shown.num_rows, dtype=np.int64)
        always: list[str] = []
        mixed: list[str] = []
        for at, one in enumerate(self._delivered):
            column = shown.column(at)
            if column.null_count == 0:
                always.append(one.uid)
            elif column.null_count < len(column):
                if len(mixed) % _BITS == _BITS - 1:
                    kinds = np.unique(kinds, return_inverse=True)[1]
                kinds = kinds * 2 + np.asarray(column.is_valid())
                mixed.append(one.uid)
        if not mixed:
            return kinds, [tuple(sorted(always))]
        _, firsts, kinds = np.unique(kinds, return_index=True, return_inverse=True)
        places = [at for at, one in enumerate(self._delivered) if one.uid in mixed]
        rows = [
            [self._delivered[at].uid for at in places if shown.column(at)[int(n)].is_valid] for n in firsts
        ]
        return kinds, [tuple(sorted([*always, *one])) for one in rows]


def _ranges(rows: npt.NDArray[np.int64]) -> tuple[int, ...]:
    """Return row numbers, which grow, as pairs of the first and how many follow it."""
    begins = np.flatnonzero(np.diff(rows, prepend=rows[0] - 2) != 1)
    follow = np.diff(begins, append=len(rows)) - 1
    return tuple(np.column_stack((rows[begins], follow)).ravel().tolist())


def _certificates(request: Request, reader: Reader, one: Slice) -> tuple[bytes, ...]:
    evidence = gather_evidence(
        request,
        reader.pool,
        at=Instant(one.since),
        bounds=reader.bounds,
        constitutions=reader.constitutions,
        standing=reader.tester,
        chains_max=reader.chains_max,
    )
    return tuple(dict.fromkeys(signed.id for chain in evidence.chains for signed in chain.certificates))
