"""Has this publication been here before?

The broker asks for every frame that arrives. A publication's identity is its
publisher's key, stream and number, never an id that the sender chose, and for
a sealed frame whose signer was not judged the signer as well: a number that
another signer has used is not used up (A66, A85). Frames may arrive in any
order and cut to some of their rows, so the answer is which rows are new.

Per stream there are runs of numbers that were here whole, and numbers of
which some rows were. What is promised:

- a row counts as seen only if it was here: no number, however large, says
  anything about the numbers below it, not even after a restart (`exported`);
- streams, runs, numbers and bytes are bounded.

What is not promised is that everything is recognised for ever. Of a stream
with too many runs, the one that has not grown for longest is forgotten; a
stream without gaps is one run, and is remembered whole. When there are too
many bytes, the streams that have been silent for longest keep the run that
grew last; when there are too many streams, they are forgotten. What was
forgotten counts as new if it comes again.

A set of rows, of frames that arrive cut to some of them, is an integer whose
bit `n` is row `n`, so that joining and comparing sets of many thousand rows are
single steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Final, TypeAlias

import msgspec

from maia.errors import BadInput
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


_StreamKey: TypeAlias = tuple[bytes, bytes, bytes]
"""A publisher, one of its streams, and a signer that was not judged; empty if there is none."""
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_Kept: TypeAlias = list[
    tuple[bytes, bytes, bytes, list[tuple[_Number, _Number]], list[tuple[_Number, bytes]]]
]

_BYTES_PER_NUMBER: Final = 150
"""What one run, or one number that is not whole, costs in memory beside its rows, roughly."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """How much is remembered: streams, runs and incomplete numbers of one stream, and bytes for all."""

    streams_max: int = 50_000
    numbers_per_stream_max: int = 1024
    bytes_max: int = 64 * 1024 * 1024


_DEFAULT_LIMITS: Final = MemoryLimits()


@dataclass(slots=True)
class _Stream:
    """What was seen of one stream.

    INVARIANT: `starts` is sorted and holds the keys of `ends`; the runs from a start up to its end,
    exclusive, neither overlap nor touch; no number of `parts` lies in one of them.
    """

    starts: list[int] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)
    """Where each run ends, by its start; the run that grew last is the last."""
    parts: dict[int, RowSet] = field(default_factory=dict)
    """The rows that were here of numbers that were not here whole; what grew last is the last."""
    row_bytes: int = 0

    @property
    def cost(self) -> int:
        """Return about how many bytes it holds, beside the one run that every stream may have."""
        return _BYTES_PER_NUMBER * (max(0, len(self.ends) - 1) + len(self.parts)) + self.row_bytes

    def is_next(self, sequence: int) -> bool:
        """Return whether a number follows the only run, and nothing else was here."""
        return len(self.ends) == 1 and not self.parts and self.ends[self.starts[0]] == sequence

    def follow(self, numbers: Sequence[int]) -> bool:
        """Return whether numbers that grow follow the only run without a gap, and nothing else was here."""
        return self.is_next(numbers[0]) and numbers[-1] - numbers[0] == len(numbers) - 1

    def rows_of(self, sequence: int) -> RowSet:
        """Return the rows of a number that were here."""
        at = bisect_right(self.starts, sequence)
        if at and sequence < self.ends[self.starts[at - 1]]:
            return ALL_ROWS
        return self.parts.get(sequence, 0)

    def add(self, sequence: int, rows: RowSet) -> None:
        """Take note of some rows of a number that is in no run."""
        before = self.parts.pop(sequence, 0)
        self.row_bytes -= before.bit_length() // 8
        together = before | rows
        if together == ALL_ROWS:
            self._grow(sequence)
        else:
            self.parts[sequence] = together
            self.row_bytes += together.bit_length() // 8

    def _grow(self, sequence: int) -> None:
        """Join a number to the runs that end just before it and begin just behind it."""
        at, first, end = bisect_right(self.starts, sequence), sequence, sequence + 1
        if at < len(self.starts) and self.starts[at] == end:
            end = self.ends.pop(self.starts.pop(at))
        if at and self.ends[self.starts[at - 1]] == sequence:
            first = self.starts[at - 1]
            del self.ends[first]
        else:
            self.starts.insert(at, sequence)
        self.ends[first] = end

    def spans(self) -> list[tuple[int, int]]:
        """Return where runs begin, and end, exclusive; a number of which a part was here is one."""
        return [*self.ends.items(), *((at, at + 1) for at in self.parts)]

    def add_span(self, first: int, end: int) -> None:
        """Take note of all numbers from one up to another, exclusive."""
        for start in [one for one in self.starts if one <= end and self.ends[one] >= first]:
            first, end = min(first, start), max(end, self.ends.pop(start))
            self.starts.remove(start)
        insort(self.starts, first)
        self.ends[first] = end
        for number in [one for one in self.parts if first <= one < end]:
            self.row_bytes -= self.parts.pop(number).bit_length() // 8

    def shrink(self, runs: int, parts: int) -> None:
        """Forget what has not grown for longest, until no more is left than this."""
        while len(self.ends) > runs:
            first = next(iter(self.ends))
            del self.ends[first], self.starts[bisect_left(self.starts, first)]
        while len(self.parts) > parts:
            self.row_bytes -= self.parts.pop(next(iter(self.parts))).bit_length() // 8


def gaps(spans: Iterable[tuple[int, int]], upto: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last of the numbers below `upto` that are in none of some spans."""
    at = 0
    for first, end in sorted(spans):
        if at < min(first, upto):
            yield at, min(first, upto) - 1
        at = max(at, end)
    if at < upto:
        yield at, upto - 1


class DuplicateMemory:
    """The publications that were here."""

    __slots__ = ("_bytes", "_limits", "_streams", "scattered")

    def __init__(self, limits: MemoryLimits = _DEFAULT_LIMITS) -> None:
        """Begin having seen nothing."""
        self._limits = limits
        self._streams: OrderedDict[_StreamKey, _Stream] = OrderedDict()
        self._bytes = 0
        self.scattered = 0
        """How often something took room: a number behind a gap, or in part."""

    def __len__(self) -> int:
        """Return the number of streams that are remembered."""
        return len(self._streams)

    def remember(self, publisher: bytes, stream: bytes, sequence: int) -> bool:
        """Remember a whole publication; say whether any of it is new."""
        return self.new_rows(publisher, stream, sequence) != 0

    def new_rows(
        self, publisher: bytes, stream: bytes, sequence: int, rows: RowSet = ALL_ROWS, signer: bytes = b""
    ) -> RowSet:
        """Remember some rows of a publication, and return those that were not here before."""
        known = self._stream((publisher, stream, signer))
        if rows == ALL_ROWS and known.is_next(sequence):
            known.ends[known.starts[0]] = sequence + 1  # nearly always; it takes no more room
            return rows
        fresh = rows & ~known.rows_of(sequence)
        if fresh:
            self._bytes -= known.cost
            known.add(sequence, fresh)
            self._bounded(known)
            self.scattered += 1
        return fresh

    def are_new(self, publisher: bytes, stream: bytes, numbers: Sequence[int], signer: bytes = b"") -> bool:
        """Return whether no row of some publications was here before; their numbers grow."""
        known = self._streams.get((publisher, stream, signer))
        return known is None or known.follow(numbers) or not any(map(known.rows_of, numbers))

    def remember_all(
        self, publisher: bytes, stream: bytes, numbers: Sequence[int], signer: bytes = b""
    ) -> None:
        """Remember whole publications that are new; their numbers grow."""
        known = self._stream((publisher, stream, signer))
        if known.follow(numbers):
            known.ends[known.starts[0]] = numbers[-1] + 1
            return
        for number in numbers:
            self.new_rows(publisher, stream, number, signer=signer)

    def unseen_rows(
        self, publisher: bytes, stream: bytes, sequence: int, rows: RowSet = ALL_ROWS, signer: bytes = b""
    ) -> RowSet:
        """Return which of some rows were not here before, and remember nothing.

        A broker that has to prove a publication first asks this, so that a forgery
        does not use up the number of what it imitates.
        """
        known = self._streams.get((publisher, stream, signer))
        return rows if known is None else rows & ~known.rows_of(sequence)

    def has_later(self, publisher: bytes, stream: bytes, sequence: int, signer: bytes = b"") -> bool:
        """Return whether something of a stream was here that has a higher number."""
        known = self._streams.get((publisher, stream, signer))
        if known is None:
            return False
        is_before_run = bool(known.starts) and known.ends[known.starts[-1]] > sequence + 1
        return is_before_run or next(reversed(known.parts), 0) > sequence  # the last one that grew

    def knows(self, publisher: bytes, stream: bytes, signer: bytes = b"") -> bool:
        """Return whether anything of a stream was here."""
        return (publisher, stream, signer) in self._streams

    def newest_runs(self, streams_max: int) -> list[tuple[bytes, bytes, bytes, int, int]]:
        """Return publisher, stream, signer, first and last number of the newest run of the newest streams."""
        found: list[tuple[bytes, bytes, bytes, int, int]] = []
        for key in reversed(self._streams):
            first, end = next(reversed(self._streams[key].ends.items()), (0, 0))
            if end:
                found.append((*key, first, end - 1))
            if len(found) == streams_max:
                break
        return found

    def older_runs(self, runs_max: int) -> list[tuple[bytes, bytes, bytes, int, int]]:
        """Return what `newest_runs` leaves out, of the newest streams."""
        found: list[tuple[bytes, bytes, bytes, int, int]] = []
        for key, known in reversed(self._streams.items()):
            older = list(known.ends.items())[-2::-1]
            found += [(*key, first, end - 1) for first, end in older[: runs_max - len(found)]]
            if len(found) == runs_max:
                break
        return found

    def by_stream(self) -> dict[tuple[bytes, bytes], dict[bytes, list[tuple[int, int]]]]:
        """Return where runs begin, and end, exclusive: by publisher and stream, and then by signer."""
        found: dict[tuple[bytes, bytes], dict[bytes, list[tuple[int, int]]]] = {}
        for (publisher, stream, signer), known in self._streams.items():
            found.setdefault((publisher, stream), {})[signer] = known.spans()
        return found

    def remember_span(
        self, publisher: bytes, stream: bytes, first: int, last: int, signer: bytes = b""
    ) -> None:
        """Remember all numbers from one to another."""
        known = self._stream((publisher, stream, signer))
        self._bytes -= known.cost
        known.add_span(first, last + 1)
        self._bounded(known)

    def exported(self) -> bytes:
        """Return what must survive a restart, the most recent streams at the end."""
        kept: _Kept = [
            (*key, list(known.ends.items()), [(at, bytes_of_rows(rows)) for at, rows in known.parts.items()])
            for key, known in self._streams.items()
        ]
        return msgspec.msgpack.encode(kept)

    @classmethod
    def imported(cls, data: bytes, limits: MemoryLimits = _DEFAULT_LIMITS) -> DuplicateMemory:
        """Read what `exported` wrote, within the limits that hold now."""
        try:
            kept = msgspec.msgpack.decode(data, type=_Kept)
        except msgspec.MsgspecError as problem:
            raise BadInput("INPUT-DUPLICATE-MEMORY", "the memory of publications cannot be read") from problem
        memory = cls(limits)
        for publisher, stream, signer, runs, parts in kept:
            memory._remember((publisher, stream, signer), runs, parts)
        return memory

    def take_over(self, other: DuplicateMemory) -> None:
        """Know what another memory knows, and nothing else."""
        self._streams, self._bytes = other._streams, other._bytes

    def _remember(self, key: _StreamKey, runs: list[tuple[int, int]], parts: list[tuple[int, bytes]]) -> None:
        known = self._stream(key)
        self._bytes -= known.cost
        known.ends = dict(runs)
        known.starts = sorted(known.ends)
        edges = [edge for start in known.starts for edge in (start, known.ends[start])]
        if any(later <= earlier for earlier, later in pairwise(edges)):
            raise BadInput("INPUT-DUPLICATE-MEMORY", "the memory of publications contradicts itself")
        known.parts = {}
        for number, rows in parts:
            if not known.rows_of(number):
                known.add(number, rows_from_bytes(rows))
        self._bounded(known)

    def _stream(self, key: _StreamKey) -> _Stream:
        known = self._streams.get(key)
        if known is not None:
            self._streams.move_to_end(key)
            return known
        if len(self._streams) >= self._limits.streams_max:
            _, forgotten = self._streams.popitem(last=False)
            self._bytes -= forgotten.cost
        return self._streams.setdefault(key, _Stream())

    def _bounded(self, known: _Stream) -> None:
        """Count a stream that has changed, and forget what is too much."""
        most = self._limits.numbers_per_stream_max
        known.shrink(most, most)
        self._bytes += known.cost
        if self._bytes <= self._limits.bytes_max:
            return
        for silent in self._streams.values():
            if self._bytes <= self._limits.bytes_max // 2:
                return
            self._bytes -= silent.cost
            silent.shrink(1, 0)
            self._bytes += silent.cost
