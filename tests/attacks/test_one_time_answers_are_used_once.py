"""One-time revalidation: an answer is good for one certificate, one request, one verifier, once."""

from __future__ import annotations

import pytest

from maia.credentials import (
    BadSignature,
    OneTimeAnswer,
    OnlineTest,
    SignedKind,
    TestKind,
    Validity,
    sign_statement,
    statement_from_bytes,
    statement_to_bytes,
)
from maia.policy import NO_FACTS, Denial, Permit, decide, gather_evidence, request_digest
from maia.testing.refusals import raises
from maia.validity import PATIENCE, Monitor, OpenQuestions, Revalidated, answer_question
from support.policy import MALLORY, MET, NOON, PITO, SMITH, TIME, granted, request
from support.statements import SECOND, moment

ONCE = Validity(None, None).with_tests(OnlineTest(TestKind.ONE_TIME, MET.principal))
TO_SMITH = granted(PITO, SMITH, "subscribe", validity=ONCE)
ASKED = request(SMITH, "subscribe")
DIGEST = request_digest(ASKED)


def asked(questions, signed=TO_SMITH, digest=DIGEST, nonce=b"n" * 32, at=0):
    return questions.ask(signed.id, MET.principal, request=digest, nonce=nonce, now=moment(at))


def decided(*proofs, wanted=ASKED, pool=(TO_SMITH,)):
    once = {proof.spend(request_digest(wanted)) for proof in proofs}
    evidence = gather_evidence(wanted, pool, at=NOON, standing=Monitor(), once=once)
    return decide(wanted, evidence, NO_FACTS, NOON)


def test_with_an_answer_the_request_is_permitted_and_without_one_it_is_not():
    """A30: the test is demanded for every request."""
    questions = OpenQuestions()
    proof = questions.redeem(answer_question(asked(questions), MET), moment(0))
    assert isinstance(decided(proof), Permit)
    refused = decided()
    assert isinstance(refused, Denial)
    assert refused.code == "POLICY-ONE-TIME"


def test_an_answer_is_accepted_once():
    """A30: the second time its question is closed, a peer that shows it."""
    questions = OpenQuestions()
    answer = answer_question(asked(questions), MET)
    questions.redeem(answer, moment(0))
    with raises("STATEMENT-NOT-ASKED"):
        questions.redeem(answer, moment(0))
    with raises("STATEMENT-NOT-ASKED"):
        questions.redeem(statement_from_bytes(statement_to_bytes(answer)), moment(0))


def test_a_proof_is_spent_by_one_decision():
    """A30: keeping the accepted proof does not make a second authorisation of it."""
    questions = OpenQuestions()
    proof = questions.redeem(answer_question(asked(questions), MET), moment(0))
    assert isinstance(decided(proof), Permit)
    with raises("STATEMENT-NOT-ASKED"):
        decided(proof)


@pytest.mark.parametrize(
    "other",
    [
        request(MALLORY, "subscribe"),
        request(SMITH, "publish"),
        request(SMITH, "subscribe", filter='numberplate == "AE05 XYZ"'),
    ],
)
def test_an_answer_about_one_request_is_none_about_another(other):
    """A30: another principal, action, or filter is another request."""
    questions = OpenQuestions()
    proof = questions.redeem(answer_question(asked(questions), MET), moment(0))
    with raises("STATEMENT-NOT-ASKED"):
        decided(proof, wanted=other)
    with raises("STATEMENT-NOT-ASKED"):
        decided(proof)


def test_an_answer_about_one_certificate_is_none_about_another():
    """A30: vouching for a narrow certificate confirms no wide one."""
    narrow = granted(PITO, SMITH, "subscribe", attributes=[TIME], validity=ONCE)
    questions = OpenQuestions()
    proof = questions.redeem(answer_question(asked(questions, narrow), MET), moment(0))
    assert isinstance(decided(proof), Denial)


@pytest.mark.parametrize("field", ["certificate", "request", "nonce"])
def test_an_answer_that_was_altered_answers_nothing(field):
    """A30: an answer answers exactly what was asked."""
    questions = OpenQuestions()
    question = asked(questions)
    fields = {"certificate": question.certificate, "request": question.request, "nonce": question.nonce}
    answer = OneTimeAnswer(MET.principal, **(fields | {field: b"x" * 32}))
    with raises("STATEMENT-NOT-ASKED"):
        questions.redeem(sign_statement(answer, MET), moment(0))
    assert len(questions) == 1


def test_no_other_peer_answers():
    """A30: a stranger's answer, signed in its own name or forged in the tester's, opens nothing."""
    questions = OpenQuestions()
    question = asked(questions)
    mine = OneTimeAnswer(MALLORY.principal, question.certificate, question.request, question.nonce)
    with raises("STATEMENT-NOT-ASKED"):
        questions.redeem(sign_statement(mine, MALLORY), moment(0))
    body = answer_question(question, MET).body
    for kind in (SignedKind.ONE_TIME_ANSWER, SignedKind.VALIDITY_STATEMENT):
        key = MALLORY if kind is SignedKind.ONE_TIME_ANSWER else MET
        forged = b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, key.sign(kind, body))
        with pytest.raises(BadSignature):
            questions.redeem(statement_from_bytes(forged), moment(0))
    # And the question stays open for the honest answer.
    assert questions.redeem(answer_question(question, MET), moment(0))


def test_an_answer_to_another_verifier_is_none_here():
    """A30: two verifiers ask with numbers of their own."""
    mine, theirs = OpenQuestions(), OpenQuestions()
    asked(mine, nonce=b"m" * 32)
    answer = answer_question(asked(theirs, nonce=b"t" * 32), MET)
    with raises("STATEMENT-NOT-ASKED"):
        mine.redeem(answer, moment(0))


def test_an_answer_comes_in_time_or_not_at_all():
    """A30, A78: an answer that was held back is worthless, also after the clock was set back."""
    limit = PATIENCE / SECOND
    for at, is_accepted in ((limit, True), (limit + 0.000_001, False), (-0.000_001, False)):
        questions = OpenQuestions()
        answer = answer_question(asked(questions), MET)
        if is_accepted:
            assert questions.redeem(answer, moment(at))
        else:
            with raises("STATEMENT-NOT-ASKED"):
                questions.redeem(answer, moment(at))


def test_after_a_restart_no_answer_is_waited_for():
    """A82: what was asked before a restart is asked again, with another number."""
    before = OpenQuestions()
    answer = answer_question(asked(before), MET)
    with raises("STATEMENT-NOT-ASKED"):
        OpenQuestions().redeem(answer, moment(0))


def test_no_peer_makes_a_proof_of_their_own():
    """A30: a proof comes from an answer and from nowhere else."""
    with pytest.raises(TypeError):
        Revalidated(asked(OpenQuestions()), object())


def test_the_digest_names_everything_that_is_asked():
    """A30: two requests that differ in anything have two names."""
    digests = {
        request_digest(one)
        for one in (
            ASKED,
            request(MALLORY, "subscribe"),
            request(SMITH, "publish"),
            request(SMITH, "subscribe", filter='numberplate == "AE05 XYZ"'),
        )
    }
    assert len(digests) == 4
    assert request_digest(request(SMITH, "subscribe")) == DIGEST
