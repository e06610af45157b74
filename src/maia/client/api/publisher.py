"""How does an application publish events, and learn what became of them?

`publish` returns as soon as there is room for the event; the event leaves at
once if nothing else is under way, and with others otherwise. `flush` waits
until the broker has taken everything on, and says so if it refused some.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from maia.client import Acknowledged, ClientSession, RowsRefused
from maia.client.api.types import requirement_for
from maia.client.batch import Outbox, OutgoingFrame
from maia.client.entries import Advertised, RequestEntry
from maia.client.errors import CANNOT_SEAL, KEY_SERVER_AWAY, LOG_FULL
from maia.errors import MaiaError, Unavailable
from maia.events import Instant
from maia.predicates import Predicate
from maia.types import VerifiedType
from maia.wire.effects import Effect

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Home", "OnAnswer", "OnWarning", "Publisher"]

FLUSH_S: Final = 60.0
TRYING_AGAIN: Final = "; trying again"
"""Ends the warning of one who has lost its broker; who waits no longer is told otherwise."""
OnWarning: TypeAlias = Callable[[MaiaError | None], None]
"""Called with the reason why a request cannot be served at this moment, and with None when it can again."""


OnAnswer: TypeAlias = Callable[[int, int, MaiaError | None], None]
"""Called with how many events, in their order, the broker has answered for, and how many of them it refused.

When the publisher ends, it is called once more with the reason: the broker answers for no other event.
"""


class Home(Protocol):
    """What a publisher or a subscription needs of its client."""

    _session: ClientSession
    """What everything goes through."""

    def _now(self) -> Instant:
        """Return the present moment."""
        ...

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Have effects of the session performed."""

    def _check_room(self) -> None:
        """Read on, or leave what arrives to TCP."""

    async def _withdraw(self, entry: RequestEntry, timeout_s: float, *, forget: bool = False) -> None:
        """Withdraw the request."""


class HeldRequest:
    """An accepted request as its application holds it: what the broker has said of it."""

    def __init__(self, client: Home, on_warning: OnWarning | None) -> None:
        """Begin with a request that is served."""
        self._client, self._on_warning = client, on_warning
        self._problem: MaiaError | None = None
        self.warning: MaiaError | None = None
        """Why nothing can arrive, or get far, at this moment, if the broker has said so."""

    def _warn(self, problem: MaiaError | None) -> None:
        """Take note of why the request cannot be served at this moment, or that it can again."""
        self.warning = problem
        if self._on_warning is not None:
            self._on_warning(problem)


class Publisher(HeldRequest):
    """One stream of events of one type. Made by `client.advertise`."""

    def __init__(
        self,
        client: Home,
        entry: Advertised,
        on_warning: OnWarning | None = None,
        on_answer: OnAnswer | None = None,
    ) -> None:
        """Publish under an advertisement that is accepted, or soon will be."""
        super().__init__(client, on_warning)
        self._session, self._entry = client._session, entry
        self._outbox = Outbox(self.event_type)
        self._on_answer = on_answer
        self._moved = asyncio.Event()
        self._refused_unsaid = 0
        self._held_up: MaiaError | None = None
        """Why the broker last took nothing on, until it does."""
        self._unanswered: deque[tuple[int, OutgoingFrame]] = deque()
        self.refused_rows = 0
        """How many events the broker has refused so far."""
        self.published_rows = 0
        """How many events the broker has taken on so far."""

    def __repr__(self) -> str:
        """Return what is published, how much of it, and why it has ended if it has."""
        ended = "" if self._problem is None else f" ended={self._problem.code}"
        refused = f" refused={self.refused_rows}" if self.refused_rows else ""
        return f"<Publisher {self.event_type.name.name} published={self.published_rows}{refused}{ended}>"

    @property
    def event_type(self) -> VerifiedType:
        """Return the version of the type that this publisher speaks."""
        return self._entry.written_type

    # -------------------------------------------------------- what an application asks for

    async def publish(self, event: Mapping[str, object] | None = None, /, **values: object) -> None:
        """Publish one event, given by name; wait only while too much is under way.

        If there is no room because the broker cannot seal the type, its reason is raised.
        """
        frame = self._outbox.event({**event, **values} if event else values)
        if self._outbox.is_full or self._problem is not None:
            await self._room_for(frame)
        self._outbox.put(frame)
        self._pump()

    async def publish_to(
        self, requires: str | Predicate, event: Mapping[str, object] | None = None, /, **values: object
    ) -> None:
        """Publish one event to subscribers that meet a requirement, in place of the advertisement's.

        `requires` asks about their identity statements: `nationality == "uk" or clearance >= 3`.
        """
        await self.publish_many([{**(event or {}), **values}], requires=requires)

    async def publish_many(
        self, events: Iterable[Mapping[str, object]], *, requires: str | Predicate | None = None
    ) -> None:
        """Publish many events, in frames as full as can be; nothing of a frame with a mistake is sent.

        `requires` is what subscribers have to meet, in place of what the advertisement requires.
        """
        required = None if requires is None else requirement_for(requires)
        remaining = iter(events)
        while some := list(islice(remaining, self._outbox.rows_max)):
            names = set().union(*some)
            columns = {name: [one.get(name) for one in some] for name in names}
            await self._put(self._outbox.frames(len(some), columns, required))

    async def publish_columns(
        self, columns: Mapping[str, list[object]], *, published_at: Instant | None = None
    ) -> None:
        """Publish events that are given by column, whose names are those of the type.

        Up to `maia.client.batch.rows_per_frame` events, of at most `FRAME_BYTES` characters together, leave
        in one frame. `published_at` is the moment of a frame that has left before, through another broker:
        copies of one publication have one moment.
        """
        for frame in self._outbox.frames(len(next(iter(columns.values()), ())), columns):
            frame.published_at = published_at
            await self._put((frame,))

    async def publish_batch(self, batch: pa.RecordBatch, *, requires: str | Predicate | None = None) -> None:
        """Publish the rows of an Arrow batch, whose columns are called as the type calls them."""
        import pyarrow as pa

        required = None if requires is None else requirement_for(requires)
        for start in range(0, batch.num_rows, self._outbox.rows_max):
            part = batch.slice(start, self._outbox.rows_max)
            columns: dict[str, list[object]] = {}
            for name, column in zip(part.schema.names, part.columns, strict=True):
                if pa.types.is_timestamp(column.type):
                    moments = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
                    columns[name] = [None if one is None else Instant(one) for one in moments]
                else:
                    columns[name] = column.to_pylist()
            await self._put(self._outbox.frames(part.num_rows, columns, required))

    async def flush(self, *, timeout_s: float = FLUSH_S) -> None:
        """Wait until the broker has taken on everything published so far; raise `RowsRefused` if not all.

        If the broker says that it has no keys of the type, its reason is raised at once; that the key
        server does not answer, when the time is over. What was published stays under way, and leaves as
        soon as the broker can.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._until(lambda: not self._outbox.rows and not self._entry.under_way)
        except TimeoutError:
            problem = self._entry.problem or self.warning or self._held_up
            if problem is not None and problem.message.endswith(TRYING_AGAIN):
                lost = problem.message.removesuffix(TRYING_AGAIN)
                said = f"not accepted within {timeout_s:g} seconds, and still under way: {lost}"
                raise Unavailable(problem.code, said) from None
            if problem is not None:
                raise problem from None
            waiting = self._outbox.rows + len(self._entry.under_way)
            raise Unavailable(
                "UNAVAILABLE-NOT-CONNECTED",
                f"{waiting} frames or events still wait after {timeout_s:g} seconds",
            ) from None
        self._raise_if_ended()
        refused, self._refused_unsaid = self._refused_unsaid, 0
        if refused:
            raise RowsRefused(refused)

    async def unadvertise(self, *, timeout_s: float = FLUSH_S) -> None:
        """Flush, and take the advertisement back."""
        if self._problem is None:
            await self.flush(timeout_s=timeout_s)
            await self._client._withdraw(self._entry, timeout_s)

    # -------------------------------------------------------- called by the client

    def _pump(self, *, hurries: bool = False) -> bool:
        """Send what may leave now, and with `hurries` what waits for company; say whether something left."""
        entry, outbox, session, has_sent = self._entry, self._outbox, self._session, False
        while (
            outbox.rows and session.has_room(entry) and (hurries or not entry.under_way or not outbox.waits)
        ):
            frame, sequence = outbox.take(), entry.next_sequence
            now, columns = frame.published_at or self._client._now(), frame.written or []
            effects = session.publish(entry, frame.rows, columns, now, frame.requires)
            self._unanswered.append((sequence, frame))
            outbox.sent(frame, sequence)
            self._client._perform(effects)
            has_sent = True
        if session.has_room(entry):
            # A new link with nothing to answer for brings no answer that would wake a waiting call.
            self._moved.set()
        elif outbox.rows and entry.problem is not None and entry.problem.code in CANNOT_SEAL:
            outbox.stuck(entry.problem)
        return has_sent

    def _take(self, taken: Acknowledged) -> None:
        """Take note of what the broker has taken on."""
        frames: list[OutgoingFrame] = []
        while self._unanswered and self._unanswered[0][0] <= taken.sequence:
            frames.append(self._unanswered.popleft()[1])
        answered = sum([frame.rows for frame in frames])
        self.published_rows += answered - taken.refused_rows
        self.refused_rows += taken.refused_rows
        self._refused_unsaid += taken.refused_rows
        self._held_up = None
        self._moved.set()
        self._outbox.answered(frames, taken.refused_rows, None)
        if self._on_answer is not None:
            self._on_answer(answered, taken.refused_rows, None)

    def _put_off(self) -> None:
        """Take note that the broker takes nothing on at this moment; its entry knows why."""
        self._held_up = self._entry.problem
        self._moved.set()
        self._pump()

    def _end(self, problem: MaiaError) -> None:
        """Take note that nothing more can be published."""
        self._problem = problem
        self._moved.set()
        unanswered = [frame for _, frame in self._unanswered]
        self._unanswered.clear()
        self._outbox.answered(unanswered, 0, problem)
        if self._on_answer is not None:
            self._on_answer(0, 0, problem)

    # -------------------------------------------------------- inside

    async def _put(self, frames: Iterable[OutgoingFrame]) -> None:
        """Publish frames, which were checked, in their order; of one with a mistake nothing is sent."""
        for frame in frames:
            await self._room_for(frame)
            self._outbox.put(frame)
            self._pump()
            await asyncio.sleep(0)  # let answers in: a long loop of sends must not starve other tasks

    async def _room_for(self, frame: OutgoingFrame) -> None:
        """Wait until a frame may wait with others, or leave at once: events given one by one go first."""
        outbox, has_room = self._outbox, self._session.has_room
        if frame.waits:
            await self._until(lambda: not outbox.is_full)
        else:
            await self._until(lambda: not outbox.rows and has_room(self._entry), hurries=True)

    async def _until(self, is_so: Callable[[], bool], *, hurries: bool = False) -> None:
        """Send what may leave until something is so; raise why it cannot be."""
        self._raise_if_ended()
        while not is_so():
            self._raise_if_stuck()
            if not self._pump(hurries=hurries):
                self._moved.clear()
                await self._moved.wait()
                self._raise_if_ended()

    def _raise_if_stuck(self) -> None:
        """Raise what ended the advertisement, or why the broker takes nothing on."""
        self._raise_if_ended()
        problem = self._entry.problem
        if problem is not None and problem.code in CANNOT_SEAL - {KEY_SERVER_AWAY}:
            raise problem
        for one in (problem, self.warning):  # it ends by itself, and events wait as long as there is room
            if one is not None and one.code in {KEY_SERVER_AWAY, LOG_FULL} and self._outbox.is_full:
                raise one

    def _raise_if_ended(self) -> None:
        if self._problem is not None:
            raise self._problem
