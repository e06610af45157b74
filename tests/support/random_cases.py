"""How many random cases did this run try?

`make laws` promises a number of cases, so the run counts them and fails when
there were fewer. One example that Hypothesis draws and that the test accepts
is one case; examples thrown away by `assume` do not count. A test that
compares many rows inside one example says so with `count_cases`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

CASES = "random cases"
PASSING = re.compile(r"(\d+) passing")

_cases: Counter[str] = Counter()
_extra = 0


def usually(few: int, *, laws: int) -> int:
    """Return how many cases to try: a few in a usual run, and many under `make laws`."""
    return laws if os.environ.get("MAIA_LAWS") else few


def count_cases(further: int) -> None:
    """Count `further` cases beyond the one that the running example stands for."""
    global _extra  # noqa: PLW0603 - pytest runs one test at a time, and a test cannot reach its item
    _extra += further


def cases_in(statistics: str) -> int:
    """Return how many examples Hypothesis's own report on one test calls passing."""
    return sum(int(found) for found in PASSING.findall(statistics))


def suite_of(nodeid: str) -> str:
    """Return the folder of a test below `tests/`, which is how the count is broken down."""
    folder = PurePosixPath(nodeid.split("::", 1)[0]).parent
    return str(folder).removeprefix("tests/")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Note the cases of a test that passed."""
    global _extra  # noqa: PLW0603 - see `count_cases`
    report = yield
    if call.when == "call":
        drawn = cases_in(getattr(item, "hypothesis_statistics", "")) + _extra
        if report.passed and drawn:
            report.user_properties.append((CASES, drawn))
        _extra = 0
    return report


def cases_wanted() -> int:
    """Return how many cases this run promised, or 0 when it promised none."""
    return int(os.environ.get("MAIA_LAWS_AT_LEAST", "0"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count the cases of a test, also of one that a lane has run."""
    if counted := dict(report.user_properties).get(CASES) if report.when == "call" else None:
        _cases[suite_of(report.nodeid)] += counted


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that passed with fewer cases than it promised."""
    if exitstatus == pytest.ExitCode.OK and _cases.total() < cases_wanted():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the count by suite, and how to draw the same cases again."""
    if not _cases.total():
        return
    terminalreporter.section("random cases")
    if wanted := cases_wanted():
        for suite, count in sorted(_cases.items()):
            if count:
                terminalreporter.line(f"{count:>10,}  {suite}")
        seed = terminalreporter.config.getoption("--hypothesis-seed", None)
        terminalreporter.line(f"replay with: make laws SEED={seed}")
        if _cases.total() < wanted:
            terminalreporter.line(f"too few: at least {wanted:,} were promised", red=True)
    terminalreporter.line(f"{_cases.total():,} random cases")
