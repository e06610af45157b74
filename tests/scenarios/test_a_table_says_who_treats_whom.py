"""X3: conditions over stored data. Who treats whom is in the ward's database, and a right ends with its row.

The domain's server reads the fact `treats` by a declared query with parameters, in a transaction that cannot
write. It would read it again in an hour: that a row is gone takes effect because the database notifies. A
database that is gone for longer than the stated age says nothing, so that no right depends on it any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import psycopg

from maia.broker import BrokerSettings
from maia.broker.server.server import run_broker
from maia.client.api.client import Client
from maia.client.api.publisher import Publisher
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.config.row_sources import PostgresSource
from maia.credentials import NetworkName
from maia.credentials.appointments import ParameterKind
from maia.domain.access.results import Wallet
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, FactConfig, PreparedAccess
from maia.domain.server.statement_stream import DomainIdentity
from maia.errors import MaiaError
from maia.events import Instant
from maia.testing import in_a_loop, until
from maia.testing.refusals import raises
from support.domain_server import RecordedNotes
from support.homecare import (
    CLINIC,
    DEFINITIONS,
    DOCTOR,
    HOSPITAL,
    NETWORK,
    POLICY,
    PRESCRIBE,
    SENSOR,
    certificates,
    connected,
)
from support.postgres import postgres_binaries, running_server

QUERY = "SELECT doctor, patient FROM treats WHERE ward = %(ward)s AND since < now()"
KINDS = (ParameterKind.STRING, ParameterKind.STRING)
TABLE = """
CREATE TABLE treats (ward text, doctor text, patient text, since timestamptz DEFAULT '2020-01-01');
CREATE FUNCTION changed() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN NOTIFY "treats changed"; RETURN NULL; END $$;
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON treats EXECUTE FUNCTION changed();
INSERT INTO treats VALUES ('A4', 'dr brown', 'Ann'), ('A4', 'dr brown', 'Bob'), ('B1', 'dr brown', 'Eve');
"""


class Ward:
    """The ward's own database."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.change(TABLE)

    def change(self, statement: str) -> None:
        with psycopg.connect(self.address, autocommit=True) as session:
            session.execute(statement)

    def discharge(self, patient: str) -> None:
        self.change(f"DELETE FROM treats WHERE patient = '{patient}'")

    def kill(self) -> None:
        """End the server process at once."""
        folder = dict(word.split("=") for word in self.address.split())["host"]
        os.kill(int((Path(folder) / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)


@contextmanager
def ward():
    with running_server(postgres_binaries()) as address:
        yield Ward(address)


@asynccontextmanager
async def hospital(
    folder: Path, address: str, *, every_s: int, stale_s: int
) -> AsyncIterator[tuple[Subscription, Publisher, RecordedNotes]]:
    """Run the domain and a broker; yield what a doctor receives, what a sensor publishes, and the notes."""
    treats = FactConfig(
        name="treats", source="postgresql", kinds=KINDS, every_s=every_s, stale_s=stale_s,
        url=address, query=QUERY,
        parameters={"ward": "A4"}, listen="treats changed", timeout_s=5,
    )  # fmt: skip
    (folder / "hospital.policy").write_text(POLICY)
    notes = RecordedNotes()
    async with AsyncExitStack() as stack:
        network = NetworkName(HOSPITAL.principal, NETWORK)
        settings = BrokerSettings(network, "127.0.0.1:0", certificates())
        broker = await stack.enter_async_context(run_broker(CLINIC, settings))
        config = AccessConfig(
            api_listen="127.0.0.1:0",
            broker_addresses=(broker.address,),
            broker_carry_s=120,
            policy_file=folder / "hospital.policy",
            statements_period_s=86_400,
            facts=(treats,),
        )
        prepared = PreparedAccess(config, types=DEFINITIONS)
        identity = DomainIdentity(HOSPITAL, network, ())
        domain = await stack.enter_async_context(
            access_running(prepared, identity, data=folder, records=notes)
        )
        wallet = await logged_in(domain)
        sensor: Client = await stack.enter_async_context(connected(SENSOR, broker.address))
        doctor = await stack.enter_async_context(
            connected(DOCTOR, broker.address, wallet.chains, statements=wallet.statements)
        )
        yield await doctor.subscribe(PRESCRIBE), await sensor.advertise(PRESCRIBE), notes


async def logged_in(domain: RunningAccess) -> Wallet:
    """Log the doctor in as soon as her patients are known."""
    now = system_now()
    await domain.service.ask(
        lambda access: access.assert_fact(
            "licensed", [DOCTOR.principal, "dr brown"], actor=HOSPITAL.principal, now=now
        )
    )
    async with asyncio.timeout(120):
        while True:
            moment = system_now()
            wallet: Wallet = await domain.service.ask(
                lambda access, at=moment: access.login(  # type: ignore[misc]
                    DOCTOR.principal, (), actor=DOCTOR.principal, now=at
                )
            )
            if len(wallet.chains) >= 2:
                return wallet
            await asyncio.sleep(0.05)


async def prescribe(written: Publisher, *patients: str) -> None:
    for patient in patients:
        await written.publish(patient=patient, drug="codeine", drug_class="B", at=Instant(0))
    await written.flush()


async def ended(subscription: Subscription) -> str:
    """Return the code with which a subscription ends."""
    try:
        async with asyncio.timeout(120):
            async for _ in subscription:
                pass
    except MaiaError as problem:
        return problem.code
    return "it was closed"


@in_a_loop
async def test_a_row_that_is_deleted_ends_the_right_at_once(tmp_path: Path):
    """Nothing reads the table again within the hour but a notification."""
    with ward() as database:
        async with hospital(tmp_path, database.address, every_s=3600, stale_s=7200) as (seen, written, _):
            await prescribe(written, "Eve", "Ann", "Bob")
            async with asyncio.timeout(120):
                assert [(await anext(seen))["patient"] for _ in range(2)] == ["Ann", "Bob"]
                await asyncio.to_thread(database.discharge, "Ann")
                received = {"Ann"}
                while "Ann" in received:
                    await prescribe(written, "Ann", "Bob")
                    received = {(await anext(seen))["patient"]}
                    if "Ann" in received:
                        assert (await anext(seen))["patient"] == "Bob"
            await asyncio.to_thread(database.discharge, "Bob")
            assert (await ended(seen)).startswith("POLICY-")


@in_a_loop
async def test_a_database_that_is_gone_grants_nothing_beyond_the_stated_age(tmp_path: Path):
    """Unknown, therefore no: the server of the database is killed while a doctor reads."""
    with ward() as database:
        async with hospital(tmp_path, database.address, every_s=1, stale_s=15) as (seen, written, notes):
            await prescribe(written, "Ann")
            async with asyncio.timeout(120):
                assert (await anext(seen))["patient"] == "Ann"
            database.kill()
            assert (await ended(seen)).startswith("POLICY-")
            lost = ("failed", {"fact": "treats", "why": "too old, and lost"})
            await until(lambda: lost in notes.notes, "the operator reads why")


def test_a_query_takes_no_longer_and_splices_nothing(postgres_server: str):
    """A72: a parameter is a value, whatever it looks like; limits hold also if the server hangs."""
    hostile = "A4' OR true; DROP TABLE x; --"
    parameters = {"ward": hostile, "number": 7, "is": True}
    query = "SELECT %(ward)s, (%(number)s::int + 1)::text || (%(is)s)::text"
    found = PostgresSource(postgres_server, query, KINDS, parameters).read()
    assert found == [(hostile, "8true")]
    slow = "SELECT 'a', pg_sleep(60)::text"
    with raises("UNAVAILABLE-FACT-SOURCE", match="QueryCanceled"):
        PostgresSource(postgres_server, slow, KINDS, timeout_s=1).read()
    stopped: list[int] = []
    is_over = threading.Event()

    def stop_the_backend() -> None:
        asked = (
            "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%FETCH%maia_facts%'"
            " AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(postgres_server, autocommit=True) as session:
            while not stopped and not is_over.wait(0.05):
                stopped.extend(row[0] for row in session.execute(asked).fetchall())
        for process in stopped:
            os.kill(process, signal.SIGSTOP)

    helper = threading.Thread(target=stop_the_backend)
    helper.start()
    try:
        with raises("UNAVAILABLE-FACT-SOURCE") as failed:
            PostgresSource(postgres_server, "SELECT 'a', pg_sleep(61)::text", KINDS, timeout_s=5).read()
    finally:
        is_over.set()
        helper.join()
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    assert stopped, f"the server was stopped while it answered: {failed.value}"
