"""N8 over real sockets: readers of a super-type, live, durable, with the state, and a consent taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from maia.broker import RecordingSettings
from maia.broker.server.log_recording import LogRecorder
from maia.broker.server.server import RunningBroker, run_broker
from maia.clock import system_now
from maia.credentials import SigningKey, TestKind, statement_to_bytes
from maia.log.disk.event_log import EventLog
from maia.net.observer import QuietRecords
from maia.net.stores import FolderStore
from maia.testing import Statements, broker_settings, in_a_loop, serving, soon
from maia.types import validity_definition
from support.live import BROKER, client
from support.numberplate import tell_numberplate_story
from support.sub_types import SECRET_FEE, rights_without, tell_of_sub_types

STORY = tell_numberplate_story(b"sub-types over sockets", now=system_now())
WORLD = tell_of_sub_types(STORY, test=TestKind.CRL)
CAMERA, BILLING, PITO = "camera at Victoria", "billing office", "PITO"
OTHER = SigningKey.from_seed(b"\x77" * 32)


@asynccontextmanager
async def two_brokers(folder: Path) -> AsyncIterator[tuple[RunningBroker, RunningBroker]]:
    """Run a broker, and one that joined it and records."""
    async with AsyncExitStack() as stack:
        log = stack.enter_context(EventLog.open(folder / "log"))
        recorder = LogRecorder(log, clock=system_now, records=QuietRecords())
        first = await stack.enter_async_context(serving(STORY, BROKER))
        connects = (STORY.broker_right(OTHER),)
        joined = broker_settings(
            STORY, credentials=connects, seeds=(first.address,), recording=RecordingSettings()
        )
        second = await stack.enter_async_context(
            run_broker(OTHER, joined, store=FolderStore(folder / "kept"), recorder=recorder)
        )
        yield first, second


def camera(address: str):
    """Connect a camera that may publish the sub-type and nothing else."""
    name = STORY.type_name.name
    return client(CAMERA, address, story=STORY, credentials=rights_without(WORLD, CAMERA, name), types=[])


@in_a_loop
async def test_readers_of_the_super_type_see_sub_types_live_later_and_as_the_present_state(tmp_path: Path):
    async with two_brokers(tmp_path) as (here, there), AsyncExitStack() as stack:
        pito = await stack.enter_async_context(client(PITO, here.address, story=STORY))
        statements = await pito.advertise(validity_definition(STORY.keys[PITO]))
        says = Statements(STORY.keys[PITO])
        await state(statements, says.list_now())

        billing = await stack.enter_async_context(client(BILLING, there.address, story=STORY))
        durable = await billing.subscribe(STORY.definition, durable="nightly")
        publishing = await stack.enter_async_context(camera(here.address))
        charges = await publishing.advertise(WORLD.charge)
        live = await billing.subscribe(STORY.definition)
        seen: list[object] = []
        number = 0
        while not seen:  # until interests and offers have met
            number += 1
            await charges.publish(numberplate=f"P{number}", timestamp=system_now(), fee=SECRET_FEE)
            await charges.flush()
            seen += await live.some(1, timeout_s=0.2)
        event = seen[0]
        assert set(event) == {"numberplate", "timestamp", "location"}
        taken = await durable.some(1, timeout_s=60)
        assert taken[0]["numberplate"] == event["numberplate"]

        board = await billing.subscribe(STORY.definition, state=True)
        assert await soon(board.state_known())
        assert (await soon(anext(board)))["numberplate"] == f"P{number}"

        await state(statements, says.revoke(WORLD.consents["CCS"]))
        await charges.publish(numberplate="AFTER", timestamp=system_now(), fee=SECRET_FEE)
        await charges.flush()
        below = await billing_of(stack, there.address)
        while not (rows := await below.some(1, timeout_s=0.2)):
            await charges.publish(numberplate="STILL", timestamp=system_now(), fee=SECRET_FEE)
            await charges.flush()
        assert rows[0]["fee"] == SECRET_FEE
        late = [one["numberplate"] for one in await live.some(1000, timeout_s=0.5)]
        assert not {"AFTER", "STILL"}.intersection(late)


async def billing_of(stack: AsyncExitStack, address: str):
    """Subscribe somebody to the sub-type."""
    office = client(BILLING, address, story=STORY, credentials=WORLD.certificates, types=[WORLD.charge])
    return await (await stack.enter_async_context(office)).subscribe(WORLD.charge)


async def state(publisher, signed) -> None:
    """Publish a statement and wait until the broker has taken it on."""
    await publisher.publish(statement=statement_to_bytes(signed))
    await publisher.flush()
