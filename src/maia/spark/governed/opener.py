"""How do frames of the log become rows, inside an executor or without Spark?

A task gets ranges of positions, reads their frames (`log_folder.py`), and opens each column by column,
one call of the cipher for a column however many rows it has. A frame is proved: its signer signed exactly
this, and might publish it. What comes out has one column for each attribute that the View asks about
or shows, called by uid. Frames that do not hold are left out, as a broker
leaves them out; what the reader has no key for is null, and a frame of which
the policy asks what cannot be opened shows no row at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Any, Final, NamedTuple, cast

import msgspec
import pyarrow as pa

from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import PUBLISHER_PREFIX, AttributeUid, Kind, is_of_event, kind_of
from maia.log.format.segments import column_name
from maia.policy.answers import part_of
from maia.policy.written import Written, written_under
from maia.sealing import EpochKeys, Secret, SignatureChecks, VerifiedRun, open_run, read_run, verify
from maia.sealing.keys.blinding import Inside, read_envelope
from maia.spark.errors import told_to_spark
from maia.spark.governed.arrow_columns import arrow_column, regular_columns
from maia.spark.governed.log_folder import HEADER, FramesWanted, LogFrames, Stretch, columns_to_read
from maia.spark.governed.reader import AcceptedSigners, FrameRequirements
from maia.spark.keys.content_keys import HeldEpoch
from maia.spark.keys.key_server import DeskPass
from maia.types import TransitKindMismatch
from maia.types.definition import ENVELOPE_UID
from maia.views.arrow_executor import ARROW_TYPES
from maia.wire.codec import decode_recorded
from maia.wire.columns import VALUES_MAX, columns_to_frame, kind_from_number
from maia.wire.messages import (
    Carried,
    CarriedSigned,
    Column,
    Recorded,
    Released,
    Sealed,
    SealedWithAuthor,
    Unblinded,
)

_UNREAD: Final = bytes(16)
"""Stands for a sealed column that was not read; as short as the protocol allows, and it never opens."""
_PARTED: Final = 4


# Any: pyarrow is not typed.
def frames_in(batch: Any, type_id: bytes) -> Iterator[Recorded]:
    """Yield the frames of a batch that are of this type; what is no frame is left out."""
    names: list[str] = batch.schema.names
    headers = batch.column(names.index(HEADER)).to_pylist()
    columns = {name: batch.column(at).to_pylist() for at, name in enumerate(names) if name != HEADER}
    for row, header in enumerate(headers):
        try:
            frame = frame_of_row(header, {name: values[row] for name, values in columns.items()})
        except (ProtocolViolation, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            continue  # bytes that are no message of today; the log keeps them all the same
        if frame.type_id == type_id:
            yield frame


def frame_of_row(header: bytes, parts: Mapping[str, bytes | None]) -> Recorded:
    """Put a frame together from its header and from those of its columns that were read."""
    found = msgspec.msgpack.decode(header)
    if isinstance(found, list) and len(found) == _PARTED and found[0] == 1:
        return _filled(found, parts)
    if isinstance(found, list) and len(found) == 2 and isinstance(found[1], bytes):
        return decode_recorded(found[1])
    raise ProtocolViolation("LOG-ROW", "the header of a row has an unknown form")


def _filled(found: Sequence[Any], parts: Mapping[str, bytes | None]) -> Recorded:
    """Fill the holes of a parted message, and read it as strictly as if it had come from the network."""
    _, columns_at, hole_at, skeleton = found
    try:
        is_sealed = skeleton[0] in _SEALED_NUMBERS
        read = []
        for column in skeleton[columns_at]:
            name = column_name(column[0])
            part = parts.get(name, _UNREAD if is_sealed else None)
            if part is None:
                if name in parts:
                    raise ProtocolViolation("LOG-ROW", "the bytes of an attribute are missing from a row")
                continue
            column[hole_at] = part
            read.append(column)
        skeleton[columns_at] = read
    except (IndexError, TypeError, KeyError) as problem:
        raise ProtocolViolation("LOG-ROW", "the header of a row is none") from problem
    # The number at the start distinguishes the union, which the type of `convert` cannot say.
    return cast("Recorded", msgspec.convert(skeleton, type=Recorded))


_SEALED_NUMBERS: Final = frozenset(one.__struct_config__.tag for one in (Sealed, SealedWithAuthor, Unblinded))


ROWS_PER_BATCH: Final = 16_384
"""Rows that are handed on at once; a larger frame goes as one."""

META: Final[dict[str, pa.DataType]] = {
    "_publisher": pa.binary(),
    "_stream": pa.binary(),
    "_sequence": pa.int64(),
    "_row": pa.int32(),
    "_published_at": pa.timestamp("us", tz="UTC"),
}
"""What a subscriber receives about an event beside its attributes. No uid begins with an underscore."""

HIDDEN: Final = "_hidden"
"""Which attributes of a row the right does not show, by name: what else is null was published so."""
SHOWN_META: Final[dict[str, pa.DataType]] = {**META, HIDDEN: pa.list_(pa.string())}
"""What a table has beside the attributes, if that is asked for."""
AS_PUBLISHED: Final[frozenset[bytes | None]] = frozenset({None})
PERIOD: Final = "_period"
"""Of which period a row is, by number, where there are several."""


@dataclass(frozen=True, slots=True)
class ReadingPeriod:
    """When a View held, what it needs of frames of that time, and whose frames count."""

    since: int
    until: int
    """Moments between which the View held, both included. What a frame says of its moment is signed."""
    kinds: Mapping[AttributeUid, Kind]
    """What becomes a column."""
    asks: frozenset[AttributeUid]
    """The attributes in the View's restrictions and the reader's filter."""
    signers: AcceptedSigners
    spans: tuple[tuple[int, int], ...] = ()
    """Where the View held only at times between the two moments: these, one after the other."""
    classes: frozenset[bytes | None] = AS_PUBLISHED
    """Whose frames it shows: those of no class, as they were published, or what a border released for one."""

    among: frozenset[AttributeUid] | None = None
    """What the reader may open of frames, where less is asked for: a row is there whatever is asked for."""

    @property
    def of_publisher(self) -> dict[AttributeUid, Kind]:
        """Return those of them that the statement about a frame's publisher answers."""
        return {uid: kind for uid, kind in self.kinds.items() if uid.startswith(PUBLISHER_PREFIX)}

    def narrowed(self, uids: Collection[AttributeUid]) -> ReadingPeriod:
        """Return the same for some attributes, and what decides about rows."""
        decides = self.asks | self.signers.asked
        kinds = {
            uid: kind
            for uid, kind in self.kinds.items()
            if uid in uids or uid in decides or not is_of_event(uid)
        }
        return replace(self, kinds=kinds, among=self.among or frozenset(self.kinds))

    def holds_at(self, moment: int) -> bool:
        """Return whether the View held at a moment."""
        if not self.since <= moment <= self.until:
            return False
        if not self.spans:
            return True
        first, last = self.spans[bisect_right(self.spans, moment, key=lambda span: span[0]) - 1]
        return first <= moment <= last


@dataclass(frozen=True, slots=True)
class OpenedRows:
    """The rows of one frame, and which row of which frame each one is."""

    frame: Recorded
    rows: int
    numbers: Sequence[int]
    # Any: pyarrow is not typed.
    values: Mapping[AttributeUid, tuple[Any, int]] = field(repr=False)
    """By uid: an array, which may hold other frames too, and where in it this one begins."""


class OpenedBatch(NamedTuple):
    """Rows of one period, and the frames that they are of, one after the other."""

    period: int
    frames: Sequence[OpenedRows]
    # Any: pyarrow is not typed.
    rows: Any


@dataclass(frozen=True, slots=True)
class FrameOpener:
    """Reads and opens frames of one type for the Views of a reader. Pickled into the job; it holds no key.

    One pass opens all periods, none of which have a moment in common: a stream has one source however many
    periods it shows, so that its checkpoint is good for another number of them.
    """

    wanted: FramesWanted
    periods: tuple[ReadingPeriod, ...]
    least_level: int
    """Frames that are sealed less than this are left out (A29)."""
    keys: DeskPass | None = field(repr=False)
    with_meta: bool = False
    requirements: FrameRequirements = field(default_factory=FrameRequirements)
    """What publishers and this reader require of each other."""
    ranges: tuple[tuple[Stretch, ...], ...] = field(default=(), repr=False)
    """What each task of a table reads; the tasks of a stream are told by its source."""

    @property
    def kinds(self) -> dict[AttributeUid, Kind]:
        """Return what becomes a column, in any period."""
        return {uid: kind for one in self.periods for uid, kind in one.kinds.items()}

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of what comes out."""
        fields = [pa.field(uid, ARROW_TYPES[kind]) for uid, kind in self.kinds.items()]
        fields += [pa.field(name, kind) for name, kind in META.items() if self.with_meta]
        return pa.schema(fields + ([pa.field(PERIOD, pa.int32())] if len(self.periods) > 1 else []))

    def narrowed(self, uids: Collection[AttributeUid], *, with_meta: bool) -> FrameOpener:
        """Return the same for some attributes, and what decides about rows."""
        return replace(self, periods=tuple(one.narrowed(uids) for one in self.periods), with_meta=with_meta)

    def period_of(self, frame: Recorded) -> int | None:
        """Return the number of the period that shows a frame, by its moment and for whom it was released."""
        moment = frame.published_at
        view = frame.view if isinstance(frame, Released | CarriedSigned) else None
        periods = enumerate(self.periods)
        return next((number for number, one in periods if view in one.classes and one.holds_at(moment)), None)

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn numbers of tasks into batches of rows."""
        with told_to_spark():
            tasks = (row["id"] for batch in batches for row in batch.to_pylist())
            for one in self.opened(chain.from_iterable(self.ranges[task] for task in tasks)):
                yield one.rows

    def opened(self, stretches: Iterable[Stretch]) -> Iterator[OpenedBatch]:
        """Yield the rows of some ranges."""
        frames = LogFrames(self.wanted, columns_to_read(filter(is_of_event, self.kinds)))
        if not self.wanted.has_copies:
            return self.rows_of(chain.from_iterable(map(frames.batches, stretches)))
        once = _ShownOnce()

        def batches() -> Iterator[Any]:
            for one in stretches:
                for batch in frames.batches(one):
                    once.is_shown = one.is_shown
                    yield batch

        return self.rows_of(batches(), once)

    def rows_of(self, batches: Iterable[Any], once: _ShownOnce | None = None) -> Iterator[OpenedBatch]:
        """Yield the rows of frames, those of a frame in one batch; of copies, each row once."""
        task = _OpeningTask(self)
        waiting: list[list[OpenedRows]] = [[] for _ in self.periods]
        rows = [0 for _ in self.periods]
        for batch in batches:
            for number, found in task.rows_of(list(frames_in(batch, self.wanted.type_id))):
                one = found if once is None else once.new_rows(found)
                if one is None:
                    continue
                waiting[number].append(one)
                rows[number] += one.rows
                if rows[number] >= ROWS_PER_BATCH:
                    yield self._batch(waiting[number], number)
                    waiting[number], rows[number] = [], 0
        for number, parts in enumerate(waiting):
            if parts:
                yield self._batch(parts, number)
        if self.keys is not None and task.refused:
            self.keys.report(task.refused)

    def _batch(self, parts: Sequence[OpenedRows], number: int) -> OpenedBatch:
        rows = sum(part.rows for part in parts)
        arrays = [_array(uid, kind, parts) for uid, kind in self.kinds.items()]
        arrays += _meta_arrays(parts) if self.with_meta else []
        if len(self.periods) > 1:
            arrays.append(pa.repeat(pa.scalar(number, pa.int32()), rows))
        if arrays:
            return OpenedBatch(number, parts, pa.RecordBatch.from_arrays(arrays, schema=self.schema))
        empty = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return OpenedBatch(number, parts, empty)


class _ShownOnce:
    """The publications that one task has opened: what another log, or class, has of them is a copy.

    A publication is known by its publisher, stream and number, and not by its signer: a publisher whose
    broker was lost may have sent it through another one (X10). A signer without the right is refused before.
    What was released of it at a border, for whichever class, is known by the stream that it was published in.
    """

    __slots__ = ("_rows", "is_shown")

    def __init__(self) -> None:
        self._rows: defaultdict[tuple[bytes, bytes, int], set[int]] = defaultdict(set)
        self.is_shown = False
        """Whether what is read now was shown before, and is only to be recognised."""

    def new_rows(self, one: OpenedRows) -> OpenedRows | None:
        """Return the rows of a frame that no other has shown; None if there are none."""
        frame = one.frame
        known = self._rows[frame.publisher, frame.stream, frame.sequence]
        new = [at for at, row in enumerate(one.numbers) if row not in known]
        known.update(one.numbers)
        if self.is_shown or not new:
            return None
        if len(new) == one.rows:
            return one
        values = {uid: (array.slice(at).take(new), 0) for uid, (array, at) in one.values.items()}
        return OpenedRows(frame, len(new), [one.numbers[at] for at in new], values)


class _OpeningTask:
    """What one task has fetched and found good so far."""

    __slots__ = ("_checks", "_epochs", "_keys", "_plan", "_written", "refused")

    def __init__(self, plan: FrameOpener) -> None:
        """Check at once whether the grant is open, plaintext or not."""
        self._plan = plan
        self._checks = SignatureChecks()
        self._epochs: dict[int, HeldEpoch | None] = {}
        self._keys: dict[int, EpochKeys] = {}
        self._written: dict[tuple[object, ...], Written] = {}
        self.refused: Counter[str] = Counter()
        if plan.keys is not None:
            plan.keys.keys_of(())

    def rows_of(self, frames: Sequence[Recorded]) -> Iterator[tuple[int, OpenedRows]]:
        """Yield the readable part of some frames, each with the number of its period."""
        # The log's own column of moments prunes; it is not signed, and decides nothing.
        found = ((self._plan.period_of(frame), frame) for frame in frames)
        chosen = [(number, frame) for number, frame in found if number is not None and self._admit(frame)]
        self._fetch({frame.epoch for _, frame in chosen if isinstance(frame, Sealed)})
        opened = [(number, one) for number, frame in chosen if (one := self._opened(frame, number))]
        values = _read_together([one for _, one in opened])
        for at, (number, one) in enumerate(opened):
            try:
                read = _read(one, values[at])
            except MaiaError as problem:
                self.refused[problem.code] += 1
                continue
            yield number, self._with_publisher(read, self._plan.periods[number])

    def _opened(self, frame: Recorded, number: int) -> _OpenedFrame | None:
        """Return what of a frame may be read; None, counted, if it does not hold."""
        period = self._plan.periods[number]
        try:
            found = self._sealed(frame, period) if isinstance(frame, Sealed) else self._plain(frame)
            return None if found is None else _of_kinds(*found, period.kinds)
        except MaiaError as problem:
            # A writer to the network or the log must not be able to stop its readers.
            self.refused[problem.code] += 1
            return None

    def _admit(self, frame: Carried | Sealed) -> bool:
        """Whether the requirements of both sides are met, and count a frame whose own cannot be read."""
        # What a sealed frame says of its author is signed, and proved before a row of it comes out.
        try:
            return self._plan.requirements.admits(frame)
        except ProtocolViolation as problem:
            self.refused[problem.code] += 1
            return False

    def _fetch(self, epochs: set[int]) -> None:
        new = epochs.difference(self._epochs)
        if not new or self._plan.keys is None:
            return
        found = self._plan.keys.keys_of(new)
        for number in new:
            self._epochs[number] = found.get(number)

    def _plain(self, frame: Carried) -> tuple[Recorded, Sequence[Column]] | None:
        if self._plan.least_level > 0:
            return None
        if isinstance(frame, Released | CarriedSigned) and frame.origin is not None:
            frame = msgspec.structs.replace(frame, stream=frame.origin)
        return frame, frame.columns

    def _sealed(self, frame: Sealed, period: ReadingPeriod) -> tuple[Recorded, Sequence[Column]] | None:
        held = self._epochs.get(frame.epoch)
        if held is None or frame.level < self._plan.least_level:
            return None
        if not held.first <= frame.published_at <= held.last:
            return None  # an old key seals nothing new (A50)
        keys, travelled = self._keys_of(frame.epoch, held), frame
        if isinstance(frame, Unblinded):
            travelled, keys = frame.travelled(), keys.through(frame.blinded_id, frame.id_epoch)
        proved = verify(read_run([travelled]), self._checks)
        opened = open_run(proved, keys, only=period.kinds, among=period.among)
        if not _is_readable(opened, period.asks):
            return None
        (columns,) = opened.columns
        if not self._is_written(opened, columns, period.signers):
            raise Refusal("PIPELINE-SIGNER", "the signer of a frame had no right to publish its content")
        if isinstance(frame, Unblinded):
            inside = _inside(columns, frame.rows)
            if inside is None or not held.first <= inside.published_at <= held.last:
                return None  # cover, or as above
            # What the log says of the publisher and its numbers is not signed; the envelope is.
            frame = msgspec.structs.replace(
                frame,
                publisher=inside.publisher.key,
                stream=inside.stream,
                sequence=inside.sequence,
                published_at=int(inside.published_at),
            )
        return frame, columns

    def _is_written(self, opened: VerifiedRun, columns: Sequence[Column], signers: AcceptedSigners) -> bool:
        """Return whether its signer may have written all rows of a frame, as far as they are read here."""
        frame, uids = opened.frame, frozenset(column.uid for column in columns)
        signer = opened.signer.key
        rights = signers.may_write(signer, uids | opened.closed, frame.published_at)
        if not rights:
            return False
        about = (signer, *map(id, rights))  # these are the plan's, and stay
        written = self._written.get(about)
        if written is None:
            written = self._written[about] = written_under([one.view for one in rights])
        # Sealed as a whole, a frame does not say which attributes it has: any that the type has.
        hidden = signers.known if "" in opened.closed else opened.closed
        named = frozenset(AttributeUid(uid) for uid in uids if uid in signers.known)
        if written.holds_whatever(named, hidden=hidden):
            return True
        read = columns_to_frame([one for one in columns if one.uid in named], frame.rows)
        return written.holds(read, hidden=hidden)

    def _with_publisher(self, opened: OpenedRows, period: ReadingPeriod) -> OpenedRows:
        """Return rows with what rules ask of their publisher: the same in each row of a frame."""
        asked = period.of_publisher
        if not asked:
            return opened
        said = self._plan.requirements.publisher_of(opened.frame)
        values = dict(opened.values)
        for uid, kind in asked.items():
            value = said.get(AttributeUid(uid.removeprefix(PUBLISHER_PREFIX)))
            if value is not None and kind_of(value) is kind:
                values[uid] = pa.array([value] * opened.rows, ARROW_TYPES[kind]), 0
        return replace(opened, values=values)

    def _keys_of(self, epoch: int, held: HeldEpoch) -> EpochKeys:
        known = self._keys.get(epoch)
        if known is None:

            def lookup(uid: AttributeUid | None) -> Secret | None:
                return held.keys.get(uid)

            known = self._keys[epoch] = EpochKeys(self._plan.wanted.type_id, epoch, lookup)
        return known


def _is_readable(opened: VerifiedRun, asks: frozenset[AttributeUid]) -> bool:
    """Return whether something of a frame is open to the reader, and nothing that is asked about is not."""
    if opened.is_closed or not opened.closed.isdisjoint(asks):
        return False
    # Where whole events are closed, what is made of them may be open.
    return "" not in opened.closed or all(map(part_of, filter(is_of_event, asks)))


class _OpenedFrame(NamedTuple):
    """A frame that was found good, and those of its columns that are asked for, not yet read."""

    frame: Recorded
    columns: Mapping[AttributeUid, tuple[Kind, bytes]]


def _of_kinds(frame: Recorded, columns: Sequence[Column], kinds: Mapping[AttributeUid, Kind]) -> _OpenedFrame:
    """Return what is asked for; a kind that is not the attribute's is refused."""
    found: dict[AttributeUid, tuple[Kind, bytes]] = {}
    for column in columns:
        uid = AttributeUid(column.uid)
        kind = kinds.get(uid)
        if kind is None or not is_of_event(uid):
            continue
        if kind_from_number(column.kind) is not kind or uid in found:
            raise TransitKindMismatch(f"uid `{uid}` arrived twice, or with a kind that is not its own")
        found[uid] = kind, column.data
    if frame.rows * len(found) > VALUES_MAX:
        raise ProtocolViolation(
            "PROTOCOL-TOO-MANY-VALUES", f"a frame has more than the {VALUES_MAX} values allowed"
        )
    return _OpenedFrame(frame, found)


def _read_together(frames: Sequence[_OpenedFrame]) -> list[dict[AttributeUid, tuple[Any, int]]]:
    """Return what of several frames can be read at once, which costs one call instead of one for each."""
    alike: defaultdict[tuple[AttributeUid, Kind, int, int], list[tuple[int, bytes]]] = defaultdict(list)
    for at, (frame, columns) in enumerate(frames):
        for uid, (kind, data) in columns.items():
            alike[uid, kind, frame.rows, len(data)].append((at, data))
    values: list[dict[AttributeUid, tuple[Any, int]]] = [{} for _ in frames]
    for (uid, kind, rows, _), found in alike.items():
        array = regular_columns(kind, [data for _, data in found], rows)
        if array is not None:
            for number, (at, _) in enumerate(found):
                values[at][uid] = array, number * rows
    return values


def _read(opened: _OpenedFrame, known: dict[AttributeUid, tuple[Any, int]]) -> OpenedRows:
    """Return the values of a frame, every one checked; some were read with those of other frames."""
    frame = opened.frame
    for uid, (kind, data) in opened.columns.items():
        if uid not in known:
            known[uid] = arrow_column(kind, data, frame.rows), 0
    return OpenedRows(frame, frame.rows, frame.kept or range(frame.rows), known)


def _inside(columns: Sequence[Column], rows: int) -> Inside | None:
    """Return what the envelope of a blinded frame says; None if it is cover."""
    found = [column for column in columns if column.uid == ENVELOPE_UID]
    return read_envelope(columns_to_frame(found, rows).columns.get(ENVELOPE_UID))


# ------------------------------------------------------------ arrays


def _array(uid: AttributeUid, kind: Kind, parts: Sequence[OpenedRows]) -> Any:
    """Return the values of an attribute in some frames; those that were read together are not copied."""
    runs: list[list[Any]] = []
    for one in parts:
        array, start = one.values.get(uid) or (pa.nulls(one.rows, ARROW_TYPES[kind]), 0)
        if runs and runs[-1][0] is array and runs[-1][2] == start:
            runs[-1][2] += one.rows
        else:
            runs.append([array, start, start + one.rows])
    arrays = [array.slice(start, end - start) for array, start, end in runs]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _meta_arrays(parts: Sequence[OpenedRows]) -> list[Any]:
    def repeated(values: Iterable[bytes | int]) -> list[bytes | int]:
        return list(chain.from_iterable(repeat(v, p.rows) for v, p in zip(values, parts, strict=True)))

    moments = repeated(part.frame.published_at for part in parts)
    return [
        pa.array(repeated(part.frame.publisher for part in parts), META["_publisher"]),
        pa.array(repeated(part.frame.stream for part in parts), META["_stream"]),
        pa.array(repeated(part.frame.sequence for part in parts), META["_sequence"]),
        pa.array(list(chain.from_iterable(part.numbers for part in parts)), META["_row"]),
        pa.array(moments, pa.int64()).cast(META["_published_at"]),
    ]
