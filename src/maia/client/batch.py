"""Which events leave together in the next frame?

Every way to publish comes through here: an event by its names, a column of many, a batch of Arrow, a run of
MQTT messages. What is given is checked, and waits as a frame. A single event waits for
company while a frame is under way, and leaves at once otherwise: a quiet publisher never waits, and a
busy one fills its frames by itself. A run of events leaves as soon as there is room for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from maia.client.meant_values import meant_value
from maia.credentials import BadName
from maia.errors import BadInput, MaiaError
from maia.events import AttributeUid, BadValue, Column, Frame, Instant, Kind, PresentValue, Value
from maia.predicates import Predicate
from maia.types import ValueMismatch, VerifiedType, check_event
from maia.types.definition import TOPIC, checked_topic, tree_root
from maia.wire.columns import EventWriter, frame_to_columns
from maia.wire.messages import Column as WireColumn

ROWS_PER_FRAME: Final = 1024
FRAME_BYTES: Final = 1 << 20
"""About how many characters a frame has when it leaves; one long event alone may have more."""
_LONG: Final = (str, bytes)
EVENT_BYTES_MAX: Final = 2 << 20
"""How many characters one event may have, so that any frame fits into a message, four bytes each."""


def rows_per_frame(event_type: VerifiedType) -> int:
    """Return how many events leave together; of a covered type each leaves alone, as cover does."""
    sealing = event_type.sealing
    return ROWS_PER_FRAME if sealing is None or sealing.cover is None else 1


class OutgoingFrame(msgspec.Struct):
    """Events of one publisher that leave together, checked."""

    rows: int
    size: int
    """How many characters their texts have."""
    # Any: as the sentence below says.
    runs: list[tuple[int, Mapping[AttributeUid, Any]]]
    """How many rows were given together, and their values by column, or if they wait the values of one event;
    columns of nulls may be left out."""
    written: list[WireColumn] | None
    """The columns as they travel, if nothing was added since they were written."""
    requires: Predicate | None = None
    waits: bool = False
    """Whether it waits for company while another frame is under way."""
    joins: bool = False
    """Whether events may be added to it."""
    published_at: Instant | None = None
    """When its publisher published it before, as through another broker; None for when it leaves."""
    whose: list[tuple[object, int]] = []
    """Who gave the events, and how many, in their order; empty where nothing has to be told apart."""

    def column(self, uid: AttributeUid) -> tuple[Value, ...]:
        """Return the values of one attribute."""
        if self.waits:
            return tuple([event.get(uid) for _, event in self.runs])
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
        joins: bool = False,
    ) -> Iterator[OutgoingFrame]:
        """Yield events, by the names of their columns, as frames; raise before the first with a mistake."""
        for start in range(0, rows, self.rows_max):
            some = min(rows - start, self.rows_max)
            part = columns if some == rows else {n: one[start : start + some] for n, one in columns.items()}
            size = sum([len(one) for values in part.values() for one in values if isinstance(one, _LONG)])
            if size > FRAME_BYTES and some > 1:  # long ones: as many in a frame as fit
                for row in zip(*part.values(), strict=True):
                    alone = dict(zip(part, row, strict=True))
                    if requires is None and not joins:
                        yield self.event(alone)
                    else:
                        one = {name: (value,) for name, value in alone.items()}
                        yield from self.frames(1, one, requires, joins=joins)
                continue
            if size > EVENT_BYTES_MAX:
                raise BadInput(
                    "INPUT-EVENT-TOO-LARGE", f"an event of {size} characters is longer than {EVENT_BYTES_MAX}"
                )
            values, written = self._checked(some, part)
            yield OutgoingFrame(some, size, [(some, values)], written, requires, joins=joins)

    def event(self, given: Mapping[str, object]) -> OutgoingFrame:
        """Return one event, by its names, as a frame that waits for company; raise what is wrong with it."""
        event = self._event(given)
        size = sum([len(value) for value in event.values() if isinstance(value, _LONG)])
        if size > EVENT_BYTES_MAX:
            raise BadInput(
                "INPUT-EVENT-TOO-LARGE", f"an event of {size} characters is longer than {EVENT_BYTES_MAX}"
            )
        if self._tree is not None:
            self._check_topics([event.get(TOPIC.uid)])
        return OutgoingFrame(1, size, [(1, event)], None, waits=True, joins=True)

    def _event(self, given: Mapping[str, object]) -> dict[AttributeUid, PresentValue]:
        try:
            return check_event(given, self.event_type)
        except ValueMismatch:
            known = self.event_type.vocabulary.get
            meant = {n: one if (of := known(n)) is None else meant_value(of, one) for n, one in given.items()}
            return check_event(meant, self.event_type)

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
            named = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
            events = [self._event(one) for one in named]
            given = {uid: [one.get(uid) for one in events] for uid in given}
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
        """Return whether the first frame should wait for no more events."""
        if len(self._frames) != 1:
            return bool(self._frames)
        first = self._frames[0]
        return first.rows >= self.rows_max or first.size >= FRAME_BYTES or not first.joins

    @property
    def waits(self) -> bool:
        """Return whether what is here waits for company while another frame is under way."""
        return not self._frames or (self._frames[0].waits and not self.is_full)

    def put(self, frame: OutgoingFrame) -> None:
        """Put a frame behind those that wait, or its events into the last of them if they fit."""
        last = self._frames[-1] if self._frames else None
        self.rows += frame.rows
        if (
            last is None
            or not (last.joins and frame.joins)
            or last.waits is not frame.waits
            or (frame.whose and not self.go_together(last, frame))
            or last.rows + frame.rows > self.rows_max
            or last.size + frame.size > FRAME_BYTES
        ):
            self._frames.append(frame)
            return
        last.rows += frame.rows
        last.size += frame.size
        last.runs += frame.runs
        last.written = None
        last.whose += frame.whose

    def take(self) -> OutgoingFrame:
        """Return the first frame, written."""
        frame = self._frames.popleft()
        self.rows -= frame.rows
        if frame.written is None:
            columns = {uid: frame.column(uid) for uid in self._kinds}
            frame.written = self._written(frame.rows, columns)
        return frame

    # -------------------------------------------------------- what becomes of them

    # Of an application's publisher, calls that wait learn it; a gateway has others to tell.

    def go_together(self, last: OutgoingFrame, frame: OutgoingFrame) -> bool:
        """Return whether events of two who gave them may share a frame."""
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
