"""The identity provider of a domain over its real interface: subjects, statements, trust, guests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.clock import system_now
from maia.credentials import Principal, certificate_to_text
from maia.credentials.attestation import Approved, Configuration
from maia.credentials.identity import (
    SignedIdentity,
    identity_from_bytes,
    identity_from_text,
    identity_to_bytes,
    issue_identity,
    verify_identity,
)
from maia.domain.access.service import AccessControl
from maia.domain.access.settings import AccessLimits, AccessSettings
from maia.domain.server.access_config import AccessConfig
from maia.domain.storage.store import memory_store, postgres_store
from maia.errors import MaiaError
from maia.events import SECOND, AttributeUid, Instant
from maia.keystore.key_files import create_key_file
from maia.testing.refusals import raises
from maia.testing.software_tpm import Maker, SoftwareTpm
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.processes import maia

COMMUNITY = "coalition.north"
START = Instant.parse("2026-11-16T08:00:00Z")


class SetClock:
    """A clock that only a test moves."""

    def __init__(self) -> None:
        self.now = system_now()

    def __call__(self) -> Instant:
        return self.now

    def caught_up(self) -> SetClock:
        """Return the clock, not behind the certificates that a domain gets when it is started now."""
        self.now = max(self.now, system_now())
        return self


def config(community: str | None = COMMUNITY) -> AccessConfig:
    return AccessConfig(
        api_listen="127.0.0.1:0", identity_community=community, identity_lifetime_s=600, api_skew_s=86_400
    )


CLOCK = SetClock()


@pytest.fixture(autouse=True)
def clock() -> SetClock:
    """Let no test begin behind the certificates that are made in it, however late the suite comes to it."""
    return CLOCK.caught_up()


@pytest.fixture(scope="module")
def norway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_at_work(
        tmp_path_factory.mktemp("no"), name="norway", config=config(), clock=CLOCK.caught_up()
    ) as found:
        yield found


@pytest.fixture(scope="module")
def uk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DomainAtWork]:
    with domain_at_work(
        tmp_path_factory.mktemp("uk"), name="uk", config=config(), clock=CLOCK.caught_up()
    ) as found:
        yield found


def principal(who: str) -> Principal:
    return key_of(who).principal


def register(domain: DomainAtWork, who: str, **attributes: object) -> None:
    body = bodies.SubjectBody(f"{who}@home", attributes)  # type: ignore[arg-type]
    with domain.admin() as admin:
        admin.call("PUT", f"/v1/subjects/{principal(who)}", body, answer=answers.SubjectAnswer)


def statement(client: DomainClient, lifetime_s: int | None = None) -> SignedIdentity:
    found = client.call(
        "POST", "/v1/identity", bodies.IdentityBody(lifetime_s), answer=answers.IdentityAnswer
    )
    return identity_from_bytes(found.statement)


def ask_guest(client: DomainClient, shown: SignedIdentity) -> tuple[SignedIdentity, SignedIdentity]:
    body = bodies.GuestBody(identity_to_bytes(shown))
    found = client.call("POST", "/v1/identity/guest", body, answer=answers.GuestAnswer)
    return identity_from_bytes(found.statement), identity_from_bytes(found.home)


def trust(domain: DomainAtWork, provider: DomainAtWork, until: str = "unbounded") -> None:
    path = f"/v1/trusted-providers/{provider.key.principal}"
    with domain.admin() as admin:
        admin.call("PUT", path, bodies.TrustBody("a friend", until), answer=answers.ProviderAnswer)


def distrust(domain: DomainAtWork, provider: DomainAtWork) -> None:
    path = f"/v1/trusted-providers/{provider.key.principal}/removal"
    with domain.admin() as admin:
        admin.call("POST", path, bodies.Reason("over"), answer=answers.News)


def code_of(act: object) -> str:
    with pytest.raises(MaiaError) as refused:
        act()  # type: ignore[operator]
    return refused.value.code


def acts(domain: DomainAtWork) -> list[str]:
    return [one.act for one in domain.ask(lambda access: access.audit(after=0, limit=500)).rows]


# ------------------------------------------------------------ I1: subjects and statements


def test_a_registered_subject_gets_a_statement_that_verifies(norway: DomainAtWork) -> None:
    register(norway, "anna", nationality="no", clearance=3)
    with norway.client("anna") as anna:
        signed = statement(anna)
    provider = norway.key.principal
    verified = verify_identity(
        signed, subject=principal("anna"), community=COMMUNITY, providers=[provider], now=CLOCK.now
    )
    said = verified.statement
    assert dict(said.attributes) == {"nationality": "no", "clearance": 3}
    assert (said.identifier, said.issuer, said.home) == ("anna@home", provider, provider)
    assert said.not_after - said.not_before == 600 * SECOND


def test_a_subject_that_is_not_registered_gets_none(norway: DomainAtWork) -> None:
    with norway.client("eve") as eve:
        assert code_of(lambda: statement(eve)) == "REFUSED-NOT-REGISTERED"


def test_a_statement_is_about_its_caller_and_nobody_else(norway: DomainAtWork) -> None:
    register(norway, "anna", clearance=3)
    register(norway, "bo", clearance=1)
    with norway.client("bo") as bo:
        assert statement(bo).statement.subject == principal("bo")
        path = f"/v1/subjects/{principal('anna')}"
        assert code_of(lambda: bo.call("GET", path, answer=answers.SubjectAnswer)).startswith("POLICY-")
        own = bo.call("GET", f"/v1/subjects/{principal('bo')}", answer=answers.SubjectAnswer)
        assert own.attributes == {"clearance": 1}


@pytest.mark.parametrize(("wanted", "given"), [(60, 60), (600, 600), (601, 600), (86_400, 600)])
def test_a_life_is_as_long_as_asked_for_and_never_longer_than_the_setting(
    norway: DomainAtWork, wanted: int, given: int
) -> None:
    register(norway, "anna")
    with norway.client("anna") as anna:
        said = statement(anna, wanted).statement
    assert said.not_after - said.not_before == given * SECOND


def test_an_attribute_that_is_removed_is_gone_from_the_next_statement(norway: DomainAtWork) -> None:
    register(norway, "anna", nationality="no", clearance=3)
    with norway.client("anna") as anna:
        assert AttributeUid("clearance") in statement(anna).statement.attributes
        register(norway, "anna", nationality="no")
        assert dict(statement(anna).statement.attributes) == {"nationality": "no"}


def test_a_subject_that_is_removed_gets_no_statement(norway: DomainAtWork) -> None:
    register(norway, "per")
    path = f"/v1/subjects/{principal('per')}"
    with norway.client("per") as per, norway.admin() as admin:
        statement(per)
        admin.call("POST", f"{path}/removal", bodies.Reason("left"), answer=answers.News)
        assert code_of(lambda: statement(per)) == "REFUSED-NOT-REGISTERED"
        assert code_of(lambda: admin.call("GET", path, answer=answers.SubjectAnswer)) == (
            "INPUT-UNKNOWN-SUBJECT"
        )
    assert {"subject.register", "subject.remove"} <= set(acts(norway))


@pytest.mark.parametrize("name", ["tpm-integrity", "identity-provider"])
def test_no_administrator_gives_an_attribute_that_only_a_check_gives(norway: DomainAtWork, name: str) -> None:
    assert code_of(lambda: register(norway, "liar", **{name: 3})) == "INPUT-SUBJECT"


def test_an_identifier_is_of_one_key(norway: DomainAtWork) -> None:
    register(norway, "anna")
    body = bodies.SubjectBody("anna@home")
    with norway.admin() as admin:
        path = f"/v1/subjects/{principal('eve')}"
        assert code_of(lambda: admin.call("PUT", path, body, answer=answers.SubjectAnswer)) == "INPUT-SUBJECT"


def test_strangers_and_administrators_of_other_things_register_nobody(norway: DomainAtWork) -> None:
    path, body = f"/v1/subjects/{principal('eve')}", bodies.SubjectBody("eve", {"clearance": 9})
    for client in (norway.client("eve"), norway.admin("clerk", "/admin/facts")):
        with client:
            refused = code_of(
                lambda client=client: client.call("PUT", path, body, answer=answers.SubjectAnswer)
            )
            assert refused.startswith("POLICY-")


def test_a_domain_without_a_community_issues_nothing(tmp_path: Path) -> None:
    with domain_at_work(tmp_path, config=config(None)) as plain:
        register(plain, "anna")
        with plain.client("anna") as anna:
            assert code_of(lambda: statement(anna)) == "REFUSED-NO-IDENTITY-PROVIDER"


def test_the_tables_of_subjects_and_providers_are_bounded() -> None:
    limits = AccessLimits(subjects=2, providers=1)
    access = AccessControl(key_of("no"), memory_store(), AccessSettings(community="c", limits=limits))
    by = {"actor": principal("admin"), "now": START}
    for who in ("a", "b", "b"):
        access.register_subject(principal(who), who, {}, **by)  # type: ignore[arg-type]
    assert code_of(lambda: access.register_subject(principal("c"), "c", {}, **by)) == (
        "UNAVAILABLE-ACCESS-CONTROL-FULL"
    )
    access.trust_provider(principal("x"), "x", None, **by)  # type: ignore[arg-type]
    assert code_of(lambda: access.trust_provider(principal("y"), "y", None, **by)) == (
        "UNAVAILABLE-ACCESS-CONTROL-FULL"
    )


# ------------------------------------------------------------ I3: guests (A18, A96)


def test_a_guest_gets_the_same_content_and_a_statement_about_its_home(
    norway: DomainAtWork, uk: DomainAtWork
) -> None:
    register(norway, "anna", nationality="no")
    trust(uk, norway)
    with norway.client("anna") as at_home, uk.client("anna") as abroad:
        home = statement(at_home)
        guest, about_home = ask_guest(abroad, home)
    here = [uk.key.principal]
    said = verify_identity(
        guest, subject=principal("anna"), community=COMMUNITY, providers=here, now=CLOCK.now
    ).statement
    assert replace(said, issuer=said.home, not_after=home.statement.not_after) == home.statement
    assert said.not_after <= home.statement.not_after
    provider = verify_identity(
        about_home, subject=norway.key.principal, community=COMMUNITY, providers=here, now=CLOCK.now
    )
    assert provider.statement.attributes == {"identity-provider": True}
    assert "provider.trust" in acts(uk)


def test_trust_is_one_way_and_ends_when_it_is_revoked_or_over(norway: DomainAtWork, uk: DomainAtWork) -> None:
    register(norway, "anna")
    register(uk, "james")
    trust(uk, norway)
    with uk.client("james") as at_home, norway.client("james") as abroad:
        assert code_of(lambda: ask_guest(abroad, statement(at_home))) == "CREDENTIAL-IDENTITY-PROVIDER"
    with norway.client("anna") as at_home, uk.client("anna") as abroad:
        home = statement(at_home)
        ask_guest(abroad, home)
        distrust(uk, norway)
        assert code_of(lambda: ask_guest(abroad, home)) == "CREDENTIAL-IDENTITY-PROVIDER"
        trust(uk, norway, str(Instant(CLOCK.now + 5 * SECOND)))
        assert ask_guest(abroad, home)[0].statement.not_after <= CLOCK.now + 5 * SECOND
        CLOCK.now = Instant(CLOCK.now + 6 * SECOND)
        assert code_of(lambda: ask_guest(abroad, home)) == "CREDENTIAL-IDENTITY-PROVIDER"
    assert "provider.distrust" in acts(uk)


def test_a_guest_statement_is_never_the_ground_for_another_one(
    tmp_path: Path, norway: DomainAtWork, uk: DomainAtWork
) -> None:
    register(norway, "anna")
    trust(uk, norway)
    with domain_at_work(tmp_path, name="france", config=config(), clock=CLOCK.caught_up()) as france:
        trust(france, uk)
        with norway.client("anna") as at_home, uk.client("anna") as abroad, france.client("anna") as far:
            home = statement(at_home)
            guest, _ = ask_guest(abroad, home)
            assert code_of(lambda: ask_guest(far, home)) == "CREDENTIAL-IDENTITY-PROVIDER"
            assert code_of(lambda: ask_guest(far, guest)) == "CREDENTIAL-IDENTITY-GUEST"
            # Renamed into a home statement of the provider that is trusted, it has no signature any more.
            said = replace(guest.statement, home=uk.key.principal)
            forged = replace(issue_identity(said, uk.key), signature=guest.signature)
            assert code_of(lambda: ask_guest(far, forged)) == "CREDENTIAL-SIGNATURE"


def test_a_statement_of_another_subject_community_issuer_or_time_makes_no_guest(
    norway: DomainAtWork, uk: DomainAtWork
) -> None:
    register(norway, "anna", clearance=1)
    trust(uk, norway)
    with norway.client("anna") as at_home, uk.client("anna") as abroad, uk.client("eve") as eve:
        home = statement(at_home)
        assert code_of(lambda: ask_guest(eve, home)) == "CREDENTIAL-IDENTITY"
        other = issue_identity(replace(home.statement, community="another"), norway.key)
        assert code_of(lambda: ask_guest(abroad, other)) == "CREDENTIAL-IDENTITY-COMMUNITY"
        raised = replace(home.statement, attributes={AttributeUid("clearance"): 9})
        forged = replace(issue_identity(raised, norway.key), signature=home.signature)
        assert code_of(lambda: ask_guest(abroad, forged)) == "CREDENTIAL-SIGNATURE"
        ends = home.statement.not_after
        old = replace(home.statement, not_before=Instant(ends - 3600 * SECOND))
        past = issue_identity(replace(old, not_after=Instant(ends - 1800 * SECOND)), norway.key)
        assert code_of(lambda: ask_guest(abroad, past)) == "CREDENTIAL-IDENTITY-EXPIRED"
        assert ask_guest(abroad, home)


# ------------------------------------------------------------ on the command line


def test_the_commands_register_issue_and_trust(
    norway: DomainAtWork, uk: DomainAtWork, tmp_path: Path
) -> None:
    for domain in (norway, uk):
        name = "norway" if domain is norway else "uk"
        (tmp_path / f"{name}.pub").write_text(f"{domain.key.principal}\n")
        (tmp_path / f"{name}-certs").mkdir()
        right = admin_certificate(domain.key, principal("admin"))
        (tmp_path / f"{name}-certs" / "admin.cert").write_text(certificate_to_text(right))
    for who in ("admin", "kari"):
        create_key_file(tmp_path / f"{who}.key", key_of(who))
        (tmp_path / f"{who}.pub").write_text(f"{principal(who)}\n")

    def run(domain: DomainAtWork, *words: object, who: str = "admin"):  # type: ignore[no-untyped-def]
        name = "norway" if domain is norway else "uk"
        shown = ("--credentials", f"{name}-certs") if who == "admin" else ()
        at = ("--server", domain.address, "--domain", f"{name}.pub", "-k", f"{who}.key")
        return maia(*words, *at, *shown, cwd=tmp_path)

    added = run(
        norway, "domain", "subject", "add", "kari.pub", "kari@no", "-a", "clearance=3", "-a", 'unit="7"'
    )
    assert "attribute    clearance = 3" in added.stdout, added.stderr
    assert 'attribute    unit = "7"' in added.stdout
    shown = json.loads(run(norway, "domain", "subject", "show", "kari.pub", "--json").stdout)
    assert shown["attributes"] == {"clearance": 3, "unit": "7"}
    assert "kari@no" in run(norway, "domain", "subject", "list").stdout
    home = run(norway, "domain", "identity", "-o", "kari.identity", "--lifetime-s", 60, who="kari")
    assert "attribute    clearance = 3" in home.stdout, home.stderr
    again = run(norway, "domain", "identity", "-o", "kari.identity", who="kari")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    distrust_first = run(uk, "domain", "trust", "remove", "norway.pub")
    assert distrust_first.returncode in (0, 2)
    ask = (
        "domain",
        "identity",
        "--guest",
        "kari.identity",
        "-o",
        "guest.identity",
        "--home-out",
        "n.identity",
    )
    refused = run(uk, *ask, who="kari")
    assert refused.returncode == 4
    assert "CREDENTIAL-IDENTITY-PROVIDER" in refused.stderr
    assert "maia domain trust add" in refused.stderr
    assert run(uk, "domain", "trust", "add", "norway.pub", "norway").returncode == 0
    assert "norway" in run(uk, "domain", "trust", "list").stdout
    given = json.loads(run(uk, *ask, "--json", who="kari").stdout)
    assert (given["is_guest"], given["home"]) == (True, str(norway.key.principal))
    enclosed = identity_from_text((tmp_path / "n.identity").read_text())
    assert enclosed.statement.subject == norway.key.principal
    assert run(norway, "domain", "subject", "remove", "kari.pub", "--reason", "left").returncode == 0
    gone = run(norway, "domain", "identity", "-o", "k.identity", who="kari")
    assert (gone.returncode, "REFUSED-NOT-REGISTERED" in gone.stderr) == (3, True)
    assert "maia domain subject add" in gone.stderr
    wrong = run(norway, "domain", "subject", "add", "kari.pub", "kari@no", "-a", "clearance")
    assert (wrong.returncode, "INPUT-ARGUMENT-WORD" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("name", ["identity_s", "attested_s"])
def test_statements_and_quotes_hold_for_a_second_to_a_day(name: str) -> None:
    for good in (1, 86_400):
        assert AccessSettings(**{name: good})  # type: ignore[arg-type]
    for wrong in (0, 86_401):
        with raises("INPUT-DOMAIN-SETTINGS"):
            AccessSettings(**{name: wrong})  # type: ignore[arg-type]


def test_a_provider_on_postgresql_keeps_subjects_trust_and_tpms(postgres_server: str) -> None:
    maker = Maker()
    tpm = SoftwareTpm(maker)
    log = tpm.boot((0, b"firmware"))
    boots = Approved((0,), (Configuration("good", 2, {0: tpm.pcrs[0]}),))
    anna, now, actor = principal("anna"), START, principal("admin")
    with closing(postgres_store(postgres_server, "identities")) as store:
        access = AccessControl(key_of("no"), store, AccessSettings(community="c"))
        access.register_subject(anna, "anna", {"clearance": 3}, actor=actor, now=now)
        access.trust_provider(principal("uk"), "uk", None, actor=actor, now=now)
        access.approve_boots(boots, [maker.root], actor=actor, now=now)
        secret = bytes(range(32))
        sent = access.enrol_tpm(
            anna, tpm.certificate, [], tpm.attestation_key, now=now, secret=secret, seed=bytes(32)
        )
        access.activate_tpm(anna, tpm.activate(sent), now=now)
        access.expect_quote(anna, secret, now=now)
        access.attest(anna, *tpm.quote(secret, (0,)), log, now=now)
    with closing(postgres_store(postgres_server, "identities")) as store:
        access = AccessControl(key_of("no"), store, AccessSettings(community="c"))
        assert access.identity(anna, now=now).statement.attributes == {"clearance": 3, "tpm-integrity": 2}
        assert [one.identifier for one in access.providers().rows] == ["uk"]
        access.remove_subject(anna, "left", actor=actor, now=now)
        assert access.subjects().rows == ()
