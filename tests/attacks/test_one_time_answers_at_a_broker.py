"""A30 at a broker: an answer is good for one request on one link, once, and only in time.

Mallory may overhear answers, keep them, and hold rights of its own; it may
also be the client that was asked. None of that makes one answer serve twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from maia.broker import BrokerLimits
from maia.credentials import (
    Action,
    OneTimeAnswer,
    OnlineTest,
    SignedKind,
    SigningKey,
    TestKind,
    issue,
    sign_statement,
    statement_to_bytes,
)
from maia.predicates import Comparison, Operator
from maia.testing import Issuer, NetClient, answers_to, grant, questions_of, shown
from maia.types import type_id
from maia.validity import answer_question
from maia.wire.messages import (
    Accepted,
    Challenge,
    Ended,
    Failed,
    Interest,
    RenewAll,
    Subscribe,
    Vouched,
    Wanted,
)
from support.numberplate import CAMERA, LOCATION, NUMBERPLATE, TIMESTAMP, Net, sighting
from support.one_time import BILLING, Story, once, pool_with, vouch

REFUSED = "REFUSED-NOT-VOUCHED-FOR"
MALLORY = SigningKey.from_seed(b"m" * 32)


@pytest.fixture
def net() -> Net:
    net = Net()
    net.broker()
    return net


def ccs(net: Net) -> SigningKey:
    return net.cast.keys["CCS"]


def waiting(net: Net) -> dict[str, int]:
    return net.brokers["CCS broker"].broker.status(net.now)["one_time"]


def stands(net: Net) -> int:
    return net.brokers["CCS broker"].broker.status(net.now)["subscriptions"]


# ------------------------------------------------------------ used twice


def test_an_answer_that_was_used_opens_nothing_again(net: Net) -> None:
    """A30: the same answer, brought again under the same number, or for the next request."""
    story = Story(net)
    used = answers_to(story.billing.last(Challenge), ccs(net))
    story.billing.say(Vouched(story.billing.last(Challenge).id, used))
    ref = story.billing.subscribe()
    story.billing.refuse(used)
    assert story.billing.code_of(ref) == REFUSED
    assert stands(net) == 1


def test_one_answer_brought_twice_counts_once(net: Net) -> None:
    """A30: two certificates are not confirmed by the answer about one of them, twice."""
    somewhere = Comparison(LOCATION, Operator.EQ, "Victoria")
    wide = once(net, attributes=frozenset({NUMBERPLATE, TIMESTAMP, LOCATION}), restriction=somewhere)
    narrow = once(net)
    camera = net.client(CAMERA)
    offer = camera.advertise()
    billing = net.client(BILLING, credentials=pool_with(net, wide, narrow))
    ref = billing.subscribe()
    asked = billing.last(Challenge)
    about_narrow = [one for one in questions_of(asked) if one.certificate == narrow.id]
    answer = statement_to_bytes(answer_question(about_narrow[0], ccs(net)))
    billing.say(Vouched(asked.id, [answer, answer]))
    assert billing.was_accepted(ref)
    camera.publish(offer, sighting())
    assert billing.events()[0].get(LOCATION) is None


# ------------------------------------------------------------ for something else


def test_an_answer_for_one_request_serves_no_other(net: Net) -> None:
    """A30: two requests wait; the answers to one are brought for the other, and neither is let through."""
    story = Story(net, answers=False)
    first = story.billing.last(Challenge)
    plate = Comparison(NUMBERPLATE, Operator.EQ, "LC04 ABC")
    other = story.billing.subscribe(plate)
    second = story.billing.last(Challenge)
    story.billing.say(Vouched(second.id, answers_to(first, ccs(net))))
    assert story.billing.code_of(other) == REFUSED
    assert not story.billing.was_accepted(story.ref)
    # And the first waits on, undisturbed.
    vouch(story.billing, challenge=first)
    assert story.billing.was_accepted(story.ref)


def test_an_answer_for_one_link_serves_no_other(net: Net) -> None:
    """A30, A13: the number of a peer's challenge, and the answers to it, are worth nothing elsewhere."""
    story = Story(net, answers=False)
    asked = story.billing.last(Challenge)
    second = net.client(BILLING, credentials=story.pool)
    second.say(Vouched(asked.id, answers_to(asked, ccs(net))))
    assert stands(net) == 0
    ref = second.subscribe()
    second.refuse(answers_to(asked, ccs(net)))
    assert second.code_of(ref) == REFUSED
    # Nor did it close what was asked of the first.
    vouch(story.billing)
    assert story.billing.was_accepted(story.ref)


def test_an_answer_for_a_peer_serves_no_other_peer(net: Net) -> None:
    """A30: another principal asks for the same, with a certificate of its own."""
    story = Story(net, answers=False)
    overheard = answers_to(story.billing.last(Challenge), ccs(net))
    who = "statistics office"
    right = once(net, who)
    office = net.client(who, credentials=pool_with(net, right, who=who))
    ref = office.subscribe()
    office.refuse(overheard)
    assert office.code_of(ref) == REFUSED


@pytest.mark.parametrize("field", ["certificate", "request", "nonce", "by"])
def test_an_answer_that_differs_in_anything_answers_nothing(net: Net, field: str) -> None:
    """A30: another certificate, request, number or tester than was asked about."""
    story = Story(net, answers=False)
    (question,) = questions_of(story.billing.last(Challenge))
    fields = {
        "by": question.by,
        "certificate": question.certificate,
        "request": question.request,
        "nonce": question.nonce,
    }
    key = MALLORY if field == "by" else ccs(net)
    fields[field] = MALLORY.principal if field == "by" else b"x" * 32
    story.billing.refuse([statement_to_bytes(sign_statement(OneTimeAnswer(**fields), key))])
    assert story.billing.code_of(story.ref) == REFUSED
    assert stands(net) == 0


def test_the_tester_of_one_certificate_does_not_confirm_another(net: Net) -> None:
    """A30: two testers are asked; each answers for itself."""
    one, two = net.cast.principal("CCS"), net.cast.principal("Met")
    right = once(net)
    tests = [OnlineTest(TestKind.ONE_TIME, by) for by in (one, two)]
    both = replace(right.certificate, validity=right.certificate.validity.with_tests(*tests))
    billing = net.client(BILLING, credentials=pool_with(net, issue(both, ccs(net))))
    ref = billing.subscribe()
    assert {question.by for question in questions_of(billing.last(Challenge))} == {one, two}
    asked = [own for own in questions_of(billing.last(Challenge)) if own.by == one]
    billing.refuse([statement_to_bytes(answer_question(question, ccs(net))) for question in asked])
    assert billing.code_of(ref) == REFUSED


# ------------------------------------------------------------ forged


def _forged(net: Net, story: Story) -> bytes:
    (question,) = questions_of(story.billing.last(Challenge))
    body = answer_question(question, ccs(net)).body
    return b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, MALLORY.sign(SignedKind.ONE_TIME_ANSWER, body))


def _cut(net: Net, story: Story) -> bytes:
    return answers_to(story.billing.last(Challenge), ccs(net))[0][:-1]


def _list(net: Net, story: Story) -> bytes:
    return statement_to_bytes(Issuer(net, "CCS").says.list_now())


@pytest.mark.parametrize("made", [_forged, _cut, _list, lambda _net, _story: b""])
def test_what_is_no_answer_is_refused_and_the_link_lives(
    net: Net, made: Callable[[Net, Story], bytes]
) -> None:
    """A30: a foreign signature, bytes that were cut, another statement, nothing at all."""
    story = Story(net, answers=False)
    story.billing.refuse([made(net, story)])
    assert story.billing.code_of(story.ref) == REFUSED
    assert not story.billing.closed
    again = story.billing.subscribe()
    vouch(story.billing)
    assert story.billing.was_accepted(again)


# ------------------------------------------------------------ late


def test_an_answer_after_the_deadline_is_none(net: Net) -> None:
    """A30, A78: what was held back until the broker waits no longer."""
    story = Story(net, answers=False)
    asked = story.billing.last(Challenge)
    net.advance(asked.seconds + 1)
    vouch(story.billing, challenge=asked)
    assert not story.billing.was_accepted(story.ref)
    again = story.billing.subscribe()
    story.billing.refuse(answers_to(asked, ccs(net)))
    assert story.billing.code_of(again) == REFUSED


def test_answers_that_were_kept_do_not_help_the_next_lease(net: Net) -> None:
    """A30: what stands is asked about with fresh numbers; old answers end it."""
    story = Story(net)
    kept = answers_to(story.billing.last(Challenge), ccs(net))
    net.advance(31)
    story.billing.refuse(kept)
    assert story.billing.ended_with(story.ref) == REFUSED
    assert story.sees() == 0


def test_an_answer_that_was_kept_over_a_restart_is_none(net: Net) -> None:
    """A30, A82: the broker that starts again has asked nothing."""
    story = Story(net, answers=False)
    asked = story.billing.last(Challenge)
    net.restart("CCS broker")
    billing = net.client(BILLING, credentials=story.pool)
    billing.say(Vouched(asked.id, answers_to(asked, ccs(net))))
    ref = billing.subscribe()
    billing.refuse(answers_to(asked, ccs(net)))
    assert billing.code_of(ref) == REFUSED


def test_a_clock_that_is_set_back_makes_no_answer_last_longer(net: Net) -> None:
    """A78: what was confirmed at noon is not confirmed at eleven."""
    story = Story(net)
    net.now = type(net.now)(net.now - 3_600_000_000)
    story.camera.publish(story.offer, sighting())
    net.advance(3_700)
    assert story.billing.ended_with(story.ref)


def test_a_broker_that_slept_serves_no_peer_on_answers_that_are_over(net: Net) -> None:
    """A35: leases are forgiven after a sleep, and answers are not."""
    story = Story(net)
    net.now = type(net.now)(net.now + 61_000_000)
    assert story.sees() == 0
    assert story.billing.ended_with(story.ref) == "UNAVAILABLE-NOT-VOUCHED-FOR"


# ------------------------------------------------------------ wider than what was confirmed


def test_a_renewal_does_not_stand_in_for_an_answer(net: Net) -> None:
    """A30, A65: neither a lease that is renewed nor a request that is signed anew confirms anything."""
    story = Story(net)
    for _ in range(14):
        net.advance(4)
        story.billing.renew_all({story.ref: story.asked})
    assert story.billing.ended_with(story.ref) == "UNAVAILABLE-NOT-VOUCHED-FOR"
    assert story.billing.all_heard(RenewAll) == []
    assert story.sees() == 0


def test_a_request_is_accepted_once_confirmed_or_not(net: Net) -> None:
    """A65: a request that waited cannot be sent again, on this link or by another client."""
    story = Story(net, answers=False)
    definitions: list[bytes] = []
    again = Subscribe(50, story.asked, shown(story.pool), definitions)
    story.billing.say(again)
    assert story.billing.code_of(50)
    thief = net.client("statistics office")
    thief.say(again)
    assert thief.code_of(50) or thief.closed
    assert waiting(net) == {"waiting": 1, "questions": 1}


def test_a_client_cannot_have_its_unvouched_request_carried_as_an_interest(net: Net) -> None:
    """A30, A68: what brokers tell each other is not a client's to say."""
    story = Story(net, answers=False)
    type_id = b"t" * 32
    wanted = Wanted(b"i" * 16, b"", story.asked, shown(story.pool))
    story.billing.say(Interest(type_id, [wanted], []))
    assert story.billing.bye == "PROTOCOL-BROKERS-ONLY"


def test_no_other_broker_receives_of_a_request_that_waits(net: Net) -> None:
    """A30: nothing leaves the edge before it was confirmed."""
    net.broker("PITO broker", seeds=["CCS broker"])
    name = net.cast.type_name
    seen = type_id(name.owner, name.name)

    def told() -> int:
        said = [one for _, _, one in net.carried if isinstance(one, Interest) and one.add]
        return sum(one.key == seen for one in said)

    story = Story(net, at="PITO broker", answers=False)
    assert told() == 0
    story.billing.refuse()
    assert told() == 0
    story.billing.subscribe()
    vouch(story.billing)
    assert told() > 0


# ------------------------------------------------------------ floods


def test_a_flood_that_demands_questions_stays_bounded(net: Net) -> None:
    """A30, A74: many links and many requests of one principal open a handful of questions."""
    limits = BrokerLimits(one_time_requests_per_principal=8, one_time_questions=64)
    net = Net(limits=limits)
    net.broker()
    right = once(net)
    links = [net.client(BILLING, credentials=pool_with(net, right)) for _ in range(6)]
    for _ in range(20):
        for link in links:
            link.subscribe()
    assert waiting(net) == {"waiting": 8, "questions": 8}
    codes = {one.code for link in links for one in link.all_heard(Failed)}
    assert codes == {"UNAVAILABLE-ONE-TIME-QUOTA"}
    for link in links:
        link.hang_up()
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_certificates_of_strangers_making_open_no_question(net: Net) -> None:
    """A30: thousands of certificates with testers of one's own lead nowhere, and no peer is asked."""
    to = net.cast.principal(BILLING)
    made = []
    for number in range(40):
        key = SigningKey.from_seed(number.to_bytes(32, "big"))
        made.append(grant(key, to, net.cast.definition, Action.SUBSCRIBE, test=TestKind.ONE_TIME))
    billing = net.client(BILLING, credentials=pool_with(net, *made))
    ref = billing.subscribe()
    assert billing.code_of(ref) == "POLICY-NO-CHAIN"
    assert waiting(net) == {"waiting": 0, "questions": 0}


def test_answers_no_peer_asked_for_cost_nothing_and_do_nothing(net: Net) -> None:
    """A74: an unknown number is passed over before anything in it is read."""
    story = Story(net)
    heard = len(story.billing.heard)
    for number in range(500):
        story.billing.say(Vouched(1000 + number, [b"x" * 1024] * 64))
    assert len(story.billing.heard) == heard
    assert story.sees() == 1
    assert not story.billing.all_heard(Ended)
    assert isinstance(story.billing.last(Accepted), Accepted)


def test_a_request_numbered_like_the_connection_is_no_connection(net: Net) -> None:
    """A30, A69: what was confirmed as a subscription is never taken for the right to connect."""
    story = Story(net)
    zero = story.billing.subscribe(ref=0)
    vouch(story.billing)
    assert story.billing.was_accepted(zero)
    net.advance(31)
    asked = [one for one in story.billing.all_heard(Challenge)[-2:] if one.ref == 0]
    story.billing.say(Vouched(asked[0].id, []))
    assert story.billing.ended_with(0) == REFUSED
    assert not story.billing.closed


def test_brokers_do_not_bring_answers(net: Net) -> None:
    """A68: only a client is asked, so only a client answers."""
    right = net.cast.broker_right(net.cast.keys["CCS"])
    broker: NetClient = net.client("CCS", credentials=(right,), address="127.0.0.1:7999")
    broker.say(Vouched(1, []))
    assert broker.bye == "PROTOCOL-CLIENTS-ONLY"
