"""Which rows of a publisher's frame are meant?

The memory of publications asks, for frames that arrive cut to some of their
rows. A set of rows is an integer whose bit `n` is row `n`, so that
joining and comparing sets of many thousand rows are single steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from maia.events import ROWS_MAX

RowSet: TypeAlias = int

ALL_ROWS: Final[RowSet] = -1
"""Every row, however many there are."""

_BYTES_MAX: Final = ROWS_MAX // 8


def row_set(rows: Sequence[int]) -> RowSet:
    """Return row numbers as a set."""
    if not rows:
        return 0
    bits = bytearray(max(rows) // 8 + 1)
    for row in rows:
        bits[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(bits, "little")


def rows_in(rows: RowSet, *, among: Sequence[int]) -> list[int]:
    """Return those of some row numbers that are in a set, in their order."""
    if rows == ALL_ROWS or not among:
        return list(among)
    # What `ALL_ROWS` has left after some were taken away has no last row, so it is cut to those asked for.
    bits = bytes_of_rows(rows & (1 << max(among) + 1) - 1)
    return [row for row in among if row >> 3 < len(bits) and bits[row >> 3] >> (row & 7) & 1]


def bytes_of_rows(rows: RowSet) -> bytes:
    """Return a set as bytes, without zeros at the end; all rows are no bytes at all."""
    return b"" if rows == ALL_ROWS else rows.to_bytes((rows.bit_length() + 7) // 8, "little")


def rows_from_bytes(data: bytes) -> RowSet:
    """Read what `bytes_of_rows` wrote."""
    return int.from_bytes(data[:_BYTES_MAX], "little") if data else ALL_ROWS
