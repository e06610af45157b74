"""When are facts read again, and when do they count as lost?

Each source is asked at its own pace, and at once when it says that it has changed. While it fails, what it
said last still holds, but only for as long as its owner stated; then every row of it is
retracted, and what watches them ends, also while a reading hangs. An answer is as old as its question. How
old the last good reading is survives a restart of the server, so no restart makes an old fact young.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Generic, Protocol, TypeVar

from maia.back_off import doubled
from maia.client.api.client import Client
from maia.client.api.subscription import ReceivedEvent
from maia.config.row_sources import Row, RowSource, row_of
from maia.credentials.appointments import Word
from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.server.access_config import StreamOfFacts
from maia.domain.server.service import DomainService
from maia.errors import MaiaError, Unavailable
from maia.events import SECOND, Instant
from maia.net.observer import Records
from maia.private_files import replace_file

# When has a database changed? It says so itself, by NOTIFY, and the fact is read again at once.
#
# A notification carries nothing that is believed: it makes the server read. A role that may notify can
# therefore make it read more often, within a limit, and can neither add nor keep a fact. Without
# notifications, as while the connection is down, facts are read at their own pace.


CONNECT_S: Final = 15


class FactChanges(Protocol):
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
            raise Unavailable(
                "UNAVAILABLE-FACT-SOURCE", f"PostgreSQL does not notify: {type(problem).__name__}"
            ) from None
        raise Unavailable("UNAVAILABLE-FACT-SOURCE", "PostgreSQL does not notify: the connection was closed")


_APART_S: Final = 0.2
"""How far apart two readings begin at least, however often a database says that it has changed."""
_LOOK_S: Final = 1.0
_AGAIN_S: Final = 0.5
_AGAIN_MOST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class FactFeed:
    """One fact and its source: how often it is asked, and how long an answer holds."""

    name: str
    source: RowSource
    every_s: float
    stale_s: float
    changes: FactChanges | None = None
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
        # Without the note the fact counts as older than it is, which is the safe side.
        with suppress(OSError):
            replace_file(self._path, json.dumps(self._read).encode("ascii"))


_Feed = TypeVar("_Feed", FactFeed, StreamOfFacts)


@dataclass(slots=True)
class _Feeder(Generic[_Feed]):
    """Feeds one fact to the service, and retracts it when it is too old; ages are shared by all feeders."""

    TOO_OLD: ClassVar[str]
    feed: _Feed
    service: DomainService
    ages: FactAges
    clock: Callable[[], Instant]
    records: Records
    known: list[Row] | None = None
    is_lost: bool = False
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check_stale(self) -> None:
        """Retract every row if the source has said nothing for too long."""
        async with self.writing:
            now, last = self.clock(), self.ages.last(self.feed.name)
            is_fresh = last is not None and last <= now < last + self.feed.stale_s * SECOND
            if is_fresh or self.is_lost:
                return
            with suppress(MaiaError):  # the store is not there either; the next round tries again
                await self.replace([], now)
                self.known, self.is_lost = None, True
                self.records.note("failed", {"fact": self.feed.name, "why": self.TOO_OLD})

    async def replace(self, rows: list[Row], now: Instant) -> None:
        """Make exactly these rows hold."""
        name, actor = self.feed.name, self.service.principal
        await self.service.take_away(lambda access: access.replace_facts(name, rows, actor=actor, now=now))


@dataclass(slots=True)
class FactFeeder(_Feeder[FactFeed]):
    """Feeds one fact from its source for as long as it runs."""

    TOO_OLD = "too old, and lost"
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    has_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Ask the source again and again."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_again())
            tasks.create_task(self._watch_age())
            if self.feed.changes is not None:
                tasks.create_task(self._follow(self.feed.changes))

    async def _read_again(self) -> None:
        while True:
            self.has_changed.clear()
            await self.feed_once()
            self.has_asked.set()
            await asyncio.sleep(_APART_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.feed.every_s - _APART_S):
                    await self.has_changed.wait()

    async def _watch_age(self) -> None:
        """Retract what is too old, whatever became of the reading that should have renewed it."""
        await self.has_asked.wait()  # after a long stop of the server, the first answer is waited for
        while True:
            await asyncio.sleep(min(_LOOK_S, self.feed.stale_s))
            await self.check_stale()

    async def _follow(self, changes: FactChanges) -> None:
        failures = 0
        while True:
            begun = self.clock()
            try:
                await changes.follow(self.has_changed.set)
            except MaiaError as problem:
                # After a time of listening, the wait begins anew.
                failures = 1 if self.clock() - begun > _AGAIN_MOST_S * SECOND else failures + 1
                if failures == 1:
                    about = {"fact": self.feed.name, "code": problem.code, "why": problem.message}
                    self.records.note("failed", about)
            await asyncio.sleep(doubled(_AGAIN_S, failures, most=_AGAIN_MOST_S))

    async def feed_once(self) -> bool:
        """Ask the source once; return whether it answered."""
        feed = self.feed
        asked_at = self.clock()
        try:
            rows = await asyncio.to_thread(feed.source.read)
            await self._take(rows, asked_at)
        except MaiaError as problem:
            self.records.note("failed", {"fact": feed.name, "code": problem.code, "why": problem.message})
            await self.check_stale()
            return False
        except Exception as problem:  # noqa: BLE001 - a foreign driver; a source must not end the server
            self.records.note("failed", {"fact": feed.name, "why": type(problem).__name__})
            await self.check_stale()
            return False
        return True

    async def _take(self, rows: list[Row], asked_at: Instant) -> None:
        async with self.writing:
            # Whom an X.509 name means may change while the rows do not.
            if rows != self.known or any(isinstance(value, Word) for row in rows for value in row):
                await self.replace(rows, self.clock())
                self.known, self.is_lost = rows, False
            self.ages.note(self.feed.name, asked_at)


# Which facts come on an event stream? Each event says of one row that it holds, or holds no more.
#
# Publishers say what they know again and again; a stream that is silent for
# longer than its owner stated has lost its facts, and what watches them
# ends.


_SUBSCRIBE_AGAIN_S: Final = 2.0


class FactStream(_Feeder[StreamOfFacts]):
    """Feeds one fact from a stream for as long as it runs."""

    TOO_OLD = "silent for too long, and lost"

    async def listen(self, client: Client) -> None:
        """Take what is published; begin again whenever the subscription ends."""
        while True:
            try:
                subscription = await client.subscribe(self.feed.definition, state=True)
                async for event in subscription:
                    await self._take(event)
                return  # the client was closed
            except MaiaError as problem:
                self.records.note("failed", {"fact": self.feed.name, "code": problem.code})
            await asyncio.sleep(_SUBSCRIBE_AGAIN_S)

    async def watch(self) -> None:
        """Retract everything when the stream has been silent for too long; this runs without a broker too."""
        while True:
            await self.check_stale()
            await asyncio.sleep(min(_LOOK_S, self.feed.stale_s))

    async def _take(self, event: ReceivedEvent) -> None:
        stream, now = self.feed, self.clock()
        try:
            row = row_of([event.get(name) for name in stream.columns], stream.kinds)
            holds = stream.holds is None or event.get(stream.holds) is True
            actor = self.service.principal

            def work(access: AccessControl) -> Revoked:
                if not holds:
                    return access.retract_fact(stream.name, row, actor=actor, now=now)
                access.assert_fact(stream.name, row, actor=actor, now=now)
                return Revoked()

            await self.service.take_away(work)
        except MaiaError as problem:
            self.records.note("failed", {"fact": stream.name, "code": problem.code, "why": problem.message})
            return
        self.ages.note(stream.name, now)
        self.is_lost = False
