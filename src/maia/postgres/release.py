"""How do the rows of a release leave the database, each once and in the order of commits?

    planned in the database ─▶ numbered outside it ─▶ published ─▶ acknowledged ─▶ deleted

Whatever dies in between, the frames that were planned leave again under their numbers, and the broker
drops those that it has recorded. So does another broker of the organisation when the first is lost: brokers
compare their logs by the same numbers. While the broker writes one batch to its disk, the next is planned.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from hashlib import sha256
from typing import Final

from maia.back_off import doubled
from maia.bounded_map import BoundedMap
from maia.client import ClientClosed, RowsRefused
from maia.client.api.by_frame import abandon
from maia.client.api.publisher import Publisher
from maia.client.entries import Numbering
from maia.clock import system_now
from maia.errors import MaiaError, Unavailable
from maia.events import SECOND, Instant
from maia.net.observer import Records
from maia.postgres.broker_links import LOST_S, BrokerLink, lost
from maia.postgres.config import Release
from maia.postgres.outbox import Outbox, PlannedFrame
from maia.postgres.positions import Positions
from maia.postgres.values import Connection

_LOOK_S: Final = 30.0
"""How long to wait for a notification before the outbox is read all the same."""
_WITHDRAW_S: Final = 5.0
_AGAIN_S: Final = 1.0
_SAME_MOMENT_S: Final = 45.0
"""For how long a frame that leaves again has its first moment: what is older could not be sealed."""
_MOMENTS: Final = 16_384
_FEW_ROWS: Final = 64
_GATHER_S: Final = 0.02
"""How long small batches are apart at least, so that writers that commit row by row share one."""


def stream_of(incarnation: str, release: str, type_id: bytes) -> bytes:
    """Return the stream of everything that one incarnation of a database releases of one type."""
    named = f"{incarnation}\0{release}\0".encode()
    return sha256(b"maia/1/postgres\0" + named + type_id).digest()[:16]


class ReleaseTask:
    """One release: its publisher lives longer than a connection to the database."""

    def __init__(
        self,
        release: Release,
        *,
        links: list[BrokerLink],
        positions: Positions,
        records: Records,
        keep_s: float = 0.0,
    ) -> None:
        """Publish through the first broker that is there; keep what it has taken on for another one."""
        self._links, self._keep_s = links, keep_s
        self.name = f"release {release.name}"
        self._release = release
        self._positions, self._records = positions, records
        self._publisher: Publisher | None = None
        self._next = 0
        """The number of the next frame that the publisher sends."""
        self._left_at: BoundedMap[int, Instant] = BoundedMap(_MOMENTS)
        """When frames left that may leave again, through another broker: under the same moment."""
        self.woken = asyncio.Event()
        """Set when a transaction that releases something has committed."""
        self.is_serving = asyncio.Event()
        """Set once the broker has accepted the advertisement."""
        self.problem: MaiaError | None = None
        """Why it is not serving, if it is not."""
        self.published = 0

    async def serve(self, connection: Connection, schema: str, incarnation: str) -> None:
        """Publish what waits and what comes, until the connection, the right or the broker ends."""
        own = self._links[0]
        if not own.is_up and any(one.is_up for one in self._links):
            await self._move()
            own = self._links[0]
        if len(self._links) == 1:
            return await self._serve(connection, schema, incarnation)
        serving = asyncio.create_task(self._serve(connection, schema, incarnation))
        away = asyncio.create_task(lost(own, self._links))
        try:
            await asyncio.wait({serving, away}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                return serving.result()
        finally:
            for task in (serving, away):
                task.cancel()
            await asyncio.gather(serving, away, return_exceptions=True)
        return await self._move()

    async def _move(self) -> None:
        """Go to a broker that is there: what the one before has taken on lately leaves again."""
        before, publisher, self._publisher = self._links[0].address, self._publisher, None
        if publisher is not None:
            with suppress(MaiaError):
                await abandon(publisher, LOST_S)
        self._links.sort(key=lambda one: not one.is_up)
        self._records.note("moved", {"task": self.name, "from": before, "to": self._links[0].address})

    async def _serve(self, connection: Connection, schema: str, incarnation: str) -> None:
        outbox = Outbox(connection, schema, self._release, keep_s=self._keep_s)
        batch = await outbox.open()
        self._positions.check_release(self._release.name, outbox.next_frame)
        first = batch[0].number if batch else outbox.next_frame
        publisher = await self._advertised(Numbering(self._stream(incarnation), first))
        self.is_serving.set()
        done: int | None = None
        loop, began, rows = asyncio.get_running_loop(), 0.0, 0
        while True:
            if rows < _FEW_ROWS:
                await asyncio.sleep(max(0.0, began + _GATHER_S - loop.time()))
            began, rows = loop.time(), sum(frame.rows for frame in batch)
            if not batch:
                self.woken.clear()
                batch, done = await outbox.plan(done), None
            if not batch:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self.woken.wait()
                continue
            await self._send(publisher, batch)
            flushed, planned = await asyncio.gather(
                self._flushed(publisher), outbox.plan(done), return_exceptions=True
            )
            for outcome in (flushed, planned):
                if isinstance(outcome, BaseException):
                    raise outcome
            if isinstance(flushed, int) and flushed:
                await outbox.note_refused(flushed)
            assert isinstance(planned, list)  # noqa: S101 - errors were raised
            done, batch = batch[-1].number, planned

    async def give_up(self) -> None:
        """Withdraw the advertisement: after an error of the broker, or at the end."""
        publisher, self._publisher = self._publisher, None
        if publisher is not None:
            with suppress(MaiaError):
                await publisher.unadvertise(timeout_s=_WITHDRAW_S)

    def _stream(self, incarnation: str) -> bytes:
        return stream_of(incarnation, self._release.name, self._release.event_type.type_id)

    async def _advertised(self, numbering: Numbering) -> Publisher:
        """Return the publisher; one whose frames were under way when the database was lost goes on."""
        if self._publisher is None:
            release = self._release
            self._publisher = (
                await self._links[0]
                .connected()
                .advertise(release.history, release.filter, numbering=numbering)
            )
            self._next = numbering.first
        return self._publisher

    async def _send(self, publisher: Publisher, batch: list[PlannedFrame]) -> None:
        fresh = [frame for frame in batch if frame.number >= self._next]
        if not fresh:
            return
        # Before anything leaves: a database that does not know of these numbers later was restored.
        await asyncio.to_thread(self._positions.use, self._release.name, fresh[-1].number)
        now = system_now()
        for frame in fresh:
            before = self._left_at.get(frame.number)
            moment = now if before is None or now - before > _SAME_MOMENT_S * SECOND else before
            self._left_at.put(frame.number, moment)
            await publisher.publish_columns(frame.columns, published_at=moment)
            self._next = frame.number + 1

    async def _flushed(self, publisher: Publisher) -> int:
        """Wait until the broker has taken everything on; return how many rows it refused."""
        before, refused, failures = publisher.published_rows, 0, 0
        while True:
            try:
                await publisher.flush()
            except RowsRefused as problem:
                refused = problem.refused_rows
                fields = {"release": self._release.name, "rows": refused, **problem.as_record()}
                self._records.note("refused", fields)
            except ClientClosed:
                raise
            except Unavailable as problem:
                # The client connects again by itself, and what is under way is sent again under its numbers.
                self._records.note("failed", {"task": self.name, **problem.as_record()})
                failures += 1
                await asyncio.sleep(doubled(_AGAIN_S, failures, most=_LOOK_S))
                continue
            self.published += publisher.published_rows - before
            return refused
