"""How does a test wait for something that happens elsewhere? For a condition, with a deadline.

No test sleeps in order to let something happen: on a busy machine it would
wait too briefly, and on a fast one too long.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Final, TypeVar

T = TypeVar("T")

DEADLINE_S: Final = 180.0
"""How long a busy machine may take for one thing; only a test that fails waits for so long."""
_WHOLE_S: Final = 600.0
_LOOK_AGAIN_S: Final = 0.01


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an asynchronous test in an event loop of its own, with a deadline on the whole."""

    @wraps(test)
    def run(*args: Any, **named: Any) -> None:  # Any: whatever fixtures the test asks for
        async def whole() -> None:
            async with asyncio.timeout(_WHOLE_S):
                await test(*args, **named)

        asyncio.run(whole())

    return run


async def until(is_so: Callable[[], object], what: str, *, within_s: float = DEADLINE_S) -> None:
    """Wait until `is_so()` holds; fail with `what` after the deadline."""
    ends = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(f"waited {within_s:g} seconds in vain for: {what}")
        await asyncio.sleep(_LOOK_AGAIN_S)


async def soon(waited: Awaitable[T], *, within_s: float = DEADLINE_S) -> T:
    """Return what is waited for, which has to come before the deadline."""
    async with asyncio.timeout(within_s):
        return await waited


def wait_until(
    is_so: Callable[[], object], what: str = "something in another process", *, within_s: float = DEADLINE_S
) -> None:
    """Wait until `is_so()` holds, in a test without an event loop."""
    ends = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(f"waited {within_s:g} seconds in vain for: {what}")
        time.sleep(_LOOK_AGAIN_S)
