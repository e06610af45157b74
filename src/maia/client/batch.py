"""Which events leave together in the next frame?

Every way to publish comes through here: an event by its names, a column of many, a batch of Arrow, a run of
MQTT messages. What is given is checked by being written, and waits as a frame. A single event waits for
company while a frame is under way, and leaves at once otherwise: a quiet publisher never waits, and a
busy one fills its frames by itself. A run of events leaves as soon as there is room for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from maia.client.meant_values import meant_value
from maia.credentials import BadName
from maia.errors import BadInput, MaiaError
from maia.events import AttributeUid, BadValue, Column, Frame, Kind, Value
from maia.predicates import Predicate
from maia.types import VerifiedType, check_event
from maia.types.definition import TOPIC, checked_topic, tree_root
from maia.wire.columns import EventWriter, frame_to_columns
from maia.wire.messages import Column as WireColumn

ROWS_PER_FRAME: Final = 1024
FRAME_BYTES: Final = 1 << 20
"""About how many characters a frame has when it leaves; one long event alone may have more."""
_LONG: Final = (str, bytes)
EVENT_BYTES_MAX: Final = 2 << 20
"""How many characters one event may have, so that any frame fits into a message, four bytes each."""


class EventTooLarge(BadInput):
    """An event has more text than a message has room for."""

    code = "INPUT-EVENT-TOO-LARGE"


def rows_per_frame(event_type: VerifiedType) -> int:
    """Return how many events leave together; of a covered type each leaves alone, as cover does."""
    sealing = event_type.sealing
    return ROWS_PER_FRAME if sealing is None or sealing.cover is None else 1


class OutgoingFrame(msgspec.Struct):
    """Events of one publisher that leave together, checked."""

    rows: int
    size: int
    """How many characters their texts have."""
    runs: list[tuple[int, Mapping[AttributeUid, Sequence[Value]]]]
    """How many rows were given together, and their values by column; columns of nulls may be left out."""
    written: list[WireColumn] | None
    """The columns as they travel, if nothing was added since they were written."""
    requires: Predicate | None = None
    waits: bool = False
    """Whether it waits for company while another frame is under way."""
    joins: bool = False
    """Whether events may be added to it."""
    whose: list[tuple[object, int]] = []
    """Who gave the events, and how many, in their order; empty where nothing has to be told apart."""

    def column(self, uid: AttributeUid) -> tuple[Value, ...]:
        """Return the values of one attribute."""
        return tuple(chain.from_iterable([run.get(uid) or (None,) * rows for rows, run in self.runs]))


class Outbox:
    """The frames of one publisher that have not left."""

    def __init__(self, event_type: VerifiedType, rows_max: int = ROWS_PER_FRAME) -> None:
        """Begin with nothing that waits."""
        self.event_type = event_type
        self.rows_max = min(rows_max, rows_per_frame(event_type))
        self.rows = 0
        """How many events wait."""
        self._frames: deque[OutgoingFrame] = deque()
        self._kinds: Mapping[AttributeUid, Kind] = event_type.kinds
        self._writer = EventWriter(self._kinds)
        self._tree = tree_root(event_type.name.name)

    # -------------------------------------------------------- values become frames

    def frames(
        self,
        rows: int,
        columns: Mapping[str, Sequence[object]],
        requires: Predicate | None = None,
        *,
        waits: bool = False,
        joins: bool = False,
    ) -> Iterator[OutgoingFrame]:
        """Yield events, by the names of their columns, as frames; raise before the first with a mistake."""
        for start in range(0, rows, self.rows_max):
            some = min(rows - start, self.rows_max)
            part = columns if some == rows else {n: one[start : start + some] for n, one in columns.items()}
            size = sum([len(one) for values in part.values() for one in values if isinstance(one, _LONG)])
            if size > FRAME_BYTES and some > 1:  # long ones: as many in a frame as fit
                for at in range(some):
                    alone = {name: values[at : at + 1] for name, values in part.items()}
                    yield from self.frames(1, alone, requires, waits=requires is None, joins=True)
                continue
            if size > EVENT_BYTES_MAX:
                raise EventTooLarge(f"an event of {size} characters is longer than {EVENT_BYTES_MAX}")
            values, written = self._checked(some, part)
            is_open = (joins or waits) and requires is None
            yield OutgoingFrame(some, size, [(some, values)], written, requires, waits, is_open)

    def _checked(
        self, rows: int, columns: Mapping[str, Sequence[object]]
    ) -> tuple[Mapping[AttributeUid, Sequence[Value]], list[WireColumn]]:
        """Return values by attribute, and as they travel; one that does not fit is reported with its name."""
        vocabulary = self.event_type.vocabulary
        for strange in columns.keys() - vocabulary.keys():
            check_event({strange: None}, self.event_type)  # raises, and names what comes near
        # What these objects are is checked, all of them, when the column is written.
        given: dict[AttributeUid, Sequence[Value]] = {vocabulary[n].uid: one for n, one in columns.items()}  # type: ignore[misc]
        try:
            written = self._written(rows, given)
        except BadValue:
            meant = {name: [meant_value(vocabulary[name], one) for one in columns[name]] for name in columns}
            for row in zip(*meant.values(), strict=True):
                check_event(dict(zip(columns, row, strict=True)), self.event_type)
            given = {vocabulary[name].uid: values for name, values in meant.items()}  # type: ignore[misc]
            written = self._written(rows, given)
        if self._tree is not None:
            self._check_topics(given.get(TOPIC.uid, (None,)))
        return given, written

    def _written(self, rows: int, given: Mapping[AttributeUid, Sequence[Value]]) -> list[WireColumn]:
        if rows == 1:
            return self._writer.columns_of([given[uid][0] if uid in given else None for uid in self._kinds])
        return columns_of(rows, given, self._kinds)

    def _check_topics(self, topics: Iterable[Value]) -> None:
        """Refuse an event on topics without a topic of this tree; the broker would, without a word."""
        for topic in dict.fromkeys(topics):
            if not isinstance(topic, str):
                raise BadName(f"each event needs a `{TOPIC.name}` such as `{self._tree}`")
            checked_topic(topic, str(self._tree))

    # -------------------------------------------------------- frames wait, and leave

    @property
    def is_full(self) -> bool:
        """Say whether the first frame should wait for no more events."""
        if not self._frames:
            return False
        first = self._frames[0]
        is_filled = first.rows >= self.rows_max or first.size >= FRAME_BYTES
        return is_filled or not first.joins or len(self._frames) > 1

    @property
    def waits(self) -> bool:
        """Say whether what is here waits for company while another frame is under way."""
        return not self._frames or (self._frames[0].waits and not self.is_full)

    def put(self, frame: OutgoingFrame) -> None:
        """Put a frame behind those that wait, or its events into the last of them if they fit."""
        last = self._frames[-1] if self._frames else None
        self.rows += frame.rows
        if (
            last is None
            or not (last.joins and frame.joins and self.go_together(last, frame))
            or last.rows + frame.rows > self.rows_max
            or last.size + frame.size > FRAME_BYTES
        ):
            self._frames.append(frame)
            return
        last.rows += frame.rows
        last.size += frame.size
        last.runs += frame.runs
        last.written, last.waits = None, last.waits and frame.waits
        last.whose += frame.whose

    def take(self) -> OutgoingFrame:
        """Return the first frame, written."""
        frame = self._frames.popleft()
        self.rows -= frame.rows
        if frame.written is None:
            columns = {uid: frame.column(uid) for uid in self._kinds}
            frame.written = columns_of(frame.rows, columns, self._kinds)
        return frame

    # -------------------------------------------------------- what becomes of them

    # Of an application's publisher, calls that wait learn it; a gateway has others to tell.

    def go_together(self, last: OutgoingFrame, frame: OutgoingFrame) -> bool:
        """Say whether events of two who gave them may share a frame."""
        del last, frame
        return True

    def sent(self, frame: OutgoingFrame, sequence: int) -> None:
        """Take note that a frame leaves, and with which number."""
        del sequence
        frame.runs, frame.written = [], None  # the session keeps the bytes

    def answered(self, frames: list[OutgoingFrame], refused: int, problem: MaiaError | None) -> None:
        """Take note of what the broker answered for frames; a `problem` is why their publisher has ended."""

    def stuck(self, problem: MaiaError) -> None:
        """Take note that the broker takes nothing on before an operator has acted."""


def columns_of(
    rows: int, columns: Mapping[AttributeUid, Sequence[Value]], kinds: Mapping[AttributeUid, Kind]
) -> list[WireColumn]:
    """Return columns ready to travel, every value checked; those of nulls alone are left out."""
    given = {
        uid: Column(kind, tuple(columns[uid]))
        for uid, kind in kinds.items()
        if uid in columns and columns[uid].count(None) < rows
    }
    return frame_to_columns(Frame(rows, given))
