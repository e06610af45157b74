"""Challenges: what waits for one-time answers, how many, and how long a check stands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from maia.broker.settings import BrokerLimits
from maia.credentials import Principal, SigningKey, TestKind, statement_to_bytes
from maia.errors import Unavailable
from maia.sessions.challenges import (
    Asked,
    ChallengeDesk,
    NotVouchedFor,
    OpenChallenge,
    OwnChallenges,
    QuestionNotOurs,
    TooManyQuestions,
)
from maia.testing.refusals import error_code
from maia.validity import OneTimeQuestion, answer_question, question_to_bytes
from maia.wire.effects import LinkId
from maia.wire.messages import Challenge, Vouched
from support.statements import HOLDER, TESTER, certificate, moment

TESTED, OTHER = certificate(TestKind.ONE_TIME), certificate(TestKind.ONE_TIME, comment="another")
ONCE, OTHER_ONCE = (TESTED.id, TESTER.principal), (OTHER.id, TESTER.principal)
DIGEST = b"d" * 32
LINK = LinkId(1)


def numbers() -> Callable[[int], bytes]:
    drawn = count(1)
    return lambda size: next(drawn).to_bytes(size, "big")


def desk(lease_s: int = 60, **limits: int) -> ChallengeDesk[str]:
    return ChallengeDesk(BrokerLimits(**limits), lease_s=lease_s, random=numbers())


def asked(about: str = "request", link: LinkId = LINK, who: Principal = HOLDER.principal) -> Asked[str]:
    return Asked(who, link, about, 7, DIGEST, about)


def answers(opened: OpenChallenge[str], key: SigningKey = TESTER) -> Vouched:
    said = [statement_to_bytes(answer_question(question, key)) for question in opened.questions]
    return Vouched(opened.id, said)


def test_a_check_stands_for_one_lease_and_is_asked_for_again_half_way_through() -> None:
    verifier = desk(lease_s=60)
    checked = verifier.redeem(LINK, answers(verifier.ask(asked(), [ONCE], moment(0))), moment(5))
    assert checked is not None
    assert checked.missing is None
    assert checked.vouched is not None
    assert (checked.vouched.once, checked.vouched.until) == ({ONCE}, moment(65))
    assert checked.vouched.ask_at == moment(35)


@pytest.mark.parametrize(("lease_s", "waits_s"), [(60, 20), (40, 20), (30, 15), (1, 1)])
def test_answers_are_waited_for_half_a_lease_at_most(lease_s: int, waits_s: int) -> None:
    verifier = desk(lease_s=lease_s, one_time_s=20)
    opened = verifier.ask(asked(), [ONCE], moment(0))
    assert (opened.seconds, opened.until, verifier.next_due()) == (waits_s, moment(waits_s), moment(waits_s))
    assert verifier.overdue(moment(waits_s - 0.000001)) == []
    (late,) = verifier.overdue(moment(waits_s))
    assert error_code(late.missing) == "UNAVAILABLE-NOT-VOUCHED-FOR"
    assert late.vouched is None
    assert len(verifier) == verifier.questions == 0


def test_an_answer_counts_once_and_on_its_own_link() -> None:
    """A30."""
    verifier = desk()
    opened = verifier.ask(asked(), [ONCE], moment(0))
    assert verifier.redeem(LinkId(2), answers(opened), moment(1)) is None
    assert verifier.redeem(LINK, answers(opened), moment(1)) is not None
    assert verifier.redeem(LINK, answers(opened), moment(1)) is None


def test_the_answer_to_one_challenge_is_no_answer_to_another() -> None:
    """A30: the same certificate, the same peer, another request."""
    verifier = desk()
    one, two = (verifier.ask(asked(about), [ONCE], moment(0)) for about in ("one", "two"))
    checked = verifier.redeem(LINK, Vouched(two.id, answers(one).answers), moment(1))
    assert checked is not None
    assert isinstance(checked.missing, NotVouchedFor)
    assert len(checked.problems) == len(checked.effects()) == 1
    assert verifier.is_asked(LINK, "one")


def test_some_answers_of_several_permit_what_they_permit() -> None:
    verifier = desk()
    opened = verifier.ask(asked(), [ONCE, OTHER_ONCE], moment(0))
    whole = answers(opened)
    checked = verifier.redeem(LINK, Vouched(opened.id, whole.answers[:1]), moment(1))
    assert checked is not None
    assert isinstance(checked.missing, NotVouchedFor)
    assert checked.vouched is not None
    assert len(checked.vouched.once) == 1


def test_a_challenge_takes_the_place_of_an_earlier_one_about_the_same() -> None:
    verifier = desk()
    first = verifier.ask(asked(), [ONCE], moment(0))
    verifier.ask(asked(), [ONCE], moment(1))
    assert len(verifier) == verifier.questions == 1
    assert verifier.redeem(LINK, answers(first), moment(2)) is None


def test_requests_of_one_principal_and_questions_of_all_have_their_limits() -> None:
    verifier = desk(one_time_requests_per_principal=2, one_time_questions=3)
    for about in ("one", "two"):
        verifier.ask(asked(about), [ONCE], moment(0))
    with pytest.raises(TooManyQuestions):
        verifier.ask(asked("three"), [ONCE], moment(0))
    verifier.ask(asked("four", who=TESTER.principal), [ONCE], moment(0))
    with pytest.raises(TooManyQuestions):
        verifier.ask(asked("five", who=TESTER.principal), [ONCE], moment(0))
    verifier.forget_link(LINK)
    assert len(verifier) == verifier.questions == 0


# ------------------------------------------------------------ the peer that is asked


def challenge(certificate_id: bytes = TESTED.id, request: bytes = DIGEST, number: int = 1) -> Challenge:
    question = OneTimeQuestion(TESTER.principal, certificate_id, request, bytes(32))
    return Challenge(number, 7, 10, [question_to_bytes(question)])


def own(held: bytes) -> object:
    return {TESTED.id: TESTED}.get(held)


@pytest.mark.parametrize(
    "odd", [challenge(OTHER.id), challenge(request=b"e" * 32), Challenge(1, 7, 10, [b"x"])]
)
def test_only_questions_about_our_own_request_and_certificates_are_answered(odd: Challenge) -> None:
    ours = OwnChallenges()
    with pytest.raises(QuestionNotOurs):
        ours.open(1, odd, DIGEST, own, is_standing=False)
    assert 1 not in ours


def test_the_latest_challenge_of_a_reference_is_answered_and_no_earlier_one() -> None:
    ours = OwnChallenges()
    ours.open(1, challenge(number=31), DIGEST, own, is_standing=False)
    ours.open(2, challenge(number=32), DIGEST, own, is_standing=True)
    assert ours.answer(1, []) is None
    assert ours.is_open(7)
    assert ours.answer(2, []) == Vouched(32, [])
    assert not ours.is_open(7)


def test_why_no_tester_vouched_is_known_better_here() -> None:
    ours, problem = OwnChallenges(), Unavailable("UNAVAILABLE-NOT-VOUCHED-FOR", "the tester is away")
    ours.open(1, challenge(), DIGEST, own, is_standing=False)
    ours.answer(1, [], problem)
    assert ours.reason(7, NotVouchedFor.code) is problem
    assert ours.reason(7, NotVouchedFor.code) is None
    ours.open(2, challenge(), DIGEST, own, is_standing=False)
    ours.answer(2, [], problem)
    assert ours.reason(7, "POLICY-REVOKED") is None
