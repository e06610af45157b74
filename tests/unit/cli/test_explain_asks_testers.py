"""What `maia explain` makes of what testers say."""

from __future__ import annotations

import pytest

from maia.api import testers
from maia.cli.participate.explain import AskedRight
from maia.credentials import CertificateRevoked, TestKind
from support.statements import TESTER, certificate, crl, moment


def test_a_list_that_a_newer_one_has_replaced_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tester shows its statements in whatever order; what counts is its newest word."""
    tested = certificate(TestKind.CRL)

    async def asked(*_: object, **__: object) -> testers.Fetched:
        return testers.Fetched((crl(2, tested), crl(1)))

    monkeypatch.setattr(testers, "ask_testers", asked)
    found = AskedRight.of([tested], moment(0))
    assert isinstance(found.check(tested, moment(0)), CertificateRevoked)
    assert set(found.heard or ()) == {TESTER.principal}
