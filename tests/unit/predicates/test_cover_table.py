"""What the cover table tells its caller, and what it refuses."""

from __future__ import annotations

from maia.events import AttributeUid
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Comparison, Exists, Operator, Predicate
from maia.testing.refusals import raises

PRICE = AttributeUid("price")


def below(limit: int) -> Predicate:
    return Comparison(PRICE, Operator.LT, limit)


def contradiction() -> Predicate:
    return AllOf((below(1), Comparison(PRICE, Operator.GT, 1)))


def test_a_contradictory_filter_never_represents_anything_but_its_like():
    table = CoverTable()
    assert table.insert("nothing", contradiction()).covered_by is None
    assert table.insert("nothing either", contradiction()).covered_by == "nothing"
    assert table.insert("some", below(1)).now_covers == ("nothing",)
    assert table.maximal() == ("some",)
    assert table.remove("some").now_maximal == ("nothing",)
    assert table.remove("nothing").now_maximal == ("nothing either",)


def test_a_filter_with_more_alternatives_than_we_bracket_is_still_compared():
    table = CoverTable()
    wide = AnyOf(tuple(Comparison(PRICE, Operator.EQ, number) for number in range(200)))
    table.insert("many", wide)
    assert table.insert("one", Comparison(PRICE, Operator.EQ, 150)).covered_by == "many"
    assert table.insert("any", Exists(PRICE)).now_covers == ("many",)
    assert table.insert("many again", wide).covered_by == "any"


def test_an_id_is_used_once():
    table = CoverTable()
    table.insert("one", ALWAYS)
    with raises("INPUT-FILTER-ID-TAKEN"):
        table.insert("one", below(1))
    assert len(table) == 1
    assert "one" in table


def test_an_unknown_id_is_refused():
    for question in (CoverTable().remove, CoverTable().is_maximal, CoverTable().covered_by):
        with raises("INPUT-UNKNOWN-FILTER-ID"):
            question("nobody")


def test_the_table_holds_as_many_filters_as_it_may_and_no_more():
    table = CoverTable(filters_max=2)
    table.insert("one", below(1))
    table.insert("two", below(2))
    with raises("UNAVAILABLE-COVER-TABLE-FULL"):
        table.insert("three", below(3))
    table.remove("one")
    assert table.insert("three", below(3)).now_covers == ("two",)


_FIRST, _SECOND = AttributeUid("first"), AttributeUid("second")
