"""What the cover table tells its caller, and what it refuses."""

from __future__ import annotations

import pytest

from maia.events import AttributeUid
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.syntax import ALWAYS, AllOf, AnyOf, Comparison, Exists, Operator, Predicate
from maia.testing.refusals import raises
from reference.pairwise_poset import PairwisePoset

PRICE = AttributeUid("price")
MESSAGE = AttributeUid("message")


def below(limit: int) -> Predicate:
    return Comparison(PRICE, Operator.LT, limit)


def about(message: str) -> Predicate:
    return Comparison(MESSAGE, Operator.EQ, message)


def contradiction() -> Predicate:
    return AllOf((below(1), Comparison(PRICE, Operator.GT, 1)))


def test_a_narrower_filter_is_kept_under_the_wider_one():
    table = CoverTable()
    assert table.insert("wide", below(100)).covered_by is None
    assert table.insert("narrow", below(10)).covered_by == "wide"
    assert table.maximal() == ("wide",)


def test_a_wider_filter_displaces_the_maximal_ones_that_it_covers():
    table = CoverTable()
    for limit in (10, 20):
        table.insert(f"tea below {limit}", AllOf((about("tea"), below(limit))))
    table.insert("coffee", AllOf((about("coffee"), below(5))))
    assert table.maximal() == ("tea below 20", "coffee")
    assert table.insert("cheap", below(100)).now_covers == ("tea below 20", "coffee")
    assert table.maximal() == ("cheap",)


def test_removal_uncovers_what_nothing_else_covers():
    table = CoverTable()
    table.insert("cheap", below(100))
    table.insert("tea", AllOf((about("tea"), below(20))))
    table.insert("green tea", AllOf((about("tea"), below(10))))
    table.insert("coffee", AllOf((about("coffee"), below(5))))
    assert table.remove("cheap").now_maximal == ("tea", "coffee")
    assert table.covered_by("green tea") == "tea"


def test_removal_of_a_covered_filter_uncovers_nothing():
    table = CoverTable()
    for limit in (1, 10, 100):
        table.insert(f"{limit}", below(limit))
    assert table.remove("10").now_maximal == ()
    assert table.covered_by("1") == "100"


def test_of_equal_filters_the_first_one_represents_the_others():
    table = CoverTable()
    table.insert("first", below(10))
    assert table.insert("second", Comparison(PRICE, Operator.LE, 9)).covered_by == "first"
    assert table.insert("third", below(10)).now_covers == ()
    assert table.remove("first").now_maximal == ("second",)
    assert table.covered_by("third") == "second"


def test_a_contradictory_filter_never_represents_anything_but_its_like():
    table = CoverTable()
    assert table.insert("nothing", contradiction()).covered_by is None
    assert table.insert("nothing either", contradiction()).covered_by == "nothing"
    assert table.insert("some", below(1)).now_covers == ("nothing",)
    assert table.maximal() == ("some",)
    assert table.remove("some").now_maximal == ("nothing",)
    assert table.remove("nothing").now_maximal == ("nothing either",)


def test_the_empty_filter_covers_all_and_is_covered_by_none():
    table = CoverTable()
    table.insert("tea", about("tea"))
    assert table.insert("all", ALWAYS).now_covers == ("tea",)
    assert table.coverers_of("tea") == ("all",)


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


@pytest.mark.parametrize("narrower", [0, 5, 40])
@pytest.mark.parametrize("twice", [0, 3])
@pytest.mark.parametrize("ranges", [0, 2])
def test_what_a_wide_filter_kept_represents_itself_when_it_leaves_unless_another_covers_it(
    narrower, twice, ranges
):
    """So many that they change their places together: values, the same again, narrower ones, and ranges."""
    asked = [Comparison(_FIRST, Operator.EQ, value) for value in range(40)]
    asked += [Comparison(_FIRST, Operator.EQ, value) for value in range(twice)]
    asked += [
        AllOf((Comparison(_FIRST, Operator.EQ, value), Comparison(_SECOND, Operator.GT, 0)))
        for value in range(narrower)
    ]
    asked += [Comparison(_FIRST, Operator.GT, 37 - number) for number in range(ranges)]
    table, poset = CoverTable(), PairwisePoset()
    for number, filter_ in enumerate([ALWAYS, *reversed(asked)]):
        table.insert(f"{number}", filter_)
        poset.insert(f"{number}", filter_)
    for wide in ("0", "again"):
        if wide == "again":
            assert table.insert(wide, ALWAYS).now_covers == poset.insert(wide, ALWAYS)[1]
            assert table.maximal() == (wide,)
        assert set(table.remove(wide).now_maximal) == set(poset.remove(wide))
        assert set(table.maximal()) == set(poset.maximal())
        assert all(set(table.coverers_of(one)) == poset.coverers[one] for one in poset.filters)
