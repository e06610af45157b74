"""Bounds rule out only what covering denies, and a table answers about strangers as about its own."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maia.predicates import Predicate, covers, provably_empty
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.covering.sides import bounds_rule_out, box_of
from support.predicates import KINDS, conjunctions, predicates

pytestmark = pytest.mark.laws


@given(predicates(), predicates())
def test_what_bounds_rule_out_is_not_covered(wide: Predicate, narrow: Predicate) -> None:
    assume(not provably_empty(narrow))
    assert not (
        bounds_rule_out(wide=box_of(wide), narrow=box_of(narrow)) and covers(wide=wide, narrow=narrow)
    )


@given(st.lists(conjunctions(KINDS, max_size=3), max_size=6), conjunctions(KINDS, max_size=3))
def test_a_stranger_is_compared_with_every_maximal_filter(kept: list[Predicate], asked: Predicate) -> None:
    table = CoverTable()
    for number, predicate in enumerate(kept):
        table.insert(str(number), predicate)
    box = box_of(asked)
    assume(not box.is_empty)
    maximal = [one for one in table.maximal() if not table.box_of(one).is_empty]
    covering = [one for one in maximal if covers(wide=table.filter_of(one), narrow=asked)]
    covered = [one for one in maximal if covers(wide=asked, narrow=table.filter_of(one))]
    assert list(table.maximal_covering(box)) == covering
    assert list(table.maximal_covered_by(box)) == covered
