"""A table for a partner without Maia: docs/sharing.md, command by command."""

from __future__ import annotations

from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_works_and_the_partner_sees_one_row_without_the_patient(tmp_path: Path) -> None:
    """D19: as the page says it."""
    printed = follow("sharing.md", tmp_path, ports=[8890])
    assert THE_END in printed, printed[-6000:]
    rows = (tmp_path / "rows.txt").read_text()
    assert "Table(name='LabResult', share='hospital', schema='types')" in rows
    assert ("142" in rows, "patient" in rows, "P-17" in rows) == (True, False, False)
    assert printed.rstrip().splitlines()[-2] == "REFUSED-SHARE-BEARER"
