"""How do the rows of a release leave the database, each once and in the order of commits?

    planned in the database ─▶ numbered outside it ─▶ published ─▶ acknowledged ─▶ deleted

Whatever dies in between, the frames that were planned leave again under their numbers, and the broker
drops those that it has recorded. While the broker writes one batch to its disk, the next is planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import Final

from maia.back_off import doubled
from maia.client import ClientClosed, RowsRefused
from maia.client.api.client import Client
from maia.client.api.publisher import Publisher
from maia.client.entries import Numbering
from maia.errors import MaiaError, Unavailable
from maia.net.observer import Records
from maia.postgres.config import Release
from maia.postgres.outbox import Outbox, PlannedFrame
from maia.postgres.positions import Positions
from maia.postgres.values import Connection

_LOOK_S: Final = 30.0
"""How long to wait for a notification before the outbox is read all the same."""
_WITHDRAW_S: Final = 5.0
_AGAIN_S: Final = 1.0
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
        self, release: Release, *, client: Callable[[], Client], positions: Positions, records: Records
    ) -> None:
        """Publish through whichever client is connected."""
        self.name = f"release {release.name}"
        self._release, self._client = release, client
        self._positions, self._records = positions, records
        self._publisher: Publisher | None = None
        self._next = 0
        """The number of the next frame that the publisher sends."""
        self.woken = asyncio.Event()
        """Set when a transaction that releases something has committed."""
        self.is_serving = asyncio.Event()
        """Set once the broker has accepted the advertisement."""
        self.problem: MaiaError | None = None
        """Why it is not serving, if it is not."""
        self.published = 0

    async def serve(self, connection: Connection, schema: str, incarnation: str) -> None:
        """Publish what waits and what comes, until the connection or the right ends."""
        outbox = Outbox(connection, schema, self._release)
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
            self._publisher = await self._client().advertise(
                release.history, release.filter, numbering=numbering
            )
            self._next = numbering.first
        return self._publisher

    async def _send(self, publisher: Publisher, batch: list[PlannedFrame]) -> None:
        fresh = [frame for frame in batch if frame.number >= self._next]
        if not fresh:
            return
        # Before anything leaves: a database that does not know of these numbers later was restored.
        await asyncio.to_thread(self._positions.use, self._release.name, fresh[-1].number)
        for frame in fresh:
            await publisher.publish_columns(frame.columns)
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
