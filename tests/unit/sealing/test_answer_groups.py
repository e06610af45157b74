"""Who has the key of an answer: those who may read what it is about, and those who are restricted by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.credentials import (
    Action,
    SignedCertificate,
    SigningKey,
    Transformation,
    TypePattern,
    issue,
    parse_name_pattern,
)
from maia.events import AttributeUid, Kind
from maia.expressions.syntax import Call, Function, Rule, Take
from maia.policy.answers import ANSWER_PREFIX, Said, Shown, part_of
from maia.predicates import Predicate
from maia.predicates.syntax import Comparison, Operator
from maia.sealing.groups import manager
from maia.testing import grant as granted
from maia.types import SealingLevel
from support.key_groups import (
    OWNER,
    PLACE,
    PLATE,
    TERMS,
    TIME,
    TYPE_NAME,
    WRITE,
    KeyNet,
    Member,
    grant,
    key_of,
)

CENTRE = Comparison(PLACE, Operator.EQ, "centre")
STOLEN = Comparison(PLATE, Operator.EQ, "AE05 XYZ")


def restricted(
    who: str | SigningKey,
    restriction: Predicate,
    *uids: AttributeUid,
    by: SigningKey = OWNER,
    may_delegate: bool = False,
) -> SignedCertificate:
    """Let somebody read some attributes of the events that a restriction admits."""
    subject = (key_of(who) if isinstance(who, str) else who).principal
    shown = grant(subject).certificate
    return granted(
        by,
        subject,
        TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None),
        Action.SUBSCRIBE,
        attributes=frozenset(uids),
        restriction=restriction,
        may_delegate=may_delegate,
        validity=shown.validity,
    )


def answers(net: KeyNet, member: Member) -> dict[AttributeUid, Said]:
    """Return what a member was told of answers; it holds a key of each."""
    told = dict(net.ring(member).answers)
    assert all(uid.startswith(ANSWER_PREFIX) and net.holds(member, uid) for uid in told)
    assert {uid for uid in net.ring(member).readable if uid and uid.startswith(ANSWER_PREFIX)} == set(told)
    return told


def test_a_restricted_reader_and_those_who_read_everything_share_the_key_of_the_answer():
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    police = net.member("police", grant(key_of("police")))
    billing = net.member("billing", grant(key_of("billing"), [PLATE, TIME]))
    assert answers(net, camera) == {}
    city = net.member("city", restricted("city", CENTRE, PLATE))
    assert set(answers(net, city).values()) == {CENTRE}
    assert answers(net, camera) == answers(net, police) == answers(net, city)
    assert (
        answers(net, billing) == {}
    )  # it may not read the place, and would learn of each event where it was
    late = net.member("late", grant(key_of("late"), [PLACE], actions=WRITE))
    assert answers(net, late) == answers(net, city)


def test_a_restriction_on_what_its_holder_may_read_needs_no_answer():
    net = KeyNet()
    city = net.member("city", restricted("city", CENTRE, PLATE, PLACE))
    assert answers(net, city) == {}


def test_a_right_that_transforms_has_keys_of_what_it_shows_and_none_of_what_that_is_made_of():
    """X8: those who hold the right are a group, with the epochs, manager and revocation of the type."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    shortened = Rule(PLATE, Call(Function.FIRST, Take(PLATE, Kind.STRING), (2,)))
    step = Transformation(OWNER.principal, (shortened,), frozenset({PLATE, TIME}))
    right = granted(
        OWNER,
        key_of("city").principal,
        TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None),
        Action.SUBSCRIBE,
        restriction=CENTRE,
        transformations=(step,),
        validity=grant(key_of("city"), until=100).certificate.validity,
    )
    city = net.member("city", right)
    told = answers(net, city)
    assert {one.uid for one in told.values() if isinstance(one, Shown)} == {None, PLATE}
    assert net.holds(city, TIME)
    assert not net.holds(city, PLATE)
    assert not net.holds(city, PLACE)
    assert answers(net, camera) == told, "publishers' brokers make it"
    other = net.member("billing", grant(key_of("billing"), [PLATE, TIME]))
    assert answers(net, other) == {}, "it may not read the place, by which events are chosen"
    net.run(101)
    assert not any(net.holds(city, uid) for uid in told)
    assert all(net.holds(camera, uid) for uid in told)


def shortened(who: str, *, until: int = 1_000_000) -> SignedCertificate:
    """Let somebody read the beginnings of plates, and when they were seen, at one place."""
    rule = Rule(PLATE, Call(Function.FIRST, Take(PLATE, Kind.STRING), (2,)))
    return granted(
        OWNER,
        key_of(who).principal,
        TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None),
        Action.SUBSCRIBE,
        restriction=CENTRE,
        transformations=(Transformation(OWNER.principal, (rule,), frozenset({PLATE, TIME})),),
        validity=grant(key_of(who), until=until).certificate.validity,
    )


def test_a_right_that_transforms_whole_events_has_the_key_of_its_part_alone():
    """X8: not that of the events, in no epoch; those who have that make it, and have its key."""
    net = KeyNet(SealingLevel.EVENT, history=True)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    police = net.member("police", grant(key_of("police")))
    assert dict(net.ring(camera).answers) == {}
    first = net.epoch()
    city = net.member("city", shortened("city", until=100))
    told = net.ring(city).answers
    (part,) = {uid for uid in told if part_of(uid) == uid}
    assert {one.uid for one in told.values() if isinstance(one, Shown)} == {None, PLATE, TIME}
    assert net.ring(camera).answers == net.ring(police).answers == told
    assert net.epoch() > first, "what was published before is not for it"
    other = net.member("other", shortened("other"))
    assert net.ring(other).answers == told, "the same right is the same class"
    ring = net.ring(city)
    assert {group.uid for epoch in ring.epochs for group in ring.groups(epoch)} == {part}
    assert all(net.holds(one, part) for one in (camera, police, city, other))
    net.run(101)
    assert not net.holds(city, part)
    assert all(net.holds(one, part) for one in (camera, police, other))


def test_the_part_of_a_right_that_is_expected_is_made_before_its_holder_comes():
    net = KeyNet(SealingLevel.EVENT)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    right = shortened("city")
    net.expect("city", right)
    told = net.ring(camera).answers
    assert len(told) == 3
    net.restart_server()
    net.run(3 * TERMS.refresh_s)
    epoch = net.epoch()
    assert net.ring(net.member("city", right)).answers == told
    assert net.epoch() == epoch, "its right is older than the keys that are in use"


def test_the_name_of_an_answer_stays_and_cannot_be_found_by_trying():
    net, other = KeyNet(), KeyNet(seed=b"others")
    city = net.member("city", restricted("city", CENTRE, PLATE))
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    before = answers(net, city)
    net.restart_server()
    net.restart_member(camera)
    assert (
        answers(net, camera) == before
    )  # whoever comes first after a restart: nothing falls silent meanwhile
    net.restart_member(city)
    assert answers(net, city) == before
    assert other.event_type.type_id == net.type_id  # the same manager's key: the same name
    twin = other.member("city", restricted("city", CENTRE, PLATE))
    assert answers(other, twin) == before


def test_the_key_of_an_answer_goes_with_the_right():
    net = KeyNet(history=True)
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    ends = restricted("city", CENTRE, PLATE).certificate
    until = replace(ends, validity=grant(key_of("city"), until=100).certificate.validity)
    city = net.member("city", issue(until, OWNER))
    (uid,) = answers(net, city)
    net.run(101)
    assert not net.holds(city, uid)
    assert net.holds(camera, uid)


def test_a_holder_asks_nothing_about_attributes_that_it_may_not_read():
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    institute = restricted("institute", CENTRE, PLACE, TIME, may_delegate=True)
    spy = restricted("spy", STOLEN, TIME, by=key_of("institute"))
    asking = net.member("spy", institute, spy)
    assert answers(net, asking) == {}
    # Nothing is answered that would read the plate, a restriction at a time (A104).
    assert answers(net, camera) == {}
    honest = restricted("honest", CENTRE, TIME, by=key_of("institute"))
    assert set(answers(net, net.member("honest", institute, honest)).values()) == {CENTRE}


def test_what_is_published_before_a_reader_comes_is_answered_from_when_its_right_is_known():
    """X8: a member that is added opens a table for the first time much later."""
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.run(50)
    right = restricted("city", CENTRE, PLATE)
    net.expect("city", right)
    told = answers(net, camera)
    assert set(told.values()) == {CENTRE}, "publishers answer, though the reader has not come"
    net.restart_server()
    net.run(3 * TERMS.refresh_s)
    net.restart_server()
    assert answers(net, camera) == told, "for as long as the right lasts"
    epoch = net.epoch()
    assert answers(net, net.member("city", right)) == told
    assert net.epoch() == epoch, "its right is older than the keys that are in use"


def test_no_more_is_answered_for_a_right_that_was_expected_and_has_ended():
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    ends = restricted("city", CENTRE, PLATE).certificate
    until = replace(ends, validity=grant(key_of("city"), until=100).certificate.validity)
    net.expect("city", issue(until, OWNER))
    assert set(answers(net, camera).values()) == {CENTRE}
    net.run(101)
    net.restart_server()
    net.restart_member(camera)
    assert answers(net, camera) == {}


def test_those_who_are_here_come_before_those_who_are_expected(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manager, "ANSWERS_MAX", 1)
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    net.expect("city", restricted("city", CENTRE, PLATE))
    assert set(answers(net, camera).values()) == {CENTRE}
    here = Comparison(PLACE, Operator.EQ, "harbour")
    harbour = net.member("harbour", restricted("harbour", here, PLATE))
    assert answers(net, harbour) == {}
    net.run(TERMS.refresh_s)
    net.restart_member(harbour)
    assert set(answers(net, harbour).values()) == {here}


def test_answers_have_a_limit_and_make_room_for_others(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manager, "ANSWERS_MAX", 2)
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    places = [Comparison(PLACE, Operator.EQ, str(number)) for number in range(3)]
    readers = [
        net.member(f"reader {number}", restricted(f"reader {number}", said, PLATE))
        for number, said in enumerate(places)
    ]
    assert len(answers(net, camera)) == 2
    assert answers(net, readers[-1]) == {}  # its broker warns of that
    net.leave(readers[0])
    net.run(2 * TERMS.refresh_s)
    net.restart_member(readers[-1])
    assert set(answers(net, readers[-1]).values()) == {places[-1]}


def test_who_may_pass_a_right_on_takes_no_more_than_its_share_of_the_answers(monkeypatch: pytest.MonkeyPatch):
    """By members of its own making, each restricted in another way, one holder had them all."""
    monkeypatch.setattr(manager, "ANSWERS_MAX", 4)
    net = KeyNet()
    camera = net.member("camera", grant(key_of("camera"), actions=WRITE))
    passed_on = granted(
        OWNER, key_of("city").principal, TypePattern(OWNER.principal, parse_name_pattern(TYPE_NAME), None),
        Action.SUBSCRIBE, may_delegate=True,
    )  # fmt: skip
    beside = grant(key_of("police"))  # of somebody else: it counts for nothing
    for number in range(5):
        said = Comparison(PLACE, Operator.EQ, str(number))
        own = restricted(f"member {number}", said, PLATE, by=key_of("city"))
        net.member(f"member {number}", passed_on, own, beside)
    assert len(answers(net, camera)) == 3
    other = net.member("other", restricted("other", CENTRE, PLATE))
    assert set(answers(net, other).values()) == {CENTRE}
    assert len(answers(net, camera)) == 4
