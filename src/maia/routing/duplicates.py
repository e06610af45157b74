"""Has this publication been here before?

The broker asks for every frame that arrives, and a client for every frame
that is delivered. A publication's identity is its publisher's key, stream and
number, never an id that the sender chose: nobody but the publisher can use up
a number (A66). Frames may arrive in any order and cut to some of their rows,
so the answer is which rows are new.

Per stream there is a mark below which everything counts as seen, and the
numbers seen above it. The mark never falls, and it survives a restart with
`exported` (A65). Streams, numbers and bytes are bounded. When there are too
many bytes, the streams that have been silent for longest keep their mark
alone; when there are too many streams, they are forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Annotated, Final, TypeAlias

import msgspec

from maia.errors import BadInput
from maia.routing.row_sets import ALL_ROWS, RowSet, bytes_of_rows, rows_from_bytes

__all__ = ["BadMemory", "DuplicateMemory", "MemoryLimits"]

_StreamKey: TypeAlias = tuple[bytes, bytes]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Kept: TypeAlias = list[tuple[bytes, bytes, _Number, list[tuple[_Number, bytes]]]]

_BYTES_PER_NUMBER: Final = 150
"""What one number costs in memory beside its rows, roughly."""


class BadMemory(BadInput):
    """What was kept of the publications seen before a restart cannot be read."""

    code = "INPUT-DUPLICATE-MEMORY"


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much is remembered: streams, numbers above the mark of one stream, and bytes for all numbers."""

    streams_max: int = 50_000
    numbers_per_stream_max: int = 1024
    bytes_max: int = 64 * 1024 * 1024


_DEFAULT_LIMITS: Final = MemoryLimits()


@dataclass(slots=True)
class _Stream:
    """What was seen of one stream.

    INVARIANT: everything below `mark` counts as seen; `seen` holds numbers at
    or above it, and `order` is a heap of the same numbers.
    """

    mark: int = 0
    seen: dict[int, RowSet] = field(default_factory=dict)
    order: list[int] = field(default_factory=list)

    def pop_lowest(self) -> int:
        """Raise the mark over the lowest number; return the bytes that this frees."""
        lowest = heappop(self.order)
        self.mark = lowest + 1
        return _cost(self.seen.pop(lowest))


class DuplicateMemory:
    """The publications that were here."""

    __slots__ = ("_bytes", "_limits", "_streams")

    def __init__(self, limits: MemoryLimits = _DEFAULT_LIMITS) -> None:
        """Begin having seen nothing."""
        self._limits = limits
        self._streams: OrderedDict[_StreamKey, _Stream] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        """Return the number of streams that are remembered."""
        return len(self._streams)

    def is_new(self, publisher: bytes, stream: bytes, sequence: int) -> bool:
        """Remember a whole publication; say whether any of it is new."""
        return self.new_rows(publisher, stream, sequence) != 0

    def new_rows(self, publisher: bytes, stream: bytes, sequence: int, rows: RowSet = ALL_ROWS) -> RowSet:
        """Remember some rows of a publication, and return those that were not here before."""
        known = self._stream((publisher, stream))
        if sequence < known.mark or not rows:
            return 0
        if sequence == known.mark and rows == ALL_ROWS and not known.seen:
            known.mark += 1  # whole frames in their order, as nearly all are
            return rows
        before = known.seen.get(sequence, 0)
        if sequence not in known.seen:
            heappush(known.order, sequence)
            self._bytes += _cost(0)
        known.seen[sequence] = before | rows
        self._bytes += _cost(before | rows) - _cost(before)
        self._raise_mark(known)
        self._stay_within_bytes()
        return rows & ~before

    def unseen_rows(self, publisher: bytes, stream: bytes, sequence: int, rows: RowSet = ALL_ROWS) -> RowSet:
        """Return which of some rows were not here before, and remember nothing.

        Whoever has to prove a publication first asks this, so that a forgery
        does not use up the number of what it imitates.
        """
        known = self._streams.get((publisher, stream))
        if known is None:
            return rows
        return 0 if sequence < known.mark else rows & ~known.seen.get(sequence, 0)

    def exported(self) -> bytes:
        """Return what must survive a restart, the streams heard of last at the end."""
        kept: _Kept = [
            (publisher, stream, known.mark, [(at, bytes_of_rows(rows)) for at, rows in known.seen.items()])
            for (publisher, stream), known in self._streams.items()
        ]
        return msgspec.msgpack.encode(kept)

    @classmethod
    def imported(cls, data: bytes, limits: MemoryLimits = _DEFAULT_LIMITS) -> DuplicateMemory:
        """Read what `exported` wrote, within the limits that hold now."""
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except msgspec.MsgspecError as problem:
            raise BadMemory("the memory of publications cannot be read") from problem
        memory = cls(limits)
        for publisher, stream, mark, seen in kept:
            memory._remember((publisher, stream), mark, seen)
        return memory

    def _remember(self, key: _StreamKey, mark: int, seen: list[tuple[int, bytes]]) -> None:
        known = self._stream(key)
        known.mark = max(known.mark, mark)
        known.seen = {number: rows_from_bytes(rows) for number, rows in seen if number >= known.mark}
        known.order = list(known.seen)
        heapify(known.order)
        self._bytes += sum(map(_cost, known.seen.values()))
        self._raise_mark(known)
        self._stay_within_bytes()

    def _stream(self, key: _StreamKey) -> _Stream:
        known = self._streams.get(key)
        if known is not None:
            self._streams.move_to_end(key)
            return known
        if len(self._streams) >= self._limits.streams_max:
            _, forgotten = self._streams.popitem(last=False)
            self._bytes -= sum(map(_cost, forgotten.seen.values()))
        return self._streams.setdefault(key, _Stream())

    def _raise_mark(self, known: _Stream) -> None:
        """Move the mark over what is fully seen and, past the limit, over what is missing for longest."""
        while known.seen.get(known.mark) == ALL_ROWS or len(known.seen) > self._limits.numbers_per_stream_max:
            self._bytes -= known.pop_lowest()

    def _stay_within_bytes(self) -> None:
        if self._bytes <= self._limits.bytes_max:
            return
        for known in self._streams.values():
            while known.seen and self._bytes > self._limits.bytes_max // 2:
                self._bytes -= known.pop_lowest()


def _cost(rows: RowSet) -> int:
    return _BYTES_PER_NUMBER + rows.bit_length() // 8
