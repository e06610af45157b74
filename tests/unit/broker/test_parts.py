"""The small parts of a broker: timers, quotas, order, and what it keeps."""

from __future__ import annotations

import pytest

from maia.broker import BrokerSettings
from maia.broker.links.transit import StreamOrder
from maia.broker.persistence import KEPT_CERTIFICATES, KEPT_PUBLICATIONS
from maia.broker.refusals import TooManyRequests
from maia.broker.rights.known_types import KEPT_TYPE
from maia.broker.timers import CatchUp, TimerWheel
from maia.events import SECOND, Instant
from maia.sessions.admission import RequestQuota
from maia.testing.refusals import raises
from maia.wire.columns import NUMBERS_BEHIND_MAX
from maia.wire.effects import LinkId, Tick, WakeAt
from maia.wire.messages import Accepted
from support.numberplate import NOW, Net, sighting
from support.policy import PITO


def at(seconds: float) -> Instant:
    return Instant(NOW + int(seconds * SECOND))


# ------------------------------------------------------------ timers


def timer(number: int) -> CatchUp:
    return CatchUp(LinkId(number))


def test_timers_expire_in_the_order_of_their_moments() -> None:
    wheel = TimerWheel()
    for seconds in (3, 1, 2, 9):
        wheel.add(timer(seconds), at(seconds))
    assert wheel.lateness(at(3)) == 2 * SECOND
    assert list(wheel.expired(at(3))) == [timer(1), timer(2), timer(3)]
    assert list(wheel.expired(at(8.9))) == []
    assert timer(9) in wheel
    assert timer(1) not in wheel


def test_the_runtime_is_asked_for_a_moment_once() -> None:
    wheel = TimerWheel()
    assert wheel.promise_wake() is None
    wheel.add(timer(1), at(5))
    assert wheel.promise_wake() == at(5)
    assert wheel.promise_wake() is None
    wheel.add(timer(2), at(6))
    assert wheel.promise_wake() is None
    wheel.add(timer(3), at(2))
    assert wheel.promise_wake() == at(2)


def test_a_promise_that_was_kept_is_made_again() -> None:
    wheel = TimerWheel()
    wheel.add(timer(1), at(1))
    wheel.add(timer(2), at(4))
    wheel.promise_wake()
    assert list(wheel.expired(at(1))) == [timer(1)]
    assert wheel.promise_wake() == at(4)


def test_a_timer_that_was_reset_expires_at_its_new_moment_alone() -> None:
    wheel = TimerWheel()
    wheel.reset(timer(1), at(1))
    wheel.reset(timer(1), at(3))
    assert wheel.moment_of(timer(1)) == at(3)
    assert list(wheel.expired(at(2))) == []
    assert list(wheel.expired(at(3))) == [timer(1)]
    wheel.reset(timer(1), at(4))
    wheel.reset(timer(1), None)
    assert list(wheel.expired(at(9))) == []


def test_a_timer_expires_once_for_a_moment_however_often_it_is_added() -> None:
    wheel = TimerWheel()
    for seconds in (1, 1, 2):
        wheel.add(timer(1), at(seconds))
    assert len(wheel) == 2
    assert list(wheel.expired(at(5))) == [timer(1), timer(1)]


def test_a_timer_that_is_reset_by_the_one_before_it_does_not_expire() -> None:
    wheel = TimerWheel()
    wheel.add(timer(1), at(1))
    wheel.add(timer(2), at(1))
    expired = []
    for one in wheel.expired(at(1)):
        expired.append(one)
        wheel.reset(timer(2), at(9))
        wheel.add(timer(1), at(1))  # what is set meanwhile waits for the next time
    assert expired == [timer(1)]
    assert list(wheel.expired(at(1))) == [timer(1)]


# ------------------------------------------------------------ quotas


def test_a_quota_is_refilled_evenly() -> None:
    quota = RequestQuota(60)
    for _ in range(60):
        quota.spend(PITO.principal, NOW)
    with pytest.raises(TooManyRequests):
        quota.spend(PITO.principal, NOW)
    with pytest.raises(TooManyRequests):
        quota.spend(PITO.principal, at(0.9))
    quota.spend(PITO.principal, at(1))
    with pytest.raises(TooManyRequests):
        quota.spend(PITO.principal, at(1))


@pytest.mark.parametrize("per_minute", [1, 7, 59, 6000, 10**9])
def test_a_burst_of_the_whole_quota_passes(per_minute: int) -> None:
    quota = RequestQuota(per_minute)
    for _ in range(min(per_minute, 100)):
        quota.spend(PITO.principal, NOW)


def test_a_clock_that_steps_back_refills_nothing() -> None:
    """A78: time that did not pass is not credited, and none is taken away."""
    quota = RequestQuota(1)
    quota.spend(PITO.principal, NOW)
    for seconds in (-100, -100, -41):
        with pytest.raises(TooManyRequests):
            quota.spend(PITO.principal, at(seconds))
    quota.spend(PITO.principal, at(-40))


# ------------------------------------------------------------ order


def test_a_stream_goes_forward_only() -> None:
    order = StreamOrder(10)
    assert [order.admit(b"p", b"s", number) for number in (1, 1, 5, 4, 5, 6)] == [
        True,
        True,
        True,
        False,
        True,
        True,
    ]
    assert order.admit(b"p", b"another", 1)


def test_a_number_that_no_signature_proves_silences_a_bounded_part_of_its_stream() -> None:
    order = StreamOrder(10)
    assert order.admit(b"p", b"s", 2**62)
    assert not order.admit(b"p", b"s", 2**62 - NUMBERS_BEHIND_MAX)
    assert [order.admit(b"p", b"s", number) for number in (7, 6, 8)] == [True, False, True]


def test_a_signer_s_numbers_are_its_own_and_go_forward_only() -> None:
    order = StreamOrder(10)
    assert order.admit(b"p", b"s", 2**62, b"another")
    assert [order.admit(b"p", b"s", number, b"mine") for number in (2**40, 0, 2**40 + 1)] == [
        True,
        False,
        True,
    ]


# ------------------------------------------------------------ what is kept


def lived_a_while() -> Net:
    net = Net()
    net.broker()
    camera, billing = net.client("camera at Victoria"), net.client("billing office")
    billing.subscribe()
    camera.publish(camera.advertise(), sighting())
    net.advance(61)
    return net


def test_types_certificates_and_publications_are_kept() -> None:
    kept = lived_a_while().brokers["CCS broker"].kept
    assert {KEPT_CERTIFICATES, KEPT_PUBLICATIONS} <= kept.keys()
    assert sum(name.startswith(KEPT_TYPE) for name in kept) == 1


def test_a_type_is_known_again_after_a_restart() -> None:
    """C10: verified again, and then used without being handed over."""
    net = lived_a_while()
    net.restart("CCS broker")
    billing = net.client("billing office")
    billing.subscribe(definitions=[])
    assert billing.last(Accepted)


@pytest.mark.parametrize("flipped", [40, 200, -5])
def test_a_forged_definition_is_dropped_with_a_note(flipped: int) -> None:
    """C10, A81: one bit of what was kept."""
    net = lived_a_while()
    running = net.brokers["CCS broker"]
    (name,) = [name for name in running.kept if name.startswith(KEPT_TYPE)]
    data = bytearray(running.kept[name])
    data[flipped] ^= 1
    running.kept[name] = bytes(data)
    net.restart("CCS broker")
    assert running.noted("kept-dropped")
    assert name not in running.kept
    assert running.broker.status(net.now)["types"] == 0
    billing = net.client("billing office")
    assert billing.code_of(billing.subscribe(definitions=[])) == "TYPE-UNKNOWN"


@pytest.mark.parametrize("data", [b"", b"rubbish", b"\x91\xc4\x03abc"])
@pytest.mark.parametrize("name", [KEPT_CERTIFICATES, KEPT_PUBLICATIONS])
def test_rubbish_on_disk_is_dropped_with_a_note(name: str, data: bytes) -> None:
    """C10, A81: a broker starts without what it cannot read."""
    net = lived_a_while()
    running = net.brokers["CCS broker"]
    running.kept[name] = data
    net.restart("CCS broker")
    assert name in [fields["name"] for fields in running.noted("kept-dropped")]
    billing = net.client("billing office")
    assert billing.was_accepted(billing.subscribe())


def test_what_expired_on_disk_is_not_known_any_more() -> None:
    net = Net()
    net.broker()
    story = net.cast
    manager = net.client("billing office")
    manager.subscribe()
    running = net.brokers["CCS broker"]
    end = story.certificates[0].certificate.validity.not_after
    assert end is not None
    net.now = Instant(end + 1)
    net.restart("CCS broker")
    # The owner signed the definition itself, so it does not rest on certificates that end.
    assert running.broker.status(net.now)["types"] == 1


def test_a_handed_over_definition_is_kept_before_it_is_answered() -> None:
    net = Net()
    running = net.broker()
    billing = net.client("billing office")
    billing.subscribe()
    names = list(running.kept)
    assert any(name.startswith(KEPT_TYPE) for name in names)


# ------------------------------------------------------------ settings


@pytest.mark.parametrize(
    "changes", [{"lease_s": 0}, {"skew_s": -1}, {"verify_in_transit": -0.1}, {"address": ""}]
)
def test_settings_that_no_broker_can_keep_are_refused(changes: dict[str, object]) -> None:
    network = Net().cast.network
    with raises("INPUT-BROKER-SETTINGS"):
        BrokerSettings(**({"network": network, "address": "a:1", "credentials": ()} | changes))  # type: ignore[arg-type]  # by name


def test_settings_do_not_print_credentials() -> None:
    net = Net()
    settings = BrokerSettings(net.cast.network, "a:1", net.cast.certificates)
    assert "credentials" not in repr(settings)


def test_a_broker_that_was_woken_says_again_when_it_wants_to_be():
    """The runtime may have been told while an earlier moment was waiting, and remember one alone."""
    running = Net().broker()
    woken = [running.broker.handle(Tick(), NOW) for _ in range(2)]
    first, second = ([effect.at for effect in one if isinstance(effect, WakeAt)] for one in woken)
    assert first == second != []
