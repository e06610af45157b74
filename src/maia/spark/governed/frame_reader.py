"""How do frames of the log become rows inside an executor?

Spark hands over batches of frames, already pruned by type and time. Each
frame is opened column by column, one call of the cipher for a column however
many rows it has, and proved: its signer signed exactly this, and might publish
it. What comes out has one column for each attribute that the View asks about
or shows, called by uid. Frames that do not hold are left out, as a broker
leaves them out; what the reader has no key for is null, and a frame of which
the policy asks what cannot be opened shows no row at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final, cast

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maia.errors import MaiaError, ProtocolViolation, Refusal
from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, AttributeUid, Kind
from maia.log.format.segments import column_name
from maia.sealing import EpochKeys, Secret, SignatureChecks, VerifiedRun, open_run, read_run, verify
from maia.sealing.keys.blinding import Inside, read_envelope
from maia.spark.governed.reader import FrameRequirements, Signers
from maia.spark.keys.content_keys import HeldEpoch, KeyPass
from maia.types import TransitKindMismatch
from maia.types.definition import ENVELOPE_UID
from maia.views.arrow_executor import ARROW_TYPES
from maia.wire.codec import decode_recorded
from maia.wire.columns import (
    VALUES_MAX,
    BadColumn,
    array_header,
    columns_to_frame,
    decode_column,
    kind_from_number,
)
from maia.wire.messages import Carried, Column, Recorded, Sealed, SealedWithAuthor, Unblinded

# Which frames lie in these rows of a log, as far as this reader needs them?


HEADER: Final = "header"
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


# How does a column, as it travels, become an Arrow array, every value checked?


_NIL, _FALSE, _TRUE, _FLOAT, _STR8 = 0xC0, 0xC2, 0xC3, 0xCB, 0xD9
_REGULAR_FROM: Final = 16
"""Rows from which looking at a column as a whole costs less than reading its values."""

# By the bytes that a whole number takes: its first byte, and the least number that needs so many.
_UNSIGNED: Final = {2: (0xCC, 1 << 7), 3: (0xCD, 1 << 8), 5: (0xCE, 1 << 16), 9: (0xCF, 1 << 32)}
_Bytes = NDArray[np.uint8]


# Any: pyarrow is not typed.
def arrow_column(kind: Kind, data: bytes, rows: int) -> Any:
    """Return the `rows` values of a column; refuse anything but its one form with `BadColumn`."""
    header = array_header(rows)
    if rows >= _REGULAR_FROM and data.startswith(header):
        width, rest = divmod(len(data) - len(header), rows)
        if not rest and width:
            cells = np.frombuffer(data, np.uint8, offset=len(header)).reshape(rows, width)
            found = _REGULAR[kind](cells, width)
            if found is not None:
                return found
    return _one_by_one(kind, data, rows)


def _one_by_one(kind: Kind, data: bytes, rows: int) -> Any:
    if kind is not Kind.TIMESTAMP:
        return pa.array(decode_column(kind, data, rows), ARROW_TYPES[kind])
    # Moments are written as numbers. Arrow takes those as they are, ten times as fast.
    values = decode_column(Kind.INT, data, rows)
    numbers = cast("list[int]", [value for value in values if value is not None])
    if numbers and not INSTANT_MIN <= min(numbers) <= max(numbers) <= INSTANT_MAX:
        raise BadColumn("a column of moments holds one outside the years 0001 to 9999")
    return pa.array(cast("Sequence[int | None]", values), pa.int64()).cast(ARROW_TYPES[kind])


# ------------------------------------------------------------ regular columns


def _bools(cells: _Bytes, width: int) -> Any:
    if width != 1:
        return None
    flat = cells[:, 0]
    null = flat == _NIL
    if not (null | (flat == _TRUE) | (flat == _FALSE)).all():
        return None
    return pa.array(flat == _TRUE, mask=null)


def _ints(cells: _Bytes, width: int) -> Any:
    if width == 1:
        flat = cells[:, 0]
        null = flat == _NIL
        # Everything else that takes one byte is a small number; from 0xe0 on, a negative one.
        if not (null | (flat < 0x80) | (flat >= 0xE0)).all():
            return None
        return pa.array(flat.view(np.int8).astype(np.int64), mask=null)
    numbers = _unsigned(cells, width, INT_MAX)
    return None if numbers is None else pa.array(numbers)


def _moments(cells: _Bytes, width: int) -> Any:
    numbers = _unsigned(cells, width, INSTANT_MAX)
    return None if numbers is None else pa.array(numbers).cast(ARROW_TYPES[Kind.TIMESTAMP])


def _unsigned(cells: _Bytes, width: int, most: int) -> NDArray[np.int64] | None:
    first, least = _UNSIGNED.get(width, (0, 0))
    if not first or not (cells[:, 0] == first).all():
        return None
    numbers = np.ascontiguousarray(cells[:, 1:]).view(f">u{width - 1}")[:, 0]
    # A number that fits into fewer bytes has another form, and that is its one form.
    if int(numbers.min()) < least or int(numbers.max()) > most:
        return None
    return numbers.astype(np.int64)


def _floats(cells: _Bytes, width: int) -> Any:
    if width != 9 or not (cells[:, 0] == _FLOAT).all():
        return None
    numbers = np.ascontiguousarray(cells[:, 1:]).view(">f8")[:, 0].astype(np.float64)
    if not np.isfinite(numbers).all() or (np.signbit(numbers) & (numbers == 0)).any():
        return None
    return pa.array(numbers)


def _texts(cells: _Bytes, width: int) -> Any:
    start = _text_start(cells, width)
    if start is None:
        return None
    text = np.ascontiguousarray(cells[:, start:])
    # ASCII alone: then every value is a text by itself, and U+0000 is the only one to refuse.
    if text.max() >= 0x80 or not text.all():
        return None
    rows, length = text.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(length)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def _text_start(cells: _Bytes, width: int) -> int | None:
    """Return where the texts begin, if all have one length and are written so."""
    if 2 <= width <= 32 and (cells[:, 0] == (0xA0 | (width - 1))).all():
        return 1
    is_longer = 34 <= width <= 257
    if is_longer and (cells[:, 0] == _STR8).all() and (cells[:, 1] == width - 2).all():
        return 2
    return None


def _never(_cells: _Bytes, _width: int) -> Any:
    return None


_REGULAR: Final[dict[Kind, Callable[[_Bytes, int], Any]]] = {
    Kind.BOOL: _bools,
    Kind.INT: _ints,
    Kind.TIMESTAMP: _moments,
    Kind.FLOAT: _floats,
    Kind.STRING: _texts,
    Kind.BYTES: _never,
}


ROWS_PER_BATCH: Final = 16_384
"""Rows that are handed to Spark at once; a larger frame goes as one."""

META: Final[dict[str, pa.DataType]] = {
    "_publisher": pa.binary(),
    "_stream": pa.binary(),
    "_sequence": pa.int64(),
    "_row": pa.int32(),
    "_published_at": pa.timestamp("us", tz="UTC"),
}
"""What is known of an event beside its attributes. No uid begins with an underscore."""

PERIOD: Final = "_period"
"""Which of several openers a row comes from, by number."""


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
    """Opens frames of one type for one View. It is pickled into the job, and holds no key."""

    type_id: bytes
    kinds: Mapping[AttributeUid, Kind]
    """What becomes a column."""
    asks: frozenset[AttributeUid]
    """The attributes in the View's restrictions and the reader's filter."""
    least_level: int
    """Frames that are sealed less than this are left out (A29)."""
    signers: Signers
    since: int
    until: int
    """Moments between which the View held, both included. What a frame says of its moment is signed."""
    keys: KeyPass | None = field(repr=False)
    with_meta: bool = False
    spans: tuple[tuple[int, int], ...] = ()
    """Where the View held only at times between the two moments: these, one after the other."""
    requirements: FrameRequirements = field(default_factory=FrameRequirements)
    """What publishers and this reader require of each other."""

    def holds_at(self, moment: int) -> bool:
        """Say whether the View held at a moment."""
        if not self.since <= moment <= self.until:
            return False
        if not self.spans:
            return True
        span = self.spans[bisect_right(self.spans, moment, key=_start) - 1]
        return span[0] <= moment <= span[1]

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of what comes out."""
        fields = [pa.field(uid, ARROW_TYPES[kind]) for uid, kind in self.kinds.items()]
        return pa.schema(fields + [pa.field(name, kind) for name, kind in META.items() if self.with_meta])

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn batches of frames into batches of rows."""
        opened = _Task(self)
        waiting: list[OpenedRows] = []
        rows = 0
        for batch in batches:
            for one in opened.rows_of(list(frames_in(batch, self.type_id))):
                waiting.append(one)
                rows += one.rows
                if rows >= ROWS_PER_BATCH:
                    yield self._batch(waiting, rows)
                    waiting, rows = [], 0
        if waiting:
            yield self._batch(waiting, rows)
        if self.keys is not None and opened.refused:
            self.keys.report(opened.refused)

    def _batch(self, parts: Sequence[OpenedRows], rows: int) -> Any:
        arrays = [_array(uid, kind, parts) for uid, kind in self.kinds.items()]
        if self.with_meta:
            arrays += _meta_arrays(parts)
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


@dataclass(frozen=True, slots=True)
class PeriodsOpener:
    """Opens frames for the Views of several periods in one pass; each row says of which one it is.

    A stream has one source however many periods it shows, so that its checkpoint
    is good for another number of them.
    """

    periods: tuple[FrameOpener, ...]

    @property
    def kinds(self) -> dict[AttributeUid, Kind]:
        """Return what becomes a column, in any period."""
        return {uid: kind for one in self.periods for uid, kind in one.kinds.items()}

    # Any: pyarrow is not typed, and Spark calls this with its batches.
    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Turn batches of frames into batches of rows."""
        tasks = [_Task(one) for one in self.periods]
        kinds = self.kinds
        for batch in batches:
            frames = list(frames_in(batch, self.periods[0].type_id))
            for number, (one, task) in enumerate(zip(self.periods, tasks, strict=True)):
                parts = list(task.rows_of(frames))
                if parts:
                    yield _of_period(number, parts, kinds, with_meta=one.with_meta)
        for one, task in zip(self.periods, tasks, strict=True):
            if one.keys is not None and task.refused:
                one.keys.report(task.refused)


def _start(span: tuple[int, int]) -> int:
    return span[0]


def _of_period(
    number: int, parts: Sequence[OpenedRows], kinds: Mapping[AttributeUid, Kind], *, with_meta: bool
) -> Any:
    columns: dict[str, Any] = {uid: _array(uid, kind, parts) for uid, kind in kinds.items()}
    if with_meta:
        columns |= zip(META, _meta_arrays(parts), strict=True)
    rows = sum(part.rows for part in parts)
    return pa.RecordBatch.from_pydict(columns | {PERIOD: pa.array([number] * rows, pa.int32())})


class _Task:
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

    def rows_of(self, frames: Sequence[Recorded]) -> Iterator[OpenedRows]:
        """Yield the readable part of some frames."""
        plan = self._plan
        # The log's own column of moments prunes; it is not signed, and decides nothing.
        frames = [frame for frame in frames if plan.holds_at(frame.published_at) and self._admit(frame)]
        self._fetch({frame.epoch for frame in frames if isinstance(frame, Sealed)})
        for frame in frames:
            try:
                found = self._sealed(frame) if isinstance(frame, Sealed) else self._plain(frame)
            except MaiaError as problem:
                # A writer to the network or the log must not be able to stop its readers.
                self.refused[problem.code] += 1
                continue
            if found is not None:
                yield found

    def _admit(self, frame: Carried | Sealed) -> bool:
        """Say whether the requirements of both sides are met, and count a frame whose own cannot be read."""
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

    def _plain(self, frame: Carried) -> OpenedRows | None:
        if self._plan.least_level > 0:
            return None
        return self._read(frame, frame.columns, frame.rows, frame.kept)

    def _sealed(self, frame: Sealed) -> OpenedRows | None:
        held = self._epochs.get(frame.epoch)
        if held is None or frame.level < self._plan.least_level:
            return None
        if not held.first <= frame.published_at <= held.last:
            return None  # an old key seals nothing new (A50)
        keys, travelled = self._keys_of(frame.epoch, held), frame
        if isinstance(frame, Unblinded):
            travelled, keys = frame.travelled(), keys.through(frame.blinded_id, frame.id_epoch)
        opened = open_run(verify(read_run([travelled]), self._checks), keys, only=self._plan.kinds)
        if not self._is_readable(opened, held):
            return None
        (columns,) = opened.columns
        uids = {column.uid for column in columns}.union(opened.run.uids)
        if not self._plan.signers.may_write(opened.signer.key, uids, frame.published_at):
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
        return self._read(frame, columns, frame.rows, frame.kept)

    def _is_readable(self, opened: VerifiedRun, held: HeldEpoch) -> bool:
        """Say whether something of a frame is open to the reader, and nothing that is asked about is not."""
        closed = opened.closed
        if "" in closed or not closed.isdisjoint(self._plan.asks):
            return False
        return not opened.is_closed or None in held.keys

    def _keys_of(self, epoch: int, held: HeldEpoch) -> EpochKeys:
        known = self._keys.get(epoch)
        if known is None:

            def lookup(uid: AttributeUid | None) -> Secret | None:
                return held.keys.get(uid)

            known = self._keys[epoch] = EpochKeys(self._plan.type_id, epoch, lookup)
        return known

    def _read(
        self, frame: Recorded, columns: Sequence[Column], rows: int, numbers: Sequence[int]
    ) -> OpenedRows:
        """Read the values, every one checked; a kind that is not the attribute's is refused."""
        kinds = self._plan.kinds
        found: dict[AttributeUid, Any] = {}
        wanted = [column for column in columns if column.uid in kinds]
        if rows * len(wanted) > VALUES_MAX:
            raise ProtocolViolation(
                "PROTOCOL-TOO-MANY-VALUES", f"a frame has more than the {VALUES_MAX} values allowed"
            )
        for column in wanted:
            uid = AttributeUid(column.uid)  # it is one of `kinds`
            if kind_from_number(column.kind) is not kinds[uid] or uid in found:
                raise TransitKindMismatch(f"uid `{uid}` arrived twice, or with a kind that is not its own")
            found[uid] = arrow_column(kinds[uid], column.data, rows)
        return OpenedRows(frame, rows, numbers or range(rows), found)


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
