"""A driver that is a client of a real broker hears what a real domain takes back, as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import run_broker
from maia.clock import system_now
from maia.credentials import (
    Action,
    NetworkName,
    NetworkPattern,
    Principal,
    SignedCertificate,
    Validity,
    exact_name,
)
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import Refusal
from maia.events import Instant
from maia.policy import GrantStale
from maia.spark.governed.reader import Reader, slices_of
from maia.spark.governed.right_watch import HeldRight, RightWatch, follow_streams, right_watch
from maia.spark.keys.key_server import JobDesk, job_desk
from maia.testing import free_port, grant
from maia.types import verify_definition
from support.domain_server import RecordedNotes, key_of
from support.governed import asked
from support.tested_rights import NUMBERPLATE, POLICY

MET, BROKER, CLARK = key_of("met"), key_of("broker"), key_of("clark")
NETWORK = NetworkName(MET.principal, "Test")
TYPE = verify_definition(NUMBERPLATE, at=system_now())
DAY = 86_400 * 1_000_000
PATIENCE_S = 120


def may_connect(who: Principal, *as_broker: Action) -> SignedCertificate:
    now = system_now()
    start = Instant(now - now % 1_000_000 - 1_000_000)
    return grant(
        MET,
        who,
        NetworkPattern(MET.principal, exact_name("Test")),
        Action.CONNECT,
        Action.SERVE,
        *as_broker,
        validity=Validity(start, Instant(start + DAY)),
    )


@asynccontextmanager
async def domain(data: Path, broker: str) -> AsyncIterator[RunningAccess]:
    """Run a domain that states on a broker; clark is a clerk of it."""
    config = AccessConfig(api_listen="127.0.0.1:0", broker_addresses=(broker,), broker_carry_s=PATIENCE_S)
    identity, actor = DomainIdentity(MET, NETWORK, ()), MET.principal
    async with access_running(
        PreparedAccess(config), identity, data=data, records=RecordedNotes()
    ) as running:
        ask, now = running.service.ask, system_now()
        await ask(lambda access: access.register_type(NUMBERPLATE, actor=actor, now=now))
        await ask(lambda access: access.load_policy(POLICY, actor=actor, now=now))
        await ask(lambda access: access.assert_fact("clerk", (CLARK.principal,), actor=actor, now=now))
        yield running


def held(watch: RightWatch, desk: JobDesk, right: SignedCertificate) -> HeldRight:
    reader = Reader(CLARK.principal, (right,))
    request = asked(reader, TYPE)
    who = watch.tested(reader, request)
    table = HeldRight(
        who,
        (right,),
        slices_of(request, who),
        lambda now: slices_of(request, now),
        desk.open(None, frozenset()),
    )
    watch.begin(table)
    return table


async def held_once_heard(watch: RightWatch, desk: JobDesk, right: SignedCertificate) -> HeldRight:
    """Wait until the driver has heard the list that holds now, and decide the table."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(GrantStale):
                return held(watch, desk, right)
            await asyncio.sleep(0.05)


def stands(table: HeldRight) -> bool:
    try:
        table.grant.keys_of(())
    except Refusal as problem:
        if problem.code != "PIPELINE-GRANT-ENDED":
            raise
        return False
    return True


async def told(tmp_path: Path) -> None:
    settings = BrokerSettings(
        NETWORK, f"127.0.0.1:{free_port()}", (may_connect(BROKER.principal, Action.BROKER),)
    )
    async with (
        run_broker(BROKER, settings) as broker,
        domain(tmp_path, broker.address) as running,
        maia.connect(
            broker.address, key=CLARK, network=NETWORK, credentials=[may_connect(CLARK.principal)]
        ) as client,
    ):
        wallet = await running.service.ask(
            lambda access: access.login(CLARK.principal, (), actor=CLARK.principal, now=system_now())
        )
        (right,) = [one.certificate for one in wallet.issued]
        with job_desk() as desk, right_watch(desk, every_s=3600) as watch:
            follows = asyncio.create_task(follow_streams(client, watch, [MET.principal], again_s=0.1))
            table = await held_once_heard(watch, desk, right)
            assert await asyncio.to_thread(stands, table)
            _, is_known = await running.service.take_away(
                lambda access: access.revoke([right.id], "left", actor=MET.principal, now=system_now())
            )
            assert is_known
            async with asyncio.timeout(PATIENCE_S):
                while watch.ended == 0:
                    await asyncio.sleep(0.05)
            assert not await asyncio.to_thread(stands, table)
            follows.cancel()
            with suppress(asyncio.CancelledError):
                await follows


def test_a_driver_hears_a_revocation_over_the_network(tmp_path: Path) -> None:
    """A44: the broker carries the list to the driver, and the table's grant ends at the desk."""
    asyncio.run(told(tmp_path))
