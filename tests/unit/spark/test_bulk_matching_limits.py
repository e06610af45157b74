"""Bulk matching keeps its limits, and says what to do about them."""

from __future__ import annotations

import pytest

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Kind
from maia.policy.view import View, Window
from maia.predicates.syntax import (
    ALWAYS,
    AllOf,
    AnyOf,
    Comparison,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
    TextTest,
)
from maia.spark.matching import bulk
from maia.spark.matching import tables as bulk_matching_tables
from maia.spark.matching.boxes import BOXES_MAX, boxes_of
from maia.spark.matching.bulk import BulkMatcher
from maia.spark.matching.tables import Subscription, opened_by, shown_words, subscription_rows
from maia.testing.refusals import raises
from maia.views import ViewTooLarge

PLATE, SPEED = AttributeUid("plate"), AttributeUid("speed")
STORED = {PLATE: Kind.STRING, SPEED: Kind.INT}


def subscriptions(*filters: Predicate) -> list[Subscription]:
    return [
        Subscription(f"s{at}", "sighting", View((Window(one, ALL_ATTRIBUTES),)))
        for at, one in enumerate(filters)
    ]


def test_equal_views_are_one_class_whatever_their_validity(spark):
    view = View((Window(ALWAYS, ALL_ATTRIBUTES),))
    later = View(view.windows, until=None)
    number, flag = Comparison(SPEED, Operator.EQ, 1), Comparison(SPEED, Operator.EQ, True)
    given = [Subscription("a", "t", view), Subscription("b", "t", later), Subscription("c", "u", view)]
    matcher = BulkMatcher(spark, [*given, *subscriptions(number, flag)], STORED)
    classes: dict[int, set[str]] = {}
    for number_of, name in matcher.members.collect():
        classes.setdefault(number_of, set()).add(name)
    # A literal keeps its kind in a class.
    assert sorted(map(sorted, classes.values())) == [["a", "b"], ["c"], ["s0"], ["s1"]]


def test_filters_without_a_key_are_bounded(spark, monkeypatch):
    monkeypatch.setattr(bulk, "RESIDUAL_MAX", 2)
    irregular = [TextMatch(PLATE, TextTest.CONTAINS, word) for word in ("a", "b", "c")]
    mixed = AllOf((Comparison(SPEED, Operator.EQ, 30), TextMatch(PLATE, TextTest.CONTAINS, "X")))
    found = BulkMatcher(spark, subscriptions(*irregular[:2], mixed), STORED)._filters
    assert {one for _, one in found.residual.values()} == set(irregular[:2])
    # A text beside a value is found by the value and asked.
    assert list(found.cases.values()) == [mixed]
    with raises("INPUT-BULK-IRREGULAR", match="more than 2 different filters"):
        BulkMatcher(spark, subscriptions(*irregular), STORED)


def test_subscriptions_are_bounded(monkeypatch):
    monkeypatch.setattr(bulk_matching_tables, "SUBSCRIPTIONS_MAX", 1)
    with raises("INPUT-BULK-SUBSCRIPTIONS"):
        subscription_rows(subscriptions(ALWAYS, ALWAYS))


def test_a_filter_with_too_many_boxes_is_bracketed_by_fewer():
    words = Membership(PLATE, frozenset(map(str, range(100))))
    numbers = Membership(SPEED, frozenset(range(0, 200, 2)))
    found = boxes_of(AllOf((words, numbers)), STORED)
    assert 1 <= len(found.boxes) <= BOXES_MAX
    assert not found.is_exact


def test_an_interest_that_grows_beyond_the_language_is_refused():
    many = AnyOf(tuple(Comparison(SPEED, Operator.EQ, number) for number in range(200)))
    windows = (Window(many, frozenset({PLATE})), Window(Not(many), frozenset({SPEED})))
    interest = AllOf(tuple(Comparison(PLATE, Operator.NE, str(number)) for number in range(100)))
    with pytest.raises(ViewTooLarge):
        opened_by(View(windows, interest), STORED)


def test_more_attributes_than_a_number_has_bits_take_two_numbers():
    many = {AttributeUid(f"a{at}"): Kind.INT for at in range(64)}
    assert shown_words({AttributeUid("a0"), AttributeUid("a63")}, many) == [1, 1]
