"""The cover table, asked about filters of other tables, and where proofs run out."""

from __future__ import annotations

import pytest

from maia.predicates import parse_predicate
from maia.predicates.covering import cover_table
from maia.predicates.covering.cover_table import CoverTable, Removed
from maia.predicates.covering.sides import Box, bounds_rule_out, box_of, proved_to_cover


def table_of(**filters: str) -> CoverTable:
    table = CoverTable()
    for name, text in filters.items():
        table.insert(name, parse_predicate(text))
    return table


def test_a_freed_filter_that_displaces_a_stranger_is_reported(monkeypatch: pytest.MonkeyPatch):
    widest, wide, narrow = (f'contains(plate, "{letters}")' for letters in ("a", "ab", "abc"))
    unproved = (parse_predicate(widest), parse_predicate(narrow))

    def out_of_steps(*, wide: Box, narrow: Box) -> bool:
        return (wide.filter, narrow.filter) != unproved and proved_to_cover(wide=wide, narrow=narrow)

    monkeypatch.setattr(cover_table, "proved_to_cover", out_of_steps)
    table = table_of(widest=widest, narrow=narrow, wide=wide)
    assert table.maximal() == ("widest", "narrow")
    assert table.remove("widest") == Removed(now_maximal=("wide",), now_covered=("narrow",))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [("speed > 40", "speed > 50"), ("exists(x)", "x == 1"), ("speed > 50", "a == 1 or b == 1")],
)
def test_bounds_leave_the_rest_undecided(wide: str, narrow: str):
    assert not bounds_rule_out(wide=box_of(parse_predicate(wide)), narrow=box_of(parse_predicate(narrow)))
