"""A real domain is asked at the locations that its certificates name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from maia.api.tester_calls import BadLocation, Location, location_from_text
from maia.api.testers import answer_one_time, fresh_until, with_fetched
from maia.client.api.wallet_watch import bringing_statements, following
from maia.clock import system_now
from maia.credentials import SignedCertificate, SignedStatement
from maia.errors import MaiaError
from maia.events import Instant
from maia.keystore.wallet_folder import KeptWallet, WalletFolder
from maia.validity import Monitor, OpenQuestions, Revalidated, lacking
from support.domain_server import DomainAtWork, key_of
from support.fetching import fetch_statements
from support.tested_rights import domain_with_locations, logged_in, rights_of, take_back

SMITH = key_of("smith")
REQUEST = bytes(range(32))


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_with_locations(tmp_path_factory.mktemp("met")) as found:
        yield found


def rights(met: DomainAtWork) -> dict[str, SignedCertificate]:
    return rights_of(logged_in(met))


def standing_after(statements: tuple[SignedStatement, ...]) -> Monitor:
    heard = Monitor()
    for one in statements:
        heard.receive(one, system_now())
    return heard


def asked_once(met: DomainAtWork, right: SignedCertificate) -> Revalidated:
    questions, now = OpenQuestions(), system_now()
    question = questions.ask(right.id, met.key.principal, request=REQUEST, nonce=os.urandom(32), now=now)
    answer = asyncio.run(answer_one_time(question, right, SMITH))
    return questions.redeem(answer, system_now())


def test_a_certificate_that_nobody_vouches_for_is_vouched_for_by_what_is_fetched(met: DomainAtWork) -> None:
    right, now = rights(met)["timed-crl"], system_now()
    assert lacking(Monitor(), [right], now) == (right,)
    found = asyncio.run(fetch_statements([right], now=now))
    assert lacking(Monitor.of(found, now), [right], now) == ()
    ends = fresh_until([right], found, now=now)
    assert ends is not None
    assert ends >= now


def test_a_revocation_is_heard_by_whoever_asks_again(met: DomainAtWork) -> None:
    right = rights(met)["timed-crl"]
    take_back(met, right)
    heard = standing_after(asyncio.run(fetch_statements([right], now=system_now())))
    problem = heard.check(right, system_now())
    assert problem is not None
    assert problem.code == "CREDENTIAL-REVOKED"


def test_a_one_time_answer_is_accepted_by_the_verifier_that_asked(met: DomainAtWork) -> None:
    right = rights(met)["one-time"]
    assert asked_once(met, right).spend(REQUEST) == (right.id, met.key.principal)


def test_a_domain_does_not_vouch_for_what_it_took_back(met: DomainAtWork) -> None:
    """A30: the answer for one request says nothing about the next."""
    right = rights(met)["one-time"]
    asked_once(met, right)
    take_back(met, right)
    with pytest.raises(MaiaError) as refused:
        asked_once(met, right)
    assert refused.value.code == "CREDENTIAL-REVOKED"


def test_who_lacks_nothing_keeps_what_it_has(met: DomainAtWork) -> None:
    right, now = rights(met)["timed-crl"], system_now()
    found = asyncio.run(with_fetched([right], now=now, within_s=60))
    assert found
    assert asyncio.run(with_fetched([right], found, now=now)) == found


@dataclass
class Shown:
    """A client that takes note of what it is to show."""

    statements: list[SignedStatement] = field(default_factory=list)

    def _now(self) -> Instant:
        return system_now()

    async def show(self, _certificates: object, statements: list[SignedStatement]) -> None:
        self.statements += statements


def test_certificates_that_a_login_brings_are_shown_with_statements_that_were_fetched(
    met: DomainAtWork, tmp_path: Path
) -> None:
    wallet, client = WalletFolder(tmp_path / "w"), Shown()
    without = msgspec.structs.replace(logged_in(met), statements=[])

    async def follow() -> None:
        wallet.keep(without, domain=met.key.principal, address=met.address, now=system_now())
        async with (
            following(client, wallet, shown=KeptWallet(), every_s=0.05),  # type: ignore[arg-type]
            asyncio.timeout(180),
        ):
            while not client.statements:
                await asyncio.sleep(0.05)

    asyncio.run(follow())
    heard = standing_after(tuple(client.statements))
    assert any(heard.check(one, system_now()) is None for one in wallet.read().certificates)


def test_a_client_begins_without_waiting_for_testers_and_shows_what_they_say(met: DomainAtWork) -> None:
    right, client = rights(met)["timed-crl"], Shown()

    async def begin() -> None:
        async with bringing_statements(client, (right,), ()), asyncio.timeout(180):  # type: ignore[arg-type]
            assert client.statements == []
            while not client.statements:
                await asyncio.sleep(0.05)

    asyncio.run(begin())
    assert standing_after(tuple(client.statements)).check(right, system_now()) is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("https://127.0.0.1:7600/v1/statements", Location("127.0.0.1", 7600)),
        ("https://met.example/v1/statements", Location("met.example", 443)),
        ("https://[::1]:7600/v1/statements", Location("::1", 7600)),
    ],
)
def test_a_location_is_read_as_it_is_written(text: str, where: Location) -> None:
    assert location_from_text(text) == where
    assert where.address in {"127.0.0.1:7600", "met.example:443", "[::1]:7600"}


def test_a_location_that_is_none_is_shown_and_shortened() -> None:
    with pytest.raises(BadLocation, match="is not a location"):
        location_from_text("https://" + "x" * 1000)
