"""What does Spark's own process of the demonstration do, and in which order?

While Java starts, Python makes a million sightings, and each office fetches
its keys when the log is there. Then each office's View runs over the million,
while the kernel goes through them event by event; and then each office reads
the log, under its rights and with its keys. It tells the same story from the
same seed, so no key is handed over.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maia.demo.spark_start import RouteUpdate, work_for_demonstration
from maia.events import Instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from maia.demo.brokers import SealedCast
    from maia.demo.lake_jobs import Lake, LakeOrder
    from maia.demo.million import Comparison
    from maia.demo.numberplate import NumberplateStory
    from maia.policy import View


def main() -> None:
    """Take orders from standard input, and write steps and results to the output."""
    work_for_demonstration(lambda order, tell: _work(_Order.from_json(order), tell))


@dataclass(frozen=True, slots=True)
class _Order:
    story_seed: bytes
    now: Instant
    rows: int
    seed: int

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> _Order:
        # Any: what was written as JSON by our own process is read as it was written.
        return cls(bytes.fromhex(said["story_seed"]), Instant(said["now"]), said["rows"], said["seed"])

    def story(self) -> tuple[NumberplateStory, SealedCast]:
        """Tell the story that the demonstration tells."""
        from maia.demo.brokers import add_carrier
        from maia.demo.numberplate import tell_numberplate_story

        story = tell_numberplate_story(self.story_seed, now=self.now)
        return story, add_carrier(story, self.story_seed)


def _work(order: _Order, tell: RouteUpdate) -> None:
    tell(step="starting Spark")
    import pyspark.sql  # noqa: F401 - what Java waits for is loaded before anything works beside it

    from maia.spark.session.session import spark_session

    with tempfile.TemporaryDirectory(prefix="maia-demo-") as name, ThreadPoolExecutor(2) as beside:
        # Spark starts and works in Java, so Python has time for other things meanwhile.
        folder = Path(name)
        made = beside.submit(_made, order, folder / "sightings")
        given = beside.submit(_given_log, order)
        with spark_session("maia-demo") as spark:
            kernel = beside.submit(lambda: _through_the_kernel(made))
            _million(spark, made, kernel, folder, tell)
            _lake(spark, given, tell)


# ------------------------------------------------------------ a million sightings


def _made(order: _Order, sightings: Path) -> tuple[dict[str, View], Path]:
    from maia.demo.million import generate_sightings, offices_views

    generate_sightings(sightings, rows=order.rows, seed=order.seed)
    return offices_views(order.story()[0], now=order.now), sightings


def _through_the_kernel(made: Future[tuple[dict[str, View], Path]]) -> dict[str, Any]:
    # Any: pyarrow is not typed.
    from maia.demo.million import seen_by_kernel

    return seen_by_kernel(*made.result())


def _million(
    spark: SparkSession,
    made: Future[tuple[dict[str, View], Path]],
    kernel: Future[dict[str, Any]],
    folder: Path,
    tell: RouteUpdate,
) -> None:
    from maia.demo.million import compared, seen_in_spark

    views, sightings = made.result()
    tell(step="the View of each office over the generated sightings")
    with ThreadPoolExecutor(len(views)) as jobs:  # while one is planned, another one works
        running = {
            office: jobs.submit(seen_in_spark, spark, view, sightings, folder / office)
            for office, view in views.items()
        }
    seconds = {office: job.result() for office, job in running.items()}
    tell(step="the same Views in the kernel, event by event")
    by_kernel = kernel.result()
    tell(step="comparing every row")
    found: list[Comparison] = [
        compared(office, folder / office, by_kernel[office], spark_s=seconds[office]) for office in views
    ]
    # Said before Java ends, which takes its time and is nothing to wait for.
    tell(million=[asdict(one) for one in found], finished_at=time.time())


# ------------------------------------------------------------ the log


def _given_log(order: _Order) -> tuple[LakeOrder, Lake]:
    """Wait for the second order, and let the offices fetch their keys."""
    from maia.demo.lake_jobs import LakeOrder, opened

    story, cast = order.story()
    lake_order = LakeOrder(**json.loads(sys.stdin.readline()))
    return lake_order, opened(lake_order, story, cast, now=order.now)


def _lake(spark: SparkSession, given: Future[tuple[LakeOrder, Lake]], tell: RouteUpdate) -> None:
    from maia.demo.lake_jobs import worked

    tell(step="the offices fetch their keys")
    lake_order, lake = given.result()
    works, no_plot = worked(spark, lake, lake_order, lambda title: tell(step=title))
    tell(lake=[asdict(one) for one in works], no_plot=no_plot, finished_at=time.time())


if __name__ == "__main__":
    main()
