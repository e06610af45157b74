"""Links are tried on the loop of our servers here; most scenarios run on asyncio's own, as clients do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from maia.net.event_loop import ASKED_MAX, new_event_loop


class ServerLoops(asyncio.DefaultEventLoopPolicy):
    """Makes the loops of servers."""

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return new_event_loop(asked_max=ASKED_MAX)


@pytest.fixture(autouse=True)
def server_loops() -> Iterator[None]:
    asyncio.set_event_loop_policy(ServerLoops())
    yield
    asyncio.set_event_loop_policy(None)
