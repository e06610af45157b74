"""How does a column of values travel, and may what arrived be believed?

A column is a MessagePack array with one element per row; null is nil. It has
exactly one form. Publishers and brokers encode, brokers and subscribers
decode, and neither direction lets a value through that `checked_value` would
refuse. That function is the definition; whole columns are looked over by a
few fast tests, and only a column that may hold something odd is gone through
value by value.

A publisher numbers the frames of its stream, and brokers route, order and remember them by these
numbers. A subscriber gets labels in their place: a number would say how many frames it did not get, and a
restriction is to withhold without a trace (A91). A label is a hash of the stream, which is
random and which no subscriber learns, so that nobody else finds the number behind it; and it is the same at
every broker, so that a frame that comes again, over another broker, is recognised.

Without a signature a number or a moment proves nothing, so none may silence what comes after
it (A85): a frame is late if it is a little older than the newest one, and one that is far older says
that the newest was no true one, or that its publisher has begun anew. Either way the stream
goes on from there.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import repeat
from operator import attrgetter
from typing import Annotated, Final, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import Meta

from maia.errors import ProtocolViolation
from maia.events import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    ROWS_MAX,
    STRING_BYTES_MAX,
    AttributeUid,
    BadAttribute,
    BadFrame,
    BadValue,
    Column,
    Frame,
    Instant,
    Kind,
    Kinds,
    Value,
    attribute_uid,
    checked_value,
)
from maia.types import TransitKindMismatch
from maia.wire.messages import Column as WireColumn

VALUES_MAX: Final = 1 << 20
"""How many values one frame may carry. A value of three bytes takes eighty in memory."""

_NUMBERS: Final = {Kind.STRING: 1, Kind.INT: 2, Kind.FLOAT: 3, Kind.BOOL: 4, Kind.TIMESTAMP: 5, Kind.BYTES: 6}
_KINDS: Final = {number: kind for kind, number in _NUMBERS.items()}

_NULL: Final = type(None)
_CLASSES: Final[dict[Kind, frozenset[type]]] = {
    Kind.STRING: frozenset({str, _NULL}),
    Kind.INT: frozenset({int, _NULL}),
    Kind.FLOAT: frozenset({float, _NULL}),
    Kind.BOOL: frozenset({bool, _NULL}),
    Kind.TIMESTAMP: frozenset({Instant, _NULL}),
    Kind.BYTES: frozenset({bytes, _NULL}),
}
_CLASS: Final = {kind: one for kind, classes in _CLASSES.items() for one in classes - {_NULL}}

_Int = Annotated[int, Meta(ge=INT_MIN, le=INT_MAX)]
_Moment = Annotated[int, Meta(ge=INSTANT_MIN, le=INSTANT_MAX)]
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final[dict[Kind, msgspec.msgpack.Decoder[tuple[Value, ...]]]] = {
    Kind.STRING: msgspec.msgpack.Decoder(tuple[str | None, ...]),
    Kind.INT: msgspec.msgpack.Decoder(tuple[_Int | None, ...]),
    Kind.FLOAT: msgspec.msgpack.Decoder(tuple[float | None, ...]),
    Kind.BOOL: msgspec.msgpack.Decoder(tuple[bool | None, ...]),
    Kind.TIMESTAMP: msgspec.msgpack.Decoder(tuple[_Moment | None, ...]),
    Kind.BYTES: msgspec.msgpack.Decoder(tuple[bytes | None, ...]),
}

_SINGLES: Final[dict[Kind, msgspec.msgpack.Decoder[tuple[tuple[Value], ...]]]] = {
    Kind.STRING: msgspec.msgpack.Decoder(tuple[tuple[str | None], ...]),
    Kind.INT: msgspec.msgpack.Decoder(tuple[tuple[_Int | None], ...]),
    Kind.FLOAT: msgspec.msgpack.Decoder(tuple[tuple[float | None], ...]),
    Kind.BOOL: msgspec.msgpack.Decoder(tuple[tuple[bool | None], ...]),
    Kind.TIMESTAMP: msgspec.msgpack.Decoder(tuple[tuple[_Moment | None], ...]),
    Kind.BYTES: msgspec.msgpack.Decoder(tuple[tuple[bytes | None], ...]),
}
"""Columns of one row, one after the other."""

_NIL: Final = b"\xc0"
_MINUS_ZERO: Final = b"\xcb\x80" + bytes(7)
_REMEMBERED_UIDS: Final = 8192
_REMEMBERED_LAYOUTS: Final = 512
_LAYOUT_COLUMNS_MAX: Final = 64
"""A frame with more columns than this is read one column at a time."""


class BadColumn(ProtocolViolation):
    """A column's bytes are not the one form of so many values of its kind."""

    code = "PROTOCOL-COLUMN"


class BadColumns(ProtocolViolation):
    """The columns of a frame do not fit together: a uid twice, an unknown kind, a foreign attribute."""

    code = "PROTOCOL-COLUMNS"


def kind_to_number(kind: Kind) -> int:
    """Return the number that stands for a kind in a message; 0 stands for none."""
    return _NUMBERS[kind]


def kind_from_number(number: int) -> Kind:
    """Return the kind that a number stands for."""
    kind = _KINDS.get(number)
    if kind is None:
        raise BadColumns(f"`{number}` is the number of no kind")
    return kind


# ------------------------------------------------------------ one column


def encode_column(kind: Kind, values: Sequence[Value]) -> bytes:
    """Return the bytes of a column; refuse a value that is none of `kind` with `BadValue`."""
    if len(values) > ROWS_MAX:
        raise BadFrame(f"a column of {len(values)} values is longer than {ROWS_MAX}")
    if not _CLASSES[kind].issuperset(map(type, values)):
        _checked_one_by_one(kind, values)
    plain = _as_ints(values) if kind is Kind.TIMESTAMP else values
    try:
        data = _ENCODER.encode(plain)
    except (UnicodeEncodeError, OverflowError) as problem:
        _checked_one_by_one(kind, values)
        raise BadValue("a value cannot be written") from problem  # an Instant out of its range
    if (kind is Kind.INT and _largest(values) > INT_MAX) or _may_hold_odd_values(kind, values, data):
        return _ENCODER.encode(_checked_one_by_one(kind, values))
    return data


def _encode_value(kind: Kind, values: tuple[Value, ...]) -> bytes:
    """Return the bytes of a column of one value, as `encode_column` does, which looks closer at some."""
    (value,) = values
    found = type(value)
    if found is not _CLASS[kind]:
        return encode_column(kind, values)
    try:
        # The plus makes an int of an Instant.
        data = _ENCODER.encode((+cast("Instant", value),) if found is Instant else values)
    except (UnicodeEncodeError, OverflowError):
        return encode_column(kind, values)
    if found is str:
        is_plain = len(data) <= STRING_BYTES_MAX and b"\0" not in data
    elif found is int:
        is_plain = cast("int", value) <= INT_MAX
    elif found is float:
        is_plain = math.isfinite(cast("float", value)) and not data.endswith(_MINUS_ZERO)
    else:
        is_plain = found is not bytes or len(data) <= STRING_BYTES_MAX
    return data if is_plain else encode_column(kind, values)


def decode_column(kind: Kind, data: bytes, rows: int) -> tuple[Value, ...]:
    """Return the `rows` values of a column, each checked; refuse anything but its one form."""
    _check_announced_rows(data, rows)
    try:
        values = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise BadColumn(f"the column cannot be read as {kind.value}: {problem}") from problem
    if _ENCODER.encode(values) != data:
        raise BadColumn("the column is not written in its one form")
    if kind is Kind.TIMESTAMP:
        return _as_instants(values, data)
    if _may_hold_odd_values(kind, values, data):
        _refuse_odd_values(kind, values, data)
    return values


def _check_announced_rows(data: bytes, rows: int) -> None:
    """Refuse a column that is shorter or longer than its frame, before any of it is read."""
    if not 0 <= rows <= ROWS_MAX:
        raise BadColumn(f"a column of {rows} rows is outside 0 to {ROWS_MAX}")
    if not data.startswith(array_header(rows)):
        raise BadColumn(f"the column does not hold the {rows} rows of its frame")


@lru_cache(maxsize=1024)
def array_header(rows: int) -> bytes:
    if rows < 1 << 4:
        return bytes((0x90 | rows,))
    if rows < 1 << 16:
        return b"\xdc" + rows.to_bytes(2, "big")
    return b"\xdd" + rows.to_bytes(4, "big")


def _may_hold_odd_values(kind: Kind, values: Sequence[Value], data: bytes) -> bool:
    """Return whether a column must be gone through value by value; a cautious yes costs only time."""
    if kind is Kind.STRING:
        # The length of a long string may have a zero byte too; the count of rows is left out.
        if b"\0" not in data:
            return len(data) > STRING_BYTES_MAX
        start = len(array_header(len(values)))
        return data.find(b"\0", start) >= 0 or len(data) > STRING_BYTES_MAX
    if kind is Kind.FLOAT:
        # A sum is finite only if every term is. Zeros drop out with the nulls.
        # The classes were checked, which the type of a column cannot say.
        total = sum(filter(None, cast("Sequence[float | None]", values)))
        return not math.isfinite(total) or _MINUS_ZERO in data
    return kind is Kind.BYTES and len(data) > STRING_BYTES_MAX


def _largest(values: Sequence[Value]) -> int:
    # The classes were checked, which the type of a column cannot say. Zeros drop out with the nulls.
    return max(filter(None, cast("Sequence[int | None]", values)), default=0)


def _checked_one_by_one(kind: Kind, values: Iterable[Value]) -> tuple[Value, ...]:
    return tuple([checked_value(value, kind) for value in values])


def _refuse_odd_values(kind: Kind, values: tuple[Value, ...], data: bytes) -> None:
    try:
        checked = _checked_one_by_one(kind, values)
    except BadValue as problem:
        raise BadColumn(f"the column holds what is no value: {problem.message}") from problem
    if _MINUS_ZERO in data and _ENCODER.encode(checked) != data:
        raise BadColumn("the column holds a minus zero")


def _as_ints(values: Sequence[Value]) -> list[int | None]:
    # The plus makes an int of an Instant, three times as fast as int() does. All are Instants or null.
    moments = cast("Sequence[Instant | None]", values)
    return [None if moment is None else +moment for moment in moments]


def _as_instants(values: tuple[Value, ...], data: bytes) -> tuple[Value, ...]:
    # The range was checked for the whole column, so that Instant need not check it again.
    numbers = cast("tuple[int | None, ...]", values)  # the decoder of this kind returns nothing else
    if _NIL in data and None in numbers:
        return tuple([None if number is None else int.__new__(Instant, number) for number in numbers])
    return tuple(map(int.__new__, repeat(Instant), cast("tuple[int, ...]", numbers)))  # none is null


# ------------------------------------------------------------ the columns of a frame


def frame_to_columns(frame: Frame) -> list[WireColumn]:
    """Return the columns of a frame as they travel; refuse a value that is none with `BadValue`."""
    _check_values(frame.rows, len(frame.columns))
    encoded = _encode_value if frame.rows == 1 else encode_column
    return [
        WireColumn(_known_uid(uid), _NUMBERS[column.kind], encoded(column.kind, column.values))
        for uid, column in frame.columns.items()
    ]


class EventWriter:
    """Writes events of one type that leave alone: the columns that `frame_to_columns` returns of each."""

    __slots__ = ("_classes", "_floats", "_ints", "_kinds", "_long", "_moments", "_numbers", "_uids")

    def __init__(self, kinds: Kinds) -> None:
        """Write the attributes of a type, in the order of its kinds."""
        self._kinds = tuple(kinds.values())
        self._uids, self._numbers = tuple(map(_known_uid, kinds)), tuple(map(kind_to_number, self._kinds))
        self._classes = tuple(_CLASS[kind] for kind in self._kinds)
        of_kind = {kind: tuple(at for at, one in enumerate(self._kinds) if one is kind) for kind in Kind}
        self._ints, self._floats = of_kind[Kind.INT], of_kind[Kind.FLOAT]
        self._moments, self._long = of_kind[Kind.TIMESTAMP], of_kind[Kind.STRING] + of_kind[Kind.BYTES]

    def columns_of(self, values: Sequence[Value]) -> list[WireColumn]:
        """Return the columns of an event by its values, without those that are null; every value is checked.

        All are looked over together; one that is null or may be odd has them written one by one.
        """
        if tuple(map(type, values)) == self._classes:
            plain: list[Value] = list(values)
            for at in self._moments:
                plain[at] = +values[at]  # type: ignore[operator]  # the plus makes an int of an Instant
            try:
                data = list(map(_ENCODER.encode, zip(plain)))
            except (UnicodeEncodeError, OverflowError):
                data = []  # said below, with the value that it is
            if data and not self._may_be_odd(values, data):
                return list(map(WireColumn, self._uids, self._numbers, data))
        return [
            WireColumn(uid, _NUMBERS[kind], _encode_value(kind, (value,)))
            for uid, kind, value in zip(self._uids, self._kinds, values, strict=True)
            if value is not None
        ]

    def _may_be_odd(self, values: Sequence[Value], data: Sequence[bytes]) -> bool:
        for at in self._ints:
            if values[at] > INT_MAX:  # type: ignore[operator]  # classes were compared
                return True
        for at in self._floats:
            if not math.isfinite(values[at]) or data[at].endswith(_MINUS_ZERO):  # type: ignore[arg-type]
                return True
        for at in self._long:
            if len(data[at]) > STRING_BYTES_MAX or (b"\0" in data[at] and self._kinds[at] is Kind.STRING):
                return True
        return False


def columns_to_frame(
    columns: Sequence[WireColumn],
    rows: int,
    kinds: Kinds | None = None,
    *,
    only: Collection[AttributeUid] | None = None,
) -> Frame:
    """Return the frame that these columns are, every value checked.

    With `kinds`, an attribute outside it or of another kind is refused. With
    `only`, the other columns are left out and not decoded; their bytes may be
    anything, so they must not be passed on as checked.
    """
    if only is None and 0 < len(columns) <= _LAYOUT_COLUMNS_MAX and 0 < rows * len(columns) <= VALUES_MAX:
        frame = _read_at_once(columns, rows, kinds)
        if frame is not None:
            return frame
    return _read_one_by_one(columns, rows, kinds, only)


def _read_one_by_one(
    columns: Sequence[WireColumn], rows: int, kinds: Kinds | None, only: Collection[AttributeUid] | None
) -> Frame:
    """Read each column by itself, and say of the first that is wrong what is."""
    found = kinds_of_columns(columns)
    if kinds is not None:
        _check_kinds(found, kinds)
    wanted = [column for column in columns if only is None or column.uid in only]
    _check_values(rows, len(wanted))
    decoded: dict[AttributeUid, Column] = {}
    for column in wanted:
        uid = AttributeUid(column.uid)  # checked in `kinds_of_columns`
        decoded[uid] = Column(found[uid], _decoded(uid, found[uid], column.data, rows))
    return Frame(rows, decoded)


def kinds_of_columns(columns: Iterable[WireColumn]) -> dict[AttributeUid, Kind]:
    """Return the kind of each column by uid, without decoding any; refuse a uid that occurs twice."""
    kinds: dict[AttributeUid, Kind] = {}
    for column in columns:
        uid = _checked_uid(column.uid)
        if uid in kinds:
            raise BadColumns(f"two columns have the uid `{uid}`")
        kinds[uid] = kind_from_number(column.kind)
    return kinds


def _decoded(uid: AttributeUid, kind: Kind, data: bytes, rows: int) -> tuple[Value, ...]:
    try:
        return decode_column(kind, data, rows)
    except BadColumn as problem:
        raise BadColumn(f"column `{uid}`: {problem.message}") from problem


def _check_kinds(found: Kinds, declared: Kinds) -> None:
    for uid, kind in found.items():
        wanted = declared.get(uid)
        if wanted is None:
            raise BadColumns(f"column `{uid}` is no attribute of this type")
        if wanted is not kind:
            raise TransitKindMismatch(f"uid `{uid}` is of kind {wanted.value}, and {kind.value} arrived")


def _check_values(rows: int, columns: int) -> None:
    if not 0 <= rows <= ROWS_MAX:
        raise BadColumns(f"a frame of {rows} rows is outside 0 to {ROWS_MAX}")
    if rows * columns > VALUES_MAX:
        raise ProtocolViolation(
            "PROTOCOL-TOO-MANY-VALUES",
            f"{rows} rows of {columns} columns are more than the {VALUES_MAX} values allowed",
        )


# ------------------------------------------------------------ all columns of a frame at once
#
# Frames of one type have the same columns, most of the time. What there is to check of their names and
# kinds is checked once for such a layout, and then all columns are one array of arrays to the decoder.


LayoutKey: TypeAlias = tuple[tuple[str, int], ...]
"""The columns of a frame by uid and number of kind, in their order."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of some frames: uids that stand once, in their order, with their kinds."""

    kinds: dict[AttributeUid, Kind]
    header: bytes
    decoder: msgspec.msgpack.Decoder[tuple[tuple[Value, ...], ...]]
    moments: tuple[tuple[int, AttributeUid], ...]
    """Which columns are of TIMESTAMP."""
    texts: tuple[int, ...]
    """Which columns are of STRING."""
    perhaps_odd: tuple[tuple[int, Kind], ...]
    """Which other columns can hold values that decode and are none."""


_uid_and_kind: Final = attrgetter("uid", "kind")


def _read_at_once(columns: Sequence[WireColumn], rows: int, kinds: Kinds | None) -> Frame | None:
    """Return the frame if every column is beyond doubt what it should be; None says: look closer."""
    layout = layout_of(tuple(map(_uid_and_kind, columns)))
    if layout is None or (kinds is not None and not layout.kinds.items() <= kinds.items()):
        return None
    return _read_by(layout, columns, rows)


def _read_by(layout: Layout, columns: Sequence[WireColumn], rows: int) -> Frame | None:
    data = [column.data for column in columns]
    whole = b"".join([layout.header, *data])
    try:
        decoded = layout.decoder.decode(whole)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    # Each column by itself has its one form: what one column lacks, no other may have lent it.
    if list(map(_ENCODER.encode, decoded)) != data:
        return None
    try:
        # Without a zero byte in all of it, there is none in a text.
        if b"\0" in whole or len(whole) > STRING_BYTES_MAX or layout.perhaps_odd:
            _refuse_odd_columns(layout, decoded, data, rows)
        if layout.moments:
            decoded = _with_instants(decoded, data, layout.moments)
        made = map(Column, layout.kinds.values(), decoded)
        return Frame(rows, dict(zip(layout.kinds, made)))  # noqa: B905 - as many: the decoder has counted
    except (BadColumn, BadFrame):
        return None


def layout_key(columns: Sequence[WireColumn], last: LayoutKey = ()) -> LayoutKey:
    """Return what `layout_of` knows columns by; it is soon found that it is the same as the last one."""
    if len(columns) == len(last):
        for column, (uid, number) in zip(columns, last):  # noqa: B905 - as many
            if column.uid != uid or column.kind != number:
                break
        else:
            return last
    return tuple([(column.uid, column.kind) for column in columns])


class FrameReader:
    """Reads the frames of a stream: one of any number of rows, or many of one row each as one frame.

    What there is to check of names and kinds is checked once for as long as the columns stay the same.
    """

    __slots__ = ("_among", "_key", "_kinds", "_layout")

    def __init__(self, kinds: Kinds | None, among: Kinds | None = None) -> None:
        """Refuse what is outside `kinds`, or what `among` knows as of another kind."""
        self._kinds, self._among = kinds, among
        self._key: LayoutKey = ()
        self._layout: Layout | None = None

    def read(self, frames: Sequence[Sequence[WireColumn]], rows: int) -> Frame | None:
        """Return all rows, every value checked; None if frames have to be read one by one, for one's sake."""
        first = frames[0]
        key = layout_key(first, self._key)
        if key is not self._key:
            self._key, self._layout = key, self._checked(key)
        layout = self._layout
        if len(frames) > 1:
            alike = None if layout is None else by_column(frames)
            return None if alike is None else events_to_frame(alike, layout)
        if layout is not None and 0 < rows * len(first) <= VALUES_MAX:
            frame = _read_by(layout, first, rows)
            if frame is not None:
                return frame
        frame = _read_one_by_one(first, rows, self._kinds, None)
        check_kinds(frame, self._among or {})
        return frame

    def _checked(self, key: LayoutKey) -> Layout | None:
        layout = layout_of(key) if 0 < len(key) <= _LAYOUT_COLUMNS_MAX else None
        if layout is None or (self._kinds is not None and not layout.kinds.items() <= self._kinds.items()):
            return None
        known = self._among or {}
        return None if any(known.get(uid, kind) is not kind for uid, kind in layout.kinds.items()) else layout


def check_kinds(frame: Frame, kinds: Mapping[AttributeUid, object]) -> None:
    """Refuse a column of another kind than its uid has in the versions known here."""
    # Other versions may have attributes that are not known here; those pass untouched.
    for uid, column in frame.columns.items():
        if kinds.get(uid, column.kind) is not column.kind:
            raise TransitKindMismatch(f"uid `{uid}` arrived as {column.kind.value}, which it is not")


class EventsColumn(NamedTuple):
    """One attribute of some single events: the bytes of its column in each of them."""

    uid: str
    kind: int
    data: Sequence[bytes]


def by_column(events: Sequence[Sequence[WireColumn]]) -> list[EventsColumn] | None:
    """Return single events by column, each the columns of a frame of one row; None if these are not alike."""
    first = events[0]
    if any(len(one) != len(first) for one in events):
        return None
    found = []
    for one, same in zip(first, zip(*events)):  # noqa: B905 - as many
        uid, kind = one.uid, one.kind
        for column in same:  # one by one is fastest
            if column.uid != uid or column.kind != kind:
                return None
        found.append(EventsColumn(uid, kind, [column.data for column in same]))
    return found


def events_to_frame(events: Sequence[EventsColumn], layout: Layout | None = None) -> Frame | None:
    """Return single events as the rows of one frame.

    Every value is checked as in `columns_to_frame`. None says that one of them has to be looked at by itself,
    or that there is no such type.
    """
    if layout is None and 0 < len(events) <= _LAYOUT_COLUMNS_MAX:
        layout = layout_of(tuple([(uid, number) for uid, number, _ in events]))
    if layout is None:
        return None
    rows = len(events[0].data)
    if rows > ROWS_MAX or rows * len(events) > VALUES_MAX:
        return None
    columns: dict[AttributeUid, Column] = {}
    header = array_header(rows)
    for (uid, kind), (_, _, data) in zip(layout.kinds.items(), events):  # noqa: B905 - as many
        whole = b"".join(data)
        try:
            decoded = _SINGLES[kind].decode(header + whole)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        values = tuple([value for (value,) in decoded])
        if list(map(_ENCODER.encode, decoded)) != data or _may_hold_odd_values(kind, values, whole):
            return None
        columns[uid] = Column(kind, _as_instants(values, whole) if kind is Kind.TIMESTAMP else values)
    return Frame(rows, columns)


def _refuse_odd_columns(
    layout: Layout, decoded: tuple[tuple[Value, ...], ...], data: list[bytes], rows: int
) -> None:
    start = len(array_header(rows))  # the count of rows may have a zero byte of its own, and is left out
    for at in layout.texts:
        if data[at].find(b"\0", start) >= 0 or len(data[at]) > STRING_BYTES_MAX:
            _refuse_odd_values(Kind.STRING, decoded[at], data[at])
    for at, kind in layout.perhaps_odd:
        if _may_hold_odd_values(kind, decoded[at], data[at]):
            _refuse_odd_values(kind, decoded[at], data[at])


def _with_instants(
    decoded: tuple[tuple[Value, ...], ...], data: list[bytes], moments: Iterable[tuple[int, AttributeUid]]
) -> tuple[tuple[Value, ...], ...]:
    changed = list(decoded)
    for at, _ in moments:
        changed[at] = _as_instants(decoded[at], data[at])
    return tuple(changed)


@lru_cache(maxsize=_REMEMBERED_LAYOUTS)
def layout_of(columns: tuple[tuple[str, int], ...]) -> Layout | None:
    """Return the layout of columns given by uid and number of kind; None if there is none such."""
    try:
        kinds = {_checked_uid(uid): kind_from_number(number) for uid, number in columns}
    except BadColumns:
        return None
    if len(kinds) != len(columns):
        return None
    texts = tuple(at for at, kind in enumerate(kinds.values()) if kind is Kind.STRING)
    return Layout(
        kinds,
        array_header(len(kinds)),
        _decoder_of(tuple(kinds.values())),
        tuple((at, uid) for at, (uid, kind) in enumerate(kinds.items()) if kind is Kind.TIMESTAMP),
        texts,
        tuple((at, kind) for at, kind in enumerate(kinds.values()) if kind in {Kind.BYTES, Kind.FLOAT}),
    )


@lru_cache(maxsize=_REMEMBERED_LAYOUTS)
def _decoder_of(kinds: tuple[Kind, ...]) -> msgspec.msgpack.Decoder[tuple[tuple[Value, ...], ...]]:
    # A type made at run time, which no type checker can follow.
    whole = tuple[tuple(_DECODERS[kind].type for kind in kinds)]  # type: ignore[misc,valid-type]
    return msgspec.msgpack.Decoder(whole)


_known_uid: Final = lru_cache(maxsize=_REMEMBERED_UIDS)(attribute_uid)


@lru_cache(maxsize=_REMEMBERED_UIDS)
def _checked_uid(text: str) -> AttributeUid:
    try:
        return attribute_uid(text)
    except BadAttribute as problem:
        raise BadColumns(problem.message) from problem


NUMBERS_BEHIND_MAX: Final = 1 << 16
"""How many numbers below the newest one are late: far more frames than overtake each other."""
TIME_BEHIND_MAX: Final = 600_000_000
"""How many microseconds before the newest one are late: far longer than a frame takes on its way."""
_LABEL_BYTES: Final = 16
_STREAMS_REMEMBERED: Final = 4096
_FRAME: Final = b"maia/1/frame-label\x00"
_STREAM: Final = b"maia/1/stream-label\x00"


def is_late(sequence: int, *, newest: int) -> bool:
    """Return whether a frame was published before the newest one of its stream, as far as numbers tell."""
    return newest - NUMBERS_BEHIND_MAX <= sequence < newest


def is_published_late(published_at: int, *, newest: int) -> bool:
    """Say the same to a subscriber, which has no number: by the moments of publication."""
    return newest - TIME_BEHIND_MAX <= published_at < newest


@lru_cache(maxsize=_STREAMS_REMEMBERED)
def stream_label(publisher: bytes, stream: bytes) -> bytes:
    """Return what subscribers tell a publisher's stream by."""
    return sha256(_STREAM + publisher + stream).digest()[:_LABEL_BYTES]


def frame_label(publisher: bytes, stream: bytes, sequence: int) -> bytes:
    """Return what subscribers recognise a frame by, and what its publisher signs in place of its number."""
    return sha256(_FRAME + publisher + stream + sequence.to_bytes(8, "big")).digest()[:_LABEL_BYTES]
