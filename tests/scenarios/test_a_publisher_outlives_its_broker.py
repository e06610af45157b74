"""A publisher whose broker goes away between two frames goes on when there is one again."""

from __future__ import annotations

import asyncio

from maia.testing import free_port
from support.live import STORY, broker, client

CAMERA = "camera at Victoria"


def test_frames_that_are_given_while_there_is_no_broker_leave_with_the_next_link():
    """Nothing is under way then, so no answer comes that would wake the publisher."""

    async def story() -> None:
        async with asyncio.timeout(180):
            address = f"127.0.0.1:{free_port()}"
            async with broker(listen=address):
                connecting = client(CAMERA, address)
                camera = await connecting.__aenter__()
                cars = await camera.advertise(STORY.definition)
                await cars.publish_many([{"numberplate": "AE1"}])
                await cars.flush()
            waiting = asyncio.create_task(cars.publish_many([{"numberplate": "AE2"}]))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            async with broker(listen=address):
                await waiting
                await cars.flush()
                await connecting.__aexit__(None, None, None)

    asyncio.run(story())
