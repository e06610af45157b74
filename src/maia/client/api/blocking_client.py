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
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from maia.client import ClientClosed, GapDetected
from maia.client.api.client import Client, connect
from maia.client.api.connected_client import HeldOpen
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import ReceivedEvent, Subscription
from maia.credentials import Principal
from maia.errors import MaiaError
from maia.net.event_loop import new_event_loop
from maia.types import VerifiedType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["BlockingClient", "BlockingPublisher", "BlockingSubscription", "blocking", "connect_blocking"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_R = TypeVar("_R")
_Inner = TypeVar("_Inner")


class _WaitingCall(Protocol):
    """Runs something on the client's thread and waits for what comes of it."""

    def __call__(self, work: Coroutine[object, object, _T], /) -> _T: ...


class _Blocking(Generic[_Inner]):
    """An object of the client's thread as every other thread may use it.

    It has the methods of the other one that `_waits` names, with their arguments, and the values that it
    declares itself.
    """

    def __init__(self, wait: _WaitingCall, inner: _Inner) -> None:
        """Ask from any thread."""
        self._wait, self._inner = wait, inner

    def __repr__(self) -> str:
        """Return what the other one does."""
        return repr(self._inner)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Return a value of the other one, if it is one of those that are declared."""
            if name not in type(self).__annotations__:
                raise AttributeError(f"`{type(self).__name__}` has no `{name}`")
            return getattr(self._inner, name)


# Any: what a coroutine takes and yields is the business of its event loop.
def _waits(
    work: Callable[Concatenate[_Inner, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[_Blocking[_Inner], _P], _T]:
    """Return a method that has the same done in the client's thread, and waits for what comes of it."""

    @wraps(work)
    def waiting(self: _Blocking[_Inner], /, *args: _P.args, **named: _P.kwargs) -> _T:
        return self._wait(work(self._inner, *args, **named))

    return waiting


def _opens(
    work: Callable[Concatenate[Client, _P], Coroutine[Any, Any, _T]],
    shown_as: Callable[[_WaitingCall, _T], _R],
) -> Callable[Concatenate[_Blocking[Client], _P], _R]:
    """Return such a method whose answer is for every thread too."""
    waiting = _waits(work)

    @wraps(work)
    def opening(self: _Blocking[Client], /, *args: _P.args, **named: _P.kwargs) -> _R:
        return shown_as(self._wait, waiting(self, *args, **named))

    return opening


async def _acknowledged(subscription: Subscription, upto: bytes | None = None) -> None:
    """Say that all events returned so far are done with: a durable subscription gets them no more."""
    subscription.acknowledge(upto)


async def _next_of(arriving: AsyncIterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    return await anext(arriving, None)


class BlockingPublisher(_Blocking[Publisher]):
    """`Publisher` for a program without an event loop."""

    event_type: VerifiedType
    """The version of the type that this publisher speaks."""
    refused_rows: int
    """How many events the broker has refused so far."""
    published_rows: int
    """How many events the broker has taken on so far."""
    warning: MaiaError | None
    """Why what is published cannot get far at this moment, if that is so."""

    publish = _waits(Publisher.publish)
    publish_to = _waits(Publisher.publish_to)
    publish_many = _waits(Publisher.publish_many)
    publish_batch = _waits(Publisher.publish_batch)
    flush = _waits(Publisher.flush)
    unadvertise = _waits(Publisher.unadvertise)


class BlockingSubscription(_Blocking[Subscription]):
    """`Subscription` for a program without an event loop."""

    event_type: VerifiedType
    """The version of the type in whose names events are delivered."""
    missed: tuple[GapDetected, ...]
    """What a durable subscription should have had and cannot have any more, the latest last."""
    warning: MaiaError | None
    """Why nothing can arrive at this moment, if the broker has said so."""

    some = _waits(Subscription.some)
    to_arrow = _waits(Subscription.to_arrow)
    to_pandas = _waits(Subscription.to_pandas)
    to_polars = _waits(Subscription.to_polars)
    state_known = _waits(Subscription.state_known)
    acknowledge = _waits(_acknowledged)
    unsubscribe = _waits(Subscription.unsubscribe)

    def __iter__(self) -> Iterator[ReceivedEvent]:
        """Yield events as they arrive, until the subscription or the client ends."""
        while some := self.some():
            yield from some

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield events as Arrow batches, one for each frame."""
        arriving = self._inner.batches()
        while (batch := self._wait(_next_of(arriving))) is not None:
            yield batch


class BlockingClient(_Blocking[Client]):
    """`Client` for a program without an event loop: `with maia.connect(…)`, or `maia.connect(…).open()`."""

    broker: Principal | None
    """The broker that this client is connected to now, if it is."""

    _close: Callable[[], object] = staticmethod(lambda: None)
    advertise = _opens(Client.advertise, BlockingPublisher)
    publish = _waits(Client.publish)
    subscribe = _opens(Client.subscribe, BlockingSubscription)
    show = _waits(Client.show)
    versions = _waits(Client.versions)

    def close(self) -> None:
        """Disconnect a client that was opened without `with`; loops over its events end."""
        self._close()


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

    async def begin() -> tuple[HeldOpen, Client]:
        held = HeldOpen(connecting())
        return held, await held.begin()

    try:
        held, client = wait(begin())
        try:
            yield BlockingClient(wait, client)
        finally:
            wait(held.end())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _in_a_thread(
    connecting: Callable[_P, AbstractAsyncContextManager[Client]],
) -> Callable[_P, AbstractContextManager[BlockingClient]]:
    """Give the blocking `connect` exactly the arguments of the other one."""
    return lambda *args, **named: blocking(lambda: connecting(*args, **named))


connect_blocking = _in_a_thread(connect)
"""Connect as `connect` does, with the same arguments, for an application without an event loop."""
