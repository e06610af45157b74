"""X5: the head of a broker's ledger is in the audit of another domain; a ledger that was cut is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maia.broker.server.ledger_upkeep import LedgerWitness
from maia.cli.main import main
from maia.credentials import Action, certificate_to_text
from maia.keystore.key_files import create_key_file
from maia.ledger.files import LedgerFiles, verify_ledger
from maia.ledger.records import Audience, Begin, Disclosed, Ground, Shown, records_to_bytes
from maia.wire.effects import Disclose
from support.domain_server import admin_certificate, domain_at_work, key_of

BROKER = key_of("a broker")


def deliveries(*numbers: int) -> Disclose:
    key = BROKER.principal.key
    ground = Ground(1, key, b"t" * 32, b"v" * 32, b"w" * 16, (b"c" * 32,))
    begin = [Begin(1, key, b"r" * 16, 1000), ground, Audience(2, (1,)), Shown(3, ("3265",))]
    return Disclose(
        True, records_to_bytes([*begin, *(Disclosed(n, 2, 3, key, b"s" * 16, n, (0, 0)) for n in numbers)])
    )


@pytest.fixture
def court(tmp_path):
    """Another domain, which lets the broker state its ledger's head, and nothing else."""
    data, wallet = tmp_path / "court", tmp_path / "wallet"
    data.mkdir()
    wallet.mkdir()
    with domain_at_work(data, name="court") as domain:
        right = admin_certificate(domain.key, BROKER.principal, "/admin/ledgers", frozenset({Action.PUBLISH}))
        (wallet / "ledgers.cert").write_text(certificate_to_text(right))
        create_key_file(tmp_path / "broker.key", BROKER)
        yield domain


def audit_of(court, folder: Path) -> Path:
    create_key_file(folder / "auditor.key", key_of("auditor"))
    right = admin_certificate(court.key, key_of("auditor").principal, "/admin/audit")
    (folder / "audit.cert").write_text(certificate_to_text(right))
    out = folder / "audit.jsonl"
    called = [
        "--server",
        court.address,
        "--domain",
        str(court.key.principal),
        "-k",
        str(folder / "auditor.key"),
    ]
    words = ["domain", "audit", "show", *called, "--credentials", str(folder / "audit.cert"), "-o", str(out)]
    assert main(words) == 0
    return out


def test_entries_that_a_witness_knows_of_are_missed(tmp_path, court, capsys):
    """A95: the operator of a broker cuts its ledger, or writes other entries in place of the last ones."""
    folder = tmp_path / "ledger"
    witness = LedgerWitness(court.address, court.key.principal, BROKER, credentials=[tmp_path / "wallet"])
    with LedgerFiles(folder) as ledger:
        ledger.write([deliveries(1, 2)])
        assert witness.state(ledger.head) is None
        ledger.write([deliveries(3)])
    said = [
        "--server",
        court.address,
        "--domain",
        str(court.key.principal),
        "-k",
        str(tmp_path / "broker.key"),
    ]
    words = ["ledger", "witness", str(folder), *said, "--credentials", str(tmp_path / "wallet")]
    assert main(words) == 0
    audit = audit_of(court, tmp_path)
    verify = ["ledger", "verify", str(folder), "--audit", str(audit), "--of", str(BROKER.principal), "--json"]
    capsys.readouterr()
    assert main(verify) == 0
    assert json.loads(capsys.readouterr().out)["witnessed"] == 2
    # The operator of the broker takes the last delivery away; the chain itself is as whole as before.
    (folder / "00000002.ledger").unlink()
    assert verify_ledger(folder).deliveries == 2
    assert main(verify) == 1
    assert json.loads(capsys.readouterr().out)["missing"] == [2]
    # Stating what is left contradicts what was stated; that is on record as well.
    assert main([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["problem"] == "the ledger had 2 entries, and now has 1"
    # Writing another second entry instead does not help either.
    with LedgerFiles(folder) as ledger:
        ledger.write([deliveries(4)])
        assert "another head of 2 entries" in (witness.state(ledger.head) or "")


def test_who_may_not_state_heads_puts_nothing_on_record(tmp_path, court, capsys):
    stranger = LedgerWitness(court.address, court.key.principal, key_of("stranger"), [tmp_path / "wallet"])
    with LedgerFiles(tmp_path / "ledger") as ledger:
        ledger.write([deliveries(1)])
        with pytest.raises(Exception, match="certificate"):
            stranger.state(ledger.head)
    assert "ledger.head" not in audit_of(court, tmp_path).read_text()
