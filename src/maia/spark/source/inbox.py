"""What has arrived for a Spark query, and what of it is still needed?

A subscription on a thread of its own, in the process that Spark keeps on the
driver for each query. Frames stay until Spark has committed the batch that
they were in. Only so many rows are held: then nothing more is taken from the
subscription, the client stops reading, and TCP slows the broker.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Final

from maia.client import ClientClosed
from maia.errors import MaiaError, Unavailable
from maia.predicates import Predicate
from maia.types import SignedDefinition

if TYPE_CHECKING:
    import pyarrow as pa

    from maia.client.api.client import Client
    from maia.client.api.subscription import Subscription


_STOP_S: Final = 10.0
_LOOK_S: Final = 0.05
"""How often a full inbox checks whether its subscription is still registered."""


@dataclass(frozen=True, slots=True)
class HeldFrame:
    """One frame, and where to go on behind it: in the log, or in the order of arrival."""

    position: str
    published_at: int
    rows: int
    batch: pa.RecordBatch | None = field(repr=False)
    """The rows, unless tasks read them from the log themselves."""


class Inbox:
    """The frames of one subscription that a query has not committed."""

    def __init__(  # noqa: PLR0913 - most are named at the call
        self,
        connecting: Callable[[], AbstractAsyncContextManager[Client]],
        history: list[SignedDefinition],
        predicate: Predicate,
        *,
        durable: str | None = None,
        after: str = "",
        plans: bool = False,
        fails_on_loss: bool = True,
        rows_max: int,
        wait_s: float,
    ) -> None:
        """Prepare to subscribe, to what is behind a position if it is durable; `open` does it.

        One that only `plans` is sent how many rows each frame has: tasks read them from the log.
        """
        self._connecting = connecting
        self._history, self._predicate, self._durable = history, predicate, durable
        self._after = bytes.fromhex(after) if durable is not None and after else None
        self._fails_on_loss, self._rows_max, self._wait_s = fails_on_loss, rows_max, wait_s
        self._plans = plans
        self._changed = threading.Condition()
        self._held: deque[HeldFrame] = deque()
        self._rows = 0
        self._wanted_upto = ""
        """Frames up to this position are taken whatever is held: they were in one batch before."""
        self._problem: BaseException | None = None
        self._subscription: Subscription | None = None
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="maia-inbox", daemon=True)
        self._acknowledge: Callable[[bytes], object] = lambda _position: None
        self._forgotten = ""
        self.log = ""
        """Whose positions these are: a recording broker's, or this inbox's own."""

    def open(self) -> None:
        """Connect and subscribe; raise the refusal if that is denied."""
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._subscription is not None or self._problem is not None)
        self.check()

    def check(self) -> None:
        """Raise whatever ended the subscription: what was delivered before is not handed out any more."""
        if self._problem is not None:
            raise self._problem
        missed = () if self._subscription is None else self._subscription.missed
        if missed and self._fails_on_loss:
            raise missed[-1].problem

    def after(self, position: str, *, wait_s: float = 0.0) -> list[HeldFrame]:
        """Return what is held behind a position; wait a little if that is nothing."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._behind(position)) or self._problem is not None, wait_s)
            self.check()
            return self._behind(position)

    def between(self, first: str, last: str) -> list[HeldFrame]:
        """Return the frames behind `first` up to `last`, which arrived once before.

        If `last` does not come again and losses are tolerated, there are none: what has arrived is of later
        batches.
        """
        with self._changed:
            self._wanted_upto = last
            self._changed.wait_for(lambda: self._is_decided(last) or self._problem is not None, self._wait_s)
            self.check()
            self._check_whole(last)
            frames = self._behind(first)
            return frames[: len(frames) - len(self._behind(last))] if self._holds(last) else []

    def forget(self, position: str) -> None:
        """Take note that everything up to a position is done with, and tell the broker."""
        if position in {"", self._forgotten}:
            return
        self._forgotten = position
        with self._changed:
            left = len(self._behind(position))
            while len(self._held) > left:
                self._rows -= self._held.popleft().rows
            self._changed.notify_all()
        self._acknowledge(bytes.fromhex(position))

    def close(self) -> None:
        """End the subscription and the thread."""
        self._stop()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def _holds(self, position: str) -> bool:
        return any(frame.position == position for frame in self._held)

    def _behind(self, position: str) -> list[HeldFrame]:
        """Return the held frames behind a position: all, if it was forgotten or the first was behind it."""
        frames = list(self._held)
        ends = (at for at, frame in enumerate(frames, 1) if frame.position == position)
        return frames[next(ends, 0) :]

    def _is_decided(self, last: str) -> bool:
        """Return whether nothing up to a position is still on its way; what is gone for good is not."""
        missed = () if self._subscription is None else self._subscription.missed
        return self._holds(last) or any(one.position.hex() == last for one in missed)

    def _check_whole(self, last: str) -> None:
        """Refuse a batch whose last frame did not come again: the batch would not be what it was."""
        if self._fails_on_loss and not self._holds(last):
            raise Unavailable(
                "UNAVAILABLE-SPARK-REPLAY",
                "the last event that a batch had did not arrive again; it was acknowledged "
                "elsewhere, or is not yours to see any more (option `failOnDataLoss`)",
            )

    # -------------------------------------------------------- on the thread

    def _run(self) -> None:
        try:
            # The first array loads pandas: until then nothing that arrives would be seen.
            import_module("pyarrow").array(("",))
            asyncio.run(self._live())
        except asyncio.CancelledError:
            self._end(ClientClosed("the source was stopped"))
        except BaseException as problem:  # noqa: BLE001 - handed to the thread that asks, whatever it is
            self._end(problem)

    def _end(self, problem: BaseException) -> None:
        with self._changed:
            self._problem = self._problem or problem
            self._changed.notify_all()

    async def _live(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - this is one
        self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(task.cancel)
        async with self._connecting() as client:
            subscription = await client.subscribe(
                self._history,
                self._predicate,
                durable=self._durable,
                after=self._after,
                upto=b"" if self._plans else None,
                timeout_s=self._wait_s,
            )
            subscription.acknowledges_itself = False  # Spark's commit does
            if self._durable is not None:
                self.log = str(client.broker)
            self._acknowledge = lambda position: (
                loop.is_closed() or loop.call_soon_threadsafe(subscription.acknowledge, position)
            )
            with self._changed:
                self._subscription = subscription
                self._changed.notify_all()
            await self._take_from(subscription)
        self._end(ClientClosed("the subscription has ended"))

    async def _take_from(self, subscription: Subscription) -> None:
        arrived = 0
        async for batch in subscription.batches():
            about, arrived = batch.schema.metadata, arrived + 1
            position = about.get(b"maia.position", b"%016x" % arrived).decode()
            await self._room(subscription)
            with self._changed:
                held = None if self._plans else batch
                self._held.append(HeldFrame(position, int(about[b"maia.published_at"]), batch.num_rows, held))
                self._rows += batch.num_rows
                self._changed.notify_all()

    async def _room(self, subscription: Subscription) -> None:
        while self._rows >= self._rows_max and (not self._wanted_upto or self._holds(self._wanted_upto)):
            await asyncio.sleep(_LOOK_S)
            problem: MaiaError | None = subscription.problem
            if problem is not None:
                raise problem
