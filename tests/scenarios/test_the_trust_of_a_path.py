"""The trust of a path is computed from its routers, and subscriptions can require it (Gismo 5)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace

from maia.broker.server.server import RunningBroker, run_broker
from maia.clock import system_now
from maia.credentials import SigningKey
from maia.credentials.identity import TPM_ATTRIBUTE, Identity, IdentityTrust, SignedIdentity, issue_identity
from maia.credentials.requirements import parse_requirement
from maia.events import SECOND, Instant
from maia.testing import in_a_loop, soon, until
from maia.testing.refusals import raises
from support.live import BROKER, STORY, client, settings
from support.two_message import COMMUNITY, NORWAY

CAMERA, BILLING, SMITH = "camera at Victoria", "billing office", "Detective Smith"
HERE, THERE = STORY.keys[BROKER], SigningKey.from_seed(b"\x7b" * 32)
TRUST = IdentityTrust(COMMUNITY, frozenset({NORWAY.principal}))


def router(key: SigningKey, level: int) -> SignedIdentity:
    now = Instant(system_now() // SECOND * SECOND)
    by, ends = NORWAY.principal, Instant(now + 3600 * SECOND)
    attributes = {TPM_ATTRIBUTE: level} if level else {}
    return issue_identity(Identity(by, COMMUNITY, key.principal, "router", attributes, now, ends, by), NORWAY)


def show(broker: RunningBroker, statement: SignedIdentity) -> None:
    """Renew a router's own statement, as its file would be."""
    broker.runner.perform(broker.broker.identify(statement, broker.clock()))


@in_a_loop
async def test_a_subscription_requires_a_level_of_every_router_on_the_way():
    """I12: a router that loses its level ends the delivery with the next frame; proved again, it goes on."""
    async with AsyncExitStack() as stack:
        trusted = {"identity": TRUST, "paths": True}
        here = await stack.enter_async_context(run_broker(HERE, replace(settings(), **trusted)))
        shown = (STORY.broker_right(THERE),)
        there = await stack.enter_async_context(
            run_broker(THERE, replace(settings(credentials=shown, seeds=(here.address,)), **trusted))
        )
        show(here, router(HERE, 2))
        show(there, router(THERE, 3))
        await until(lambda: there.status()["peers"], "the brokers are connected")
        camera = await stack.enter_async_context(client(CAMERA, here.address))
        near = await stack.enter_async_context(client(BILLING, here.address))
        far = await stack.enter_async_context(client(BILLING, there.address))
        strict = await far.subscribe(STORY.definition, requires="path_level >= 2 and path_trust > 0.98")
        short = await far.subscribe(STORY.definition, requires="path_routers <= 1")
        every = await far.subscribe(STORY.definition)
        local = await near.subscribe(STORY.definition, requires="path_routers <= 1 and path_level >= 2")
        cars = await camera.advertise(STORY.definition)

        async def seen(plate: str) -> None:
            await cars.publish(numberplate=plate)
            assert (await soon(anext(every)))["numberplate"] == plate

        await seen("FIRST")
        assert (await soon(anext(strict)))["numberplate"] == "FIRST"
        assert (await soon(anext(local)))["numberplate"] == "FIRST"
        show(here, router(HERE, 0))  # it has booted something else
        await seen("SECOND")
        show(here, router(HERE, 2))
        await seen("THIRD")
        assert (await soon(anext(strict)))["numberplate"] == "THIRD"
        assert short.waiting == 0
        with raises("INPUT-REQUIREMENT", match="part of its own"):
            parse_requirement('path_level >= 2 or nationality == "uk"')
