"""How does an application take what has arrived?"""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from maia.client import ClientClosed, Delivered, GapDetected, RefusedByBroker
from maia.client.api.subscription import BYTES_WAITING_MAX, ROWS_WAITING_MAX, Subscription
from maia.events import Column, Frame, Kind
from maia.testing import in_a_loop
from support.client_session import NOW, STORY, Played
from support.numberplate import NUMBERPLATE

CAMERA = STORY.principal("camera at Victoria")


class Home:
    """A client that only counts how often it is asked whether to read on."""

    asked = 0

    def _check_room(self) -> None:
        self.asked += 1


@pytest.fixture
def home() -> Home:
    return Home()


@pytest.fixture
def subscription(home: Home) -> Subscription:
    return Subscription(home, Played(who="billing office").subscribes())


def take(subscription: Subscription, frame: Delivered) -> None:
    """Hand a frame over, as the client does that receives it."""
    subscription._take(frame)


def end(subscription: Subscription, problem: Exception) -> None:
    subscription._end(problem)


def has_room(subscription: Subscription) -> bool:
    return subscription._has_room


def delivered(sequence: int, rows: int = 1) -> Delivered:
    plates = Column(Kind.STRING, tuple(f"{sequence}-{row}" for row in range(rows)))
    return Delivered((1,), CAMERA, bytes(16), sequence.to_bytes(16), NOW, Frame(rows, {NUMBERPLATE: plates}))


@in_a_loop
async def test_a_loop_over_many_frames_lets_others_have_their_turn(subscription: Subscription):
    """A renewal that had to wait for the application would come after its lease."""
    for sequence in range(100):
        take(subscription, delivered(sequence))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    for _ in range(100):
        await anext(subscription)
    task.cancel()
    assert turns >= 10


@in_a_loop
async def test_two_that_take_turns_get_each_event_once(subscription: Subscription):
    for sequence in range(40):
        take(subscription, delivered(sequence, rows=2))
    end(subscription, ClientClosed("closed"))

    async def all_of_it() -> list[str]:
        return [event["numberplate"] async for event in subscription]

    one, other = await asyncio.gather(all_of_it(), all_of_it())
    assert sorted(one + other) == sorted(f"{sequence}-{row}" for sequence in range(40) for row in range(2))


@in_a_loop
async def test_what_arrived_is_taken_before_the_end_is_said(subscription: Subscription):
    take(subscription, delivered(0))
    end(subscription, RefusedByBroker("POLICY-EXPIRED", "it is over"))
    assert (await anext(subscription))["numberplate"] == "0-0"
    for _ in range(2):
        with pytest.raises(RefusedByBroker) as ended:
            await anext(subscription)
        assert ended.value.code == "POLICY-EXPIRED"


@in_a_loop
async def test_the_client_is_asked_when_there_is_no_room_and_when_there_is_again(
    subscription: Subscription, home: Home
):
    for sequence in range(2):
        take(subscription, delivered(sequence, rows=ROWS_WAITING_MAX // 2))
    assert not has_room(subscription)
    assert home.asked == 1
    await anext(subscription)
    assert has_room(subscription)
    assert home.asked == 2


@in_a_loop
async def test_a_few_long_frames_leave_no_room_either(subscription: Subscription, home: Home):
    """A89 (N5): the client stops reading when the bytes that wait are too many, however few the events."""
    for sequence in range(2):
        take(subscription, replace(delivered(sequence), size=BYTES_WAITING_MAX // 2))
    assert not has_room(subscription)
    assert home.asked == 1
    await anext(subscription)
    assert has_room(subscription)
    assert home.asked == 2


@in_a_loop
async def test_some_events_come_at_once_and_none_after_a_while(subscription: Subscription):
    take(subscription, delivered(0, rows=5))
    assert len(await subscription.some(3)) == 3
    assert len(await subscription.some(10)) == 2
    assert await subscription.some(10, timeout_s=0.01) == []


def test_an_event_says_who_and_when(subscription: Subscription):
    take(subscription, delivered(0))
    (event,) = asyncio.run(subscription.some(1))
    assert (event.publisher.principal, event.published_at) == (CAMERA, NOW)
    assert event == {"numberplate": "0-0", "timestamp": None, "location": None}


class AcknowledgingHome(Home):
    """A client whose session takes note of what is acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.withdrawn: list[bool] = []

    @property
    def _session(self) -> AcknowledgingHome:
        return self

    def acknowledge(self, _entry: object, position: int) -> list[object]:
        self.acknowledged.append(position)
        return []

    def _perform(self, _effects: object) -> None:
        pass

    async def _withdraw(self, _entry: object, _timeout_s: float, *, forget: bool = False) -> None:
        self.withdrawn.append(forget)


def recorded(position: int, rows: int = 1) -> Delivered:
    return replace(delivered(position, rows), position=position)


@pytest.fixture
def durable() -> tuple[AcknowledgingHome, Subscription]:
    home = AcknowledgingHome()
    return home, Subscription(home, Played(who="billing office").subscribes())


@in_a_loop
async def test_asking_for_the_next_event_acknowledges_the_last(durable):
    home, subscription = durable
    take(subscription, recorded(7, rows=2))
    await anext(subscription)
    await anext(subscription)
    assert home.acknowledged == []
    assert await subscription.some(5, timeout_s=0.01) == []
    assert home.acknowledged == [7]


@in_a_loop
async def test_a_frame_is_acknowledged_as_a_whole_or_not(durable):
    home, subscription = durable
    take(subscription, recorded(7, rows=2))
    await anext(subscription)
    subscription.acknowledge()
    assert home.acknowledged == []
    await anext(subscription)
    subscription.acknowledge()
    assert home.acknowledged == [7]


@in_a_loop
async def test_while_many_wait_acknowledgements_are_few(durable):
    home, subscription = durable
    for position in range(1, 101):
        take(subscription, recorded(position))
    for _ in range(100):
        await anext(subscription)
    await subscription.some(1, timeout_s=0.01)
    assert home.acknowledged[-1] == 100
    assert len(home.acknowledged) <= 5


@in_a_loop
async def test_whoever_leaves_acknowledges_what_was_taken(durable):
    home, subscription = durable
    take(subscription, recorded(7))
    take(subscription, recorded(8))
    await anext(subscription)
    await subscription.unsubscribe(forget=True)
    assert (home.acknowledged, home.withdrawn) == ([7], [True])


@in_a_loop
async def test_what_was_missed_can_be_asked_for(durable):
    _, subscription = durable
    missed = GapDetected(1, bytes(24), RefusedByBroker("UNAVAILABLE-LOG-REMOVED", "too long ago"))
    subscription._note(missed)
    assert subscription.missed == (missed,)
