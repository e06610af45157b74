"""Whose call is next, where all calls of a domain's interface are for one worker?

One call at a time goes to the worker, of each network in turn, so that an act waits for one call of every
other network and not for all that they have sent. Where too many wait, the oldest from the busiest network
is refused (A87).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from maia.errors import Unavailable
from maia.sessions.admission import Places

WAITING_MAX: Final = 128
"""Calls at one time that wait for their turn."""


class Turns:
    """The calls that wait for the worker of one domain."""

    def __init__(self) -> None:
        self._waiting: Places[asyncio.Future[None]] = Places(WAITING_MAX)
        self._is_taken = False

    @asynccontextmanager
    async def turn(self, address: str | None) -> AsyncIterator[None]:
        """Have the worker for as long as the body runs, when it is the caller's turn."""
        if self._is_taken:
            await self._wait(address)
        self._is_taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, address: str | None) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.take(place, address)
        goes = self._waiting.next_to_go() if self._waiting.is_overfull else None
        if goes is not None:
            self._waiting.leave(goes)
            goes.set_exception(
                Unavailable(
                    "UNAVAILABLE-DOMAIN-BUSY", "too many calls wait for this domain's server: try again later"
                )
            )
        try:
            await place
        except asyncio.CancelledError:
            self._waiting.leave(place)
            if place.done() and not place.cancelled():  # its turn came in the same moment
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        following = self._waiting.take_turn()
        self._is_taken = following is not None
        if following is not None:
            following.set_result(None)
