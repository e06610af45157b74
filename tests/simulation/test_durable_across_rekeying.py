"""B8: a durable subscriber of a sealed type that was away while keys changed gets what it missed."""

from __future__ import annotations

import pytest

from maia.broker.settings import RecordingSettings
from maia.client import Delivered, GapDetected, Notice, Warned
from maia.client.entries import Subscribed
from maia.types import SealingLevel
from support.city import KEYS, SealedCity
from support.numberplate import TIMESTAMP
from support.seeds import with_seeds

BROKER = "broker 0"
AWAY_S = 400
"""More than six refreshes, and much longer than keys are held after them."""


class Archive:
    """A durable subscriber that writes down what it is shown, and what it is told to have missed."""

    def __init__(self, city: SealedCity) -> None:
        self.city, self.office = city, city.office("archive")
        self.office.client.withdraw(self.office.entry)
        self.shown: list[int] = []
        self.missed: list[str] = []
        self.warning: str | None = None
        self.entry: Subscribed | None = None

    def begin(self) -> None:
        self.office.client.on_notice = self.hear
        self.entry = self.office.client.subscribe(self.city.known, durable="archive")

    def hear(self, notice: Notice) -> None:
        if isinstance(notice, Delivered):
            self.shown += [int(row[TIMESTAMP]) for row in notice.frame.events()]
            self.office.client.acknowledge(self.entry, notice.position)
        elif isinstance(notice, GapDetected):
            self.missed.append(notice.problem.code)
        elif isinstance(notice, Warned):
            self.warning = None if notice.problem is None else notice.problem.code


def city_of(
    seed: int, level: SealingLevel, *, keeps_history: bool, blinded: bool = False
) -> tuple[SealedCity, Archive]:
    recording = RecordingSettings()
    city = SealedCity(
        seed, level=level, brokers=1, recording=recording, keeps_history=keeps_history, blinded=blinded
    )
    city.camera("camera at Victoria", "Victoria")
    archive = Archive(city)
    archive.begin()
    city.network.run_for(10)
    return city, archive


def live_on(city: SealedCity, seconds: int) -> list[int]:
    """Let the camera see something every few seconds; return what it saw."""
    (camera,) = city.cameras
    seen: list[int] = []
    for _ in range(seconds // 10):
        seen += city.sees(camera, 2)
        city.network.run_for(10)
    return seen


def past_of(city: SealedCity) -> int:
    node = city.network.host(BROKER).node
    return len(node.parts.keys.member.past._found)


@pytest.mark.parametrize(
    ("level", "blinded"),
    [(SealingLevel.EVENT, False), (SealingLevel.ATTRIBUTE, False), (SealingLevel.EVENT, True)],
)
@with_seeds(2)
def test_a_client_that_was_away_across_many_epochs_gets_everything_in_order(seed, level, blinded):
    city, archive = city_of(seed, level, keeps_history=True, blinded=blinded)
    before = live_on(city, 30)
    city.network.crash(archive.office.name)
    first = city.epoch(0)
    missed = live_on(city, AWAY_S)
    assert city.epoch(0) > first + 3
    city.network.restart(archive.office.name)
    archive.begin()
    city.network.run_for(30)
    after = live_on(city, 30)
    assert archive.missed == []
    assert archive.shown == [*before, *missed, *after]
    assert past_of(city) == 0, "keys of the past are destroyed when nobody is behind any more"


@with_seeds(1)
def test_a_broker_that_was_away_too_gets_the_keys_again(seed):
    city, archive = city_of(seed, SealingLevel.ATTRIBUTE, keeps_history=True)
    city.network.crash(archive.office.name)
    missed = live_on(city, 200)
    city.network.crash(BROKER)
    city.network.run_for(300)
    city.network.restart(BROKER)
    city.network.run_for(30)
    city.network.restart(archive.office.name)
    archive.begin()
    city.network.run_for(60)
    assert archive.missed == []
    assert archive.shown == missed


@with_seeds(1)
def test_without_history_it_is_told_what_it_missed(seed):
    city, archive = city_of(seed, SealingLevel.ATTRIBUTE, keeps_history=False)
    city.network.crash(archive.office.name)
    live_on(city, AWAY_S)
    city.network.restart(archive.office.name)
    archive.begin()
    city.network.run_for(30)
    after = live_on(city, 20)
    assert set(archive.missed) == {"UNAVAILABLE-LOG-KEYS-GONE"}
    assert archive.shown[-len(after) :] == after


@with_seeds(1)
def test_a_manager_that_does_not_answer_is_waited_for_as_long_as_it_takes_and_the_reader_is_told(seed):
    """B11: time is not made into loss; nothing overtakes what waits."""
    city, archive = city_of(seed, SealingLevel.ATTRIBUTE, keeps_history=True)
    city.network.crash(archive.office.name)
    missed = live_on(city, AWAY_S)
    city.network.crash(KEYS)
    city.network.restart(archive.office.name)
    archive.begin()
    city.network.run_for(600)
    assert (archive.missed, archive.shown) == ([], [])
    assert archive.warning in {"UNAVAILABLE-KEYS-AWAITED", "UNAVAILABLE-KEY-SERVER"}
    city.network.restart(KEYS)
    city.network.run_for(120)
    assert (archive.missed, archive.shown, archive.warning) == ([], missed, None)
