"""Into which blocks of rows is a frame divided, and where does each begin in a column's bytes?

A frame can be cut to whole blocks without losing its proof, so signers,
cutters and verifiers must agree on the division. It follows from the number
of rows alone: frames that are too small to be worth cutting are one block, and
the largest have sixteen. A column's bytes stay one MessagePack array whatever
blocks it has lost, so that nobody encodes it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, cast

import msgspec

from maia.events import Instant, Kind, Value

__all__ = [
    "BLOCKS_MAX",
    "all_blocks",
    "array_header",
    "block_rows",
    "blocks_in",
    "blocks_with",
    "equal_lengths",
    "pack_lengths",
    "row_lengths",
    "rows_of_block",
    "rows_of_blocks",
    "unpack_lengths",
]

BLOCKS_MAX: Final = 16
"""Blocks of one frame at most: a hash each, on both sides."""

ROWS_PER_BLOCK_MIN: Final = 256
"""Fewer rows than this are never a block of their own, unless they are what is left at the end."""

_ENCODER: Final = msgspec.msgpack.Encoder()

# How many bytes the first byte of a value says it takes, where it says so alone.
_SIZES: Final = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9} | {
    0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100)), 1),
    **{0xA0 | length: 1 + length for length in range(32)},
}  # fmt: skip


@lru_cache(maxsize=4096)
def block_rows(rows: int) -> int:
    """Return how many rows a block of a frame with so many rows has; the last one may have fewer."""
    if rows < 2 * ROWS_PER_BLOCK_MIN:
        return rows
    return max(ROWS_PER_BLOCK_MIN, -(-rows // BLOCKS_MAX))


@lru_cache(maxsize=4096)
def blocks_in(rows: int) -> int:
    """Return how many blocks a frame with so many rows has."""
    return -(-rows // block_rows(rows))


@lru_cache(maxsize=4096)
def all_blocks(rows: int) -> Sequence[int]:
    """Return the numbers of a frame's blocks, or none if it is one block and is never cut."""
    return range(blocks_in(rows)) if blocks_in(rows) > 1 else ()


def rows_of_block(block: int, rows: int) -> range:
    """Return the rows of a block, numbered within the frame as it was signed."""
    size = block_rows(rows)
    return range(block * size, min((block + 1) * size, rows))


def rows_of_blocks(blocks: Sequence[int], rows: int) -> int:
    """Return how many rows are left of a frame when only these blocks are; none named means all."""
    return sum(len(rows_of_block(block, rows)) for block in blocks) if blocks else rows


def blocks_with(wanted: Sequence[int], *, blocks: Sequence[int], rows: int) -> list[int]:
    """Return those of `blocks` (none named means all) that hold a wanted row, counted among those here."""
    size = block_rows(rows)
    here = blocks or range(blocks_in(rows))
    return sorted({here[row // size] for row in wanted})


# ------------------------------------------------------------ where blocks begin


def row_lengths(data: bytes, kind: Kind, values: Sequence[Value], rows: int) -> tuple[int, ...]:
    """Return how many bytes each block of a column takes, behind the array's own header."""
    known = equal_lengths(data, rows)
    if known is not None:
        return known
    size = block_rows(rows)
    plain = _as_ints(values) if kind is Kind.TIMESTAMP else values
    encode = _ENCODER.encode
    parts = [plain[at : at + size] for at in range(0, rows, size)]
    return tuple([len(encode(part)) - len(array_header(len(part))) for part in parts])


def equal_lengths(data: bytes, rows: int) -> tuple[int, ...] | None:
    """Return the same without a look at the values, if it is certain that all take equally many bytes."""
    start, counts = _division(rows)
    each, rest = divmod(len(data) - start, rows)
    if rest:
        return None
    # None takes less than one byte. And where every value begins like the first, at the distance that the
    # first one says, every value takes as much as the first.
    first = data[start]
    if each != 1 and (_SIZES.get(first) != each or data[start::each].count(first) != rows):
        return None
    return tuple([each * count for count in counts])


def pack_lengths(lengths: Sequence[int]) -> bytes:
    """Return the lengths of blocks as bytes, four for each."""
    return _packer(len(lengths)).pack(*lengths) if lengths else b""


def unpack_lengths(data: bytes, at: int, count: int) -> tuple[int, ...]:
    """Return the lengths of `count` blocks that stand at a place in `data`, which is long enough."""
    return _packer(count).unpack_from(data, at)


@lru_cache(maxsize=BLOCKS_MAX + 1)
def _packer(count: int) -> Struct:
    return Struct(f">{count}I")


@lru_cache(maxsize=4096)
def array_header(rows: int) -> bytes:
    """Return how a column of so many rows begins."""
    if rows < 1 << 4:
        return bytes((0x90 | rows,))
    return b"\xdc" + rows.to_bytes(2, "big") if rows < 1 << 16 else b"\xdd" + rows.to_bytes(4, "big")


@lru_cache(maxsize=4096)
def _division(rows: int) -> tuple[int, tuple[int, ...]]:
    """Return where the rows of a column begin, and how many rows each block has."""
    counts = tuple(len(rows_of_block(block, rows)) for block in range(blocks_in(rows)))
    return len(array_header(rows)), counts


def _as_ints(values: Sequence[Value]) -> list[int | None]:
    moments = cast("Sequence[Instant | None]", values)  # a checked column of this kind holds nothing else
    return [None if moment is None else +moment for moment in moments]
