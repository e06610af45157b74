"""The tutorials and how-to pages, command by command, one after the other with one organisation."""

from __future__ import annotations

from pathlib import Path

from support.pages import THE_END, follow

PAGES = (
    "tutorials/administrator.md",
    "tutorials/application.md",
    "tutorials/auditor.md",
    "how-to/revoke.md",
    "how-to/renew.md",
    "how-to/rotate.md",
    "how-to/add-a-broker.md",
    "how-to/lose-a-key.md",
    "how-to/move-a-log.md",
    "how-to/move-a-broker.md",
)


def test_every_command_of_the_tutorials_and_how_to_pages_works(tmp_path: Path) -> None:
    printed = follow(PAGES, tmp_path, ports=[7400])
    assert THE_END in printed, printed[-8000:]
    # What the application's page says that its programs print.
    assert "ward 3 value 142 hidden: patient\nward 3 value 120 hidden: patient\n" in printed
    first, second = printed.partition("refused: POLICY-NO-CHAIN\n")[2].split("nothing more\n")[:2]
    assert first == ""
    assert second.replace("received", "").split() == ["0", "1", "2"]
    assert "6.0 True\n<Subscription LabResult waiting=0>\n" in printed
    # The auditor finds the ward's right with its restriction, and a record that leads through every head.
    assert 'ward == "3"' in (tmp_path / "who-can.txt").read_text()
    assert "verified     the audit leads through all" in printed
    # The visitor was refused, a rotated member and a second broker work, and the moved log is whole.
    assert "[POLICY-REVOKED]" in printed
    assert printed.count("verified     everything is as it was written") == 2
    assert "the broker can run with this configuration" in printed


def test_every_command_of_the_page_about_an_offline_root_works(tmp_path: Path) -> None:
    printed = follow("how-to/offline-root.md", tmp_path, ports=[7500])
    assert THE_END in printed, printed[-4000:]
    assert "the key server can run with this configuration" in printed
