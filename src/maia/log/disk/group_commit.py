"""How do many publishers wait for one write to the disk?

The broker's runtime asks for every frame that it records. While one batch is
being made safe the next one gathers, so a disk that takes long is asked less
often. Each caller is answered when its own frames are safe, or gets the error.

    async with GroupCommit(log, clock=system_now) as group:
        positions = await group.commit([message])
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from maia.errors import MaiaError
from maia.events import Instant
from maia.log.disk.event_log import BATCH_MAX, EventLog
from maia.log.format.errors import LogBroken, LogBusy, NotAFrame
from maia.log.format.frames import checked_frame

__all__ = ["GroupCommit"]

WAITING_BYTES_MAX: Final = 64 << 20
"""How much may wait to be written; beyond it callers are refused and slow down."""

BATCH_BYTES: Final = 16 << 20
"""How much is made safe together: more would keep the first of them waiting."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    messages: Sequence[bytes]
    size: int
    answer: asyncio.Future[range]


class GroupCommit:
    """Makes frames safe, in the order in which they came, many at a time."""

    def __init__(
        self,
        log: EventLog,
        *,
        clock: Callable[[], Instant],
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Write to `log`, whose other users may go on reading and rolling."""
        self._log, self._clock = log, clock
        self._waiting_bytes_max, self._batch_bytes = waiting_bytes_max, batch_bytes
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0
        self._came = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False
        self.batches = 0
        """How many writes there were; frames divided by batches is what the group saves."""

    async def commit(self, messages: Sequence[bytes]) -> range:
        """Return the positions of these frames once they are on disk.

        Raises `LogBusy` if too much waits already, `NotAFrame`, `LogDiskFull` and `LogBroken`.
        """
        return await self.submit(messages)

    def submit(self, messages: Sequence[bytes]) -> asyncio.Future[range]:
        """Take frames in, in the order of calls, and return what will be answered when they are safe."""
        for message in messages:
            checked_frame(message)  # one that cannot be recorded must not fail those beside it
        size = sum(map(len, messages))
        if self._is_closing or self._task is None or self._task.done():
            raise LogBroken("the event log takes nothing more: it is closed")
        if len(messages) > BATCH_MAX or size > self._waiting_bytes_max:
            raise NotAFrame(f"{len(messages)} frames of {size} bytes are too many to be recorded together")
        if self._waiting_bytes + size > self._waiting_bytes_max:
            raise LogBusy(f"{self._waiting_bytes} bytes wait to be recorded, and no more may")
        one = _Waiting(messages, size, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._waiting_bytes += size
        self._came.set()
        return one.answer

    async def __aenter__(self) -> GroupCommit:
        """Begin to write."""
        self._task = asyncio.create_task(self._run(), name="group-commit")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what waits, and end."""
        self._is_closing = True
        self._came.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._waiting or not self._is_closing:
                if self._waiting:
                    await self._write(self._next_batch())
                else:
                    self._came.clear()
                    await self._came.wait()
        finally:
            _refuse(self._waiting, LogBroken("the event log was closed before these frames were recorded"))

    def _next_batch(self) -> list[_Waiting]:
        batch = [self._waiting.popleft()]
        size, frames = batch[0].size, len(batch[0].messages)
        while self._waiting:
            size, frames = size + self._waiting[0].size, frames + len(self._waiting[0].messages)
            if size > self._batch_bytes or frames > BATCH_MAX:
                break
            batch.append(self._waiting.popleft())
        self._waiting_bytes -= sum(one.size for one in batch)
        return batch

    async def _write(self, batch: list[_Waiting]) -> None:
        messages = [message for one in batch for message in one.messages]
        try:
            positions = await asyncio.to_thread(self._log.append, messages, recorded_at=self._clock())
        except MaiaError as problem:
            _refuse(batch, problem)
            return
        except BaseException:
            _refuse(batch, LogBroken("it is in doubt whether these frames were recorded"))
            raise
        self.batches += 1
        first = positions.start
        for one in batch:
            if not one.answer.done():  # a caller that gave up waiting has frames in the log all the same
                one.answer.set_result(range(first, first + len(one.messages)))
            first += len(one.messages)


def _refuse(waiting: Iterable[_Waiting], why: MaiaError) -> None:
    for one in waiting:
        if not one.answer.done():
            one.answer.set_exception(why)
