"""However a stream of bytes is split into reads, each peer gets the same bytes, and memory is the same."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from maia.broker import Broker
from maia.broker.settings import LedgerSettings
from maia.broker.turn import Turn
from maia.credentials import Action, SignedCertificate
from maia.credentials.encoding.certificates import issue
from maia.credentials.requirements import parse_requirement, requirement_to_bytes
from maia.events import Instant, Kind, frame_of
from maia.ledger.records import DisclosedEvents, records_from_bytes
from maia.predicates import ALWAYS, AllOf, Comparison, Operator
from maia.sealing import EpochKeys
from maia.sealing.frames import proof
from maia.sealing.frames.ciphers import HeldCiphers
from maia.sealing.frames.content import plaintexts_of
from maia.sealing.keys.key_ring import KeyRing
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import encode_column, frame_to_columns
from maia.wire.effects import Close, Count, Disclose, Effect, LinkId, Received, Send
from maia.wire.messages import Column, Deliver, Ping, Publish, Sealed
from support.forging import reseal
from support.numberplate import (
    EVERY_KEY,
    LOCATION,
    NOW,
    NUMBERPLATE,
    NUMBERPLATE_KINDS,
    READ,
    TIMESTAMP,
    WRITE,
    Net,
    SealedNet,
)
from support.random_cases import usually
from support.sub_types import CASE, CASE_KINDS, FEE, SECRET_CASE, SECRET_FEE, speak, tell_of_sub_types

PLATES = ("AE05 XYZ", "LB02 KRT", None)
NEAR, FAR = "CCS broker", "Met broker"
# Read down the columns: an index returns classes of subscribers in any order, here and there.
FILTERS = (
    ALWAYS,
    Comparison(NUMBERPLATE, Operator.EQ, PLATES[0]),
    Comparison(NUMBERPLATE, Operator.NE, PLATES[0]),
    Comparison(TIMESTAMP, Operator.GT, Instant(NOW + 3)),
)
SEALED = {
    "attributes": EVERY_KEY,
    "events": EVERY_KEY,
    "shared": EVERY_KEY,
    "some keys": (None, NUMBERPLATE),
    "no keys": (),
}
"""Sealed types, by the keys of the broker in the middle; of one, plaintext goes along."""

CLEARED = requirement_to_bytes(parse_requirement("clearance >= 3"))
"""What an event of a read may require of its subscribers; none in these worlds shows a statement."""

NARROW = Comparison(NUMBERPLATE, Operator.NE, PLATES[1])
"""What the camera of a world whose name begins with "narrow" may publish."""

worlds = st.sampled_from(["plain", "narrow", "narrow attributes", "on record", "sub-types", *SEALED])
# What comes next in a read: nearly always the next event.
odd = ["two", "elsewhere", "again", "gap", "ping", "unknown", "rubbish", "cut", "zero", "to some"]
kinds = st.sampled_from(["event"] * 12 + odd)
reads = st.lists(st.lists(st.tuples(kinds, st.sampled_from(PLATES)), min_size=1, max_size=24), max_size=3)
wishes = st.lists(st.tuples(st.booleans(), st.sampled_from(FILTERS)), max_size=4)
# What becomes of a read between two brokers: nearly always nothing.
troubles = st.lists(
    st.tuples(
        st.sampled_from(["again", "swapped", "lost", "altered"]), st.integers(0, 23), st.integers(0, 999)
    ),
    max_size=2,
)


class World:
    """A camera at one broker, readers at that one and at another; for a sealed type, one in the middle."""

    def __init__(self, kind: str, wanted: list[tuple[bool, object]]) -> None:
        self.next = 1
        ledger = {"ledger": LedgerSettings(of_all_types=True)} if kind == "on record" else {}
        seal = kind.removeprefix("narrow ")
        self.net = Net(**ledger) if seal not in SEALED else _sealed_net(seal)
        if seal not in SEALED:
            self.net.broker(NEAR)
            self.net.broker(FAR, seeds=[NEAR])
        below = tell_of_sub_types(self.net.cast) if kind == "sub-types" else None
        held = _narrowed(self.net) if kind.startswith("narrow") else self.net.cast.certificates
        held = held if below is None else below.certificates
        here, there = (self.net.client("billing office", at=one, credentials=held) for one in (NEAR, FAR))
        self.reader = here
        for number, (is_near, one) in enumerate(wanted):
            reader = here if is_near else there
            if below is None or number % 2:
                reader.subscribe(one)
            else:  # between the type of the camera and the one above all
                speak(reader, below.charge, "subscribe", filter=one)
        self.camera = self.net.client("camera at Victoria", credentials=held)
        self.ref = self.camera.advertise() if below is None else speak(self.camera, below.case, "advertise")
        (entry,) = self.broker(NEAR).parts.links[self.camera.link].advertisements.values()
        assert len(entry.projections) == (0 if below is None else 2)
        self.kinds, self.own = NUMBERPLATE_KINDS, {}
        if below is not None:
            self.kinds, self.own = CASE_KINDS, {FEE: SECRET_FEE, CASE: SECRET_CASE}
        self.type_ids = entry.type_ids
        self.camera.publish(self.ref, event(0, PLATES[0]) | self.own, kinds=self.kinds)

    def broker(self, name: str) -> Broker:
        return self.net.brokers[name].broker

    def read(self, given: list[tuple[str, str | None]]) -> list[bytes]:
        return [self._message(kind, plate) for kind, plate in given]

    def _message(self, kind: str, plate: str | None) -> bytes:
        if kind == "ping":
            return encode(Ping(7))
        if kind == "rubbish":
            return b"\x98\x14\x01"
        number = self.next - 1 if kind == "again" else self.next + (5 if kind == "gap" else 0)
        self.next = number + 1
        # What a camera says of its place, its broker says better.
        place = {LOCATION: "Euston"} if kind == "elsewhere" else {}
        rows = [event(number, plate) | place | self.own] * (2 if kind == "two" else 1)
        columns = frame_to_columns(frame_of(rows, self.kinds))
        columns = columns[:1] if kind == "cut" else columns
        ref = self.ref + 1 if kind == "unknown" else self.ref
        requires = CLEARED if kind == "to some" else None
        data = encode(Publish(ref, number, int(NOW) + number, len(rows), columns, requires))
        return data.replace(b"AE05 XYZ", b"AE05\0XYZ") if kind == "zero" else data

    def memory(self) -> list[object]:
        found: list[object] = []
        for one in self.net.brokers.values():
            state = one.parts
            said = [one for type_id in self.type_ids for _, _, one in state.retained.of_type(type_id)]
            lines = [state.retained.line(one.frame) for one in said]
            spilled = [
                (link, one.sent_bytes, one.arrived_bytes, one.spilled_rows, list(one.to_report.items()))
                for link, one in state.routes.spill.neighbours()
            ]
            order = list(state.routes.order._last.items())
            found += [lines, spilled, order, state.routes.seen.exported(), state.counters]
            found.append(state.seals.sealer._counter)
        return found

    def onward(self, name: str, effects: list[Effect]) -> Iterator[tuple[str, LinkId, list[bytes]]]:
        """Yield what a broker has sent to others, by the broker and link where it arrives."""
        for (here, link), (there, at) in self.net.wires.items():
            if here == name and (sent := to(effects, link)):
                yield there, at, sent


def _narrowed(net: Net) -> list[SignedCertificate]:
    """Return the certificates of the story, with a narrower right to publish for the camera."""
    camera, found = net.cast.principal("camera at Victoria"), []
    for one in net.cast.certificates:
        body = one.certificate
        if body.subject == camera and Action.PUBLISH in body.authority.actions:
            narrower = dataclasses.replace(
                body.authority, restriction=AllOf((body.authority.restriction, NARROW))
            )
            one = issue(dataclasses.replace(body, authority=narrower), net.cast.keys["CCS"])  # noqa: PLW2901
        found.append(one)
    return found


def _sealed_net(kind: str) -> SealedNet:
    """Return a network of three brokers; that in the middle carries what it has no subscribers for."""
    level = SealingLevel.EVENT if kind == "events" else SealingLevel.ATTRIBUTE
    net = SealedNet(level, share_plaintext=kind == "shared")
    net.entitle(NEAR, READ, WRITE)
    net.entitle(FAR, READ)
    if SEALED[kind]:
        net.entitle(net.name_near(net.type_id, NEAR, FAR), READ)
    near, middle, far = net.three()
    net.hold(near, *EVERY_KEY)
    net.hold(far, *EVERY_KEY)
    net.hold(middle, *SEALED[kind])
    return net


def event(number: int, plate: str | None) -> dict:
    found = {NUMBERPLATE: plate, TIMESTAMP: Instant(NOW + number), LOCATION: "Victoria"}
    return {uid: value for uid, value in found.items() if value is not None}


def one_by_one(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    return in_reads(broker, link, *([one] for one in data))


def in_one_read(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    return in_reads(broker, link, data)


def in_two_reads(broker: Broker, link: LinkId, data: list[bytes]) -> list[Effect]:
    half = len(data) // 2
    return in_reads(broker, link, data[:half], data[half:])


def in_reads(broker: Broker, link: LinkId, *reads: list[bytes]) -> list[Effect]:
    turn = broker.turn(NOW)
    for read in reads:
        if read:
            turn.take([Received(link, one) for one in read])
    return turn.all()


def said(effects: list[Effect]) -> dict[object, object]:
    """Return what each peer gets of each stream, in its order, and what is counted and put on record.

    A super-type has a stream of its own, which comes behind what subscribers of the sub-type wait for.
    """
    found: dict[object, object] = {"counted": Counter()}
    for one in effects:
        if isinstance(one, Send | Close):
            stream = getattr(decode(one.data), "stream", b"") if isinstance(one, Send) else b""
            found.setdefault((one.link, stream), []).append(one)
        elif isinstance(one, Count):
            found["counted"][one.name, tuple(one.labels.items())] += one.amount
        elif isinstance(one, Disclose):
            found.setdefault("on record", []).append(one)
    return found


def to(effects: list[Effect], link: LinkId) -> list[bytes]:
    return [one.data for one in effects if type(one) is Send and one.link == link]


def in_trouble(data: list[bytes], befalls: list[tuple[str, int, int]]) -> list[bytes]:
    for what, number, byte in befalls:
        at = number % len(data)
        if what == "again":
            data = [*data[: at + 1], *data[at:]]
        elif what == "swapped":
            data = [*data[at:], *data[:at]]
        elif what == "lost":
            data = [*data[:at], *data[at + 1 :]] or data
        else:
            one = bytearray(data[at])
            one[byte % len(one)] ^= 1
            data = [*data[:at], bytes(one), *data[at + 1 :]]
    return data


def with_examples(test: Callable[..., None]) -> Callable[..., None]:
    """Try each trouble with each kind of world, in the middle of a read that is taken on together."""
    read = [("event", plate) for plate in PLATES[:2]] * 6
    for kind in ("narrow", "narrow attributes", "sub-types"):
        test = example(kind, [(True, ALWAYS), (False, ALWAYS)], [[*read, ("elsewhere", PLATES[0])]], [])(test)
    some = [(True, FILTERS[2]), (True, ALWAYS), (True, FILTERS[1]), (False, FILTERS[1])]
    test = example("on record", some, [read[1:], [("event", PLATES[0])]], [])(test)
    for kind in ("plain", "attributes", "events", "no keys"):
        for trouble in ("again", "swapped", "altered"):
            test = example(kind, [(False, ALWAYS)], [read], [(trouble, 5, 400)])(test)
    return test


@pytest.mark.laws
@settings(max_examples=usually(24, laws=300), deadline=None)
@given(worlds, wishes, reads, troubles)
@with_examples
def test_every_split_into_reads_gives_the_same(kind, wanted, given_reads, befalls):
    slow = World(kind, wanted)
    others = {way: World(kind, wanted) for way in (in_one_read, in_two_reads)}
    for given_read in given_reads:
        data = slow.read(given_read)
        for world in others.values():
            assert world.read(given_read) == data
        arrives = [(NEAR, slow.camera.link, data)]
        while arrives:
            name, link, data = arrives.pop()
            left = one_by_one(slow.broker(name), link, data)
            for way, world in others.items():
                assert said(way(world.broker(name), link, data)) == said(left)
            arrives += [(*where, in_trouble(sent, befalls)) for *where, sent in slow.onward(name, left)]
        if slow.camera.link in slow.broker(NEAR).parts.links and "rubbish" not in dict(given_read):
            for world in others.values():
                assert world.memory() == slow.memory()


def test_subscribers_and_neighbours_come_before_the_publisher():
    world = World("plain", [(True, FILTERS[1]), (True, FILTERS[2]), (False, ALWAYS)])
    near = world.broker(NEAR)
    left = one_by_one(near, world.camera.link, world.read([("event", PLATES[0])] * 3))
    *before, answered, counted = left[-4:]
    (hop,) = (
        link
        for (name, link), _ in world.net.wires.items()
        if name == NEAR and link in near.parts.routes.node_of
    )
    assert [one.link for one in before] == [world.reader.link, hop]
    assert answered.link == world.camera.link
    assert isinstance(counted, Count)


def test_events_of_a_sub_type_go_to_readers_of_all_types_above():
    world = World("sub-types", [(True, ALWAYS), (True, ALWAYS), (False, ALWAYS)])
    left = one_by_one(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])]))
    ends = [one.link for one in left if type(one) is Send]
    assert ends.count(world.reader.link) == 2
    assert ends[-1] == world.camera.link
    seen = [{column.uid for column in decode(one).columns} for one in to(left, world.reader.link)]
    assert [FEE in one for one in seen] == [True, False]
    assert not any(CASE in one for one in seen)


def test_events_of_one_read_leave_once_although_their_publisher_sends_some_of_them_again():
    """A66: it has come back, and its broker does not know where it was."""
    world = World("plain", [(True, ALWAYS), (False, ALWAYS)])
    near, link = world.broker(NEAR), world.camera.link
    before, more = (world.read([("event", PLATES[0])] * 3) for _ in range(2))
    in_one_read(near, link, before)
    (entry,) = near.parts.links[link].advertisements.values()
    entry.last_sequence = None
    left = in_one_read(near, link, [*before, *more])
    assert len(to(left, world.reader.link)) == 3
    assert [len(sent) for *_, sent in world.onward(NEAR, left)] == [3]


@pytest.mark.parametrize("what", ["unwanted", "of another kind", "of no attribute", "a part", "unasked"])
def test_what_a_neighbour_should_not_have_sent_costs_it_no_other_frame(what):
    world = World("plain", [(False, FILTERS[1])])
    data = world.read([("event", PLATES[0])])
    ((_, there, (sent,)),) = world.onward(NEAR, one_by_one(world.broker(NEAR), world.camera.link, data))
    frame = decode(sent)
    others = {
        "unwanted": replace(
            frame, columns=[replace(one, data=one.data.replace(b"AE05", b"LB02")) for one in frame.columns]
        ),
        "of another kind": replace(
            frame, columns=[replace(one, kind=2, data=b"\x91\x05") for one in frame.columns]
        ),
        "of no attribute": replace(frame, columns=[]),
        "a part": replace(frame, kept=[3]),
        "unasked": replace(frame, type_id=bytes(32)),
    }
    left = one_by_one(world.broker(FAR), there, [encode(others[what]), sent])
    assert any(isinstance(one, Count) for one in left) is (what != "a part")


def test_events_of_one_read_that_nobody_takes_are_counted_as_on_the_path():
    worlds = [World("plain", [(False, FILTERS[1])]) for _ in range(2)]
    left = []
    for world, way in zip(worlds, (in_one_read, one_by_one), strict=True):
        data = world.read([("event", PLATES[0])] * 5)
        ((_, there, sent),) = world.onward(NEAR, way(world.broker(NEAR), world.camera.link, data))
        unwanted = [one.replace(b"AE05", b"LB02") for one in sent]
        arrived = [sent[0], unwanted[1], unwanted[2], sent[3], unwanted[4]]
        left.append(way(world.broker(FAR), there, arrived))
    assert said(left[0]) == said(left[1])
    assert worlds[0].memory() == worlds[1].memory()
    assert said(left[0])["counted"] == {("maia_spilled_rows_total", ()): 3}


@pytest.mark.parametrize("what", ["others that wait", "its size", "a key"])
def test_a_sealed_event_that_cannot_be_sealed_goes_nowhere(what):
    world = World("attributes", [(True, ALWAYS), (False, ALWAYS)])
    near, data = world.broker(NEAR), world.read([("event", PLATES[0])])
    with ExitStack() as lacking:
        if what == "others that wait":
            waiting = type(near.parts.seals.publishing)
            lacking.enter_context(patch.object(waiting, "holds", return_value=True))
        elif what == "its size":
            lacking.enter_context(patch("maia.broker.streams.sealing.SEALED_BYTES_MAX", 20))
        else:
            none = lambda _keys, uids, _instance: HeldCiphers(uids, [None] * len(uids))  # noqa: E731
            lacking.enter_context(patch.object(EpochKeys, "looked_up", none))
        left = one_by_one(near, world.camera.link, data)
    assert not to(left, world.reader.link)
    assert not [
        one for *_, sent in world.onward(NEAR, left) for one in sent if isinstance(decode(one), Sealed)
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_one_event_of_a_read_requires_holds_for_it_and_for_no_other(place):
    world = World("plain", [(True, ALWAYS)])
    kinds = ["event"] * 3
    kinds[place] = "to some"
    left = in_one_read(world.broker(NEAR), world.camera.link, world.read([(one, PLATES[0]) for one in kinds]))
    delivered = [decode(one) for one in to(left, world.reader.link)]
    assert [one.published_at - int(NOW) for one in delivered if isinstance(one, Deliver)] == [
        world.next - 3 + at for at in range(3) if at != place
    ]


@pytest.mark.parametrize("kind", ["plain", "on record", *(SEALED.keys() - {"shared"})])
def test_events_of_one_read_are_taken_on_together(kind, monkeypatch):
    world = World(kind, [(True, ALWAYS), (False, FILTERS[1])])
    monkeypatch.setattr(Broker, "_take", None)  # the way of one by one
    read = world.read([("event", PLATES[0]), ("event", PLATES[1])] * 20)
    arrives, brokers = [(NEAR, world.camera.link, read)], []
    while arrives:
        name, link, data = arrives.pop()
        left = in_one_read(world.broker(name), link, data)
        assert any(isinstance(one, Disclose) for one in left) == (kind == "on record")
        brokers.append(name)
        arrives += world.onward(name, left)
        # every other one is wanted: their numbers have gaps
        assert all(len(sent) == 20 for _, _, sent in arrives)
    assert len(brokers) == len(world.net.brokers)


def test_what_no_key_can_have_published_costs_its_sender_the_link():
    quick, slow = World("plain", [(False, ALWAYS)]), World("plain", [(False, ALWAYS)])
    data = slow.read([("event", PLATES[0])] * 2)
    ((_, there, sent),) = slow.onward(NEAR, one_by_one(slow.broker(NEAR), slow.camera.link, data))
    forged = [one.replace(slow.camera.principal.key, bytes(32)) for one in sent]
    ended = one_by_one(slow.broker(FAR), there, forged)
    assert any(isinstance(one, Close) for one in ended)
    assert said(in_one_read(quick.broker(FAR), there, forged)) == said(ended)


def test_what_a_reader_seals_anew_among_events_of_one_read_is_delivered_to_nobody():
    """A49: its broker holds the keys of the type, and put another value under the publisher's signature."""
    quick, slow = World("attributes", [(False, ALWAYS)]), World("attributes", [(False, ALWAYS)])
    data, found = slow.read([("event", PLATES[0])] * 8), []
    for world, take in ((slow, one_by_one), (quick, in_one_read)):
        ((middle, there, sent),) = world.onward(NEAR, take(world.broker(NEAR), world.camera.link, data))
        frame = decode(sent[4])
        assert isinstance(frame, Sealed)
        keys = world.broker(FAR).parts.seals.keys(frame.type_id, frame.epoch)
        at = [column.uid for column in frame.columns].index(NUMBERPLATE)
        written = Column(NUMBERPLATE, 1, encode_column(Kind.STRING, (PLATES[1],)))
        (other,) = plaintexts_of([[written]], SealingLevel.ATTRIBUTE)
        columns = list(frame.columns)
        columns[at] = replace(columns[at], sealed=reseal(frame, NUMBERPLATE, other, keys))
        sent[4] = encode(replace(frame, columns=columns))
        carried = take(world.broker(middle), there, sent)
        ((far, there, sent),) = world.onward(middle, carried)
        found.append([*carried, *take(world.broker(far), there, sent)])
    assert said(found[0]) == said(found[1])
    delivered = [one for one in found[1] if type(one) is Send and isinstance(decode(one.data), Deliver)]
    assert len(delivered) == 7
    assert Count("maia_frames_refused_total", labels={"code": "SEALING-PROOF"}) in found[1]


def test_an_event_of_a_read_in_another_form_than_its_signer_gave_it_fares_as_it_does_alone():
    """A66: a frame with one attribute twice ends the link of the neighbour that sent it."""
    quick, slow = World("attributes", [(False, ALWAYS)]), World("attributes", [(False, ALWAYS)])
    data, found = slow.read([("event", PLATES[0])] * 4), []
    for world, take in ((slow, one_by_one), (quick, in_one_read)):
        ((middle, there, sent),) = world.onward(NEAR, take(world.broker(NEAR), world.camera.link, data))
        frame = decode(sent[2])
        first, *others = frame.columns
        sent[2] = encode(replace(frame, columns=[first, first, *others]))
        found.append(take(world.broker(middle), there, sent))
    assert said(found[0]) == said(found[1])
    assert any(isinstance(one, Close) for one in found[1])


def test_of_a_sealed_frame_the_rows_leave_that_a_neighbour_wants():
    for wanted, rows in ((ALWAYS, 3), (FILTERS[1], 1)):
        world = World("attributes", [(False, wanted)])
        some = [event(1, plate) for plate in PLATES]
        columns = frame_to_columns(frame_of(some, world.kinds))
        data = encode(Publish(world.ref, 1, int(NOW), len(some), columns))
        left = one_by_one(world.broker(NEAR), world.camera.link, [data])
        ((_, _, (sent,)),) = world.onward(NEAR, left)
        assert decode(sent).rows == rows


@pytest.mark.parametrize("what", ["source", "kinds", "epoch"])
def test_a_sealed_event_of_another_source_kind_or_time_is_delivered_to_nobody(what):
    """A50, A66, A85."""
    world = World("attributes", [(False, ALWAYS)])
    left = one_by_one(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])]))
    ((middle, there, sent),) = world.onward(NEAR, left)
    ((far, there, sent),) = world.onward(middle, one_by_one(world.broker(middle), there, sent))
    state = world.broker(far).parts
    wrong = {
        "epoch": patch.object(KeyRing, "opens", return_value=False),
        "source": patch.object(type(state.router), "expects", return_value=False),
        "kinds": patch.object(type(state.types), "kinds", return_value={NUMBERPLATE: Kind.INT}),
    }
    with wrong[what]:
        state.types.generation += 1  # what was worked out for the stream is not so any more
        left = one_by_one(world.broker(far), there, sent)
    assert not [one for one in left if type(one) is Send and isinstance(decode(one.data), Deliver)]
    assert "maia_frames_refused_total" in [one.name for one in left if type(one) is Count]


def test_a_sealed_event_that_was_carried_before_a_subscriber_came_is_a_duplicate():
    world = World("attributes", [(False, ALWAYS)])
    left = one_by_one(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])]))
    ((middle, there, sent),) = world.onward(NEAR, left)
    ((far, there, (sent,)),) = world.onward(middle, one_by_one(world.broker(middle), there, sent))
    frame, seen = decode(sent), world.broker(far).parts.routes.seen
    # Carried, its signer was not judged: the numbers that it used up are its signer's own (A85).
    seen.new_rows(frame.publisher, frame.stream, frame.sequence, signer=frame.signer)
    left = one_by_one(world.broker(far), there, [sent])
    assert Count("maia_duplicates_total") in left
    assert not [one for one in left if type(one) is Send]


def test_a_signature_that_is_none_costs_a_broker_one_verification_whatever_way_its_frame_goes():
    world = World("attributes", [(False, ALWAYS)])
    left = one_by_one(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])]))
    ((middle, there, (sent,)),) = world.onward(NEAR, left)
    ((far, there, (sent,)),) = world.onward(middle, one_by_one(world.broker(middle), there, [sent]))
    frame = decode(sent)
    forged = encode(replace(frame, signature=bytes([frame.signature[0] ^ 1, *frame.signature[1:]])))
    with patch.object(proof, "verify_signature", wraps=proof.verify_signature) as verified:
        refused = one_by_one(world.broker(far), there, [forged])
        taken = one_by_one(world.broker(far), there, [sent])
    assert verified.call_count == 2
    assert Count("maia_frames_refused_total", labels={"code": "SEALING-PROOF"}) in refused
    assert [type(decode(one.data)) for one in taken if type(one) is Send] == [Deliver]


def test_events_of_one_read_whose_signer_may_not_publish_are_delivered_to_nobody():
    """A broker holds the keys of a type, and signs events that no certificate lets it publish."""
    quick, slow = World("attributes", [(False, ALWAYS)]), World("attributes", [(False, ALWAYS)])
    data, found = slow.read([("event", PLATES[0])] * 8), []
    for world, take in ((slow, one_by_one), (quick, in_one_read)):
        ((middle, there, sent),) = world.onward(NEAR, take(world.broker(NEAR), world.camera.link, data))
        ((far, there, sent),) = world.onward(middle, take(world.broker(middle), there, sent))
        with patch.object(type(world.broker(far).parts.writers), "judge", return_value=False):
            found.append(take(world.broker(far), there, sent))
    assert said(found[0]) == said(found[1])
    assert not [one for one in found[1] if type(one) is Send]
    assert Count("maia_frames_refused_total", labels={"code": "SEALING-SIGNER-NOT-ENTITLED"}) in found[1]


def test_the_right_behind_deliveries_is_on_record_once() -> None:
    world = World("on record", [(True, ALWAYS)])
    first = world.next
    for left in (
        one_by_one(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])] * 3)),
        in_one_read(world.broker(NEAR), world.camera.link, world.read([("event", PLATES[0])] * 3)),
    ):
        records = [
            one for effect in left if isinstance(effect, Disclose) for one in records_from_bytes(effect.data)
        ]
        ((kind, sequences),) = [(type(one), one.sequences) for one in records]
        assert (kind, sequences) == (DisclosedEvents, [first, 2]), "three events in one record"
        first += 3


def test_a_right_that_still_holds_is_not_registered_again() -> None:
    world = World("plain", [(True, ALWAYS)])
    state = world.broker(NEAR).parts
    link = state.links[world.reader.link]
    (entry,) = link.subscriptions.values()
    state.streams.entries.recheck_entry(link, entry, Turn(NOW))
    assert list(link.subscriptions.values()) == [entry]
