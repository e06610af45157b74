"""A client asks for pushed certificates, which names its key, only where its key is no secret anyway."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from maia.client.api import pushed_certificates
from maia.client.api.pushed_certificates import follow_issuers
from maia.errors import Unavailable
from maia.testing import in_a_loop
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
