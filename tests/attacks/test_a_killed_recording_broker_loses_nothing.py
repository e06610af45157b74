"""A81: a recording broker, killed at any moment under a publisher that waits for its answers.

`MAIA_KILLS=300 pytest …` kills hundreds of times in place of a few.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.log.disk.event_log import EventLog
from maia.log.format.names import already_joined
from maia.spark.governed.reader import Reader
from maia.testing import Cast, Processes
from maia.types import verify_definition
from maia.wire.codec import decode
from maia.wire.columns import columns_to_frame
from support.event_log import draws
from support.governed import governed
from support.killed_broker import RECORDS, Camera, recorder_of
from support.numberplate import NUMBERPLATE, tell_numberplate_story
from support.processes import forked

KILLS = int(os.environ.get("MAIA_KILLS", "12"))


@pytest.fixture
def processes(tmp_path) -> Iterator[Processes]:
    with Processes(tmp_path, tell_numberplate_story(b"killed", now=system_now()), start=forked) as found:
        yield found


def joined(home: Path) -> None:
    """Roll and join, as the broker does every minute; what was joined stays for a while."""
    with EventLog.open(home / "log") as log:
        log.roll(system_now())
        log.compact(system_now())


def recorded(home: Path) -> list[str]:
    """Return the plates in the log, as its owner finds them."""
    with EventLog.open(home / "log") as log:
        assert log.verify().is_whole
        frames = [decode(one.message) for one in log.read()]
        log.roll(system_now())
    return [
        str(event[NUMBERPLATE])
        for frame in frames
        for event in columns_to_frame(frame.columns, frame.rows).events()
    ]


def test_what_was_acknowledged_is_in_the_log_and_the_table_exactly_once(spark, processes):
    """A81: kill -9 while frames are received, made safe, answered, rolled and joined."""
    random = draws(KILLS)
    broker = processes.broker(
        "CCS broker", credentials=recorder_of(processes.cast, "CCS broker"), more=RECORDS
    )
    camera, home = Camera(processes, broker), broker.folder
    camera.start()
    for _ in range(KILLS):
        camera.wait_for_more()
        time.sleep(random.uniform(0, 0.15))
        processes.crash(broker)
        if random.random() < 0.4:
            joined(home)
        processes.restart(broker)
    camera.wait_for_more()
    camera.stops.set()
    camera.join(150)
    assert camera.problem is None, camera.problem
    processes.crash(broker)
    found = Counter(recorded(home))
    assert found == Counter(camera.acknowledged)
    assert len(found) > KILLS
    assert governed_plates(spark, processes.cast, home) == found


def governed_plates(spark, story: Cast, home: Path) -> Counter[str]:
    event_type = verify_definition(story.definition, at=system_now())
    reader = Reader(story.principal("billing office"), story.certificates)
    table = governed(spark, log=str(home / "log"), event_type=event_type, reader=reader)
    paths = (home / "log").glob("type=*/day=*/*.parquet")
    assert already_joined(map(str, paths)) or KILLS < 3  # the test is about a log that was joined
    return Counter(row["numberplate"] for row in table.select("numberplate").collect())
