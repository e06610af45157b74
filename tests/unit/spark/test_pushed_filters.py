"""What Spark pushes down narrows a subscription, and never loses a row that Spark would keep."""

from __future__ import annotations

import operator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from maia.events import Attribute, Event, Instant, Kind, attribute_uid, vocabulary_of
from maia.predicates import verdict
from maia.spark.source.filters import LITERALS_MAX, pushed_predicate, pushed_predicates

PLATE, SPEED = attribute_uid("1"), attribute_uid("2")
SEEN, IS_LATE = attribute_uid("3"), attribute_uid("4")
VOCABULARY = vocabulary_of(
    (
        Attribute("plate", PLATE, Kind.STRING),
        Attribute("speed", SPEED, Kind.INT),
        Attribute("seen", SEEN, Kind.TIMESTAMP),
        Attribute("is_late", IS_LATE, Kind.BOOL),
    )
)

words = st.text("ab", max_size=3)
numbers = st.integers(-2, 2)
leaves = st.one_of(
    st.builds(lambda one: spark.EqualTo(("plate",), one), words),
    st.builds(lambda one: spark.EqualTo(("speed",), one), numbers),
    st.builds(lambda one: spark.GreaterThan(("speed",), one), numbers),
    st.builds(lambda one: spark.GreaterThanOrEqual(("speed",), one), numbers),
    st.builds(lambda one: spark.LessThan(("speed",), one), numbers),
    st.builds(lambda one: spark.LessThanOrEqual(("plate",), one), words),
    st.builds(lambda some: spark.In(("speed",), tuple(some)), st.lists(numbers, min_size=1, max_size=3)),
    st.builds(lambda one: spark.StringStartsWith(("plate",), one), words),
    st.builds(lambda one: spark.StringEndsWith(("plate",), one), words),
    st.builds(lambda one: spark.StringContains(("plate",), one), words),
    st.sampled_from([spark.IsNull(("speed",)), spark.IsNotNull(("plate",))]),
)
filters = leaves | st.builds(spark.Not, leaves)
events = st.fixed_dictionaries({PLATE: st.none() | words, SPEED: st.none() | numbers})


SAYS = {
    spark.EqualTo: operator.eq,
    spark.GreaterThan: operator.gt,
    spark.GreaterThanOrEqual: operator.ge,
    spark.LessThan: operator.lt,
    spark.LessThanOrEqual: operator.le,
    spark.In: lambda value, others: value in others,
    spark.StringStartsWith: str.startswith,
    spark.StringEndsWith: str.endswith,
    spark.StringContains: operator.contains,
}


def keeps(pushed: spark.Filter, event: Event) -> bool | None:
    """Say what Spark says of a row: True, False, or None for unknown."""
    names = {"plate": PLATE, "speed": SPEED}
    if isinstance(pushed, spark.Not):
        inner = keeps(pushed.child, event)
        return None if inner is None else not inner
    value = event[names[pushed.attribute[0]]]
    if isinstance(pushed, spark.IsNull | spark.IsNotNull):
        return (value is None) == isinstance(pushed, spark.IsNull)
    return None if value is None else SAYS[type(pushed)](value, pushed.value)


@pytest.mark.laws
@given(filters, events)
def test_a_pushed_filter_says_what_spark_says(pushed: spark.Filter, event: Event) -> None:
    predicate = pushed_predicate(pushed, VOCABULARY)
    assert predicate is not None
    assert verdict(predicate, event) == keeps(pushed, event)


def test_moments_are_pushed_as_moments() -> None:
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    predicate = pushed_predicate(spark.GreaterThan(("seen",), noon), VOCABULARY)
    assert predicate is not None
    moment = int(noon.timestamp()) * 1_000_000
    assert verdict(predicate, {SEEN: Instant(moment + 1)}) is True
    assert verdict(predicate, {SEEN: Instant(moment)}) is False


@pytest.mark.parametrize(
    "left",
    [
        spark.EqualTo(("plate",), 1),
        spark.EqualTo(("speed",), True),
        spark.EqualTo(("speed",), 1.0),
        spark.EqualTo(("speed",), 1 << 70),
        spark.EqualTo(("unknown",), 1),
        spark.EqualTo(("plate", "inner"), "a"),
        spark.EqualTo(("plate",), "a\0b"),
        spark.EqualTo(("seen",), datetime(2026, 11, 15)),  # noqa: DTZ001 - without a zone, on purpose
        spark.EqualNullSafe(("plate",), None),
        spark.GreaterThan(("is_late",), False),
        spark.In(("speed",), (1, None)),
        spark.Not(spark.In(("speed",), (1, None))),
        spark.In(("speed",), ()),
        spark.In(("speed",), tuple(range(LITERALS_MAX + 1))),
        spark.Not(spark.EqualTo(("plate",), 1)),
    ],
)
def test_what_has_no_exact_counterpart_is_left_to_spark(left: spark.Filter) -> None:
    assert pushed_predicate(left, VOCABULARY) is None
    assert pushed_predicates([left, spark.IsNotNull(("speed",))], VOCABULARY) != ()
