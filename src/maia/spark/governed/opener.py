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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final, cast

import msgspec
import pyarrow as pa

from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import AttributeUid, Kind
from maia.log.format.segments import column_name
from maia.sealing import EpochKeys, Secret, SignatureChecks, VerifiedRun, open_run, read_run, verify
from maia.sealing.keys.blinding import Inside, read_envelope
from maia.spark.errors import told_to_spark
from maia.spark.governed.arrow_columns import arrow_column
from maia.spark.governed.log_folder import HEADER, FramesWanted, LogFrames, Stretch, columns_to_read
from maia.spark.governed.reader import AcceptedSigners, FrameRequirements
from maia.spark.keys.content_keys import HeldEpoch
from maia.spark.keys.key_server import DeskPass
from maia.types import TransitKindMismatch
from maia.types.definition import ENVELOPE_UID
from maia.views.arrow_executor import ARROW_TYPES
from maia.wire.codec import decode_recorded
from maia.wire.columns import VALUES_MAX, columns_to_frame, kind_from_number
from maia.wire.messages import Carried, Column, Recorded, Sealed, SealedWithAuthor, Unblinded

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
    """The rows of one frame: arrays by uid, and which row of which frame each one is."""

    frame: Recorded
    rows: int
    numbers: Sequence[int]
    # Any: pyarrow is not typed.
    values: Mapping[AttributeUid, Any] = field(repr=False)


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

    def period_at(self, moment: int) -> int | None:
        """Return the number of the period that a moment lies in."""
        return next((number for number, one in enumerate(self.periods) if one.holds_at(moment)), None)

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn what Spark hands a task, numbers of ranges or ranges, into batches of rows."""
        with told_to_spark():
            given = (row for batch in batches for row in batch.to_pylist())
            stretches = chain.from_iterable(
                self.ranges[row["id"]] if self.ranges else (Stretch(**row),) for row in given
            )
            for _, rows in self.opened(stretches):
                yield rows

    def opened(self, stretches: Iterable[Stretch]) -> Iterator[tuple[int, Any]]:
        """Yield the rows of some ranges, each batch with the number of its period."""
        frames = LogFrames(self.wanted, columns_to_read(self.kinds))
        return self.rows_of(chain.from_iterable(map(frames.batches, stretches)))

    def rows_of(self, batches: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the rows of frames, each batch with the number of its period."""
        task = _OpeningTask(self)
        waiting: list[list[OpenedRows]] = [[] for _ in self.periods]
        rows = [0 for _ in self.periods]
        for batch in batches:
            for number, one in task.rows_of(list(frames_in(batch, self.wanted.type_id))):
                waiting[number].append(one)
                rows[number] += one.rows
                if rows[number] >= ROWS_PER_BATCH:
                    yield number, self._batch(waiting[number], number)
                    waiting[number], rows[number] = [], 0
        for number, parts in enumerate(waiting):
            if parts:
                yield number, self._batch(parts, number)
        if self.keys is not None and task.refused:
            self.keys.report(task.refused)

    def _batch(self, parts: Sequence[OpenedRows], number: int) -> Any:
        rows = sum(part.rows for part in parts)
        arrays = [_array(uid, kind, parts) for uid, kind in self.kinds.items()]
        arrays += _meta_arrays(parts) if self.with_meta else []
        if len(self.periods) > 1:
            arrays.append(pa.repeat(pa.scalar(number, pa.int32()), rows))
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class _OpeningTask:
    """What one task has fetched and found good so far."""

    __slots__ = ("_checks", "_epochs", "_keys", "_plan", "refused")

    def __init__(self, plan: FrameOpener) -> None:
        """Check at once whether the grant is open, plaintext or not."""
        self._plan = plan
        self._checks = SignatureChecks()
        self._epochs: dict[int, HeldEpoch | None] = {}
        self._keys: dict[int, EpochKeys] = {}
        self.refused: Counter[str] = Counter()
        if plan.keys is not None:
            plan.keys.keys_of(())

    def rows_of(self, frames: Sequence[Recorded]) -> Iterator[tuple[int, OpenedRows]]:
        """Yield the readable part of some frames, each with the number of its period."""
        # The log's own column of moments prunes; it is not signed, and decides nothing.
        found = ((self._plan.period_at(frame.published_at), frame) for frame in frames)
        chosen = [(number, frame) for number, frame in found if number is not None and self._admit(frame)]
        self._fetch({frame.epoch for _, frame in chosen if isinstance(frame, Sealed)})
        for number, frame in chosen:
            one = self._plan.periods[number]
            try:
                opened = self._sealed(frame, one) if isinstance(frame, Sealed) else self._plain(frame, one)
            except MaiaError as problem:
                # A writer to the network or the log must not be able to stop its readers.
                self.refused[problem.code] += 1
                continue
            if opened is not None:
                yield number, opened

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

    def _plain(self, frame: Carried, period: ReadingPeriod) -> OpenedRows | None:
        if self._plan.least_level > 0:
            return None
        return _read(frame, frame.columns, period.kinds)

    def _sealed(self, frame: Sealed, period: ReadingPeriod) -> OpenedRows | None:
        held = self._epochs.get(frame.epoch)
        if held is None or frame.level < self._plan.least_level:
            return None
        if not held.first <= frame.published_at <= held.last:
            return None  # an old key seals nothing new (A50)
        keys, travelled = self._keys_of(frame.epoch, held), frame
        if isinstance(frame, Unblinded):
            travelled, keys = frame.travelled(), keys.through(frame.blinded_id, frame.id_epoch)
        opened = open_run(verify(read_run([travelled]), self._checks), keys, only=period.kinds)
        if not _is_readable(opened, held, period.asks):
            return None
        (columns,) = opened.columns
        uids = {column.uid for column in columns}.union(opened.run.uids)
        if not period.signers.may_write(opened.signer.key, uids, frame.published_at):
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
        return _read(frame, columns, period.kinds)

    def _keys_of(self, epoch: int, held: HeldEpoch) -> EpochKeys:
        known = self._keys.get(epoch)
        if known is None:

            def lookup(uid: AttributeUid | None) -> Secret | None:
                return held.keys.get(uid)

            known = self._keys[epoch] = EpochKeys(self._plan.wanted.type_id, epoch, lookup)
        return known


def _is_readable(opened: VerifiedRun, held: HeldEpoch, asks: frozenset[AttributeUid]) -> bool:
    """Return whether something of a frame is open to the reader, and nothing that is asked about is not."""
    closed = opened.closed
    if "" in closed or not closed.isdisjoint(asks):
        return False
    return not opened.is_closed or None in held.keys


def _read(frame: Recorded, columns: Sequence[Column], kinds: Mapping[AttributeUid, Kind]) -> OpenedRows:
    """Read the values, every one checked; a kind that is not the attribute's is refused."""
    found: dict[AttributeUid, Any] = {}
    wanted = [column for column in columns if column.uid in kinds]
    if frame.rows * len(wanted) > VALUES_MAX:
        raise ProtocolViolation(
            "PROTOCOL-TOO-MANY-VALUES", f"a frame has more than the {VALUES_MAX} values allowed"
        )
    for column in wanted:
        uid = AttributeUid(column.uid)  # it is one of `kinds`
        if kind_from_number(column.kind) is not kinds[uid] or uid in found:
            raise TransitKindMismatch(f"uid `{uid}` arrived twice, or with a kind that is not its own")
        found[uid] = arrow_column(kinds[uid], column.data, frame.rows)
    return OpenedRows(frame, frame.rows, frame.kept or range(frame.rows), found)


def _inside(columns: Sequence[Column], rows: int) -> Inside | None:
    """Return what the envelope of a blinded frame says; None if it is cover."""
    found = [column for column in columns if column.uid == ENVELOPE_UID]
    return read_envelope(columns_to_frame(found, rows).columns.get(ENVELOPE_UID))


# ------------------------------------------------------------ arrays


def _array(uid: AttributeUid, kind: Kind, parts: Sequence[OpenedRows]) -> Any:
    found = [one.values.get(uid) for one in parts]
    arrays = [
        pa.nulls(one.rows, ARROW_TYPES[kind]) if values is None else values
        for one, values in zip(parts, found, strict=True)
    ]
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
