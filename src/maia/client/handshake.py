"""Is whoever answered a broker of our network, and what do we show it?

A client shows its certificates to nobody who has not first shown a right to
connect to the network (A19), and then only those that speak for its own right
to connect.
"""

from __future__ import annotations

from collections.abc import Iterable

from maia.client.errors import BrokerNotTrusted, WrongBroker
from maia.client.settings import ClientSettings
from maia.client.wallet import Wallet
from maia.credentials import (
    Action,
    Principal,
    SignedStatement,
    certificate_from_bytes,
    statement_from_bytes,
)
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request
from maia.wire.framing import HANDSHAKE_BYTES_MAX
from maia.wire.messages import PROTOCOL_VERSION, Greeting, Hello, Message, Show
from maia.wire.names import network_to_bytes

__all__ = ["Handshake"]


class Handshake:
    """How one client greets brokers, link after link."""

    def __init__(
        self, principal: Principal, settings: ClientSettings, wallet: Wallet, instance: bytes
    ) -> None:
        """Greet as `principal`; `instance` tells this client from others that hold its key."""
        self.connecting = Request(principal, Action.CONNECT, settings.network)
        """What the client asks for by connecting."""
        self._settings, self._wallet = settings, wallet
        self._network = network_to_bytes(settings.network)
        self._instance = instance
        self._shown: list[SignedStatement] = []
        """By which statements the broker says that its certificates still count."""

    def begin(self) -> None:
        """Forget what another broker has shown."""
        self._shown = []

    def was_shown(self, statements: Iterable[bytes]) -> None:
        """Remember by which statements a broker says that its certificates still count; refuse rubbish."""
        try:
            self._shown = [statement_from_bytes(data) for data in statements]
        except MaiaError as problem:
            raise BrokerNotTrusted(f"a broker shows what is no statement: {problem.message}") from problem

    def answer(self, greeting: Greeting, peer: Principal, now: Instant) -> list[Message]:
        """Verify a broker's right to connect, and only then return what shows our own."""
        self._check_broker(greeting, peer, now)
        shown = self._wallet.needed_for(self.connecting, now)
        statements = self._wallet.statements_for(shown)
        # What is too long to be said now was no use: the broker knows such statements by itself, or never.
        fits = sum(map(len, statements)) < HANDSHAKE_BYTES_MAX // 2
        hello = Hello(PROTOCOL_VERSION, self._network, shown, self._instance, None)
        return [Show(0, [], statements), hello] if statements and fits else [hello]

    def _check_broker(self, greeting: Greeting, peer: Principal, now: Instant) -> None:
        settings = self._settings
        if greeting.version != PROTOCOL_VERSION or greeting.network != self._network:
            raise WrongBroker(f"whoever answered is no broker of network `{settings.network.name}`")
        if settings.brokers is not None and peer not in settings.brokers:
            raise BrokerNotTrusted(f"`{peer}` is not one of the brokers to talk to")
        try:
            shown = [certificate_from_bytes(data) for data in greeting.credentials]
            asked = Request(peer, Action.CONNECT, settings.network)
            self._wallet.check_shown(asked, shown, self._shown, now)
        except MaiaError as problem:
            raise BrokerNotTrusted(
                f"`{peer}` has not shown a right to connect to `{settings.network.name}`: {problem.message}"
            ) from problem
