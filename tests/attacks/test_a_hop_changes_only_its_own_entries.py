"""Attacks on routing: a neighbour names its own interests, and uses up no other peer's numbers."""

from __future__ import annotations

import hashlib

import pytest

from maia.events import Instant
from maia.predicates import ALWAYS, NEVER, parse_predicate
from maia.routing.duplicates import DuplicateMemory, MemoryLimits
from maia.routing.table import interests as crowd
from maia.routing.table.hops import LOCAL, ResyncRequest, RouteEntry
from maia.routing.table.replicas import Replica, ReplicaStore
from maia.routing.table.routing_table import BookLimits, RoutingTable
from maia.testing.refusals import raises
from support.routing import targets_of

TYPE = b"T" * 32
NOW = Instant(0)
ID = b"victim's entry.."
FAST = RouteEntry(ID, parse_predicate("speed > 50"))
EVENT = {"speed": 60}


@pytest.fixture
def book() -> RoutingTable:
    book = RoutingTable(parent_of=lambda type_id: "parent")
    for hop in ("parent", "victim", "liar"):
        book.hop_up(hop, NOW)
    book.receive_interest("victim", TYPE, [FAST], [], NOW)
    return book


def told_filters(book: RoutingTable) -> list[object]:
    return [entry.predicate for entry in book.sent_to("parent", TYPE)[0]]


def test_no_peer_removes_what_another_hop_wants(book: RoutingTable):
    """A67: a forged withdrawal has no effect."""
    assert book.receive_interest("liar", TYPE, [], [ID], NOW) == []
    assert book.receive_offer("liar", TYPE, stands=False, baggage=None, now=NOW) == []
    assert targets_of(book, TYPE, "parent", EVENT) == {"victim"}
    assert told_filters(book) == [FAST.predicate]


@pytest.mark.parametrize("forged", [NEVER, parse_predicate("speed > 99"), parse_predicate('plate == "X"')])
def test_no_peer_replaces_what_another_hop_wants_by_using_its_id(book: RoutingTable, forged: object):
    """A67: the id of an entry counts on its own link alone."""
    book.receive_interest("liar", TYPE, [RouteEntry(ID, forged)], [], NOW)
    assert FAST.predicate in told_filters(book)
    assert len({entry.id for entry in book.sent_to("parent", TYPE)[0]}) == len(told_filters(book))
    book.receive_interest("liar", TYPE, [], [ID], NOW)
    assert told_filters(book) == [FAST.predicate]


def test_an_id_that_was_taken_first_does_not_keep_its_owner_out():
    """A67, A66: pre-emption of ids, and of the ids that we would use instead."""
    book = RoutingTable(parent_of=lambda type_id: "parent")
    for hop in ("parent", "victim", "liar"):
        book.hop_up(hop, NOW)
    alias = hashlib.sha256(b"maia/1/entry-alias\x00" + b"1" + b"\x00" + ID).digest()[:16]
    taken = [
        RouteEntry(ID, parse_predicate('plate == "X"')),
        RouteEntry(alias, parse_predicate('plate == "Y"')),
    ]
    book.receive_interest("liar", TYPE, taken, [], NOW)
    book.receive_interest("victim", TYPE, [FAST], [], NOW)
    assert FAST.predicate in told_filters(book)
    assert len({entry.id for entry in book.sent_to("parent", TYPE)[0]}) == 3


def test_a_wide_interest_hides_others_only_while_it_stands(book: RoutingTable):
    """A67: an over-broad interest that vanishes must not take others with it."""
    book.receive_interest("liar", TYPE, [RouteEntry(b"everything......", ALWAYS)], [], NOW)
    assert told_filters(book) == [ALWAYS]
    book.hop_gone("liar")
    assert told_filters(book) == [FAST.predicate]


def test_filters_too_hard_to_compare_are_all_told(book: RoutingTable, monkeypatch: pytest.MonkeyPatch):
    """A67: equal filters that no proof shows to be equal must not hide each other in a circle."""
    monkeypatch.setattr(crowd, "counterexample", lambda **sides: None)
    either = parse_predicate('prefix(plate, "A") or prefix(plate, "B")')
    wider = parse_predicate('prefix(plate, "A") or prefix(plate, "B") or prefix(plate, "C")')
    book.receive_interest("victim", TYPE, [RouteEntry(b"older...........", either)], [], NOW)
    book.receive_interest("liar", TYPE, [RouteEntry(b"younger.........", wider)], [], NOW)
    assert {either, wider} <= set(told_filters(book))


def test_an_offer_attracts_interests_and_never_publications(book: RoutingTable):
    """A67: route attraction by a forged advertisement."""
    book.receive_offer("liar", TYPE, stands=True, baggage=None, now=NOW)
    assert targets_of(book, TYPE, LOCAL, EVENT) == {"victim"}


def test_a_neighbour_that_tells_without_end_is_stopped():
    """A67: more entries than a neighbour may tell are refused before any of them counts."""
    book = RoutingTable(limits=BookLimits(entries_per_neighbour=10))
    book.hop_up("liar", NOW)
    with raises("PROTOCOL-TOO-MUCH-TOLD"):
        book.receive_interest("liar", TYPE, [RouteEntry(bytes([n]) * 16, ALWAYS) for n in range(11)], [], NOW)
    assert book.types() == ()


def test_false_renewals_lose_nothing_and_cost_one_question(book: RoutingTable):
    """A67: a neighbour that disputes its own entries is asked once per while, and they stay meanwhile."""
    asked = [book.receive_renewal("victim", 5, bytes(32), Instant(n)) for n in range(100)]
    assert asked == [[ResyncRequest("victim")]] + [[]] * 99
    assert targets_of(book, TYPE, "parent", EVENT) == {"victim"}


def test_a_forged_replica_neither_removes_nor_replaces(book: RoutingTable):
    """A67: what others say of a hop is worth less than what it says itself."""
    book.adopt("victim", TYPE, [RouteEntry(ID, NEVER)], offers=False, now=NOW)
    assert book.entries("victim", TYPE) == (FAST,)
    store = ReplicaStore(lease_us=1_000)
    store.heard("root", Replica(TYPE, "victim", (FAST,), offers=False), NOW)
    store.heard("liar", Replica(TYPE, "victim", (), offers=False), NOW)
    assert store.promoted("root", lambda type_id: True) == [Replica(TYPE, "victim", (FAST,), offers=False)]


def test_no_peer_uses_up_the_numbers_of_another_publisher():
    """A66: the identity of a publication begins with its publisher's key."""
    memory = DuplicateMemory()
    for number in range(100):
        memory.remember(b"L" * 32, b"stream", number)
    assert all(memory.remember(b"V" * 32, b"stream", number) for number in range(100))


def test_many_streams_of_one_publisher_cannot_make_memory_grow():
    """A66: streams are bounded, and the busiest stay."""
    memory = DuplicateMemory(MemoryLimits(streams_max=10))
    for number in range(1_000):
        memory.remember(b"L" * 32, number.to_bytes(16, "big"), 0)
        assert memory.remember(b"V" * 32, b"stream", number)
    assert len(memory) == 10
    assert not any(memory.remember(b"V" * 32, b"stream", number) for number in range(1_000))


def test_a_replayed_publication_is_old_after_a_restart():
    """A65: what was seen before a restart is still seen."""
    memory = DuplicateMemory()
    assert memory.remember(b"V" * 32, b"stream", 7)
    assert not DuplicateMemory.imported(memory.exported()).remember(b"V" * 32, b"stream", 7)


def test_what_two_sides_of_a_partition_both_carried_is_new_once():
    """A83: rows that come by both ways after healing are handed on once."""
    memory = DuplicateMemory()
    one_way, other_way = 0b0111, 0b1110
    assert memory.new_rows(b"V" * 32, b"stream", 3, one_way) == 0b0111
    assert memory.new_rows(b"V" * 32, b"stream", 3, other_way) == 0b1000
    assert memory.new_rows(b"V" * 32, b"stream", 3, one_way | other_way) == 0
