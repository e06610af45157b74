"""When are facts read again, and when do they count as lost?

Each source is asked at its own pace, and at once when it says that it has changed. While it fails, what it
said last still holds, but only for as long as its owner stated; then every row of it is
retracted, and what watches them ends, also while a reading hangs. An answer is as old as its question. How
old the last good reading is survives a restart of the server, so no restart makes an old fact young.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from maia.back_off import doubled
from maia.client.api.client import Client
from maia.client.api.subscription import ReceivedEvent
from maia.config.row_sources import FactSource, FactSourceFailed, Row, row_of
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.server.access_config import StreamOfFacts
from maia.domain.server.service import DomainService
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.observer import Records
from maia.private_files import create_private

# When has a database changed? It says so itself, by NOTIFY, and the fact is read again at once.
#
# A notification carries nothing that is believed: it makes the server read. A role that may notify can
# therefore make it read more often, within a limit, and can neither add nor keep a fact. Without
# notifications, as while the connection is down, facts are read at their own pace.


CONNECT_S: Final = 15


class Changes(Protocol):
    """Something that says when a fact may have changed."""

    async def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` once when this begins to listen, and at each change; raise if it cannot go on."""


@dataclass(frozen=True, slots=True)
class PostgresChanges:
    """The notifications of one channel of a PostgreSQL database."""

    url: str = field(repr=False)
    channel: str

    async def follow(self, changed: Callable[[], None]) -> None:
        """Listen until the connection is lost."""
        import psycopg
        from psycopg import sql

        try:
            connecting = psycopg.AsyncConnection.connect(self.url, autocommit=True, connect_timeout=CONNECT_S)
            async with await connecting as connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.channel)))
                # What changed before this connection listened would otherwise wait for the next reading.
                changed()
                async for _ in connection.notifies():
                    changed()
        except (psycopg.Error, OSError) as problem:
            # The address can hold a password, so only the kind of the problem is shown.
            raise FactSourceFailed(f"PostgreSQL does not notify: {type(problem).__name__}") from None
        raise FactSourceFailed("PostgreSQL does not notify: the connection was closed")


_APART_S: Final = 0.2
"""How far apart two readings begin at least, however often a database says that it has changed."""
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 0.5
_AGAIN_MOST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class FactFeed:
    """One fact and its source: how often it is asked, and how long an answer holds."""

    name: str
    source: FactSource
    every_s: float
    stale_s: float
    changes: Changes | None = None
    """What says that the fact has changed; without it, it is read every `every_s` only."""


class FactAges:
    """When each source was last read to its end, in a small file."""

    def __init__(self, path: Path) -> None:
        """Read the file; without one, nothing was ever read."""
        self._path = path
        self._read: dict[str, int] = {}
        with suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(path.read_text(encoding="ascii"))
            self._read = {str(name): int(at) for name, at in found.items()}

    def last(self, name: str) -> Instant | None:
        """Return when a source was last read to its end."""
        at = self._read.get(name)
        return None if at is None else Instant(at)

    def note(self, name: str, at: Instant) -> None:
        """Keep that a source was read now."""
        self._read[name] = int(at)
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        # Without the note the fact counts as older than it is, which is the safe side.
        with suppress(OSError):
            with create_private(unfinished) as file:
                file.write(json.dumps(self._read).encode("ascii"))
            unfinished.replace(self._path)


class FactFeeder:
    """Feeds one fact from its source for as long as it runs."""

    def __init__(
        self,
        feed: FactFeed,
        service: DomainService,
        ages: FactAges,
        *,
        clock: Callable[[], Instant],
        records: Records,
    ) -> None:
        """Feed the service; ages are shared by all feeders."""
        self._feed, self._service, self._ages = feed, service, ages
        self._clock, self._records = clock, records
        self._known: list[Row] | None = None
        self._is_lost = False
        self._has_changed, self._has_asked = asyncio.Event(), asyncio.Event()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Ask the source again and again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_again())
            tasks.create_task(self._watch_age())
            if self._feed.changes is not None:
                tasks.create_task(self._follow(self._feed.changes))

    async def _read_again(self) -> None:
        while True:
            self._has_changed.clear()
            await self.feed_once()
            self._has_asked.set()
            await asyncio.sleep(_APART_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._feed.every_s - _APART_S):
                    await self._has_changed.wait()

    async def _watch_age(self) -> None:
        """Retract what is too old, whatever became of the reading that should have renewed it."""
        await self._has_asked.wait()  # after a long stop of the server, the first answer is waited for
        while True:
            await asyncio.sleep(min(_LOOK_S, self._feed.stale_s))
            await self._check_stale()

    async def _follow(self, changes: Changes) -> None:
        failures = 0
        while True:
            begun = self._clock()
            try:
                await changes.follow(self._has_changed.set)
            except MaiaError as problem:
                # After a time of listening, the wait begins anew.
                failures = 1 if self._clock() - begun > _AGAIN_MOST_S * SECOND else failures + 1
                if failures == 1:
                    about = {"fact": self._feed.name, "code": problem.code, "why": problem.message}
                    self._records.note("failed", about)
            await asyncio.sleep(doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S))

    async def feed_once(self) -> bool:
        """Ask the source once; return whether it answered."""
        feed = self._feed
        asked_at = self._clock()
        try:
            rows = await asyncio.to_thread(feed.source.read)
            await self._take(rows, asked_at)
        except MaiaError as problem:
            self._records.note("failed", {"fact": feed.name, "code": problem.code, "why": problem.message})
            await self._check_stale()
            return False
        except Exception as problem:  # noqa: BLE001 - a foreign driver; a source must not end the server
            self._records.note("failed", {"fact": feed.name, "why": type(problem).__name__})
            await self._check_stale()
            return False
        return True

    async def _take(self, rows: list[Row], asked_at: Instant) -> None:
        async with self._writing:
            if rows != self._known:
                await self._replace(rows, self._clock())
                self._known, self._is_lost = rows, False
            self._ages.note(self._feed.name, asked_at)

    async def _check_stale(self) -> None:
        async with self._writing:
            now, last = self._clock(), self._ages.last(self._feed.name)
            is_fresh = last is not None and last <= now < last + self._feed.stale_s * SECOND
            if is_fresh or self._is_lost:
                return
            with suppress(MaiaError):  # the store is not there either; the next round tries again
                await self._replace([], now)
                self._known, self._is_lost = None, True
                self._records.note("failed", {"fact": self._feed.name, "why": "too old, and lost"})

    async def _replace(self, rows: list[Row], now: Instant) -> None:
        name = self._feed.name

        def work(access: AccessControl) -> Revoked:
            return access.replace_facts(name, rows, actor=self._service.principal, now=now)

        await self._service.take_away(work)


# Which facts come on an event stream? Each event says of one row that it holds, or holds no more.
#
# Publishers say what they know again and again; a stream that is silent for
# longer than its owner stated has lost its facts, and what watches them
# ends.


_SUBSCRIBE_AGAIN_S: Final = 2.0
_SILENCE_LOOK_S: Final = 1.0


class FactStream:
    """Feeds one fact from a stream for as long as it runs."""

    def __init__(
        self,
        stream: StreamOfFacts,
        service: DomainService,
        ages: FactAges,
        *,
        clock: Callable[[], Instant],
        records: Records,
    ) -> None:
        """Feed the service; ages are shared by all feeders."""
        self._stream, self._service, self._ages = stream, service, ages
        self._clock, self._records = clock, records
        self._is_lost = False

    async def listen(self, client: Client) -> None:
        """Take what is published; begin again whenever the subscription ends."""
        while True:
            try:
                subscription = await client.subscribe(self._stream.definition, state=True)
                async for event in subscription:
                    await self._take(event)
                return  # the client was closed
            except MaiaError as problem:
                self._records.note("failed", {"fact": self._stream.name, "code": problem.code})
            await asyncio.sleep(_SUBSCRIBE_AGAIN_S)

    async def watch(self) -> None:
        """Retract everything when the stream has been silent for too long; this runs without a broker too."""
        while True:
            await self.check_stale()
            await asyncio.sleep(min(_SILENCE_LOOK_S, self._stream.stale_s))

    async def check_stale(self) -> None:
        """Retract everything if the last event is too old."""
        now, last = self._clock(), self._ages.last(self._stream.name)
        is_fresh = last is not None and last <= now < last + self._stream.stale_s * SECOND
        if is_fresh or self._is_lost:
            return
        name = self._stream.name
        with suppress(MaiaError):  # the store is not there either; the next round tries again
            await self._service.take_away(
                lambda access: access.replace_facts(name, [], actor=self._service.principal, now=now)
            )
            self._is_lost = True
            self._records.note("failed", {"fact": name, "why": "silent for too long, and lost"})

    async def _take(self, event: ReceivedEvent) -> None:
        stream, now = self._stream, self._clock()
        try:
            row = row_of([event.get(name) for name in stream.columns], stream.kinds)
            holds = stream.holds is None or event.get(stream.holds) is True
            actor = self._service.principal

            def work(access: AccessControl) -> Revoked:
                if not holds:
                    return access.retract_fact(stream.name, row, actor=actor, now=now)
                access.assert_fact(stream.name, row, actor=actor, now=now)
                return Revoked()

            await self._service.take_away(work)
        except MaiaError as problem:
            self._records.note("failed", {"fact": stream.name, "code": problem.code, "why": problem.message})
            return
        self._ages.note(stream.name, now)
        self._is_lost = False
