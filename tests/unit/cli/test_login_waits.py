"""A login waits a moment for another domain's first list, and says what is withheld where none comes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from maia.api.responses import WalletAnswer, WithheldAnswer
from maia.cli.output import use_json
from maia.cli.participate import login as command
from maia.credentials import SigningKey

MET = SigningKey.from_seed(b"m" * 32).principal
STALE = WithheldAnswer("np_tracker", "CREDENTIAL-STALE", "subscribe Numberplate", "no list is known")
REVOKED = WithheldAnswer("np_tracker", "CREDENTIAL-REVOKED", "subscribe Numberplate", "it was revoked")


class Domain:
    """A domain that answers logins one after the other; the last answer stays."""

    domain, address = MET, "127.0.0.1:1"

    def __init__(self, *withheld: list[WithheldAnswer]) -> None:
        self.withheld, self.asked = withheld, 0

    def ask(self, *_asked: object, once: str) -> WalletAnswer:
        del once
        self.asked += 1
        withheld = self.withheld[min(self.asked, len(self.withheld)) - 1]
        return WalletAnswer(str(MET), [], [], [], [], None, withheld)

    @contextmanager
    def client(self) -> Iterator[Domain]:
        yield self


def withheld_at_login(domain: Domain, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    use_json(True)
    command.login(domain, folder / "wallet", watch=False, every=None)  # type: ignore[arg-type]
    return [one["code"] for one in json.loads(capsys.readouterr().out)["withheld"]]


def test_a_login_waits_for_a_list_and_for_nothing_else(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(command.time, "sleep", lambda _seconds: None)
    late, revoked = Domain([STALE], [STALE, REVOKED], [REVOKED]), Domain([REVOKED])
    assert (withheld_at_login(late, tmp_path, capsys), late.asked) == (["CREDENTIAL-REVOKED"], 3)
    assert (withheld_at_login(revoked, tmp_path, capsys), revoked.asked) == (["CREDENTIAL-REVOKED"], 1)
    monkeypatch.setattr(command, "_LISTS_S", 0.01)
    assert withheld_at_login(Domain([STALE]), tmp_path, capsys) == ["CREDENTIAL-STALE"]
