"""A frame goes where its rows would go one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Event, Instant, frame_of
from maia.predicates import ALWAYS, Predicate, admits
from maia.routing.table.hops import LOCAL, RouteEntry
from maia.routing.table.routing_table import RoutingTable
from support.predicates import KINDS, events, predicates
from support.routing import entry_id

pytestmark = pytest.mark.laws

TYPE, NOW, HOPS = b"T" * 32, Instant(0), ("a", "b", "c")


@given(
    st.lists(st.tuples(st.sampled_from(HOPS), st.just(ALWAYS) | predicates(KINDS, max_leaves=3)), max_size=6),
    st.lists(events(KINDS), max_size=6),
    st.sampled_from((LOCAL, *HOPS)),
)
def test_each_row_goes_where_it_would_go_alone(
    interests: list[tuple[str, Predicate]], rows: list[Event], from_hop: object
) -> None:
    table = RoutingTable()
    for hop in HOPS:
        table.hop_up(hop, NOW)
    for number, (hop, predicate) in enumerate(interests):
        table.receive_interest(hop, TYPE, [RouteEntry(entry_id(number), predicate)], [], NOW)
        table.local_subscribe(TYPE, entry_id(number), predicate)
    found = table.targets_of_frame(TYPE, from_hop, frame_of(rows, KINDS))
    for row, event in enumerate(rows):
        wanting = {hop for hop, predicate in interests if hop != from_hop and admits(predicate, event)}
        assert {hop for hop, wanted in found.items() if row in wanted} == wanting
        assert table.targets_of_frame(TYPE, from_hop, frame_of([event], KINDS)).keys() == wanting
    assert all(list(wanted) == sorted(set(wanted)) and wanted for wanted in found.values())
