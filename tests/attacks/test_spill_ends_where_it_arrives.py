"""Merged filters let more through than was asked for: it ends at the router that merged them (S11, A67)."""

from __future__ import annotations

import pytest

from maia.predicates import Membership, admits, covers
from maia.routing.aggregation.budget import BudgetRange
from maia.routing.table.hops import LOCAL
from maia.wire.codec import encode
from maia.wire.effects import Send
from maia.wire.messages import SpilledType, SpillReport
from support.city import STREETS, SpillingCity, random_filter
from support.numberplate import LOCATION


@pytest.mark.parametrize("is_mesh", [True, False], ids=["mesh", "rendezvous"])
def test_spill_is_counted_as_a_slow_reference_counts_it_is_reported_and_never_delivered(is_mesh):
    """S11, A67: what merged filters let through ends at the router that merged them."""
    in_thirty_streets = Membership(LOCATION, frozenset(STREETS[:30]))
    city = SpillingCity(7, BudgetRange(1, 1, 1), is_mesh=is_mesh, restriction=in_thirty_streets)
    for _ in range(12):
        city.subscribe(random_filter(city.chance))
    city.settle()
    city.network.run_for(10)  # a period ends, and all is merged
    type_id = city.city.cast.type_id
    announced = city.state(1).routes.book.wanted(LOCAL, type_id)
    assert len(announced) == 1 < city.aggregate.announcements.wanted
    # Wider than what is wanted, and no wider than what the subscriber has proved a right to.
    assert covers(wide=in_thirty_streets, narrow=announced[0].predicate)
    (link,) = [link.id for link in city.state(1).links.values() if link.role.value == "broker"]
    account = city.state(1).routes.spill.of(link)
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


def test_a_neighbour_that_lies_about_spill_moves_no_budget_and_is_counted_for_no_more_than_it_was_sent():
    """S11: reports are shown to operators; a router tunes by what it has counted itself, within its range."""
    city = SpillingCity(9, BudgetRange(least=1 << 11, most=1 << 14, first=1 << 12))
    for _ in range(12):
        city.subscribe(random_filter(city.chance))
    city.settle()
    city.publish(200)
    city.network.run_for(20)
    liar = city.state(1)
    (link,) = [link.id for link in liar.links.values() if link.role.value == "broker"]
    budgets = {type_id: one.budget for type_id, one in city.state(0).routes.aggregates.items()}
    type_id = city.city.cast.type_id
    lie = encode(SpillReport([SpilledType(type_id, 1 << 40, 1 << 50)] * 256))
    (account,) = [account for _, account in city.state(0).routes.spill.neighbours()]
    before, sent = account.reported_bytes, account.sent_bytes
    for _ in range(50):
        city.network.act(city.city.brokers[1], lambda _now: [Send(link, lie)])
    city.network.run_for(1)
    victim = city.network.host(city.city.brokers[0])
    assert account.reported_bytes - before <= sent
    assert victim.counts["maia_spill_reports_ignored_total"] >= 49
    assert {one: each.budget for one, each in city.state(0).routes.aggregates.items()} == budgets
    assert city.state(0).links  # and nobody is parted from for it


def test_a_neighbour_that_feigns_spill_moves_the_budget_of_one_type_inside_its_range():
    """S11: publications that nobody wanted raise the budget to its most, and nothing of them is delivered."""
    city = SpillingCity(11, BudgetRange(least=1 << 11, most=1 << 14, first=1 << 12))
    for _ in range(30):
        city.subscribe(random_filter(city.chance))
    city.settle()
    for _ in range(14):
        city.period(rows=1500, changes=1)
        assert 1 << 11 <= city.aggregate.budget.bytes <= 1 << 14
    (account,) = [account for _, account in city.state(1).routes.spill.neighbours()]
    assert account.spilled_rows > 0
    assert all(admits(city.filters[ref], event) for ref, event in city.rows)
