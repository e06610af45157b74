"""A domain and its broker: statements that are carried, brokers that are away, facts that are published."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import wraps
from pathlib import Path

import maia
from maia.broker import BrokerSettings
from maia.broker.server.server import run_broker
from maia.client.api.subscription import Subscription
from maia.clock import system_now
from maia.credentials import (
    FIRST_VERSION,
    Action,
    Principal,
    SignedCertificate,
    TypeName,
    Validity,
)
from maia.credentials.appointments import ParameterKind
from maia.credentials.statements import StatementOld, statement_from_bytes
from maia.domain.access.service import AccessControl
from maia.domain.server.access import RunningAccess, access_running
from maia.domain.server.access_config import AccessConfig, PreparedAccess, StreamOfFacts
from maia.domain.server.background import push_credentials
from maia.domain.server.statement_stream import DomainIdentity, StatementStream
from maia.domain.storage.store import sqlite_store
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.keystore.wallet_folder import WalletFolder
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence
from maia.testing import free_ports
from maia.types import TypeDefinition, sign_definition, validity_definition
from maia.validity import Monitor
from support.domain_server import RecordedNotes, key_of
from support.met_town import MET, NETWORK, may

BROKER, SMITH = key_of("broker"), key_of("smith")
DAY = 86_400 * 1_000_000
PATIENCE_S = 180


def in_a_loop(test: Callable[[Path], Coroutine[None, None, None]]) -> Callable[[Path], None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(test(tmp_path))

    return run


def may_connect(who: Principal) -> SignedCertificate:
    return may(who, Action.CONNECT)


def broker(port: int) -> object:
    settings = BrokerSettings(NETWORK, f"127.0.0.1:{port}", (may(BROKER.principal, Action.BROKER),))
    return run_broker(BROKER, settings)


def reader(port: int) -> object:
    return maia.connect(
        f"127.0.0.1:{port}", key=SMITH, network=NETWORK, credentials=[may_connect(SMITH.principal)]
    )


@asynccontextmanager
async def domain(data: Path, port: int, *, carry_s: int = 3, **more: object) -> AsyncIterator[RunningAccess]:
    config = AccessConfig(
        api_listen="127.0.0.1:0",
        broker_addresses=(f"127.0.0.1:{port}",),
        broker_carry_s=carry_s,
    )
    prepared = PreparedAccess(config, **more)  # type: ignore[arg-type]
    identity = DomainIdentity(MET, NETWORK, ())
    async with access_running(prepared, identity, data=data, records=RecordedNotes()) as running:
        yield running


async def revoke_something(running: RunningAccess) -> tuple[bytes, bool]:
    """Appoint somebody, take it back, and return the id and whether a broker has acted on it."""
    now, actor = system_now(), MET.principal

    def appoint(access: AccessControl) -> bytes:
        valid = Validity(None, Instant(now - now % 1_000_000 + DAY))
        return access.appoint(SMITH.principal, "licence", ("car",), valid, actor=actor, now=now).id

    given = await running.service.ask(appoint)
    _, is_known = await running.service.take_away(
        lambda access: access.revoke_appointment(given, "lost", actor=actor, now=system_now())
    )
    return given, is_known


async def heard_that(subscription: Subscription, revoked: bytes) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for event in subscription:
            said = statement_from_bytes(bytes(event["statement"])).statement  # type: ignore[arg-type]
            if revoked in getattr(said, "revoked", ()):
                return
    raise AssertionError("the stream ended")


@in_a_loop
async def test_a_revocation_is_on_the_network_when_the_act_returns(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with (
        broker(port),  # type: ignore[attr-defined]
        domain(tmp_path, port, carry_s=PATIENCE_S) as running,
        reader(port) as smith,  # type: ignore[attr-defined]
    ):
        stream = await smith.subscribe(validity_definition(MET))
        revoked, is_known = await revoke_something(running)
        assert is_known
        await heard_that(stream, revoked)


@in_a_loop
async def test_key_groups_hear_of_a_revocation_once_and_before_the_network(tmp_path: Path) -> None:
    told: list[bytes] = []
    prepared = PreparedAccess(
        AccessConfig(api_listen="127.0.0.1:0", statements_period_s=1, statements_lead_s=0)
    )
    identity = DomainIdentity(MET, NETWORK, ())
    async with access_running(
        prepared, identity, data=tmp_path, records=RecordedNotes(), on_revoked=told.extend
    ) as running:
        revoked, _ = await revoke_something(running)
        assert told == [revoked]
        await asyncio.sleep(2.5)  # lists that name it again
        assert told == [revoked]
    told.clear()
    async with access_running(
        prepared, identity, data=tmp_path, records=RecordedNotes(), on_revoked=told.extend
    ):
        async with asyncio.timeout(PATIENCE_S):
            while revoked not in told:  # after a restart, with the first list
                await asyncio.sleep(0.05)


@in_a_loop
async def test_what_no_broker_could_take_on_is_told_to_the_first_that_comes(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    async with domain(tmp_path, port) as running:
        revoked, is_known = await revoke_something(running)
        assert not is_known, "nobody was there, and the caller hears so"
        carrier = running.service.carrier
        assert isinstance(carrier, StatementStream)
        assert carrier._patience_s() < 0.1, "who comes later does not wait for it again and again"
        for _ in range(5):
            _, is_known = await revoke_something(running)
            assert not is_known
        async with broker(port), reader(port) as smith:  # type: ignore[attr-defined]
            stream = await smith.subscribe(validity_definition(MET), state=True)
            await heard_that(stream, revoked)
        async with broker(port), reader(port) as smith:  # type: ignore[attr-defined]
            stream = await smith.subscribe(validity_definition(MET), state=True)
            await heard_that(stream, revoked)


def signs_lists(data: Path, how_many: int) -> None:
    """Let a store of the Met's sign lists while nobody hears them."""
    store = sqlite_store(data / "domain.sqlite")
    access = AccessControl(MET, store)
    for _ in range(how_many):
        now = system_now()
        valid = Validity(None, Instant(now - now % 1_000_000 + DAY))
        given = access.appoint(SMITH.principal, "pass", (), valid, actor=MET.principal, now=now)
        access.revoke_appointment(given.id, "", actor=MET.principal, now=now)
    store.close()


@in_a_loop
async def test_a_store_that_was_put_back_says_nothing_that_brings_a_revoked_certificate_back(
    tmp_path: Path,
) -> None:
    """A39, A82: it has signed higher numbers than the network knows, and hears itself before it says them."""
    (port,) = free_ports(1)
    (tmp_path / "lost").mkdir()
    signs_lists(tmp_path, 9)
    async with broker(port), reader(port) as smith:  # type: ignore[attr-defined]
        async with domain(tmp_path / "lost", port, carry_s=PATIENCE_S) as running:
            revoked, is_known = await revoke_something(running)
            assert is_known
        stream, verifier = await smith.subscribe(validity_definition(MET), state=True), Monitor()
        async with domain(tmp_path, port, carry_s=PATIENCE_S), asyncio.timeout(PATIENCE_S):
            while verifier.sequence_of(MET.principal) <= 9:
                for event in await stream.some(1024):
                    said = statement_from_bytes(bytes(event["statement"]))  # type: ignore[arg-type]
                    with suppress(StatementOld):  # a list that was signed before it heard itself
                        verifier.receive(said, system_now())
                assert revoked in verifier.revoked_by(MET.principal)


ROSTER = sign_definition(
    TypeDefinition(
        TypeName(MET.principal, "Roster", FIRST_VERSION),
        None,
        (
            Attribute("officer", attribute_uid("officer"), Kind.STRING),
            Attribute("present", attribute_uid("present"), Kind.BOOL),
        ),
        (),
    ),
    MET,
)


@in_a_loop
async def test_facts_come_from_a_stream_and_are_lost_with_it(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    told = StreamOfFacts("on_duty", ROSTER, ("officer",), (ParameterKind.PRINCIPAL,), "present", 4)

    async def until(running: RunningAccess, how_many: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len((await running.service.ask(lambda access: access.facts("on_duty"))).rows) != how_many:
                await asyncio.sleep(0.05)

    async with (
        broker(port),  # type: ignore[attr-defined]
        domain(tmp_path, port, streams=(told,)) as running,
        maia.connect(f"127.0.0.1:{port}", key=MET, network=NETWORK) as desk,
    ):
        roster = await desk.advertise(ROSTER)

        async def say_until(how_many: int, **present: bool) -> None:
            """Say it all again and again: facts are lost with a stream that is silent for four seconds."""
            waiting = asyncio.create_task(until(running, how_many))
            while not waiting.done():
                for officer, is_present in present.items():
                    await roster.publish(officer=officer, present=is_present)
                await roster.flush()
                await asyncio.sleep(0.2)
            await waiting

        smith, other, nobody = str(SMITH.principal), str(BROKER.principal), "nobody's key"
        await say_until(1, **{smith: True})
        # What is no key is no fact, and no reason to stop.
        await say_until(2, **{smith: True, nobody: True, other: True})
        await say_until(1, **{smith: False, other: True})
        await until(running, 0)  # silence


@in_a_loop
async def test_the_certificates_of_a_broker_are_kept_fresh_in_its_folder(tmp_path: Path) -> None:
    """P8: what the domain issued to a broker lies in the broker's folder, and goes when it is revoked."""
    folder, (port,) = tmp_path / "broker-certs", free_ports(1)
    given = may_connect(BROKER.principal)
    async with domain(tmp_path, port) as running:
        now, actor = system_now(), MET.principal
        await running.service.ask(lambda access: access.hold([given], actor=actor, now=now))
        pushes = ((BROKER.principal, folder),)

        def kept() -> set[bytes]:
            return {one.id for one in WalletFolder(folder).read().certificates}

        async def pushed_until(holds: Callable[[], bool]) -> None:
            task = asyncio.create_task(push_credentials(pushes, running.service, "x:1", RecordedNotes()))
            async with asyncio.timeout(PATIENCE_S):
                while not holds():
                    await asyncio.sleep(0.05)
            task.cancel()

        await pushed_until(lambda: kept() == {given.id})
        await running.service.ask(lambda access: access.revoke([given.id], "", actor=actor, now=system_now()))
        await pushed_until(lambda: kept() == set())


BROKERS = """
policy "Brokers"
fact ours(who: principal)
role broker()
rule broker()
    while ours(holder)
    for 1 day
grant broker()
    may connect to network "Met" of here
end
"""


@in_a_loop
async def test_a_broker_gets_what_the_policy_grants_it_without_asking(tmp_path: Path) -> None:
    """P8: a role for brokers; the domain issues its right and puts it where the broker reads it."""
    folder, (port,) = tmp_path / "broker-certs", free_ports(1)
    async with domain(tmp_path, port) as running:
        now, actor = system_now(), MET.principal
        await running.service.ask(lambda access: access.load_policy(BROKERS, actor=actor, now=now))
        await running.service.ask(
            lambda access: access.assert_fact("ours", (BROKER.principal,), actor=actor, now=now)
        )
        task = asyncio.create_task(
            push_credentials(((BROKER.principal, folder),), running.service, "x:1", RecordedNotes())
        )
        async with asyncio.timeout(PATIENCE_S):
            while not (folder / "wallet.json").exists():
                await asyncio.sleep(0.05)
        task.cancel()
        kept = WalletFolder(folder).read()
        request = Request(BROKER.principal, Action.CONNECT, NETWORK)
        standing = Monitor()
        for statement in kept.statements:
            standing.receive(statement, system_now())
        found = gather_evidence(request, kept.certificates, at=system_now(), standing=standing)
        assert isinstance(decide(request, found, NO_FACTS, system_now()), Permit)
