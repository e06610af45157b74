"""A blinded type between brokers: ids that change, keys that come late, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from maia.broker.settings import BrokerLimits, RecordingSettings
from maia.broker.streams.recorded_frames import Readable
from maia.predicates import Comparison, Operator
from maia.routing.table.hops import book_key_of_sealed
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import OVERLAP_S
from maia.sealing.keys.secrets import Secret
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.codec import decode, decode_recorded, encode, encode_known
from maia.wire.columns import frame_label, stream_label
from maia.wire.messages import (
    AskState,
    DeliverLogged,
    Interest,
    Offer,
    Sealed,
    SealedRights,
    StateQuery,
    StateTold,
    Unblinded,
)
from support.numberplate import NUMBERPLATE, READ, SUSPECT, WRITE, BlindedNet, camera_and_reader, sighting
from support.sealed_messages import made_up_proof, sealed_interest, sealed_offer, sealed_wanted

THE_SUSPECT = Comparison(NUMBERPLATE, Operator.EQ, SUSPECT)


@pytest.fixture
def net() -> BlindedNet:
    return BlindedNet()


def plates(client) -> list[str]:
    return [event[NUMBERPLATE] for event in client.take_events()]


def test_a_reader_behind_a_broker_without_keys_gets_what_is_published(net):
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("A"), sighting("B"))
    camera.publish(1, sighting("C"))
    assert plates(office) == ["A", "B", "C"]
    assert [frame.type_id for frame in net.sealed_frames(to=net.middle)] == [net.id_of(1)] * 2
    delivered = net.brokers["Met broker"].counts
    assert not delivered.get("maia_frames_refused_total")


def test_a_delivery_names_the_publisher_and_its_numbers_as_ever(net):
    camera, office = camera_and_reader(net)
    office.heard.clear()
    camera.publish(1, sighting("A"))
    said = office.heard[-1]
    publisher, stream = camera.principal.key, camera.stream
    assert (said.publisher, said.stream) == (publisher, stream_label(publisher, stream))
    assert said.label == frame_label(publisher, stream, 0)
    assert said.published_at == int(net.now)


def test_members_filter_and_strangers_do_not(net):
    camera, office = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    camera.advertise(ref=1)
    office.subscribe(THE_SUSPECT, ref=1)
    camera.publish(1, sighting("harmless"))
    camera.publish(1, sighting(SUSPECT))
    assert plates(office) == [SUSPECT]
    assert len(net.sealed_frames(to=net.middle)) == 1


# ------------------------------------------------------------ a new epoch


def test_an_event_of_a_new_epoch_waits_for_a_reader_that_has_no_keys_yet(net):
    camera, office = camera_and_reader(net)
    net.bring(net.ccs, 1, 2)
    camera.publish(1, sighting("new epoch"))
    assert plates(office) == []
    net.bring(net.met, 1, 2)
    assert plates(office) == ["new epoch"]


def test_events_move_to_the_new_id_when_readers_had_time_to_ask_for_it(net):
    camera, office = camera_and_reader(net)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    net.carried.clear()
    camera.publish(1, sighting("early"))
    net.advance(OVERLAP_S)
    camera.publish(1, sighting("late"))
    assert plates(office) == ["early", "late"]
    frames = [message for _, _, message in net.carried if isinstance(message, Sealed)]
    assert {(one.type_id, one.epoch) for one in frames} == {(net.id_of(1), 1), (net.id_of(2), 0)}
    assert len({one.stream for one in frames}) == 2
    assert {one.sequence for one in frames} == {0}


def test_an_id_is_let_go_of_with_its_keys(net):
    camera, office = camera_and_reader(net)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    net.advance(OVERLAP_S)
    for running in (net.ccs, net.met):
        net.bring(running, 2)
        state = running.parts
        assert set(state.key_events.rekeying.sealed.in_use) == {net.id_of(2)}
        assert {name for name, _ in state.key_events.rekeying.sealed.placed} <= {net.id_of(2)}
        assert {key for keys in state.routes.offered.values() for key in keys} <= {
            book_key_of_sealed(net.id_of(2))
        }
    camera.publish(1, sighting("after"))
    assert plates(office) == ["after"]
    camera.withdraw(1)
    office.withdraw(1)
    assert not net.met.parts.key_events.rekeying.sealed.placed
    assert not net.ccs.parts.routes.offered


def test_who_subscribes_between_two_ids_is_served_under_both(net):
    camera = net.client("camera at Victoria")
    camera.advertise(ref=1)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    office = net.client("CCS", "Met broker")
    office.subscribe(ref=1)
    camera.publish(1, sighting("early"))
    net.advance(OVERLAP_S)
    camera.publish(1, sighting("late"))
    assert plates(office) == ["early", "late"]


def test_what_a_publisher_sends_again_through_another_broker_is_delivered_once():
    """The envelopes differ, and the publication in them is the same."""
    net = BlindedNet(met=(READ, WRITE))
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("once"))
    again = net.client("camera at Victoria", "Met broker")
    again.advertise(ref=1)
    again.publish(1, sighting("once"))
    again.publish(1, sighting("twice"))
    assert plates(office) == ["once", "twice"]


def test_a_member_on_the_way_without_the_new_key_passes_on_what_others_can_read():
    """It knows what is asked behind it, and cannot tell whether a frame matches: then it may."""
    net = BlindedNet(middle=(READ,))
    camera, office = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    camera.advertise(ref=1)
    office.subscribe(THE_SUSPECT, ref=1)
    camera.publish(1, sighting("harmless"))
    camera.publish(1, sighting(SUSPECT))
    assert plates(office) == [SUSPECT]
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    camera.publish(1, sighting(SUSPECT))
    net.advance(BrokerLimits().wait_for_keys_s + 1)
    assert plates(office) == [SUSPECT]


def test_a_broker_that_joins_its_group_again_goes_on_under_the_same_id(net):
    """It holds another ring then, with the same secrets."""
    camera, office = camera_and_reader(net)
    ring, state = net.ring_of(1), net.met.parts
    state.streams.blinded.held = lambda asked: ring if asked == net.type_id else None
    camera.publish(1, sighting("A"))
    assert plates(office) == ["A"]
    assert state.seals.ring_of(net.id_of(1)).ring is ring


def test_keys_that_make_another_id_open_nothing_under_the_old_one(net):
    state, other = net.met.parts, net.ring_of(1)
    other.hold(GroupId(net.type_id), 1, Secret.from_bytes(bytes(range(32))))
    state.streams.blinded.held = lambda asked: other if asked == net.type_id else None
    assert state.seals.ring_of(net.id_of(1)) is None


# ------------------------------------------------------------ what is refused, and what is not there


@pytest.mark.parametrize("kind", [Interest, Offer])
def test_a_member_does_not_hear_a_blinded_type_by_its_own_id(net, kind):
    """A29: nothing brings a type back to the id that names it."""
    offer = sealed_offer(net.type_id, made_up_proof())
    interest = sealed_interest(net.type_id, [sealed_wanted(bytes(16), made_up_proof())])
    wires = {(name, to): link for (name, link), (to, _) in net.wires.items()}
    link = wires[net.middle.name, "Met broker"]
    net.send(net.middle.name, link, encode(offer if kind is Offer else interest))
    net.settle()
    assert {note["code"] for note in net.met.noted("refused")} == {"SEALING-TOO-WEAK"}
    assert not net.met.parts.routes.book.knows(book_key_of_sealed(net.type_id))


def test_a_frame_under_the_types_own_id_goes_nowhere(net):
    """A29."""
    camera, office = camera_and_reader(net)
    net.tamper = lambda said: replace(said, type_id=net.type_id) if isinstance(said, Sealed) else said
    camera.publish(1, sighting("A"))
    assert plates(office) == []


@pytest.mark.parametrize(
    "change",
    [
        {"type_id": bytes(32)},
        {"epoch": 0},
        {"publisher": bytes(31) + b"1"},
        {"stream": bytes(16)},
        {"sequence": 5},
    ],
)
def test_a_frame_does_not_move_to_another_id_epoch_or_stream(net, change):
    """A46."""
    camera, office = camera_and_reader(net)
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    changed = {"type_id": net.id_of(2)} if "type_id" in change else change
    net.tamper = lambda said: replace(said, **changed) if isinstance(said, Sealed) else said
    camera.publish(1, sighting("A"))
    assert plates(office) == []


def test_rights_to_a_blinded_type_are_shown_to_no_neighbour(net):
    camera_and_reader(net)
    assert not [message for _, _, message in net.carried if isinstance(message, SealedRights)]


def test_the_present_state_is_not_asked_for_on_the_way(net):
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    office.say(AskState(9, 1))
    assert not office.last(StateTold).is_whole
    assert not [message for _, _, message in net.carried if isinstance(message, StateQuery)]


# ------------------------------------------------------------ the log


def recorded(net: BlindedNet, name: str) -> list[tuple[bytes, bytes, int]]:
    """Return what is in a broker's log: by type, with the publisher and its number."""
    frames = [decode_recorded(one.data) for one in net.log(name).safe]
    assert all(isinstance(one, Unblinded) for one in frames)
    return [(one.type_id, one.inner_publisher, one.inner_sequence) for one in frames]


def test_members_record_each_publication_once_under_its_type_and_strangers_none():
    net = BlindedNet(met=(READ, WRITE), recording=RecordingSettings())
    camera, office = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    again = net.client("camera at Victoria", "Met broker")
    again.advertise(ref=1)
    again.publish(1, sighting("A"))  # in another envelope
    for running in (net.ccs, net.met):
        net.bring(running, 1, 2)
    net.advance(OVERLAP_S)
    camera.publish(1, sighting("B"))
    assert plates(office) == ["A", "B"]
    both = [(net.type_id, camera.principal.key, number) for number in (0, 1)]
    assert recorded(net, "CCS broker") == recorded(net, "Met broker") == both
    assert recorded(net, net.middle.name) == []


def test_a_durable_subscriber_gets_a_blinded_type_from_the_log_of_its_broker():
    net = BlindedNet(recording=RecordingSettings())
    camera, office = net.client("camera at Victoria"), net.client("CCS", "Met broker")
    camera.advertise(ref=1)
    ref = office.durable()
    camera.publish(1, sighting("A"))
    office.acknowledge(ref, 1)
    office.hang_up()
    camera.publish(1, sighting("missed"))
    office = net.client("CCS", "Met broker")
    office.durable()
    camera.publish(1, sighting("B"))
    said = office.all_heard(DeliverLogged)
    assert [event[NUMBERPLATE] for event in office.logged_events()] == ["missed", "B"]
    publisher, stream = camera.principal.key, camera.stream
    assert {(one.publisher, one.stream) for one in said} == {(publisher, stream_label(publisher, stream))}
    assert [one.label for one in said] == [frame_label(publisher, stream, number) for number in (1, 2)]


def test_a_recorder_that_crashed_knows_what_its_log_has_of_a_blinded_type():
    """Its publisher sends again what it does not know to be safe, and gets another envelope for it."""
    net = BlindedNet(recording=RecordingSettings())
    camera = net.client("camera at Victoria")
    camera.advertise(ref=1)
    camera.publish(1, sighting("A"))
    net.restart("CCS broker", kept={})
    net.bring(net.ccs, 1)
    again = net.client("camera at Victoria")
    again.advertise(ref=1)
    again.publish(1, sighting("A"))
    again.publish(1, sighting("B"))
    assert [number for *_, number in recorded(net, "CCS broker")] == [0, 1]


@pytest.mark.parametrize(
    "change",
    [{"id_epoch": 0}, {"blinded_id": bytes(32)}, {"epoch": 2}, {"type_id": bytes(32)}, {"sequence": 7}],
)
def test_a_frame_in_a_log_does_not_move_to_another_type_id_epoch_or_number(change):
    """A46: a writer to the log's folder changes what stands beside the ciphertext."""
    net = BlindedNet(recording=RecordingSettings())
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    (logged,) = net.log("Met broker").safe
    read, frame = net.met.parts.log_requests.recorded_frames.read, decode_recorded(logged.data)
    assert isinstance(read(logged), Readable)
    forged = msgspec.structs.replace(logged, data=encode_known(replace(frame, **change)))
    assert not isinstance(read(forged), Readable)
    lies = {"inner_publisher": bytes(32), "inner_sequence": 9}  # not signed, and not believed
    found = read(msgspec.structs.replace(logged, data=encode_known(replace(frame, **lies))))
    assert (found.transit.publisher, found.transit.sequence) == (camera.principal, 0)


def test_what_a_log_keeps_is_no_message():
    """A11: the form in which a blinded frame is kept names its type, and no link accepts it."""
    net = BlindedNet(recording=RecordingSettings())
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    (logged,) = net.log("Met broker").safe
    with raises("PROTOCOL-MESSAGE"):
        decode(logged.data)


def test_a_blinded_type_is_sealed_as_a_whole(net):
    camera, _ = camera_and_reader(net)
    camera.publish(1, sighting("A"))
    (frame,) = net.sealed_frames(to=net.middle)
    assert [column.uid for column in frame.columns] == [""]
    assert net.cast.definition.definition.sealing.level is SealingLevel.EVENT
