"""A113: an object store that loses, swaps, truncates, revives and repeats; two writers; work that is cut off.

Nothing that was acknowledged is lost silently, and nothing is counted twice. What a store shows is made up
here, in a folder; requests fail one after the other; and a real compaction over a real store is killed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from maia.clock import system_now
from maia.errors import Unavailable
from maia.events import INSTANT_MAX, INSTANT_MIN, SECOND, Instant
from maia.log import LogDamaged
from maia.log.disk.event_log import EventLog
from maia.log.disk.place_log import PlaceLog
from maia.log.disk.reader import LogView
from maia.log.disk.shipping import OWNER, PlaceCopy
from maia.places import Place, place_of
from maia.spark.governed.log_folder import FramesWanted, LogFrames
from maia.testing import raises
from support.event_log import NOON, PLATES, carried

FRAMES = 6


def record(log: EventLog, number: int) -> None:
    log.append([carried(number)], recorded_at=NOON)
    log.roll(NOON)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A log of six segments, with a manifest for each."""
    place = place_of(tmp_path / "place")
    with EventLog.open(tmp_path / "log") as log:
        copy = PlaceCopy(place, tmp_path / "log")
        for number in range(1, FRAMES + 1):
            record(log, number)
            copy.ship(log, NOON)
    return place


def shown(place: Place) -> list[int]:
    """The positions that a governed reader is shown, each as often as it comes."""
    frames = LogFrames(FramesWanted(str(place), PLATES, INSTANT_MIN, INSTANT_MAX), ("position",))
    found = (batch for task in frames.ranges() for one in task for batch in frames.batches(one))
    return sorted(position for batch in found for position in batch.column("position").to_pylist())


def files(place: Place, pattern: str) -> list[Path]:
    assert place.local is not None
    return sorted(place.local.rglob(pattern))


# ------------------------------------------------------------ objects


def lost(one: Path, _other: Path) -> None:
    one.unlink()


def truncated(one: Path, _other: Path) -> None:
    one.write_bytes(one.read_bytes()[:-7])


def swapped(one: Path, other: Path) -> None:
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def emptied(one: Path, _other: Path) -> None:
    one.write_bytes(b"")


@pytest.mark.parametrize("lie", [lost, truncated, swapped, emptied])
def test_a_segment_that_is_not_what_was_written_is_never_left_out_silently(
    place: Place, lie: Callable[[Path, Path], None]
) -> None:
    assert shown(place) == list(range(1, FRAMES + 1))
    lie(*files(place, "segment-*")[2:4])
    with pytest.raises(LogDamaged):
        shown(place)
    assert not LogView(place.address).verify().is_whole
    with pytest.raises(LogDamaged):  # and it does not become part of a larger one
        PlaceLog(place).compact(NOON)


def test_objects_that_come_back_are_not_counted(place: Place, tmp_path: Path) -> None:
    shutil.copytree(str(place), tmp_path / "before")
    log = PlaceLog(place)
    log.compact(NOON)
    PlaceLog(place).clean(Instant(system_now() + 7200 * SECOND))
    for kept in (one for one in (tmp_path / "before").rglob("*") if one.is_file()):
        back = Path(str(place)) / kept.relative_to(tmp_path / "before")
        if not back.exists():
            shutil.copy(kept, back)
    assert len(files(place, "segment-*")) == FRAMES + 1
    assert len(files(place, "manifest-*")) == FRAMES + 1
    assert shown(place) == list(range(1, FRAMES + 1))


# ------------------------------------------------------------ manifests


@pytest.mark.parametrize("lie", [truncated, swapped, emptied])
def test_a_manifest_that_is_not_what_was_written_is_refused(
    place: Place, tmp_path: Path, lie: Callable[[Path, Path], None]
) -> None:
    lie(*files(place, "manifest-*")[:-3:-1])
    with pytest.raises(LogDamaged):
        shown(place)
    with EventLog.open(tmp_path / "log") as log:
        record(log, FRAMES + 1)
        with pytest.raises(LogDamaged):
            PlaceCopy(place, tmp_path / "log").ship(log, NOON)


def test_every_shorter_manifest_is_refused(place: Place) -> None:
    newest = files(place, "manifest-*")[-1]
    data = newest.read_bytes()
    for size in range(0, len(data), max(1, len(data) // 60)):
        newest.write_bytes(data[:size])
        with pytest.raises(LogDamaged):
            PlaceLog(place)
    newest.write_bytes(data)
    assert shown(place) == list(range(1, FRAMES + 1))


@pytest.mark.parametrize("how_many", [1, 3, FRAMES])
def test_a_store_that_shows_an_older_manifest_is_noticed_by_the_writer_which_keeps_its_copy(
    place: Place, tmp_path: Path, how_many: int
) -> None:
    hidden = files(place, "manifest-*")[-how_many:]
    kept = {one: one.read_bytes() for one in hidden}
    for one in hidden:
        one.unlink()
    with EventLog.open(tmp_path / "log") as log:
        copy = PlaceCopy(place, tmp_path / "log")
        record(log, FRAMES + 1)
        with raises("LOG-PLACE-CHANGED"):
            copy.ship(log, NOON)
        assert [one.position for one in log.read()] == list(range(1, FRAMES + 2))
        for one, data in kept.items():  # the store comes to its senses
            one.write_bytes(data)
        copy.ship(log, NOON)
    assert shown(place) == list(range(1, FRAMES + 2))


def test_a_log_whose_manifests_are_gone_is_not_an_empty_one(bucket: Place) -> None:
    with raises("LOG-DAMAGED", match="no manifest"):
        shown(bucket / "log")


# ------------------------------------------------------------ two writers


def test_a_second_writer_of_a_place_is_refused(place: Place, tmp_path: Path) -> None:
    with EventLog.open(tmp_path / "other") as log:
        record(log, 1)
        with raises("LOG-PLACE-TAKEN"):
            PlaceCopy(place, tmp_path / "other").ship(log, NOON)
    (Path(str(place)) / OWNER).unlink()
    with EventLog.open(tmp_path / "other") as log, raises("LOG-PLACE-CHANGED", match=OWNER):
        PlaceCopy(place, tmp_path / "other").ship(log, NOON)
    assert LogView(place.address).verify().records == FRAMES


def test_a_broker_s_folder_that_runs_twice_writes_once(place: Place, tmp_path: Path) -> None:
    shutil.copytree(tmp_path / "log", tmp_path / "restored")
    for folder, number in ((tmp_path / "log", 7), (tmp_path / "restored", 8)):
        with EventLog.open(folder) as log:
            record(log, number)
            copy = PlaceCopy(place, folder)
            if folder.name == "log":
                copy.ship(log, NOON)
            else:
                with raises("LOG-PLACE-CHANGED"):
                    copy.ship(log, NOON)
    assert shown(place) == list(range(1, FRAMES + 2))


# ------------------------------------------------------------ interrupted


class Faulty(Place):
    """A place whose requests fail from one on; the last one before that may have been done."""

    __slots__ = ()
    left = 0
    is_done = False

    def _count(self, act: Callable[[], None]) -> None:
        Faulty.left -= 1
        if Faulty.left > 0 or (Faulty.left == 0 and Faulty.is_done):
            act()
        if Faulty.left <= 0:
            raise Unavailable("PLACE-UNREACHABLE", "the store does not answer")

    def create(self, path: str, data: bytes) -> None:
        self._count(lambda: Place(self.address).create(path, data))

    def remove(self, path: str) -> None:
        self._count(lambda: Place(self.address).remove(path))


@pytest.mark.parametrize("is_done", [False, True])
def test_shipping_and_joining_that_are_cut_off_anywhere_lose_and_double_nothing(
    tmp_path: Path, is_done: bool
) -> None:
    place, faulty = place_of(tmp_path / "place"), Faulty(str(tmp_path / "place"))
    Faulty.is_done = is_done
    number, later = 0, Instant(system_now() + 7200 * SECOND)
    for allowed in range(1, 9):
        with EventLog.open(tmp_path / "log") as log:
            for _ in range(2):
                number += 1
                record(log, number)
            for act in (
                lambda: PlaceCopy(faulty, tmp_path / "log").ship(log, NOON),
                lambda: PlaceLog(faulty).compact(NOON),
                lambda: PlaceLog(faulty).clean(later),
            ):
                Faulty.left = allowed
                with suppress(Unavailable):
                    act()
                if PlaceLog(place).number:
                    found = shown(place)
                    assert found == list(range(1, len(found) + 1))
            PlaceCopy(place, tmp_path / "log").ship(log, NOON)
        assert shown(place) == list(range(1, number + 1))
    assert LogView(place.address).verify().is_whole


JOIN_ON = """
import sys
from maia.clock import system_now
from maia.log.disk.event_log import LogLimits
from maia.log.disk.place_log import LogRaced, PlaceLog
from maia.places import place_of
print("on", flush=True)
while True:
    try:
        log = PlaceLog(place_of(sys.argv[1]), limits=LogLimits(grace_s=5))
        log.compact(system_now())
        log.clean(system_now())
    except LogRaced:
        pass
"""


def test_a_compaction_that_is_killed_at_any_moment_leaves_a_whole_log(bucket: Place, tmp_path: Path) -> None:
    place, number = bucket / "log", 0
    with EventLog.open(tmp_path / "log") as log:
        copy = PlaceCopy(place, tmp_path / "log")
        for pause_s in (0.0, 0.02, 0.05, 0.1, 0.2):
            for _ in range(3):
                number += 1
                record(log, number)
                copy.ship(log, system_now())
            words = [sys.executable, "-c", JOIN_ON, str(place)]
            with subprocess.Popen(words, stdout=subprocess.PIPE) as joining:
                assert joining.stdout is not None
                joining.stdout.readline()
                time.sleep(pause_s)
                joining.kill()
            assert shown(place) == list(range(1, number + 1))
        while copy.upto < number:
            copy.ship(log, system_now())
    assert LogView(place.address).verify().records == number
