"""docs/identity.md, command by command, with two real domain processes."""

from __future__ import annotations

from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("identity.md", tmp_path, ports=[7610, 7620])
    assert THE_END in printed, printed[-4000:]
    assert "attribute    clearance = 3" in printed
    assert "guest of     ed25519:" in printed
    assert "[CREDENTIAL-IDENTITY-PROVIDER]" in printed
    assert "[REFUSED-NOT-REGISTERED]" in printed
