"""The page on interaction control, docs/interaction.md: every `sh` block is run by one shell."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("interaction.md", tmp_path, ports=[7660, 7661])
    assert THE_END in printed, printed[-4000:]
    assert "(the nearest is `pseudonym`)" in printed
    assert "there is no attribute `patient`" in printed
    assert "shown as     type `nhs.ControlledDrugAuth`" in printed
    events = [json.loads(line) for line in re.findall(r"^\{.*\}$", printed, re.MULTILINE)]
    audited = [one for one in events if "reference" in one]
    seen = [one for one in events if "place" in one]
    assert [one["drug"] for one in audited] == ["MORPHINE"]
    assert re.fullmatch("[0-9a-f]{32}", audited[0]["reference"])
    assert [one["place"] for one in seen] == ["CB", "CB3 0FD"]
    assert [one["drug"] for one in seen] == ["opioids", "opioids"]
    assert "every        1 second" in printed
    means = [one for one in events if "mean_level" in one]
    assert [(one["area"], one["mean_level"]) for one in means] == [("CB", 20.5)] * 2
    assert all(one["readings"] >= 2 for one in means)
