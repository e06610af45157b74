"""When is this process to stop? At SIGTERM or Ctrl-C, or with the process that started it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Final

STOP_WITH_INPUT: Final = "MAIA_STOP_WITH_INPUT"
"""Set by `maia up`, which holds the other end of its servers' standard input: it closes however that ends."""

_READ_MAX: Final = 4096


async def until_told_to_stop() -> None:
    """Wait for SIGTERM or SIGINT; a second one finds its usual meaning again."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)

    def read_input() -> None:
        if not os.read(0, _READ_MAX):
            stopped.set()

    has_parent = STOP_WITH_INPUT in os.environ
    if has_parent:
        loop.add_reader(0, read_input)
    try:
        await stopped.wait()
    finally:
        if has_parent:
            loop.remove_reader(0)
        for number in numbers:
            loop.remove_signal_handler(number)
