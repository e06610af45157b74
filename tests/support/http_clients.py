"""Clients of a gateway's HTTP side: calls, and streams of server-sent events read line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from support.mqtt_city import WAIT_S, City

__all__ = ["Block", "Reader", "call", "reading"]

EVENTS = "/v1/events"


@dataclass(frozen=True)
class Block:
    """One server-sent event."""

    kind: str
    data: dict[str, Any]
    id: str | None


@dataclass
class Reader:
    """A response that is being read; `id` is what a browser would come back with."""

    response: httpx.Response
    id: str | None = None
    _lines: AsyncIterator[str] | None = field(default=None, repr=False)

    async def block(self) -> Block | None:
        """Return the next event, or None at the end; ids that come without an event count."""
        if self._lines is None:
            self._lines = self.response.aiter_lines()
        fields: dict[str, str] = {}
        async with asyncio.timeout(WAIT_S):
            async for line in self._lines:
                if line:
                    name, _, value = line.partition(": ")
                    assert name not in fields, f"a field twice: {line}"
                    fields[name] = value
                    continue
                self.id = fields.get("id", self.id)
                if "data" in fields:
                    return Block(fields.get("event", "message"), json.loads(fields["data"]), fields.get("id"))
                fields = {}
        return None

    async def payload(self) -> object:
        """Return the payload of the next event, which has to be one."""
        found = await self.block()
        assert found is not None
        assert found.kind == "message", found
        return found.data.get("payload")


async def call(
    city: City,
    account: str | None,
    method: str = "POST",
    target: str = EVENTS,
    *,
    body: bytes | str = b"",
    headers: Mapping[str, str] = {},
    token: str | None = None,
    **query: str | list[str],
) -> tuple[int, dict[str, Any]]:
    """Return status and JSON of one call with an account's token."""
    auth = None if account is None else httpx.BasicAuth(account, token or city.tokens.get(account, "none"))
    async with httpx.AsyncClient(base_url=city.http, timeout=WAIT_S, trust_env=False) as http:
        answer = await http.request(
            method, target, content=body, headers=headers, params=query or None, auth=auth
        )
    assert answer.headers["content-type"].startswith(("application/json", "application/problem+json")), (
        answer.text
    )
    return answer.status_code, answer.json()


@asynccontextmanager
async def reading(
    city: City, account: str, *, last: str | None = None, **query: str | list[str]
) -> AsyncIterator[Reader]:
    """Open a stream that has to be accepted."""
    auth = httpx.BasicAuth(account, city.tokens[account])
    headers = {} if last is None else {"Last-Event-ID": last}
    async with (
        httpx.AsyncClient(base_url=city.http, timeout=WAIT_S, trust_env=False, auth=auth) as http,
        http.stream("GET", EVENTS, params=query, headers=headers) as response,
    ):
        if response.status_code != 200:
            raise AssertionError((response.status_code, await response.aread()))
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(response)
