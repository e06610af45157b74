"""The example of docs/pipeline.md runs, and the page quotes it."""

from __future__ import annotations

import runpy
from contextlib import nullcontext
from pathlib import Path

from maia.spark.session import session as spark_session

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "governed_table.py"


def test_the_example_shows_the_plate_of_the_fast_car_and_no_speed(spark, monkeypatch, capsys):
    """On the suite's session: what it shows does not depend on who started Java."""
    monkeypatch.setattr(spark_session, "spark_session", lambda: nullcontext(spark))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.strip() == "[Row(numberplate='AE05 XYZ', speed=None)]"


def test_the_page_quotes_the_example():
    page = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
    quoted = page.partition("The part that reads:\n\n```text\n")[2].partition("```")[0]
    assert "governed(" in quoted
    example = EXAMPLE.read_text(encoding="utf-8")
    for line in quoted.splitlines():
        assert line in example
