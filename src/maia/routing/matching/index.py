"""Which of many filters admit an event?

A broker keeps one `MatchIndex` per event type, and asks it for every frame.
The answer is exact: it equals `admits` for every filter. The cost of a
question grows far slower than the number of filters. Filters come and go
between questions: new ones wait in a short list that is read one by one, and
move into a block with bitmaps when they are many or asked often. Blocks at
least double from one to the next, so a filter is built into a block about
log(number of filters) times in its life. Large blocks are built step by step
beside those that they replace (docs/decisions/matching-index.md). Filters that
are topic patterns and nothing else have an index of their own (`topics.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from maia.events import AttributeUid, Event, Frame, Kind
from maia.predicates.covering.normal_form import Alternative, alternatives_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate, checked_size
from maia.routing.matching.bitmaps import CELLS_MAX
from maia.routing.matching.block import Block, Steps, contents_of, joined_contents
from maia.routing.matching.topics import TopicIndex, patterns_of

Key = TypeVar("Key", bound=Hashable)

WAITING_MAX: Final = 64
READINGS_MAX: Final = 512
"""Reading waiting filters this often, filters times events, costs about as much as a small block."""

FEW_ROWS: Final = 4
"""Up to this many rows are matched one by one, which starts faster than a whole frame."""

FEW_ROWS_OF_FEW: Final = 16
FEW_FILTERS: Final = 2048
"""Up to so many filters a row takes so little that more of them are matched one by one."""

AHEAD: Final = 256
"""Once an index is asked at all, so many filters are built into a block before a caller waits for it."""

AT_ONCE_MAX: Final = 2048
"""A block of more filters is built in steps, one with each change and question, beside those it replaces."""

_GROWTH: Final = 2


@dataclass(slots=True)
class Growth(Generic[Key]):
    """A block in the making, and those whose place it takes."""

    blocks: Sequence[Block[Key]]
    steps: Steps[Key]
    left: list[Key] = field(default_factory=list)
    """Filters that have left one of the blocks since."""


class MatchIndex(Generic[Key]):
    """The filters of one event type, by key."""

    def __init__(self, *, cells_max: int = CELLS_MAX) -> None:
        """Begin without filters. `cells_max` bounds the bits kept per filter, eight cells to a byte."""
        self._cells_max = cells_max
        self._blocks: list[Block[Key]] = []
        self._waiting: dict[Key, Predicate] = {}
        self._hopeless: set[Key] = set()
        self._known: set[AttributeUid] = set()
        """The attributes that arrays are kept for, as `contents_of` chooses them."""
        self._readings = 0
        self._is_asked = False
        self._is_settled = False
        """Whether nothing waits, grows or has left since the last question."""
        self._growth: Growth[Key] | None = None
        self._topics: dict[AttributeUid, TopicIndex[Key]] = {}

    def __contains__(self, key: Key) -> bool:
        if key in self._waiting or key in self._hopeless or self._topics_with(key) is not None:
            return True
        return any(key in block for block in self._blocks)

    def __len__(self) -> int:
        here = len(self._waiting) + len(self._hopeless) + sum(map(len, self._topics.values()))
        return here + sum(block.filters for block in self._blocks)

    def add(self, key: Key, predicate: Predicate) -> None:
        """Register a filter under `key`, in place of any other.

        A filter beyond the size that the language allows is refused.
        """
        checked_size(predicate)
        if key in self:
            self.remove(key)
        topics = patterns_of(predicate)
        if topics is not None:
            uid, patterns = topics
            if uid not in self._topics:
                self._topics[uid] = TopicIndex()
            if self._topics[uid].add(key, patterns):
                return
        self._waiting[key] = predicate
        self._is_settled = False
        if self._is_asked and len(self._waiting) >= AHEAD:
            self._build()
        self._go_on()

    def remove(self, key: Key) -> None:
        """Forget a filter; `KeyError` for an unknown key."""
        if key in self._waiting:
            del self._waiting[key]
        elif key in self._hopeless:
            self._hopeless.discard(key)
        elif (topics := self._topics_with(key)) is not None:
            topics.remove(key)
        else:
            self._block_of(key).discard(key)
            self._is_settled = False
            if self._growth is not None:
                self._growth.left.append(key)
                self._go_on()

    def match(self, event: Event) -> KeysView[Key]:
        """Return the identifiers of all filters that admit `event`, in the same order in every process."""
        if not self._is_settled:
            self._settle(events=1)
        found: dict[Key, None] = {}
        for block in self._blocks:
            found.update(dict.fromkeys(block.ids_matching(event)))
        if self._waiting:
            found.update({key: None for key, wanted in self._waiting.items() if admits(wanted, event)})
        for uid, topics in self._topics.items():
            if isinstance(path := event.get(uid), str):
                found.update(dict.fromkeys(topics.match(path)))
        return found.keys()

    def match_frame(self, frame: Frame) -> Mapping[Key, Sequence[int]]:
        """Return the rows that each filter admits, in order; filters that admit none are left out."""
        if not self._waiting and not self._blocks:
            return self._rows_by_topic(frame) if self._topics else {}
        if frame.rows == 1:
            event = {uid: column.values[0] for uid, column in frame.columns.items()}
            return {key: [0] for key in self.match(event)}
        if frame.rows <= FEW_ROWS or (
            frame.rows <= FEW_ROWS_OF_FEW and sum(map(len, self._blocks)) <= FEW_FILTERS
        ):
            return self._match_row_by_row(frame)
        self._settle(events=frame.rows)
        found: dict[Key, Sequence[int]] = {}
        for block in self._blocks:
            rows_by_id = block.rows_by_id(frame)
            if found:
                found.update(rows_by_id)
            else:
                found = rows_by_id
        if self._waiting:
            events = list(frame.events())
            for key, wanted in self._waiting.items():
                if rows := [row for row, event in enumerate(events) if admits(wanted, event)]:
                    found[key] = rows
        if self._topics:
            found.update(self._rows_by_topic(frame))  # a key stands in one place only
        return found

    def _rows_by_topic(self, frame: Frame) -> dict[Key, list[int]]:
        """Return the rows that each filter of topics alone admits."""
        found: dict[Key, list[int]] = {}
        for uid, topics in self._topics.items():
            column = frame.columns.get(uid)
            if column is not None and column.kind is Kind.STRING:
                rows_by_key = topics.match_column(column.values)
                found = found | rows_by_key if found else rows_by_key  # a key stands in one place only
        return found

    def _topics_with(self, key: Key) -> TopicIndex[Key] | None:
        return next((topics for topics in self._topics.values() if key in topics), None)

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
        self._is_asked = True
        self._readings += len(self._waiting) * events
        is_due = len(self._waiting) > WAITING_MAX or self._readings > READINGS_MAX
        if self._waiting and is_due:
            self._build()
        self._go_on()
        for block in self._settled_blocks():
            if block.live * _GROWTH < len(block):
                self._replace([block])
        self._is_settled = not self._waiting and self._growth is None

    def _build(self) -> None:
        """Make a block of all that waits, and one of it and of every block that is not much larger."""
        if not self._blocks:
            self._known = set()
        contents = contents_of(self._spread_out(), self._known)
        self._waiting, self._readings = {}, 0
        size, tail = len(contents.ids), list[Block[Key]]()
        if not size:
            return
        settled = self._settled_blocks()
        while settled and settled[-1].live <= _GROWTH * size:
            tail.append(settled.pop())
            size += tail[-1].live
        if not tail or size > AT_ONCE_MAX:
            tail.insert(0, Block(contents, cells_max=self._cells_max))
            self._blocks.append(tail[0])
            self._replace(tail)
        else:
            parts = [contents, *(block.live_contents() for block in tail)]
            joined = Block(joined_contents(parts), cells_max=self._cells_max)
            self._blocks = [block for block in self._blocks if block not in tail] + [joined]

    def _settled_blocks(self) -> list[Block[Key]]:
        """Return the blocks in whose place no other is being built, in their order."""
        if self._growth is None:
            return list(self._blocks)
        return [block for block in self._blocks if block not in self._growth.blocks]

    def _replace(self, blocks: Sequence[Block[Key]]) -> None:
        """Build one block in place of these: at once if they are small, in steps while they go on if not."""
        size = sum(block.live for block in blocks)
        if (len(blocks) == 1 and blocks[0].live == len(blocks[0])) or self._growth is not None:
            return  # there is nothing to gain, or not now
        steps = Block.in_steps(
            joined_contents([block.live_contents() for block in blocks]), cells_max=self._cells_max
        )
        self._growth = Growth(tuple(blocks), steps)
        while size <= AT_ONCE_MAX and self._growth is not None:
            self._go_on()

    def _go_on(self) -> None:
        """Take one step of the block that is being built, and let it take its place if that was the last."""
        growth = self._growth
        if growth is None:
            return
        try:
            next(growth.steps)
        except StopIteration as end:
            made: Block[Key] = end.value
        else:
            return
        for key in growth.left:
            if key in made:
                made.discard(key)
        place = self._blocks.index(growth.blocks[-1])
        before = [block for block in self._blocks[:place] if block not in growth.blocks]
        after = [block for block in self._blocks[place:] if block not in growth.blocks]
        self._blocks = [*before, *([made] if made.live else []), *after]
        self._growth = None

    def _spread_out(self) -> Iterator[tuple[Key, Predicate, Sequence[Alternative]]]:
        for key, predicate in self._waiting.items():
            alternatives = alternatives_of(predicate)
            if not alternatives:
                self._hopeless.add(key)
            yield key, predicate, alternatives
