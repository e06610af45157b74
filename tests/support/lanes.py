"""Which tests stay together when the suite runs in lanes side by side?

`make test` runs the suite in lanes, each a process of pytest-xdist. The tests
of one file stay in one lane and in order, so what a file shares is made once.
Whatever asks for a Spark session goes to one lane of four only, because a
session takes long to start, to warm up, and a gigabyte to keep. That lane has
the longest way to go, so the others are a little nicer to it. Lanes read that
off the tests, so a new file needs no entry anywhere. They tell the process that
hands out the tests, which does not see them, in a file.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

SPARK = "spark"
QUICK = ("tests/unit/", "tests/laws/", "tests/vectors/")
NOT_QUICK = "tests/unit/project/"
HANDED_IN = "folder for units"
FOLDER = pytest.StashKey[Path]()
NICER = 3
"""By how much: a lane with a session has two shares of a processor, where the others have one."""


def unit_of(item: pytest.Item) -> str:
    """Return what a test is not parted from: its file, or what needs a Spark session in its file."""
    file = item.nodeid.partition("::")[0]
    return f"{SPARK} {file}" if SPARK in getattr(item, "fixturenames", ()) else file


def needs_spark(unit: str) -> bool:
    return unit.startswith(f"{SPARK} ")


def sessions(lanes: int) -> int:
    """Return how many lanes may have a Spark session: a quarter of them, and at least one."""
    return max(1, lanes // 4)


def number_of(lane: str) -> int:
    """Return the number in the name that xdist gives to a lane, such as `gw2`."""
    return int(lane.removeprefix("gw"))


def in_order(units: Sequence[str], functions: Sequence[str]) -> list[int]:
    """Return the order in which lanes take up tests of these units, with what takes longest first.

    What needs a Spark session takes longest. Scenarios and attacks start
    processes, and so do files with few tests and those about the project;
    units, laws and vectors with many tests are quick, and even out the end.
    A function that is asked about many things is one test here: what it asks
    about may have been made at once, which took long.
    """
    sizes = Counter(unit for unit, _ in set(zip(units, functions, strict=True)))

    def place(at: int) -> tuple[bool, bool, int, str]:
        unit = units[at]
        is_quick = unit.startswith(QUICK) and not unit.startswith(NOT_QUICK)
        return not needs_spark(unit), is_quick, sizes[unit], unit

    return sorted(range(len(units)), key=place)


def next_unit(waiting: Iterable[str], *, may_have_session: bool) -> str | None:
    """Return the first of the units that wait which a lane may take, or None if there is none for it."""
    return next((unit for unit in waiting if may_have_session or not needs_spark(unit)), None)


# ---------------------------------------------------------------- in a lane


def pytest_configure(config: pytest.Config) -> None:
    """Leave a lane that has a session the larger part of the processors, and say only what is of use."""
    lane = getattr(config, "workerinput", None)
    if not lane:
        return
    if number_of(lane["workerid"]) >= sessions(lane["workercount"]):
        os.nice(NICER)
    if not config.option.durations:
        for plugin in config.pluginmanager.get_plugins():
            if type(plugin).__name__ == "WorkerInteractor":
                plugin.sendevent = partial(_send_what_counts, plugin.sendevent)


def _send_what_counts(send: Callable[..., None], name: str, **told: Any) -> None:
    """Send no more than one report on a test that passes: six messages each take longer than most tests."""
    report = told["data"] if name == "testreport" else {}
    is_usual = report.get("outcome") == "passed" and report["when"] != "call"
    if name != "logstart" and not is_usual:
        send(name, **told)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Put the tests in order, once all others have had their say, and tell their units."""
    yield
    lane = getattr(config, "workerinput", {})
    if HANDED_IN in lane:
        units = [unit_of(item) for item in items]
        Path(lane[HANDED_IN], lane["workerid"]).write_text(
            json.dumps({item.nodeid: unit for item, unit in zip(items, units, strict=True)}), encoding="utf-8"
        )
        functions = [item.nodeid.partition("[")[0] for item in items]
        items[:] = [items[at] for at in in_order(units, functions)]


# ---------------------------------------------------------------- where tests are handed out


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Tell a lane where to write which units it has found."""
    if FOLDER not in node.config.stash:
        node.config.stash[FOLDER] = Path(tempfile.mkdtemp(prefix="maia-lanes-"))
    node.workerinput[HANDED_IN] = str(node.config.stash[FOLDER])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Hand out tests unit by unit, in the order in which the lanes list them."""
    from xdist.scheduler import LoadScopeScheduling

    units: dict[str, str] = {}

    class Lanes(LoadScopeScheduling):
        """What xdist does for scopes, where a scope is one of our units."""

        def _next(self, node: WorkerController) -> str | None:
            # Counted over the lanes that live, so that another steps in where one has crashed.
            living = sorted(self.nodes, key=lambda one: number_of(one.gateway.id))
            may_have_session = node in living[: sessions(self.numnodes)]
            return next_unit(self.workqueue, may_have_session=may_have_session)

        def _assign_work_unit(self, node: WorkerController) -> None:
            unit = self._next(node)
            if unit is not None:
                self.workqueue.move_to_end(unit, last=False)
                super()._assign_work_unit(node)

        def _reschedule(self, node: WorkerController) -> None:
            if self._next(node) is not None:
                super()._reschedule(node)
            elif not node.shutting_down:
                node.shutdown()  # what it was given before, it still does

        def remove_node(self, node: WorkerController) -> str | None:
            """Give up a test with which a lane has crashed or hung: it would end one lane after the other."""
            tests = (
                (unit, test)
                for unit in self.assigned_work[node].values()
                for test, is_done in unit.items()
                if not is_done
            )
            unit, crashed = next(tests, ({}, None))
            if crashed is not None:
                unit[crashed] = True
            super().remove_node(node)
            return crashed

        def _split_scope(self, nodeid: str) -> str:
            if not units:  # all lanes have listed their tests by now, and the lists are the same
                listed = next(config.stash[FOLDER].iterdir())
                units.update(json.loads(listed.read_text(encoding="utf-8")))
            return units[nodeid]

    config.option.loadscopereorder = False
    return Lanes(config, log)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    if FOLDER in config.stash:
        shutil.rmtree(config.stash[FOLDER], ignore_errors=True)
