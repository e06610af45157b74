"""Claims about the one encoding of a predicate."""

from __future__ import annotations

import pytest

from maia.canonical import Hinted
from maia.events import Instant
from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
    NODES_MAX,
    AllOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.testing.refusals import raises

FIVE = (b"==", b"x", (b"int", b"5"))


@pytest.mark.parametrize(
    ("predicate", "expression"),
    [
        (ALWAYS, (b"and",)),
        (NEVER, (b"or",)),
        (Comparison("x", Operator.EQ, 5), FIVE),
        (Comparison("x", Operator.LE, -5), (b"<=", b"x", (b"int", b"-5"))),
        (Comparison("x", Operator.EQ, 0.1), (b"==", b"x", (b"float", b"0.1"))),
        (Comparison("x", Operator.EQ, 1e22), (b"==", b"x", (b"float", b"1e+22"))),
        (Comparison("x", Operator.EQ, -0.0), (b"==", b"x", (b"float", b"0.0"))),
        (Comparison("x", Operator.EQ, True), (b"==", b"x", (b"bool", b"true"))),
        (Comparison("x", Operator.EQ, Instant(-5)), (b"==", b"x", (b"timestamp", b"-5"))),
        (Comparison("x", Operator.EQ, b"\x00\xff"), (b"==", b"x", (b"bytes", b"\x00\xff"))),
        (Comparison("x", Operator.EQ, "é"), (b"==", b"x", (b"string", b"\xc3\xa9"))),
        (Membership("x", frozenset({10, 9, -1})), (b"in", b"x", b"int", b"-1", b"10", b"9")),
        (TextMatch("x", TextTest.TOKEN, "red"), (b"token", b"x", b"red")),
        (Not(Exists("x")), (b"not", (b"exists", b"x"))),
        (AllOf((Exists("x"),)), (b"and", (b"exists", b"x"))),
    ],
)
def test_a_predicate_has_its_one_expression(predicate, expression):
    assert predicate_to_expression(predicate) == expression
    assert predicate_from_expression(expression) == predicate


@pytest.mark.parametrize(
    "expression",
    [
        b"and",
        (),
        ((b"and",),),
        (b"AND",),
        (b"xor", FIVE),
        (Hinted(b"text/plain", b"and"),),
        (b"not",),
        (b"not", FIVE, FIVE),
        (b"exists",),
        (b"exists", b"x", b"y"),
        (b"exists", b"X"),
        (b"exists", b"\xff"),
        (b"exists", b""),
        (b"exists", Hinted(b"text/plain", b"x")),
        (b"exists", (b"x",)),
        (b"==", b"x"),
        (b"==", b"x", b"5"),
        (b"==", b"x", (b"int",)),
        (b"==", b"x", (b"int", b"5", b"5")),
        (b"==", b"x", (b"int", b"5"), b""),
        (b"=", b"x", (b"int", b"5")),
        (b"==", b"x", (b"integer", b"5")),
        (b"==", b"x", (b"null", b"")),
        (b"<", b"x", (b"bool", b"true")),
        (b"prefix", b"x"),
        (b"prefix", b"x", b"\xff"),
        (b"prefix", b"x", b"a\x00"),
        (b"token", b"x", b"a b"),
        (b"token", b"x", b""),
        (b"in", b"x", b"int"),
        (b"in", b"x"),
        (b"in", b"x", b"int", (b"int", b"5")),
    ],
)
def test_whatever_is_not_an_encoding_is_refused(expression):
    with raises("INPUT-PREDICATE-ENCODING"):
        predicate_from_expression(expression)


def _nested(levels):
    expression = FIVE
    for _ in range(levels - 1):
        expression = (b"not", expression)
    return expression


def test_depth_is_limited_at_the_edge():
    assert predicate_from_expression(_nested(DEPTH_MAX))
    with pytest.raises(PredicateTooLarge):
        predicate_from_expression(_nested(DEPTH_MAX + 1))


def test_parts_are_limited_at_the_edge():
    assert predicate_from_expression((b"and",) + (FIVE,) * (NODES_MAX - 1))
    with pytest.raises(PredicateTooLarge):
        predicate_from_expression((b"and",) + (FIVE,) * NODES_MAX)
    numbers = sorted(b"%d" % number for number in range(NODES_MAX))
    with pytest.raises(PredicateTooLarge):
        predicate_from_expression((b"in", b"x", b"int", *numbers))


def test_a_predicate_that_could_not_be_read_back_is_not_written():
    with pytest.raises(PredicateTooLarge):
        predicate_to_expression(AllOf((Exists("x"),) * NODES_MAX))
