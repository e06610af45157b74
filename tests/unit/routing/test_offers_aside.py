"""Which advertisement represents others when a broker doubts it, and where may publications come from?"""

from __future__ import annotations

from maia.events import Instant
from maia.predicates import ALWAYS
from maia.routing.table.hops import OfferUpdate
from maia.routing.table.routing_table import BookLimits, RoutingTable

TYPE = b"T" * 32
NOW = Instant(1_000_000_000)
PARENT, ONE, TWO = "parent", "one", "two"


def book_with_offers(*offering: str) -> RoutingTable:
    """Return a book with a parent, and neighbours that offer under their own names."""
    book = RoutingTable(parent_of=lambda _: PARENT, limits=BookLimits(lease_us=60_000_000))
    for hop in (PARENT, ONE, TWO):
        book.hop_up(hop, NOW)
    for hop in offering:
        book.receive_offer(hop, TYPE, stands=True, baggage=f"by {hop}", now=NOW, advertisement=hop)
    return book


def test_another_advertisement_is_sent_in_place_of_one_that_was_set_aside():
    book = book_with_offers(ONE, TWO)
    assert book.set_offer_aside(TYPE, ONE) == (ONE, [OfferUpdate(PARENT, TYPE, True, "by two")])
    assert book.set_offer_aside(TYPE, ONE) == (None, []), "it was done"
    assert book.set_offer_aside(TYPE, "nobody's") == (None, [])


def test_an_advertisement_that_was_set_aside_stands_if_there_is_no_other():
    book = book_with_offers(ONE)
    assert book.set_offer_aside(TYPE, ONE) == (ONE, [])
    book.receive_offer(TWO, TYPE, stands=True, baggage=None, now=NOW, advertisement=TWO)
    book.receive_offer(TWO, TYPE, stands=False, baggage=None, now=NOW)
    assert book.sent_to(PARENT, TYPE) == ((), True)


def test_a_neighbour_that_offers_by_another_advertisement_is_not_set_aside_for_the_first():
    book = book_with_offers(ONE, TWO)
    book.set_offer_aside(TYPE, ONE)
    book.receive_offer(ONE, TYPE, stands=True, baggage="anew", now=NOW, advertisement="anew")
    assert book.receive_offer(TWO, TYPE, stands=False, baggage=None, now=NOW) == [
        OfferUpdate(PARENT, TYPE, True, "anew")
    ]


def test_publications_are_expected_from_the_parent_and_from_a_broker_that_offers():
    book = book_with_offers(ONE)
    assert [book.may_come_from(hop, TYPE) for hop in (PARENT, ONE, TWO)] == [True, True, False]
    assert not book.may_come_from(PARENT, b"U" * 32), "of a type that nobody wants or offers"


def test_the_book_sends_which_ways_have_changed_once():
    book = book_with_offers(ONE)
    book.set_parent(TYPE, TWO)
    book.set_parent(TYPE, TWO)
    assert book.take_moved() == [("parent", TYPE)]
    assert book.take_moved() == []


def test_the_book_sends_whose_offers_were_not_renewed_once():
    book = book_with_offers(ONE)
    book.local_subscribe(TYPE, b"i" * 16, ALWAYS)
    book.expire(Instant(NOW + 60_000_001))
    assert book.take_lapsed() == [(ONE, TYPE)]
    assert book.take_lapsed() == []
