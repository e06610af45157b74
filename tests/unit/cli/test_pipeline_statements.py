"""What `maia pipeline` says about a reader whose certificates an user has to confirm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from maia.cli.pipeline.source import EventOptions
from maia.clock import system_now
from maia.credentials import (
    AuthorisationCertificate,
    OnlineTest,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    TestKind,
    certificate_to_text,
    issue,
    period_from,
    sign_statement,
    statement_to_bytes,
)
from maia.events import Kind
from maia.keystore.key_files import create_key_file
from maia.spark.applications import APPLICATIONS
from maia.testing.refusals import raises
from maia.types import definition_to_text
from support.governed import OWNER, READER, grant, key_of, typed

TESTER = key_of("tester")


def right() -> SignedCertificate:
    said = grant().certificate
    assert isinstance(said, AuthorisationCertificate)
    validity = said.validity.with_tests(OnlineTest(TestKind.TIMED_CRL, TESTER.principal))
    return issue(AuthorisationCertificate(said.issuer, said.subject, False, said.authority, validity), OWNER)


def listed(number: int, *revoked: SignedCertificate) -> SignedStatement:
    period = None if revoked else period_from(system_now(), microseconds=3_600_000_000)
    ids = frozenset(one.id for one in revoked)
    return sign_statement(RevocationList(TESTER.principal, number, period, ids), TESTER)


def write(path: Path, statement: SignedStatement) -> Path:
    path.write_bytes(statement_to_bytes(statement))
    return path


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, object]:
    """Return the words of a command about an empty log, and a wallet without statements."""
    (tmp_path / "log").mkdir()
    (tmp_path / "wallet").mkdir()
    (tmp_path / "wallet" / "right.cert").write_text(certificate_to_text(right()))
    (tmp_path / "np.type").write_text(definition_to_text(typed().signed))
    create_key_file(tmp_path / "reader.key", READER)
    return {
        "log": tmp_path / "log",
        "definition": [tmp_path / "np.type"],
        "key": tmp_path / "reader.key",
        "credentials": [tmp_path / "wallet"],
    }


def open_(asked: dict[str, object], **more: object) -> None:
    """Open the source; no table is asked for, so nothing of Spark is needed."""
    plates = replace(APPLICATIONS["billing"], reads={"numberplate": Kind.STRING})
    with EventOptions(**asked, **more).opened(None, plates):  # type: ignore[arg-type]
        pass


def test_without_statements_the_reader_is_told_what_to_do(asked):
    with raises("UNAVAILABLE-STATEMENTS", match=r"maia login.*--statements") as told:
        open_(asked)
    assert told.value.code == "UNAVAILABLE-STATEMENTS"


def test_statements_in_the_wallet_are_accepted(asked, tmp_path):
    write(tmp_path / "wallet" / "1.statement", listed(1))
    open_(asked)


def test_statements_can_be_named(asked, tmp_path):
    open_(asked, statements=[write(tmp_path / "list", listed(1))])


def test_a_list_that_is_over_does_not_help(asked, tmp_path):
    over = period_from(type(system_now())(system_now() - 10_000_000), microseconds=5_000_000)
    old = sign_statement(RevocationList(TESTER.principal, 1, over, frozenset()), TESTER)
    with raises("UNAVAILABLE-STATEMENTS"):
        open_(asked, statements=[write(tmp_path / "list", old)])


def test_a_revoked_reader_is_told_so(asked, tmp_path):
    write(tmp_path / "wallet" / "1.statement", listed(1))
    with raises("POLICY-REVOKED"):
        open_(asked, statements=[write(tmp_path / "more", listed(2, right()))])
