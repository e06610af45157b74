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


def test_what_a_benchmark_runs_is_shown_from_its_one_run_on_both_pages(figures):
    """Four tables and figures had a second run here, and said another thing than docs/performance.md."""
    from figure_4_5 import read_table_4_7, read_table_4_8
    from figure_7_8 import read
    from performance_page import Kept

    kept = Kept()
    assert read_table_4_8(kept)["times"] == kept.ratio(1, "chain of 5")
    assert read_table_4_7(kept)["times"]["narrowing"] == kept.ratio(3, "narrows")
    sealed = kept.case(6, "10 attributes, single events, attribute level")
    assert read(kept)["single events"]["attribute level"][10]["left"] == sealed["ratio"]
    for figure in figures.FIGURES:
        assert (figure.measure is None) <= (not (kept._folder / f"{figure.name}.json").exists())
    of_figure_7_9 = [row for one in kept.records if one["bench"] == 7 for row in one["rows"]]
    assert not [row for row in of_figure_7_9 if "delivery" in row["case"]]


def test_what_speaks_against_a_claim_stands_beside_what_speaks_for_it(figures):
    sections = dict(part.partition("\n")[::2] for part in figures.page().split("\n## ")[1:])
    table_4_7 = sections["Table 4.7: reduction beside signatures"]
    assert "Ed25519 / reduction that narrows" in table_4_7
    assert "Where each certificate narrows something, it **does\nnot hold here**" in table_4_7
    assert "7.422 µs (σ 1.783)" in sections["Figure 4.5: chains with and without caches"]
    found = figures.kept(next(one for one in figures.FIGURES if one.name == "costs-3-3"))["found"]
    from figure_costs import bound_of_advertisement

    above = sum(one["advertisement"] > bound_of_advertisement(one) for one in found["points"])
    assert f"{above} of {len(found['points'])} are above it" in sections["Checks in transit"].replace(
        "\n", " "
    )


def test_real_brokers_count_what_arrays_count(figures):
    from figure_7_10 import FIGURES, WITHIN, farthest_off

    found = figures.kept(FIGURES[0])["found"]
    assert found["brokers"] == 500
    assert farthest_off(found, "own_tables") <= WITHIN


def test_what_a_change_of_a_key_group_costs_is_counted_to_lie_on_lines_in_log_n(figures):
    from figure_key_trees import FIGURES, NEAR, farthest_off

    found = figures.kept(FIGURES[0])["found"]
    assert found["points"][-1]["members"] == 65_536
    assert farthest_off(found) <= NEAR
    found["points"][-1]["bytes"] *= 2
    assert farthest_off(found) > NEAR


def test_every_figure_is_measured_on_small_inputs(figures, capsys):
    assert figures.main(["--quick", "--json"]) == 0
    answered = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    measured = [figure.name for figure in figures.FIGURES if figure.measure is not None]
    assert [one["figure"] for one in answered] == measured
    assert all(one["found"] for one in answered)
