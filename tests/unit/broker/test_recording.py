"""What a recording broker writes down, and what waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker.log.recording import KEPT_POSITION
from maia.broker.rights.known_types import KEPT_TYPE
from maia.broker.settings import RecordingSettings
from maia.credentials import Action, SignedCertificate
from maia.predicates import Comparison, Operator
from maia.types import SignedDefinition, definition_to_bytes
from maia.wire.codec import decode
from maia.wire.messages import Carried, Deliver, Published
from support.numberplate import LOCATION, NUMBERPLATE, RECORDING, Net, sighting


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker(recording=RECORDING, lease_s=600)
    return net


def frames(net: Net, name: str = "CCS broker") -> list[Carried]:
    return [decode(one.data) for one in net.log(name).safe]


def test_a_publisher_is_answered_when_its_frame_is_safe_and_not_before(net: Net) -> None:
    net.log().is_slow = True
    camera, office = net.client("camera at Victoria"), net.client("statistics office")
    office.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting())
    assert office.events()  # subscribers that are here wait for no disk
    assert not camera.all_heard(Published)
    net.sync()
    assert camera.all_heard(Published) == [Published(ref, 0, 0)]


def test_without_durable_the_answer_waits_for_nothing() -> None:
    net = Net()
    net.broker(recording=RecordingSettings(durable=False))
    net.log().is_slow = True
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    assert camera.all_heard(Published)
    assert len(net.log().unsafe) == 1


def test_an_answer_that_covers_earlier_frames_waits_for_them(net: Net) -> None:
    """`Published` answers for all frames before it, so an empty or repeated one must not overtake them."""
    net.log().is_slow = True
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting())
    camera.publish(ref, sighting(), sequence=0)
    assert not camera.all_heard(Published)
    net.sync()
    assert [answer.sequence for answer in camera.all_heard(Published)] == [0, 0]
    assert len(frames(net)) == 1


def test_what_a_crash_took_before_it_was_safe_is_taken_on_again(net: Net) -> None:
    net.log().is_slow = True
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    net.advance(601)  # the memory of publications is kept by then, if it does not wait for the disk
    assert decode_position(net) == 1
    net.restart("CCS broker")
    again = net.client("camera at Victoria")
    ref = again.advertise()
    again.publish(ref, sighting(), sequence=0)
    net.sync()
    assert again.all_heard(Published)
    assert len(frames(net)) == 1


def test_what_is_safe_is_not_recorded_twice_after_a_crash(net: Net) -> None:
    """The publisher did not hear the answer, and says it again to the broker that has come back."""
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    net.restart("CCS broker")
    again = net.client("camera at Victoria")
    ref = again.advertise()
    again.publish(ref, sighting(), sequence=0)
    again.publish(ref, sighting(), sequence=1)
    assert [answer.sequence for answer in again.all_heard(Published)] == [0, 1]
    assert [frame.sequence for frame in frames(net)] == [0, 1]


def test_the_log_is_read_again_from_where_the_memory_was_kept(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting())
    net.advance(300)
    camera.advertise(ref=ref)
    net.advance(301)
    assert decode_position(net) == 2
    net.restart("CCS broker")
    again = net.client("camera at Victoria")
    again.publish(again.advertise(), sighting(), sequence=0)
    assert len(frames(net)) == 1


def decode_position(net: Net) -> int:
    import msgspec

    return msgspec.msgpack.decode(net.brokers["CCS broker"].kept[KEPT_POSITION])


@pytest.mark.parametrize(
    ("types", "is_recorded"), [(None, True), ({"uk.Numberplate"}, None), ({"Weather"}, False)]
)
def test_only_chosen_types_are_recorded(types: set[str] | None, is_recorded: bool | None) -> None:
    net = Net()
    name = net.cast.type_name.name
    chosen = None if types is None else frozenset({name} if is_recorded is None else types)
    net.broker(recording=RecordingSettings(chosen))
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    assert camera.all_heard(Published)
    assert len(frames(net)) == (0 if is_recorded is False else 1)


def test_a_type_can_be_chosen_by_its_id() -> None:
    net = Net()
    probe = Net()
    probe.broker()
    other = probe.client("camera at Victoria")
    other.advertise()
    type_id = next(iter(probe.brokers["CCS broker"].broker.status(probe.now)["rendezvous"]))
    net.broker(recording=RecordingSettings(frozenset({type_id})))
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting())
    assert len(frames(net)) == 1


def test_a_frame_is_recorded_as_it_travels_after_the_publishers_view(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), sighting(where="Hyde Park"))
    (frame,) = frames(net)
    assert frame.publisher == camera.principal.key
    office = net.client("statistics office")
    office.subscribe(Comparison(LOCATION, Operator.EQ, "Victoria"))
    camera.publish(1, sighting())
    assert NUMBERPLATE in {column.uid for column in frame.columns}
    assert office.all_heard(Deliver)


def test_the_status_tells_how_far_the_log_is(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting())
    net.log().is_slow = True
    camera.publish(ref, sighting())
    told = net.brokers["CCS broker"].broker.status(net.now)["log"]
    assert (told["position"], told["unsafe"]) == (1, 1)


def test_a_broker_without_a_log_says_so() -> None:
    net = Net()
    net.broker()
    assert net.brokers["CCS broker"].broker.status(net.now)["log"] is None


def test_a_broker_whose_certificate_is_taken_away_wants_nothing_more_by_it() -> None:
    net = Net()
    definition = net.cast.definition
    key, shown = net.cast.identity("CCS broker")
    right = net.cast.grant(net.cast.owner, key, definition, Action.SUBSCRIBE)
    running = net.broker(recording=RECORDING, credentials=(*shown, right))
    known = {f"{KEPT_TYPE}{definition.id.hex()}": definition_to_bytes(definition)}
    net.do(running, running.broker.learn(known, net.now))
    recording = running.parts.recording
    assert recording is not None
    assert recording.own_types()
    net.do(running, running.broker.hold(shown, net.now))
    assert not recording.own_types()


def test_a_right_that_lapses_for_a_moment_costs_no_other_type_its_interest() -> None:
    """What a broker wants for its own log is numbered, and a number is given once at a time."""
    net = Net()
    first = net.cast.definition
    second = net.cast.defined(
        replace(first.definition, name=replace(first.definition.name, name="Incident"))
    ).definition
    key, shown = net.cast.identity("CCS broker")

    def renewed(*types: SignedDefinition, comment: str) -> tuple[SignedCertificate, ...]:
        owner = net.cast.owner
        rights = [net.cast.grant(owner, key, one, Action.SUBSCRIBE, comment=comment) for one in types]
        return *shown, *rights

    running = net.broker(recording=RECORDING, credentials=renewed(first, second, comment=""))
    known = {f"{KEPT_TYPE}{one.id.hex()}": definition_to_bytes(one) for one in (first, second)}
    net.do(running, running.broker.learn(known, net.now))
    recording = running.parts.recording
    assert recording is not None
    both = recording.own_types()
    assert len(both) == 2
    for left in (first, second):
        net.do(running, running.broker.hold(renewed(left, comment="without"), net.now))
        assert len(recording.own_types()) == 1
        net.do(running, running.broker.hold(renewed(first, second, comment="again"), net.now))
        assert recording.own_types() == both
