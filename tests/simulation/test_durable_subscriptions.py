"""Whatever crashes: what a camera was told is safe reaches the archive, in order; once done with, no more.

The archive writes down what it is shown, acknowledges some of it now and then,
and loses its memory in every crash; what it wrote down stays.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from maia.broker.links.cursors import KEPT_CURSOR, Cursor, cursor_from_bytes
from maia.broker.links.runs import KEPT_RUNS
from maia.broker.settings import BrokerLimits, RecordingSettings
from maia.client import Accepted, Acknowledged, Delivered, Notice
from maia.client.entries import Subscribed
from maia.wire.codec import decode
from maia.wire.messages import Carried
from support.city import Camera, City, Office, Violation
from support.numberplate import TIMESTAMP
from support.seeds import with_seeds

BROKER = "broker 0"


@dataclass(slots=True)
class Archive:
    """A durable subscriber whose process may fail at any moment."""

    city: City
    office: Office
    entry: Subscribed | None = None
    written: list[int] = field(default_factory=list)
    """The moments of all events that it ever wrote down, those that came twice included."""
    done_with: set[int] = field(default_factory=set)
    """Those that it had acknowledged by the time at which the broker's disk knew of it."""
    position_of: dict[int, int] = field(default_factory=dict)
    last_position: bytes | None = None
    last_number: int = 0
    newest: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        """Start, or start again with nothing but what was written down."""
        client = self.office.client
        client.on_notice = self.hear
        self.last_position, self.last_number, self.newest = None, 0, {}
        kept = self.kept()
        self.done_with = {one for one, at in self.position_of.items() if kept is not None and at <= kept.seen}
        self.entry = client.subscribe(self.city.known, durable="archive")

    def kept(self) -> Cursor | None:
        """Return the cursor on the broker's disk: what is acknowledged, and what seals positions."""
        disk = self.city.network.host(BROKER).disk
        kept = [cursor_from_bytes(data) for name, data in disk.items() if name.startswith(KEPT_CURSOR)]
        if not kept:
            return None
        if KEPT_RUNS in disk:
            kept[0].runs.reload(disk[KEPT_RUNS])
        return kept[0]

    def hear(self, notice: Notice) -> None:
        if isinstance(notice, Accepted):
            self.newest = {} if self.last_number == 0 else self.newest
        if not isinstance(notice, Delivered):
            return
        assert notice.position is not None
        number = self.kept().opened(notice.position)
        if number <= self.last_number:
            raise Violation(f"position {number} came after {self.last_number}")
        self.last_position, self.last_number = notice.position, number
        for row in notice.frame.events():
            self._write(int(row[TIMESTAMP]), number)
        if self.city.chance.random() < 0.3:
            entry, client, life = (
                self.entry,
                self.office.client,
                self.city.network.host(self.office.name).life,
            )
            self.city.network.after(
                self.city.chance.random() * 0.2,
                lambda: self._acknowledge(client, entry, notice.position, life),
            )

    def _write(self, moment: int, position: int) -> None:
        camera = self.city.events[moment][0].name
        if moment in self.done_with:
            raise Violation(f"{moment} came again after it was done with, by {self.city.network.story()}")
        if moment <= self.newest.get(camera, 0):
            raise Violation(f"{moment} of {camera} came out of order, by {self.city.network.story()}")
        self.newest[camera] = moment
        self.position_of[moment] = position
        self.written.append(moment)

    def _acknowledge(self, client, entry, position, life) -> None:
        host = self.city.network.host(self.office.name)
        if host.node is not None and host.life == life:
            client.acknowledge(entry, position)


class Ledger:
    """What each camera was told is taken on."""

    def __init__(self, city: City) -> None:
        self.city = city
        self.by_sequence: dict[tuple[str, int], list[int]] = {}
        self.safe: set[int] = set()
        for camera in city.cameras:
            camera.client.on_notice = lambda notice, camera=camera: self._hear(camera, notice)

    def sees(self, camera: Camera, count: int) -> None:
        sequence = camera.entry.next_sequence
        moments = self.city.sees(camera, count)
        if moments:
            self.by_sequence[camera.name, sequence] = moments

    def _hear(self, camera: Camera, notice: Notice) -> None:
        if isinstance(notice, Acknowledged):
            for (name, sequence), moments in self.by_sequence.items():
                if name == camera.name and sequence <= notice.sequence:
                    self.safe.update(moments)


def city_with_archive(seed: int, **limits: int) -> tuple[City, Archive, Ledger]:
    settings = {"recording": RecordingSettings(), "limits": BrokerLimits(**limits)}
    city = City(seed, brokers=1, **settings)
    city.camera("camera at Victoria", "Victoria")
    # In every other city the second camera publishes a sub-type of what the archive reads.
    second = city.camera_of_sub_type if seed % 2 else city.camera
    second("camera at Soho", "Soho")
    office = city.office("archive")
    office.client.withdraw(office.entry)
    archive = Archive(city, office)
    archive.begin()
    city.network.run_for(5)
    return city, archive, Ledger(city)


def make_trouble(city: City, archive: Archive) -> None:
    """Crash one of the two, between two effects if it so happens, and start it again after a while."""
    chance, network = city.chance, city.network
    if chance.random() < 0.5:
        network.crash_within(BROKER, chance.randint(0, 12))
        network.run_for(chance.random() * 2)
        network.crash(BROKER)
        network.run_for(chance.random() * 3)
        network.restart(BROKER)
    else:
        network.crash(archive.office.name)
        network.run_for(chance.random() * 10)
        network.restart(archive.office.name)
        archive.begin()


def assert_nothing_is_lost(city: City, archive: Archive, ledger: Ledger) -> None:
    for _ in range(20):  # acknowledge as long as something is under way
        city.network.run_for(3)
        if archive.last_position:
            archive.office.client.acknowledge(archive.entry, archive.last_position)
    missing = ledger.safe - set(archive.written)
    if missing:
        raise Violation(f"{len(missing)} events never came, by {city.network.story()}")
    frames = [decode(one.data) for one in city.network.host(BROKER).log]
    assert all(isinstance(frame, Carried) for frame in frames)
    recorded = Counter((frame.publisher, frame.stream, frame.sequence) for frame in frames)
    assert max(recorded.values()) == 1, "a frame was recorded twice"


@with_seeds(4)
def test_crashes_of_broker_and_archive_lose_and_repeat_nothing_that_was_acknowledged(seed):
    city, archive, ledger = city_with_archive(seed)
    for _ in range(12):
        for _ in range(6):
            for camera in city.cameras:
                ledger.sees(camera, city.chance.randint(1, 3))
            city.network.run_for(city.chance.random())
        make_trouble(city, archive)
    assert ledger.safe
    assert_nothing_is_lost(city, archive, ledger)


@with_seeds(2)
def test_a_small_window_and_a_long_absence_lose_nothing(seed):
    city, archive, ledger = city_with_archive(seed, durable_frames_under_way=4)
    city.network.crash(archive.office.name)
    for _ in range(40):
        for camera in city.cameras:
            ledger.sees(camera, 2)
        city.network.run_for(0.5)
    city.network.crash(BROKER)
    city.network.restart(BROKER)
    city.network.restart(archive.office.name)
    archive.begin()
    for _ in range(30):
        city.network.run_for(2)
        if archive.last_position:
            archive.office.client.acknowledge(archive.entry, archive.last_position)
    assert len(ledger.safe) >= 150
    assert_nothing_is_lost(city, archive, ledger)
