"""From a publisher's frame to a sealed one, and from there to whoever may read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker import BrokerLimits
from maia.credentials import SigningKey, Transformation
from maia.events import SECOND, Instant, Kind, frame_of
from maia.expressions.syntax import Rule, Take
from maia.predicates import Comparison, Exists, Not, Operator
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import KeyRing
from maia.types import Sealing, SealingLevel, definition_to_bytes, next_version, sign_definition
from maia.wire.codec import encode
from maia.wire.columns import frame_label, frame_to_columns, stream_label
from maia.wire.effects import Received
from maia.wire.messages import Deliver, Publish, Published, Sealed, SealedWithPlaintext
from support.numberplate import (
    EVERY_KEY,
    LOCATION,
    NOW,
    NUMBERPLATE,
    NUMBERPLATE_KINDS,
    READ,
    RECORDING,
    TIMESTAMP,
    WRITE,
    SealedNet,
    camera_and_reader,
    sighting,
    the_three,
)
from support.types import version

LEVELS = (SealingLevel.EVENT, SealingLevel.ATTRIBUTE)


@pytest.mark.parametrize("level", LEVELS)
def test_what_a_right_transforms_is_transformed_before_it_is_sealed(level):
    """One event alone, and several in a frame; for a reader here and behind two brokers."""
    net, _, _, _ = the_three(level, share_plaintext=False)
    key, story = SigningKey.from_seed(b"c" * 32), net.cast
    step = Transformation(story.principal("PITO"), (Rule(LOCATION, Take(NUMBERPLATE, Kind.STRING)),))
    right = net.cast.right(key.principal, WRITE, transformations=(step,))
    camera = net.client("a camera", key=key, credentials=(story.connect_right(key.principal), right))
    near, far = net.client("CCS"), net.client("CCS", "Met broker")
    near.subscribe()
    far.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting("A"))
    camera.publish(ref, sighting("B"), sighting("C"))
    for reader in (near, far):
        assert [event[LOCATION] for event in reader.events()] == ["A", "B", "C"]


def test_a_frame_keeps_its_publisher_labels_and_moment():
    net, _, _, _ = the_three()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting())
    camera.publish(1, sighting())
    delivered = office.all_heard(Deliver)
    publisher, stream = camera.principal.key, camera.stream
    assert [(one.publisher, one.stream, one.label, one.published_at) for one in delivered] == [
        (publisher, stream_label(publisher, stream), frame_label(publisher, stream, number), int(NOW))
        for number in (0, 1)
    ]


def test_local_subscribers_get_a_frame_without_its_being_sealed():
    net = SealedNet()
    net.entitle("CCS broker", READ, WRITE)
    net.hold(net.broker(), *EVERY_KEY)
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    assert [event[NUMBERPLATE] for event in billing.events()] == ["LC04 ABC"]
    assert not net.frames()


def test_a_frame_that_was_taken_on_is_not_delivered_twice():
    net, _, _, _ = the_three()
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting(), sequence=5)
    camera.publish(1, sighting(), sequence=5)
    assert len(office.events()) == 1


# ---------------------------------------------------------------- whatever version a publisher speaks


def test_a_publisher_of_an_older_plaintext_version_is_sealed_all_the_same():
    """A29: the strongest version that the broker has met decides, not the publisher's."""
    net = SealedNet()
    pito = net.cast.keys["PITO"]
    plain = net.plain.definition
    later = next_version(
        plain, (), version=version(1), sealing=Sealing(SealingLevel.ATTRIBUTE, pito.principal)
    )
    definitions = [definition_to_bytes(net.plain), definition_to_bytes(sign_definition(later, pito))]
    net.cast = replace(net.cast, definition=net.plain)
    net.entitle("CCS broker", READ, WRITE)
    net.entitle("Met broker", READ)
    ccs, _, met = net.three()
    camera, office = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    # Both speak version 0. The broker has met version 1 through somebody else.
    helper = net.client("billing office")
    helper.subscribe(definitions=definitions, event_type=later.name)
    net.hold(ccs, *EVERY_KEY)
    net.hold(met, *EVERY_KEY)
    reader = net.client("CCS", "Met broker")
    reader.subscribe(definitions=definitions, event_type=later.name)
    office.subscribe()
    camera.publish(camera.advertise(), sighting("LC04 ABC"))
    assert all(isinstance(message, Sealed | SealedWithPlaintext) for message in net.frames())
    assert [event[NUMBERPLATE] for event in office.events()] == ["LC04 ABC"]


# ---------------------------------------------------------------- keys that are missing


def test_an_attribute_whose_key_is_missing_is_null():
    net, _, _, met = the_three(met=(None, NUMBERPLATE, TIMESTAMP))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("LC04 ABC"))
    assert [set(event) for event in office.events()] == [{NUMBERPLATE, TIMESTAMP}]
    (noted,) = met.noted("keys-missing")
    assert noted["attributes"] == [LOCATION]


@pytest.mark.parametrize(
    ("event", "met"), [({}, EVERY_KEY), (sighting(), (None,))], ids=["without", "unreadable"]
)
def test_a_reader_gets_an_event_of_which_it_reads_no_attribute_live_and_from_the_log(event, met):
    """As of a plain type: its right is to the event."""
    net, _, _, _ = the_three(met=met, recording=RECORDING)
    key = SigningKey.from_seed(b"c" * 32)
    rights = net.cast.connect_right(key.principal), net.cast.right(key.principal, WRITE)
    camera, office = net.client("a camera", key=key, credentials=rights), net.client("CCS", "Met broker")
    camera.advertise(ref=1)
    office.subscribe()
    away = net.client("CCS", "Met broker")
    away.durable()
    away.hang_up()
    camera.publish(1, event, kinds={uid: NUMBERPLATE_KINDS[uid] for uid in event})
    back = net.client("CCS", "Met broker")
    back.durable()
    assert office.events() == back.logged_events() == [{}]


@pytest.mark.parametrize(
    "asked",
    [
        Comparison(LOCATION, Operator.EQ, "Victoria"),
        Comparison(LOCATION, Operator.NE, "Victoria"),
        Not(Exists(LOCATION)),
        Exists(LOCATION),
    ],
)
def test_whoever_asks_about_an_attribute_that_its_broker_cannot_read_gets_nothing(asked):
    """A hidden value is not an absent one: `not exists` must not let an event pass."""
    net, _, _, _ = the_three(met=(None, NUMBERPLATE, TIMESTAMP))
    camera, office = camera_and_reader(net, filter=asked)
    everything = net.client("CCS", "Met broker")
    everything.subscribe()  # so that the frame comes, whatever the filter asks
    camera.publish(1, sighting("LC04 ABC"))
    assert len(everything.events()) == 1
    assert office.events() == []


def test_a_publisher_waits_for_the_keys_and_nothing_leaves_in_clear():
    net, ccs, _, _ = the_three()
    camera, office = camera_and_reader(net)
    ring = ccs.parts.seals.ring_of(net.type_id)
    net.use(ccs, None)
    camera.publish(1, sighting("FIRST"))
    camera.publish(1, sighting("SECOND"))
    assert not camera.all_heard(Published)
    assert not net.frames()
    net.use(ccs, ring)
    assert [message.sequence for message in camera.all_heard(Published)] == [0, 1]
    assert [event[NUMBERPLATE] for event in office.events()] == ["FIRST", "SECOND"]


def test_a_publisher_that_waited_in_vain_is_told_so():
    net, ccs, _, _ = the_three()
    camera, office = camera_and_reader(net)
    net.use(ccs, None)
    camera.publish(1, sighting())
    net.advance(11)
    assert camera.ended_with(1) == "UNAVAILABLE-KEYS-AWAITED"
    assert not net.frames()
    assert office.events() == []


def test_there_is_room_for_so_many_frames_that_wait():
    net, ccs, _, _ = the_three(limits=BrokerLimits(frames_waiting_per_type=2))
    camera, _ = camera_and_reader(net)
    net.use(ccs, None)
    for _ in range(3):
        camera.publish(1, sighting())
    assert camera.ended_with(1) == "UNAVAILABLE-KEYS-AWAITED"


def test_a_publisher_of_an_attribute_whose_key_its_broker_may_not_have_is_told_so():
    net, ccs, _, _ = the_three()
    camera, _ = camera_and_reader(net)
    net.use(ccs, net.ring(None, NUMBERPLATE, TIMESTAMP))
    camera.publish(1, sighting())
    assert camera.ended_with(1) == "SEALING-KEY-MISSING"
    assert not net.frames()


def test_a_key_that_is_missing_is_noticed_even_if_nobody_listens():
    net = SealedNet()
    net.entitle("CCS broker", READ, WRITE)
    ccs = net.broker()
    net.hold(ccs, None, NUMBERPLATE, TIMESTAMP)
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    assert camera.ended_with(1) == "SEALING-KEY-MISSING"


def test_a_frame_does_not_overtake_one_that_waits_for_an_epoch_to_begin():
    net, ccs, _, _ = the_three()
    camera, office = camera_and_reader(net)
    ring = KeyRing(net.type_id)
    soon = Instant(net.now + SECOND // 10)
    ring.learn(1, since=soon)
    for uid in EVERY_KEY:
        ring.hold(GroupId(net.type_id, uid), 1, net.ring(uid).secret(GroupId(net.type_id, uid), 1))
    net.use(ccs, ring)
    camera.publish(1, sighting("FIRST"))
    net.now = Instant(soon + SECOND // 20)  # it has begun, and nobody has looked yet
    camera.publish(1, sighting("SECOND"))
    net.advance(1)
    assert [event[NUMBERPLATE] for event in office.events()] == ["FIRST", "SECOND"]


# ---------------------------------------------------------------- cutting


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("rows", "wanted"), [(10, [2, 7]), (1000, [300])])
def test_the_rows_are_sealed_that_somebody_wants(level, rows, wanted):
    net, _, middle, met = the_three(level)
    camera, office = camera_and_reader(net, filter=Comparison(NUMBERPLATE, Operator.EQ, "WANTED"))
    camera.publish(1, *[sighting("WANTED" if row in wanted else f"P{row}") for row in range(rows)])
    assert [event[NUMBERPLATE] for event in office.events()] == ["WANTED"] * len(wanted)
    (frame,) = net.frames(to=middle)
    assert (frame.rows, frame.kept) == (len(wanted), wanted)
    assert net.frames(to=met) == [frame]  # passed on as it came


@pytest.mark.parametrize("level", LEVELS)
def test_a_broker_on_the_way_passes_a_frame_on_as_it_came(level):
    """Behind the middle, one reader wants all that have a plate, and another one of them."""
    net = SealedNet(level, share_plaintext=False)
    third = net.name_near(net.type_id, "CCS broker", "Met broker", "Kent broker")
    for name in ("CCS broker", third, "Met broker", "Kent broker"):
        net.entitle(name, READ, WRITE)
    ccs, middle, met = net.three()
    kent = net.broker("Kent broker", seeds=[third])
    for one in (ccs, middle, met, kent):
        net.hold(one, *EVERY_KEY)
    camera, office = camera_and_reader(net, filter=Comparison(NUMBERPLATE, Operator.EQ, "WANTED"))
    everything = net.client("CCS", "Kent broker")
    assert everything.was_accepted(everything.subscribe(ref=1, filter=Exists(NUMBERPLATE)))
    camera.publish(1, *[sighting("WANTED" if row == 99 else f"P{row}") for row in range(256)])
    assert net.frames(to=met) == net.frames(to=kent) == net.frames(to=middle)
    assert (len(office.events()), len(everything.events())) == (1, 256)


def test_rows_that_came_on_two_ways_are_delivered_once():
    net, _, _, met = the_three()
    wanted = Comparison(NUMBERPLATE, Operator.EQ, "WANTED")
    camera, office = camera_and_reader(net, filter=wanted)
    plates = ["WANTED" if row in (10, 300) else f"P{row}" for row in range(1000)]
    camera.publish(1, *map(sighting, plates))
    (frame,) = map(encode, net.frames(to=met))
    link = next(one.id for one in met.parts.links.values() if one.address is not None)
    for _ in range(2):
        net.happen(met, Received(link, frame))
        net.settle()
    assert [event[NUMBERPLATE] for event in office.events()] == ["WANTED", "WANTED"]


# ---------------------------------------------------------------- rotation


@pytest.mark.parametrize("level", LEVELS)
def test_a_frame_of_an_epoch_that_is_not_known_yet_waits_and_is_delivered_once(level):
    net, ccs, _, met = the_three(level)
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("OLD"))
    both = net.ring(*EVERY_KEY, epochs=(1, 2))
    net.use(ccs, both)
    camera.publish(1, sighting("NEW"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["OLD"]
    net.use(met, both)
    camera.publish(1, sighting("NEWER"))
    assert [event[NUMBERPLATE] for event in office.events()] == ["OLD", "NEW", "NEWER"]


def test_a_frame_that_waits_is_not_overtaken_by_the_next_of_its_stream():
    net, ccs, _, met = the_three()
    camera, office = camera_and_reader(net)
    first, both = net.ring(*EVERY_KEY), net.ring(*EVERY_KEY, epochs=(1, 2))
    net.use(ccs, both)
    camera.publish(1, sighting("ONE"))
    net.use(ccs, first)  # a second broker of the same name whose clock is behind
    camera.publish(1, sighting("TWO"))
    assert office.events() == []
    net.use(met, both)
    assert [event[NUMBERPLATE] for event in office.events()] == ["ONE", "TWO"]


def test_a_frame_whose_key_never_comes_is_passed_on_and_not_delivered():
    net, ccs, _, met = the_three()
    camera, office = camera_and_reader(net)
    net.use(ccs, net.ring(*EVERY_KEY, epochs=(1, 2)))
    camera.publish(1, sighting())
    net.advance(11)
    assert office.events() == []
    assert met.counts["maia_frames_unread_total"] == 1


def test_a_frame_sealed_before_this_broker_s_time_is_passed_on_unread():
    net, _, _, met = the_three()
    camera, office = camera_and_reader(net)
    net.use(met, net.ring(*EVERY_KEY, epochs=(2,)))
    camera.publish(1, sighting())
    assert office.events() == []
    assert met.counts["maia_frames_unread_total"] == 1
    assert "maia_frames_waiting_total" not in met.counts


def test_a_late_frame_is_sealed_with_the_keys_of_its_time():
    net, ccs, _, met = the_three()
    camera, office = camera_and_reader(net)
    begun = Instant(NOW + 120 * SECOND)
    for running in (ccs, met):
        ring = net.ring(*EVERY_KEY)
        ring.learn(2, since=begun)
        net.use(running, ring)
    late, net.now = net.now, Instant(begun + 5 * SECOND)
    frame_at(camera, late)
    assert [event[NUMBERPLATE] for event in office.events()] == ["LATE"]
    net.now = Instant(begun + 301 * SECOND)
    frame_at(camera, late)
    assert camera.last(Published).refused_rows == 1
    assert camera.ended_with(1) is None


def frame_at(camera, moment):
    """Publish a frame that says it is of another moment."""
    frame = frame_of([sighting("LATE")], NUMBERPLATE_KINDS)
    camera.say(Publish(1, camera.next_sequence, int(moment), frame.rows, frame_to_columns(frame)))
    camera.next_sequence += 1


# ---------------------------------------------------------------- keys that are gone


def test_what_was_derived_from_the_keys_of_an_epoch_goes_with_them():
    net, _, _, met = the_three()
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting())
    (derived,) = met.parts.seals._epochs.values()
    assert derived._ciphers
    net.use(met, net.ring(*EVERY_KEY, epochs=(2,)))
    assert not derived._ciphers
    assert derived not in met.parts.seals._epochs.values()
