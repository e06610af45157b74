"""Relations between filters, advertisements and notifications where intuition fails (A62, S12)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import AttributeUid
from maia.predicates.relations import (
    advertisement_covers_advertisement,
    advertisement_covers_notification,
    advertisement_strictly_covers_advertisement,
    advertisement_strictly_covers_notification,
    filter_covers_filter,
    filter_covers_notification,
    filter_strictly_covers_filter,
    filter_strictly_covers_notification,
)
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Not,
    NotAConstraintFilter,
    Operator,
    Predicate,
)
from reference import miklos
from support.constraint_filters import FEW, UIDS, VALUES, constraint_lists, filter_of
from support.screening import screened

X, Y, Z = UIDS

# One attribute at a time sees every value; two together see fewer, and every way of being missing.
ONE_ATTRIBUTE = tuple(miklos.notifications({X: VALUES}))
TWO_ATTRIBUTES = tuple(miklos.notifications({X: FEW, Y: FEW}))

BELOW_1_ABOVE_2 = [Comparison(X, Operator.LT, 1), Comparison(X, Operator.GT, 2)]
TWO_SHAPES = [Comparison(X, Operator.EQ, 1), Comparison(X, Operator.EQ, True)]


def compare_filters(one: list[Predicate], other: list[Predicate], everything: miklos.Universe) -> None:
    wide, narrow = filter_of(one), filter_of(other)
    assert filter_covers_filter(wide=wide, narrow=narrow) == miklos.covers_ss(one, other, everything)
    assert filter_strictly_covers_filter(wide=wide, narrow=narrow) == miklos.strictly_covers_ss(
        one, other, everything
    )
    assert advertisement_covers_advertisement(wide=wide, narrow=narrow) == miklos.covers_aa(
        one, other, everything
    )
    assert advertisement_strictly_covers_advertisement(wide=wide, narrow=narrow) == miklos.strictly_covers_aa(
        one, other, everything
    )


@pytest.mark.laws
@given(constraint_lists(uids=(X,), size_max=3), constraint_lists(uids=(X,), size_max=3))
@example([], [])
@example([], BELOW_1_ABOVE_2)
@example(BELOW_1_ABOVE_2, [])
@example(BELOW_1_ABOVE_2, BELOW_1_ABOVE_2)
@example([Exists(X)], TWO_SHAPES)
def test_filters_on_one_attribute_relate_as_all_its_values_say(one, other):
    """A62: the four relations between filters agree with the definitions over every value of every kind."""
    compare_filters(one, other, ONE_ATTRIBUTE)


@pytest.mark.laws
@given(constraint_lists(text=False), constraint_lists(text=False))
@example([], [Exists(X)])
@example([Exists(X)], [])
@example([*BELOW_1_ABOVE_2, Exists(Y)], [Exists(X)])
@example([Exists(Y)], BELOW_1_ABOVE_2)
@example([Exists(X), Exists(Y)], [Comparison(X, Operator.EQ, 1)])
def test_filters_on_two_attributes_relate_as_all_small_notifications_say(one, other):
    """A62: so do filters on several attributes, those that contradict themselves included."""
    compare_filters(one, other, TWO_ATTRIBUTES)


@pytest.mark.laws
@given(constraint_lists(), st.sampled_from(TWO_ATTRIBUTES))
@example([], ())
@example([Exists(X)], ())
@example([], ((X, 1),))
@example(TWO_SHAPES, ((X, 1),))
def test_filters_and_notifications_relate_as_defined(constraints, notification):
    """A62: the four relations towards a notification, and screening, agree with definitions 1, 2, 5 and 8."""
    written, event = filter_of(constraints), dict(notification)
    assert filter_covers_notification(filter=written, notification=event) == miklos.covers_sn(
        constraints, notification
    )
    assert filter_strictly_covers_notification(
        filter=written, notification=event
    ) == miklos.strictly_covers_sn(constraints, notification)
    assert advertisement_covers_notification(advertisement=written, notification=event) == miklos.covers_an(
        constraints, notification
    )
    assert advertisement_strictly_covers_notification(
        advertisement=written, notification=event
    ) == miklos.strictly_covers_an(constraints, notification)


@pytest.mark.laws
@given(constraint_lists(), st.sampled_from(TWO_ATTRIBUTES))
@example([], ((X, 1),))
@example([Exists(X)], ((X, 1), (Y, 1)))
def test_screening_is_the_one_part_that_definition_8_allows(constraints, notification):
    """A62: there is at most one screening, and it is what a broker's View shows under a strict bound."""
    parts = miklos.screenings(constraints, notification)
    seen = screened(dict(notification), filter=filter_of(constraints))
    assert ([] if seen is None else [tuple(seen.items())]) == parts
    assert len(parts) == (seen is not None)


def test_an_empty_filter_covers_everything_and_strictly_covers_only_nothing():
    """A62: vacuous truth of definition 1, and its end in definition 2."""
    assert filter_covers_notification(filter=ALWAYS, notification={X: 1})
    assert filter_covers_notification(filter=ALWAYS, notification={})
    assert filter_strictly_covers_notification(filter=ALWAYS, notification={})
    assert not filter_strictly_covers_notification(filter=ALWAYS, notification={X: 1})


def test_an_empty_notification_is_covered_by_every_advertisement():
    """S12: definition 5 is vacuously true, and the strict version closes the door."""
    offer = Comparison(X, Operator.LT, 5)
    assert advertisement_covers_notification(advertisement=offer, notification={})
    assert not advertisement_strictly_covers_notification(advertisement=offer, notification={})
    assert not filter_covers_notification(filter=offer, notification={})


def test_a_null_attribute_is_a_missing_one():
    """A59, A62: null is neither an attribute to be covered nor a value that meets a constraint."""
    asked = Comparison(X, Operator.EQ, 1)
    assert filter_strictly_covers_notification(filter=asked, notification={X: 1, Y: None})
    assert advertisement_covers_notification(advertisement=asked, notification={X: 1, Y: None})
    assert not filter_covers_notification(filter=Exists(X), notification={X: None})
    assert screened({X: 1, Y: None}, filter=AllOf((asked,))) == {X: 1}


def test_a_contradictory_filter_is_covered_by_all_and_covers_none():
    """A62: it covers no notification, so everything covers what it covers."""
    contradiction = AllOf(tuple(BELOW_1_ABOVE_2))
    for wide in (ALWAYS, Exists(Y), contradiction):
        assert filter_covers_filter(wide=wide, narrow=contradiction)
        assert filter_strictly_covers_filter(wide=wide, narrow=contradiction)
    assert not filter_covers_filter(wide=contradiction, narrow=Exists(X))


def test_a_value_of_another_kind_is_never_screened_in():
    """A58, A62: `True`, `1` and `1.0` are equal in Python and three different values here."""
    asked = Comparison(X, Operator.EQ, 1)
    for value in (True, 1.0, "1"):
        assert screened({X: value}, filter=asked) is None
        assert not advertisement_covers_notification(advertisement=asked, notification={X: value})


@pytest.mark.parametrize(
    "predicate",
    [
        AnyOf((Exists(X), Exists(Y))),
        NEVER,
        Not(ALWAYS),
        Not(AllOf((Exists(X), Exists(Y)))),
        Not(Exists(X)),
        Not(AnyOf((Comparison(X, Operator.EQ, 1), Exists(Y)))),
    ],
)
def test_what_is_no_collection_of_constraints_is_refused(predicate):
    """A62: a disjunction or an absence is never silently read as a constraint."""
    with pytest.raises(NotAConstraintFilter):
        filter_covers_filter(wide=predicate, narrow=Exists(X))
    with pytest.raises(NotAConstraintFilter):
        advertisement_covers_advertisement(wide=Exists(X), narrow=predicate)
    with pytest.raises(NotAConstraintFilter):
        screened({X: 1}, filter=predicate)


def test_negation_is_pushed_to_the_constraints_before_anything_is_refused():
    """A59, A62: `not (a or b)` and `not not a` are conjunctions and keep their three-valued meaning."""
    neither = Not(AnyOf((Comparison(X, Operator.EQ, 1), Not(Not(Comparison(X, Operator.EQ, 2))))))
    assert filter_covers_notification(filter=neither, notification={X: 3})
    assert not filter_covers_notification(filter=neither, notification={X: 2})
    assert not filter_covers_notification(filter=neither, notification={})


def test_a_deep_or_large_filter_is_refused_before_it_costs_anything():
    """A64: size limits come first."""
    deep: Predicate = Exists(X)
    for _ in range(100_000):
        deep = Not(deep)
    wide = AllOf(tuple(Comparison(AttributeUid("x"), Operator.NE, n) for n in range(20_000)))
    for predicate in (deep, wide):
        with pytest.raises(Exception, match="predicate") as refusal:
            filter_covers_filter(wide=predicate, narrow=Exists(Y))
        assert getattr(refusal.value, "code", "") == "INPUT-PREDICATE-SIZE"
