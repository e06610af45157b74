"""A connection to a tester serves one question after the other, of one key, and never after it broke."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack

import httpx
import pytest

from maia.api import tester_calls as testers_calls
from maia.api.endpoints import STATEMENTS
from maia.api.responses import StatementPage
from maia.api.tester_calls import OPEN_MAX, ConnectionPool, Line
from maia.credentials import Principal
from maia.errors import MaiaError
from support.lying_location import Place, answer_of, place
from support.statements import STRANGER, TESTER

PAGE = answer_of(json.dumps({"items": [], "next": None}).encode()).replace(b"Connection: close\r\n", b"")
Talk = Callable[[socket.socket, Place], None]


def serving(*, answers: int, connections: list[int]) -> Talk:
    """Answer so many questions on each connection, and hang up in the face of the next one."""

    def talk(stream: socket.socket, found: Place) -> None:
        connections.append(0)
        for _ in range(answers):
            connections[-1] += 1
            stream.sendall(PAGE)
            asked = stream.recv(65_536)
            if not asked:
                return
            found.requests.append(asked)

    return talk


async def asked(lines: ConnectionPool, at: Place, tester: Principal = TESTER.principal) -> StatementPage:
    calls = testers_calls.TesterCalls(tester, testers_calls.Location("127.0.0.1", at.port), lines=lines)
    return await calls.ask(STATEMENTS)


def test_the_second_question_needs_no_second_handshake() -> None:
    connections: list[int] = []

    async def ask_three_times(met: Place) -> None:
        lines = ConnectionPool()
        for _ in range(3):
            assert (await asked(lines, met)).items == []
        assert len(lines) == 1
        await lines.aclose()
        assert len(lines) == 0

    with place(serving(answers=5, connections=connections), key=TESTER) as met:
        asyncio.run(ask_three_times(met))
    assert connections == [3]


def test_a_connection_that_broke_is_replaced_once() -> None:
    connections: list[int] = []

    async def ask_twice(met: Place) -> None:
        lines = ConnectionPool()
        for _ in range(2):
            await asked(lines, met)
        await lines.aclose()

    with place(serving(answers=1, connections=connections), key=TESTER) as met:
        asyncio.run(ask_twice(met))
    assert connections == [1, 1]


def test_a_tester_that_hangs_up_on_everybody_is_not_asked_a_third_time() -> None:
    connections: list[int] = []

    async def ask_twice(met: Place) -> None:
        lines = ConnectionPool()
        await asked(lines, met)
        with pytest.raises(MaiaError) as away:
            await asked(lines, met)
        assert away.value.code == "UNAVAILABLE-DOMAIN"
        assert len(lines) == 0
        await lines.aclose()

    def talk(stream: socket.socket, found: Place) -> None:
        serving(answers=0 if connections else 1, connections=connections)(stream, found)

    with place(talk, key=TESTER) as met:
        asyncio.run(ask_twice(met))
    assert connections == [1, 0]


def test_a_connection_on_which_one_key_was_proved_serves_no_other() -> None:
    """A39: whoever holds the address holds not every key that certificates name beside it."""
    connections: list[int] = []

    async def ask_two(met: Place) -> None:
        lines = ConnectionPool()
        await asked(lines, met)
        with pytest.raises(MaiaError) as other:
            await asked(lines, met, STRANGER.principal)
        assert other.value.code == "CREDENTIAL-ANOTHER-DOMAIN"
        await asked(lines, met)
        await lines.aclose()

    with place(serving(answers=5, connections=connections), key=TESTER) as met:
        asyncio.run(ask_two(met))
    assert connections == [2]


# ------------------------------------------------------------ the connections themselves


def never_used() -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.MockTransport(lambda _asked: httpx.Response(500)))


async def lent_at_once(lines: ConnectionPool, number: int) -> list[Line]:
    async with AsyncExitStack() as stack:
        return [
            await stack.enter_async_context(lines.lent(TESTER.principal, "here:1", never_used))
            for _ in range(number)
        ]


def test_a_connection_is_lent_to_one_question_at_a_time() -> None:
    async def lend() -> None:
        lines = ConnectionPool()
        assert len(set(await lent_at_once(lines, 3))) == 3
        assert len(lines) == 3
        await lines.aclose()

    asyncio.run(lend())


def test_no_more_connections_wait_than_may() -> None:
    async def lend() -> None:
        lines = ConnectionPool()
        used = await lent_at_once(lines, OPEN_MAX + 2)
        assert len(lines) == OPEN_MAX
        assert sum(line.http.is_closed for line in used) == 2
        await lines.aclose()
        assert all(line.http.is_closed for line in used)

    asyncio.run(lend())


def test_a_connection_that_nobody_needs_is_closed_after_a_while() -> None:
    async def wait() -> None:
        lines = ConnectionPool(idle_s=0.01)
        [used] = await lent_at_once(lines, 1)
        async with asyncio.timeout(60):
            while not used.http.is_closed:
                await asyncio.sleep(0.01)
        assert len(lines) == 0
        await lines.aclose()

    asyncio.run(wait())


def test_what_comes_back_after_the_end_is_closed() -> None:
    async def end_meanwhile() -> None:
        lines = ConnectionPool()
        async with lines.lent(TESTER.principal, "here:1", never_used) as line:
            await lines.aclose()
            assert not line.http.is_closed
        assert line.http.is_closed
        assert len(lines) == 0

    asyncio.run(end_meanwhile())


def test_a_connection_on_which_something_went_wrong_is_not_lent_again() -> None:
    async def fail() -> None:
        lines = ConnectionPool()
        with pytest.raises(asyncio.CancelledError):
            async with lines.lent(TESTER.principal, "here:1", never_used) as line:
                raise asyncio.CancelledError
        assert line.http.is_closed
        assert len(lines) == 0

    asyncio.run(fail())
