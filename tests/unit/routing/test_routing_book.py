"""The routing book: what is told to whom, and why."""

from __future__ import annotations

from maia.events import Instant
from maia.predicates import ALWAYS, NEVER, Predicate, parse_predicate
from maia.routing.table.hops import (
    ENTRIES_PER_TELL_MAX,
    LOCAL,
    InterestUpdate,
    OfferUpdate,
    Renewal,
    ResyncRequest,
    RouteEntry,
    RouteUpdate,
)
from maia.routing.table.routing_table import BookLimits, RoutingTable
from maia.testing.refusals import raises
from support.routing import entry_id, targets_of

TYPE = b"T" * 32
NOW = Instant(0)
LEASE_US = 60_000_000
PARENT, CHILD, OTHER = "parent", "child", "other"


def over(speed: int) -> Predicate:
    return parse_predicate(f"speed > {speed}")


def entry(number: int, predicate: Predicate) -> RouteEntry:
    return RouteEntry(entry_id(number), predicate)


def book_with(*hops: str, parent: str | None = PARENT, limits: BookLimits | None = None) -> RoutingTable:
    book = RoutingTable(parent_of=lambda type_id: parent, limits=limits or BookLimits(lease_us=LEASE_US))
    for hop in hops:
        book.hop_up(hop, NOW)
    return book


def told(updates: list[RouteUpdate], hop: str) -> tuple[set[int], set[int]]:
    """Return the numbers of the entries that one neighbour was told to add and to remove."""
    mine = [tell for tell in updates if isinstance(tell, InterestUpdate) and tell.hop == hop]
    added = {int.from_bytes(one.id, "big") for tell in mine for one in tell.add}
    return added, {int.from_bytes(one, "big") for tell in mine for one in tell.remove}


# ------------------------------------------------------------ covering


def test_a_covered_interest_is_sent_to_no_broker():
    book = book_with(PARENT)
    assert told(book.local_subscribe(TYPE, entry_id(1), over(50)), PARENT) == ({1}, set())
    assert book.local_subscribe(TYPE, entry_id(2), over(70)) == []


def test_a_wider_interest_takes_the_place_of_narrower_ones():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(50))
    book.local_subscribe(TYPE, entry_id(2), parse_predicate('plate == "AB"'))
    assert told(book.local_subscribe(TYPE, entry_id(3), over(30)), PARENT) == ({3}, {1})


def test_what_a_leaving_interest_covered_is_sent_again():
    book = book_with(PARENT)
    for number, speed in ((1, 30), (2, 50), (3, 70)):
        book.local_subscribe(TYPE, entry_id(number), over(speed))
    assert told(book.local_unsubscribe(TYPE, entry_id(1)), PARENT) == ({2}, {1})
    assert book.local_unsubscribe(TYPE, entry_id(3)) == []


def test_of_equal_interests_the_first_speaks_and_the_next_takes_over():
    book = book_with(PARENT, CHILD)
    assert told(book.local_subscribe(TYPE, entry_id(1), over(50)), PARENT) == ({1}, set())
    assert book.local_subscribe(TYPE, entry_id(2), over(50)) == []
    assert book.receive_interest(CHILD, TYPE, [entry(3, over(50))], [], NOW) == []
    assert told(book.local_unsubscribe(TYPE, entry_id(1)), PARENT) == ({2}, {1})
    assert told(book.local_unsubscribe(TYPE, entry_id(2)), PARENT) == ({3}, {2})


def test_a_neighbour_is_not_sent_its_own_interests_nor_spared_what_only_they_cover():
    book = book_with(PARENT, CHILD)
    book.receive_offer(CHILD, TYPE, stands=True, baggage=None, now=NOW)
    book.receive_interest(CHILD, TYPE, [entry(1, over(10))], [], NOW)
    updates = book.local_subscribe(TYPE, entry_id(2), over(50))
    assert told(updates, CHILD) == ({2}, set())  # the child's own interest cannot stand for ours
    assert told(updates, PARENT) == (set(), set())  # towards the parent it can


def test_an_interest_that_no_event_can_meet_is_sent_to_no_broker():
    book = book_with(PARENT)
    assert book.local_subscribe(TYPE, entry_id(1), NEVER) == []
    assert told(book.local_subscribe(TYPE, entry_id(2), over(50)), PARENT) == ({2}, set())


def test_one_and_true_are_different_filters():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), parse_predicate("speed == 1"))
    updates = book.local_subscribe(TYPE, entry_id(2), parse_predicate("speed == true"))
    assert told(updates, PARENT) == ({2}, set())


def test_a_changed_filter_keeps_its_id():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(50))
    assert told(book.local_subscribe(TYPE, entry_id(1), over(70)), PARENT) == ({1}, set())
    assert book.sent_to(PARENT, TYPE)[0] == (entry(1, over(70)),)


def test_new_baggage_alone_is_not_sent_but_goes_with_the_next_telling():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(50), baggage="old proof")
    assert book.local_subscribe(TYPE, entry_id(1), over(50), baggage="new proof") == []
    book.hop_gone(PARENT)
    (tell,) = book.hop_up(PARENT, NOW)
    assert isinstance(tell, InterestUpdate)
    assert tell.add[0].baggage == "new proof"


def test_many_changes_are_sent_in_steps_additions_first():
    book = book_with(PARENT)
    numbers = range(1, ENTRIES_PER_TELL_MAX + 2)
    for number in numbers:
        book.local_subscribe(TYPE, entry_id(number), parse_predicate(f"speed == {number}"))
    updates = book.local_subscribe(TYPE, entry_id(0), over(0))
    sizes = [(len(tell.add), len(tell.remove)) for tell in updates if isinstance(tell, InterestUpdate)]
    assert sizes == [(1, 0), (0, ENTRIES_PER_TELL_MAX), (0, 1)]


# ------------------------------------------------------------ offers and the tree


def test_interests_go_to_the_parent_and_to_a_broker_that_offers():
    book = book_with(PARENT, CHILD, OTHER)
    book.receive_offer(CHILD, TYPE, stands=True, baggage=None, now=NOW)
    updates = book.local_subscribe(TYPE, entry_id(1), over(50))
    assert {tell.hop for tell in updates} == {PARENT, CHILD}


def test_an_offer_goes_to_the_parent_alone_and_ends_with_the_last_advertisement():
    book = book_with(PARENT, CHILD)
    assert book.local_advertise(TYPE, "camera 1", "proof 1") == [OfferUpdate(PARENT, TYPE, True)]
    assert book.local_advertise(TYPE, "camera 2", "proof 2") == []
    assert book.local_unadvertise(TYPE, "camera 2") == []
    assert book.local_unadvertise(TYPE, "camera 1") == [OfferUpdate(PARENT, TYPE, False)]
    assert book.types() == ()


def test_an_offer_that_loses_its_reason_is_sent_again_with_another():
    book = book_with(PARENT, CHILD)
    book.local_advertise(TYPE, "camera 1", "proof 1")
    book.receive_offer(CHILD, TYPE, stands=True, baggage="proof 2", now=NOW)
    (tell,) = book.local_unadvertise(TYPE, "camera 1")
    assert isinstance(tell, OfferUpdate)
    assert (tell.stands, tell.baggage) == (True, "proof 2")
    assert book.link(PARENT).sent.count == 1


def test_a_parents_own_offer_is_not_offered_back_to_it():
    book = book_with(PARENT)
    assert book.receive_offer(PARENT, TYPE, stands=True, baggage=None, now=NOW) == []


def test_a_withdrawn_offer_takes_the_interests_back():
    book = book_with(PARENT, CHILD)
    book.receive_offer(CHILD, TYPE, stands=True, baggage=None, now=NOW)
    book.local_subscribe(TYPE, entry_id(1), over(50))
    updates = book.receive_offer(CHILD, TYPE, stands=False, baggage=None, now=NOW)
    assert told(updates, CHILD) == (set(), {1})
    assert book.sent_to(CHILD, TYPE) == ((), False)


def test_a_new_parent_receives_everything_and_the_old_one_that_it_ended():
    book = book_with(PARENT, OTHER)
    book.local_subscribe(TYPE, entry_id(1), over(50))
    book.local_advertise(TYPE)
    updates = book.set_parent(TYPE, OTHER)
    assert told(updates, OTHER) == ({1}, set())
    assert told(updates, PARENT) == (set(), {1})
    assert OfferUpdate(OTHER, TYPE, True) in updates
    assert OfferUpdate(PARENT, TYPE, False) in updates
    assert book.set_parent(TYPE, OTHER) == []


def test_a_parent_that_is_not_connected_receives_everything_once_it_is():
    book = book_with()
    assert book.local_subscribe(TYPE, entry_id(1), over(50)) == []
    assert told(book.hop_up(PARENT, NOW), PARENT) == ({1}, set())
    assert book.hop_up(PARENT, NOW) == []


def test_a_neighbour_that_is_gone_takes_its_interests_and_offers_with_it():
    book = book_with(PARENT, CHILD)
    book.receive_interest(CHILD, TYPE, [entry(1, over(10))], [], NOW)
    book.receive_offer(CHILD, TYPE, stands=True, baggage=None, now=NOW)
    book.local_subscribe(TYPE, entry_id(2), over(50))
    updates = book.hop_gone(CHILD)
    assert told(updates, PARENT) == ({2}, {1})
    assert OfferUpdate(PARENT, TYPE, False) in updates
    assert all(tell.hop == PARENT for tell in updates)


# ------------------------------------------------------------ targets


def test_a_publication_goes_to_all_who_want_it_but_never_back():
    book = book_with(PARENT, CHILD)
    book.receive_interest(CHILD, TYPE, [entry(1, over(10))], [], NOW)
    book.receive_interest(PARENT, TYPE, [entry(2, over(50))], [], NOW)
    book.local_subscribe(TYPE, entry_id(3), over(70))
    fast, slow = {"speed": 80}, {"speed": 20}
    assert targets_of(book, TYPE, LOCAL, fast) == {LOCAL, PARENT, CHILD}
    assert targets_of(book, TYPE, CHILD, fast) == {LOCAL, PARENT}
    assert targets_of(book, TYPE, LOCAL, slow) == {CHILD}
    assert targets_of(book, TYPE, CHILD, slow) == set()
    assert targets_of(book, b"?" * 32, LOCAL, fast) == set()


# ------------------------------------------------------------ renewal, doubt, leases


def test_one_renewal_may_go_missing_in_a_lease():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(50))
    every = BookLimits(lease_us=LEASE_US).renew_every_us
    assert book.renew_due(Instant(every - 1)) == []
    (renewal,) = book.renew_due(Instant(every))
    assert isinstance(renewal, Renewal)
    assert renewal.entries == 1
    assert book.renew_due(Instant(every)) == []
    assert book.next_due() == 2 * every < LEASE_US


def test_where_nothing_stands_that_is_said_once():
    book = book_with(PARENT, CHILD)
    every = BookLimits(lease_us=LEASE_US).renew_every_us
    assert {(tell.hop, tell.entries) for tell in book.renew_due(Instant(every))} == {(PARENT, 0), (CHILD, 0)}
    assert book.next_due() is None
    assert book.renew_due(Instant(10 * LEASE_US)) == []
    book.local_subscribe(TYPE, entry_id(1), over(50))
    assert [(tell.hop, tell.entries) for tell in book.renew_due(Instant(10 * LEASE_US))] == [(PARENT, 1)]
    book.local_unsubscribe(TYPE, entry_id(1))
    (last,) = book.renew_due(Instant(11 * LEASE_US))
    assert (last.hop, last.entries) == (PARENT, 0)
    assert book.next_due() is None


def test_entries_end_with_the_lease_unless_renewed():
    book = book_with(PARENT, CHILD)
    book.receive_interest(CHILD, TYPE, [entry(1, over(10))], [], NOW)
    heard = book.link(CHILD).received
    assert book.receive_renewal(CHILD, heard.count, heard.digest, Instant(LEASE_US // 2)) == []
    assert book.expire(Instant(LEASE_US + LEASE_US // 2)) == []
    assert told(book.expire(Instant(LEASE_US + LEASE_US // 2 + 1)), PARENT) == (set(), {1})
    assert book.types() == ()


def test_books_that_differ_are_sent_again_and_settle():
    ours, theirs = book_with(CHILD, parent=None), book_with(PARENT)
    theirs.local_subscribe(TYPE, entry_id(1), over(10))
    ours.receive_interest(CHILD, TYPE, [entry(2, over(90))], [], NOW)  # theirs never said so
    (renewal,) = theirs.renew_due(Instant(LEASE_US))
    assert isinstance(renewal, Renewal)
    assert ours.receive_renewal(CHILD, renewal.entries, renewal.digest, NOW) == [ResyncRequest(CHILD)]
    assert targets_of(ours, TYPE, LOCAL, {"speed": 95}) == {CHILD}, "doubt alone must not lose anything"
    interest, all_of_it = theirs.receive_resync(PARENT, NOW)
    assert isinstance(interest, InterestUpdate)
    assert isinstance(all_of_it, Renewal)
    ours.receive_interest(CHILD, TYPE, interest.add, interest.remove, NOW)
    ours.receive_renewal(CHILD, all_of_it.entries, all_of_it.digest, NOW)
    assert ours.entries(CHILD, TYPE) == (entry(1, over(10)),)
    assert not ours.link(CHILD).has_stale


def test_a_neighbour_cannot_make_us_repeat_ourselves_without_pause():
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(10))
    assert book.receive_resync(PARENT, NOW) != []
    assert book.receive_resync(PARENT, Instant(1)) == []
    assert book.receive_resync(PARENT, Instant(2)) == []
    assert book.receive_resync(PARENT, Instant(LEASE_US)) != []
    assert book.receive_renewal(PARENT, 7, bytes(32), NOW) == [ResyncRequest(PARENT)]
    assert book.receive_renewal(PARENT, 7, bytes(32), Instant(1)) == []


def test_a_neighbour_that_asks_again_too_soon_is_told_everything_once_when_the_pause_is_over():
    """It has reason to ask, and does not ask a third time: what it lacked, it would lack for ever."""
    book = book_with(PARENT)
    book.local_subscribe(TYPE, entry_id(1), over(10))
    book.renewal(PARENT, NOW)
    everything = [type(one) for one in book.receive_resync(PARENT, NOW)]
    assert everything == [InterestUpdate, Renewal]
    assert book.receive_resync(PARENT, Instant(1)) == []
    due = book.next_due()
    assert due is not None
    assert NOW < due < LEASE_US // 4
    assert book.renew_due(Instant(due - 1)) == []
    assert [type(one) for one in book.renew_due(due)] == everything
    assert book.renew_due(Instant(due + 1)) == []


# ------------------------------------------------------------ replicas in use


def test_an_adopted_interest_is_used_until_its_holder_speaks():
    book = book_with(CHILD, parent=None)
    book.adopt(CHILD, TYPE, [entry(1, over(10)), entry(2, over(50))], offers=True, now=NOW)
    assert targets_of(book, TYPE, LOCAL, {"speed": 20}) == {CHILD}
    book.receive_interest(CHILD, TYPE, [entry(2, over(50))], [], NOW)
    fresh = book.link(CHILD).fresh
    book.receive_renewal(CHILD, fresh.count, fresh.digest, NOW)
    assert book.entries(CHILD, TYPE) == (entry(2, over(50)),)
    assert not book.offers(CHILD, TYPE)


def test_a_replica_never_replaces_what_a_holder_said_itself():
    book = book_with(CHILD, parent=None)
    book.receive_interest(CHILD, TYPE, [entry(1, over(10))], [], NOW)
    book.adopt(CHILD, TYPE, [entry(1, NEVER)], offers=False, now=NOW)
    assert book.entries(CHILD, TYPE) == (entry(1, over(10)),)
    assert not book.link(CHILD).has_stale


# ------------------------------------------------------------ limits


def test_a_neighbour_may_send_no_more_than_its_share():
    book = book_with(PARENT, CHILD, limits=BookLimits(entries_per_neighbour=2))
    book.receive_interest(CHILD, TYPE, [entry(1, over(1)), entry(2, ALWAYS)], [], NOW)
    with raises("PROTOCOL-TOO-MUCH-TOLD"):
        book.receive_interest(CHILD, TYPE, [entry(3, over(3))], [], NOW)
    with raises("PROTOCOL-TOO-MUCH-TOLD"):
        book.receive_offer(CHILD, TYPE, stands=True, baggage=None, now=NOW)
    assert len(book.entries(CHILD, TYPE)) == 2


def test_nothing_is_accepted_from_a_neighbour_that_is_not_connected():
    book = book_with()
    with raises("INPUT-UNKNOWN-HOP"):
        book.receive_interest(CHILD, TYPE, [entry(1, over(1))], [], NOW)
    with raises("INPUT-UNKNOWN-HOP"):
        book.receive_renewal(CHILD, 0, bytes(32), NOW)
    assert book.types() == ()
