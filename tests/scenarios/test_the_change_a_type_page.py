"""The page on changing types, docs/how-to/change-a-type.md: every `sh` block is run by one shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("how-to/change-a-type.md", tmp_path, ports=[])
    assert THE_END in printed, printed[-6000:]
    before, after = printed.split("made from    0", 1)
    (old,) = (json.loads(one) for one in re.findall(r"^\{.*\}$", before, re.MULTILINE))
    assert old == {"ward": "3", "value": 142, "note": "fasting"}
    assert "narrower" not in printed, "members got what was added"
    assert "institute (ed25519:" in after
    assert "take the newest version in by themselves" in after
    office, reader = (json.loads(one) for one in (tmp_path / "event.json").read_text().splitlines()[-2:])
    assert office == {"ward": "3", "value": 142, "remark": None, "unit": "mg"}
    assert reader == {"ward": "3", "value": 142, "remark": "fasting", "unit": "mg"}
    assert "lab" in (tmp_path / "users.txt").read_text()
    assert "publishes the newest" in after
    assert "a new version of LabResult was taken in" in (tmp_path / "institute.log").read_text()
