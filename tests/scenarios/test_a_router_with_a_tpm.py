"""A router proves its boot with swtpm and tpm2-tools, by one command (Gismo 5).

Where they are not installed, these tests say so; quotes that were recorded from them are verified everywhere
(`tests/vectors/test_attestation_vectors.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from maia.clock import system_now
from maia.credentials import certificate_to_text
from maia.credentials.attestation import (
    attestation_key_from_bytes,
    make_credential,
    verify_endorsement,
    verify_quote,
)
from maia.credentials.identity import TPM_ATTRIBUTE, identity_from_text
from maia.domain.server.access_config import AccessConfig
from maia.errors import BrokenCredential
from maia.keystore.key_files import create_key_file
from maia.testing.refusals import raises
from maia.testing.swtpm import EmulatedMachine, LocalAuthority, missing_emulator
from support.domain_server import DomainAtWork, admin_certificate, domain_at_work, key_of
from support.processes import Answer, maia

pytestmark = pytest.mark.skipif(
    bool(missing_emulator()),
    reason=f"no live TPM: not installed are {', '.join(missing_emulator())} "
    "(Debian: swtpm swtpm-tools tpm2-tools); recorded quotes are verified all the same",
)

GOOD = ((0, b"firmware 5.2"), (7, b"secure boot on"))
EVIL = ((0, b"firmware 5.2, changed"), (7, b"secure boot off"))
PCRS = (0, 7)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as found:  # the path of a socket is short
        yield Path(found)


@pytest.fixture(scope="module")
def maker(folder: Path) -> LocalAuthority:
    return LocalAuthority(folder / "maker")


@pytest.fixture(scope="module")
def machine(folder: Path, maker: LocalAuthority) -> EmulatedMachine:
    return EmulatedMachine(folder / "router", maker)


def test_a_quote_of_swtpm_is_believed_for_its_boot_its_nonce_and_its_machine(
    machine: EmulatedMachine, maker: LocalAuthority
) -> None:
    """A97: after a reboot, with another nonce, with a log that does not match its registers."""
    with machine.running() as tpm:
        log = machine.boot(*GOOD)
        endorsement = verify_endorsement(tpm.certificate, [], [maker.certificate], now=system_now())
        key = attestation_key_from_bytes(tpm.attestation_key)
        secret, seed, nonce = b"s" * 32, b"e" * 32, b"n" * 32
        credential = make_credential(endorsement, key, secret, seed=seed)
        assert tpm.activate(credential) == secret
        with raises("UNAVAILABLE-TPM"):
            tpm.activate(credential[:-1] + bytes([credential[-1] ^ 1]))
        quoted, signature = tpm.quote(nonce, PCRS)
        by_log = verify_quote(quoted, signature, log, key=key, nonce=nonce, pcrs=PCRS)
        by_value = verify_quote(quoted, signature, tpm.registers(PCRS), key=key, nonce=nonce, pcrs=PCRS)
        assert by_log == by_value
        with pytest.raises(BrokenCredential):
            verify_quote(quoted, signature, log, key=key, nonce=b"m" * 32, pcrs=PCRS)
        machine.boot(*EVIL)
        changed, signed = tpm.quote(nonce, PCRS)
        with pytest.raises(BrokenCredential):
            verify_quote(changed, signed, log, key=key, nonce=nonce, pcrs=PCRS)
        with pytest.raises(BrokenCredential):
            verify_quote(changed, signed, by_log.values, key=key, nonce=nonce, pcrs=PCRS)
        after = verify_quote(changed, signed, tpm.log(), key=key, nonce=nonce, pcrs=PCRS)
        assert after.values != by_log.values
        assert after.resets > by_log.resets


@pytest.fixture
def domain(tmp_path: Path) -> Iterator[DomainAtWork]:
    config = AccessConfig(api_listen="127.0.0.1:0", identity_community="coalition", api_skew_s=3600)
    (tmp_path / "data").mkdir()
    with domain_at_work(tmp_path / "data", config=config, clock=system_now) as found:
        yield found


def test_one_command_enrols_quotes_and_renews_the_statement(
    domain: DomainAtWork, machine: EmulatedMachine, maker: LocalAuthority, tmp_path: Path
) -> None:
    for who in ("admin", "router"):
        create_key_file(tmp_path / f"{who}.key", key_of(who))
    (tmp_path / "met.pub").write_text(f"{domain.key.principal}\n")
    right = admin_certificate(domain.key, key_of("admin").principal)
    (tmp_path / "admin.cert").write_text(certificate_to_text(right))
    (tmp_path / "maker.der").write_bytes(maker.certificate)

    def run(*words: object, who: str = "router") -> Answer:
        shown = ("--credentials", "admin.cert") if who == "admin" else ()
        at = ("--server", domain.address, "--domain", "met.pub", "-k", f"{who}.key")
        return maia(*words, *at, *shown, "--json", cwd=tmp_path)

    def attest(*more: object) -> Answer:
        return run("tpm", "attest", "--tpm", machine.address, "-o", "router.identity", *more)

    def level() -> object:
        signed = identity_from_text((tmp_path / "router.identity").read_text())
        return signed.statement.attributes.get(TPM_ATTRIBUTE)

    with machine.running():
        machine.boot(*GOOD)
        words = ("--name", "router 5.2", "--level", 2, "--pcr", 0, "--pcr", 7, "-o", "boots.json")
        measured = maia("tpm", "measure", "--tpm", machine.address, *words, cwd=tmp_path)
        assert measured.returncode == 0, measured.stderr
        approved = run("tpm", "approve", "boots.json", "--root", "maker.der", who="admin")
        assert approved.returncode == 0, approved.stderr
        principal = str(key_of("router").principal)
        run("domain", "subject", "add", principal, "router@met", who="admin")

        first = attest("--log", machine.boot_log)
        assert first.returncode == 0, first.stderr
        assert (json.loads(first.stdout)["level"], level()) == (2, 2)
        again = attest()  # without a log: the registers themselves
        assert (json.loads(again.stdout)["is_rebooted"], level()) == (False, 2)
        machine.boot(*EVIL)
        refused = attest()
        assert "REFUSED-TPM-NOT-APPROVED" in refused.stderr
        assert (refused.returncode, level()) == (3, None)
        machine.boot(*GOOD)
        back = attest()
        assert (json.loads(back.stdout)["is_rebooted"], level()) == (True, 2)
        assert "TPM" in maia("tpm", "measure", "--tpm", "eve:/x", *words, cwd=tmp_path).stderr
