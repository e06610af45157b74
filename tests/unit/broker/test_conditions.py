"""E7: conditions in certificates are asked at the edge: time, rate, address, and what is said of somebody."""

from __future__ import annotations

import pytest

from maia.credentials import (
    Action,
    AuthorisationCertificate,
    FactList,
    SignedCertificate,
    sign_statement,
    statement_to_bytes,
)
from maia.credentials.statements import period_from
from maia.events import SECOND, Instant
from maia.policy.facts import during
from maia.predicates import Predicate, parse_predicate
from maia.testing import NetClient
from maia.wire.messages import Published, Show
from support.numberplate import NOW, NUMBERPLATE, Net, sighting

NOT_MET = "POLICY-CONDITION-NOT-MET"
SUNDAY_SHIFT = during("Europe/London", days=frozenset({7}), start=9 * 60, end=13 * 60)  # NOW is Sunday, noon


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def granted(net: Net, who: str, action: Action, condition: str | Predicate) -> tuple[SignedCertificate, ...]:
    """Let CCS grant all of the type to somebody, under a condition, and nothing else of it."""
    story = net.cast
    name = story.type_name
    said = parse_predicate(condition) if isinstance(condition, str) else condition
    mine = [one for one in story.certificates if one.certificate.subject != story.principal(who)]
    connect = [one for one in story.certificates if is_to_connect(one, story.principal(who))]
    return (*mine, *connect, story.grant("CCS", who, name, action, condition=said))


def is_to_connect(signed: SignedCertificate, who: object) -> bool:
    certificate = signed.certificate
    is_grant = isinstance(certificate, AuthorisationCertificate) and certificate.subject == who
    return is_grant and Action.CONNECT in certificate.authority.actions


def office(net: Net, condition: str | Predicate, **named: object) -> NetClient:
    credentials = granted(net, "billing office", Action.SUBSCRIBE, condition)
    return net.client("billing office", credentials=credentials, **named)


# ------------------------------------------------------------ the time


def test_a_subscription_lives_as_long_as_the_shift(net: Net) -> None:
    camera, clerk = net.client("camera at Victoria"), office(net, SUNDAY_SHIFT)
    published, ref = camera.advertise(), clerk.subscribe()
    camera.publish(published, sighting("noon"))
    until = Instant.parse("2026-11-15T13:00:00Z")
    for _ in range(125):
        net.advance(min(30, (until - 1 - net.now) / SECOND))
        clerk.subscribe(ref=ref)
        camera.advertise(ref=published)
    camera.publish(published, sighting("a moment before one"))
    assert clerk.ended_with(ref) is None
    net.advance(0.001)
    assert clerk.ended_with(ref) == NOT_MET
    camera.publish(published, sighting("after one"))
    assert [event[NUMBERPLATE] for event in clerk.events()] == ["noon", "a moment before one"]
    assert clerk.code_of(clerk.subscribe()) == NOT_MET


def test_outside_its_hours_a_certificate_opens_nothing(net: Net) -> None:
    clerk = office(net, during("Europe/London", days=frozenset({1}), start=0, end=1440))
    assert clerk.code_of(clerk.subscribe()) == NOT_MET


# ------------------------------------------------------------ the rate


def test_a_publisher_within_its_rate_is_heard_and_one_beyond_it_is_told(net: Net) -> None:
    credentials = granted(net, "statistics office", Action.PUBLISH, "rate-minute <= 3")
    counter, billing = net.client("statistics office", credentials=credentials), net.client("billing office")
    billing.subscribe()
    ref = counter.advertise()
    counter.publish(ref, sighting("1"), sighting("2"))
    counter.publish(ref, sighting("3"), sighting("4"))
    assert counter.last(Published) == Published(ref, 1, 2)
    counter.publish(ref, sighting("3"))
    assert counter.last(Published) == Published(ref, 2, 0)
    assert [event[NUMBERPLATE] for event in billing.events()] == ["1", "2", "3"]


def test_a_minute_later_there_is_room_again(net: Net) -> None:
    credentials = granted(net, "statistics office", Action.PUBLISH, "rate-minute <= 1")
    counter = net.client("statistics office", credentials=credentials)
    ref = counter.advertise()
    counter.publish(ref, sighting("1"))
    counter.publish(ref, sighting("2"))
    assert counter.last(Published).refused_rows == 1
    net.advance(40)
    counter.advertise(ref=ref)
    net.advance(19.9)
    counter.publish(ref, sighting("3"))
    assert counter.last(Published).refused_rows == 1
    net.advance(0.2)
    counter.publish(ref, sighting("4"))
    assert counter.last(Published).refused_rows == 0


def test_a_rate_is_that_of_one_principal_over_all_its_connections(net: Net) -> None:
    credentials = granted(net, "statistics office", Action.PUBLISH, "rate-minute <= 1")
    one = net.client("statistics office", credentials=credentials)
    other = net.client("statistics office", credentials=credentials)
    other.stream = b"another stream.."
    one.publish(one.advertise(), sighting("1"))
    other.publish(other.advertise(), sighting("2"))
    assert other.last(Published).refused_rows == 1


def test_the_rate_of_a_second_is_kept_apart(net: Net) -> None:
    credentials = granted(net, "statistics office", Action.PUBLISH, "rate-second <= 1 and rate-minute <= 2")
    counter = net.client("statistics office", credentials=credentials)
    ref, refused = counter.advertise(), []
    for wait in (0, 0.5, 0.7, 1.2):
        net.advance(wait)
        counter.publish(ref, sighting())
        refused.append(counter.last(Published).refused_rows)
    assert refused == [0, 1, 0, 1]


# ------------------------------------------------------------ the connection


@pytest.mark.parametrize(("remote", "code"), [("10.1.2.3", None), ("192.0.2.1", NOT_MET), (None, NOT_MET)])
def test_a_certificate_can_be_for_certain_addresses(net: Net, remote: str | None, code: str | None) -> None:
    clerk = office(net, 'prefix(client-address, "10.1.")', remote=remote)
    assert clerk.code_of(clerk.subscribe()) == code


# ------------------------------------------------------------ what is said of somebody


def duty(
    net: Net, number: int, *, seconds: int = 60, on: bool | None = True, by: str = "CCS", ahead: int = 0
) -> bytes:
    """Return the owner's word on who is on duty, from now on, by a clock that may be ahead."""
    start = Instant(net.now - net.now % SECOND + ahead)
    period = period_from(start, microseconds=seconds * SECOND)
    facts = {} if on is None else {(net.cast.principal("billing office"), "on-duty"): on}
    key = net.cast.keys[by]
    return statement_to_bytes(sign_statement(FactList(key.principal, number, period, facts), key))


def test_somebody_on_duty_sees_and_nobody_else_does(net: Net) -> None:
    clerk = office(net, "on-duty = true")
    assert clerk.code_of(clerk.subscribe()) == NOT_MET
    clerk.say(Show(99, [], [duty(net, 1)]))
    assert clerk.was_accepted(clerk.subscribe())


def test_who_goes_off_duty_is_told_at_once(net: Net) -> None:
    camera, clerk = net.client("camera at Victoria"), office(net, "on-duty = true")
    assert clerk.code_of(clerk.subscribe()) == NOT_MET  # from now on, its owner is listened to
    clerk.say(Show(99, [], [duty(net, 1)]))
    ref, published = clerk.subscribe(), camera.advertise()
    camera.publish(published, sighting("on duty"))
    clerk.say(Show(100, [], [duty(net, 2, on=False)]))
    assert clerk.ended_with(ref) == NOT_MET
    camera.publish(published, sighting("off duty"))
    assert [event[NUMBERPLATE] for event in clerk.events()] == ["on duty"]


@pytest.mark.parametrize("ahead", [0, 1, SECOND, 5 * SECOND])
def test_who_is_on_the_list_no_more_is_off_duty_at_once(net: Net, ahead: int) -> None:
    """S17: also where the clock of whoever says so is ahead of the broker's."""
    camera, clerk = net.client("camera at Victoria"), office(net, "on-duty = true")
    assert clerk.code_of(clerk.subscribe()) == NOT_MET
    clerk.say(Show(99, [], [duty(net, 1)]))
    net.advance(7)
    ref, published = clerk.subscribe(), camera.advertise()
    clerk.say(Show(100, [], [duty(net, 2, on=None, ahead=ahead)]))
    assert clerk.ended_with(ref) == NOT_MET
    camera.publish(published, sighting("off duty"))
    clerk.say(Show(101, [], [duty(net, 1)]))  # the old word, once more
    assert clerk.code_of(clerk.subscribe()) == NOT_MET
    assert clerk.events() == []


def test_a_word_that_is_not_repeated_holds_to_its_last_moment(net: Net) -> None:
    """S17: whoever blocks the next word keeps nobody on duty."""
    clerk = office(net, "on-duty = true")
    clerk.subscribe()
    clerk.say(Show(99, [], [duty(net, 1, seconds=30)]))
    ref = clerk.subscribe()
    net.advance(29.999)
    assert clerk.ended_with(ref) is None
    net.advance(0.002)
    assert clerk.ended_with(ref) == NOT_MET


def test_nobody_else_says_who_is_on_duty(net: Net) -> None:
    """A14: a fact counts for the certificates of whoever says it, and for no others."""
    clerk = office(net, "on-duty = true")
    clerk.subscribe()
    clerk.say(Show(99, [], [duty(net, 1, by="Met")]))
    assert clerk.code_of(clerk.subscribe()) == NOT_MET
    assert net.now >= NOW
