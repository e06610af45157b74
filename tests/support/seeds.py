"""With which seeds does a simulation run, and how does a failing one come back?

`MAIA_SEEDS=1000 pytest tests/simulation` tries a thousand seeds in place of
the usual few; `MAIA_SEED=48113` tries that one alone. A failure prints the
command that repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

FIRST = 48_113


def with_seeds(usually: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each seed: so many in a usual run, or as the environment asks."""
    return pytest.mark.parametrize("seed", list(_seeds(usually)))


def _seeds(usually: int) -> Iterator[int]:
    if one := os.environ.get("MAIA_SEED"):
        return iter([int(one)])
    return iter(range(FIRST, FIRST + int(os.environ.get("MAIA_SEEDS", str(usually)))))


def replay_command(nodeid: str, seed: int) -> str:
    """Return what to type to see one failure again."""
    test = nodeid.split("[", 1)[0]
    return f"MAIA_SEED={seed} .venv/bin/pytest '{test}'"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Print below a failure how it comes back."""
    report = yield
    seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")
    if report.failed and call.when == "call" and isinstance(seed, int):
        report.sections.append(("replay this run with", replay_command(item.nodeid, seed)))
    return report
