"""Is a node woken when it wants to be, and again, whatever happens meanwhile?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from maia.events import Instant
from maia.net.node_runner import AlarmClock
from maia.wire import Effect, Input, LinkId, Received, Tick, WakeAt
from support.client_session import Played
from support.key_groups import KeyNet, grant, key_of
from support.numberplate import Net

SECOND = 1_000_000
NOW = Instant(1_800_000_000 * SECOND)


@dataclass
class Timer:
    at: float
    then: Callable[[], None]
    is_off: bool = False

    def cancel(self) -> None:
        self.is_off = True


@dataclass
class Hand:
    """A clock and timers that move when a test says so."""

    now: Instant = NOW
    timers: list[Timer] = field(default_factory=list)

    def later(self, seconds: float, then: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds * SECOND, then))
        return self.timers[-1]

    def waiting(self) -> list[Timer]:
        return sorted((one for one in self.timers if not one.is_off), key=lambda one: one.at)

    def rings(self, *, put_back_s: int = 0) -> None:
        """Let the first timer ring; the clock may have been put back before it does."""
        first = self.waiting()[0]
        first.is_off = True
        self.now = Instant(max(self.now, int(first.at)) - put_back_s * SECOND)
        first.then()


def seconds(number: float) -> Instant:
    return Instant(NOW + int(number * SECOND))


@pytest.fixture
def rung() -> list[Instant]:
    return []


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def alarm(hand: Hand, rung: list[Instant]) -> AlarmClock:
    return AlarmClock(lambda: hand.now, lambda: rung.append(hand.now), later=hand.later)


def test_the_first_of_several_moments_counts_and_rings_once(hand, alarm, rung):
    for at in (4, 2, 3, 2):
        alarm.wake_at(seconds(at))
    while hand.waiting():
        hand.rings()
    assert rung == [seconds(2)]


def test_a_moment_that_is_over_rings_at_once(hand, alarm, rung):
    alarm.wake_at(seconds(-3))
    hand.rings()
    assert rung == [NOW]


def test_nobody_is_woken_early_when_the_clock_is_put_back(hand, alarm, rung):
    alarm.wake_at(seconds(2))
    hand.rings(put_back_s=1)
    assert rung == []
    hand.rings()
    assert rung == [seconds(2)]


def test_the_clock_is_looked_at_every_few_seconds_however_far_the_moment_is(hand, alarm, rung):
    alarm.wake_at(seconds(3600))
    hand.rings()
    assert rung == []
    assert NOW < hand.now <= seconds(10)
    hand.now = seconds(3600)  # set ahead, by somebody else
    hand.rings()
    assert len(rung) == 1


def test_an_alarm_that_was_stopped_does_not_ring(hand, alarm, rung):
    alarm.wake_at(seconds(2))
    alarm.stop()
    assert hand.waiting() == []
    alarm.wake_at(seconds(3))  # and may be set again
    hand.rings()
    assert rung == [seconds(3)]


@dataclass
class Driven:
    """A node that a runner would drive, its alarm clock, and when it was woken."""

    handle: Callable[[Input, Instant], Sequence[Effect]]
    hand: Hand
    woken: list[Instant] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alarm = AlarmClock(lambda: self.hand.now, self._ring, later=self.hand.later)

    def _ring(self) -> None:
        self.woken.append(self.hand.now)
        self.perform(self.handle(Tick(), self.hand.now))

    def perform(self, effects: Sequence[Effect]) -> list[Instant]:
        """Ask for the moments that a node wants, and return them."""
        moments = [one.at for one in effects if isinstance(one, WakeAt)]
        for at in moments:
            self.alarm.wake_at(at)
        return moments


def a_broker() -> Driven:
    net = Net()
    running = net.broker()
    return Driven(running.broker.handle, Hand(net.now))


def a_client() -> Driven:
    played = Played()
    played.start()
    played.is_welcomed()
    return Driven(played.session.handle, Hand(played.now))


def a_key_server() -> Driven:
    net = KeyNet()
    net.member("camera", grant(key_of("camera")))
    return Driven(net.server.handle, Hand(net.now))


def a_member() -> Driven:
    net = KeyNet()
    member = net.member("camera", grant(key_of("camera")))
    return Driven(member.node.handle, Hand(net.now))


@pytest.mark.parametrize("begun", [a_broker, a_client, a_key_server, a_member])
def test_whoever_is_spoken_to_in_the_moment_it_wanted_to_wake_still_wakes_the_next_time(begun):
    """Its next wish comes while the clock still waits for the one before, and is not remembered there:
    it counts because the clock rings for a moment that has come, and whoever is woken says it again."""
    driven = begun()
    hand = driven.hand
    hand.now = first = min(driven.perform(driven.handle(Tick(), hand.now)))
    (wanted,) = driven.perform(driven.handle(Received(LinkId(1 << 40), b""), first))  # before it rings
    assert wanted > first
    while len(driven.woken) < 2:
        hand.rings()
    assert driven.woken == [first, wanted]
