"""What was begun on a page and goes on beside it, and whose is it?

A revocation that is watched, or a replay, is found again by its id, by the principal that began it alone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Final, Protocol, TypeVar

from maia.bounded_map import BoundedMap
from maia.credentials import Principal
from maia.errors import BadInput

_BEGUN_MAX: Final = 64


class NoSuchThing(BadInput):
    """There is no such page of the console, or nothing of that id that its reader may see."""

    code = "CONSOLE-NOT-FOUND"


class _Begun(Protocol):
    """What a principal has begun."""

    by: Principal


_Work = TypeVar("_Work", bound=_Begun)


class Works:
    """What was begun on pages in this run of the console, and goes on beside them, by its id."""

    def __init__(self) -> None:
        """Begin with none."""
        self._begun: BoundedMap[str, _Begun] = BoundedMap(_BEGUN_MAX)
        self._tasks: set[asyncio.Task[None]] = set()

    def keep(self, work: _Begun) -> str:
        """Remember what was begun; return its id."""
        number = os.urandom(8).hex()
        self._begun.put(number, work)
        return number

    def of(self, kind: type[_Work]) -> list[_Work]:
        """Return everything of a kind."""
        return [one for one in self._begun.values() if isinstance(one, kind)]

    def found(self, kind: type[_Work], number: str, by: Principal) -> _Work:
        """Return what was begun to the principal that did."""
        work = self._begun.get(number)
        if not isinstance(work, kind) or work.by != by:
            raise NoSuchThing("there is nothing of yours of this id")
        return work

    def beside(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Go on with something while pages are looked at."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End what goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
