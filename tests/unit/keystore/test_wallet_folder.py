"""A wallet: only its owner's, whole files, and nothing left of what was taken back."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from maia.api.responses import WalletAnswer
from maia.config.input_files import read_certificates
from maia.credentials import (
    Action,
    SignedCertificate,
    TopicPattern,
    Validity,
    certificate_to_bytes,
    parse_name_pattern,
)
from maia.credentials.appointments import Appointment, AppointmentKind, issue_appointment
from maia.credentials.statements import RevocationList, sign_statement, statement_to_bytes
from maia.events import Instant
from maia.keystore.wallet_folder import WalletFolder, to_show
from maia.testing import grant
from maia.testing.refusals import raises
from support.domain_server import key_of

NOW = Instant.parse("2026-11-15T12:00:00Z")
VALID = Validity(None, Instant.parse("2026-12-15T12:00:00Z"))
MET, SMITH, COURT = key_of("met"), key_of("smith"), key_of("court")


def certificate(topic: str) -> SignedCertificate:
    return grant(
        MET, SMITH, TopicPattern(MET.principal, parse_name_pattern(topic)), Action.SUBSCRIBE, validity=VALID
    )


def answer(*certificates: SignedCertificate, principal: str | None = None) -> WalletAnswer:
    statement = sign_statement(RevocationList(MET.principal, 1, None, frozenset()), MET)
    return WalletAnswer(
        principal or str(SMITH.principal),
        [],
        [],
        [certificate_to_bytes(one) for one in certificates],
        [statement_to_bytes(statement)],
        str(NOW),
    )


def keep(wallet: WalletFolder, found: WalletAnswer) -> int:
    return wallet.keep(found, domain=MET.principal, address="127.0.0.1:7600", now=NOW)


def test_what_is_kept_is_read_back(tmp_path: Path) -> None:
    wallet, one, other = WalletFolder(tmp_path / "w"), certificate("/a"), certificate("/b")
    assert keep(wallet, answer(one, other)) == 3
    kept = wallet.read()
    assert {each.id for each in kept.certificates} == {one.id, other.id}
    assert len(kept.statements) == 1
    assert (kept.principal, kept.domain, kept.address) == (SMITH.principal, MET.principal, "127.0.0.1:7600")
    assert kept.renew_before == NOW


def test_a_wallet_serves_as_a_folder_of_certificates(tmp_path: Path) -> None:
    wallet, one = WalletFolder(tmp_path / "w"), certificate("/a")
    keep(wallet, answer(one))
    assert [each.id for each in read_certificates([tmp_path / "w"])] == [one.id]


def test_only_its_owner_can_use_it(tmp_path: Path) -> None:
    wallet = WalletFolder(tmp_path / "w")
    keep(wallet, answer(certificate("/a")))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "w").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "w").stat().st_mode) == 0o700
    (tmp_path / "w").chmod(0o750)
    with raises("CREDENTIAL-WALLET-EXPOSED"):
        wallet.read()
    with raises("CREDENTIAL-WALLET-EXPOSED"):
        keep(wallet, answer(certificate("/b")))


def test_what_a_login_no_longer_gives_is_gone_and_what_its_owner_put_there_stays(tmp_path: Path) -> None:
    wallet, one, other = WalletFolder(tmp_path / "w"), certificate("/a"), certificate("/b")
    keep(wallet, answer(one))
    mine = tmp_path / "w" / "mine.cert"
    mine.write_text((tmp_path / "w" / f"{one.id.hex()}.cert").read_text())
    keep(wallet, answer(other))
    assert {each.id for each in wallet.read().certificates} == {one.id, other.id}
    assert not (tmp_path / "w" / f"{one.id.hex()}.cert").exists()
    assert wallet.empty(domain=COURT.principal) == 0
    assert wallet.empty(domain=MET.principal) == 2
    assert [each.id for each in wallet.read().certificates] == [one.id], "the owner's own file"


def test_it_belongs_to_one_principal_and_one_domain(tmp_path: Path) -> None:
    wallet = WalletFolder(tmp_path / "w")
    keep(wallet, answer(certificate("/a")))
    with raises("INPUT-WALLET"):
        keep(wallet, answer(certificate("/b"), principal=str(COURT.principal)))
    with raises("INPUT-WALLET"):
        wallet.keep(answer(certificate("/b")), domain=COURT.principal, address="x:1", now=NOW)
    assert len(wallet.read().certificates) == 1


def test_a_note_that_names_other_peoples_files_removes_none(tmp_path: Path) -> None:
    wallet = WalletFolder(tmp_path / "w")
    keep(wallet, answer(certificate("/a")))
    victim = tmp_path / "victim.cert"
    victim.write_text("precious")
    note = tmp_path / "w" / "wallet.json"
    note.write_text(note.read_text().replace('"files":[', '"files":["../victim.cert",'))
    wallet.empty(domain=MET.principal)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("damage", ["", "{", '{"version":1}', "\udcff"])
def test_a_damaged_wallet_is_named_and_not_believed(tmp_path: Path, damage: str) -> None:
    wallet = WalletFolder(tmp_path / "w")
    keep(wallet, answer(certificate("/a")))
    (tmp_path / "w" / "wallet.json").write_bytes(damage.encode("utf-8", "surrogateescape"))
    with raises("INPUT-WALLET", match=r"wallet\.json"):
        wallet.read()


def test_a_login_shows_appointments_and_what_other_domains_gave(tmp_path: Path) -> None:
    wallet = WalletFolder(tmp_path / "w")
    order = issue_appointment(
        Appointment(COURT.principal, SMITH.principal, "court_order", ("case",), VALID), COURT
    )
    role = AppointmentKind.ROLE_MEMBERSHIP
    own = issue_appointment(Appointment(MET.principal, SMITH.principal, "officer", (), VALID, role), MET)
    other = issue_appointment(Appointment(COURT.principal, SMITH.principal, "juror", (), VALID, role), COURT)
    assert wallet.add([order, own, other]) == 3
    assert wallet.add([order]) == 0
    shown = {one.id for one in to_show(wallet.read(), domain=MET.principal)}
    assert shown == {order.id, other.id}
