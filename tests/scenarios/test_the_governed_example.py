"""The example of docs/pipeline.md runs, and the page quotes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "governed_table.py"


def test_the_example_shows_the_plate_of_the_fast_car_and_no_speed():
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "[Row(numberplate='AE05 XYZ', speed=None)]"


def test_the_page_quotes_the_example():
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    quoted = page.partition("```text\n")[2].partition("```")[0]
    example = EXAMPLE.read_text(encoding="utf-8")
    for line in quoted.splitlines():
        assert line in example
