"""Which of many filters admit an event?

A broker keeps one `MatchIndex` per event type, and asks it for every frame.
The answer is exact: it equals `admits` for every filter. The cost of a
question grows far slower than the number of filters. Filters come and go
between questions: new ones wait in a short list that is read one by one, and
move into a block with bitmaps when they are many or asked often. Blocks at
least double from one to the next, so a filter is built into a block about
log(number of filters) times in its life (docs/decisions/matching-index.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from maia.events import Event, Frame
from maia.predicates.alternatives import Alternative, alternatives_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate, checked_size
from maia.routing.match_attributes import CELLS_MAX
from maia.routing.match_block import Block
from maia.routing.match_contents import KnownAttributes, contents_of, joined_contents

__all__ = ["MatchIndex"]

Key = TypeVar("Key", bound=Hashable)

WAITING_MAX: Final = 64
READINGS_MAX: Final = 512
"""Reading waiting filters this often, filters times events, costs about as much as a small block."""

FEW_ROWS: Final = 4
"""Up to this many rows are matched one by one, which starts faster than a whole frame."""

_GROWTH: Final = 2


class MatchIndex(Generic[Key]):
    """The filters of one event type, by key."""

    __slots__ = ("_blocks", "_cells_max", "_hopeless", "_known", "_readings", "_waiting")

    def __init__(self, *, cells_max: int = CELLS_MAX) -> None:
        """Begin without filters. `cells_max` bounds the bits kept per filter, eight cells to a byte."""
        self._cells_max = cells_max
        self._blocks: list[Block[Key]] = []
        self._waiting: dict[Key, Predicate] = {}
        self._hopeless: set[Key] = set()
        self._known = KnownAttributes()
        self._readings = 0

    def __contains__(self, key: Key) -> bool:
        if key in self._waiting or key in self._hopeless:
            return True
        return any(key in block for block in self._blocks)

    def __len__(self) -> int:
        return len(self._waiting) + len(self._hopeless) + sum(block.filters for block in self._blocks)

    def add(self, key: Key, predicate: Predicate) -> None:
        """Let `key` stand for a filter, in place of any other that it stood for.

        A filter beyond the size that the language allows is refused.
        """
        checked_size(predicate)
        if key in self:
            self.remove(key)
        self._waiting[key] = predicate

    def remove(self, key: Key) -> None:
        """Forget a filter; `KeyError` for an key that stands for none."""
        if key in self._waiting:
            del self._waiting[key]
        elif key in self._hopeless:
            self._hopeless.discard(key)
        else:
            self._block_of(key).discard(key)

    def match(self, event: Event) -> set[Key]:
        """Return the identifiers of all filters that admit `event`."""
        self._settle(events=1)
        found = {key for key, wanted in self._waiting.items() if admits(wanted, event)}
        for block in self._blocks:
            found.update(block.ids_matching(event))
        return found

    def match_frame(self, frame: Frame) -> dict[Key, list[int]]:
        """Return the rows that each filter admits, in order; filters that admit none are left out."""
        if not self._waiting and not self._blocks:
            return {}
        if frame.rows <= FEW_ROWS:
            return self._match_row_by_row(frame)
        self._settle(events=frame.rows)
        found: dict[Key, list[int]] = {}
        for block in self._blocks:
            found.update(block.rows_by_id(frame))
        if self._waiting:
            events = list(frame.events())
            for key, wanted in self._waiting.items():
                if rows := [row for row, event in enumerate(events) if admits(wanted, event)]:
                    found[key] = rows
        return found

    def rows_wanted(self, frame: Frame) -> list[int]:
        """Return the rows that at least one filter admits, in order."""
        self._settle(events=frame.rows)
        wanted: set[int] = set()
        for block in self._blocks:
            wanted |= block.rows_wanted(frame)
        if self._waiting and len(wanted) < frame.rows:
            for row, event in enumerate(frame.events()):
                if row not in wanted and any(admits(one, event) for one in self._waiting.values()):
                    wanted.add(row)
        return sorted(wanted)

    def _match_row_by_row(self, frame: Frame) -> dict[Key, list[int]]:
        found: dict[Key, list[int]] = {}
        for row, event in enumerate(frame.events()):
            for key in self.match(event):
                found.setdefault(key, []).append(row)
        return found

    def _block_of(self, key: Key) -> Block[Key]:
        for block in self._blocks:
            if key in block:
                return block
        raise KeyError(key)

    # ------------------------------------------------------------ growing

    def _settle(self, *, events: int) -> None:
        """Before `events` are asked about: build what has waited long enough, drop what has mostly left."""
        self._readings += len(self._waiting) * events
        is_due = len(self._waiting) > WAITING_MAX or self._readings > READINGS_MAX
        if self._waiting and is_due:
            self._build()
        if any(block.live * _GROWTH < len(block) for block in self._blocks):
            self._blocks = [rebuilt for block in self._blocks for rebuilt in self._rebuilt(block)]

    def _build(self) -> None:
        """Make one block of all that waits and of every block that is not much larger."""
        if not self._blocks:
            self._known = KnownAttributes()
        parts = [contents_of(self._spread_out(), self._known)]
        size = len(parts[0].ids)
        self._waiting, self._readings = {}, 0
        if not size:
            return
        while self._blocks and self._blocks[-1].live <= _GROWTH * size:
            block = self._blocks.pop()
            parts.append(block.live_contents())
            size += block.live
        self._blocks.append(Block(joined_contents(parts), cells_max=self._cells_max))

    def _spread_out(self) -> Iterator[tuple[Key, Predicate, Sequence[Alternative]]]:
        for key, predicate in self._waiting.items():
            alternatives = alternatives_of(predicate)
            if not alternatives:
                self._hopeless.add(key)
            yield key, predicate, alternatives

    def _rebuilt(self, block: Block[Key]) -> Iterator[Block[Key]]:
        if block.live * _GROWTH >= len(block):
            yield block
        elif block.live:
            yield Block(block.live_contents(), cells_max=self._cells_max)
