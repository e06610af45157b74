"""When is this process to stop? At SIGTERM or Ctrl-C, whichever comes first."""

from __future__ import annotations

import asyncio
import signal

__all__ = ["until_told_to_stop"]


async def until_told_to_stop() -> None:
    """Wait for SIGTERM or SIGINT; a second one finds its usual meaning again."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    try:
        await stopped.wait()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
