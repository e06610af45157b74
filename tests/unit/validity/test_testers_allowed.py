"""A broker fetches statements that it misses where its operator said; clients bring them by themselves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import maia
from maia.api import testers
from maia.api.testers import Fetched, fetching
from maia.broker import BrokerSettings
from maia.broker.server.config import read_config
from maia.broker.server.server import run_broker
from maia.clock import system_now
from maia.config.settings import BadConfig
from maia.credentials import (
    Action,
    Authority,
    NetworkName,
    NetworkPattern,
    OnlineTest,
    Principal,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    TypePattern,
    Validity,
    exact_name,
    period_from,
    sign_statement,
)
from maia.errors import MaiaError
from maia.events import Instant
from maia.testing import free_port, grant
from support.domain_server import RecordedNotes, key_of
from support.lying_location import Place, page_of, place
from support.tested_rights import NUMBERPLATE

MET, BROKER, CLARK = key_of("met"), key_of("broker"), key_of("clark")
NETWORK = NetworkName(MET.principal, "Test")
DAY = 86_400 * 1_000_000
PATIENCE_S, WAITS_IN_VAIN_S = 180, 8


def listed(*revoked: SignedCertificate) -> SignedStatement:
    period = period_from(system_now(), microseconds=DAY)
    return sign_statement(RevocationList(MET.principal, 1, period, frozenset(one.id for one in revoked)), MET)


def granted(authority: Authority, who: Principal, *tests: OnlineTest) -> SignedCertificate:
    now = system_now()
    start = Instant(now - now % 1_000_000 - 1_000_000)
    return grant(MET, who, authority, validity=Validity(start, Instant(start + DAY)).with_tests(*tests))


def may_connect(who: Principal, *as_broker: Action) -> SignedCertificate:
    network = NetworkPattern(MET.principal, exact_name("Test"))
    return granted(Authority(network, frozenset({Action.CONNECT, Action.SERVE, *as_broker})), who)


def may_read(location: str, *, by: SigningKey = MET) -> SignedCertificate:
    name = NUMBERPLATE.definition.name
    authority = Authority(TypePattern(name.owner, exact_name(name.name), None), frozenset({Action.SUBSCRIBE}))
    return granted(authority, CLARK.principal, OnlineTest(TestKind.TIMED_CRL, by.principal, (location,)))


@pytest.fixture
def clients_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients ask nobody by themselves, so that it is the broker that does."""

    async def nothing(_certificates: object, statements: object = (), **_how: object) -> object:
        return statements

    monkeypatch.setattr(testers, "with_fetched", nothing)


async def subscribed(
    right: SignedCertificate,
    *allowed: str,
    wait_s: float = PATIENCE_S,
    notes: list[tuple[str, dict[str, object]]] | None = None,
) -> None:
    """Subscribe at a broker to which nobody shows a statement; what its operator reads goes to `notes`."""
    settings = BrokerSettings(
        NETWORK,
        f"127.0.0.1:{free_port()}",
        (may_connect(BROKER.principal, Action.BROKER),),
        require_install=False,
    )
    records = RecordedNotes([] if notes is None else notes)
    async with run_broker(BROKER, settings) as running:

        async def missed() -> tuple[SignedCertificate, ...]:
            return running.broker.not_vouched_for(running.clock())

        async def hear(found: Fetched) -> None:
            running.runner.perform(running.broker.hear(found.statements, running.clock()))

        async with (
            fetching(
                frozenset(allowed),
                missed=missed,
                hear=hear,
                records=records,
                clock=system_now,
                look_s=0.05,
            ),
            maia.connect(
                running.address,
                key=CLARK,
                network=NETWORK,
                credentials=[may_connect(CLARK.principal), right],
                types=[NUMBERPLATE],
            ) as client,
        ):
            await client.subscribe("Numberplate", timeout_s=wait_s)


@pytest.fixture
def met() -> Iterator[Place]:
    with place(page_of(listed()), key=MET) as found:
        yield found


@pytest.mark.usefixtures("clients_bring_nothing")
def test_what_is_missed_is_fetched_from_an_address_that_the_operator_named(met: Place) -> None:
    asyncio.run(subscribed(may_read(met.location), f"127.0.0.1:{met.port}"))
    assert met.requests


@pytest.mark.usefixtures("clients_bring_nothing")
def test_a_broker_dials_nobody_whom_its_operator_did_not_name(met: Place) -> None:
    """Whoever shows a certificate must not choose where a broker connects."""

    async def refused(*allowed: str) -> str:
        with pytest.raises(MaiaError) as found:
            await subscribed(may_read(met.location), *allowed, wait_s=WAITS_IN_VAIN_S)
        return found.value.code

    async def each() -> list[str]:
        return await asyncio.gather(refused(), refused("127.0.0.1:1"), refused("met.example:443"))

    assert asyncio.run(each()) == ["UNAVAILABLE-STATEMENT-AWAITED"] * 3
    assert met.requests == []


@pytest.mark.usefixtures("clients_bring_nothing")
def test_somebody_else_at_a_named_address_is_not_heard_and_told_to_the_operator() -> None:
    """A39: the address is right, and the key is not the tester's."""
    with place(page_of(listed()), key=key_of("liar")) as liar:
        notes: list[tuple[str, dict[str, object]]] = []
        with pytest.raises(MaiaError) as refused:
            asyncio.run(
                subscribed(
                    may_read(liar.location), f"127.0.0.1:{liar.port}", wait_s=WAITS_IN_VAIN_S, notes=notes
                )
            )
        assert refused.value.code == "UNAVAILABLE-STATEMENT-AWAITED"
        assert liar.requests == []
    unheard = [fields for event, fields in notes if event == "unheard"]
    assert unheard[0] == {"issuer": str(MET.principal), "code": "CREDENTIAL-ANOTHER-DOMAIN"}


@pytest.mark.usefixtures("clients_bring_nothing")
def test_a_revocation_that_is_fetched_refuses_at_once() -> None:
    """A39: what a broker fetches is the newest word, good or bad."""
    right_at: list[SignedCertificate] = []

    def talk(stream: socket.socket, _found: Place) -> None:
        stream.sendall(page_of(listed(*right_at)))

    with place(talk, key=MET) as met:
        right_at.append(may_read(met.location))
        with pytest.raises(MaiaError) as refused:
            asyncio.run(subscribed(right_at[0], f"127.0.0.1:{met.port}"))
    assert refused.value.code == "POLICY-REVOKED"


def test_a_client_brings_what_its_broker_may_not_fetch(met: Place) -> None:
    """Whoever asks brings the evidence: the wallet, and so the choice of whom to dial, is its own."""
    asyncio.run(subscribed(may_read(met.location)))
    assert met.requests


def test_an_address_is_named_in_the_configuration(tmp_path: Path) -> None:
    said = 'key = "k"\nnetwork = "n"\ncoordinator = "c.pub"\ncredentials = "certs"\n'
    file = tmp_path / "broker.toml"
    file.write_text(said)
    assert read_config(file, flags={}, environment={}).statements_fetch_from == ()
    file.write_text(said + '[statements]\nfetch_from = ["met.example:7600"]\n')
    assert read_config(file, flags={}, environment={}).statements_fetch_from == ("met.example:7600",)
    file.write_text(said + '[statements]\nfetch_from = ["https://met.example/"]\n')
    with pytest.raises(BadConfig, match=r"statements\.fetch_from"):
        read_config(file, flags={}, environment={})
