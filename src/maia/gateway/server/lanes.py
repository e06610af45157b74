"""How do events of one row go to the broker, as many in a frame as there are, and who is answered for each?

An `Upstream` has a lane for each row that its sessions publish on. Nothing waits for a turn of the event
loop: what arrived in one read leaves in one frame, and the broker's answer is handed on when it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, TypeAlias, cast

from maia.bounded_map import BoundedMap
from maia.broker.rights.publisher_view import shaper_of
from maia.client import Outbox, RowsRefused
from maia.client.api.by_frame import label_of, send, take_over
from maia.client.api.publisher import Publisher
from maia.client.batch import OutgoingFrame
from maia.credentials import Action, Principal, SignedCertificate, VerifiedConstitution
from maia.errors import MaiaError
from maia.events import Column, Frame, Instant
from maia.gateway.topic_table import Columns, TopicRow
from maia.policy import NO_FACTS, Denial, Request, decide, gather_evidence
from maia.types import VerifiedType
from maia.types.definition import tree_root
from maia.validity import ASSUMED_GOOD

_EVENTS_TOGETHER: Final = 256
"""How many events leave in one frame, if so many wait."""

OnAnswers: TypeAlias = Callable[[list[tuple[int, int, MaiaError | None]]], None]
"""Called with what the broker has answered: of each handle so many more events, in order, and why not."""
_Whose: TypeAlias = tuple[OnAnswers, int]
"""Who is to be answered, and under which handle."""
Sent: TypeAlias = BoundedMap[bytes, OnAnswers]
"""Whose events are in the latest frames."""
Refused: TypeAlias = Callable[[Sequence[OutgoingFrame], int, TopicRow], frozenset[int] | None]
"""Says which events of some frames the broker has refused, if that can be told from how many."""


class PublishLane(Outbox):
    """The events of one row on their way to the broker, in order, and who is to be answered for each."""

    def __init__(
        self,
        row: TopicRow,
        advertise: Callable[[TopicRow], Awaitable[Publisher]],
        refused_rows: Refused,
        sent: Sent | None,
    ) -> None:
        """Hold nothing yet; `sent` is of a client that several sessions publish with."""
        super().__init__(row.event_type, _EVENTS_TOGETHER)
        self._row, self._ask, self._refused_rows, self._sent = row, advertise, refused_rows, sent
        self._unanswered = 0
        self._mistakes: list[tuple[_Whose, int, MaiaError]] = []
        self._drained: asyncio.Event | None = None
        self._publisher: Publisher | None = None
        self.advertising: asyncio.Task[None] | None = None

    def give(self, columns: Columns, rows: int, handle: int, answered: OnAnswers) -> None:
        """Put events behind those that wait."""
        whose, done = (answered, handle), 0
        try:
            for frame in self.frames(rows, columns, joins=True):
                frame.whose.append((whose, frame.rows))
                self.put(frame)
                done += frame.rows
        except MaiaError as problem:  # answered for when the rest is sent
            self._mistakes.append((whose, rows - done, problem))

    async def drained(self) -> None:
        """Return when the broker has answered for everything."""
        while self.rows or self._unanswered:
            self._drained = asyncio.Event()
            await self._drained.wait()

    def send(self) -> None:
        """Send frames while there is room for one; the rest follows by itself."""
        mistakes, self._mistakes = self._mistakes, []
        for (answered, handle), rows, problem in mistakes:
            answered([(handle, rows, problem)])
        if self._publisher is not None:
            send(self._publisher)
        elif self.rows and self.advertising is None:
            self.advertising = asyncio.create_task(self._advertise())

    async def _advertise(self) -> None:
        try:
            self._publisher = await self._ask(self._row)
        except MaiaError as problem:
            self.advertising = None
            self.stuck(problem)
            return
        take_over(self._publisher, self)
        self.advertising = None
        self.send()

    # -------------------------------------------------------- what the publisher tells

    def go_together(self, last: OutgoingFrame, frame: OutgoingFrame) -> bool:
        """Say no for frames of two sessions where each is to be recognised as of one."""
        first, second = cast("tuple[_Whose, _Whose]", (last.whose[-1][0], frame.whose[0][0]))
        return self._sent is None or first[0] == second[0]

    def sent(self, frame: OutgoingFrame, sequence: int) -> None:
        """Remember whose frame it is, where others publish with the same client."""
        self._unanswered += frame.rows
        if self._sent is not None and self._publisher is not None:
            whose = cast("_Whose", frame.whose[0][0])
            self._sent.put(label_of(self._publisher, sequence), whose[0])

    def answered(self, frames: list[OutgoingFrame], refused: int, problem: MaiaError | None) -> None:
        """Tell all whose events these are; with a `problem`, what waits is published anew."""
        self._unanswered -= sum([frame.rows for frame in frames])
        if problem is not None:
            self._publisher = None
        self._settle(frames, refused, problem)
        if problem is not None:
            self.send()

    def stuck(self, problem: MaiaError) -> None:
        """Answer for everything that waits: nothing is gained by keeping it."""
        waiting: list[OutgoingFrame] = []
        while self.rows:
            waiting.append(self.take())
        self._settle(waiting, 0, problem)

    def _settle(self, frames: list[OutgoingFrame], refused: int, problem: MaiaError | None) -> None:
        """Answer for frames: all of their events have this problem, or `refused` of them were refused."""
        parts = cast("list[tuple[_Whose, int]]", [part for frame in frames for part in frame.whose])
        which: frozenset[int] | None = None
        if refused:
            problem = RowsRefused(refused)
            which = self._refused_rows(frames, refused, self._row)
            if which is not None:  # else none is acknowledged: it might be lost
                parts = [(whose, 1) for whose, count in parts for _ in range(count)]
        by_client: dict[OnAnswers, list[tuple[int, int, MaiaError | None]]] = {}
        for number, ((answered, handle), rows) in enumerate(parts):
            is_good = which is not None and number not in which
            by_client.setdefault(answered, []).append((handle, rows, None if is_good else problem))
        for answered, answers in by_client.items():
            answered(answers)
        if self._drained is not None and not self.rows and not self._unanswered:
            self._drained.set()


# ------------------------------------------------------------ which events were refused
#
# Messages travel in frames, and a broker counts the rows of a frame that lie outside the publisher's right.
# The gateway holds the same certificates and asks the same kernel which rows these are. The answer
# explains, and permits nothing: where the numbers differ, there is none.


def refused_rows(
    frames: Sequence[OutgoingFrame],
    refused: int,
    event_type: VerifiedType,
    publisher: Principal,
    certificates: Iterable[SignedCertificate],
    constitutions: tuple[VerifiedConstitution, ...],
    now: Instant,
) -> frozenset[int] | None:
    """Return which events were refused; None if that cannot be told from the number."""
    rows = sum([one.rows for one in frames])
    if refused == rows:
        return frozenset(range(rows))
    request = Request(publisher, Action.PUBLISH, event_type.name, event_type)
    columns = {
        uid: Column(kind, tuple([value for one in frames for value in one.column(uid)]))
        for uid, kind in event_type.kinds.items()
    }
    frame = Frame(rows, columns)
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
