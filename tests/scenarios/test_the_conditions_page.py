"""The page on conditions, docs/conditions.md, command by command: every `sh` block is run by one shell."""

from __future__ import annotations

import re
from pathlib import Path

from support.pages import THE_END, follow


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    printed = follow("conditions.md", tmp_path, ports=[7600])
    assert THE_END in printed, printed[-4000:]
    assert printed.count("\nyes, until") == 4
    assert printed.count("no [POLICY-SUBSCRIPTION-TOO-WIDE]") == 2
    assert printed.count("no [POLICY-CONDITION-NOT-MET]") == 2
    assert "right        subscribe type" in printed
    # On a slow machine the next list may be there in advance, and say the same.
    lists = [
        (int(number), int(facts)) for number, facts in re.findall(r"FactList (\d+) .* (\d) facts", printed)
    ]
    assert lists == sorted(lists)
    assert (lists[0][1], lists[-1][1]) == (1, 0)
