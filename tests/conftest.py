"""What does every test of Maia share, and how is a failing random case found again?

Shared helpers live in `tests/support/` and are imported as `support.<area>`.
Random cases run under one of three Hypothesis profiles. `ci`, the default,
draws the same cases every time, so a failure comes back when the test is run
again. `dev` draws new ones and remembers failures. `laws` draws very many,
from a seed that the run prints.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS))
pytest.register_assert_rewrite("support")

pytest_plugins = [
    plugin
    for plugin in (
        "support.random_cases",
        "support.lanes",
        "support.spark",
        "support.postgres",
        "support.object_store",
    )
    if importlib.util.find_spec(plugin) is not None
]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts this in the background has Ctrl-C ignored, here and by every process of a test.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A law must not fail because the machine is busy, so nothing is timed: no deadline, no "too slow".
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow], "print_blob": True}

settings.register_profile("ci", **UNTIMED, max_examples=25, derandomize=True, database=None)
settings.register_profile("dev", **UNTIMED, max_examples=200)
settings.register_profile(
    "laws", **UNTIMED, max_examples=int(os.environ.get("MAIA_LAWS_EXAMPLES", "1000")), database=None
)
settings.load_profile("laws" if os.environ.get("MAIA_LAWS") else os.environ.get("MAIA_HYPOTHESIS", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    """Load what the processes of all lanes are copies of, while the tests are collected."""
    if config.option.lanes > 1 and not config.option.collectonly:
        from support.nursery import start_nurseries

        start_nurseries()


_collector = {"is set aside": False}


def pytest_collection_finish() -> None:
    """Let the garbage collector walk over what tests make, and not over all tests and libraries each time."""
    gc.set_threshold(10_000, 20, 20)
    original = gc.unfreeze

    def unfreeze() -> None:
        original()
        _collector["is set aside"] = False

    gc.unfreeze = unfreeze


def pytest_runtest_setup() -> None:
    """Set aside what is there, at first and after a broker in this process has undone it.

    Python can count what is set aside, but only by walking over it, which takes longer than most tests.
    """
    if not _collector["is set aside"]:
        gc.collect(1)
        gc.freeze()
        _collector["is set aside"] = True
