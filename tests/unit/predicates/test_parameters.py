"""`$name` in a predicate: a value that is handed in beside the text, and never becomes part of it."""

from __future__ import annotations

import pytest

from maia.events import Attribute, AttributeUid, Instant, Kind, vocabulary_of
from maia.predicates import (
    AllOf,
    BadPredicateText,
    Comparison,
    Membership,
    Operator,
    TextMatch,
    TextTest,
    WrongLiteral,
    parse_predicate,
)

PLATE, SPEED = AttributeUid("p"), AttributeUid("s")
SIGHTING = vocabulary_of((Attribute("plate", PLATE, Kind.STRING), Attribute("speed", SPEED, Kind.INT)))
VALUES = {"mine": "AE05 XYZ", "limit": 30, "on": True, "at": Instant(0)}


def test_a_parameter_stands_wherever_a_literal_can():
    text = 'plate == $mine and speed > $limit and plate in ($mine, "B") and prefix(plate, $mine)'
    assert parse_predicate(text, SIGHTING, VALUES) == AllOf(
        (
            Comparison(PLATE, Operator.EQ, "AE05 XYZ"),
            Comparison(SPEED, Operator.GT, 30),
            Membership(PLATE, frozenset({"AE05 XYZ", "B"})),
            TextMatch(PLATE, TextTest.PREFIX, "AE05 XYZ"),
        )
    )


def test_without_a_vocabulary_a_parameter_keeps_its_kind():
    assert parse_predicate("x == $on", None, VALUES) == Comparison(AttributeUid("x"), Operator.EQ, True)


@pytest.mark.parametrize("hostile", ['" or plate != "', "$mine", "\\", "x) or (plate != y", "#", "é\n"])
def test_whatever_the_value_holds_it_is_one_value(hostile):
    found = parse_predicate("plate == $mine", SIGHTING, {"mine": hostile})
    assert found == Comparison(PLATE, Operator.EQ, hostile)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("plate == $limit", "`$limit`: a string was expected, and a int was given"),
        ("speed == $on", "`$on`: a int was expected, and a bool was given"),
        ("plate == $mne", "nothing is handed in for `$mne` (the nearest is `$mine`)"),
        ("plate == $", "nothing is handed in for `$`"),
        ("plate == $ mine", "nothing is handed in for `$`"),
        ("token(plate, $mine)", "a token is written out"),
        ("$mine == plate", "expected an attribute"),
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(text, sentence):
    with pytest.raises(BadPredicateText) as refusal:
        parse_predicate(text, SIGHTING, VALUES)
    assert sentence in refusal.value.message
    assert sentence in refusal.value.sentence


def test_a_filter_without_parameters_knows_none():
    with pytest.raises(WrongLiteral, match="nothing is handed in for"):
        parse_predicate("plate == $mine", SIGHTING)
