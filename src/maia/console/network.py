"""How are the brokers of this machine, and how much do they do?

Each broker says so at its status endpoint, to whom has the token in its data folder. The
console asks them once for all pages that are open, and only for a principal that may read about
the network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Final

from maia.errors import MaiaError
from maia.net.status_endpoint import fetch_status, read_door

_FRESH_S: Final = 0.5
_AT_ONCE: Final = 16
_PUBLISHED: Final = "maia_rows_published_total"
_REFUSED: Final = ("maia_refused_total", "maia_frames_refused_total", "maia_links_refused_total")


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """One broker at one moment; without a status, why there is none."""

    folder: Path
    # Any: what a status endpoint answered, as plain values of JSON.
    status: Mapping[str, Any] | None
    problem: MaiaError | None
    asked_at: float
    published: int = 0
    events_per_s: float = 0.0
    bytes_per_s: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By the number of a link, what it receives and sends."""

    @property
    def refused(self) -> int:
        """Return how many requests, frames and links the broker has refused."""
        return sum(self._counters().get(one, 0) for one in _REFUSED)

    def _counters(self) -> Mapping[str, int]:
        return {} if self.status is None else self.status.get("counters") or {}

    def entries_of(self, principals: frozenset[str]) -> int:
        """Return how many subscriptions and advertisements these principals have here by certificates."""
        links = () if self.status is None else self.status.get("links") or ()
        return sum(one["by_certificates"] for one in links if one["peer"] in principals)


@dataclass(slots=True)
class Network:
    """The brokers in some data folders."""

    folders: Sequence[Path]
    _rows: list[BrokerRow] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def brokers(self, *, fresh_s: float = _FRESH_S) -> list[BrokerRow]:
        """Return every broker, asked no longer ago than `fresh_s`."""
        async with self._turn:
            if not self._rows or self._rows[0].asked_at < monotonic() - fresh_s:
                before = {row.folder: row for row in self._rows}
                places = asyncio.Semaphore(_AT_ONCE)

                async def row(folder: Path) -> BrokerRow:
                    async with places:
                        return await asyncio.to_thread(_asked, folder, before.get(folder))

                self._rows = list(await asyncio.gather(*map(row, self.folders)))
            return self._rows


def brokers_in(rows: Iterable[BrokerRow]) -> frozenset[str]:
    """Return the keys of these brokers and of those that they are linked to."""
    known = [row.status for row in rows if row.status is not None]
    peers = (link["peer"] for one in known for link in one.get("links") or () if link["role"] == "broker")
    return frozenset([*(one["principal"] for one in known), *peers])


def _asked(folder: Path, before: BrokerRow | None) -> BrokerRow:
    try:
        status: Mapping[str, Any] = fetch_status(read_door(folder))
    except MaiaError as problem:
        return BrokerRow(folder, None, problem, monotonic())
    now = monotonic()
    counters = status.get("counters")
    published = int(counters.get(_PUBLISHED, 0)) if isinstance(counters, dict) else 0
    if before is None or before.status is None:
        return BrokerRow(folder, status, None, now, published)
    passed, traffic = max(now - before.asked_at, 0.001), before.status.get("bytes") or {}
    rates = {
        link: tuple(max(0, count - past) / passed for count, past in zip(counts, traffic[link], strict=True))
        for link, counts in (status.get("bytes") or {}).items()
        if link in traffic
    }
    rate = max(0, published - before.published) / passed
    return BrokerRow(folder, status, None, now, published, rate, rates)
