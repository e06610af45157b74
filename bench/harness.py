"""How fast is this, compared with what else could do the job?

A benchmark yields cases. A `Race` times two ways of doing one job in turns,
A/B/A/B, so that whatever else the machine does falls on both; its answer is
the median of the rounds' ratios with an interval around it. A `Figure` is a
number that needs no clock, such as a size. Absolute times are kept beside the
ratio and never stand alone. Nothing here prints: see `harness_report.py`.
"""

from __future__ import annotations

import gc
import importlib
import math
import os
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).resolve().parent
BUSY_CORES_WORTH_A_WARNING = 0.5


# ---------------------------------------------------------------- what a benchmark says


@dataclass(frozen=True, slots=True)
class Target:
    """What we set out to reach: a bound and the side of it that is good."""

    sign: str
    bound: float
    is_of_floor: bool = False
    """Whether the bound is a part of the ratio that is possible at all, which is measured with the rest."""

    def is_met_by(self, ratio: float) -> bool:
        """Return whether `ratio` is on the good side, the bound included."""
        return ratio >= self.bound if self.sign == ">=" else ratio <= self.bound

    def __str__(self) -> str:
        return f"{self.sign} {self.bound:g}"


def at_least(bound: float) -> Target:
    """Return the target that larger ratios meet."""
    return Target(">=", bound)


def at_most(bound: float) -> Target:
    """Return the target that smaller ratios meet."""
    return Target("<=", bound)


class Ratio(Enum):
    """Which time is divided by which. The case's name should let a reader guess."""

    OURS_OVER_PEER = "our time / peer's time"
    PEER_OVER_OURS = "peer's time / our time"


@dataclass(frozen=True, slots=True)
class Side:
    """One way of doing the job. `prepare(n)` makes n fresh inputs outside the clock, one per call."""

    # Any: a side's input and output are its own business, the harness only passes them through.
    run: Callable[..., Any]
    prepare: Callable[[int], Sequence[Any]] | None = None
    operations: int = 1
    calls: int | None = None


@dataclass(frozen=True, slots=True)
class Race:
    """Two ways of doing one job, timed in turns. The unit is the time of one operation."""

    case: str
    ours: Side
    peer: Side
    ratio: Ratio
    target: Target
    floor: Side | None = None
    """What no way could go below: the ratio that it would reach is measured in the same rounds."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A ratio that needs no clock here: one value, or one per repetition; absolute times beside it."""

    case: str
    values: Sequence[float]
    target: Target
    ours_us: Sequence[float] = ()
    peer_us: Sequence[float] = ()
    note: str = ""
    """Absolute figures that are no times, for people: `ours 25 kB, theirs 51 kB`."""


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A case that could not be tried here, and why: a peer that is not installed, for instance."""

    case: str
    why: str
    target: Target


Case = Race | Figure | NotMeasured


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A named, numbered question about speed or size, and where its answer stood before us."""

    number: int
    name: str
    about: str
    cases: Callable[[bool], Iterable[Case]]
    """Called with True for a smoke run, which may use smaller inputs. Yield cases; each runs as it comes."""
    stood: str = ""
    peer_lacks: str = ""
    floor: str = ""
    """What no program could go below on the machine of the kept result, where that is near a target."""


# ---------------------------------------------------------------- what a run answers


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one case."""

    bench: int
    case: str
    ratio: float
    interval: tuple[float, float]
    target: str
    met: bool
    ours_us: float | None = None
    peer_us: float | None = None
    rounds: int = 1
    note: str = ""

    def as_row(self) -> dict[str, object]:
        """Return the row that `--json` prints, absolute times last."""
        row: dict[str, object] = {
            "bench": self.bench,
            "case": self.case,
            "ratio": _rounded(self.ratio),
            "interval": [_rounded(bound) for bound in self.interval],
            "target": self.target,
            "met": self.met,
            "rounds": self.rounds,
        }
        if self.ours_us is not None and self.peer_us is not None:
            row |= {"ours_us": _rounded(self.ours_us), "peer_us": _rounded(self.peer_us)}
        return row | {"note": self.note} if self.note else row


@dataclass(frozen=True, slots=True)
class Unanswered:
    """What stands in the place of a case's answer when it was not measured. It has met no target."""

    bench: int
    case: str
    target: str
    not_measured: str
    met: bool = False

    def as_row(self) -> dict[str, object]:
        """Return the row that `--json` prints: the reason where the ratio would stand."""
        return {
            "bench": self.bench,
            "case": self.case,
            "not_measured": self.not_measured,
            "target": self.target,
            "met": self.met,
        }


Answer = Result | Unanswered


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds per case, and the shortest time that one slice of a round takes."""

    rounds: int = 15
    slice_s: float = 0.05
    quick: bool = False
    first_alone: bool = False
    """Whether a benchmark ends after the first case that is measured."""


THOROUGH = Effort()
QUICK = Effort(rounds=1, slice_s=0.002, quick=True)


# ---------------------------------------------------------------- measuring


def run_case(
    case: Race | Figure, *, bench: int, effort: Effort, on_round: Callable[[], None] = lambda: None
) -> Result:
    """Measure one case. `on_round` is called after every round, for a progress bar."""
    if isinstance(case, Figure):
        ours_s, peer_s = [us / 1e6 for us in case.ours_us], [us / 1e6 for us in case.peer_us]
        return _result(case, bench=bench, ratios=list(case.values), ours_s=ours_s, peer_s=peer_s)
    gc.collect()
    gc.freeze()  # what was made so far is not walked over again before each slice
    ours_calls = case.ours.calls or _calls_filling(case.ours, effort.slice_s)
    peer_calls = case.peer.calls or _calls_filling(case.peer, effort.slice_s)
    floor = case.floor
    floor_calls = 0 if floor is None else floor.calls or _calls_filling(floor, effort.slice_s)
    ours_s = []
    peer_s = []
    floor_s = []
    for _ in range(effort.rounds):
        ours_s.append(_seconds_per_operation(case.ours, ours_calls))
        peer_s.append(_seconds_per_operation(case.peer, peer_calls))
        if floor is not None:
            floor_s.append(_seconds_per_operation(floor, floor_calls))
        on_round()
    gc.unfreeze()
    ratios = _ratios(case.ratio, ours_s, peer_s)
    note, target = "", case.target
    if floor is not None:
        best = statistics.median(_ratios(case.ratio, floor_s, peer_s))
        reached = statistics.median(ratios) / best
        reached = 1 / reached if case.ratio is Ratio.OURS_OVER_PEER else reached
        floor_us = statistics.median(floor_s) * 1e6
        note = f"the floor is {_rounded(floor_us):g} µs, or {best:.3g}: this is {reached:.2g} of it"
        if target.is_of_floor:
            target = Target(target.sign, _rounded(target.bound * best))
    return _result(
        replace(case, target=target), bench=bench, ratios=ratios, ours_s=ours_s, peer_s=peer_s, note=note
    )


def _ratios(ratio: Ratio, ours_s: Sequence[float], peer_s: Sequence[float]) -> list[float]:
    return [
        ours / peer if ratio is Ratio.OURS_OVER_PEER else peer / ours
        for ours, peer in zip(ours_s, peer_s, strict=True)
    ]


def _result(
    case: Race | Figure,
    *,
    bench: int,
    ratios: list[float],
    ours_s: Sequence[float] = (),
    peer_s: Sequence[float] = (),
    note: str = "",
) -> Result:
    ratio = statistics.median(ratios)
    return Result(
        bench=bench,
        case=case.case,
        ratio=ratio,
        interval=median_interval(ratios),
        target=str(case.target),
        met=case.target.is_met_by(ratio),
        ours_us=statistics.median(ours_s) * 1e6 if ours_s else None,
        peer_us=statistics.median(peer_s) * 1e6 if peer_s else None,
        rounds=len(ratios),
        note=case.note if isinstance(case, Figure) else note,
    )


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Return bounds that hold the true median with at least `confidence`, whatever the distribution.

    The bounds are two of the values themselves: the binomial distribution says how far out they
    must lie. Fewer than six values cannot promise 95 %, and then the bounds are the extremes.
    """
    ordered = sorted(values)
    count = len(ordered)
    outside = 0.0
    rank = 0
    while rank < count // 2:
        outside += 2 * math.comb(count, rank) / 2**count
        if outside > 1 - confidence:
            break
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]


def _seconds_per_operation(side: Side, calls: int) -> float:
    inputs = side.prepare(calls) if side.prepare else None
    run = side.run
    collecting = gc.isenabled()
    # The garbage of one side is not paid for by the next. Before each of them: what runs after a collection
    # is a little slower at first, and a race of one side against itself would not end at 1.
    gc.collect()
    gc.disable()
    try:
        started = time.perf_counter_ns()
        if inputs is None:
            for _ in range(calls):
                run()
        else:
            for given in inputs:
                run(given)
        taken = time.perf_counter_ns() - started
    finally:
        if collecting:
            gc.enable()
    return taken / 1e9 / (calls * side.operations)


def _calls_filling(side: Side, slice_s: float) -> int:
    """Return how many calls take about `slice_s`. Finding out also warms the caches."""
    calls = 1
    while True:
        taken = _seconds_per_operation(side, calls) * calls * side.operations
        if taken >= slice_s / 2 or calls >= 10_000_000:
            return max(1, math.ceil(calls * min(slice_s / max(taken, 1e-9), 2)))
        calls *= 2


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


# ---------------------------------------------------------------- finding benchmarks


class UnknownBenchmark(Exception):
    """No benchmark has this number or name."""

    def __init__(self, wanted: str, known: Sequence[Benchmark]) -> None:
        named = ", ".join(f"{benchmark.number} {benchmark.name}" for benchmark in known)
        super().__init__(f"no benchmark is called `{wanted}`; there are: {named or 'none yet'}")


def all_benchmarks(folder: Path = BENCH_FOLDER) -> list[Benchmark]:
    """Import every `bNN_*.py` in `folder`, which must be on the path, and return their benchmarks."""
    modules = sorted(path.stem for path in folder.glob("b[0-9][0-9]_*.py"))
    found = [importlib.import_module(module).BENCH for module in modules]
    return sorted(found, key=lambda benchmark: benchmark.number)


def chosen(benchmarks: Sequence[Benchmark], wanted: Sequence[str]) -> list[Benchmark]:
    """Return the benchmarks with these numbers (`5-9` is five of them) or names, or all when none is named.

    Two benchmarks may share a number: they are halves of one question.
    """
    return [one for name in wanted for one in _called(benchmarks, name)] if wanted else list(benchmarks)


def _called(benchmarks: Sequence[Benchmark], wanted: str) -> list[Benchmark]:
    plain = wanted.lstrip("#")
    span = re.fullmatch(r"(\d+)(?:-(\d+))?", plain)
    numbers = range(int(span[1]), int(span[2] or span[1]) + 1) if span else range(0)
    found = [one for one in benchmarks if one.name == plain or one.number in numbers]
    if not found:
        raise UnknownBenchmark(wanted, benchmarks)
    return found


# ---------------------------------------------------------------- the machine


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def busy_cores(watched_s: float = 0.5) -> float:
    """Return how many cores other programs keep busy, watched while we do nothing."""
    before = _busy_ticks()
    if before is None:
        return load_average()
    time.sleep(watched_s)
    after = _busy_ticks()
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    return max(0.0, ((after or 0) - before) / ticks_per_s / watched_s)


def _busy_ticks() -> int | None:
    """Return the ticks that all cores spent on work since boot, or None where the kernel does not say."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    except OSError:
        return None
    user, nice, system, _idle, _iowait, irq, softirq = map(int, re.findall(r"\d+", first)[:7])
    return user + nice + system + irq + softirq


def run_benchmark(
    benchmark: Benchmark, effort: Effort, on_round: Callable[[str], None] = lambda _case: None
) -> Iterator[Answer]:
    """Run the cases of `benchmark` one after the other and yield each answer as it comes."""
    for case in benchmark.cases(effort.quick):
        if isinstance(case, NotMeasured):
            yield Unanswered(benchmark.number, case.case, str(case.target), case.why)
            continue
        yield run_case(case, bench=benchmark.number, effort=effort, on_round=partial(on_round, case.case))
        if effort.first_alone:
            return
