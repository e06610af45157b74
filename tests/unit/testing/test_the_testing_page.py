"""The page about tests of one's own: its programs run, one after the other, in each of the three worlds."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"


def test_every_program_of_the_page_runs():
    names: dict[str, object] = {"__name__": "page"}
    programs = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(programs) == 4
    for program in programs:
        exec(compile(program, "page", "exec"), names)  # noqa: S102 - our own document
