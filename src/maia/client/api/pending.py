"""Who waits for which answer of the broker, and for how long?

An answer belongs to the number of what was asked. Whoever waits is told it, or
the reason why there is none, or hears after a while that none came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from maia.client import ClientClosed, NotConnected, Notice
from maia.client.entries import RequestEntry
from maia.errors import MaiaError

__all__ = ["ANSWER_S", "Answers", "in_time"]

ANSWER_S: Final = 30.0
"""How long an application waits for an answer unless it says otherwise."""


class Answers:
    """The answers that somebody waits for, by the numbers of what was asked."""

    def __init__(self) -> None:
        """Wait for nothing yet."""
        self._awaited: dict[int, asyncio.Future[Notice]] = {}
        self.is_closed = False

    def __iter__(self) -> Iterator[int]:
        """Yield the number of whatever is waited for."""
        return iter(self._awaited)

    def awaited(self, number: int) -> asyncio.Future[Notice]:
        """Return what will hold the answer to `number`; called before it is asked for."""
        if self.is_closed:
            raise ClientClosed("the client is closed")
        answer: asyncio.Future[Notice] = asyncio.get_running_loop().create_future()
        self._awaited[number] = answer
        return answer

    def resolve(self, number: int, notice: Notice) -> None:
        """Hand an answer to whoever waits for it, if anybody does."""
        answer = self._awaited.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_result(notice)

    def fail(self, number: int, problem: MaiaError) -> None:
        """Tell whoever waits for an answer why there is none."""
        answer = self._awaited.pop(number, None)
        if answer is not None and not answer.done():
            answer.set_exception(problem)


async def in_time(
    answer: asyncio.Future[Notice], timeout_s: float, entry: RequestEntry | None = None
) -> Notice:
    """Wait for an answer; raise if none comes, with what is known of the reason."""
    try:
        async with asyncio.timeout(timeout_s):
            return await answer
    except TimeoutError:
        if entry is not None and entry.problem is not None:
            raise entry.problem from None  # an answer came, and it was to ask again later
        raise NotConnected(f"no answer came within {timeout_s:g} seconds") from None
