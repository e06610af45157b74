"""The page of the papers' figures says what was kept, and every figure can be measured again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    before = set(sys.modules)
    import figures

    yield figures
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == ROOT / "bench":
            del sys.modules[name]


def test_the_page_is_written_from_what_is_kept(figures):
    text = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8")
    assert text == figures.page(), "run: .venv/bin/python bench/figures.py --page"
    assert "Not measured yet" not in text
    for figure in figures.FIGURES:
        assert (figure.draw is None) or (ROOT / "docs" / "images" / f"{figure.name}.svg").exists()


def test_real_brokers_count_what_arrays_count(figures):
    from figure_7_10 import FIGURES, WITHIN, farthest_off

    found = figures.kept(FIGURES[0])["found"]
    assert found["brokers"] == 500
    assert farthest_off(found, "own_tables") <= WITHIN


def test_every_figure_is_measured_on_small_inputs(figures, capsys):
    assert figures.main(["--quick", "--json"]) == 0
    answered = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["figure"] for one in answered] == [figure.name for figure in figures.FIGURES]
    assert all(one["found"] for one in answered)
