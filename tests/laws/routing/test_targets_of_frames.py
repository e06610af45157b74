"""A frame goes where its rows would go one by one, whatever index is asked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Event, Instant, frame_of
from maia.predicates import ALWAYS, Predicate
from maia.routing.matching.index import Matcher, MatchIndex, ScanMatcher
from maia.routing.table.hops import LOCAL, RouteEntry
from maia.routing.table.routing_table import RoutingTable
from support.predicates import KINDS, events, predicates
from support.routing import entry_id

pytestmark = pytest.mark.laws

TYPE, NOW, HOPS = b"T" * 32, Instant(0), ("a", "b", "c")


def book_with(interests: list[tuple[str, Predicate]], matcher: Callable[[], Matcher]) -> RoutingTable:
    book = RoutingTable(matcher=matcher)
    for hop in HOPS:
        book.hop_up(hop, NOW)
    for number, (hop, predicate) in enumerate(interests):
        book.receive_interest(hop, TYPE, [RouteEntry(entry_id(number), predicate)], [], NOW)
        book.local_subscribe(TYPE, entry_id(number), predicate)
    return book


@pytest.mark.parametrize("matcher", [ScanMatcher, MatchIndex])
@given(
    st.lists(st.tuples(st.sampled_from(HOPS), st.just(ALWAYS) | predicates(KINDS, max_leaves=3)), max_size=6),
    st.lists(events(KINDS), max_size=6),
    st.sampled_from((LOCAL, *HOPS)),
)
def test_each_row_goes_where_it_would_go_alone(
    matcher: Callable[[], Matcher],
    interests: list[tuple[str, Predicate]],
    rows: list[Event],
    from_hop: object,
) -> None:
    book, plain = book_with(interests, matcher), book_with(interests, ScanMatcher)
    found = book.targets_of_frame(TYPE, from_hop, frame_of(rows, KINDS))
    for row, event in enumerate(rows):
        assert {hop for hop, wanted in found.items() if row in wanted} == plain.targets(TYPE, from_hop, event)
        alone = book.targets_of_frame(TYPE, from_hop, frame_of([event], KINDS))
        assert list(alone) == list(book.targets(TYPE, from_hop, event))  # also in its order
    assert all(wanted == sorted(set(wanted)) and wanted for wanted in found.values())
    assert from_hop == LOCAL or from_hop not in found
