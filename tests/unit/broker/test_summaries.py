"""Summaries over periods of time at a broker: what is counted, when it is delivered, and to whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from maia.credentials import (
    Action,
    SigningKey,
    Transformation,
    TypeName,
    Validity,
    issue,
)
from maia.events import SECOND, AttributeUid, Instant, Kind, frame_of
from maia.expressions.summaries import Aggregate, Key, Measure, Summary
from maia.expressions.syntax import Take
from maia.policy.view_bytes import EVERYTHING, class_of
from maia.predicates import Comparison, Operator
from maia.testing import NetClient, grant, shown
from maia.types import definition_to_bytes, type_id
from maia.wire.columns import frame_to_columns
from maia.wire.messages import AskState, Deliver, Interest, Publish, Released, StateTold, Subscribe
from support.numberplate import LOCATION, NOW, NUMBERPLATE, Net, sighting

AREA, CARS, BEGAN = AttributeUid("1"), AttributeUid("2"), AttributeUid("3")
SUMMARY = Summary(
    60,
    (Key(AREA, Take(LOCATION, Kind.STRING)),),
    (Measure(CARS, Aggregate.COUNT), Measure(BEGAN, Aggregate.PERIOD_START)),
    at_least=2,
    late_s=10,
)
MINUTE = Instant(NOW - NOW % (60 * SECOND))


@pytest.fixture
def net() -> Net:
    net = Net(now=MINUTE, lease_s=1800)
    net.broker()
    net.advance(30)
    return net


def reader(net: Net, name: str = "public", *, ends: Instant | None = None, **changes: Any) -> NetClient:
    """Connect somebody who may see nothing but how many cars passed a place in a minute."""
    story, key = net.cast, SigningKey.from_seed(name.encode().ljust(32, b"."))
    type_name = story.type_name
    result = TypeName(type_name.owner, "Traffic", "0")
    summary = replace(SUMMARY, **changes.pop("summary", {}))
    step = Transformation(story.principal("CCS"), (), result=result, summary=summary)
    validity = story.certificates[0].certificate.validity
    validity = validity if ends is None else Validity(validity.not_before, ends)
    own = (
        story.connect_right(key.principal),
        grant(
            story.keys["CCS"], key, type_name, Action.SUBSCRIBE, transformations=(step,), validity=validity
        ),
    )
    certificates = (*story.certificates, *own)
    return net.client(name, key=key, credentials=certificates, **changes)


def camera_at(net: Net) -> tuple[NetClient, int]:
    camera = net.client("camera at Victoria")
    return camera, camera.advertise()


def cars(count: int) -> list[dict]:
    return [sighting(f"P{number}") for number in range(count)]


def minutes(client: NetClient) -> list[tuple[object, int]]:
    """Return how many cars were delivered, and of which minute since the test began."""
    return [(event[CARS], (event[BEGAN] - MINUTE) // (60 * SECOND)) for event in client.events()]


def test_a_period_is_delivered_once_it_is_closed_to_those_who_were_there_all_the_time(net: Net) -> None:
    early = reader(net, "early")
    early.subscribe()
    camera, ref = camera_at(net)
    camera.publish(ref, *cars(5))  # in a minute that had begun before
    net.advance(30)  # the first whole minute begins
    late = reader(net, "late")
    net.advance(1)
    late.subscribe()
    camera.publish(ref, *cars(3))
    camera.publish(ref, *cars(1))
    net.advance(59 + 9)
    assert early.events() == late.events() == []
    net.advance(1)  # ten seconds after its end
    assert early.events() == [{AREA: "Victoria", CARS: 4, BEGAN: Instant(MINUTE + 60 * SECOND)}]
    delivery = early.last(Deliver)
    assert delivery.publisher == net.brokers["CCS broker"].key.principal.key
    assert delivery.published_at == MINUTE + 120 * SECOND
    camera.publish(ref, *cars(2))
    net.advance(60)
    assert minutes(early) == [(4, 1), (2, 2)]
    # For the second it is the first whole minute; and nothing says that the camera published before.
    assert minutes(late) == [(2, 2)]


def test_a_summary_comes_over_a_border_once_though_another_reader_saw_everything_before(net: Net) -> None:
    net.broker("Met broker", seeds=["CCS broker"])
    public, whole = reader(net, at="Met broker"), net.client("CCS", at="Met broker")
    public.subscribe()
    ref = whole.subscribe()
    assert whole.was_accepted(ref)
    camera, offer = camera_at(net)
    net.advance(30)
    camera.publish(offer, *cars(3))
    assert len(whole.events()) == 3
    whole.withdraw(ref)
    net.advance(70)
    assert minutes(public) == [(3, 1)]


def test_a_summary_comes_over_a_border_though_its_publisher_has_left_and_comes_back(net: Net) -> None:
    """The rendezvous asks others only while they offer the type, and a summary is released later."""
    net.broker("Met broker", seeds=["CCS broker"])
    public = reader(net)
    public.subscribe()
    camera = net.client("camera at Victoria", "Met broker")
    net.advance(30)
    camera.publish(camera.advertise(), *cars(3))
    camera.hang_up()
    net.advance(69)
    assert public.events() == []
    net.advance(1)  # ten seconds into the next minute
    assert minutes(public) == [(3, 1)]
    net.connect(camera, "Met broker")
    net.settle()
    camera.publish(camera.advertise(), *cars(2))
    net.advance(60)
    assert minutes(public) == [(3, 1), (2, 2)]


def test_a_broker_that_offers_no_more_is_believed_about_the_summaries_that_it_owes(net: Net) -> None:
    """A67: about nothing else of the type, and no longer than until the last period is closed."""
    net.broker("Met broker", seeds=["CCS broker"])
    reader(net).subscribe()
    camera = net.client("camera at Victoria", "Met broker")
    camera.advertise()
    net.advance(30)
    camera.hang_up()
    net.advance(3)
    broker, name = net.brokers["CCS broker"].parts, net.cast.type_name
    (link,) = broker.routes.borders
    interests = [message for *_, message in net.carried if isinstance(message, Interest)]
    (summary,) = {class_of(wanted.view) for message in interests for wanted in message.add}

    def is_believed(view: bytes | None) -> bool:
        return broker.router.expects(broker.links[link], type_id(name.owner, name.name), net.now, view)

    assert [is_believed(view) for view in (summary, bytes(16), EVERYTHING, None)] == [True] + [False] * 3
    net.advance(70)
    assert not is_believed(summary)


def test_no_summary_crosses_a_border_once_its_subscriber_has_left(net: Net) -> None:
    net.broker("Met broker", seeds=["CCS broker"])
    public = reader(net, at="Met broker")
    ref = public.subscribe()
    camera, offer = camera_at(net)
    net.advance(30)
    camera.publish(offer, *cars(3))
    net.advance(50)
    public.withdraw(ref)
    net.advance(30)
    assert not any(isinstance(message, Released) for *_, message in net.carried)


def test_what_comes_too_late_or_too_early_or_alone_is_not_counted(net: Net) -> None:
    public = reader(net)
    public.subscribe()
    camera, ref = camera_at(net)
    net.advance(30)

    def published(at: Instant, count: int) -> None:
        frame = frame_of(cars(count), dict.fromkeys((NUMBERPLATE, LOCATION), Kind.STRING) | _moments())
        camera.say(Publish(ref, camera.next_sequence, int(at), frame.rows, frame_to_columns(frame)))
        camera.next_sequence += 1

    begun = net.now
    published(begun, 1)  # alone in its group
    net.advance(65)  # five seconds into the next minute
    published(Instant(begun + 59 * SECOND), 1)  # late, and in time
    net.advance(6)
    published(Instant(begun + 59 * SECOND), 7)  # too late
    published(Instant(begun + 600 * SECOND), 7)  # of a minute that has not begun
    published(net.now, 1)
    net.advance(120)
    assert minutes(public) == [(2, 1)]
    assert net.brokers["CCS broker"].counts["maia_summaries_left_out_total"] == 14


def _moments() -> dict[AttributeUid, Kind]:
    from support.numberplate import NUMBERPLATE_KINDS

    return {uid: kind for uid, kind in NUMBERPLATE_KINDS.items() if kind is Kind.TIMESTAMP}


def test_a_filter_is_asked_of_what_was_counted(net: Net) -> None:
    public = reader(net)
    many = public.subscribe(Comparison(CARS, Operator.GE, 3))
    refused = public.subscribe(Comparison(NUMBERPLATE, Operator.EQ, "P0"))
    assert public.code_of(refused) == "POLICY-ATTRIBUTE-NOT-READABLE"
    camera, ref = camera_at(net)
    net.advance(30)
    camera.publish(ref, *cars(2))
    net.advance(60)
    camera.publish(ref, *cars(3))
    net.advance(80)
    assert [(event[CARS]) for event in public.events(many)] == [3]


def test_nothing_is_delivered_of_a_period_in_which_the_right_ended_or_the_broker_restarted(net: Net) -> None:
    expiring = reader(net, "expiring", ends=Instant(MINUTE + 125 * SECOND))
    leaving, staying = reader(net, "leaving"), reader(net, "staying")
    for client in (expiring, staying):
        client.subscribe()
    left = leaving.subscribe()
    camera, ref = camera_at(net)
    net.advance(30)
    camera.publish(ref, *cars(2))
    net.advance(50)
    leaving.withdraw(left)
    net.advance(40)  # the period was closed at 130 s; the right ended before
    assert minutes(staying) == [(2, 1)]
    assert expiring.events() == leaving.events() == []
    net.restart("CCS broker")
    again = reader(net, "staying")
    again.subscribe()
    camera, ref = camera_at(net)
    camera.publish(ref, *cars(2))
    net.advance(120)
    assert again.events() == []  # the minute had begun before the restart
    camera.publish(ref, *cars(3))
    net.advance(120)
    assert len(minutes(again)) == 1


def test_a_summary_is_neither_kept_nor_a_state_and_counts_no_event_that_requires_something(net: Net) -> None:
    public = reader(net)
    data = public.request(Action.SUBSCRIBE)
    credentials = shown(public.credentials)
    public.say(Subscribe(7, data, credentials, [definition_to_bytes(net.cast.definition)], "nightly", None))
    assert public.code_of(7) == "REFUSED-SUMMARY-DURABLE"
    ref = public.subscribe()
    camera, published = camera_at(net)
    net.advance(30)
    camera.publish(published, *cars(2))
    public.say(AskState(8, ref))
    net.advance(5)
    assert public.events() == []
    assert public.all_heard(StateTold)
    from maia.credentials.requirements import parse_requirement, requirement_to_bytes

    wanted = requirement_to_bytes(parse_requirement("clearance >= 3"))
    frame = frame_of(cars(5), dict.fromkeys((NUMBERPLATE, LOCATION), Kind.STRING) | _moments())
    columns = frame_to_columns(frame)
    camera.say(Publish(published, camera.next_sequence, int(net.now), frame.rows, columns, wanted))
    net.advance(120)
    assert minutes(public) == [(2, 1)]


def test_what_summaries_remember_is_bounded_for_a_client_a_view_and_a_broker(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A74: publishers choose the values by which events are grouped."""
    monkeypatch.setattr("maia.views.open_periods.GROUPS_MAX", 3)
    by_plate = {"keys": (Key(AREA, Take(NUMBERPLATE, Kind.STRING)),), "at_least": 1}
    state = net.brokers["CCS broker"].parts
    state.audiences.room.most = 5
    first, second = reader(net, "first", summary=by_plate), reader(net, "second", summary=by_plate)
    first.subscribe()
    left = second.subscribe(Comparison(CARS, Operator.GE, 1))
    camera, ref = camera_at(net)
    net.advance(30)
    for number in range(9):
        camera.publish(ref, sighting(f"P{number}"), sighting("P0"))
        assert state.audiences.room.used <= 5
    assert state.audiences.room.used == 5
    second.withdraw(left)
    assert state.audiences.room.used == 3
    net.advance(80)
    assert state.audiences.room.used == 0
    assert [(event[AREA], event[CARS]) for event in first.events()] == [("P0", 10), ("P1", 1), ("P2", 1)]
    refs = [first.subscribe(Comparison(CARS, Operator.GE, least)) for least in range(1, 10)]
    assert first.code_of(refs[-1]) == "UNAVAILABLE-ENTRY-QUOTA"
    assert first.was_accepted(refs[5])


def test_a_plain_right_counts_more_than_a_summary(net: Net) -> None:
    """Who may see the events sees the events: a summary counts only if nothing else is there."""
    billing = net.client("billing office")
    public = reader(net)
    summarised = issue(
        replace(public.credentials[-1].certificate, subject=billing.principal), net.cast.keys["CCS"]
    )
    billing.subscribe(credentials=(*billing.credentials, summarised))
    camera, ref = camera_at(net)
    camera.publish(ref, *cars(1))
    assert len(billing.events()) == 1
