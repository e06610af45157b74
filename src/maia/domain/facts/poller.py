"""When are facts read again, and when do they count as lost?

Each source is asked at its own pace. While it fails, what it said last still
holds, but only for as long as its owner stated; then every row of it is
retracted, and what watches them ends. How old the last good reading is
survives a restart of the server, so no restart makes an old fact young.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from maia.domain.access.results import Revoked
from maia.domain.access.service import AccessControl
from maia.domain.facts.sources import FactSource, Row
from maia.domain.server.service import DomainService
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.net.observer import Records
from maia.private_files import create_private

__all__ = ["FactAges", "FactFeed", "FactFeeder"]


@dataclass(frozen=True, slots=True)
class FactFeed:
    """One fact and its source: how often it is asked, and how long an answer holds."""

    name: str
    source: FactSource
    every_s: float
    stale_s: float


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

    async def run(self) -> None:
        """Ask the source again and again."""
        while True:
            await self.feed_once()
            await asyncio.sleep(self._feed.every_s)

    async def feed_once(self) -> bool:
        """Ask the source once; return whether it answered."""
        feed = self._feed
        try:
            rows = await asyncio.to_thread(feed.source.read)
            await self._take(rows)
        except MaiaError as problem:
            self._records.note("failed", {"fact": feed.name, "code": problem.code, "why": problem.message})
            await self._check_stale()
            return False
        except Exception as problem:  # noqa: BLE001 - a foreign driver; a source must not end the server
            self._records.note("failed", {"fact": feed.name, "why": type(problem).__name__})
            await self._check_stale()
            return False
        return True

    async def _take(self, rows: list[Row]) -> None:
        # The moment is taken before: what was read may have changed while it was written down.
        now = self._clock()
        if rows != self._known:
            await self._replace(rows, now)
            self._known, self._is_lost = rows, False
        self._ages.note(self._feed.name, now)

    async def _check_stale(self) -> None:
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
