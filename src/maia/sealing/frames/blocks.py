"""Into which blocks of rows is a frame divided, and where does each begin in a column's bytes?

A frame can be cut to whole blocks without losing its proof, so signers,
cutters and verifiers must agree on the division. The signer chooses how many
rows a block has and signs that number: one block where no broker would cut the
frame, and small ones where a neighbour wants less than everything. A column's
bytes stay one MessagePack array whatever blocks it has lost, so that no broker
encodes it again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final, cast

import msgspec

from maia.events import Instant, Kind, Value
from maia.sealing.frames.proof import HASH_BYTES, BadFrameProof, lengths_packer

BLOCKS_MAX: Final = 64
"""Blocks of one frame at most: a hash each, on both sides."""

_FINE_BLOCKS: Final = 16
_FINE_ROWS: Final = 16
"""A frame that may be cut has this many blocks, or blocks of this many rows if that is more blocks."""

_ENCODER: Final = msgspec.msgpack.Encoder()

# How many bytes the first byte of a value says it takes, where it says so alone.
_SIZES: Final = {0xC0: 1, 0xC2: 1, 0xC3: 1, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9} | {
    0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
    **dict.fromkeys((*range(0x80), *range(0xE0, 0x100)), 1),
    **{0xA0 | length: 1 + length for length in range(32)},
}  # fmt: skip


def fine_block_rows(rows: int) -> int:
    """Return how many rows a block should have in a frame of so many rows that may be cut."""
    return max(min(_FINE_ROWS, -(-rows // _FINE_BLOCKS)), -(-rows // BLOCKS_MAX))


def is_division(rows: int, size: int) -> bool:
    """Say whether a frame of so many rows can have blocks of `size`; the last may have fewer."""
    return 1 <= size <= rows <= size * BLOCKS_MAX


@dataclass(frozen=True, slots=True)
class Division:
    """How a frame was divided when it was signed. `division` makes each one once."""

    rows: int
    size: int
    counts: tuple[int, ...]
    """How many rows each block has."""
    numbers: Sequence[int]
    """The numbers of the blocks; none if the frame is one block, which is never cut."""

    def rows_of(self, block: int) -> range:
        """Return the rows of a block, numbered within the frame as it was signed."""
        return range(block * self.size, min((block + 1) * self.size, self.rows))

    def rows_left(self, blocks: Sequence[int]) -> int:
        """Return how many rows are left of the frame when only these blocks are; none named means all."""
        counts = self.counts
        return sum([counts[block] for block in blocks]) if blocks else self.rows

    def blocks_with(self, wanted: Sequence[int], *, blocks: Sequence[int]) -> list[int]:
        """Return those of `blocks` (none named means all) with a wanted row, counted among those here."""
        size, here = self.size, blocks or range(len(self.counts))
        return sorted({here[row // size] for row in wanted})


@lru_cache(maxsize=4096)
def division(rows: int, size: int) -> Division:
    """Return how a frame of so many rows is divided into blocks of `size` rows."""
    whole, rest = divmod(rows, size)
    counts = (size,) * whole + ((rest,) if rest else ())
    return Division(rows, size, counts, range(len(counts)) if len(counts) > 1 else ())


# ------------------------------------------------------------ where blocks begin


def row_lengths(data: bytes, kind: Kind, values: Sequence[Value], divided: Division) -> tuple[int, ...]:
    """Return how many bytes each block of a column takes, behind the array's own header."""
    known = equal_lengths(data, divided)
    if known is not None:
        return known
    rows, size = divided.rows, divided.size
    plain = _as_ints(values) if kind is Kind.TIMESTAMP else values
    encode = _ENCODER.encode
    parts = [plain[at : at + size] for at in range(0, rows, size)]
    return tuple([len(encode(part)) - len(array_header(len(part))) for part in parts])


def equal_lengths(data: bytes, divided: Division) -> tuple[int, ...] | None:
    """Return the same without reading the values, if it is certain that all take equally many bytes."""
    rows = divided.rows
    start = len(array_header(rows))
    each, rest = divmod(len(data) - start, rows)
    if rest:
        return None
    # None takes less than one byte. And where every value begins like the first, at the distance that the
    # first one says, every value takes as much as the first.
    first = data[start]
    if each != 1 and (_SIZES.get(first) != each or data[start::each].count(first) != rows):
        return None
    return tuple([each * count for count in divided.counts])


def pack_lengths(lengths: Sequence[int]) -> bytes:
    """Return the lengths of blocks as bytes, four for each."""
    return lengths_packer(len(lengths)).pack(*lengths) if lengths else b""


def unpack_lengths(data: bytes, at: int, count: int) -> tuple[int, ...]:
    """Return the lengths of `count` blocks at a place in `data`, which is long enough."""
    return lengths_packer(count).unpack_from(data, at)


@lru_cache(maxsize=4096)
def array_header(rows: int) -> bytes:
    """Return how a column of so many rows begins."""
    if rows < 1 << 4:
        return bytes((0x90 | rows,))
    return b"\xdc" + rows.to_bytes(2, "big") if rows < 1 << 16 else b"\xdd" + rows.to_bytes(4, "big")


def _as_ints(values: Sequence[Value]) -> list[int | None]:
    moments = cast("Sequence[Instant | None]", values)  # a checked column of this kind holds nothing else
    return [None if moment is None else +moment for moment in moments]


# Is a block one of those of which a signer gave one hash for all?


Known = Sequence[Mapping[int, bytes]]
"""The hashes of a tree that are known, by level from the leaves on, and by their place in it."""

_FAN: Final = 4
_NODE: Final = b"maia/1/blocks\x00"


def commitment_of(leaves: Sequence[bytes]) -> bytes:
    """Return what a signer says of a column: its leaf, or the top of the tree over its leaves."""
    level = leaves
    while len(level) > 1:
        level = [
            sha256(_NODE + b"".join(level[at : at + _FAN])).digest() for at in range(0, len(level), _FAN)
        ]
    return level[0]


def known_tree(leaves: Mapping[int, bytes], *, count: int, path: bytes = b"") -> Known:
    """Return what follows from some of `count` leaves and a path; refuse a path that is not just enough."""
    levels, level, at = [dict(leaves)], dict(leaves), 0
    while count > 1:
        above: dict[int, bytes] = {}
        for parent in sorted({place // _FAN for place in level}):
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            for child in children:
                if child not in level:
                    level[child] = path[at : at + HASH_BYTES]
                    at += HASH_BYTES
            above[parent] = sha256(_NODE + b"".join([level[child] for child in children])).digest()
        levels[-1], level, count = level, above, -(-count // _FAN)
        levels.append(above)
    if at != len(path):
        raise BadFrameProof("what leads from the blocks of a frame to its signature is too long or too short")
    return levels


def top_of(tree: Known) -> bytes:
    """Return the commitment that a tree leads to."""
    return tree[-1][0]


def path_to(tree: Known, blocks: Sequence[int], *, count: int) -> bytes:
    """Return the hashes with which the top is found from these blocks alone, which the tree knows."""
    path: list[bytes] = []
    here = set(blocks)
    for level in tree[:-1]:
        parents = sorted({place // _FAN for place in here})
        for parent in parents:
            children = range(parent * _FAN, min((parent + 1) * _FAN, count))
            path += [level[child] for child in children if child not in here]
        here, count = set(parents), -(-count // _FAN)
    return b"".join(path)
