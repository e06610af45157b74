"""A97: a router proves its boot to the identity provider, over the real interface, and nothing else does.

The TPM is one in software (`maia.testing.software_tpm`), written from the specification.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.api import requests as bodies
from maia.api import responses as answers
from maia.api.client import DomainClient
from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.credentials.identity import Identity, identity_from_bytes
from maia.domain.server.access_config import AccessConfig
from maia.errors import MaiaError
from maia.events import SECOND, Instant
from maia.keystore.key_files import create_key_file
from maia.testing.software_tpm import Maker, SoftwareTpm, registers
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.processes import maia

MAKER = Maker()
GOOD = ((0, b"firmware 5.2"), (7, b"secure boot on"))
OLDER = ((0, b"firmware 5.1"), (7, b"secure boot on"))
EVIL = ((0, b"firmware 5.2, changed"), (7, b"secure boot off"))
PCRS = (0, 7)


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


CLOCK = SetClock()


@pytest.fixture(autouse=True)
def clock() -> SetClock:
    """Let no test begin behind the certificates that are made in it, however late the suite comes to it."""
    return CLOCK.caught_up()


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[DomainAtWork]:
    config = AccessConfig(
        api_listen="127.0.0.1:0",
        identity_community="coalition",
        identity_lifetime_s=3600,
        identity_attested_s=300,
        api_skew_s=86_400,
    )
    (tmp_path / "data").mkdir()
    with domain_at_work(tmp_path / "data", config=config, clock=CLOCK.caught_up()) as found:
        with found.admin() as admin:
            for who in ("router", "other"):
                path = f"/v1/subjects/{key_of(who).principal}"
                admin.call("PUT", path, bodies.SubjectBody(who), answer=answers.SubjectAnswer)
            admin.call("PUT", "/v1/tpm/approved", approval(), answer=answers.ApprovedAnswer)
        yield found


def approval(*boots: tuple[str, int, tuple[tuple[int, bytes], ...]]) -> bodies.ApprovedBody:
    known = boots or (("5.2", 2, GOOD), ("5.1", 1, OLDER))
    configurations = [
        bodies.BootConfiguration(name, level, {str(pcr): registers(*events)[pcr].hex() for pcr in PCRS})
        for name, level, events in known
    ]
    return bodies.ApprovedBody(list(PCRS), configurations, [MAKER.root])


def enrol(client: DomainClient, tpm: SoftwareTpm) -> None:
    body = bodies.EnrolBody(tpm.certificate, tpm.attestation_key)
    given = client.call("POST", "/v1/tpm/enrolment", body, answer=answers.CredentialAnswer)
    secret = tpm.activate(given.credential)
    client.call("POST", "/v1/tpm/activation", bodies.ActivationBody(secret), answer=answers.News)


def nonce_for(client: DomainClient) -> bytes:
    return bytes.fromhex(client.call("POST", "/v1/tpm/nonce", answer=answers.NonceAnswer).nonce)


def show(client: DomainClient, quoted: bytes, signature: bytes, log: bytes) -> answers.AttestedAnswer:
    body = bodies.QuoteBody(quoted, signature, log)
    return client.call("POST", "/v1/tpm/quote", body, answer=answers.AttestedAnswer)


def prove(client: DomainClient, tpm: SoftwareTpm, log: bytes) -> answers.AttestedAnswer:
    return show(client, *tpm.quote(nonce_for(client), PCRS), log)


def statement(client: DomainClient) -> Identity:
    found = client.call("POST", "/v1/identity", bodies.IdentityBody(), answer=answers.IdentityAnswer)
    return identity_from_bytes(found.statement).statement


def code_of(act: object) -> str:
    with pytest.raises(MaiaError) as refused:
        act()  # type: ignore[operator]
    return refused.value.code


def test_an_approved_boot_is_an_attribute_of_the_statement_for_a_short_time(domain: DomainAtWork) -> None:
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    with domain.client("router") as router:
        assert statement(router).attributes == {}
        enrol(router, tpm)
        assert statement(router).attributes == {}, "a TPM that is enrolled proves nothing about the boot"
        found = prove(router, tpm, log)
        assert (found.configuration, found.level, found.is_rebooted) == ("5.2", 2, False)
        said = statement(router)
        assert said.attributes == {"tpm-integrity": 2}
        assert said.not_after <= CLOCK.now + 300 * SECOND, "not as long as the statement of a person"
        CLOCK.now = Instant(CLOCK.now + 301 * SECOND)
        assert statement(router).attributes == {}
        prove(router, tpm, log)
        assert statement(router).attributes == {"tpm-integrity": 2}


def test_a_quote_counts_once_for_the_nonce_it_was_made_for(domain: DomainAtWork) -> None:
    """A97: replayed, for another nonce, too late, or without a nonce."""
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    with domain.client("router") as router:
        enrol(router, tpm)
        first = tpm.quote(nonce_for(router), PCRS)
        show(router, *first, log)
        assert code_of(lambda: show(router, *first, log)) == "REFUSED-TPM-NOT-ENROLLED"
        nonce_for(router)
        assert code_of(lambda: show(router, *first, log)) == "CREDENTIAL-TPM-QUOTE"
        late = tpm.quote(nonce_for(router), PCRS)
        CLOCK.now = Instant(CLOCK.now + 121 * SECOND)
        assert code_of(lambda: show(router, *late, log)) == "REFUSED-TPM-NOT-ENROLLED"


def test_a_wrong_quote_uses_the_nonce_up(domain: DomainAtWork) -> None:
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    with domain.client("router") as router:
        enrol(router, tpm)
        good = tpm.quote(nonce_for(router), PCRS)
        assert code_of(lambda: show(router, good[0], good[1], log[:-1])) == "CREDENTIAL-TPM-STRUCTURE"
        assert code_of(lambda: show(router, *good, log)) == "REFUSED-TPM-NOT-ENROLLED"


def test_a_quote_of_another_machine_proves_nothing(domain: DomainAtWork) -> None:
    """A97: of another machine, or with another subject's nonce."""
    tpm, healthy = SoftwareTpm(MAKER), SoftwareTpm(MAKER)
    log = healthy.boot(*GOOD)
    with domain.client("router") as router, domain.client("other") as other:
        enrol(router, tpm)
        enrol(other, healthy)
        borrowed = healthy.quote(nonce_for(router), PCRS)
        assert code_of(lambda: show(router, *borrowed, log)) == "CREDENTIAL-TPM-QUOTE"
        nonce_for(other)
        assert code_of(lambda: show(other, *healthy.quote(nonce_for(router), PCRS), log)) == (
            "CREDENTIAL-TPM-QUOTE"
        )
        assert statement(router).attributes == {}


def test_a_log_that_does_not_match_its_registers_proves_nothing(domain: DomainAtWork) -> None:
    """A97: the log of the good boot, the registers of the other."""
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    tpm.boot(*EVIL)
    with domain.client("router") as router:
        enrol(router, tpm)
        assert code_of(lambda: prove(router, tpm, log)) == "CREDENTIAL-TPM-LOG"
        assert statement(router).attributes == {}


def test_a_reboot_into_something_else_loses_the_level(domain: DomainAtWork) -> None:
    """A97: after a reboot; the quote from before it does not bring the level back."""
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    with domain.client("router") as router:
        enrol(router, tpm)
        prove(router, tpm, log)
        older = tpm.boot(*OLDER)
        found = prove(router, tpm, older)
        assert (found.level, found.is_rebooted) == (1, True)
        assert statement(router).attributes == {"tpm-integrity": 1}
        evil = tpm.boot(*EVIL)
        assert code_of(lambda: prove(router, tpm, evil)) == "REFUSED-TPM-NOT-APPROVED"
        assert statement(router).attributes == {}
        tpm.boot(*GOOD)
        tpm.resets = 1
        assert code_of(lambda: prove(router, tpm, log)) == "CREDENTIAL-TPM-QUOTE", "counters never go back"
        assert statement(router).attributes == {}
    acts = [one.act for one in domain.ask(lambda access: access.audit(after=0, limit=500)).rows]
    assert acts.count("tpm.quote") == 3


def test_an_endorsement_key_that_no_root_certified_is_not_enrolled(domain: DomainAtWork) -> None:
    """A97: an endorsement key of an unknown maker, or one that the caller's TPM does not have."""
    with domain.client("router") as router:
        assert code_of(lambda: enrol(router, SoftwareTpm(Maker("Unknown")))) == "CREDENTIAL-TPM-ENDORSEMENT"
        real, emulated = SoftwareTpm(MAKER), SoftwareTpm(Maker("Emulator"))
        body = bodies.EnrolBody(real.certificate, emulated.attestation_key)
        given = router.call("POST", "/v1/tpm/enrolment", body, answer=answers.CredentialAnswer)
        with pytest.raises(ValueError, match="INTEGRITY"):
            real.activate(given.credential)
        guess = bodies.ActivationBody(bytes(32))
        assert code_of(lambda: router.call("POST", "/v1/tpm/activation", guess, answer=answers.News)) == (
            "REFUSED-TPM-NOT-ENROLLED"
        )
        assert code_of(lambda: nonce_for(router)) == "REFUSED-TPM-NOT-ENROLLED"


def test_one_tpm_is_of_one_subject_and_a_claim_alone_keeps_nobody_out(domain: DomainAtWork) -> None:
    tpm = SoftwareTpm(MAKER)
    claim = bodies.EnrolBody(tpm.certificate, tpm.attestation_key)
    with domain.client("router") as router, domain.client("other") as other:
        other.call("POST", "/v1/tpm/enrolment", claim, answer=answers.CredentialAnswer)
        enrol(router, tpm)
        assert code_of(lambda: enrol(other, tpm)) == "CREDENTIAL-TPM-ENDORSEMENT"


def test_a_subject_that_claims_the_tpm_of_another_is_refused_at_once_and_keeps_its_own(
    domain: DomainAtWork,
) -> None:
    """What is enrolled takes the place of what was enrolled before: the claim is none of it."""
    tpm, own = SoftwareTpm(MAKER), SoftwareTpm(MAKER)
    claim = bodies.EnrolBody(tpm.certificate, tpm.attestation_key)
    with domain.client("router") as router, domain.client("other") as other:
        enrol(router, tpm)
        enrol(other, own)
        refused = code_of(
            lambda: other.call("POST", "/v1/tpm/enrolment", claim, answer=answers.CredentialAnswer)
        )
        assert refused == "CREDENTIAL-TPM-ENDORSEMENT"
        assert prove(other, own, own.boot(*GOOD)).level == 2


def test_strangers_enrol_nothing_and_approve_nothing(domain: DomainAtWork) -> None:
    with domain.client("eve") as eve, domain.admin("clerk", "/admin/subjects") as clerk:
        assert code_of(lambda: enrol(eve, SoftwareTpm(MAKER))) == "REFUSED-NOT-REGISTERED"
        for client in (eve, clerk):
            call = client.call
            refused = code_of(
                lambda call=call: call("PUT", "/v1/tpm/approved", approval(), answer=answers.ApprovedAnswer)
            )
            assert refused == "POLICY-NO-CHAIN"


def test_a_boot_that_is_approved_no_more_loses_its_level_at_once(domain: DomainAtWork) -> None:
    tpm = SoftwareTpm(MAKER)
    log = tpm.boot(*GOOD)
    with domain.client("router") as router, domain.admin() as admin:
        enrol(router, tpm)
        prove(router, tpm, log)
        body = approval(("5.1", 1, OLDER))
        assert admin.call("PUT", "/v1/tpm/approved", body, answer=answers.ApprovedAnswer).version == 2
        assert statement(router).attributes == {}
        assert code_of(lambda: prove(router, tpm, log)) == "REFUSED-TPM-NOT-APPROVED"


def test_the_commands_enrol_quote_and_approve(domain: DomainAtWork, tmp_path: Path) -> None:
    tpm = SoftwareTpm(MAKER, is_rsa=True)
    (tmp_path / "boot.log").write_bytes(tpm.boot(*GOOD))
    for who in ("admin", "router"):
        create_key_file(tmp_path / f"{who}.key", key_of(who))
    (tmp_path / "met.pub").write_text(f"{domain.key.principal}\n")
    right = admin_certificate(domain.key, key_of("admin").principal)
    (tmp_path / "admin.cert").write_text(certificate_to_text(right))
    (tmp_path / "maker.der").write_bytes(MAKER.root)
    (tmp_path / "ek.der").write_bytes(tpm.certificate)
    (tmp_path / "ak.pub").write_bytes(tpm.attestation_key)
    values = {str(pcr): registers(*GOOD)[pcr].hex() for pcr in PCRS}
    boots = {"pcrs": list(PCRS), "configurations": [{"name": "router 5.2", "level": 3, "values": values}]}
    (tmp_path / "boots.json").write_text(json.dumps(boots))

    def run(*words: object, who: str = "router"):  # type: ignore[no-untyped-def]
        shown = ("--credentials", "admin.cert") if who == "admin" else ()
        at = ("--server", domain.address, "--domain", "met.pub", "-k", f"{who}.key")
        return maia(*words, *at, *shown, cwd=tmp_path)

    approved = run("tpm", "approve", "boots.json", "--root", "maker.der", who="admin")
    assert "router 5.2, level 3" in approved.stdout, approved.stderr
    first = run("tpm", "enrol", "--endorsement", "ek.der", "--attestation-key", "ak.pub", "-o", "c.bin")
    assert first.returncode == 0, first.stderr
    (tmp_path / "secret").write_bytes(tpm.activate((tmp_path / "c.bin").read_bytes()))
    assert "enrolled" in run("tpm", "enrol", "--secret", "secret").stdout
    asked = json.loads(run("tpm", "quote", "--nonce-out", "nonce", "--json").stdout)
    assert asked["pcrs"] == list(PCRS)
    nonce = bytes.fromhex((tmp_path / "nonce").read_text())
    for name, data in zip(("q.msg", "q.sig"), tpm.quote(nonce, PCRS), strict=True):
        (tmp_path / name).write_bytes(data)
    shown = ("tpm", "quote", "--quoted", "q.msg", "--signature", "q.sig", "--log", "boot.log")
    proved = run(*shown)
    assert "level        3" in proved.stdout, proved.stderr
    given = json.loads(run("domain", "identity", "-o", "router.identity", "--json").stdout)
    assert given["attributes"] == {"tpm-integrity": 3}
    again = run(*shown)
    assert (again.returncode, "REFUSED-TPM-NOT-ENROLLED" in again.stderr) == (3, True)
    assert "maia tpm quote --nonce-out" in again.stderr
    (tmp_path / "bad.json").write_text("[]")
    assert "INPUT-FILE" in run("tpm", "approve", "bad.json", who="admin").stderr


def test_of_two_subjects_that_enrol_one_tpm_at_once_one_gets_it(domain: DomainAtWork) -> None:
    """A97: both have a credential before either has opened its own, and one machine has both keys."""
    tpm = SoftwareTpm(MAKER)
    body = bodies.EnrolBody(tpm.certificate, tpm.attestation_key)
    with domain.client("router") as router, domain.client("other") as other:
        given = [
            one.call("POST", "/v1/tpm/enrolment", body, answer=answers.CredentialAnswer)
            for one in (router, other)
        ]
        opened = [bodies.ActivationBody(tpm.activate(one.credential)) for one in given]
        router.call("POST", "/v1/tpm/activation", opened[0], answer=answers.News)
        again = code_of(lambda: other.call("POST", "/v1/tpm/activation", opened[1], answer=answers.News))
        assert again == "CREDENTIAL-TPM-ENDORSEMENT"
        log = tpm.boot(*GOOD)
        assert prove(router, tpm, log).level == 2
        assert code_of(lambda: nonce_for(other)) == "REFUSED-TPM-NOT-ENROLLED"
        assert statement(other).attributes == {}
