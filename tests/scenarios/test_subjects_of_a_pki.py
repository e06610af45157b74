"""Subjects are registered by X.509 certificates, and a connection ends with its statement (Gismo 2.2, 4)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from maia.broker.server.server import run_broker
from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.credentials.appointments import ParameterKind
from maia.credentials.identity import IdentityTrust, identity_from_text
from maia.domain.server.access_config import AccessConfig, FactConfig
from maia.events import SECOND, Instant
from maia.keystore.key_files import create_key_file
from maia.testing import in_a_loop, soon, until, wait_until
from maia.testing.x509 import Authority, in_pem
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.live import BROKER, STORY, client, settings
from support.processes import Answer, maia
from support.two_message import COMMUNITY, NORWAY, link_identity, live_statement

CAMERA, BILLING = "camera at Victoria", "billing office"
ROOT = Authority("CN=Root,O=Norway")
ISSUING = Authority("CN=Issuing,O=Norway", ROOT)


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[DomainAtWork]:
    (tmp_path / "root.pem").write_bytes(ROOT.pem)
    (tmp_path / "list.pem").write_bytes(ISSUING.revoke())
    (tmp_path / "above.pem").write_bytes(ROOT.revoke())
    (tmp_path / "data").mkdir()
    config = AccessConfig(
        api_listen="127.0.0.1:0",
        identity_community="coalition",
        api_skew_s=3600,
        identity_authorities=(tmp_path / "root.pem",),
        identity_revocation_lists=(tmp_path / "list.pem", tmp_path / "above.pem"),
        facts=(
            FactConfig(
                name="on_duty",
                source="file",
                path=tmp_path / "roster.csv",
                columns=("who", "shift"),
                kinds=(ParameterKind.PRINCIPAL, ParameterKind.STRING),
                every_s=1,
            ),
        ),
    )
    (tmp_path / "roster.csv").write_text('who,shift\n"x509:CN=anna,O=Norway",night\nx509:CN=eve,night\n')
    with domain_at_work(tmp_path / "data", config=config, clock=system_now) as found:
        yield found


def test_a_subject_is_registered_by_its_certificate_which_is_validated_for_each_statement(
    domain: DomainAtWork, tmp_path: Path
) -> None:
    for who in ("admin", "anna"):
        create_key_file(tmp_path / f"{who}.key", key_of(who))
    (tmp_path / "met.pub").write_text(f"{domain.key.principal}\n")
    right = admin_certificate(domain.key, key_of("admin").principal)
    (tmp_path / "admin.cert").write_text(certificate_to_text(right))

    def run(*words: object, who: str = "admin") -> Answer:
        shown = ("--credentials", "admin.cert") if who == "admin" else ()
        at = ("--server", domain.address, "--domain", "met.pub", "-k", f"{who}.key")
        return maia(*words, *at, *shown, "--json", cwd=tmp_path)

    asked = maia(
        "key", "request", "-k", "anna.key", "--name", "CN=anna,O=Norway", "-o", "anna.csr", cwd=tmp_path
    )
    assert asked.returncode == 0, asked.stderr
    csr = x509.load_pem_x509_csr((tmp_path / "anna.csr").read_bytes())
    assert csr.is_signature_valid
    own = ISSUING.issue(csr.public_key(), csr.subject.rfc4514_string(), days=1)

    def add(file: str, *certificates: bytes) -> Answer:
        (tmp_path / file).write_bytes(in_pem(*certificates))
        return run("domain", "subject", "add", file, "anna@norway", "-a", "nationality=no")

    anna = str(key_of("anna").principal)
    by_key = run("domain", "subject", "add", anna, "anna@norway")
    assert "INPUT-SUBJECT" in by_key.stderr  # no certificate
    assert "CREDENTIAL-X509" in add("alone.pem", own).stderr  # its issuer is missing
    stranger = Authority("CN=Root,O=Norway")
    assert "CREDENTIAL-X509" in add("forged.pem", stranger.issue(csr.public_key(), "CN=anna")).stderr
    added = add("anna.pem", own, ISSUING.certificate)
    assert added.returncode == 0, added.stderr
    assert json.loads(added.stdout)["certified_as"] == "CN=anna,O=Norway"

    def statement() -> Answer:
        return run("domain", "identity", "-o", "anna.identity", "--force", who="anna")

    assert statement().returncode == 0
    said = identity_from_text((tmp_path / "anna.identity").read_text()).statement
    assert str(said.attributes["nationality"]) == "no"

    # C17: facts and appointments call her by her distinguished name.
    def on_duty() -> list[object]:
        return json.loads(run("domain", "fact", "list", "on_duty").stdout)["rows"]

    wait_until(lambda: on_duty() == [[{"principal": anna}, "night"]], "the roster knows her")
    named = "x509:CN=anna,O=Norway"
    said = run("domain", "fact", "assert", "cleared", named)
    assert said.returncode == 0, said.stderr
    listed = json.loads(run("domain", "fact", "list", "cleared").stdout)["rows"]
    assert listed == [[{"principal": anna}]]
    order = run("domain", "appoint", named, "officer", "--days", "1", "-o", "anna.appointment")
    assert json.loads(order.stdout)["holder"] == anna, order.stderr
    nobody = run("domain", "appoint", "x509:CN=eve", "officer", "--days", "1", "-o", "eve.appointment")
    assert "INPUT-UNKNOWN-SUBJECT" in nobody.stderr

    (tmp_path / "list.pem").write_bytes(ISSUING.revoke(own))
    refused = statement()
    assert "CREDENTIAL-X509" in refused.stderr
    assert "revoked" in refused.stderr
    wait_until(lambda: not on_duty(), "what the roster says of her counts no more")
    assert "CREDENTIAL-X509" in run("domain", "fact", "assert", "armed", named).stderr
    assert run("domain", "fact", "retract", "cleared", named).returncode == 0
    (tmp_path / "list.pem").write_bytes(ISSUING.revoke())
    assert statement().returncode == 0
    (tmp_path / "list.pem").unlink()
    assert "UNAVAILABLE-REVOCATION-LIST" in statement().stderr


class _Clock:
    ahead_s = 0.0

    def __call__(self) -> Instant:
        return Instant(system_now() + int(self.ahead_s * SECOND))


@in_a_loop
async def test_a_connection_over_tls_ends_with_its_statement_and_comes_back_with_a_new_one():
    clock, trust = _Clock(), IdentityTrust(COMMUNITY, frozenset({NORWAY.principal}))
    here, own = STORY.keys[BROKER], STORY.keys[CAMERA]
    held = [link_identity(own, own=live_statement(own, until_s=30))]
    async with (
        run_broker(here, replace(settings(), identity=trust), clock=clock) as broker,
        client(BILLING, broker.address, clock=clock) as billing,
        client(CAMERA, broker.address, clock=clock, identity=lambda: held[0]) as camera,
    ):
        bills = await billing.subscribe(STORY.definition)
        cars = await camera.advertise(STORY.definition)
        await cars.publish(numberplate="AE05 XYZ")
        assert (await soon(anext(bills)))["numberplate"] == "AE05 XYZ"
        clock.ahead_s = 60
        await until(lambda: cars.warning is not None, "the camera's connection has ended")
        assert cars.warning.code == "CREDENTIAL-IDENTITY-EXPIRED"
        assert camera.broker is None
        await until(lambda: broker.status()["clients"] == 1, "the other client stays")
        held[0] = link_identity(own, own=live_statement(own, until_s=3600))
        await until(lambda: camera.broker is not None, "the camera is back")
        await cars.publish(numberplate="AE05 ABC")
        assert (await soon(anext(bills)))["numberplate"] == "AE05 ABC"
