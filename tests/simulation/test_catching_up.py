"""Whatever crashes or is cut off: what a camera was told is safe reaches the archive of another broker.

Cameras publish at broker 0, the archive is a durable subscriber at broker 2, and each broker records. If
something does not come, the archive was told so. Events of one camera keep their order.
"""

from __future__ import annotations

from collections import Counter

import pytest

from maia.broker.log import progress
from maia.broker.settings import RecordingSettings
from maia.broker.streams import log_requests
from maia.client import Acknowledged, Delivered, Ended, GapDetected, Notice
from maia.credentials import Action, SignedCertificate
from maia.predicates import ALWAYS, Comparison, Operator, Predicate
from maia.routing.duplicates import MemoryLimits
from maia.wire.codec import decode_recorded
from support.city import PLATES, Camera, City, SealedCity, Violation
from support.numberplate import NUMBERPLATE, TIMESTAMP
from support.seeds import with_seeds

PUBLISHING, READING = "broker 0", "broker 2"
PLATE = PLATES[1]
ONE_PLATE = Comparison(NUMBERPLATE, Operator.EQ, PLATE)


class RecordingCity(City):
    """Three brokers of an overlay, each with a right of its own to the type."""

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        name = self.brokers[number]
        return (*self.force_on_type("Met"), self.grant("Met", name, Action.SUBSCRIBE))


class RecordingMesh(RecordingCity):
    """Three brokers of a mesh, in a line."""

    def __init__(self, seed: int, **settings: object) -> None:
        super().__init__(seed, edges={(0, 1), (1, 2)}, brokers=3, **settings)


class RestrictedCity(RecordingCity):
    """The brokers beside the first one may see the sightings of one plate."""

    def rights_of_broker(self, number: int) -> tuple[SignedCertificate, ...]:
        restriction = ONE_PLATE if number else ALWAYS
        own = self.grant("Met", self.brokers[number], Action.SUBSCRIBE, restriction=restriction)
        return (*self.force_on_type("Met"), own)


class Told:
    """What cameras were told is safe, what the archive wrote down, and what it was told that it missed."""

    def __init__(self, city: City) -> None:
        self.city = city
        self.safe: set[int] = set()
        self.written: list[int] = []
        self.gaps: list[str] = []
        self.newest: dict[str, int] = {}
        self._sent: dict[tuple[str, int], list[int]] = {}
        for camera in city.cameras:
            camera.client.on_notice = lambda notice, camera=camera: self.answered(camera, notice)

    def sees(self, camera: Camera, count: int) -> None:
        sequence = camera.entry.next_sequence
        moments = self.city.sees(camera, count)
        if moments:
            self._sent[camera.name, sequence] = moments

    def answered(self, camera: Camera, notice: Notice) -> None:
        """Take note of what a camera is told is safe."""
        if isinstance(notice, Acknowledged):
            for (name, sequence), moments in self._sent.items():
                if name == camera.name and sequence <= notice.sequence:
                    self.safe.update(moments)

    def hear(self, notice: Notice) -> None:
        if isinstance(notice, GapDetected):
            self.gaps.append(notice.problem.code)
        if not isinstance(notice, Delivered):
            return
        for row in notice.frame.events():
            moment = int(row[TIMESTAMP])
            camera = self.city.events[moment][0].name
            is_new = moment not in self.written and not notice.is_late
            if is_new and moment < self.newest.get(camera, 0):
                raise Violation(f"{moment} of {camera} came out of order, by {self.city.network.story()}")
            self.newest[camera] = max(moment, self.newest.get(camera, 0))
            self.written.append(moment)
        self.city.offices[0].client.acknowledge(self.entry, notice.position)


def city_with_archive(kind: type[City], seed: int, restriction: Predicate = ALWAYS) -> tuple[City, Told]:
    city = kind(seed, recording=RecordingSettings())
    city.camera("camera at Victoria", "Victoria")
    city.camera("camera at Soho", "Soho")
    office = city.office("archive", via=(2,), restriction=restriction)
    office.client.withdraw(office.entry)
    told = Told(city)
    office.client.on_notice = told.hear
    city.network.run_for(20)
    told.entry = office.client.subscribe(city.known, durable="archive")
    city.network.run_for(20)
    return city, told


def make_trouble(city: City) -> None:
    """Crash a broker, between two effects if it so happens, or cut it off for a while."""
    chance, network = city.chance, city.network
    victim = chance.choice([PUBLISHING, READING, READING, "broker 1"])
    if chance.random() < 0.7:
        network.crash_within(victim, chance.randint(0, 12))
        network.run_for(chance.random() * 2)
        network.crash(victim)
        _publish(city, 2)
        network.run_for(chance.random() * 20)
        network.restart(victim)
    else:
        network.partition([READING, "archive"])
        _publish(city, 3)
        network.run_for(chance.random() * 40)
        network.heal()


def _publish(city: City, rounds: int) -> None:
    for _ in range(rounds):
        for camera in city.cameras:
            city.told.sees(camera, city.chance.randint(1, 3))
        city.network.run_for(city.chance.random())


@pytest.mark.parametrize("kind", [RecordingCity, RecordingMesh, SealedCity, City])
@with_seeds(2)
def test_what_was_acknowledged_reaches_an_archive_elsewhere_or_is_reported(kind, seed):
    city, told = city_with_archive(kind, seed)
    city.told = told
    for _ in range(8):
        _publish(city, 4)
        make_trouble(city)
    _publish(city, 3)
    city.network.run_for(150)
    missing = told.safe - set(told.written)
    if missing and not told.gaps:
        raise Violation(f"{len(missing)} events never came, by {city.network.story()}")
    assert told.safe
    # What was sealed in an epoch that is over can be gone with its keys.
    lost_most = len(told.safe) // 4 if "UNAVAILABLE-LOG-KEYS-GONE" in told.gaps else 0
    assert len(missing) <= lost_most, (len(missing), len(told.safe), Counter(told.gaps))
    frames = [decode_recorded(one.data) for one in city.network.host(READING).log]
    recorded = Counter((one.publisher, one.stream, one.sequence) for one in frames)
    assert max(recorded.values()) == 1, "a frame was recorded twice"


@pytest.mark.parametrize("kind", [RecordingCity, SealedCity])
@pytest.mark.parametrize("is_archive_away", [True, False])
def test_a_log_that_was_lost_is_fetched_again_from_where_its_readers_were(kind, is_archive_away):
    """D1, B11: the folder of the log is gone, other data is not; the others have recorded all."""
    city, told = city_with_archive(kind, 48_113)
    city.told = told
    _publish(city, 4)
    city.network.run_for(200)
    had = set(told.written)
    assert had == told.safe
    _publish(city, 1)
    city.network.run_for(20)
    if is_archive_away:
        city.network.crash("archive")
    _publish(city, 4)
    city.network.run_for(20)
    city.network.crash(READING)
    _publish(city, 4)
    city.network.host(READING).log.clear()
    city.network.restart(READING)
    office, ends = city.offices[0], list[str]()
    if is_archive_away:
        city.network.restart("archive")
    else:  # what it was served from is gone, and it is told
        office.client.on_notice = lambda one: (
            ends.append(one.problem.code) if isinstance(one, Ended) else None
        )
        city.network.run_for(40)
        assert ends == ["REFUSED-DURABLE-OTHER-LOG"]
    office.client.on_notice = told.hear
    told.entry = office.client.subscribe(city.known, durable="archive")
    city.network.run_for(200)
    assert set(told.written) == told.safe > had
    assert told.gaps == ["UNAVAILABLE-LOG-LOST"], "what this one alone had, nobody else can know"
    times = Counter(told.written)
    assert not [moment for moment in had if times[moment] > 1], "what it had acknowledged long before"


def test_a_log_that_is_lost_before_it_was_filled_is_filled_from_where_it_was(monkeypatch):
    """D1, B11: what was fetched last was recorded a moment ago, and published long before the rest."""
    monkeypatch.setattr(log_requests, "PAGE_BYTES", 300)
    city, told = city_with_archive(RecordingCity, 48_113)
    city.told, network, office = told, city.network, city.offices[0]
    _publish(city, 4)
    network.run_for(80)
    network.crash(READING)
    _publish(city, 16)
    network.run_for(300)
    had = len(told.written)
    network.restart(READING)
    while len(told.written) <= had:
        network.run_for(0.02)
    assert len(told.safe) - len(told.written) > 8, "it is under way"
    network.crash(READING)
    network.host(READING).log.clear()
    network.restart(READING)
    ends: list[str] = []
    office.client.on_notice = lambda one: ends.append(one.problem.code) if isinstance(one, Ended) else None
    network.run_for(40)
    assert ends == ["REFUSED-DURABLE-OTHER-LOG"]
    office.client.on_notice = told.hear
    told.entry = office.client.subscribe(city.known, durable="archive")
    network.run_for(300)
    assert set(told.written) == told.safe


def test_a_log_that_is_lost_soon_after_a_brokers_first_start_is_known_to_be_another_one():
    """D1, B11: its reader is told, and what others have of it comes again, marked as late."""
    city, told = city_with_archive(RecordingCity, 48_113)
    city.told, network, office = told, city.network, city.offices[0]
    _publish(city, 2)
    network.run_for(1)
    had = set(told.written)
    assert had == told.safe
    came: list[Delivered] = []

    def hear(notice: Notice) -> None:
        told.hear(notice)
        if isinstance(notice, Delivered):
            came.append(notice)
        if isinstance(notice, Ended):
            assert notice.problem.code == "REFUSED-DURABLE-OTHER-LOG"
            told.entry = office.client.subscribe(city.known, durable="archive")

    office.client.on_notice = hear
    network.crash(READING)
    network.host(READING).log.clear()
    network.restart(READING)
    network.run_for(60)
    assert told.gaps == ["UNAVAILABLE-LOG-LOST"]
    again = [one for one in came if {int(row[TIMESTAMP]) for row in one.frame.events()} <= had]
    assert again
    assert all(one.is_late for one in again)
    _publish(city, 1)
    network.run_for(20)
    assert set(told.written) == told.safe > had
    assert not came[-1].is_late


@pytest.mark.parametrize("is_known", [True, False], ids=["its places were known", "it was never heard of"])
def test_what_a_broker_recorded_while_it_was_away_is_fetched_though_nobody_publishes_there_any_more(is_known):
    """D1, B11: the log that would ask for it was lost meanwhile, and all others have answered since."""
    city, told = city_with_archive(lambda *a, **k: SealedCity(*a, keeps_history=True, **k), 48_113)
    city.told, network, office = told, city.network, city.offices[0]
    away = [PUBLISHING, *(camera.name for camera in city.cameras)]
    if is_known:
        _publish(city, 2)
        network.run_for(80)
        assert set(told.written) == told.safe

    def hear(notice: Notice) -> None:
        told.hear(notice)
        if isinstance(notice, Ended):
            told.entry = office.client.subscribe(city.known, durable="archive")

    office.client.on_notice = hear
    network.partition(away)
    _publish(city, 4)
    network.crash(READING)
    network.host(READING).log.clear()
    network.restart(READING)
    network.run_for(200)
    assert told.safe - set(told.written)
    for camera in city.cameras:
        network.crash(camera.name)
    network.run_for(100)
    network.heal()
    network.run_for(200)
    assert set(told.written) == told.safe


def test_a_lost_log_is_filled_from_when_it_was_whole_not_from_when_its_reader_had_something_of_others():
    """D1, B11: one broker was away for minutes; the reader had events of another one all the time."""
    city, told = city_with_archive(lambda *a, **k: SealedCity(*a, keeps_history=True, **k), 48_113)
    city.told, network, office = told, city.network, city.offices[0]
    near = city.camera("camera at the archive", "Camden", via=(1,))
    near.client.on_notice = lambda notice: told.answered(near, notice)
    first, *others = (camera for camera in city.cameras if camera is not near)
    for camera in (first, near):
        told.sees(camera, 2)
    network.run_for(80)
    assert set(told.written) == told.safe

    def hear(notice: Notice) -> None:
        told.hear(notice)
        if isinstance(notice, Ended):
            told.entry = office.client.subscribe(city.known, durable="archive")

    office.client.on_notice = hear
    network.partition([PUBLISHING, first.name, *(camera.name for camera in others)])
    for camera in others:  # their streams begin and end while their broker is away
        told.sees(camera, 3)
    network.run_for(20)
    gone = told.safe - set(told.written)
    assert gone
    for _ in range(10):
        told.sees(near, 1)
        network.run_for(20)
    assert told.safe - set(told.written) == gone
    for camera in others:
        network.crash(camera.name)
    network.crash(READING)
    network.host(READING).log.clear()
    network.restart(READING)
    network.run_for(60)
    network.heal()
    network.run_for(200)
    assert set(told.written) == told.safe


def test_where_a_log_is_put_back_a_position_of_before_is_refused_also_when_the_log_has_come_that_far():
    """D1, B11: positions behind a backup are given a second time; to go on there would leave events out."""
    city, told = city_with_archive(RecordingCity, 48_113)
    city.told = told
    _publish(city, 2)
    city.network.run_for(80)
    host, office = city.network.host(READING), city.offices[0]
    log, disk = list(host.log), dict(host.disk)
    _publish(city, 4)
    city.network.run_for(80)
    had, last = set(told.written), host.log[-1].position
    ends: list[str] = []
    office.client.on_notice = lambda one: ends.append(one.problem.code) if isinstance(one, Ended) else None
    city.network.partition(["archive"])
    city.network.crash(READING)
    host.log[:], host.disk = log, disk
    city.network.restart(READING)
    _publish(city, 8)
    city.network.run_for(120)
    assert host.log[-1].position > last > log[-1].position
    city.network.heal()
    city.network.run_for(60)
    assert ends == ["REFUSED-DURABLE-OTHER-LOG"]
    office.client.on_notice = told.hear
    told.entry = office.client.subscribe(city.known, durable="archive")
    city.network.run_for(100)
    assert set(told.written) == told.safe > had


@pytest.mark.parametrize("kind", [RecordingCity, RecordingMesh])
@pytest.mark.parametrize("is_put_back", [True, False])
def test_what_only_a_log_had_that_was_lost_or_put_back_is_reported_in_other_organisations(kind, is_put_back):
    """B11: the others had compared themselves with that log, and it says that it is not the same any more.

    What gets the positions of what was lost is fetched like all the rest.
    """
    city, told = city_with_archive(kind, 48_113)
    city.told, network = told, city.network
    _publish(city, 4)
    network.run_for(80)
    host = network.host(PUBLISHING)
    log, disk = (list(host.log), dict(host.disk)) if is_put_back else ([], None)
    _publish(city, 4)
    network.run_for(80)
    assert (set(told.written), told.gaps) == (told.safe, [])
    network.partition([PUBLISHING, *(camera.name for camera in city.cameras)])
    _publish(city, 4)
    network.run_for(20)
    gone, upto = told.safe - set(told.written), host.log[-1].position
    assert gone
    network.crash(PUBLISHING)
    host.log[:] = log
    host.disk = host.disk if disk is None else disk
    network.restart(PUBLISHING)
    network.run_for(20)
    for _ in range(8):
        _publish(city, 4)
        network.run_for(5)
    assert host.log[-1].position > upto, "positions of what is gone were given again"
    network.heal()
    network.run_for(200)
    assert told.safe - set(told.written) == gone
    assert "UNAVAILABLE-LOG-LOST" in told.gaps


@pytest.mark.parametrize("keeps_history", [True, False])
def test_what_was_sealed_in_epochs_that_are_over_is_opened_or_reported(keeps_history):
    city, told = city_with_archive(lambda *a, **k: SealedCity(*a, keeps_history=keeps_history, **k), 48_113)
    city.told = told
    city.network.crash(READING)
    _publish(city, 4)
    city.network.run_for(400)
    city.network.restart(READING)
    city.network.run_for(60)
    missing = told.safe - set(told.written)
    assert told.safe
    gone = {"UNAVAILABLE-LOG-KEYS-GONE"}
    assert (bool(missing), set(told.gaps)) == ((False, set()) if keeps_history else (True, gone))


def test_where_a_right_leaves_events_out_their_numbers_are_no_gap():
    city, told = city_with_archive(RestrictedCity, 48_113, ONE_PLATE)
    city.told = told
    for _ in range(2):
        _publish(city, 20)
        city.network.crash(READING)
        _publish(city, 20)
        city.network.restart(READING)
        city.network.run_for(100)
    shown = {moment for moment in told.safe if city.events[moment][1][NUMBERPLATE] == PLATE}
    assert shown < told.safe
    assert (set(told.written), told.gaps) == (shown, [])


def test_what_a_restricted_right_leaves_of_a_stream_is_recorded_once(monkeypatch):
    monkeypatch.setattr(progress, "_LIMITS", MemoryLimits(4096, 64, 4 << 20))
    city, told = city_with_archive(RestrictedCity, 48_113, ONE_PLATE)
    for _ in range(400):
        told.sees(city.cameras[0], 1)
        city.network.run_for(0.1)
    city.network.run_for(100)
    shown = [moment for moment in sorted(told.safe) if city.events[moment][1][NUMBERPLATE] == PLATE]
    assert len(shown) > 64
    assert (told.written, told.gaps) == (shown, [])
