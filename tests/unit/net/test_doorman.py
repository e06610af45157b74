"""Claims about a doorman: networks take turns, and a process that is behind lets few in."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from maia.net.doorman import Doorman

WHILE_BUSY = 20
SECONDS = 5


class Clock:
    """A clock on which every sleep takes `late_s` longer than was asked for."""

    def __init__(self, late_s: float) -> None:
        self.now, self._late_s = 0.0, late_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += seconds + self._late_s


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    made = [socket.socket() for _ in range(300)]
    yield made
    for one in made:
        one.close()


def let_in_within(late_s: float, sockets: list[socket.socket]) -> int:
    """Return how many connections are let in within some seconds by the process's clock."""

    async def story() -> int:
        clock, moments = Clock(late_s), list[float]()
        doorman = Doorman(WHILE_BUSY, sleep=clock.sleep, clock=lambda: clock.now)
        for one in sockets[:250]:
            doorman.take(one, "192.0.2.1", lambda: moments.append(clock.now))
        while len(moments) < 250:
            await asyncio.sleep(0)
        return sum(one < SECONDS for one in moments)

    return asyncio.run(story())


def test_a_process_that_is_behind_lets_few_in_and_one_with_spare_time_all(
    sockets: list[socket.socket],
) -> None:
    """A116: what strangers cost those who are served is bounded; where none is served, they do not wait."""
    assert let_in_within(0.008, sockets) <= WHILE_BUSY * SECONDS
    assert let_in_within(0.0005, sockets) == 250


def test_networks_take_turns_and_too_many_cost_the_busiest_its_oldest(sockets: list[socket.socket]) -> None:
    """A88: a newcomer waits for one of each network, however many come from another one."""

    async def story() -> None:
        came: list[int] = []
        doorman = Doorman(WHILE_BUSY)
        for number, one in enumerate(sockets):
            address = {100: "192.0.2.2", 200: "192.0.2.3"}.get(number, "192.0.2.1")
            doorman.take(one, address, lambda number=number: came.append(number))  # type: ignore[misc]
        assert [one.fileno() for one in sockets[:44]] == [-1] * 44, "256 wait, and 44 had to go"
        assert sockets[44].fileno() != -1
        while len(came) < 3:
            await asyncio.sleep(0)
        assert came[:3] == [44, 100, 200]
        doorman.stop()
        waiting = [one for number, one in enumerate(sockets[44:], start=44) if number not in came]
        assert all(one.fileno() == -1 for one in waiting)

    asyncio.run(story())
