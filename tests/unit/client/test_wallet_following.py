"""A client that follows a wallet shows what a login has renewed, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from maia.api.responses import WalletAnswer
from maia.client.api.wallet_watch import following
from maia.credentials import (
    Action,
    SignedCertificate,
    TopicPattern,
    Validity,
    certificate_to_bytes,
    parse_name_pattern,
)
from maia.credentials.statements import SignedStatement
from maia.errors import Unavailable
from maia.events import Instant
from maia.keystore.wallet_folder import KeptWallet, WalletFolder
from maia.testing import grant, in_a_loop, until
from support.domain_server import key_of

MET, SMITH = key_of("met"), key_of("smith")
NOW = Instant.parse("2026-11-15T12:00:00Z")


def right(topic: str) -> SignedCertificate:
    return grant(
        MET,
        SMITH,
        TopicPattern(MET.principal, parse_name_pattern(topic)),
        Action.SUBSCRIBE,
        validity=Validity(None, Instant(NOW + 10**12)),
    )


def log_in(wallet: WalletFolder, *rights: SignedCertificate) -> None:
    found = WalletAnswer(
        str(SMITH.principal), [], [], [certificate_to_bytes(one) for one in rights], [], None
    )
    wallet.keep(found, domain=MET.principal, address="127.0.0.1:7600", now=NOW)


@dataclass
class FakeClient:
    """Takes note of what it is to show; fails the first time."""

    shown: list[bytes] = field(default_factory=list)
    calls: int = 0

    def _now(self) -> Instant:
        return NOW

    async def show(self, certificates: list[SignedCertificate], _statements: list[SignedStatement]) -> None:
        self.calls += 1
        if self.calls == 1:
            raise Unavailable("the broker is away")
        self.shown += [one.id for one in certificates]


class CountedWallet(WalletFolder):
    """Counts how often somebody has looked into it, whole."""

    looks = 0

    def read(self) -> KeptWallet:
        found = super().read()
        self.looks += 1
        return found


@pytest.mark.parametrize("is_connecting", [True, False])
@in_a_loop
async def test_what_is_new_is_shown_once_and_again_only_if_it_could_not_be(
    tmp_path: Path, is_connecting: bool
) -> None:
    """The login renews while the client is still connecting, or later."""
    wallet, client, old, new = CountedWallet(tmp_path / "w"), FakeClient(), right("/a"), right("/b")
    log_in(wallet, old)
    shown = wallet.read()
    if is_connecting:
        log_in(wallet, old, new)
    async with following(client, wallet, shown=shown, every_s=0.01):  # type: ignore[arg-type]
        await until(lambda: is_connecting or wallet.looks >= 3, "some looks")
        log_in(wallet, old, new)
        await until(lambda: client.shown, "what is new to be shown")
        looked = wallet.looks
        await until(lambda: wallet.looks >= looked + 3, "more looks")
    assert client.shown == [new.id]
    assert client.calls == 2
