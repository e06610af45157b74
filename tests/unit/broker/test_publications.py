"""From a publisher's frame to the frames that leave the broker."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest

from maia.broker import BrokerLimits
from maia.broker.rights.authoriser import Authoriser
from maia.credentials import (
    Action,
    SignedCertificate,
    Transformation,
    issue,
)
from maia.events import Instant, Kind, attribute_uid
from maia.expressions.syntax import Rule, Take
from maia.predicates import AnyOf, Comparison, Operator
from maia.wire.columns import frame_label, stream_label
from maia.wire.messages import Deliver, Ended, Publish, Published
from support.numberplate import LOCATION, NOW, NUMBERPLATE, Net, sighting


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def grant_to_publish(net: Net, who: str, **authority: object) -> tuple[SignedCertificate, ...]:
    """Let CCS grant somebody to publish, beside what the story grants."""
    story = net.cast
    name = story.type_name
    return (*story.certificates, story.grant("CCS", who, name, Action.PUBLISH, **authority))


def test_the_camera_cannot_be_anywhere_else(net: Net) -> None:
    """E2: an equality restriction forces the value."""
    camera, statistics = net.client("camera at Victoria"), net.client("statistics office")
    statistics.subscribe()
    camera.publish(camera.advertise(), sighting(where="Hyde Park"), {NUMBERPLATE: "LC04 ABC"})
    assert [event[LOCATION] for event in statistics.events()] == ["Victoria", "Victoria"]
    assert camera.last(Published) == Published(1, 0, 0)


def test_rows_outside_a_restriction_are_refused_and_counted(net: Net) -> None:
    certificates = grant_to_publish(
        net, "statistics office", restriction=Comparison(NUMBERPLATE, Operator.LT, "M")
    )
    publisher = net.client("statistics office", credentials=certificates)
    billing = net.client("billing office")
    billing.subscribe()
    publisher.publish(publisher.advertise(), sighting("AA"), sighting("ZZ"), sighting("BB"))
    assert publisher.last(Published) == Published(1, 0, 1)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["AA", "BB"]


def test_a_publisher_is_not_refused_for_a_term_that_it_need_not_meet(net: Net) -> None:
    """A restriction that also speaks of a place by number: what it says of plates can be met all the same."""
    either = AnyOf((Comparison(LOCATION, Operator.EQ, 7), Comparison(NUMBERPLATE, Operator.LT, "M")))
    certificates = grant_to_publish(net, "statistics office", restriction=either)
    publisher = net.client("statistics office", credentials=certificates)
    billing = net.client("billing office")
    billing.subscribe()
    ref = publisher.advertise()
    assert publisher.code_of(ref) is None
    publisher.publish(ref, sighting("AA"), sighting("ZZ"))
    assert publisher.last(Published) == Published(1, 0, 1)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["AA"]


def test_a_publisher_that_can_meet_no_part_of_a_restriction_is_refused_at_once(net: Net) -> None:
    by_number = Comparison(LOCATION, Operator.EQ, 7)
    publisher = net.client(
        "statistics office", credentials=grant_to_publish(net, "statistics office", restriction=by_number)
    )
    assert publisher.code_of(publisher.advertise()) == "POLICY-GRANT-UNMEETABLE"


def test_a_frame_of_which_nothing_passes_is_answered_and_goes_nowhere(net: Net) -> None:
    certificates = grant_to_publish(
        net, "statistics office", restriction=Comparison(NUMBERPLATE, Operator.LT, "M")
    )
    publisher = net.client("statistics office", credentials=certificates)
    billing = net.client("billing office")
    billing.subscribe()
    publisher.publish(publisher.advertise(), sighting("ZZ"))
    assert publisher.last(Published) == Published(1, 0, 1)
    assert not billing.all_heard(Deliver)


def test_a_delivery_says_publisher_and_moment_and_has_labels_in_place_of_stream_and_number(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting())
    camera.publish(ref, sighting())
    delivered = billing.all_heard(Deliver)
    publisher, stream = camera.principal.key, camera.stream
    assert [message.label for message in delivered] == [frame_label(publisher, stream, one) for one in (0, 1)]
    assert {(one.publisher, one.stream, one.published_at) for one in delivered} == {
        (publisher, stream_label(publisher, stream), int(NOW))
    }


def test_a_frame_that_was_taken_on_is_answered_again_and_not_delivered_twice(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    ref = camera.advertise()
    camera.publish(ref, sighting(), sequence=5)
    camera.publish(ref, sighting(), sequence=5)
    assert [message.sequence for message in camera.all_heard(Published)] == [5, 5]
    assert len(billing.events()) == 1


def test_a_frame_is_recognised_on_another_link_too(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    camera.publish(camera.advertise(), sighting(), sequence=5)
    camera.hang_up()
    again = net.client("camera at Victoria")
    again.publish(again.advertise(), sighting(), sequence=5)
    assert again.last(Published).sequence == 5
    assert len(billing.events()) == 1


def test_a_late_frame_does_not_break_the_order(net: Net) -> None:
    camera, again = net.client("camera at Victoria"), net.client("camera at Victoria")
    billing = net.client("billing office")
    billing.subscribe()
    first, second = camera.advertise(), again.advertise()
    camera.publish(first, sighting("SECOND"), sequence=2)
    again.publish(second, sighting("FIRST"), sequence=1)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["SECOND"]
    assert net.brokers["CCS broker"].counts["maia_late_frames_total"] == 1


def test_what_is_not_an_attribute_of_the_type_breaks_the_link(net: Net) -> None:
    camera = net.client("camera at Victoria")
    colour = attribute_uid("77")
    camera.publish(camera.advertise(), {colour: "red"}, kinds={colour: Kind.STRING})
    assert camera.bye == "PROTOCOL-COLUMNS"


def test_a_value_of_another_kind_breaks_the_link(net: Net) -> None:
    camera = net.client("camera at Victoria")
    camera.publish(camera.advertise(), {NUMBERPLATE: 5}, kinds={NUMBERPLATE: Kind.INT})
    assert camera.bye == "TYPE-TRANSIT-KIND"


def test_a_frame_with_too_many_rows_ends_its_advertisement() -> None:
    net = Net(limits=BrokerLimits(rows_per_frame=2))
    net.broker()
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, *[sighting()] * 2)
    camera.publish(ref, *[sighting()] * 3)
    assert camera.ended_with(ref) == "INPUT-FRAME-ROWS"
    assert not camera.closed


def test_an_unadvertised_reference_is_gone(net: Net) -> None:
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    ref = camera.advertise()
    camera.withdraw(ref)
    camera.publish(ref, sighting())
    assert camera.last(Ended) == Ended(
        [ref], "INPUT-UNKNOWN-REF", f"nothing is advertised under `{ref}` on this link"
    )
    assert billing.events() == []


def test_an_advertisement_that_is_not_renewed_ends(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    net.advance(61)
    assert camera.ended_with(ref) == "UNAVAILABLE-LEASE-ENDED"


def test_a_renewed_advertisement_goes_on_with_its_numbers(net: Net) -> None:
    camera = net.client("camera at Victoria")
    ref = camera.advertise()
    camera.publish(ref, sighting())
    camera.advertise(ref=ref)
    camera.publish(ref, sighting(), sequence=0)
    status = net.brokers["CCS broker"].broker.status(net.now)
    assert status["counters"]["maia_rows_published_total"] == 1  # type: ignore[index]  # a dictionary


def test_a_publication_without_columns_still_counts_its_rows(net: Net) -> None:
    camera, statistics = net.client("camera at Victoria"), net.client("statistics office")
    statistics.subscribe()
    camera.say(Publish(camera.advertise(), 0, int(NOW), 2, []))
    assert [set(event) for event in statistics.events()] == [{LOCATION}, {LOCATION}]


def test_an_advertisement_ends_where_what_is_left_of_its_right_is_to_write_another_type(net: Net) -> None:
    """Its frames would be read as events of the other type: by uid, and not as their publisher means them."""
    (*_, plain) = grant_to_publish(net, "statistics office")
    ends = Instant(NOW + 20 * 1_000_000)
    plain = issue(
        replace(plain.certificate, validity=replace(plain.certificate.validity, not_after=ends)),
        net.cast.keys["CCS"],
    )
    written = replace(net.cast.type_name, name="uk.gov.Sighting")
    rule = Rule(LOCATION, Take(NUMBERPLATE, Kind.STRING))
    step = Transformation(net.cast.principal("CCS"), (rule,), result=written)
    (*others, converting) = grant_to_publish(net, "statistics office", transformations=(step,))
    publisher = net.client("statistics office", credentials=(*others, converting, plain))
    ref = publisher.advertise()
    assert publisher.was_accepted(ref)
    net.advance(19)
    assert publisher.ended_with(ref) is None
    net.advance(2)
    assert publisher.ended_with(ref) == "REFUSED-RIGHT-CHANGED"


def test_a_broker_that_nobody_uses_any_more_is_gone_with_what_it_compiled() -> None:
    """In a process with many brokers, such as a simulation, each would stay with most of its memory."""

    def parts() -> int:
        gc.collect()
        return sum(type(one) is Authoriser for one in gc.get_objects())

    before, net = parts(), Net()
    net.broker()
    camera, statistics = net.client("camera at Victoria"), net.client("statistics office")
    statistics.subscribe()
    camera.publish(camera.advertise(), sighting())
    assert statistics.events()
    assert parts() == before + 1
    del net, camera, statistics
    assert parts() == before
