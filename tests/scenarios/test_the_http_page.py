"""HTTP clients through a gateway, with TLS: docs/http.md, command by command, with curl."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.pages import THE_END, follow


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_command_works_and_curl_gets_what_its_account_may_see(tmp_path: Path) -> None:
    """A19: curl and `maia gateway sign` talk to a gateway whose certificate they verify."""
    printed = follow("http.md", tmp_path, ports=[7441, 7442])
    folder = tmp_path / "http"
    assert THE_END in printed, printed[-4000:] + (folder / "gateway.log").read_text()[-2000:]

    def events(name: str) -> list[tuple[str, object]]:
        lines = (folder / name).read_text().splitlines()
        found = [json.loads(one.removeprefix("data: ")) for one in lines if one.startswith("data: ")]
        return [(one["topic"], one["payload"]) for one in found]

    both = [("plates/Victoria", {"plate": "AE05 XYZ"}), ("plates/Soho", {"plate": "AE05 XYZ"})]
    assert events("plates.txt") == both
    assert events("later.txt") == both[1:]
    assert json.loads((folder / "published.json").read_text()) == {"accepted": 1}
    assert json.loads((folder / "refused.json").read_text())["code"] == "REFUSED-GATEWAY-ACCOUNT"
    assert json.loads((folder / "denied.json").read_text())["status"] == 403
    assert "maia_gateway_http_published 2.0" in printed
