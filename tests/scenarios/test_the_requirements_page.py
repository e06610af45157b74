"""docs/requirements.md, command by command, with a real provider, a real broker and real clients."""

from __future__ import annotations

import json
from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    """I5: over sockets, with the commands that people use."""
    printed = follow("requirements.md", tmp_path, ports=[7630, 7640])
    assert THE_END in printed, printed[-4000:]
    seen = {name: (tmp_path / "reports" / f"{name}.jsonl").read_text() for name in ("anna", "ben", "carl")}
    assert [text in seen["anna"] for text in ("cleared", "Norway", "by Ben", "by Carl")] == [1, 1, 0, 0]
    assert [text in seen["ben"] for text in ("cleared", "Norway", "by Ben", "by Carl")] == [0, 1, 1, 1]
    assert [text in seen["carl"] for text in ("cleared", "Norway", "by Ben", "by Carl")] == [0, 0, 1, 1]
    figure = [json.loads(line) for line in (tmp_path / "reports" / "figure.jsonl").read_text().splitlines()]
    assert [(one["topic"], one["payload"]) for one in figure] == [
        ("/news/security/incidents", "door forced"),
        ("/alarms/ids/building-203/door-2", "below one of them"),
    ]
    assert "[INPUT-PREDICATE-TEXT]" in printed
    assert "requirement not met: clearance >= 3" in printed
