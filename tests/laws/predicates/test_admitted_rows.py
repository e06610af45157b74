"""Going down the columns admits the rows that `admits` admits, one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.events import AttributeUid, Column, Frame, Kind
from maia.predicates import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
    admits,
)
from maia.predicates.meaning import QUICK_ATOMS_MAX, admitted_rows, is_quickly_read
from support.predicates import KINDS, conjunctions, events, predicates

pytestmark = pytest.mark.laws

SPEED = AttributeUid("speed")


def frame_by_columns(rows, kinds):
    return Frame(
        len(rows), {uid: Column(kind, tuple(row.get(uid) for row in rows)) for uid, kind in kinds.items()}
    )


@given(predicates() | predicates(KINDS) | conjunctions(KINDS), st.lists(events(KINDS), max_size=12))
@example(ALWAYS, [{}, {}])
@example(NEVER, [{}, {}])
@example(Not(Exists(SPEED)), [{}])
@example(Not(Comparison(SPEED, Operator.EQ, 3)), [{}])
def test_the_rows_are_those_that_pass_one_by_one(predicate, rows):
    frame = frame_by_columns(rows, KINDS)
    assert list(admitted_rows(predicate, frame)) == [
        at for at, event in enumerate(frame.events()) if admits(predicate, event)
    ]


@pytest.mark.parametrize("literal", [1.0, True])
def test_equal_numbers_of_another_kind_are_unknown(literal):
    frame = Frame(2, {SPEED: Column(Kind.INT, (1, 0))})
    assert list(admitted_rows(Comparison(SPEED, Operator.EQ, literal), frame)) == []
    assert list(admitted_rows(Membership(SPEED, frozenset({literal})), frame)) == []


def test_a_column_that_is_not_there_is_unknown_in_every_row():
    frame = Frame(3, {})
    assert list(admitted_rows(Comparison(SPEED, Operator.NE, 1), frame)) == []
    assert list(
        admitted_rows(AnyOf((Not(Comparison(SPEED, Operator.EQ, 1)), Not(Exists(SPEED)))), frame)
    ) == [0, 1, 2]


def test_short_filters_without_negation_are_quickly_read():
    fast, text = Comparison(SPEED, Operator.GT, 3), TextMatch(AttributeUid("plate"), TextTest.PREFIX, "AE")
    assert is_quickly_read(ALWAYS)
    assert is_quickly_read(AllOf((fast, AnyOf((text, Exists(SPEED))))))
    assert not is_quickly_read(AllOf((fast, Not(text))))


def test_a_long_filter_is_not_quickly_read():
    each = Comparison(SPEED, Operator.GT, 3)
    assert is_quickly_read(AllOf((each,) * (QUICK_ATOMS_MAX - 1)))
    assert not is_quickly_read(AllOf((each,) * QUICK_ATOMS_MAX))
    assert not is_quickly_read(AnyOf((AllOf((each,) * 10), AllOf((each,) * 10))))
