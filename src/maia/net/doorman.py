"""When is a new connection let in, while others are served?

A handshake of TLS and a login cost as much as a hundred messages, and strangers may ask for many. A doorman
lets connections in one after the other, the first of each network in turn. While the process has time to
spare they hardly wait. While it is behind with its work only some are let in each second, so that those who
were let in before keep nearly all of it (A88, A116). When too many wait, the oldest of the network that
most of them come from goes.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

from maia.sessions.admission import Places

_WAITING_MAX: Final = 256
_TICK_S: Final = 0.002
_IN_TIME: Final = 3
"""How many ticks in a row come in time where a process has time to spare."""


class Doorman:
    """Lets accepted connections in."""

    def __init__(
        self,
        while_busy: float,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """Let in at least `while_busy` connections a second, if so many come."""
        self._at_most_s = 1 / while_busy
        self._sleep, self._clock = sleep, clock or asyncio.get_running_loop().time
        self._waiting: Places[socket.socket] = Places(_WAITING_MAX)
        self._let_in: dict[socket.socket, Callable[[], object]] = {}
        self._working: asyncio.Task[None] | None = None

    def take(self, connection: socket.socket, address: str, let_in: Callable[[], object]) -> None:
        """Call `let_in` when it is this connection's turn; one that has to go before is closed."""
        self._let_in[connection] = let_in
        self._waiting.take(connection, address)
        gone = self._waiting.next_to_go() if self._waiting.is_overfull else None
        if gone is not None:
            self._close(gone)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())

    def stop(self) -> None:
        """Close whatever waits."""
        if self._working is not None:
            self._working.cancel()
        for connection in list(self._let_in):
            self._close(connection)

    def _close(self, connection: socket.socket) -> None:
        self._waiting.leave(connection)
        del self._let_in[connection]
        connection.close()

    async def _work(self) -> None:
        while (connection := self._waiting.take_turn()) is not None:
            self._let_in.pop(connection)()
            await self._until_spare_time()

    async def _until_spare_time(self) -> None:
        """Wait until some ticks in a row come in time, but not for long."""
        now, in_time = self._clock(), 0
        ends = now + self._at_most_s
        while in_time < _IN_TIME and now < ends:
            due = now + _TICK_S
            await self._sleep(_TICK_S)
            now = self._clock()
            in_time = in_time + 1 if now - due < _TICK_S else 0
