"""B9 over real sockets: a board in the control room shows what is, before it shows what changes."""

from __future__ import annotations

from maia.testing import in_a_loop, soon
from maia.testing.refusals import raises
from support.live import STORY, city

CAMERA, BILLING = "camera at Victoria", "billing office"


async def plates(subscription, count: int) -> list[object]:
    return [(await soon(anext(subscription)))["numberplate"] for _ in range(count)]


@in_a_loop
async def test_a_latecomer_begins_with_the_last_publication_and_goes_on_with_news():
    async with city(CAMERA, BILLING) as (_, camera, billing):
        cars = await camera.advertise(STORY.definition)
        for plate in ("LC04 ABC", "AE05 XYZ"):
            await cars.publish(numberplate=plate)
            await cars.flush()
        board = await billing.subscribe(STORY.definition, state=True)
        assert await board.state_known()
        assert await plates(board, 1) == ["AE05 XYZ"]
        await cars.publish(numberplate="LC04 ABC")
        assert await plates(board, 1) == ["LC04 ABC"]


@in_a_loop
async def test_no_client_publishes_and_the_board_knows_that_it_is_empty():
    async with city(BILLING) as (_, billing):
        board = await billing.subscribe(STORY.definition, state=True)
        assert await board.state_known()
        assert await board.some(1, timeout_s=0.05) == []


@in_a_loop
async def test_a_subscription_either_goes_on_or_begins_with_the_state():
    async with city(BILLING) as (_, billing):
        with raises("INPUT-STATE-AND-DURABLE"):
            await billing.subscribe(STORY.definition, state=True, durable="board")
