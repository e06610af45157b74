"""How do events of one row go to the broker, as many in a frame as there are, and who is answered for each?

An `Upstream` has a lane for each row that its sessions publish on. Nothing waits for a turn of the event
loop: what arrived in one read leaves in one frame, and the broker's answer is handed on when it comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from maia.broker.rights.publisher_view import shaper_of
from maia.client import RowsRefused
from maia.client.api.by_frame import call_on_room, next_label, offer_columns
from maia.client.api.publisher import Publisher
from maia.client.batch import EVENT_BYTES_MAX, FRAME_BYTES, EventTooLarge, rows_per_frame
from maia.credentials import Action, Principal, SignedCertificate, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import Column, Frame, Instant, Kind
from maia.gateway.topic_table import Columns, Row
from maia.policy import NO_FACTS, Denial, Request, decide, gather_evidence
from maia.types import VerifiedType
from maia.types.definition import tree_root
from maia.validity import ASSUMED_GOOD

if TYPE_CHECKING:
    from maia.gateway.server.upstream import Upstream


_EVENTS_TOGETHER: Final = 256
"""How many events leave in one frame, if so many wait."""

OnAnswers: TypeAlias = Callable[[list[tuple[int, int, MaiaError | None]]], None]
"""Called with what the broker has answered: of each handle so many more events, in order, and why not."""


class _Outgoing(msgspec.Struct):
    """A frame on its way to the broker, and whose events are in it, in order."""

    columns: dict[str, list[object]]
    rows: int = 0
    size: int = 0
    parts: list[tuple[OnAnswers, int, int]] = []
    """Who is to be answered, under which handle, for how many events."""


class Lane:
    """The events of one row on their way to the broker, in order."""

    def __init__(self, upstream: Upstream, row: Row) -> None:
        self._upstream, self._row = upstream, row
        self._rows_max = min(_EVENTS_TOGETHER, rows_per_frame(row.event_type))
        self._names = [one.name for one in row.event_type.attributes]
        self._long = [one.name for one in row.event_type.attributes if one.kind in (Kind.STRING, Kind.BYTES)]
        self._queue: deque[_Outgoing] = deque()
        self._sent: deque[_Outgoing] = deque()
        self._drained: asyncio.Event | None = None
        self._publisher: Publisher | None = None
        self.advertising: asyncio.Task[None] | None = None

    def put(self, columns: Columns, rows: int, handle: int, answered: OnAnswers) -> None:
        """Put events behind those that wait."""
        if rows > self._rows_max:
            for start in range(0, rows, self._rows_max):
                end = min(rows, start + self._rows_max)
                some = {name: values[start:end] for name, values in columns.items()}
                self.put(some, end - start, handle, answered)
            return
        size = 0
        for name in self._long:
            for value in columns.get(name, ()):
                size += len(value) if value else 0  # type: ignore[arg-type]  # texts and bytes
        frame = self._queue[-1] if self._queue else None
        if frame is not None and self._upstream.sent is not None and frame.parts[-1][0] != answered:
            frame = None  # a frame is of one session
        if frame is None or frame.rows + rows > self._rows_max or frame.size + size > FRAME_BYTES:
            nulls = (None,) * rows
            frame = _Outgoing({name: [*(columns.get(name) or nulls)] for name in self._names})
            self._queue.append(frame)
        else:
            for name, values in frame.columns.items():
                values.extend(columns.get(name) or (None,) * rows)
        frame.rows += rows
        frame.size += size
        frame.parts.append((answered, handle, rows))

    async def drained(self) -> None:
        """Return when the broker has answered for everything."""
        while self._queue or self._sent:
            self._drained = asyncio.Event()
            await self._drained.wait()

    def send(self) -> None:
        """Send frames while there is room for one."""
        while self._queue:
            if self._publisher is None:
                if self.advertising is None:
                    self.advertising = asyncio.create_task(self._advertise())
                return
            frame = self._queue.popleft()
            self._sent.append(frame)  # an answer may come before the call returns
            try:
                if frame.size > EVENT_BYTES_MAX:
                    raise EventTooLarge(
                        f"an event of {frame.size} characters is longer than {EVENT_BYTES_MAX}"
                    )
                if self._upstream.sent is not None:
                    self._upstream.sent.put(next_label(self._publisher), frame.parts[0][0])
                if not offer_columns(self._publisher, frame.rows, frame.columns):
                    self._queue.appendleft(self._sent.pop())
                    return
            except MaiaError as problem:
                # Nothing of a frame with a mistake is sent. If the publisher has ended, all are answered.
                if self._sent and self._sent[-1] is frame:
                    self._settle([self._sent.pop()], 0, problem)

    async def _advertise(self) -> None:
        try:
            publisher = await self._upstream.advertise(self._row, self._answer)
        except MaiaError as problem:
            waiting, self._queue = list(self._queue), deque()
            self.advertising = None
            self._settle(waiting, 0, problem)
            return
        call_on_room(publisher, self.send)
        self._publisher, self.advertising = publisher, None
        self.send()

    def _answer(self, rows: int, refused: int, problem: MaiaError | None) -> None:
        if problem is not None:
            self._publisher = None
            rows = sum(frame.rows for frame in self._sent)
        answered: list[_Outgoing] = []
        while rows > 0 and self._sent:
            answered.append(self._sent.popleft())
            rows -= answered[-1].rows
        self._settle(answered, refused, problem)
        if problem is not None:
            self.send()

    def _settle(self, frames: list[_Outgoing], refused: int, problem: MaiaError | None) -> None:
        """Answer for frames: all of their events have this problem, or `refused` of them were refused."""
        parts = frames[0].parts if len(frames) == 1 else [part for frame in frames for part in frame.parts]
        if refused:
            rows = sum(frame.rows for frame in frames)
            columns = {
                name: [value for frame in frames for value in frame.columns[name]]
                for name in frames[0].columns
            }
            problem = RowsRefused(refused)
            which = self._upstream.refused_rows(rows, columns, refused, self._row)  # type: ignore[arg-type]
            if which is not None:  # else none is acknowledged: it might be lost
                parts = [(answered, handle, 1) for answered, handle, count in parts for _ in range(count)]
        by_client: dict[OnAnswers, list[tuple[int, int, MaiaError | None]]] = {}
        for number, (answered, handle, rows) in enumerate(parts):
            is_good = refused and which is not None and number not in which
            by_client.setdefault(answered, []).append((handle, rows, None if is_good else problem))
        for answered, answers in by_client.items():
            answered(answers)
        if self._drained is not None and not self._queue and not self._sent:
            self._drained.set()


# Which of these events did the broker refuse, if it said only how many?
#
# Messages travel in frames, and a broker counts the rows of a frame that lie outside the publisher's right.
# The gateway holds the same certificates and asks the same kernel which rows these are. The answer
# explains, and permits nothing: where the numbers differ, there is none.


def refused_rows(  # noqa: PLR0913, PLR0917 - what the broker knew
    rows: int,
    columns: Columns,
    refused: int,
    event_type: VerifiedType,
    publisher: Principal,
    certificates: Iterable[SignedCertificate],
    constitutions: tuple[VerifiedConstitution, ...],
    now: Instant,
) -> frozenset[int] | None:
    """Return which events were refused; None if that cannot be told from the number."""
    if refused == rows:
        return frozenset(range(rows))
    request = Request(publisher, Action.PUBLISH, event_type.name, event_type)
    nulls = (None,) * rows
    frame = Frame(
        rows,
        {one.uid: Column(one.kind, tuple(columns.get(one.name, nulls))) for one in event_type.attributes},
    )
    try:
        evidence = gather_evidence(
            request, tuple(certificates), at=now, constitutions=constitutions, standing=ASSUMED_GOOD
        )
        decision = decide(request, evidence, NO_FACTS, now)
        if isinstance(decision, Denial):
            return None
        shaped = shaper_of(decision.view, tree_root(event_type.name.name)).shape(frame)
    except MaiaError:
        return None
    outside = frozenset(range(rows)) - frozenset(shaped.rows)
    return outside if shaped.refused == refused else None
