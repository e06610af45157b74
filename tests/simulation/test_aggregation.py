"""Filters are merged as far as it pays, between real brokers, and nothing is lost by it."""

from __future__ import annotations

from maia.client.entries import EntryStage
from maia.routing.aggregation.budget import BudgetRange
from support.city import SpillingCity, random_filter

ALL_MERGED = BudgetRange(1, 1, 1)
TUNED = BudgetRange(least=1 << 11, most=1 << 16, first=1 << 14)


def test_the_budget_settles_where_both_cost_less_than_without_merging_and_than_with_all_merged():
    """Three cities see the same, period by period in turn; bytes are those that cross the link."""
    cities = {
        "none": SpillingCity(5, None),
        "all": SpillingCity(5, ALL_MERGED),
        "tuned": SpillingCity(5, TUNED),
    }
    for city in cities.values():
        for _ in range(40):
            city.subscribe(random_filter(city.chance))
        city.settle()
    crossed: dict[str, list[int]] = {name: [] for name in cities}
    for _ in range(44):
        for name, city in cities.items():
            crossed[name].append(city.period(rows=500, changes=4))
    settled = {name: sum(some[20:]) for name, some in crossed.items()}
    assert settled["tuned"] < settled["none"]
    assert settled["tuned"] < settled["all"]
    tuned = cities["tuned"]
    assert TUNED.least <= tuned.aggregate.budget.bytes <= TUNED.most
    assert not tuned.aggregate.announcements.is_exact
    none, merged, best = (
        sorted((ref, event[city.moment]) for ref, event in city.rows) for city in cities.values()
    )
    assert none == merged == best  # every office was delivered the same


def test_very_many_filters_of_one_period_are_merged_before_it_ends_and_nothing_is_lost():
    cities = SpillingCity(7, None), SpillingCity(7, TUNED)
    for city in cities:
        city.subscribe(random_filter(city.chance))
        city.settle()
        city.aggregate.merged_from = 50  # in place of some thousand, which a test had better not sign
        began = city.aggregate.tuned_at
        for _ in range(60):
            city.subscribe(random_filter(city.chance))
        crowd = [entry for entry, _ in city.wanted.values()]
        city.network.run_until(
            lambda all_=crowd: all(one.stage is EntryStage.ACCEPTED for one in all_), at_most=3
        )
        city.network.run_for(0.1)
        assert city.aggregate.tuned_at == began, "the period has not ended"
    none, merged = cities
    assert none.aggregate.announcements.is_exact
    assert not merged.aggregate.announcements.is_exact
    assert len(merged.aggregate.announcements) < len(none.aggregate.announcements)
    for city in cities:
        city.period(rows=300, changes=6)
        city.period(rows=300, changes=6)
    seen, unmerged = (sorted((ref, event[city.moment]) for ref, event in city.rows) for city in cities)
    assert seen == unmerged
    assert seen
