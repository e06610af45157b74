"""How does an application without an event loop publish and subscribe?

    with maia.connect("lab.maia") as client:
        for event in client.subscribe("LabResult"):
            ...

The same client as in an event loop, on a thread of its own. Every call waits
for its answer; refusals are raised in the thread that called.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from maia.client import ClientClosed, GapDetected
from maia.client.api.client import ANSWER_S, Client, EventType, connect
from maia.client.api.data_frames import to_pandas, to_polars
from maia.client.api.publisher import FLUSH_S, Publisher
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.client.entries import Numbering
from maia.credentials import Principal, SignedCertificate, SignedStatement, TopicName, TypeName
from maia.credentials.requirements import NO_REQUIREMENT
from maia.errors import MaiaError
from maia.net.event_loop import new_event_loop
from maia.predicates import ALWAYS, Predicate
from maia.types import VerifiedType

if TYPE_CHECKING:
    from typing import ParamSpec

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    _P = ParamSpec("_P")

__all__ = ["BlockingClient", "BlockingPublisher", "BlockingSubscription", "blocking", "connect_blocking"]

_T = TypeVar("_T")
_AT_ONCE: Final = 1024
"""How many events that have arrived cross from thread to thread together."""


class _Waiting(Protocol):
    """Runs something on the client's thread and waits for what comes of it."""

    def __call__(self, work: Coroutine[object, object, _T], /) -> _T: ...


class BlockingPublisher:
    """The blocking twin of `Publisher`."""

    def __init__(self, wait: _Waiting, publisher: Publisher) -> None:
        """Publish from any thread."""
        self._wait, self._publisher = wait, publisher

    def __repr__(self) -> str:
        """Return what `Publisher` does."""
        return repr(self._publisher)

    @property
    def event_type(self) -> VerifiedType:
        """Return the version of the type that this publisher speaks."""
        return self._publisher.event_type

    @property
    def refused_rows(self) -> int:
        """Return how many events the broker has refused so far."""
        return self._publisher.refused_rows

    @property
    def published_rows(self) -> int:
        """Return how many events the broker has taken on so far."""
        return self._publisher.published_rows

    @property
    def warning(self) -> MaiaError | None:
        """Return why what is published cannot get far at this moment, if that is so."""
        return self._publisher.warning

    def publish(self, event: Mapping[str, object] | None = None, /, **values: object) -> None:
        """Publish one event, given by name."""
        self._wait(self._publisher.publish(event, **values))

    def publish_to(
        self, requires: str | Predicate, event: Mapping[str, object] | None = None, /, **values: object
    ) -> None:
        """Publish one event to subscribers that meet a requirement, in place of the advertisement's."""
        self._wait(self._publisher.publish_to(requires, event, **values))

    def publish_many(
        self, events: Iterable[Mapping[str, object]], *, requires: str | Predicate | None = None
    ) -> None:
        """Publish many events, in frames as full as can be; `events` is read in the client's thread."""
        self._wait(self._publisher.publish_many(events, requires=requires))

    def publish_batch(self, batch: pa.RecordBatch, *, requires: str | Predicate | None = None) -> None:
        """Publish the rows of an Arrow batch."""
        self._wait(self._publisher.publish_batch(batch, requires=requires))

    def flush(self, *, timeout_s: float = FLUSH_S) -> None:
        """Wait until the broker has taken on everything; raise `RowsRefused` if it refused some."""
        self._wait(self._publisher.flush(timeout_s=timeout_s))

    def unadvertise(self, *, timeout_s: float = FLUSH_S) -> None:
        """Flush, and take the advertisement back."""
        self._wait(self._publisher.unadvertise(timeout_s=timeout_s))


class BlockingSubscription:
    """The blocking twin of `Subscription`."""

    def __init__(self, wait: _Waiting, subscription: Subscription) -> None:
        """Receive in any thread."""
        self._wait, self._subscription = wait, subscription

    def __repr__(self) -> str:
        """Return what `Subscription` does."""
        return repr(self._subscription)

    @property
    def event_type(self) -> VerifiedType:
        """Return the version of the type in whose names events are delivered."""
        return self._subscription.event_type

    def __iter__(self) -> Iterator[ReceivedEvent]:
        """Yield events as they arrive, until the subscription or the client ends."""
        while some := self._wait(self._subscription.some(_AT_ONCE)):
            yield from some

    def some(self, most: int = _AT_ONCE, *, timeout_s: float | None = None) -> list[ReceivedEvent]:
        """Return events that have arrived; wait for one at least, or for `timeout_s` and none."""
        return self._wait(self._subscription.some(most, timeout_s=timeout_s))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield events as Arrow batches, one for each frame."""
        arriving = self._subscription.batches()
        while (batch := self._wait(_next_of(arriving))) is not None:
            yield batch

    def to_arrow(self, rows: int | None = None, *, seconds: float | None = None) -> pa.Table:
        """Return the next events as an Arrow table: so many, or what arrives in time, whichever is first."""
        return self._wait(self._subscription.to_arrow(rows, seconds=seconds))

    def to_pandas(self, rows: int | None = None, *, seconds: float | None = None) -> pd.DataFrame:
        """Return the next events as a pandas table, as `to_arrow` does."""
        return to_pandas(self.to_arrow(rows, seconds=seconds))

    def to_polars(self, rows: int | None = None, *, seconds: float | None = None) -> pl.DataFrame:
        """Return the next events as a polars table, as `to_arrow` does."""
        return to_polars(self.to_arrow(rows, seconds=seconds))

    def state_known(self, *, timeout_s: float = ANSWER_S) -> bool:
        """Wait until the present state has arrived; say whether every publisher's side has answered."""
        return self._wait(self._subscription.state_known(timeout_s=timeout_s))

    @property
    def missed(self) -> tuple[GapDetected, ...]:
        """Return what a durable subscription should have had and cannot have any more."""
        return self._subscription.missed

    @property
    def warning(self) -> MaiaError | None:
        """Return why nothing can arrive at this moment, if the broker has said so."""
        return self._subscription.warning

    def acknowledge(self) -> None:
        """Say that all events returned so far are done with."""
        self._wait(_acknowledged(self._subscription))

    def unsubscribe(self, *, forget: bool = False, timeout_s: float = ANSWER_S) -> None:
        """Take the subscription back; a durable one can be gone on with, unless it is to be forgotten."""
        self._wait(self._subscription.unsubscribe(forget=forget, timeout_s=timeout_s))


class BlockingClient:
    """The blocking twin of `Client`. Made by `with maia.connect(…)`, or `maia.connect(…).open()`."""

    def __init__(self, wait: _Waiting, client: Client) -> None:
        """Ask from any thread."""
        self._wait, self._client = wait, client
        self._close: Callable[[], object] = lambda: None

    def __repr__(self) -> str:
        """Return what `Client` does."""
        return repr(self._client)

    def close(self) -> None:
        """Disconnect a client that was opened without `with`; loops over its events end."""
        self._close()

    @property
    def broker(self) -> Principal | None:
        """Return the broker that this client is connected to now, if it is."""
        return self._client.broker

    def advertise(
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - the field's name for it
        *,
        requires: str | Predicate = NO_REQUIREMENT,
        numbering: Numbering | None = None,
        written_as: EventType | None = None,
        timeout_s: float = ANSWER_S,
    ) -> BlockingPublisher:
        """Ask to publish events of a type; raise the refusal if that is denied."""
        asked = self._client.advertise(
            event_type,
            filter,
            requires=requires,
            numbering=numbering,
            written_as=written_as,
            timeout_s=timeout_s,
        )
        return BlockingPublisher(self._wait, self._wait(asked))

    def publish(
        self,
        what: str | TopicName | TypeName,
        event: Mapping[str, object] | None = None,
        /,
        *,
        timeout_s: float = ANSWER_S,
        **values: object,
    ) -> None:
        """Publish one event of a type, or on a topic, and wait until the broker has accepted it."""
        self._wait(self._client.publish(what, event, timeout_s=timeout_s, **values))

    def subscribe(  # noqa: PLR0913 - most are named at the call
        self,
        event_type: EventType,
        filter: str | Predicate = ALWAYS,  # noqa: A002 - the field's name for it
        *,
        requires: str | Predicate = NO_REQUIREMENT,
        durable: str | None = None,
        after: bytes | None = None,
        state: bool = False,
        shown_as: EventType | None = None,
        timeout_s: float = ANSWER_S,
    ) -> BlockingSubscription:
        """Ask for the events of a type that a filter admits; raise the refusal if that is denied."""
        asked = self._client._subscribe(
            event_type,
            filter,
            requires=requires,
            durable=durable,
            after=after,
            state=state,
            shown_as=shown_as,
            on_warning=None,
            timeout_s=timeout_s,
        )
        return BlockingSubscription(self._wait, self._wait(asked))

    def show(
        self,
        certificates: Iterable[SignedCertificate] = (),
        statements: Iterable[SignedStatement] = (),
        *,
        timeout_s: float = ANSWER_S,
    ) -> None:
        """Show the broker more certificates, or newer statements, within this connection."""
        self._wait(self._client.show(certificates, statements, timeout_s=timeout_s))


def _blocking(connecting: Callable[_P, AbstractAsyncContextManager[Client]]) -> Callable[_P, _Blocking]:
    """Give the blocking `connect` exactly the arguments of the other one."""

    def connect_in_a_thread(*args: _P.args, **named: _P.kwargs) -> _Blocking:
        return blocking(lambda: connecting(*args, **named))

    return connect_in_a_thread


def opened(connecting: Callable[[], AbstractAsyncContextManager[Client]]) -> BlockingClient:
    """Connect in a thread of its own, until the client is closed, forgotten, or the program ends."""
    stack = ExitStack()
    client = stack.enter_context(blocking(connecting))
    client._close = weakref.finalize(client, stack.close)
    return client


@contextmanager
def blocking(connecting: Callable[[], AbstractAsyncContextManager[Client]]) -> Iterator[BlockingClient]:
    """Connect in a thread of its own, for as long as the body runs."""
    loop = new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="maia-client", daemon=True)
    thread.start()

    def wait(work: Coroutine[object, object, _T]) -> _T:
        if not thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    try:
        living = _Living(connecting)
        client = wait(living.begin())
        try:
            yield BlockingClient(wait, client)
        finally:
            wait(living.end())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Living:
    """The body of `connect`, kept open in one task: what is entered there is left there."""

    def __init__(self, connecting: Callable[[], AbstractAsyncContextManager[Client]]) -> None:
        self._connecting = connecting
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> Client:
        connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()

        def ended(task: asyncio.Task[None]) -> None:
            if not connected.done():
                connected.set_exception(task.exception() or ClientClosed("the client was closed"))

        self._task = asyncio.create_task(self._live(connected))
        self._task.add_done_callback(ended)
        return await connected

    async def end(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def _live(self, connected: asyncio.Future[Client]) -> None:
        async with self._connecting() as client:
            connected.set_result(client)
            await self._stop.wait()


async def _acknowledged(subscription: Subscription) -> None:
    subscription.acknowledge()


async def _next_of(arriving: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(arriving, None)


if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    _Blocking = AbstractContextManager[BlockingClient]

connect_blocking = _blocking(connect)
"""Connect as `connect` does, with the same arguments, for an application without an event loop."""
