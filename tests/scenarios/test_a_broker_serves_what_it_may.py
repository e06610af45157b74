"""C16 over real sockets: a broker that may connect serves no type, until it is granted one or opened."""

from __future__ import annotations

from contextlib import AsyncExitStack

from maia.clock import system_now
from maia.credentials import Action
from maia.credentials.brokers import AS_BROKER
from maia.testing import in_a_loop, serving, soon
from maia.testing.refusals import raises
from support.live import STORY, client

CAMERA, BILLING = "camera at Victoria", "billing office"


@in_a_loop
async def test_a_broker_serves_what_it_may_itself_and_all_where_the_network_is_open():
    cast = STORY
    connect = cast.grant("PITO", "CCS", cast.network, *AS_BROKER)
    both = cast.grant("PITO", "CCS", cast.definition, Action.PUBLISH, Action.SUBSCRIBE)
    opened = cast.grant("PITO", "CCS", cast.network, *AS_BROKER, Action.SERVE)
    async with AsyncExitStack() as stack:

        async def broker(*held):
            running = await stack.enter_async_context(serving(cast, "CCS", credentials=held))
            camera, billing = [
                await stack.enter_async_context(client(one, running.address)) for one in (CAMERA, BILLING)
            ]
            return running, camera, billing

        closed, camera, billing = await broker(connect)
        with raises("BROKER-HAS-NO-RIGHT", match="maia cert issue --subject"):
            await billing.subscribe(cast.definition)
        with raises("BROKER-HAS-NO-RIGHT", match="to publish"):
            await camera.advertise(cast.definition)
        status = closed.status()
        assert (status["types"], status["requests_remembered"]) == (0, 0)
        assert status["serves"] == "types that it has a right to itself"

        for held in ((connect, both), (opened,)):
            running, camera, billing = await broker(*held)
            bills = await billing.subscribe(cast.definition)
            cars = await camera.advertise(cast.definition)
            await cars.publish(numberplate="AE05 XYZ", timestamp=system_now(), location="Victoria")
            assert (await soon(anext(bills)))["numberplate"] == "AE05 XYZ"
        assert running.status()["serves"] == "all types: the coordinator has opened the network to it"
