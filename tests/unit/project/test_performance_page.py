"""The performance page says what was kept, and growth is named by its exponent."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
MACHINE = dict.fromkeys(
    ("measured_on", "cores", "architecture", "python", "load_before", "load_after", "busy_cores"), 0
)


@pytest.fixture(autouse=True)
def _on_the_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])


@pytest.fixture
def page(tmp_path):
    """Write the page from some kept files."""
    import performance_page

    def write(**files):
        for name, record in files.items():
            (tmp_path / f"{name.replace('_', '-').lstrip('-')}.json").write_text(json.dumps(record))
        return performance_page.performance_page(performance_page.Kept(tmp_path))

    return write


MEASURED = {**MACHINE, "measured_on": "2026-11-17", "commit": "1a2b3c4d"}


def record(number, *rows):
    about = {"bench": number, "name": "some", "about": "", "stood": "", "peer_lacks": "", "machine": MEASURED}
    return {**about, "rows": list(rows)}


def row(case, ratio, target, *, met, **more):
    return {"case": case, "ratio": ratio, "interval": [ratio, ratio], "target": target, "met": met, **more}


def curve(points, reason=""):
    import growth

    return growth.Curve("a cost", "µs", points, reason).as_record()


def growth_of(*curves):
    subject = {"name": "some", "title": "Some", "about": "", "curves": curves, "machine": MACHINE}
    return {"subjects": [subject]}


def test_every_number_of_the_first_table_is_read_from_the_kept_results():
    import performance_page

    kept = performance_page.Kept()
    assert len(performance_page.HEADLINES) == 12
    for one in performance_page.HEADLINES:  # a case that was renamed raises LookupError
        assert one.ours(kept)
        assert one.beside(kept)
    for _, _, bars in performance_page.PICTURES.values():
        assert all(read(kept) > 0 for _, _, read in bars)


def test_what_is_not_kept_was_not_measured(page):
    text = page()
    assert text.count("| not measured | not measured |") == 12
    assert "0 cases, 0 at their target" in text


def test_a_number_changes_with_its_file(page):
    of_memory = [
        row("kilobytes a subscription", 0.5, "<= 1", met=True),
        row("kilobytes a subscription with a capability of its own", 3, "<= 2", met=False),
    ]
    assert "| 0.5 kB; 3 kB | aim 1 kB; 2 kB | #24 | `1a2b3c4d`, 2026-11-17 |" in page(
        _24_memory=record(24, *of_memory)
    )


def test_the_table_of_targets_names_the_case_that_is_farthest_away(page):
    rows = [
        row("near", 0.9, ">= 1", met=False),
        row("far", 30, "<= 10", met=False),
        row("good", 2, ">= 1", met=True),
        {"case": "absent", "not_measured": "no peer", "target": ">= 1", "met": False},
    ]
    text = page(_07_some=record(7, *rows))
    assert "| #7 some | 4 | 1 | 2 | 1 | far: 30, wanted <= 10 |" in text


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_that_power(power):
    import growth

    assert growth.exponent([(n, 7 * n**power) for n in (10, 100, 1_000, 5_000)]) == pytest.approx(power)


def test_a_fixed_cost_hides_less_at_the_end():
    found = curve([(n, 1_000 + n) for n in (10, 1_000, 100_000, 1_000_000)])
    assert found["exponent"] < found["at_the_end"] < 1


def test_an_extrapolation_is_the_straight_line_and_is_called_so(page):
    import growth

    points = [(1_000, 3.0), (2_000, 5.0), (4_000, 9.0)]
    beyond = growth.extrapolated(points, [1_000_000])
    assert beyond == [(1_000_000, pytest.approx(2001))]
    text = page(growth=growth_of(growth.Curve("a cost", "s", points, beyond=beyond).as_record()))
    assert "**extrapolated** from the slope: 1,000,000: about 2,000" in text


def test_more_than_proportional_has_a_reason_or_is_a_defect(page):
    square = [(n, float(n * n)) for n in (10, 100, 1_000)]
    assert "without a reason: a defect" in page(growth=growth_of(curve(square)))
    assert "| all pairs meet |" in page(growth=growth_of(curve(square, "all pairs meet")))
    proportional = [(n, 1.05 * n) for n in (10, 100, 1_000)]
    assert "without a reason: a defect" not in page(growth=growth_of(curve(proportional)))


def test_a_forecast_is_the_sum_of_the_last_runs(tmp_path):
    import harness
    import harness_report

    known, unknown = (
        harness.Benchmark(number=n, name=name, about="", cases=lambda quick: [])
        for n, name in ((1, "known"), (2, "unknown"))
    )
    assert harness_report.forecast([unknown], tmp_path) == "of unknown length"
    (tmp_path / "01-known.json").write_text(json.dumps({"took_s": 3900}))
    assert harness_report.forecast([known], tmp_path) == "about 1 h 05 min"
    assert (
        harness_report.forecast([known, unknown], tmp_path) == "about 1 h 05 min, and 1 of them never timed"
    )


# ---------------------------------------------------------------- how old the figures are

MEMORY = [
    row("kilobytes a subscription", 0.5, "<= 1", met=True),
    row("kilobytes a subscription with a capability of its own", 3, "<= 2", met=False),
]


@pytest.fixture
def commits(monkeypatch):
    """Say how many commits have changed what a record measures."""
    import ages

    def say(count):
        monkeypatch.setattr(ages, "commits_since", lambda _commit, _rooms: count)

    return say


def test_a_headline_that_is_older_than_its_rooms_is_called_old_or_the_check_fails(page, tmp_path, commits):
    import ages

    page(_24_memory=record(24, *MEMORY))
    commits(ages.COMMITS_MAX)
    assert list(ages.unsaid(tmp_path)) == []
    commits(ages.COMMITS_MAX + 1)
    (said,) = ages.unsaid(tmp_path)
    assert "make bench NAMES=24" in said
    assert "; **old**" not in page()
    ages.say_what_is_old(tmp_path)
    assert list(ages.unsaid(tmp_path)) == []
    assert "| #24 | `1a2b3c4d`, 2026-11-17; **old** |" in page()


def test_a_record_of_no_commit_or_of_one_that_is_not_here_fails_the_check(page, tmp_path):
    import ages

    page(_24_memory=record(24, *MEMORY) | {"machine": MACHINE})
    assert "does not say at which commit" in next(ages.unsaid(tmp_path))
    if ages.git("rev-parse", "--is-shallow-repository") == "false":
        page(_24_memory=record(24, *MEMORY) | {"machine": {**MEASURED, "commit": "0" * 8}})
        assert "is no commit here" in next(ages.unsaid(tmp_path))


def test_each_headline_names_results_whose_rooms_are_known():
    import ages
    import performance_page

    named = {source for one in performance_page.HEADLINES for source in one.sources}
    assert named == ages.MEASURED.keys()
    source = BENCH.parent / "src" / "maia"
    assert all((source / room).is_dir() for rooms in ages.MEASURED.values() for room in rooms)


def test_a_benchmark_that_was_measured_at_this_commit_is_not_measured_again(page, tmp_path):
    import harness
    from harness_report import is_measured_at

    bench = harness.Benchmark(24, "memory", "", lambda _quick: ())
    assert not is_measured_at(bench, "1a2b3c4d", tmp_path)
    page(_24_memory=record(24, *MEMORY))
    assert is_measured_at(bench, "1a2b3c4d", tmp_path)
    assert not is_measured_at(bench, "2b3c4d5e", tmp_path)
    page(_24_memory=record(24, *MEMORY) | {"machine": {**MEASURED, "commit": "1a2b3c4d+"}})
    assert not is_measured_at(bench, "1a2b3c4d+", tmp_path)  # the code has changed since, or has not


def test_commits_of_results_and_pages_leave_what_was_measured_as_it_is(tmp_path, monkeypatch):
    import ages

    def commit(name):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
        assert ages.git("add", "--all", "../..") is not None
        who = ("-c", "user.name=me", "-c", "user.email=me@example.org", "-c", "commit.gpgsign=false")
        assert ages.git(*who, "commit", "-m", name) is not None
        return ages.commit_here()

    monkeypatch.setattr(ages, "RESULTS", tmp_path / "bench" / "results")
    ages.RESULTS.mkdir(parents=True)
    assert ages.git("init", "../..") is not None
    measured = commit("src/maia/broker.py")
    page = [commit(name) for name in ("docs/performance.md", "bench/results/24-memory.json")][-1]
    assert ages.is_same_code(measured, page)
    assert not ages.is_same_code(measured, f"{page}+")
    assert not ages.is_same_code(measured, commit("bench/b24_memory.py"))
    assert not ages.is_same_code(page, commit("src/maia/client.py"))


def test_a_record_says_how_its_python_was_built(monkeypatch):
    import sysconfig

    from harness_report import python_build

    said = {"prefix": "/opt", "CONFIG_ARGS": "'--enable-optimizations' '--with-lto=full'"}
    monkeypatch.setattr(sysconfig, "get_config_var", said.get)
    assert python_build() == "with PGO and with LTO"
    said["CONFIG_ARGS"] = "'--enable-shared'"
    assert python_build() == "without PGO and without LTO"
    said["prefix"] = "/usr"  # Debian removes what it was built with
    assert python_build() == "by its distribution"


def test_a_page_says_at_which_commit_and_by_which_python_it_was_measured(page):
    how = {
        **MEASURED,
        "cores": 2,
        "architecture": "x86_64",
        "python": "3.11.2",
        "build": "with PGO and with LTO",
    }
    text = page(_24_memory=record(24, *MEMORY) | {"machine": how})
    assert (
        "Measured 2026-11-17 at `1a2b3c4d`: 2 cores x86_64, Python 3.11.2 built with PGO and with LTO,"
        in text
    )
