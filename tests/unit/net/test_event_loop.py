"""The loop of our servers does for readers what asyncio's does, and calls them without a detour."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from maia.net.event_loop import ASKED_MAX, LUCK_MAX, TRIED_AGAIN, DirectLoop, DirectSelector, run


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    made = [socket.socketpair() for _ in range(3)]
    for end in (one for pair in made for one in pair):
        end.setblocking(False)
    yield made
    for end in (one for pair in made for one in pair):
        end.close()


@pytest.mark.parametrize("debug", [False, True])
def test_a_reader_is_called_until_it_is_removed_and_others_have_their_turn(
    pairs: list[tuple[socket.socket, socket.socket]], debug: bool
) -> None:
    """A socket that is always readable keeps neither another socket, a writer nor a timer waiting."""
    (busy, _feeds), (quiet, says), (both, far) = pairs
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_debug(debug)
        _feeds.send(b"never read")
        loop.add_reader(busy, lambda: seen.append("busy"))
        loop.add_reader(quiet, lambda: seen.append(quiet.recv(9).decode()))
        loop.add_reader(both, seen.append, "with an argument")
        loop.add_writer(both, seen.append, "writer")
        loop.call_later(0.01, says.send, b"quiet")
        loop.call_later(0.02, far.send, b"!")
        async with asyncio.timeout(180):
            while {"busy", "quiet", "writer", "with an argument"} != set(seen):
                await asyncio.sleep(0.01)
        assert loop.remove_reader(busy)
        assert not loop.remove_reader(busy)
        assert loop.remove_writer(both)
        assert loop.remove_reader(both)
        seen.clear()
        says.send(b"last")
        async with asyncio.timeout(180):
            while not seen:
                await asyncio.sleep(0.01)
        assert seen == ["last"]

    run(main())


def test_a_reader_that_fails_is_reported_and_the_loop_goes_on(
    pairs: list[tuple[socket.socket, socket.socket]],
) -> None:
    (bad, feeds), (good, says), _ = pairs
    reported: list[dict[str, Any]] = []
    feeds.send(b"x")

    def fail() -> None:
        bad.recv(1)
        raise ValueError("inside a reader")

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DirectLoop)
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        loop.add_reader(bad, fail)
        loop.call_later(0.01, says.send, b"after")
        async with asyncio.timeout(180):
            return await loop.sock_recv(good, 9)

    assert run(main()) == b"after"
    (context,) = reported
    assert isinstance(context["exception"], ValueError)


@pytest.mark.parametrize("hangs_up", [False, True])
def test_a_reader_may_close_the_socket_of_another_one_that_is_as_ready(
    pairs: list[tuple[socket.socket, socket.socket]], hangs_up: bool
) -> None:
    """As when a peer of the same moment takes the place of one that hangs up: the loop goes on."""
    (one, feeds_one), (other, feeds_other), (third, feeds_third) = pairs
    called: list[str] = []

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        for name, mine, yours in (("one", one, other), ("other", other, one)):

            def take(name: str = name, mine: socket.socket = mine, yours: socket.socket = yours) -> None:
                called.append(name)
                mine.recv(9)
                loop.remove_reader(yours)
                yours.close()

            loop.add_reader(mine, take)
        if hangs_up:
            feeds_one.close()
        else:
            feeds_one.send(b"x")
        feeds_other.send(b"x")
        loop.call_later(0.02, feeds_third.send, b"after")
        async with asyncio.timeout(180):
            return await loop.sock_recv(third, 9)

    assert run(main()) == b"after"
    assert len(called) == 1


def test_the_kernel_is_asked_before_a_sleep_as_long_as_that_finds_something() -> None:
    """A server whose peers answer later than it asks gives up asking, and tries again once in a while."""
    selector = DirectSelector(ASKED_MAX)
    waits: list[float] = []
    comes_at_once = False

    def poll(wait_s: float, _most: int) -> list[tuple[int, int]]:
        waits.append(wait_s)
        asked = waits.count(0)
        return [(7, select.EPOLLIN)] if wait_s or (comes_at_once and asked == ASKED_MAX) else []

    def asked(selects: int) -> list[int]:
        found = []
        for _ in range(selects):
            waits.clear()
            selector.select(1)
            found.append(waits.count(0))
            assert waits[waits.count(0) :] in ([], [1])
        return found

    selector.poll, selector.readers[7] = poll, lambda: None
    assert sum(asked(1 + 2 * TRIED_AGAIN)) == 2 * ASKED_MAX
    comes_at_once = True
    assert asked(TRIED_AGAIN)[-1] == ASKED_MAX
    assert asked(2 * LUCK_MAX) == [ASKED_MAX] * (2 * LUCK_MAX)
    comes_at_once = False
    assert sum(asked(TRIED_AGAIN - 1)) <= (LUCK_MAX // 2 + 1) * ASKED_MAX
    waits.clear()
    selector.select(0)
    assert waits == [0], "with something ready to run, nothing is waited for"
    selector.close()
