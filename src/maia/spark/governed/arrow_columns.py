"""How does a column, as it travels, become an Arrow array, every value checked?

Executors ask, for each column of a frame that they have opened. Where all values of a column take
as many bytes, it is read as a whole, together with those of other frames that are as long; any other column
is read value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maia.events import INSTANT_MAX, INSTANT_MIN, INT_MAX, Kind
from maia.views.arrow_executor import ARROW_TYPES
from maia.wire.columns import BadColumn, array_header, decode_column

_NIL, _FALSE, _TRUE, _FLOAT, _STR8 = 0xC0, 0xC2, 0xC3, 0xCB, 0xD9
_REGULAR_FROM: Final = 16
"""Rows from which looking at a column as a whole costs less than reading its values."""

# By the bytes that a whole number takes: its first byte, and the least number that needs so many.
_UNSIGNED: Final = {2: (0xCC, 1 << 7), 3: (0xCD, 1 << 8), 5: (0xCE, 1 << 16), 9: (0xCF, 1 << 32)}
_Bytes = NDArray[np.uint8]


# Any: pyarrow is not typed.
def arrow_column(kind: Kind, data: bytes, rows: int) -> Any:
    """Return the `rows` values of a column; refuse anything but its one form with `BadColumn`."""
    found = regular_columns(kind, [data], rows)
    return _one_by_one(kind, data, rows) if found is None else found


def regular_columns(kind: Kind, columns: Sequence[bytes], rows: int) -> Any:
    """Return the values of columns that have as many rows and bytes; None where one is irregular."""
    header = array_header(rows)
    if rows * len(columns) < _REGULAR_FROM or not all(one.startswith(header) for one in columns):
        return None
    width, rest = divmod(len(columns[0]) - len(header), rows)
    if rest or not width:
        return None
    whole = np.frombuffer(b"".join(columns), np.uint8).reshape(len(columns), -1)
    return _REGULAR[kind](whole[:, len(header) :].reshape(-1, width), width)


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
