"""A right that must be vouched for anew for each request: who is asked, what waits, how long it stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.broker import BrokerLimits
from maia.credentials import Action, SignedCertificate, TestKind, issue
from maia.policy import Request, request_digest
from maia.predicates import ALWAYS, Comparison, Operator, parse_predicate
from maia.testing import Issuer, NetClient, answers_to, questions_of, shown
from maia.types import verify_definition
from maia.wire.messages import (
    AskState,
    Challenge,
    Changed,
    Ended,
    Interest,
    Published,
    Show,
    Vouched,
    Welcome,
)
from support.numberplate import CAMERA, LOCATION, NUMBERPLATE, RECORDING, TIMESTAMP, Net, sighting
from support.one_time import BILLING, Story, once, pool_with, vouch

LEASE_S = 60


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def waiting(net: Net, name: str = "CCS broker") -> dict[str, int]:
    return net.brokers[name].broker.status(net.now)["one_time"]


# ------------------------------------------------------------ asking


def test_the_question_names_the_certificate_its_tester_and_the_request(net: Net) -> None:
    story = Story(net, answers=False)
    challenge = story.billing.last(Challenge)
    assert challenge.ref == story.ref
    (question,) = questions_of(challenge)
    version = verify_definition(net.cast.definition, at=net.now)
    asked = Request(story.billing.principal, Action.SUBSCRIBE, version.name, version, ALWAYS)
    assert question.certificate == story.right.id
    assert question.by == net.cast.principal("CCS")
    assert question.request == request_digest(asked)


def test_two_questions_never_share_a_number(net: Net) -> None:
    story = Story(net)
    for _ in range(3):
        story.billing.subscribe()
        vouch(story.billing)
    nonces = [one.nonce for asked in story.billing.all_heard(Challenge) for one in questions_of(asked)]
    assert len(nonces) == len(set(nonces)) == 4


def test_a_publisher_is_vouched_for_too(net: Net) -> None:
    right = once(net, CAMERA, Action.PUBLISH)
    camera = net.client(CAMERA, credentials=pool_with(net, right, who=CAMERA))
    ref = camera.advertise()
    assert not camera.was_accepted(ref)
    vouch(camera)
    assert camera.was_accepted(ref)
    office = net.client("statistics office")
    office.subscribe()
    camera.publish(ref, sighting())
    assert len(office.events()) == 1


def test_nobody_is_asked_about_what_leads_to_no_permit(net: Net) -> None:
    """A30: a certificate for something else, or one that is over anyway, opens no question."""
    elsewhere = once(net, "Detective Smith")
    unreadable = Comparison(LOCATION, Operator.EQ, "Victoria")
    office = net.client(BILLING, credentials=pool_with(net, elsewhere))
    other = office.subscribe()
    assert office.code_of(other) == "POLICY-NO-CHAIN"
    story = Story(net, answers=False)
    hidden = story.billing.subscribe(unreadable)
    assert story.billing.code_of(hidden) == "POLICY-ONE-TIME"
    assert len(story.billing.all_heard(Challenge)) == 1
    assert waiting(net) == {"waiting": 1, "questions": 1}


def test_nobody_is_asked_about_what_was_revoked(net: Net) -> None:
    issuer = Issuer(net, "CCS")
    right = once(net)
    issuer.revoke(right)
    billing = net.client(BILLING, credentials=pool_with(net, right))
    ref = billing.subscribe()
    assert billing.code_of(ref) == "POLICY-REVOKED"
    assert not billing.all_heard(Challenge)


def test_nobody_is_asked_where_the_same_is_permitted_anyway(net: Net) -> None:
    plain = once(net, test=None)
    billing = net.client(BILLING, credentials=pool_with(net, plain, once(net)))
    ref = billing.subscribe()
    assert billing.was_accepted(ref)
    assert not billing.all_heard(Challenge)


def test_who_must_be_vouched_for_to_see_more_sees_less_without(net: Net) -> None:
    plain = once(net, test=None)
    more = once(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}))
    camera = net.client(CAMERA)
    offer = camera.advertise()
    seen = []
    for answer in (vouch, NetClient.refuse):
        billing = net.client(BILLING, credentials=pool_with(net, plain, more))
        ref = billing.subscribe()
        assert not billing.was_accepted(ref)
        answer(billing)
        assert billing.was_accepted(ref)
        camera.publish(offer, sighting())
        seen.append(billing.events()[0].get(LOCATION) is not None)
        billing.hang_up()
    assert seen == [True, False]


def test_both_tests_of_a_certificate_are_made(net: Net) -> None:
    """A timed list that is missing is waited for first; only then is anybody asked."""
    issuer = Issuer(net, "CCS")
    right = once(net)
    both = right.certificate.validity.with_tests(
        *right.certificate.validity.tests,
        *once(net, test=TestKind.TIMED_CRL).certificate.validity.tests,
    )
    right = issue(replace(right.certificate, validity=both), net.cast.keys["CCS"])
    billing = net.client(BILLING, credentials=pool_with(net, right))
    early = billing.subscribe()
    assert billing.code_of(early) == "UNAVAILABLE-STATEMENT-AWAITED"
    assert not billing.all_heard(Challenge)
    issuer.vouch(3600)
    ref = billing.subscribe()
    vouch(billing)
    assert billing.was_accepted(ref)


# ------------------------------------------------------------ answers that do not come


def test_a_client_that_comes_back_without_answers_is_refused_at_once(net: Net) -> None:
    story = Story(net, answers=False)
    story.billing.refuse()
    assert story.billing.code_of(story.ref) == "REFUSED-NOT-VOUCHED-FOR"
    assert waiting(net) == {"waiting": 0, "questions": 0}
    assert not story.billing.closed


def test_silence_is_a_refusal_when_the_time_is_over(net: Net) -> None:
    story = Story(net, answers=False)
    net.advance(19)
    assert story.billing.code_of(story.ref) is None
    net.advance(2)
    assert story.billing.code_of(story.ref) == "UNAVAILABLE-NOT-VOUCHED-FOR"
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_a_request_under_the_same_reference_takes_the_place_of_the_one_that_waits(net: Net) -> None:
    story = Story(net, answers=False)
    first = story.billing.last(Challenge)
    story.billing.subscribe(ref=story.ref)
    assert waiting(net) == {"waiting": 1, "questions": 1}
    vouch(story.billing, challenge=first)
    assert not story.billing.was_accepted(story.ref)
    vouch(story.billing)
    assert story.billing.was_accepted(story.ref)


def test_what_is_withdrawn_while_it_waits_is_never_accepted(net: Net) -> None:
    story = Story(net, answers=False)
    story.billing.withdraw(story.ref)
    assert waiting(net)["waiting"] == 0
    vouch(story.billing)
    assert not story.billing.was_accepted(story.ref)
    assert story.sees() == 0


def test_a_link_takes_what_waits_on_it_along(net: Net) -> None:
    story = Story(net, answers=False)
    story.billing.hang_up()
    assert waiting(net) == {"waiting": 0, "questions": 0}


# ------------------------------------------------------------ what stands on an answer


def test_what_stands_is_vouched_for_anew_within_each_lease(net: Net) -> None:
    story = Story(net)
    story.time_passes(5 * LEASE_S)
    assert story.sees() == 1
    asked = story.billing.all_heard(Challenge)
    assert 8 <= len(asked) <= 11
    assert not story.billing.all_heard(Ended)
    assert not story.billing.all_heard(Changed)


def test_what_stands_is_asked_about_when_a_request_in_its_place_has_failed(net: Net) -> None:
    story = Story(net)
    net.advance(LEASE_S / 2 - 5)
    story.billing.subscribe(ref=story.ref)
    net.advance(10)  # what stands is to be vouched for by now, and its reference waits for the request
    asked = len(story.billing.all_heard(Challenge))
    story.billing.refuse()
    assert story.billing.code_of(story.ref) == "REFUSED-NOT-VOUCHED-FOR"
    assert len(story.billing.all_heard(Challenge)) == asked + 1
    vouch(story.billing)
    story.time_passes(LEASE_S)
    assert not story.billing.all_heard(Ended)
    assert story.sees() == 1


def test_a_revocation_falls_at_once_whatever_was_answered(net: Net) -> None:
    """A35: the issuer's list needs no question."""
    issuer = Issuer(net, "CCS")
    story = Story(net)
    issuer.revoke(story.right)
    assert story.billing.ended_with(story.ref) == "POLICY-REVOKED"
    assert story.sees() == 0


def test_what_falls_beside_it_narrows_at_once_and_the_rest_is_asked_about_anew(net: Net) -> None:
    """A35: the answers keep what is left standing, until fresh ones come for it, or do not."""
    issuer = Issuer(net, "CCS")
    somewhere = Comparison(LOCATION, Operator.EQ, "Victoria")
    wide = once(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}), restriction=somewhere)
    story = Story(net, answers=False)
    billing = net.client(BILLING, credentials=pool_with(net, wide, story.right))
    ref = billing.subscribe()
    assert len(questions_of(billing.last(Challenge))) == 2
    vouch(billing)
    story.camera.publish(story.offer, sighting())
    assert billing.take_events()[0].get(LOCATION) == "Victoria"
    issuer.revoke(wide)
    assert billing.last(Changed).ref == ref
    story.camera.publish(story.offer, sighting())
    assert billing.take_events()[0].get(LOCATION) is None
    (question,) = questions_of(billing.last(Challenge))
    assert question.certificate == story.right.id
    billing.refuse()
    assert billing.ended_with(ref) == "REFUSED-NOT-VOUCHED-FOR"


def test_more_certificates_shown_are_no_use_before_a_fresh_answer(net: Net) -> None:
    """What was vouched for, was for what it was asked for; to see more, it is asked again."""
    story = Story(net)
    more = once(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}))
    story.billing.say(Show(900, shown([more]), []))
    assert story.billing.was_accepted(900)
    story.camera.publish(story.offer, sighting())
    assert story.billing.take_events()[0].get(LOCATION) is None
    assert [one.certificate for one in questions_of(story.billing.last(Challenge))] == [more.id]
    vouch(story.billing)
    assert story.billing.last(Changed).ref == story.ref
    story.camera.publish(story.offer, sighting())
    assert story.billing.take_events()[0].get(LOCATION) is not None


def test_an_answer_that_served_lets_no_other_certificate_widen_what_stands(net: Net) -> None:
    """The vouched one is half of a chain; another half that is shown later needs a fresh answer."""
    story, smith = net.cast, "Detective Smith"
    may = once(net, smith, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}))
    to_smith = issue(replace(may.certificate, may_delegate=True), story.keys["CCS"])
    little = replace(once(net, test=None, attributes=frozenset({NUMBERPLATE})).certificate)
    passed_on = [
        issue(
            replace(
                little,
                issuer=story.principal(smith),
                authority=replace(little.authority, attributes=frozenset(attributes)),
            ),
            story.keys[smith],
        )
        for attributes in ({NUMBERPLATE}, {NUMBERPLATE, LOCATION})
    ]
    camera = net.client(CAMERA)
    offer = camera.advertise()
    billing = net.client(BILLING, credentials=pool_with(net, to_smith, passed_on[0]))
    ref = billing.subscribe()
    vouch(billing)
    assert billing.was_accepted(ref)
    billing.say(Show(900, shown(passed_on[1:]), []))
    camera.publish(offer, sighting())
    assert billing.take_events()[0].get(LOCATION) is None
    vouch(billing)
    camera.publish(offer, sighting())
    assert billing.take_events()[0].get(LOCATION) == "Victoria"


def test_after_a_restart_everything_is_asked_anew(net: Net) -> None:
    """A82: nothing of an answer outlives the broker that asked."""
    story = Story(net)
    answered = answers_to(story.billing.last(Challenge), net.cast.keys["CCS"])
    net.restart("CCS broker")
    billing = net.client(BILLING, credentials=story.pool)
    ref = billing.subscribe()
    assert not billing.was_accepted(ref)
    billing.refuse(answered)
    assert billing.code_of(ref) == "REFUSED-NOT-VOUCHED-FOR"


def test_other_brokers_carry_what_the_edge_has_had_vouched_for(net: Net) -> None:
    net.broker("PITO broker", seeds=["CCS broker"])
    story = Story(net, at="PITO broker", answers=False)
    assert not [one for _, _, one in net.carried if isinstance(one, Interest) and one.add]
    vouch(story.billing)
    net.advance(1)
    assert story.sees() == 1
    story.billing.refuse([])  # of a challenge that is over: nothing happens
    assert story.sees() == 1


def test_the_last_word_of_a_vouched_publisher_is_told_while_it_stands(net: Net) -> None:
    right = once(net, CAMERA, Action.PUBLISH)
    camera = net.client(CAMERA, credentials=pool_with(net, right, who=CAMERA))
    asked = camera.request(Action.PUBLISH)
    ref = camera.advertise(request=asked)
    vouch(camera)
    camera.publish(ref, sighting())
    for _ in range(18):  # a lease and a half
        before = len(camera.all_heard(Challenge))
        net.advance(5)
        if len(camera.all_heard(Challenge)) > before:
            vouch(camera)
        camera.renew_all({ref: asked})
    office = net.client("statistics office")
    wanted = office.subscribe()
    office.say(AskState(77, wanted))
    assert len(office.events()) == 1
    net.advance(31)
    camera.refuse()
    office.heard.clear()
    later = office.subscribe()
    office.say(AskState(78, later))
    assert office.events() == []


# ------------------------------------------------------------ bounds


def test_a_flood_of_requests_opens_a_bounded_number_of_questions(net: Net) -> None:
    """A30, A74: one principal has so many requests waiting, over all its links, and is told so."""
    net = Net(limits=BrokerLimits(one_time_requests_per_principal=5))
    net.broker()
    story = Story(net, answers=False)
    second = net.client(BILLING, credentials=story.pool)
    refs = [one.subscribe() for one in (story.billing, second) for _ in range(6)]
    assert waiting(net) == {"waiting": 5, "questions": 5}
    codes = [
        client.code_of(ref) for client, ref in zip([story.billing] * 6 + [second] * 6, refs, strict=True)
    ]
    assert codes.count("UNAVAILABLE-ONE-TIME-QUOTA") == 8
    net.advance(25)
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_the_questions_of_all_are_bounded_and_others_are_not_disturbed(net: Net) -> None:
    """A74: when a broker waits for as many answers as it may, what needs none goes on."""
    net = Net(limits=BrokerLimits(one_time_questions=3))
    net.broker()
    story = Story(net)
    for _ in range(10):
        story.billing.subscribe()
    assert waiting(net)["questions"] == 3
    assert story.sees() == 1
    office = net.client("statistics office")
    assert office.was_accepted(office.subscribe())


def test_a_request_asks_about_as_many_certificates_as_it_may(net: Net) -> None:
    """A30: of many chains the first are asked about; the rest does without."""
    net = Net(limits=BrokerLimits(one_time_questions_per_request=2))
    net.broker()
    plates = [Comparison(NUMBERPLATE, Operator.EQ, f"LC04 AB{number}") for number in range(6)]
    rights = [once(net, restriction=plate) for plate in plates]
    billing = net.client(BILLING, credentials=pool_with(net, *rights))
    ref = billing.subscribe()
    assert len(questions_of(billing.last(Challenge))) == 2
    vouch(billing)
    assert billing.was_accepted(ref)


def test_questions_are_paid_for_with_the_quota(net: Net) -> None:
    """A77: what an answer costs is charged before it is asked for."""
    net = Net(limits=BrokerLimits(requests_per_minute=4))
    net.broker()
    right = once(net)
    billing = net.client(BILLING, credentials=pool_with(net, right))
    refs = [billing.subscribe() for _ in range(3)]
    assert [billing.code_of(ref) for ref in refs] == [None, None, "UNAVAILABLE-REQUEST-QUOTA"]
    assert waiting(net)["questions"] == 2


def test_a_standing_entry_without_room_for_its_question_is_asked_about_a_little_later(net: Net) -> None:
    net = Net(limits=BrokerLimits(one_time_requests_per_principal=1))
    net.broker()
    right = once(net)
    billing = net.client(BILLING, credentials=pool_with(net, right))
    asked = {}
    for _ in range(2):
        data = billing.request(Action.SUBSCRIBE)
        asked[billing.subscribe(request=data)] = data
        vouch(billing)
    heard = len(billing.all_heard(Challenge))
    for _ in range(40):
        net.advance(1)
        while len(billing.all_heard(Challenge)) > heard:
            vouch(billing, challenge=billing.all_heard(Challenge)[heard])
            heard += 1
    billing.renew_all(asked)
    net.advance(10)
    assert heard == 4
    assert not billing.all_heard(Ended)


# ------------------------------------------------------------ with other things


def test_a_durable_subscription_goes_on_with_a_fresh_answer_and_not_before() -> None:
    net = Net()
    net.broker(recording=RECORDING)
    right = once(net)
    camera = net.client(CAMERA)
    offer = camera.advertise()
    for is_first in (True, False):
        billing = net.client(BILLING, credentials=pool_with(net, right))
        ref = billing.durable()
        assert not billing.was_accepted(ref)
        assert billing.logged_events() == []
        vouch(billing)
        assert billing.was_accepted(ref)
        assert len(billing.logged_events()) == (0 if is_first else 2)
        billing.hang_up()
        camera.publish(offer, sighting())
        camera.publish(offer, sighting())


def test_a_durable_subscription_that_is_forgotten_while_it_waits_is_never_accepted() -> None:
    net = Net()
    net.broker(recording=RECORDING)
    billing = net.client(BILLING, credentials=pool_with(net, once(net)))
    ref = billing.durable()
    billing.forget(ref)
    assert waiting(net)["waiting"] == 0
    vouch(billing)
    assert not billing.was_accepted(ref)


def test_a_publisher_with_a_rate_is_counted_under_the_answer_that_it_rests_on(net: Net) -> None:
    """A condition on the rate is asked at every frame, and finds the answer that was given."""
    right = once(net, CAMERA, Action.PUBLISH).certificate
    few = replace(right, authority=replace(right.authority, condition=parse_predicate("rate-minute <= 2")))
    rated = issue(few, net.cast.keys["CCS"])
    camera = net.client(CAMERA, credentials=pool_with(net, rated, who=CAMERA))
    offer = camera.advertise()
    vouch(camera)
    office = net.client("statistics office")
    office.subscribe()
    for _ in range(4):
        camera.publish(offer, sighting())
    assert len(office.events()) == 2
    assert [one.refused_rows for one in camera.all_heard(Published)] == [0, 0, 1, 1]


# ------------------------------------------------------------ connecting


def connect_once(net: Net, who: str = BILLING, *as_broker: Action) -> SignedCertificate:
    owner = next(name for name, key in net.cast.keys.items() if key.principal == net.cast.network.owner)
    return net.cast.grant(
        owner,
        net.cast.principal(who),
        net.cast.network,
        Action.CONNECT,
        *as_broker,
        test=TestKind.ONE_TIME,
        by=net.cast.principal("CCS"),
    )


def test_a_client_is_welcomed_when_its_right_to_connect_is_vouched_for(net: Net) -> None:
    billing = net.client(BILLING, credentials=(connect_once(net),))
    assert not billing.all_heard(Welcome)
    assert billing.last(Challenge).ref == 0
    vouch(billing)
    assert billing.all_heard(Welcome)
    assert not billing.closed
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_who_is_not_vouched_for_is_not_let_in(net: Net) -> None:
    """A11, A30: no answer, a foreign one, and one that was used for another link."""
    first = net.client(BILLING, credentials=(connect_once(net),))
    used = answers_to(first.last(Challenge), net.cast.keys["CCS"])
    first.refuse()
    assert first.bye == "REFUSED-NOT-VOUCHED-FOR"
    second = net.client(BILLING, credentials=(connect_once(net),))
    second.refuse(used)
    assert second.bye == "REFUSED-NOT-VOUCHED-FOR"
    third = net.client(BILLING, credentials=(connect_once(net),))
    third.say(Vouched(99, used))
    assert third.bye == "PROTOCOL-OUT-OF-TURN"
    silent = net.client(BILLING, credentials=(connect_once(net),))
    net.advance(11)
    assert silent.bye == "UNAVAILABLE-HANDSHAKE-TIME"
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_nothing_else_may_be_said_before_the_answer(net: Net) -> None:
    """A12: a link that waits to be vouched for is not ready."""
    billing = net.client(BILLING, credentials=(connect_once(net),))
    billing.subscribe()
    assert billing.bye == "PROTOCOL-OUT-OF-TURN"


def test_a_connection_is_vouched_for_anew_within_each_lease(net: Net) -> None:
    billing = net.client(BILLING, credentials=(connect_once(net),))
    vouch(billing)
    for number in range(2, 5):
        net.advance(31)
        assert len(billing.all_heard(Challenge)) == number
        vouch(billing)
    assert not billing.closed
    net.advance(31)
    billing.refuse()
    assert billing.bye == "REFUSED-NOT-VOUCHED-FOR"


def test_a_connection_that_nobody_vouches_for_again_ends_within_its_lease(net: Net) -> None:
    billing = net.client(BILLING, credentials=(connect_once(net),))
    vouch(billing)
    net.advance(LEASE_S)
    assert billing.bye == "UNAVAILABLE-NOT-VOUCHED-FOR"


def test_a_broker_cannot_be_vouched_for_so_and_the_refusal_says_it(net: Net) -> None:
    right = connect_once(net, BILLING, Action.BROKER)
    billing = net.client(BILLING, credentials=(right,), address="127.0.0.1:7999")
    assert billing.bye == "POLICY-ONE-TIME"
    assert not billing.all_heard(Challenge)
