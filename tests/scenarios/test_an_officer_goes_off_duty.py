"""E7, P3 over real sockets: the roster is a database, and a condition ends when a row of it does.

The station's server watches the roster. Its list of facts holds for a day,
and no client waits for the next one: the broker of another district receives at
once that an officer is off duty, and that she is on duty again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import RunningBroker, run_broker
from maia.client.api.client import Client
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.credentials import (
    Action,
    SignedCertificate,
    SigningKey,
)
from maia.credentials.appointments import ParameterKind
from maia.domain.access.results import Wallet
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, FactConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import MaiaError
from maia.testing import in_a_loop
from support.domain_server import RecordedNotes, key_of
from support.met_town import MET, NETWORK, may, type_with_a_street

SMITH, JONES, DESK = key_of("smith"), key_of("jones"), key_of("desk")
NOT_MET = "POLICY-CONDITION-NOT-MET"
CALLS = type_with_a_street("Call")
POLICY = """\
policy "Metropolitan Police"
type Call = Call
fact officer(who: principal)
fact on_duty(who: principal)
role patrol()
rule patrol()
    while officer(holder)
    for 1 day
grant patrol()
    may subscribe to Call(street)
    provided on-duty == true
end
"""


class Roster:
    """Another client's database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.change("create table duty (officer text primary key)")

    def change(self, statement: str, *values: str) -> None:
        with sqlite3.connect(self.path) as database:
            database.execute(statement, values)
        database.close()

    def begin(self, who: SigningKey) -> None:
        self.change("insert into duty values (?)", str(who.principal))

    def end(self, who: SigningKey) -> None:
        self.change("delete from duty where officer = ?", str(who.principal))


@dataclass
class Town:
    """Two brokers, the station's server, and a client that connects."""

    west: RunningBroker
    east: RunningBroker
    station: RunningAccess
    roster: Roster
    stack: AsyncExitStack

    async def patrol(self, who: SigningKey) -> Client:
        """Log an officer in and connect her in the east, far from the station."""
        now = system_now()
        wallet: Wallet = await self.station.service.ask(
            lambda access: access.login(who.principal, (), actor=who.principal, now=now)
        )
        return await self.connected(who, self.east, *wallet.chains, statements=wallet.statements)

    async def connected(
        self, who: SigningKey, broker: RunningBroker, *shown: SignedCertificate, **named: object
    ) -> Client:
        connecting = maia.connect(
            broker.address,
            key=who,
            network=NETWORK,
            credentials=[may(who.principal, Action.CONNECT), *shown],
            types=[CALLS],
            **named,  # type: ignore[arg-type]
        )
        return await self.stack.enter_async_context(connecting)


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    roster = Roster(folder / "roster.sqlite")
    query = FactConfig(
        name="on_duty", source="sqlite", kinds=(ParameterKind.PRINCIPAL,), every_s=1, stale_s=3600,
        path=roster.path, query="select officer from duty",
    )  # fmt: skip
    (folder / "met.policy").write_text(POLICY)
    async with AsyncExitStack() as stack:
        brokers: list[RunningBroker] = []
        for name in ("west", "east"):
            key = key_of(name)
            settings = BrokerSettings(NETWORK, "127.0.0.1:0", (may(key.principal, Action.BROKER),))
            settings = replace(settings, seeds=tuple(one.address for one in brokers))
            brokers.append(await stack.enter_async_context(run_broker(key, settings)))
        west, east = brokers
        config = AccessConfig(
            api_listen="127.0.0.1:0",
            broker_addresses=(west.address,),
            broker_carry_s=120,
            policy_file=folder / "met.policy",
            statements_period_s=86_400,
            facts=(query,),
        )
        identity = DomainIdentity(MET, NETWORK, ())
        prepared = PreparedAccess(config, types=(CALLS,))
        station = await stack.enter_async_context(
            access_running(prepared, identity, data=folder, records=RecordedNotes())
        )
        for who in (SMITH, JONES):
            fact, now = [who.principal], system_now()
            await station.service.ask(
                lambda access, fact=fact, now=now: access.assert_fact(  # type: ignore[misc]
                    "officer", fact, actor=MET.principal, now=now
                )
            )
        yield Town(west, east, station, roster, stack)


async def listening(client: Client) -> Subscription:
    """Subscribe as soon as the broker has received that the officer is on duty."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await client.subscribe(CALLS)
            except MaiaError as problem:
                if problem.code != NOT_MET:
                    raise
            await asyncio.sleep(0.05)


async def ended(subscription: Subscription) -> tuple[str, list[object]]:
    """Return the code with which a subscription ends, and what came before."""
    streets: list[object] = []
    try:
        async with asyncio.timeout(120):
            async for event in subscription:
                streets.append(event["street"])
    except MaiaError as problem:
        return problem.code, streets
    return "it was closed", streets


@in_a_loop
async def test_a_row_of_the_roster_ends_a_subscription_at_another_broker(tmp_path: Path) -> None:
    async with town(tmp_path) as here:
        for who in (SMITH, JONES):
            here.roster.begin(who)
        desk = await here.connected(MET, here.west)
        calls = await desk.advertise(CALLS)
        smith, jones = await here.patrol(SMITH), await here.patrol(JONES)
        smiths, jones_hears = await listening(smith), await listening(jones)
        await calls.publish(street="Brick Lane")
        await calls.flush()
        async with asyncio.timeout(120):
            assert (await anext(jones_hears))["street"] == "Brick Lane"

        here.roster.end(SMITH)
        assert await ended(smiths) == (NOT_MET, ["Brick Lane"])
        with pytest.raises(MaiaError, match="condition"):
            await smith.subscribe(CALLS)
        await calls.publish(street="Commercial Street")
        await calls.flush()
        async with asyncio.timeout(120):
            assert (await anext(jones_hears))["street"] == "Commercial Street"

        here.roster.begin(SMITH)
        again = await listening(smith)  # and not a day later, when the list ends
        await calls.publish(street="Fashion Street")
        async with asyncio.timeout(120):
            assert (await anext(again))["street"] == "Fashion Street"


@in_a_loop
async def test_no_call_is_delivered_after_the_act_that_ends_the_duty_has_returned(tmp_path: Path) -> None:
    """The officer's own broker carries the station's statements: when the act returns, it has acted."""
    async with town(tmp_path) as here:
        here.roster.begin(SMITH)
        desk = await here.connected(MET, here.west)
        calls = await desk.advertise(CALLS)
        here.east = here.west
        smiths = await listening(await here.patrol(SMITH))
        _, is_known = await here.station.service.take_away(
            lambda access: access.replace_facts("on_duty", [], actor=MET.principal, now=system_now())
        )
        assert is_known
        await calls.publish(street="Brick Lane")
        await calls.flush()
        assert await ended(smiths) == (NOT_MET, [])
