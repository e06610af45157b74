"""An error is raised in another process as it was in one: Spark executors and forked servers hand them on."""

from __future__ import annotations

import importlib
import pickle
import pkgutil

import maia
from maia.demo.world import CommandFailed
from maia.error_codes import classes_below
from maia.errors import MaiaError
from maia.testing.refusals import raises


def test_every_error_survives_a_process_border():
    for module in pkgutil.walk_packages(maia.__path__, prefix="maia."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    kinds = [kind for kind in classes_below(MaiaError) if kind.__module__.startswith("maia.")]
    assert len(kinds) > 50
    for kind in kinds:
        problem = kind.__new__(kind, "what went wrong")
        problem.code, problem.more = "TEST-CODE", ("a field of its own",)
        again = pickle.loads(pickle.dumps(problem))  # noqa: S301 - our own bytes
        assert (type(again), again.args, vars(again)) == (kind, problem.args, vars(problem))


def test_one_with_arguments_of_its_own_keeps_what_it_said():
    with raises("UNAVAILABLE-DEMO-COMMAND", match="`maia up`: no such folder") as found:
        raise pickle.loads(pickle.dumps(CommandFailed("up", "INPUT-FILE", "no such folder")))  # noqa: S301
    assert found.value.told == "INPUT-FILE"
