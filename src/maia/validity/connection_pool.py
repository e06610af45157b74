"""Which connections to testers stay open between two questions, and for how long?

A client whose right is asked about within every lease asks the same tester
again and again, and most of what a question costs is the handshake. A
connection waits here for the next question to the same tester at the same
place, for a few seconds, and a few of them at a time. It is lent to one
question at once. Nobody is let in again by a connection: TLS has proved one
key on it, and it serves that key alone. One on which something went wrong is
closed and never lent again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import httpx

from maia.credentials import Principal

__all__ = ["IDLE_S", "OPEN_MAX", "Line", "ConnectionPool"]

OPEN_MAX: Final = 8
"""Connections that wait for another question at one time; the one that has waited longest is closed first."""
IDLE_S: Final = 20.0
"""How long a connection waits: less than a domain waits before it hangs up."""

_Whom: TypeAlias = tuple[Principal, str]


@dataclass(slots=True, eq=False)
class Line:
    """One connection to one tester, and what is known of whoever answers on it."""

    http: httpx.AsyncClient
    run: bytes | None = None
    """The run of the tester's server for which calls are signed, once it was asked."""
    is_fresh: bool = True
    """Whether it has served no question yet."""
    waits_since: float = 0.0


class ConnectionPool:
    """The connections that wait for another question; they belong to one event loop."""

    __slots__ = ("_closing", "_idle_s", "_is_closed", "_timer", "_waiting")

    def __init__(self, *, idle_s: float = IDLE_S) -> None:
        """Begin with none."""
        self._idle_s, self._is_closed = idle_s, False
        self._waiting: OrderedDict[Line, _Whom] = OrderedDict()  # the one that has waited longest comes first
        self._closing: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Return how many connections wait."""
        return len(self._waiting)

    @asynccontextmanager
    async def lent(
        self, tester: Principal, address: str, make: Callable[[], httpx.AsyncClient], *, fresh: bool = False
    ) -> AsyncIterator[Line]:
        """Lend a connection to whoever holds the key of `tester` at an address; a new one if none waits."""
        line = (None if fresh else self._taken((tester, address))) or Line(make())
        try:
            yield line
        except BaseException:
            await line.http.aclose()
            raise
        line.is_fresh = False
        await self._returned(line, (tester, address))

    def _taken(self, whom: _Whom) -> Line | None:
        """Take the connection that was used last, of those to the same key at the same place."""
        found = next((line for line in reversed(self._waiting) if self._waiting[line] == whom), None)
        if found is not None:
            del self._waiting[found]
        return found

    async def _returned(self, line: Line, whom: _Whom) -> None:
        if self._is_closed:
            await line.http.aclose()
            return
        line.waits_since = asyncio.get_running_loop().time()
        self._waiting[line] = whom
        if len(self._waiting) > OPEN_MAX:
            await self._waiting.popitem(last=False)[0].http.aclose()
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is None and self._waiting:
            ends = next(iter(self._waiting)).waits_since + self._idle_s
            self._timer = asyncio.get_running_loop().call_at(ends, self._look)

    def _look(self) -> None:
        """Close what has waited for long enough."""
        self._timer = None
        oldest = asyncio.get_running_loop().time() - self._idle_s
        for line in [one for one in self._waiting if one.waits_since <= oldest]:
            del self._waiting[line]
            task = asyncio.create_task(line.http.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        self._set_timer()

    async def aclose(self) -> None:
        """Close what waits; what is lent is closed when it comes back."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            await self._waiting.popitem(last=False)[0].http.aclose()
        await asyncio.gather(*self._closing, return_exceptions=True)
