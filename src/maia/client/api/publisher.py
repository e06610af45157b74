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

from maia.client import Acknowledged, ClientSession, FrameFiller, NotConnected, RowsRefused
from maia.client.api.types import meant_event, meant_value, requirement_for
from maia.client.batch import EVENT_BYTES_MAX, FRAME_BYTES, EventTooLarge, columns_of, rows_per_frame
from maia.client.entries import Advertised, RequestEntry
from maia.client.errors import CANNOT_SEAL, LOG_FULL
from maia.credentials import BadName
from maia.errors import MaiaError
from maia.events import AttributeUid, BadValue, Instant, Value
from maia.predicates import Predicate
from maia.types import UnknownName, ValueMismatch, VerifiedType, check_event
from maia.types.definition import TOPIC, checked_topic, tree_root
from maia.wire.effects import Effect
from maia.wire.messages import Column as WireColumn

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Home", "OnAnswer", "OnWarning", "Publisher"]

FLUSH_S: Final = 60.0
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


class Publisher:
    """One stream of events of one type. Made by `client.advertise`."""

    def __init__(
        self,
        client: Home,
        entry: Advertised,
        on_warning: OnWarning | None = None,
        on_answer: OnAnswer | None = None,
    ) -> None:
        """Publish under an advertisement that is accepted, or soon will be."""
        self._client, self._session = client, client._session
        self._entry = entry
        self._filler, self._rows_max = FrameFiller(self.event_type), rows_per_frame(self.event_type)
        self._names = tuple(one.name for one in self.event_type.attributes)
        self._tree = tree_root(self.event_type.name.name)
        self._problem: MaiaError | None = None
        self._on_warning, self._on_answer = on_warning, on_answer
        self._moved = asyncio.Event()
        self._refused_unsaid = 0
        self._unanswered: deque[tuple[int, int]] = deque()
        self.refused_rows = 0
        """How many events the broker has refused so far."""
        self.published_rows = 0
        """How many events the broker has taken on so far."""
        self.warning: MaiaError | None = None
        """Why what is published cannot get far at this moment, if that is so."""
        self._on_room: Callable[[], None] | None = None
        """Called when there may be room for a frame again (`by_frame.py`)."""

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
        given = {**event, **values} if event else values
        try:
            checked = check_event(given, self.event_type)
        except ValueMismatch:
            checked = check_event(meant_event(given, self.event_type), self.event_type)
        self._check_topics([checked.get(TOPIC.uid)])
        await self._room_for_more()
        self._filler.add(checked)
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
        names = self.event_type.vocabulary
        while some := list(islice(remaining, self._rows_max)):
            for strange in set().union(*some) - names.keys():
                check_event({strange: None}, self.event_type)  # raises, and names what comes near
            columns = {name: [one.get(name) for one in some] for name in names}
            await self._send_columns(len(some), columns, required)

    async def publish_columns(self, columns: Mapping[str, list[object]]) -> None:
        """Publish events that are given by column, whose names are those of the type.

        Up to `maia.client.batch.rows_per_frame` events, of at most `FRAME_BYTES` characters together, leave
        in one frame.
        """
        rows = len(next(iter(columns.values()), ()))
        for start in range(0, rows, self._rows_max):
            end = min(rows, start + self._rows_max)
            part = {name: values[start:end] for name, values in columns.items()}
            await self._send_columns(end - start, part, None)

    async def publish_batch(self, batch: pa.RecordBatch, *, requires: str | Predicate | None = None) -> None:
        """Publish the rows of an Arrow batch, whose columns are called as the type calls them."""
        import pyarrow as pa

        required = None if requires is None else requirement_for(requires)
        for start in range(0, batch.num_rows, self._rows_max):
            part = batch.slice(start, self._rows_max)
            columns: dict[str, list[object]] = {}
            for name, column in zip(part.schema.names, part.columns, strict=True):
                if pa.types.is_timestamp(column.type):
                    moments = column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).to_pylist()
                    columns[name] = [None if one is None else Instant(one) for one in moments]
                else:
                    columns[name] = column.to_pylist()
            await self._send_columns(part.num_rows, columns, required)

    async def flush(self, *, timeout_s: float = FLUSH_S) -> None:
        """Wait until the broker has taken on everything published so far; raise `RowsRefused` if not all.

        If the broker says that it cannot seal the type, its reason is raised at once. What was
        published stays under way, and leaves as soon as the broker can.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self._filler.rows or self._entry.under_way:
                    self._raise_if_stuck()
                    await self._until_moved()
        except TimeoutError:
            problem = self._entry.problem or self.warning
            if problem is not None:
                raise problem from None
            waiting = self._filler.rows + len(self._entry.under_way)
            raise NotConnected(f"{waiting} frames or events still wait after {timeout_s:g} seconds") from None
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

    def _pump(self) -> None:
        """Send what may leave now: at once if nothing is under way, else whole frames only."""
        has_room, filler = self._session.has_room, self._filler
        while filler.rows and has_room(self._entry) and (filler.is_full or not self._entry.under_way):
            rows, columns = filler.take()
            self._send(rows, columns)
        if has_room(self._entry):
            # A new link with nothing to answer for brings no answer that would wake a waiting call.
            self._moved.set()
            if self._on_room is not None:
                self._on_room()

    def _take(self, taken: Acknowledged) -> None:
        """Take note of what the broker has taken on."""
        answered = 0
        while self._unanswered and self._unanswered[0][0] <= taken.sequence:
            answered += self._unanswered.popleft()[1]
        self.published_rows += answered - taken.refused_rows
        self.refused_rows += taken.refused_rows
        self._refused_unsaid += taken.refused_rows
        self._moved.set()
        if self._on_answer is not None:
            self._on_answer(answered, taken.refused_rows, None)

    def _warn(self, problem: MaiaError | None) -> None:
        """Take note of why what is published cannot get far, or that it can again."""
        self.warning = problem
        if self._on_warning is not None:
            self._on_warning(problem)

    def _put_off(self) -> None:
        """Take note that the broker takes nothing on at this moment; its entry knows why."""
        self._moved.set()
        if self._on_room is not None:
            self._on_room()

    def _end(self, problem: MaiaError) -> None:
        """Take note that nothing more can be published."""
        self._problem = problem
        self._moved.set()
        if self._on_answer is not None:
            self._on_answer(0, 0, problem)

    # -------------------------------------------------------- inside

    async def _send_columns(
        self, rows: int, columns: Mapping[str, list[object]], requires: Predicate | None
    ) -> None:
        size = sum(len(one) for values in columns.values() for one in values if isinstance(one, str | bytes))
        if size > FRAME_BYTES and requires is None:
            for row in zip(*columns.values(), strict=True):  # long ones: as many in a frame as fit
                await self.publish(dict(zip(columns, row, strict=True)))
            return
        if size > FRAME_BYTES and rows > 1:
            for row in zip(*columns.values(), strict=True):
                alone = {name: [value] for name, value in zip(columns, row, strict=True)}
                await self._send_columns(1, alone, requires)
            return
        if size > EVENT_BYTES_MAX:
            raise EventTooLarge(f"an event of {size} characters is longer than {EVENT_BYTES_MAX}")
        checked = self._checked(rows, columns)
        await self._room_for_more()
        while self._filler.rows or not self._session.has_room(self._entry):
            self._raise_if_stuck()  # events that were given one by one go first
            if self._filler.rows and self._session.has_room(self._entry):
                self._send(*self._filler.take())
            else:
                await self._until_moved()
        self._raise_if_ended()
        self._send(rows, checked, requires)
        await asyncio.sleep(0)  # let answers in: a long loop of sends must not starve other tasks

    def _checked(self, rows: int, columns: Mapping[str, list[object]]) -> list[WireColumn]:
        """Return columns ready to travel; a value that does not fit is reported with its attribute."""
        if rows == 1 and self._tree is None and tuple(columns) == self._names:
            try:
                return self._filler.alone.columns_of([value for (value,) in columns.values()])  # type: ignore[misc]
            except (BadValue, ValueError):
                pass  # looked at by name
        vocabulary, kinds = self.event_type.vocabulary, self.event_type.kinds
        by_uid: dict[AttributeUid, list[Value]] = {}
        for name, values in columns.items():
            attribute = vocabulary.get(name)
            if attribute is None:
                raise UnknownName(f"the type has no attribute `{name[:64]}`")
            # What these objects are is checked, all of them, when the column is written.
            by_uid[attribute.uid] = values  # type: ignore[assignment]
        self._check_topics(by_uid.get(TOPIC.uid, (None,)))
        try:
            return columns_of(rows, by_uid, kinds)
        except BadValue:
            meant = {
                vocabulary[name].uid: [meant_value(vocabulary[name], one) for one in values]
                for name, values in columns.items()
            }
            for row in zip(*meant.values(), strict=True):
                named = dict(zip(columns, row, strict=True))
                check_event(named, self.event_type)
            return columns_of(rows, meant, kinds)  # type: ignore[arg-type]  # checked, all of them

    def _check_topics(self, topics: Iterable[Value]) -> None:
        """Refuse an event on topics without a topic of this tree; the broker would, without a word."""
        if self._tree is None:
            return
        seen: set[str] = set()
        for topic in topics:
            if not isinstance(topic, str):
                raise BadName(f"each event needs a `{TOPIC.name}` such as `{self._tree}`")
            if topic not in seen:
                seen.add(checked_topic(topic, self._tree))

    def _send(self, rows: int, columns: list[WireColumn], requires: Predicate | None = None) -> None:
        sequence = self._entry.next_sequence
        effects = self._session.publish(self._entry, rows, columns, self._client._now(), requires)
        self._unanswered.append((sequence, rows))
        self._client._perform(effects)

    async def _room_for_more(self) -> None:
        self._raise_if_ended()
        while self._filler.is_full:
            self._raise_if_stuck()
            await self._until_moved()
            self._raise_if_ended()

    async def _until_moved(self) -> None:
        self._pump()
        self._moved.clear()
        await self._moved.wait()

    def _raise_if_stuck(self) -> None:
        """Raise what ended the advertisement, or why the broker takes nothing on."""
        self._raise_if_ended()
        problem = self._entry.problem
        if problem is not None and problem.code in CANNOT_SEAL:
            raise problem
        if self.warning is not None and self.warning.code == LOG_FULL and self._filler.is_full:
            raise self.warning

    def _raise_if_ended(self) -> None:
        if self._problem is not None:
            raise self._problem
