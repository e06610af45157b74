"""Which tests stay together when the suite runs in lanes side by side?

`make test` runs the suite in lanes, each a process of pytest-xdist. The tests
of one file stay in one lane and in order, so what a file shares is made once.
Whatever asks for the Spark session stays in one lane, so there is one session.
Lanes read that off the tests, so a new file needs no entry anywhere. They tell
the process that hands out the tests, which does not see them, in a file.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

SPARK = "spark"
HANDED_IN = "folder for units"
FOLDER = pytest.StashKey[Path]()


def unit_of(item: pytest.Item) -> str:
    """Return what a test is not parted from: the Spark session, or its file."""
    uses_spark = SPARK in getattr(item, "fixturenames", ())
    return SPARK if uses_spark else item.nodeid.partition("::")[0]


def in_order(units: list[str]) -> list[int]:
    """Return the order in which lanes take up tests of these units, with what takes longest first.

    The tests of the Spark session take longest. Of the others, files with few
    tests start processes and take long; files with many are quick, and even
    out the end.
    """
    sizes = Counter(units)
    return sorted(range(len(units)), key=lambda at: (units[at] != SPARK, sizes[units[at]], units[at]))


# ---------------------------------------------------------------- in a lane


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
        items[:] = [items[at] for at in in_order(units)]


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
