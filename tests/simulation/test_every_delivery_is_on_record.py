"""X5: what a client receives is in the ledger of its broker, with the certificates, and nothing else is."""

from __future__ import annotations

from collections import Counter

import pytest

from maia.broker.settings import LedgerSettings, RecordingSettings
from maia.client import Delivered
from maia.ledger.records import LedgerReader, from_ranges, records_from_bytes
from maia.policy import see
from maia.testing.simulation import Trouble, Troublemaker
from maia.wire.columns import frame_label
from support.city import City
from support.seeds import with_seeds

ALL_TYPES = LedgerSettings(of_all_types=True)


def received_in(city: City) -> Counter:
    """Count what offices receive from now on, by what a ledger says of it."""
    received: Counter = Counter()

    def watch(office):
        check = office.client.on_notice

        def on_notice(notice):
            check(notice)
            if isinstance(notice, Delivered):
                whom = city.key(office.name).principal.key, notice.publisher.key
                for event in notice.frame.events():
                    shown = frozenset(uid for uid, value in event.items() if value is not None)
                    received[(*whom, notice.label, shown)] += 1

        office.client.on_notice = on_notice

    for office in city.offices:
        watch(office)
    return received


def on_record(city: City) -> Counter:
    found: Counter = Counter()
    for name in city.brokers:
        reader = LedgerReader()
        for entry in city.network.host(name).ledger:
            for one in reader.read(records_from_bytes(entry)):
                shown, label = frozenset(one.attributes), frame_label(one.publisher, one.stream, one.sequence)
                found[(one.recipient, one.publisher, label, shown)] += sum(1 for _ in from_ranges(one.ranges))
                assert one.certificates, "a delivery is on record without the certificates behind it"
    return found


@with_seeds(2)
def test_in_peace_the_ledger_has_exactly_what_was_received(seed):
    city = City(seed, ledger=ALL_TYPES, recording=RecordingSettings())
    city.populate()
    received = received_in(city)
    city.settle()
    for _ in range(6):
        for camera in city.cameras:
            city.sees(camera, city.chance.randint(1, 9))
        city.network.run_for(1)
    city.network.run_for(5)
    assert received.total() > 40
    assert on_record(city) == received


@pytest.mark.parametrize("asked", [{"durable": "nightly"}, {"state": True}], ids=["durable", "state"])
def test_what_comes_from_the_log_or_as_the_current_state_is_on_record_too(asked):
    city = City(7, brokers=1, ledger=ALL_TYPES, recording=RecordingSettings())
    camera, office = city.camera("camera", "Victoria"), city.office("archive")
    city.settle()
    office.client.on_notice = lambda _notice: None  # the same events come twice, by two subscriptions
    received = received_in(city)
    # A second subscription of the same office: kept for it from now on, or with the last publication.
    if "durable" in asked:
        office.client.subscribe(city.known, **asked)
        city.network.run_for(1)
    city.sees(camera, 4)
    city.network.run_for(2)
    if "state" in asked:
        office.client.subscribe(city.known, **asked)
    city.network.run_for(5)
    assert received.total() == 8
    assert on_record(city) == received


@with_seeds(3)
def test_in_trouble_nothing_is_received_that_is_not_on_record(seed):
    city = City(seed, ledger=ALL_TYPES)
    city.populate()
    received = received_in(city)
    city.settle()
    maker = Troublemaker(city.network, city.brokers, Trouble())
    maker.begin()
    for _ in range(40):
        for camera in city.cameras:
            city.sees(camera, 3)
        city.network.run_for(2)
    maker.end()
    city.network.run_for(60)
    recorded = on_record(city)
    assert received.total() > 100
    assert not received - recorded, "delivered without a record"
    # What is on record beside that was on its way when something broke; it is of events that exist.
    by_name = {city.key(office.name).principal.key: office for office in city.offices}
    for recipient, *_frame, shown in recorded:
        view = by_name[recipient].view
        views = (see(view, event) for _camera, event in city.events.values())
        assert any(seen is not None and frozenset(seen) == shown for seen in views)


def test_a_broker_without_a_ledger_puts_nothing_on_record():
    city = City(7)
    city.populate()
    received = received_in(city)
    city.settle()
    city.sees(city.cameras[0], 5)
    city.network.run_for(5)
    assert received
    assert not on_record(city)
