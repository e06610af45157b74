"""Filters are merged as far as it pays, between real brokers: nothing is lost, and no spill is delivered."""

from __future__ import annotations

import pytest

from maia.demo.numberplate import LOCATION
from maia.predicates import Membership, admits, covers
from maia.routing.aggregation.budget import BudgetRange
from maia.routing.table.hops import LOCAL
from support.mesh_city import MeshCity
from support.simulated_city import City
from support.spilling import STREETS, SpillingCity, random_filter

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


@pytest.mark.parametrize("kind", [MeshCity, City], ids=["mesh", "rendezvous"])
def test_spill_is_counted_as_a_slow_reference_counts_it_is_reported_and_never_delivered(kind):
    """S11, A67: what merged filters let through ends at the router that merged them."""
    in_ten_streets = Membership(LOCATION, frozenset(STREETS[:30]))
    city = SpillingCity(7, BudgetRange(1, 1, 1), city=kind, restriction=in_ten_streets)
    for _ in range(12):
        city.subscribe(random_filter(city.chance))
    city.settle()
    city.network.run_for(10)  # a period ends, and all is merged
    type_id = city.city.known.event_type.type_id
    announced = city.state(1).routes.book.wanted(LOCAL, type_id)
    assert len(announced) == 1 < city.aggregate.announcements.wanted
    # Wider than what is wanted, and no wider than what the subscriber has proved a right to.
    assert covers(wide=in_ten_streets, narrow=announced[0].predicate)
    (account,) = [account for _, account in city.state(1).routes.spill.neighbours()]
    before, delivered = account.spilled_rows, len(city.rows)
    events = city.publish(400)
    city.network.run_for(1)
    crossed = [event for event in events if admits(announced[0].predicate, event)]
    wanted = [event for event in crossed if city.is_wanted(event)]
    assert 0 < len(wanted) < len(crossed) < len(events)
    assert account.spilled_rows - before == len(crossed) - len(wanted)
    assert len(city.rows) > delivered
    assert all(admits(city.wanted[ref][1], event) for ref, event in city.rows)
    assert {event[city.moment] for _, event in city.rows[delivered:]} == {one[city.moment] for one in wanted}
    city.network.run_for(10)
    (reported,) = [account for _, account in city.state(0).routes.spill.neighbours()]
    assert reported.reported_rows == account.spilled_rows
    assert 0 < reported.reported_bytes <= account.spilled_bytes
