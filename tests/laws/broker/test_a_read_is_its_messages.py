"""However single events are taken on, what leaves is what leaves on the path: the same bytes and memory.

They are taken on together where they arrive in one read, and on a shorter way where they come alone.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maia.broker import Broker
from maia.demo.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS, TIMESTAMP
from maia.events import Instant, frame_of
from maia.predicates import ALWAYS, Comparison, Operator
from maia.wire.codec import encode
from maia.wire.columns import frame_to_columns
from maia.wire.effects import Close, Count, Effect, LinkId, Received, Send
from maia.wire.messages import Ping, Publish
from support.broker import NOW, Net

PLATES = ("AE05 XYZ", "LB02 KRT", None)
NEAR, FAR = "CCS broker", "Met broker"
# Read down the columns: an index returns classes of subscribers in any order, here and there.
FILTERS = (
    ALWAYS,
    Comparison(NUMBERPLATE, Operator.EQ, PLATES[0]),
    Comparison(NUMBERPLATE, Operator.NE, PLATES[0]),
    Comparison(TIMESTAMP, Operator.GT, Instant(NOW + 3)),
)

# What comes next in a read: nearly always the next event.
kinds = st.sampled_from(["event"] * 12 + ["two", "again", "gap", "ping", "unknown", "rubbish", "cut", "zero"])
reads = st.lists(st.lists(st.tuples(kinds, st.sampled_from(PLATES)), min_size=1, max_size=24), max_size=3)
wishes = st.lists(st.tuples(st.booleans(), st.sampled_from(FILTERS)), max_size=4)


class World:
    """A camera at one broker, readers at that one and at another."""

    def __init__(self, wanted: list[tuple[bool, object]]) -> None:
        self.net, self.next = Net(), 1
        self.near, self.far = self.net.broker(NEAR), self.net.broker(FAR, seeds=[NEAR])
        here, there = self.net.client("billing office"), self.net.client("billing office", at=FAR)
        self.reader = here
        for is_near, one in wanted:
            (here if is_near else there).subscribe(one)
        self.camera = self.net.client("camera at Victoria")
        self.ref = self.camera.advertise()
        (entry,) = self.near.broker._state.links[self.camera.link].advertisements.values()
        self.type_id = entry.right.event_type.type_id
        self.camera.publish(self.ref, event(0, PLATES[0]))

    def read(self, given: list[tuple[str, str | None]]) -> list[bytes]:
        return [self._message(kind, plate) for kind, plate in given]

    def _message(self, kind: str, plate: str | None) -> bytes:
        if kind == "ping":
            return encode(Ping(7))
        if kind == "rubbish":
            return b"\x96\x14\x01"
        number = self.next - 1 if kind == "again" else self.next + (5 if kind == "gap" else 0)
        self.next = number + 1
        rows = [event(number, plate)] * (2 if kind == "two" else 1)
        columns = frame_to_columns(frame_of(rows, NUMBERPLATE_KINDS))
        columns = columns[:1] if kind == "cut" else columns
        ref = self.ref + 1 if kind == "unknown" else self.ref
        data = encode(Publish(ref, number, int(NOW) + number, len(rows), columns))
        return data.replace(b"AE05 XYZ", b"AE05\0XYZ") if kind == "zero" else data

    def memory(self) -> list[object]:
        found: list[object] = []
        for one in (self.near, self.far):
            state = one.broker._state
            lines = [state.retained.line(said.frame) for _, _, said in state.retained.of_type(self.type_id)]
            spilled = [
                (link, one.sent_bytes, one.arrived_bytes, one.spilled_rows, list(one.to_report.items()))
                for link, one in state.routes.spill.neighbours()
            ]
            order = list(state.routes.order._last.items())
            found += [lines, spilled, order, state.routes.seen.exported(), state.counters]
        return found

    @property
    def hop(self) -> tuple[LinkId, LinkId]:
        return next((at[1], to[1]) for at, to in self.net.wires.items() if at[0] == NEAR)


def event(number: int, plate: str | None) -> dict:
    found = {NUMBERPLATE: plate, TIMESTAMP: Instant(NOW + number), LOCATION: "Victoria"}
    return {uid: value for uid, value in found.items() if value is not None}


def one_by_one(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    effects = [effect for one in data for effect in broker.take_on(Received(link, one), NOW)]
    return [*effects, *broker._all_the_rest(NOW)]


def on_the_path(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    with patch("maia.broker.node.publish_single", lambda *_: None):
        return one_by_one(broker, link, data)


def in_one_read(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    return [*broker.take_on_read(link, data, NOW), *broker._all_the_rest(NOW)]


def to(effects: list[Effect], link: LinkId) -> list[bytes]:
    return [one.data for one in effects if type(one) is Send and one.link == link]


@pytest.mark.laws
@settings(max_examples=30, deadline=None)
@given(wishes, reads)
def test_events_leave_as_they_do_on_the_path(wanted, given_reads):
    slow, others = World(wanted), {in_one_read: World(wanted), one_by_one: World(wanted)}
    here, there = slow.hop
    for given_read in given_reads:
        data = slow.read(given_read)
        left = on_the_path(slow.near.broker, slow.camera.link, data)
        carried = to(left, here)
        arrived = on_the_path(slow.far.broker, there, carried)
        for way, world in others.items():
            assert world.read(given_read) == data
            assert way(world.near.broker, world.camera.link, data) == left
            assert way(world.far.broker, there, carried) == arrived
            if slow.camera.link in slow.near.broker._state.links and "rubbish" not in dict(given_read):
                assert world.memory() == slow.memory()


def test_an_event_that_comes_alone_goes_the_shorter_way():
    world = World([(True, FILTERS[1]), (True, FILTERS[2]), (False, ALWAYS)])
    with patch("maia.broker.node.answer", None):  # the way of all other frames
        left = one_by_one(world.near.broker, world.camera.link, world.read([("event", PLATES[0])] * 3))
    *before, answered, counted = left[-4:]
    # Subscribers and neighbours come before the publisher.
    assert [one.link for one in before] == [world.reader.link, world.hop[0]]
    assert answered.link == world.camera.link
    assert isinstance(counted, Count)


def test_events_of_one_read_are_taken_on_together(monkeypatch):
    world = World([(True, ALWAYS), (False, FILTERS[1])])
    here, there = world.hop
    monkeypatch.setattr(Broker, "take_on", None)  # the way of one by one
    left = world.near.broker.take_on_read(
        world.camera.link, world.read([("event", PLATES[0]), ("event", PLATES[1])] * 20), NOW
    )
    carried = to(left, here)
    assert len(carried) == 20  # every other one: their numbers have gaps
    assert world.far.broker.take_on_read(there, carried, NOW)


def test_what_no_key_can_have_published_costs_its_sender_the_link():
    quick, slow = World([(False, ALWAYS)]), World([(False, ALWAYS)])
    here, there = slow.hop
    data = slow.read([("event", PLATES[0])] * 2)
    sent = to(one_by_one(slow.near.broker, slow.camera.link, data), here)
    forged = [one.replace(slow.camera.principal.key, bytes(32)) for one in sent]
    ended = one_by_one(slow.far.broker, there, forged)
    assert any(isinstance(one, Close) for one in ended)
    assert in_one_read(quick.far.broker, there, forged) == ended
