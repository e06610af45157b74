"""The cover table gives the answers of comparing every pair, whatever the order of changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from maia.events import AttributeUid
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.covering.covers import covers
from maia.predicates.covering.sides import box_of, proved_to_cover
from maia.predicates.syntax import ALWAYS, NEVER, AllOf, AnyOf, Comparison, Exists, Not, Operator, Predicate
from reference.pairwise_poset import PairwisePoset
from support.constraint_filters import UIDS, constraint_lists, filter_of


def any_filters() -> st.SearchStrategy[Predicate]:
    """Mostly collections of constraints; now and then a filter of another shape."""
    plain = constraint_lists(size_max=3).map(filter_of)
    either = st.tuples(plain, plain).map(AnyOf)
    absent = st.tuples(plain, st.sampled_from(UIDS).map(lambda uid: Not(Exists(uid)))).map(AllOf)
    return st.one_of(plain, plain, plain, either, absent, st.sampled_from([ALWAYS, NEVER]))


@pytest.mark.laws
@given(any_filters(), any_filters())
def test_a_proof_by_sides_is_the_answer_of_covering(wide, narrow):
    assert proved_to_cover(wide=box_of(wide), narrow=box_of(narrow)) == covers(wide=wide, narrow=narrow)


@pytest.mark.laws
@given(any_filters(), any_filters())
@example(Comparison(UIDS[0], Operator.EQ, 0), Comparison(UIDS[0], Operator.EQ, 3))
@example(Comparison(UIDS[0], Operator.EQ, 3), Comparison(UIDS[0], Operator.EQ, 0))
@example(Comparison(UIDS[0], Operator.EQ, 0), Comparison(UIDS[0], Operator.EQ, "a"))
def test_the_index_leaves_no_coverer_out(one, other):
    for wide, narrow in ((AnyOf((one, other)), one), (one, AllOf((one, other)))):
        table = CoverTable()
        table.insert("wide", wide)
        table.insert("narrow", narrow)
        assert "wide" in table.coverers_of("narrow")
        assert "narrow" in table.covered_under("wide")


class TableBesidePoset(RuleBasedStateMachine):
    """The same insertions and removals, in the table and in the pairwise poset."""

    ids = Bundle("ids")

    @initialize()
    def start_empty(self) -> None:
        self.table = CoverTable()
        self.poset = PairwisePoset()
        self.count = 0

    @rule(target=ids, filter_=any_filters())
    def insert(self, filter_: Predicate) -> str:
        self.count += 1
        new = f"filter {self.count}"
        is_covered, now_covers = self.poset.insert(new, filter_)
        answer = self.table.insert(new, filter_)
        assert (answer.covered_by is not None) == is_covered
        assert answer.now_covers == now_covers
        if answer.covered_by is not None:
            assert answer.covered_by in self.poset.coverers[new]
        return new

    @rule(target=ids, old=ids)
    def insert_again(self, old: str) -> str:
        return self.insert(self.poset.filters.get(old, Exists(AttributeUid("x"))))

    @rule(gone=consumes(ids))
    def remove(self, gone: str) -> None:
        assert self.table.remove(gone).now_maximal == self.poset.remove(gone)

    @rule(gone=st.lists(consumes(ids), max_size=6))
    def remove_at_one_moment(self, gone: list[str]) -> None:
        before = self.poset.maximal()
        for one in gone:
            self.poset.remove(one)
        now_maximal = tuple(one for one in self.poset.maximal() if one not in before)
        assert self.table.remove_all(gone).now_maximal == now_maximal

    @precondition(lambda self: hasattr(self, "table"))
    @invariant()
    def the_same_filters_are_maximal(self) -> None:
        assert list(self.table.maximal()) == [
            one for one in self.poset.filters if one in self.poset.maximal()
        ]
        for one in self.poset.filters:
            assert self.table.is_maximal(one) == (one in self.table.maximal())
            assert set(self.table.coverers_of(one)) == self.poset.coverers[one]
            assert (self.table.covered_by(one) is None) == self.table.is_maximal(one)

    @precondition(lambda self: hasattr(self, "table"))
    @invariant()
    def every_filter_is_covered_by_the_one_that_stands_for_it(self) -> None:
        for one in self.poset.filters:
            keeper = self.table.covered_by(one)
            if keeper is not None:
                assert self.table.is_maximal(keeper)
                assert one in self.table.covered_under(keeper)


# Every step compares all pairs, so fewer histories than a law has cases, and shorter ones.
TableBesidePoset.TestCase.settings = settings(
    max_examples=max(1, settings().max_examples // 2),
    stateful_step_count=16,
    suppress_health_check=[HealthCheck.filter_too_much],  # of few histories, many may begin with a removal
)
TestTableBesidePoset = pytest.mark.laws(TableBesidePoset.TestCase)


def _one_asks(asked: tuple[AttributeUid, Operator, int, AttributeUid | None]) -> Predicate:
    uid, operator, than, present = asked
    compared = Comparison(uid, operator, than)
    return compared if present is None else AllOf((compared, Comparison(present, Operator.GT, than % 3)))


def _many_filters() -> st.SearchStrategy[list[Predicate]]:
    """Values and ranges of two attributes: so many that what moves in the table moves together."""
    uid, operator = st.sampled_from(UIDS[:2]), st.sampled_from([Operator.GT, Operator.EQ, Operator.EQ])
    asked = st.tuples(uid, operator, st.integers(0, 60), st.sampled_from([None, *UIDS[:2]])).map(_one_asks)
    points = st.tuples(st.just(UIDS[0]), st.just(Operator.EQ), st.integers(0, 60), st.just(UIDS[1])).map(
        _one_asks
    )
    return st.lists(asked, min_size=20, max_size=50) | st.lists(points, min_size=20, max_size=50)


@pytest.mark.laws
@given(_many_filters(), st.lists(st.integers(0, 49), max_size=10))
def test_what_many_filters_leave_behind_is_placed_as_comparing_pairs_would(asked, gone):
    table, poset = CoverTable(), PairwisePoset()
    for number, filter_ in enumerate([ALWAYS, *asked]):
        table.insert(f"{number}", filter_)
        poset.insert(f"{number}", filter_)
    _leave(table, poset, ["0"])
    assert table.insert("back", ALWAYS).now_covers == poset.insert("back", ALWAYS)[1]
    _leave(table, poset, ["back", *{f"{1 + place % len(asked)}" for place in gone}])
    _leave(table, poset, list(table.maximal()))


def _leave(table: CoverTable, poset: PairwisePoset, leaving: list[str]) -> None:
    for one in leaving:
        poset.remove(one)
    assert set(table.remove_all(leaving).now_maximal) <= set(poset.maximal())
    assert set(table.maximal()) == set(poset.maximal())
    for one in poset.filters:
        assert table.covered_by(one) in {None, *poset.coverers[one]}
        assert set(table.coverers_of(one)) == poset.coverers[one]
