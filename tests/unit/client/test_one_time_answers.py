"""What a client does when a broker wants to have its certificates vouched for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.client import Accepted, Challenged, ClientSession, Disconnected, Ended, RefusedByBroker
from maia.client.entries import EntryStage
from maia.credentials import Action, OnlineTest, SignedCertificate, TestKind, issue, statement_to_bytes
from maia.errors import Unavailable
from maia.policy import Request, request_digest
from maia.predicates import Comparison, Operator
from maia.validity import OneTimeQuestion, answer_question, question_to_bytes
from maia.wire.messages import (
    PROTOCOL_VERSION,
    Advertise,
    Bye,
    Challenge,
    Failed,
    Greeting,
    RenewAll,
    Vouched,
    Welcome,
    Withdraw,
)
from maia.wire.messages import Accepted as AcceptedMessage
from maia.wire.messages import Ended as EndedMessage
from maia.wire.names import network_to_bytes
from support.client_session import SHOWN, STORY, Played, counting_random
from support.numberplate import NUMBERPLATE

CCS, MET = STORY.keys["CCS"], STORY.keys["Met"]
REFUSED = "REFUSED-NOT-VOUCHED-FOR"


def asked_each_time(signed: SignedCertificate) -> SignedCertificate:
    test = OnlineTest(TestKind.ONE_TIME, CCS.principal)
    issuer = next(key for key in STORY.keys.values() if key.principal == signed.certificate.issuer)
    tested = replace(signed.certificate, validity=signed.certificate.validity.with_tests(test))
    return issue(tested, issuer)


class Vouching(Played):
    """A camera, all of whose certificates must be vouched for by CCS."""

    def __post_init__(self) -> None:
        super().__post_init__()
        own = [one for one in STORY.certificates if one.certificate.subject == self.principal]
        self.rights = [asked_each_time(one) for one in own]
        others = [one for one in STORY.certificates if one not in own]
        settings = replace(self.session._settings, credentials=(*others, *self.rights))
        self.session = ClientSession(STORY.keys[self.who], settings, random=counting_random())
        self.start()
        self.is_welcomed()
        self.entry = self.advertises()

    @property
    def principal(self):
        return STORY.principal(self.who)

    def question(self, **changes: object) -> OneTimeQuestion:
        version = self.known.event_type
        asked = Request(self.principal, self.entry.action, version.name, version, self.entry.filter)
        told = {
            "by": CCS.principal,
            "certificate": self.rights[0].id,
            "request": request_digest(asked),
            "nonce": b"n" * 32,
        }
        return OneTimeQuestion(**(told | changes))

    def is_challenged(self, number: int = 1, **changes: object) -> list[Challenged]:
        question = question_to_bytes(self.question(**changes))
        self.broker_says(Challenge(number, self.entry.ref, 20, [question]))
        return [one for one in self.notices() if isinstance(one, Challenged)]

    def vouches(self, challenged: Challenged, problem: Exception | None = None) -> list[Vouched]:
        answers = [] if problem else [answer_question(one, CCS) for one, _ in challenged.questions]
        self.effects += self.session.vouch(challenged.id, answers, problem)
        return self.said(Vouched)


@pytest.fixture
def played() -> Vouching:
    return Vouching()


def test_the_application_is_told_what_to_have_answered(played: Vouching) -> None:
    (challenged,) = played.is_challenged()
    assert challenged.questions == ((played.question(), played.rights[0]),)
    assert (challenged.ref, challenged.seconds, challenged.is_standing) == (played.entry.ref, 20, False)


def test_answers_are_brought_under_the_brokers_number(played: Vouching) -> None:
    (challenged,) = played.is_challenged(77)
    (said,) = played.vouches(challenged)
    assert said == Vouched(77, [statement_to_bytes(answer_question(played.question(), CCS))])
    played.broker_says(AcceptedMessage(played.entry.ref, None))
    assert [type(one) for one in played.notices()] == [Accepted]


def test_nobody_is_told_twice_what_was_asked_once(played: Vouching) -> None:
    (challenged,) = played.is_challenged()
    assert played.vouches(challenged)
    assert played.vouches(challenged) == []


def test_a_later_challenge_takes_the_place_of_an_earlier_one(played: Vouching) -> None:
    (first,) = played.is_challenged(1)
    (second,) = played.is_challenged(2, nonce=b"m" * 32)
    assert played.vouches(first) == []
    assert [one.id for one in played.vouches(second)] == [2]


def test_an_answer_for_a_link_that_is_gone_goes_nowhere(played: Vouching) -> None:
    """A30: another broker's first question has the same number."""
    (old,) = played.is_challenged(1)
    played.link_closes()
    played.time_passes(1)
    played.is_welcomed()
    (new,) = played.is_challenged(1, nonce=b"m" * 32)
    assert played.vouches(old) == []
    assert played.vouches(new)


@pytest.mark.parametrize(
    "changes",
    [
        {"certificate": b"c" * 32},
        {"by": MET.principal},
        {"request": b"r" * 32},
    ],
)
def test_what_is_not_ours_to_ask_for_is_not_asked_for(played: Vouching, changes: dict[str, object]) -> None:
    """A30: a broker learns nothing by having its clients ask for it, and gets no answer for others."""
    assert played.is_challenged(**changes) == []
    assert played.said(Withdraw)
    assert not played.said(Vouched)


def test_a_certificate_that_demands_nothing_is_not_asked_about(played: Vouching) -> None:
    plain = next(one for one in STORY.certificates if one.certificate.subject != played.principal)
    assert played.is_challenged(certificate=plain.id) == []


def test_another_filter_is_another_request(played: Vouching) -> None:
    version = played.known.event_type
    plate = Comparison(NUMBERPLATE, Operator.EQ, "AE05 XYZ")
    other = Request(played.principal, played.entry.action, version.name, version, plate)
    assert played.is_challenged(request=request_digest(other)) == []


def test_bytes_that_are_no_question_end_the_request_and_nothing_else(played: Vouching) -> None:
    played.broker_says(Challenge(1, played.entry.ref, 20, [b"(8:question)"]))
    (gone,) = [one for one in played.notices() if isinstance(one, Ended)]
    assert gone.problem.code == "REFUSED-QUESTION"
    assert not played.said(Bye)
    assert played.session.is_ready


def test_a_challenge_for_nothing_of_ours_is_passed_over(played: Vouching) -> None:
    played.notices()
    played.broker_says(Challenge(1, 999, 20, [question_to_bytes(played.question())]))
    assert played.notices() == []
    assert played.session.is_ready


def test_the_testers_own_reason_is_told_and_not_the_brokers(played: Vouching) -> None:
    (challenged,) = played.is_challenged()
    why = RefusedByBroker("CREDENTIAL-REVOKED", "it was taken back")
    assert played.vouches(challenged, why) == [Vouched(1, [])]
    played.broker_says(Failed(played.entry.ref, REFUSED, "nobody vouches"))
    (gone,) = [one for one in played.notices() if isinstance(one, Ended)]
    assert gone.problem is why


def test_what_stood_is_asked_for_again_where_a_tester_could_not_be_reached(played: Vouching) -> None:
    (first,) = played.is_challenged(1)
    played.vouches(first)
    played.broker_says(AcceptedMessage(played.entry.ref, None))
    (again,) = played.is_challenged(2, nonce=b"m" * 32)
    assert again.is_standing
    played.said(Advertise)
    played.vouches(again, Unavailable("UNAVAILABLE-NOT-CONNECTED", "the domain does not answer"))
    played.broker_says(EndedMessage([played.entry.ref], REFUSED, "nobody vouches"))
    assert len(played.said(Advertise)) == 1
    (third,) = played.is_challenged(3, nonce=b"o" * 32)
    played.vouches(third, Unavailable("UNAVAILABLE-NOT-CONNECTED", "the domain does not answer"))
    played.broker_says(Failed(played.entry.ref, REFUSED, "nobody vouches"))
    assert not played.said(Advertise)
    played.time_passes(16)
    assert len(played.said(Advertise)) == 1
    assert not [one for one in played.notices() if isinstance(one, Ended)]


def test_what_a_tester_refuses_is_gone_for_good(played: Vouching) -> None:
    (first,) = played.is_challenged(1)
    played.vouches(first)
    played.broker_says(AcceptedMessage(played.entry.ref, None))
    (again,) = played.is_challenged(2, nonce=b"m" * 32)
    played.said(Advertise)
    played.vouches(again, RefusedByBroker("CREDENTIAL-REVOKED", "it was taken back"))
    played.broker_says(EndedMessage([played.entry.ref], REFUSED, "nobody vouches"))
    assert not played.said(Advertise)
    assert [one.problem.code for one in played.notices() if isinstance(one, Ended)] == ["CREDENTIAL-REVOKED"]


def test_a_broker_that_waited_too_long_is_asked_again(played: Vouching) -> None:
    (first,) = played.is_challenged(1)
    played.vouches(first)
    played.broker_says(AcceptedMessage(played.entry.ref, None))
    played.said(Advertise)
    played.broker_says(EndedMessage([played.entry.ref], "UNAVAILABLE-NOT-VOUCHED-FOR", "too late"))
    assert len(played.said(Advertise)) == 1


def test_what_waits_to_be_vouched_for_is_not_renewed_as_if_it_stood(played: Vouching) -> None:
    other = played.advertises()
    played.broker_says(AcceptedMessage(other.ref, None))
    assert played.is_challenged()
    assert played.entry.stage is EntryStage.ASKED
    played.said(Advertise)
    played.time_passes(31)
    (renewal,) = played.said(RenewAll)
    assert renewal.entries == 1


# ------------------------------------------------------------ connecting


def connecting(**changes: object) -> Challenge:
    """Return what a broker asks before it welcomes the camera."""
    asked = Request(STORY.principal("camera at Victoria"), Action.CONNECT, STORY.network)
    rights = Vouching().rights
    right = next(one for one in rights if Action.CONNECT in one.certificate.authority.actions)
    told = {
        "by": CCS.principal,
        "certificate": right.id,
        "request": request_digest(asked),
        "nonce": b"n" * 32,
    }
    return Challenge(1, 0, 10, [question_to_bytes(OneTimeQuestion(**(told | changes)))])


def greeted() -> Vouching:
    """Return a client that has said hello and is not welcomed yet."""
    played = Vouching()
    played.link_closes()
    played.time_passes(1)
    played.link_opens()
    played.broker_says(Greeting(PROTOCOL_VERSION, network_to_bytes(STORY.network), SHOWN, bytes(16)))
    played.notices()
    played.said(Vouched)
    return played


def test_the_right_to_connect_is_vouched_for_before_the_welcome() -> None:
    played = greeted()
    played.broker_says(connecting())
    (challenged,) = [one for one in played.notices() if isinstance(one, Challenged)]
    assert (challenged.ref, challenged.is_standing) == (0, False)
    assert len(played.vouches(challenged)[0].answers) == 1
    played.broker_says(Welcome(60))
    assert played.session.is_ready
    played.broker_says(connecting())
    (again,) = [one for one in played.notices() if isinstance(one, Challenged)]
    assert again.is_standing


def test_a_broker_that_asks_about_another_request_before_the_welcome_is_left() -> None:
    """A19, A30: whoever is not trusted with the connection gets no answers for others."""
    played = greeted()
    played.broker_says(connecting(request=b"r" * 32))
    assert [one.problem.code for one in played.notices() if isinstance(one, Disconnected)] == [
        "REFUSED-QUESTION"
    ]


def test_who_is_refused_its_connection_by_the_tester_waits_for_nothing() -> None:
    played = greeted()
    played.broker_says(connecting())
    (challenged,) = [one for one in played.notices() if isinstance(one, Challenged)]
    played.vouches(challenged, RefusedByBroker("CREDENTIAL-REVOKED", "it was taken back"))
    played.broker_says(Bye(REFUSED, "nobody vouches"))
    assert [one.problem.code for one in played.notices() if isinstance(one, Ended)] == ["CREDENTIAL-REVOKED"]


def test_why_the_connection_was_not_vouched_for_is_told_by_the_tester() -> None:
    played = greeted()
    played.broker_says(connecting())
    (challenged,) = [one for one in played.notices() if isinstance(one, Challenged)]
    played.vouches(challenged, Unavailable("UNAVAILABLE-NOT-CONNECTED", "the domain does not answer"))
    played.broker_says(Bye(REFUSED, "nobody vouches"))
    (lost,) = [one for one in played.notices() if isinstance(one, Disconnected)]
    assert (lost.problem.code, lost.is_final) == ("UNAVAILABLE-NOT-CONNECTED", False)
