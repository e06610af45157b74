"""Which certificates does a client ask its issuers for, and which of them does a broker keep?

A client asks for them, which names its key, only where its key is no secret anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from maia.client.api import pushed_certificates
from maia.client.api.pushed_certificates import Take, follow_issuers, receive_into
from maia.credentials import Action
from maia.errors import Unavailable
from maia.testing import Cast, in_a_loop
from maia.testing import key_of as key_called
from support.domain_server import key_of

MET, SMITH = key_of("met"), key_of("smith")
TURNS = 50


@dataclass
class FakeClient:
    """Takes note of what it subscribes to."""

    _has_asked: asyncio.Event = field(default_factory=asyncio.Event)
    _has_asked_sealed: bool = False
    subscribed: list[object] = field(default_factory=list)

    async def subscribe(self, name: object, **_options: object) -> object:
        self.subscribed.append(name)
        raise Unavailable("UNAVAILABLE-TYPE", "there is none")


async def nothing(_found: object) -> None:
    """Take nothing."""


@in_a_loop
@pytest.mark.parametrize("of_a_sealed_type", [False, True], ids=["a plain type", "a sealed type"])
async def test_a_client_names_its_key_for_a_plain_type_alone_however_late_it_asks(
    monkeypatch: pytest.MonkeyPatch, of_a_sealed_type: bool
) -> None:
    monkeypatch.setattr(pushed_certificates, "_FIRST_S", 0)
    client = FakeClient()
    task = asyncio.create_task(follow_issuers(client, SMITH, [MET.principal], nothing))  # type: ignore[arg-type]
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert not client.subscribed
    client._has_asked_sealed = of_a_sealed_type
    client._has_asked.set()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert bool(client.subscribed) is not of_a_sealed_type
    task.cancel()


@in_a_loop
async def test_a_broker_is_made_another_organisations_by_no_push(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A118: a partner that has granted it something makes it a broker of its own, and so is inside."""
    cast = Cast.of("trust", "doctor", of_type="Prescription", drug="string").domain("hospital", "edge")
    partner, key = key_called("audit", cast.seed), cast.keys["edge"]
    invited = cast.grant("trust", partner, cast.network, Action.CONNECT, may_delegate=True)
    granted = cast.grant(partner, key, cast.network, Action.CONNECT)
    held = (*cast.wallets["edge"], invited, granted)
    renewed, made = (
        cast.broker_right(key, by="hospital", may_delegate=False),
        cast.broker_right(key, by=partner),
    )
    asked: list[object] = []

    @asynccontextmanager
    async def to_itself(*_: object, **__: object) -> AsyncIterator[None]:
        yield None

    async def pushed(_client: object, _key: object, issuers: object, take: Take) -> None:
        asked.extend(issuers)  # type: ignore[call-overload]
        await take((invited, made))
        await take((renewed,))

    monkeypatch.setattr(pushed_certificates, "connect", to_itself)
    monkeypatch.setattr(pushed_certificates, "_follow_all", pushed)
    await receive_into(
        tmp_path, "nowhere:1", key=key, network=cast.network, credentials=held, constitutions=()
    )
    assert partner.principal in asked
    kept = {one.name for one in tmp_path.glob("*.cert")}
    assert kept == {f"pushed-{one.id.hex()}.cert" for one in (invited, renewed)}
