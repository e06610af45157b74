"""Who makes this HTTP call, and through which Maia client is it served?

A caller proves an account in one of three ways: by the account's token, by its own key in the TLS handshake,
or by its own key under the call itself, which then names the account key that it is meant for. Either way
the call is done with that account's key and certificates, and with no other right (A15). All calls of an
account share one Maia client, which stays for a while after the last of them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, Protocol

from starlette.requests import Request

from maia.api.http_calls import read_body, signed_request_in, single_headers, target_of
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.errors import MaiaError, Refusal
from maia.gateway.server.account_folder import AccountFolder
from maia.gateway.server.config import PreparedGateway
from maia.gateway.server.shares import Over
from maia.gateway.server.upstream import Upstream
from maia.net.http_listener import LEAF, let_in
from maia.net.tls import principal_of_leaf
from maia.wire.api_requests import INSTANCE_BYTES, ApiCall, api_request_from_bytes, verify_api_request
from maia.wire.replays import ReplayMemory

_IDLE_S: Final = 30.0
"""How long an account's Maia client outlives its last call."""
_SIGNED_CALLS_MAX: Final = 1200
"""Signed calls of one principal within the window of clock skew."""
_OURS: Final = frozenset({"authorization", "origin", "last-event-id"})
_BASIC_MAX: Final = 512


class OpenStream(Protocol):
    """A stream of events that is being sent."""

    name: str | None

    def end(self, problem: MaiaError) -> None:
        """Send the reason, and end."""

    async def close(self) -> None:
        """Take its subscriptions back."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An account whose client has proved itself, and the digest of the body that it has signed, if it has."""

    account: str
    key: SigningKey = field(repr=False)
    content: bytes | None = field(default=None, repr=False)

    async def body(self, request: Request, most: int) -> bytes:
        """Read the body of the call; raise if it is not the one that was signed."""
        body = await read_body(request, most)
        if self.content is not None and sha256(body).digest() != self.content:
            raise Refusal("REQUEST-ALTERED", "the body differs from what was signed")
        return body


@dataclass(slots=True)
class AccountClient:
    """The Maia client of one account, and what uses it."""

    key: SigningKey = field(repr=False)
    upstream: Upstream
    calls: int = 0
    streams: list[OpenStream] = field(default_factory=list)
    keep_s: float = _IDLE_S
    timer: asyncio.TimerHandle | None = None


class Callers:
    """The accounts of one gateway, for HTTP."""

    def __init__(self, prepared: PreparedGateway) -> None:
        """Serve accounts of the data folder."""
        self._prepared, self._config = prepared, prepared.config
        self.accounts = AccountFolder(prepared.config.data)
        self.instance = os.urandom(INSTANCE_BYTES)
        """This run of the gateway, for which calls are signed."""
        self._memory = ReplayMemory(per_principal_max=_SIGNED_CALLS_MAX)
        self._clients: dict[str, AccountClient] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    # -------------------------------------------------------- who calls

    def check_origin(self, request: Request) -> str | None:
        """Return the origin of the web page that calls, if one does; refuse those that are not declared.

        A browser may show a TLS key for any page that it has open, so a page has no right by being there.
        """
        origin = request.headers.get("origin")
        if origin is not None and origin not in self._config.http_origins:
            raise Refusal("REFUSED-GATEWAY-ORIGIN", "web pages of this origin may not call this gateway")
        return origin

    @contextmanager
    def calling(self, request: Request) -> Iterator[Caller]:
        """Say who calls, and count the call in the share of its account for as long as it lasts."""
        caller = self.admit(request)
        self._prepared.shares.connect(caller.account, Over.HTTP)
        try:
            yield caller
        finally:
            self._prepared.shares.disconnect(caller.account, Over.HTTP)

    def admit(self, request: Request) -> Caller:
        """Return who calls, and let the connection in; every failure of a token looks the same (A79)."""
        caller = self._caller(request)
        let_in(request.scope)
        return caller

    def _caller(self, request: Request) -> Caller:
        header = single_headers(request, _OURS).get("authorization", "")
        scheme, _, word = header.partition(" ")
        match scheme.lower():
            case "basic":
                name, token = _basic(word)
                return Caller(*self.accounts.by_token(name, token))
            case "":
                leaf = request.scope.get(LEAF)
                if not isinstance(leaf, bytes):
                    raise Refusal(
                        "REFUSED-GATEWAY-ACCOUNT",
                        "the call has neither token, signature nor TLS key of an account",
                    )
                return Caller(*self.accounts.by_key(principal_of_leaf(leaf)))
            case _:
                return self._signed(request, header)

    def _signed(self, request: Request, header: str) -> Caller:
        signed = api_request_from_bytes(signed_request_in(header))
        account, key = self.accounts.by_key(signed.signer)
        content = signed.request.call.content  # the body is compared with it when it is read
        call = replace(ApiCall.of(request.method, target_of(request), body=b""), content=content)
        verify_api_request(
            signed,
            call=call,
            audience=key.principal,
            instance=self.instance,
            at=system_now(),
            memory=self._memory,
        )
        return Caller(account, key, content)

    # -------------------------------------------------------- its Maia client

    @asynccontextmanager
    async def client_of(self, caller: Caller) -> AsyncIterator[AccountClient]:
        """Lend the account's Maia client, connected; raise what the broker refused."""
        held = self._clients.get(caller.account)
        if held is None or held.upstream.has_failed or held.key.principal != caller.key.principal:
            held = self._new_client(caller)
        held.calls += 1
        if held.timer is not None:
            held.timer.cancel()
        try:
            await held.upstream.opened()
            yield held
        finally:
            held.calls -= 1
            self._rest(caller.account, held)

    def _new_client(self, caller: Caller) -> AccountClient:
        before = self._clients.pop(caller.account, None)
        if before is not None:
            self._drop(before)

        def refused(problem: MaiaError) -> None:
            for stream in list(held.streams):
                stream.end(problem)
            if self._clients.get(caller.account) is held:
                del self._clients[caller.account]
                self._drop(held)

        certificates = self.accounts.certificates(caller.account)
        upstream = Upstream(self._prepared.upstream, caller.key, certificates, refused, {})
        held = self._clients[caller.account] = AccountClient(caller.key, upstream)
        upstream.start()
        return held

    def _rest(self, account: str, held: AccountClient) -> None:
        """Let a Maia client that nothing uses go after a while, and with it the key in memory."""

        def stop() -> None:
            if not held.calls and not held.streams and self._clients.get(account) is held:
                del self._clients[account]
                self._drop(held)

        if not held.calls and not held.streams:
            held.timer = asyncio.get_running_loop().call_later(held.keep_s, stop)

    def _drop(self, held: AccountClient) -> None:
        if held.timer is not None:
            held.timer.cancel()
        self.spawn(held.upstream.stop())

    async def begin(self, held: AccountClient, stream: OpenStream) -> None:
        """Count a stream; one of the same name goes, and lets its subscriptions go first."""
        for other in [one for one in held.streams if stream.name is not None and one.name == stream.name]:
            held.streams.remove(other)
            other.end(
                Refusal(
                    "REFUSED-GATEWAY-TAKEN-OVER", "another call goes on with the subscription of this name"
                )
            )
            await other.close()
        if len(held.streams) >= self._config.http_streams_per_account:
            raise Refusal(
                "REFUSED-GATEWAY-STREAMS",
                f"the account has {len(held.streams)} streams, as many as it may have",
            )
        held.streams.append(stream)

    def ended(self, caller: Caller, held: AccountClient, stream: OpenStream) -> None:
        """Take note that a stream has ended."""
        if stream in held.streams:
            held.streams.remove(stream)
        self.spawn(stream.close())
        self._rest(caller.account, held)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine beside everything else."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -------------------------------------------------------- all of them

    def upstreams(self) -> Iterator[tuple[str, Upstream]]:
        """Yield each account with its Maia client."""
        for account, held in self._clients.items():
            yield account, held.upstream

    def status(self) -> dict[str, int]:
        """Return how much there is, without names."""
        return {
            "http_accounts": len(self._clients),
            "http_streams": sum(len(held.streams) for held in self._clients.values()),
        }

    async def stop(self, problem: MaiaError) -> None:
        """End every stream with a reason, and say goodbye to the broker."""
        for held in self._clients.values():
            for stream in list(held.streams):
                stream.end(problem)
            self._drop(held)
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _basic(word: str) -> tuple[str, bytes]:
    try:
        found = base64.b64decode(word[:_BASIC_MAX], validate=True)
    except (binascii.Error, ValueError):
        found = b""
    name, _, token = found.partition(b":")
    return name.decode("utf-8", "replace"), token
