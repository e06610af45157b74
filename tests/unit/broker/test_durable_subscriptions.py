"""A subscriber that was away: what comes, in which order, and what is said of what cannot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maia.broker import BrokerLimits
from maia.predicates import Comparison, Operator
from maia.testing import NetClient
from maia.wire.codec import decode, encode
from maia.wire.columns import columns_to_frame, frame_to_columns
from maia.wire.effects import Logged
from maia.wire.messages import Accepted, Deliver, DeliverLogged, Failed, Missed
from support.numberplate import LOCATION, NUMBERPLATE, READ, RECORDING, Net, sighting


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker(recording=RECORDING)
    return net


def published(net: Net, *plates: str, camera: NetClient | None = None) -> NetClient:
    """Let the camera publish a frame for each plate."""
    if camera is None:
        camera = net.client("camera at Victoria")
        camera.advertise()
    for plate in plates:
        camera.publish(1, sighting(plate))
    return camera


def plates(client: NetClient) -> list[object]:
    return [event[NUMBERPLATE] for event in client.logged_events()]


def test_what_was_published_meanwhile_comes_first_and_then_what_is_new(net: Net) -> None:
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    camera = published(net, "A1", "B2")
    back = net.client("billing office")
    ref = back.durable()
    published(net, "C3", camera=camera)
    assert plates(back) == ["A1", "B2", "C3"]
    assert back.positions() == [1, 2, 3]
    assert back.was_accepted(ref)
    assert not back.all_heard(Deliver)


def test_a_new_name_begins_where_the_log_ends(net: Net) -> None:
    camera = published(net, "A1")
    office = net.client("billing office")
    office.durable()
    published(net, "B2", camera=camera)
    assert plates(office) == ["B2"]


def test_what_was_acknowledged_does_not_come_again_and_what_was_not_does(net: Net) -> None:
    office = net.client("billing office")
    ref = office.durable()
    published(net, "A1", "B2", "C3")
    office.acknowledge(ref, 2)
    net.restart("CCS broker")
    back = net.client("billing office")
    back.durable()
    assert plates(back) == ["C3"]


def test_several_clients_share_the_reading_of_one_name(net: Net) -> None:
    planner = net.client("billing office")
    ref = planner.durable(upto=0)
    camera = published(net, "A1", "B2", "C3", "D4")
    heard = planner.all_heard(DeliverLogged)
    assert [(one.rows, one.columns) for one in heard] == [(1, [])] * 4, "how many rows, and none of them"
    readers = [net.client("billing office") for _ in range(2)]
    for reader, (seen, upto) in zip(readers, ((None, 2), (2, 3)), strict=True):
        assert reader.was_accepted(reader.durable(seen=seen, upto=upto))
    assert [plates(one) for one in readers] == [["A1", "B2"], ["C3"]]
    for reader, last in zip(readers, (heard[1], heard[2]), strict=True):
        assert reader.all_heard(DeliverLogged)[-1].position == last.position, "the last position always comes"
    assert not planner.ended_with(ref), "a reader takes nothing over"
    published(net, "E5", camera=camera)
    assert [plates(one) for one in readers] == [["A1", "B2"], ["C3"]]
    # What readers acknowledge moves their own range; the planner moves the cursor.
    readers[1].acknowledge(1, 3)
    planner.acknowledge(ref, 1)
    net.restart("CCS broker")
    back = net.client("billing office")
    back.durable()
    assert plates(back) == ["B2", "C3", "D4", "E5"]


def test_a_range_in_which_nothing_may_be_seen_ends(net: Net) -> None:
    planner = net.client("billing office")
    planner.durable(upto=0)
    published(net, "A1", "B2")
    reader = net.client("billing office")
    reader.durable(filter=Comparison(NUMBERPLATE, Operator.EQ, "A1"), upto=2)
    assert [one.rows for one in reader.all_heard(DeliverLogged)] == [1, 0]
    assert reader.all_heard(DeliverLogged)[-1].position == planner.all_heard(DeliverLogged)[1].position


def test_nothing_is_delivered_before_it_is_safe(net: Net) -> None:
    office = net.client("billing office")
    office.durable()
    net.log().is_slow = True
    published(net, "A1")
    assert not office.positions()
    net.sync()
    assert plates(office) == ["A1"]


def test_from_disk_to_memory_nothing_is_lost_or_doubled(net: Net) -> None:
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    camera = published(net, *(f"A{number}" for number in range(30)))
    net.restart("CCS broker")  # nothing is in memory now
    camera = net.client("camera at Victoria")
    camera.next_sequence = 30
    camera.advertise()
    net.log().is_slow = True
    published(net, "B0", camera=camera)
    back = net.client("billing office")
    back.durable()
    net.log().is_slow = False
    published(net, "B1", camera=camera)
    assert net.log().reads
    assert plates(back) == [*(f"A{number}" for number in range(30)), "B0", "B1"]


def test_no_more_is_under_way_than_the_limit_and_the_rest_follows_acknowledgements() -> None:
    net = Net()
    net.broker(recording=RECORDING, limits=BrokerLimits(durable_frames_under_way=3))
    office = net.client("billing office")
    ref = office.durable()
    published(net, *(f"A{number}" for number in range(10)))
    assert office.positions() == [1, 2, 3]
    office.acknowledge(ref, 2)
    assert office.positions() == [1, 2, 3, 4, 5]
    office.acknowledge(ref, 5)
    office.acknowledge(ref, 8)
    assert office.positions() == list(range(1, 11))


def test_the_limit_holds_while_catching_up_from_the_disk() -> None:
    net = Net()
    net.broker(recording=RECORDING, limits=BrokerLimits(durable_frames_under_way=3))
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    published(net, *(f"A{number}" for number in range(10)))
    net.restart("CCS broker")
    back = net.client("billing office")
    ref = back.durable()
    for upto in (3, 6, 9):
        assert back.positions() == list(range(1, upto + 1))
        back.acknowledge(ref, upto)
    assert plates(back) == [f"A{number}" for number in range(10)]


def test_a_filter_passes_over_the_rest_and_the_cursor_too(net: Net) -> None:
    office = net.client("billing office")
    wanted = Comparison(NUMBERPLATE, Operator.EQ, "C3")
    office.durable(filter=wanted)
    camera = published(net, "A1", "B2")
    office.hang_up()
    published(net, "C3", camera=camera)
    net.restart("CCS broker")
    back = net.client("billing office")
    back.durable()  # with a wider filter: what was passed over stays passed over
    assert plates(back) == ["C3"]


def test_each_name_has_its_own_cursor(net: Net) -> None:
    office = net.client("billing office")
    one, other = office.durable("one"), office.durable("other")
    published(net, "A1")
    office.acknowledge(one, 1)
    office.hang_up()
    back = net.client("billing office")
    other = back.durable("other")
    back.durable("one")
    assert [message.ref for message in back.all_heard(DeliverLogged)] == [other]


def test_a_name_is_gone_on_with_in_one_place_only(net: Net) -> None:
    first = net.client("billing office")
    ref = first.durable()
    second = net.client("billing office")
    second.durable()
    published(net, "A1")
    assert first.ended_with(ref) == "REFUSED-DURABLE-TAKEN-OVER"
    assert not first.positions()
    assert plates(second) == ["A1"]


def test_a_client_that_remembers_gets_nothing_that_has_arrived_and_the_next_one_does(
    net: Net,
) -> None:
    office = net.client("billing office")
    office.durable()
    published(net, "A1", "B2")
    net.restart("CCS broker")
    same = net.client("billing office")
    same.durable(seen=2, filter=Comparison(NUMBERPLATE, Operator.EQ, "Z9"))
    camera = net.client("camera at Victoria")
    camera.next_sequence = 2
    camera.advertise()
    published(net, "C3", camera=camera)
    assert not same.positions()
    same.hang_up()
    another = net.client("billing office")
    another.durable()
    assert plates(another) == ["A1", "B2", "C3"]


def test_a_client_served_from_another_log_is_told(net: Net) -> None:
    published(net, "A1")
    office = net.client("billing office")
    ref = office.durable(seen=7)
    assert office.code_of(ref) == "REFUSED-DURABLE-OTHER-LOG"


def test_renewals_and_both_kinds_of_subscription_live_together(net: Net) -> None:
    office = net.client("statistics office")
    plain, kept = office.subscribe(), office.durable()
    camera = published(net, "A1")
    office.durable(ref=kept)
    published(net, "B2", camera=camera)
    assert [event[LOCATION] for event in office.events(plain)] == ["Victoria", "Victoria"]
    assert office.positions() == [1, 2]


def test_a_reference_does_not_change_its_name(net: Net) -> None:
    office = net.client("billing office")
    ref = office.durable("one")
    office.durable("other", ref=ref)
    assert office.code_of(ref) == "INPUT-REF-TAKEN"


def test_forgotten_is_forgotten_and_ended_is_not(net: Net) -> None:
    office = net.client("billing office")
    ended, gone = office.durable("ended"), office.durable("forgotten")
    office.withdraw(ended)
    number = office.forget(gone)
    assert Accepted(number, None) in office.heard
    published(net, "A1")
    ended, gone = office.durable("ended"), office.durable("forgotten")
    assert [message.ref for message in office.all_heard(DeliverLogged)] == [ended]
    net.restart("CCS broker")
    assert len(net.brokers["CCS broker"].kept) > 0
    assert net.brokers["CCS broker"].broker.status(net.now)["log"]["cursors"] == 2


def test_what_retention_took_is_told(net: Net) -> None:
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    published(net, "A1", "B2", "C3", "D4")
    net.retain(first=4)
    net.restart("CCS broker")
    back = net.client("billing office")
    ref = back.durable()
    missed = back.last(Missed)
    assert (missed.ref, back.opened(missed.position), missed.code) == (ref, 3, "UNAVAILABLE-LOG-REMOVED")
    assert plates(back) == ["D4"]


def test_a_damaged_log_is_told_and_nothing_is_skipped_silently(net: Net) -> None:
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    published(net, "A1")
    net.restart("CCS broker")
    net.log().problem = "LOG-DAMAGED"
    back = net.client("billing office")
    back.durable()
    assert back.last(Missed).code == "UNAVAILABLE-LOG-UNREADABLE"
    assert "LOG-DAMAGED" in back.last(Missed).message


def test_a_type_that_is_not_recorded_cannot_be_durable() -> None:
    net = Net()
    net.broker()
    office = net.client("billing office")
    ref = office.durable()
    assert office.code_of(ref) == "INPUT-NOT-RECORDED"


def test_names_are_bounded_for_each_principal() -> None:
    net = Net()
    net.broker(recording=RECORDING, limits=BrokerLimits(durable_names_per_principal=2))
    office = net.client("billing office")
    refs = [office.durable(name) for name in ("one", "two", "three")]
    assert [office.code_of(ref) for ref in refs] == [None, None, "REFUSED-DURABLE-QUOTA"]
    assert len(office.all_heard(Failed)) == 1
    other = net.client("statistics office")
    assert other.was_accepted(other.durable("three"))


def test_nobody_acknowledges_the_future(net: Net) -> None:
    office = net.client("billing office")
    ref = office.durable()
    office.acknowledge(ref, 1 << 40)
    camera = published(net, "A1")
    assert plates(office) == ["A1"]
    office.hang_up()
    published(net, "B2", camera=camera)
    back = net.client("billing office")
    back.durable()
    assert plates(back) == ["A1", "B2"]


def test_a_cursor_that_cannot_be_read_is_dropped_with_a_note(net: Net) -> None:
    running = net.brokers["CCS broker"]
    running.kept["cursor/" + "0" * 64] = b"nonsense"
    net.restart("CCS broker")
    assert {"name": "cursor/" + "0" * 64, "code": "INPUT-KEPT-CURSOR"} in running.noted("kept-dropped")
    assert "cursor/" + "0" * 64 not in running.kept


def test_a_cursor_ahead_of_its_log_is_set_back_for_good(net: Net) -> None:
    """The log was put back from a copy; the positions behind it go to other frames."""
    office = net.client("billing office")
    ref = office.durable()
    published(net, "A1", "B2")
    office.acknowledge(ref, 2)
    net.log().safe.clear()
    running = net.restart("CCS broker")
    assert running.noted("cursor-ahead-of-log")
    camera = net.client("camera at Victoria")
    camera.next_sequence = 2
    camera.advertise()
    published(net, "C3", "D4", camera=camera)
    net.restart("CCS broker")
    back = net.client("billing office")
    back.durable()
    assert plates(back) == ["C3", "D4"]


def test_rows_that_two_recorded_parts_have_in_common_come_once(net: Net) -> None:
    """Parts of a sealed frame that came on two ways are recorded as they travelled, and may overlap."""
    office = net.client("billing office")
    office.durable()
    office.hang_up()
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), *(sighting(plate) for plate in ("A0", "A1", "A2")))
    (whole,) = net.log().safe
    frame = decode(whole.data)
    rows = columns_to_frame(frame.columns, 3)
    for position, kept in ((1, [0, 1]), (2, [1, 2])):
        part = replace(frame, rows=2, kept=kept, columns=frame_to_columns(rows.take(kept)))
        logged = Logged(position, whole.recorded_at, encode(part))
        net.log().safe[position - 1 :] = [logged]
    net.restart("CCS broker")
    back = net.client("billing office")
    back.durable()
    assert plates(back) == ["A0", "A1", "A2"]
    assert back.positions() == [1, 2]


def test_what_a_broker_wants_for_its_log_is_asked_for_although_the_request_is_refused() -> None:
    """Effects of what has changed are not taken back with the answer: no later request would say them."""
    net = Net()
    net.rights["CCS broker"] = (net.cast.right("CCS broker", READ),)
    net.broker(recording=RECORDING, limits=BrokerLimits(durable_names_per_principal=0))
    rendezvous = net.broker("a", seeds=("CCS broker",))
    office = net.client("billing office")
    assert office.code_of(office.durable()) == "REFUSED-DURABLE-QUOTA"
    assert rendezvous.broker.status(net.now)["rendezvous"], "the interest of the log did not leave"
