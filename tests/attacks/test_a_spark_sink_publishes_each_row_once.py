"""A115: a Spark sink is killed at any step, and a stale driver comes back.

Tasks are processes of their own, which kill themselves at each step of publishing a partition; the driver's
desk is real, and so is the broker. `tests/scenarios/test_spark_source.py` lets Spark itself run a batch
again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from maia.spark.source.right_desk import Right, RightDesk, laid_out
from maia.testing import wait_until
from support.sink_task import STEPS, LocalFolder, task_of, tasks
from support.spark_city import CAMERA, SparkCity, spark_city

BILLING = "billing office"
ROWS = 2500
"""Three frames."""


@pytest.fixture(scope="module")
def city(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCity]:
    with spark_city(tmp_path_factory.mktemp("city")) as running:
        yield running


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[..., str]]:
    with tasks() as running:
        yield running


class Driver:
    """One run of a query: its desk, beside a checkpoint."""

    def __init__(self, city: SparkCity, checkpoint: Path, run: str) -> None:
        self.run, self.query, self.given = run, checkpoint.name, city.options(CAMERA)
        self.desk = RightDesk("127.0.0.1", lambda _query, _run: LocalFolder(checkpoint))
        self.right: Right = laid_out(self.given, self.desk.entrance)

    def task(self, batch: int, plates: list[str]) -> dict[str, Any]:
        about = {"query": self.query, "run": self.run, "batch": batch}
        return task_of(self.right, self.given, plates=plates, **about)


def plates_of(batch: int) -> list[str]:
    return [f"{batch}-{number:04}" for number in range(ROWS)]


def shuffled(plates: list[str]) -> list[str]:
    """After a shuffle Spark has no order."""
    return random.Random(1).sample(plates, len(plates))  # noqa: S311 - a test case


def test_a_sink_that_is_killed_at_any_step_publishes_each_row_once(city, run, tmp_path) -> None:
    came: Counter[object] = Counter()
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        driver, kills = Driver(city, tmp_path, "first"), 0
        for batch, step in enumerate(STEPS):
            plates = plates_of(batch)
            assert run(driver.task(batch, plates), dies=step) == "killed"
            # Its executor dies, and Spark runs the task again; or the driver does, and a new run the batch.
            if batch % 2:
                driver.desk.close()
                kills += 1
                driver = Driver(city, tmp_path, f"behind kill {kills}".replace(" ", "-"))
            assert run(driver.task(batch, shuffled(plates))) == str(ROWS)
            assert run(driver.task(batch, plates)) == str(ROWS), "a speculative attempt"

        def all_came() -> bool:
            came.update(one["numberplate"] for one in received.some(9999, timeout_s=1))
            return came.total() >= ROWS * len(STEPS)

        wait_until(all_came)
        assert received.some(9999, timeout_s=1) == []
    assert came == Counter(one for batch in range(len(STEPS)) for one in plates_of(batch))
    driver.desk.close()


def test_a_stale_driver_publishes_nothing(city, run, tmp_path) -> None:
    stale = Driver(city, tmp_path, "stale")
    with city.client(BILLING, city.server) as client:
        received = client.subscribe(city.cast.definition)
        assert run(stale.task(0, ["S0"])) == "1"
        present = Driver(city, tmp_path, "present")
        assert run(present.task(1, ["S1"])) == "1"
        for batch, plate in ((0, "S0"), (1, "S1"), (1, "S other"), (2, "S2")):
            assert run(stale.task(batch, [plate])).startswith("[PIPELINE-SINK-STALE]")
        assert run(present.task(1, ["S other"])).startswith("[INPUT-SPARK-OTHER-ROWS]")
        assert run(present.task(2, ["S2"])) == "1"
        plates: list[object] = []
        while len(plates) < 3 and (some := received.some(9, timeout_s=60)):
            plates += [one["numberplate"] for one in some]
        assert plates == ["S0", "S1", "S2"]
        assert received.some(9, timeout_s=1) == []
    for driver in (stale, present):
        driver.desk.close()
    assert LocalFolder(tmp_path).names("batches") == ["0000000001", "0000000002"], "older ones are removed"
