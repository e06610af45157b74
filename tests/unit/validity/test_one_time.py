"""Questions that a verifier asks about one certificate and one request, and their answers."""

from __future__ import annotations

import pytest

from maia.credentials import BadStatement
from maia.testing.refusals import raises
from maia.validity import (
    PATIENCE,
    OneTimeQuestion,
    OpenQuestions,
    question_from_bytes,
    question_to_bytes,
)
from support.statements import SECOND, TESTER, certificate, crl, moment

QUESTION = OneTimeQuestion(TESTER.principal, b"c" * 32, b"r" * 32, b"n" * 32)


def ask(questions, nonce=b"n" * 32, at=0):
    return questions.ask(certificate().id, TESTER.principal, request=b"r" * 32, nonce=nonce, now=moment(at))


def test_a_question_travels():
    assert question_from_bytes(question_to_bytes(QUESTION)) == QUESTION


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"(7:version1:1)", b"(7:version1:2)"),
        (b"(7:version1:1)", b""),
        (b"32:" + b"n" * 32, b"31:" + b"n" * 31),
        (b"32:" + b"c" * 32, b"0:"),
        (b"5:nonce", b"5:nunce"),
        (b"))", b")"),
        (b"(17:one-time-question", b"(15:one-time-answer"),
    ],
)
def test_anything_else_is_no_question(old, new):
    data = question_to_bytes(QUESTION)
    assert old in data
    with pytest.raises(BadStatement):
        question_from_bytes(data.replace(old, new))


def test_only_so_many_questions_are_open_and_old_ones_make_room():
    questions = OpenQuestions(limit=1)
    ask(questions)
    with raises("UNAVAILABLE-STANDING-FULL"):
        ask(questions, nonce=b"m" * 32)
    ask(questions, nonce=b"m" * 32, at=PATIENCE / SECOND + 0.000_001)
    assert len(questions) == 1


def test_a_list_answers_no_question():
    with pytest.raises(BadStatement):
        OpenQuestions().redeem(crl(1), moment(0))
