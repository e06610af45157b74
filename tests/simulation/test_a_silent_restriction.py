"""A91, over a whole run: one seed, with and without events that an office may not see."""

from __future__ import annotations

from maia.broker.settings import RecordingSettings
from maia.client import Delivered, Notice
from maia.events import Instant
from maia.policy import shape
from maia.predicates import Comparison, Operator
from maia.testing.simulation import BEGINNING, Weather
from maia.types.definition import TOPIC
from maia.wire.codec import decode
from maia.wire.effects import Effect, Input, Received
from maia.wire.messages import DeliverLogged, Missed
from support.city import Camera, City, Office
from support.numberplate import LOCATION, NUMBERPLATE, SUSPECT, TIMESTAMP
from support.seeds import with_seeds
from support.transcripts import Transcript

ROUNDS = 12


class Listening:
    """A client, and all that its brokers sent it.

    What is in the event log comes when a disk is done; of all else, the moments are compared, too.
    """

    def __init__(self, city: City, office: Office) -> None:
        self._client, self.at_once, self.logged, self.moments = office.client, Transcript(), Transcript(), []
        self.events = 0
        office.client.on_notice = self._count
        city.network.host(office.name).node = self

    def _count(self, notice: Notice) -> None:
        self.events += notice.frame.rows if isinstance(notice, Delivered) else 0

    def start(self, now: Instant) -> list[Effect]:
        return self._client.start(now)

    def handle(self, happened: Input, now: Instant) -> list[Effect]:
        if isinstance(happened, Received):
            message = decode(happened.data)
            if isinstance(message, DeliverLogged | Missed):
                self.logged.add(message)
            else:
                self.at_once.add(message)
                self.moments.append(int(now))
        return self._client.handle(happened, now)


def publish(city: City, camera: Camera, at: int, plates: list[str]) -> None:
    """Publish a frame; the moment of an event is its name, the same in every run."""
    written = []
    for number, plate in enumerate(plates):
        is_seen, before = plate == SUSPECT, plates[:number].count(SUSPECT)
        event = {
            NUMBERPLATE: plate,
            TIMESTAMP: Instant(BEGINNING + 10 * at + (before if is_seen else 10**9 + number)),
            LOCATION: camera.place,
        }
        if city.has_topics:
            event[TOPIC.uid] = f"/city/{camera.place}"
        city.events[event[TIMESTAMP]] = (camera, dict(shape(camera.view, event)))
        written.append(event)
    assert city.send(camera, written)


def run(seed: int, *, withholds: bool) -> tuple[Listening, Listening]:
    city = City(seed, brokers=3, recording=RecordingSettings())
    city.network.set_weather(Weather(spread_s=0.0))
    chance, hidden = city.network.chance("seen"), city.network.chance("hidden")
    via = chance.sample(range(3), 3)
    cameras = [
        city.camera(f"camera {place}", place, via=[chance.choice(via[1:])]) for place in ("Soho", "Bank")
    ]
    office = city.office("detective", via=via, restriction=Comparison(NUMBERPLATE, Operator.EQ, SUSPECT))
    archive = Listening(city, city.office("archive", via=via))
    office.client.subscribe(city.known, durable="mine")
    # What is last on a topic is the state of it, seen or not: docs/limitations/rights.md.
    office.client.subscribe(city.known, state=not city.has_topics)
    listening = Listening(city, office)
    city.settle()
    at = 0
    for number in range(ROUNDS):
        for camera in cameras:
            for _ in range(chance.randint(0, 3)):
                visible, at = [SUSPECT] * chance.randint(1, 2), at + 1
                for _ in range(hidden.randint(0, 2) if withholds else 0):
                    publish(city, camera, 1000 * at + hidden.randrange(1000), ["B4 NKR"])
                plates = [*visible, *(["CU 7"] * (hidden.randint(0, 2) if withholds else 0))]
                (hidden.shuffle if withholds else list)(plates)
                publish(city, camera, at, plates)
                city.network.run_for(0.05)
        if number == ROUNDS // 3:
            city.network.crash(city.brokers[via[0]])
            city.network.run_for(40)
            city.network.restart(city.brokers[via[0]])
        if number == ROUNDS // 2:
            city.network.put_to_sleep(office.name)
            city.network.run_for(60)
            city.network.wake_up(office.name)
        city.network.run_for(chance.random() * 20)
    city.network.run_for(60)
    return listening, archive


@with_seeds(4)
def test_a_run_with_withheld_events_looks_to_the_subscriber_like_one_without(seed):
    """A91: the same messages at the same moments, in a network in which every message takes as long."""
    (without, _), (with_, archive) = run(seed, withholds=False), run(seed, withholds=True)
    assert archive.events > with_.events // 3 > 0, "nothing was withheld"
    assert with_.at_once.lines == without.at_once.lines
    # A line carries one message after the other, each a microsecond later.
    assert all(abs(a - b) < 1000 for a, b in zip(with_.moments, without.moments, strict=True))
    assert with_.logged.lines == without.logged.lines
