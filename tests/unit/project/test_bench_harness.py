"""The benchmark harness divides the right times, and says how sure it is."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
ROUNDS = 3


@pytest.fixture(scope="module")
def harness():
    sys.path.insert(0, str(BENCH))
    import harness

    yield harness
    sys.path.remove(str(BENCH))


@pytest.fixture
def ticking(monkeypatch):
    """A clock that only moves when a side says that it worked."""
    now = [0]
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])

    def work(nanoseconds):
        def run(*_inputs):
            now[0] += nanoseconds

        return run

    return work


def race(harness, ticking, ratio, *, ours=300, peer=100, **ours_options):
    return harness.Race(
        "case",
        ours=harness.Side(run=ticking(ours), **ours_options),
        peer=harness.Side(run=ticking(peer)),
        ratio=ratio,
        target=harness.at_most(2),
    )


def run(harness, case):
    return harness.run_case(case, bench=7, effort=harness.Effort(rounds=ROUNDS, slice_s=0.002))


def test_our_time_over_the_peers_time(harness, ticking):
    result = run(harness, race(harness, ticking, harness.Ratio.OURS_OVER_PEER))
    assert result.ratio == pytest.approx(3)
    assert not result.met
    assert (result.ours_us, result.peer_us) == (pytest.approx(0.3), pytest.approx(0.1))


def test_the_peers_time_over_our_time(harness, ticking):
    result = run(harness, race(harness, ticking, harness.Ratio.PEER_OVER_OURS))
    assert result.ratio == pytest.approx(1 / 3)
    assert result.met


def test_a_floor_is_measured_with_the_rest_and_a_target_may_be_a_part_of_it(harness, ticking):
    wanted = harness.Target(">=", 0.8, is_of_floor=True)
    case = replace(
        race(harness, ticking, harness.Ratio.PEER_OVER_OURS),
        target=wanted,
        floor=harness.Side(run=ticking(200)),
    )
    result = run(harness, case)
    assert (result.target, result.met) == (">= 0.4", False)
    assert result.note == "the floor is 0.2 µs, or 0.5: this is 0.67 of it"
    assert run(harness, replace(case, ours=harness.Side(run=ticking(240)))).met


def test_a_call_that_does_many_operations_is_divided_among_them(harness, ticking):
    case = race(harness, ticking, harness.Ratio.OURS_OVER_PEER, ours=3000, operations=10)
    assert run(harness, case).ratio == pytest.approx(3)


def test_fresh_inputs_are_made_outside_the_clock(harness, ticking):
    making = ticking(1_000_000)
    seen = []

    def prepare(count):
        making()
        return range(count)

    work = ticking(300)
    side = harness.Side(run=lambda given: (seen.append(given), work()), prepare=prepare, calls=4)
    case = harness.Race(
        "cold",
        ours=side,
        peer=harness.Side(run=ticking(100)),
        ratio=harness.Ratio.OURS_OVER_PEER,
        target=harness.at_most(5),
    )
    assert run(harness, case).ratio == pytest.approx(3)
    assert seen == [0, 1, 2, 3] * ROUNDS


def test_the_sides_take_turns(harness):
    order = []
    case = harness.Race(
        "turns",
        ours=harness.Side(run=lambda: order.append("A"), calls=1),
        peer=harness.Side(run=lambda: order.append("B"), calls=1),
        ratio=harness.Ratio.OURS_OVER_PEER,
        target=harness.at_most(1e9),
    )
    run(harness, case)
    assert "".join(order) == "AB" * ROUNDS


def test_the_interval_of_fifteen_rounds_is_the_fourth_and_the_twelfth(harness):
    assert harness.median_interval([float(n) for n in range(1, 16)]) == (4.0, 12.0)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_rounds_give_their_extremes_as_interval(harness, count):
    values = [float(n) for n in range(count)]
    assert harness.median_interval(values) == (0.0, count - 1.0)


def test_a_bound_meets_its_own_target(harness):
    assert harness.at_least(0.85).is_met_by(0.85)
    assert harness.at_most(1.01).is_met_by(1.01)
    assert not harness.at_least(0.85).is_met_by(0.849)


def test_a_row_has_the_fields_that_programs_read(harness):
    figure = harness.Figure("10 attributes", values=[0.85, 0.87, 0.89], target=harness.at_least(0.85))
    row = json.loads(json.dumps(harness.run_case(figure, bench=5, effort=harness.QUICK).as_row()))
    assert row == {
        "bench": 5,
        "case": "10 attributes",
        "ratio": 0.87,
        "interval": [0.85, 0.89],
        "target": ">= 0.85",
        "met": True,
        "rounds": 3,
    }


def test_benchmarks_are_found_by_number_and_by_name(harness):
    one, two = (
        harness.Benchmark(number=n, name=name, about="", cases=lambda quick: [])
        for n, name in [(1, "warm"), (2, "cold")]
    )
    assert harness.chosen([one, two], ["2", "#1", "cold"]) == [two, one, two]
    assert harness.chosen([one, two], []) == [one, two]
    assert harness.chosen([one, two], ["1-2"]) == [one, two]
    half = replace(two, name="other-half")
    assert harness.chosen([one, two, half], ["2"]) == [two, half]
    with pytest.raises(harness.UnknownBenchmark, match="no benchmark is called `3`"):
        harness.chosen([one, two], ["3"])


def test_every_benchmark_has_its_own_number_and_name_and_the_file_says_it(harness):
    files = sorted(BENCH.glob("b[0-9][0-9]_*.py"))
    found = harness.all_benchmarks()
    assert sorted(int(path.name[1:3]) for path in files) == [benchmark.number for benchmark in found]
    assert len({benchmark.name for benchmark in found}) == len(found)


def test_a_case_that_was_not_measured_says_why_and_has_met_nothing(harness):
    missing = harness.NotMeasured(
        "broker, against a peer", why="peer is not installed", target=harness.at_least(2)
    )
    benchmark = harness.Benchmark(number=12, name="broker", about="", cases=lambda quick: [missing])
    (answer,) = harness.run_benchmark(benchmark, harness.QUICK)
    assert answer.as_row() == {
        "bench": 12,
        "case": "broker, against a peer",
        "not_measured": "peer is not installed",
        "target": ">= 2",
        "met": False,
    }


def test_absolute_times_stand_beside_a_figure(harness):
    figure = harness.Figure("p50", [2.0], harness.at_most(3), ours_us=[100.0], peer_us=[50.0])
    row = harness.run_case(figure, bench=13, effort=harness.QUICK).as_row()
    assert (row["ours_us"], row["peer_us"]) == (100.0, 50.0)
