"""How does an application receive events?

    async for event in subscription:
        print(event["numberplate"], event.publisher.identifier)

Events wait here in order until they are asked for. When too many wait, the
client stops reading, TCP slows the broker down, and a broker that cannot hold any
more closes the link rather than slow other clients down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from maia.client import Changed, ClientClosed, Delivered, GapDetected, StateKnown
from maia.client.api.data_frames import brought, to_pandas, to_polars
from maia.client.api.publisher import HeldRequest, Home, OnWarning
from maia.client.authors import PublishedBy
from maia.client.entries import SeenPublications, Subscribed
from maia.errors import MaiaError
from maia.events import Instant, Value
from maia.types import VerifiedType
from maia.types.definition import PUBLICATION

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["AskedSubscription", "ReceivedEvent", "Subscription"]

ROWS_WAITING_MAX: Final = 65_536
"""How many events may wait for the application before the client stops reading."""
BYTES_WAITING_MAX: Final = 16 << 20
"""How many bytes of memory these may take; one frame, however long, may always wait."""
EVENTS_TOGETHER: Final = 1024
"""How many events that have arrived are handed out together, unless the application says otherwise."""
_WITHDRAW_S: Final = 30.0
_STATE_S: Final = 10.0
_FRAMES_AT_A_TIME: Final = 8
_ACKNOWLEDGED_TOGETHER: Final = 32
"""How many frames of a durable subscription share one acknowledgement while more are waiting."""
_MISSED_MAX: Final = 1024


class ReceivedEvent(dict[str, Value]):
    """One event by the names of the subscriber's version; null where nothing is to be seen."""

    __slots__ = ("_subscription", "delivered")

    def __init__(
        self, values: Iterator[tuple[str, Value]], delivered: Delivered, subscription: Subscription
    ) -> None:
        """Take values by name, the delivery that they came with, and the subscription that it was for."""
        super().__init__(values)
        self.delivered = delivered
        self._subscription = subscription

    @property
    def hidden(self) -> frozenset[str]:
        """Return the names that the subscriber's rights do not show: null here, whatever was published."""
        return self._subscription.hidden

    @property
    def publisher(self) -> PublishedBy:
        """Return who published the event, and what is known and verified about it."""
        return self.delivered.by or PublishedBy(self.delivered.publisher)

    @property
    def published_at(self) -> Instant:
        """Return when the event was published, by its publisher's clock; `.datetime` is Python's own form."""
        return self.delivered.published_at

    def __repr__(self) -> str:
        """Return the type, each value or that it is hidden, and when it was published."""
        hidden = self.hidden
        values = (f"{name}={'hidden' if name in hidden else _shown(value)}" for name, value in self.items())
        kind = self._subscription.event_type.name.name
        return f"<{kind} {' '.join(values)} published_at={self.published_at}>"


def _shown(value: Value) -> str:
    return str(value) if isinstance(value, Instant) else repr(value)


class AskedSubscription(Coroutine[Any, Any, "Subscription"]):
    """A subscription that is asked for when it is awaited, or when a loop over its events begins.

        subscription = await client.subscribe("LabResult")
        async for event in client.subscribe("LabResult"): ...

    Leaving the loop takes the subscription back; the event at which a durable one was left comes again.
    """

    def __init__(self, ask: Callable[[], Coroutine[Any, Any, Subscription]]) -> None:
        """Ask for nothing yet."""
        self._ask = ask
        self._asked: Coroutine[Any, Any, Subscription] | None = None

    # Any: what a coroutine takes and yields is the business of its event loop.
    def send(self, value: Any) -> Any:
        """Go on, as a task does."""
        self._asked = self._asked or self._ask()
        return self._asked.send(value)

    # Any: as above, and what is thrown has several forms.
    def throw(self, *problem: Any) -> Any:
        """Go on with an exception, as a task that is cancelled does."""
        self._asked = self._asked or self._ask()
        return self._asked.throw(*problem)

    def close(self) -> None:
        """Ask no more."""
        if self._asked is not None:
            self._asked.close()

    def __await__(self) -> Generator[Any, Any, Subscription]:
        """Ask, and wait for the answer."""
        return self._ask().__await__()

    async def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        """Ask, and yield the events in the order in which they arrive."""
        subscription = await self._ask()
        try:
            async for event in subscription:
                yield event
        finally:
            subscription.acknowledges_itself = False
            with suppress(MaiaError):
                await subscription.unsubscribe()


class Subscription(HeldRequest):
    """The events of one type that a filter admits. Made by `client.subscribe`."""

    def __init__(self, client: Home, entry: Subscribed, on_warning: OnWarning | None = None) -> None:
        """Receive under a subscription that is accepted, or soon will be."""
        super().__init__(client, on_warning)
        self._entry = entry
        self._frames: deque[Delivered] = deque()
        self._rows: deque[ReceivedEvent] = deque()
        self._waiting = self._bytes = 0
        self._taken = 0
        self._arrived = asyncio.Event()
        self._is_withdrawn = False
        self._handed_out: bytes | None = None
        self._unacknowledged = 0
        self._missed: deque[GapDetected] = deque(maxlen=_MISSED_MAX)
        self._state_told = asyncio.Event()
        self._is_whole = False
        self.changed: MaiaError | None = None
        """Why it may show something else than when it was asked for, if that is so."""
        self.acknowledges_itself = True
        """Whether asking for the next event says that the last is done with; if not, `acknowledge` does."""
        self._seen = SeenPublications() if PUBLICATION in self.event_type.attributes else None
        """Publications that were handed out, and may come again on another topic."""
        self._on_arrival: Callable[[], None] | None = None
        """Called when a frame has arrived, or the end (`by_frame.py`)."""
        self._on_waiting: Callable[[int], None] | None = None
        """Called with the bytes that wait from now on, or wait no more (`by_frame.py`)."""

    def __repr__(self) -> str:
        """Return what it is about, how many events wait, and why it has ended if it has."""
        durable = f" durable={self._entry.durable!r}" if self._entry.durable else ""
        ended = " closed" if self._is_withdrawn else ""
        ended = ended if self._problem is None else f" ended={self._problem.code}"
        return f"<Subscription {self.event_type.name.name}{durable} waiting={self.waiting}{ended}>"

    @property
    def event_type(self) -> VerifiedType:
        """Return the version of the type in whose names events are delivered."""
        return self._entry.delivered_type

    @property
    def hidden(self) -> frozenset[str]:
        """Return the names of the attributes that the subscriber's own rights do not show."""
        found = self._client._session.hidden_from(self._entry, self._client._now())
        return (
            frozenset(one.name for one in self.event_type.attributes if one.uid in found) if found else found
        )

    @property
    def problem(self) -> MaiaError | None:
        """Return why nothing more will arrive, if that is so; events may still wait to be taken."""
        return self._problem

    @property
    def _has_room(self) -> bool:
        """Return whether the client should read on."""
        return self._waiting < ROWS_WAITING_MAX and self._bytes < BYTES_WAITING_MAX

    @property
    def waiting(self) -> int:
        """Return how many events have arrived and were not taken."""
        return self._waiting + len(self._rows)

    # -------------------------------------------------------- what an application asks for

    def __aiter__(self) -> AsyncIterator[ReceivedEvent]:
        """Return the events in the order in which they arrive."""
        return self

    async def __anext__(self) -> ReceivedEvent:
        """Return the next event; raise the refusal when the subscription has ended for good."""
        while not self._rows:
            self._rows.extend(_rows_of(await self._next_frame(), self))
        return self._rows.popleft()

    async def some(
        self, most: int = EVENTS_TOGETHER, *, timeout_s: float | None = None
    ) -> list[ReceivedEvent]:
        """Return events that have arrived, at most so many; wait for one, or for `timeout_s` and none.

        Without a timeout, nothing is returned only when the subscription or
        the client has been closed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                first = await anext(self)
        except (TimeoutError, StopAsyncIteration):
            return []
        more = [self._rows.popleft() for _ in range(min(most - 1, len(self._rows)))]
        return [first, *more]

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Yield events as Arrow batches, one for each frame, with who and when in its metadata."""
        await asyncio.to_thread(_load_arrow)
        while True:
            try:
                frame = await self._next_frame()
            except StopAsyncIteration:
                return
            yield _batch_of(frame, self.event_type)

    async def to_arrow(self, rows: int | None = None, *, seconds: float | None = None) -> pa.Table:
        """Return the next events as an Arrow table: so many, or what arrives in time, whichever is first.

        The table ends early where the subscription does; the next call raises why.
        """
        if rows is None and seconds is None:
            raise TypeError("say how many `rows` to wait for, or for how many `seconds`")
        await asyncio.to_thread(_load_arrow)
        clock = asyncio.get_running_loop().time
        ends = None if seconds is None else clock() + seconds
        taken: list[ReceivedEvent] = []
        while rows is None or len(taken) < rows:
            most = ROWS_WAITING_MAX if rows is None else rows - len(taken)
            try:
                some = await self.some(most, timeout_s=None if ends is None else max(0.0, ends - clock()))
            except MaiaError:
                if not taken:
                    raise
                break
            if not some:
                break
            taken += some
        return _table_of(taken, self.event_type)

    async def to_pandas(self, rows: int | None = None, *, seconds: float | None = None) -> pd.DataFrame:
        """Return the next events as a pandas table, as `to_arrow` does."""
        return await asyncio.to_thread(to_pandas, await self.to_arrow(rows, seconds=seconds))

    async def to_polars(self, rows: int | None = None, *, seconds: float | None = None) -> pl.DataFrame:
        """Return the next events as a polars table, as `to_arrow` does."""
        return await asyncio.to_thread(to_polars, await self.to_arrow(rows, seconds=seconds))

    async def state_known(self, *, timeout_s: float = _STATE_S) -> bool:
        """Wait until the present state has arrived; say whether every publisher's side has answered.

        The events of the state are taken like all others. It arrives within
        seconds; False says that some publisher's broker did not answer, or that the state was not asked for.
        """
        if not self._entry.wants_state:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._state_told.wait()
        return self._is_whole

    @property
    def missed(self) -> tuple[GapDetected, ...]:
        """Return what a durable subscription should have had and cannot have any more, the latest last."""
        return tuple(self._missed)

    def acknowledge(self, upto: bytes | None = None) -> None:
        """Say that all events returned so far are done with: a durable subscription gets them no more.

        Asking for the next event says so by itself. A frame whose events were
        not all returned is not acknowledged. With the position of a frame that was
        returned, nothing behind it is.
        """
        position = self._handed_out
        if position is not None and not self._rows:
            effects = self._client._session.acknowledge(self._entry, position if upto is None else upto)
            self._unacknowledged = 0
            self._client._perform(effects)

    async def unsubscribe(self, *, forget: bool = False, timeout_s: float = _WITHDRAW_S) -> None:
        """Take the subscription back; events that have arrived can still be taken.

        The broker remembers how far a durable one has come, unless it is to `forget` it.
        """
        if self._problem is None and not self._is_withdrawn:
            if self.acknowledges_itself:
                self.acknowledge()
            await self._client._withdraw(self._entry, timeout_s, forget=forget)
            self._is_withdrawn = True
            self._arrived.set()

    # -------------------------------------------------------- called by the client

    def _take(self, delivered: Delivered) -> None:
        """Take a frame that has arrived."""
        self._frames.append(delivered)
        self._wait(delivered.frame.rows, delivered.size)
        self._arrive()
        if not self._has_room:
            self._client._check_room()

    def _note(self, notice: GapDetected | Changed | StateKnown) -> None:
        """Take note of what cannot be had, of another right, or that the state has arrived."""
        match notice:
            case GapDetected():
                self._missed.append(notice)
            case Changed(problem=problem):
                self.changed = problem
            case StateKnown(is_whole=is_whole):
                self._is_whole = is_whole
                self._state_told.set()

    def _end(self, problem: MaiaError) -> None:
        """Take note that nothing more will arrive."""
        self._problem = problem
        self._state_told.set()
        self._arrive()

    # -------------------------------------------------------- inside

    async def _next_frame(self) -> Delivered:
        self._taken += 1
        if self._taken % _FRAMES_AT_A_TIME == 0:
            await asyncio.sleep(0)  # a loop over what has arrived must not keep renewals waiting
        self._unacknowledged += 1
        if self.acknowledges_itself and (not self._frames or self._unacknowledged >= _ACKNOWLEDGED_TOGETHER):
            self.acknowledge()  # asking for the next one acknowledges the last
        while not self._frames:
            self._raise_if_over()
            self._arrived.clear()
            await self._arrived.wait()
        return self._take_frame()

    def _raise_if_over(self) -> None:
        """Raise what has ended it."""
        if self._is_withdrawn or isinstance(self._problem, ClientClosed):
            raise StopAsyncIteration
        if self._problem is not None:
            raise self._problem

    def _next_ready(self) -> ReceivedEvent | None:
        """Return the next event if one has arrived; asking for it acknowledges the last."""
        while not self._rows and self._frames:
            if self.acknowledges_itself:
                self.acknowledge()
            self._rows.extend(_rows_of(self._take_frame(), self))
        return self._rows.popleft() if self._rows else None

    def _arrive(self) -> None:
        self._arrived.set()
        if self._on_arrival is not None:
            self._on_arrival()

    def _take_frame(self) -> Delivered:
        frame = self._frames.popleft()
        self._handed_out = frame.position
        had_room = self._has_room
        self._wait(-frame.frame.rows, -frame.size)
        if not had_room:
            self._client._check_room()
        if self._seen is None:
            return frame
        return replace(frame, frame=self._seen.unseen(frame.publisher.key, frame.frame))

    def _wait(self, rows: int, size: int) -> None:
        self._waiting += rows
        self._bytes += size
        if self._on_waiting is not None:
            self._on_waiting(size)


def _rows_of(delivered: Delivered, subscription: Subscription) -> Iterator[ReceivedEvent]:
    event_type = subscription.event_type
    names = [attribute.name for attribute in event_type.attributes]
    columns = _columns_of(delivered, event_type)
    for values in zip(*columns, strict=True):
        yield ReceivedEvent(zip(names, values, strict=True), delivered, subscription)


def _columns_of(delivered: Delivered, event_type: VerifiedType) -> list[tuple[Value, ...]]:
    frame, missing = delivered.frame, (None,) * delivered.frame.rows
    return [
        frame.columns[attribute.uid].values if attribute.uid in frame.columns else missing
        for attribute in event_type.attributes
    ]


def _load_arrow() -> None:
    """Load Arrow in a thread: its first array loads pandas, for seconds on a busy machine; leases go on."""
    pa = brought("pyarrow", extra="arrow")
    pa.array(("",), type=pa.string())


def _fields(event_type: VerifiedType) -> list[pa.Field]:
    import pyarrow as pa

    from maia.views import ARROW_TYPES

    return [pa.field(one.name, ARROW_TYPES[one.kind], nullable=True) for one in event_type.attributes]


def _table_of(events: Sequence[ReceivedEvent], event_type: VerifiedType) -> pa.Table:
    import pyarrow as pa

    fields = _fields(event_type)
    arrays = [pa.array([one[field.name] for one in events], type=field.type) for field in fields]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _batch_of(delivered: Delivered, event_type: VerifiedType) -> pa.RecordBatch:
    import pyarrow as pa

    fields = _fields(event_type)
    who_and_when = {
        b"maia.publisher": str(delivered.publisher).encode(),
        b"maia.published_at": b"%d" % delivered.published_at,
        b"maia.stream": delivered.stream.hex().encode(),
        b"maia.label": delivered.label.hex().encode(),
    }
    if delivered.position is not None:
        who_and_when[b"maia.position"] = delivered.position.hex().encode()
    arrays = [
        pa.array(values, type=field.type)
        for values, field in zip(_columns_of(delivered, event_type), fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, metadata=who_and_when))
