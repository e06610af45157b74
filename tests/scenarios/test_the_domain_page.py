"""The domain's page, docs/domain.md, command by command: every `sh` block is run by one shell."""

from __future__ import annotations

from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("domain.md", tmp_path, ports=[7600])
    assert THE_END in printed, printed[-4000:]
    assert "the policy can be put in force" in printed
    assert "role         np_tracker(AE05 XYZ)" in printed
    assert 'numberplate == "AE05 XYZ"' in printed
    assert "[REFUSED-LOGIN]" in printed
    assert "verified     the audit leads through all" in printed
