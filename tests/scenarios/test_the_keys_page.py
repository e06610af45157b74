"""The key server's page, docs/keys.md, command by command: every `sh` block is run by one shell."""

from __future__ import annotations

from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("keys.md", tmp_path, ports=[7500])
    assert THE_END in printed, printed[-4000:]
    assert "the key server can run with this configuration" in printed
    assert "listening on 127.0.0.1:" in printed
    assert (tmp_path / "sealed" / "keys-data" / "groups.sqlite").exists()
