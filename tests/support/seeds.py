"""With which seeds does a simulation run, and how does a failing one come back?

`MAIA_SEEDS=1000 pytest tests/simulation` tries a thousand seeds in place of
the usual few; `MAIA_SEED=48113` tries that one alone. A failure prints the
command that repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

import pytest

FIRST = 48_113


def with_seeds(
    usually: int, *, also: Sequence[int] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each seed: so many in a usual run, or as the environment asks.

    `also` are seeds that once failed; they are tried in every run.
    """
    return pytest.mark.parametrize("seed", _seeds(usually, also))


def _seeds(usually: int, also: Sequence[int]) -> list[int]:
    if one := os.environ.get("MAIA_SEED"):
        return [int(one)]
    count = int(os.environ.get("MAIA_SEEDS", str(usually)))
    return list(dict.fromkeys([*also, *range(FIRST, FIRST + count)]))


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
