"""docs/identity.md, command by command, with two real domain processes and a broker."""

from __future__ import annotations

import json
from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("identity.md", tmp_path, ports=[7610, 7620, 7630, 7631])
    assert THE_END in printed, printed[-4000:]
    assert "attribute    clearance = 3" in printed
    assert "guest of     ed25519:" in printed
    assert "[CREDENTIAL-IDENTITY-PROVIDER]" in printed
    assert "[REFUSED-NOT-REGISTERED]" in printed
    seen = json.loads((tmp_path / "coalition" / "seen.json").read_text())
    assert seen["event"] == {"place": "Bodo"}
    by = seen["published_by"]
    assert (by["identifier"], by["attributes"]) == ("anna@norway", {"nationality": "no"})
    assert (by["is_signed"], by["is_identity_verified"], by["community"]) == (True, True, "coalition.north")
    renewed = json.loads((tmp_path / "coalition" / "renewed.json").read_text())
    assert renewed["published_by"]["attributes"] == {"clearance": 4, "nationality": "no"}
