"""Entries of which a broker does not know everything: what represents what, and who gets which rows."""

from __future__ import annotations

import pytest

from maia.events import AttributeUid, Frame, Instant, Kind, frame_of
from maia.predicates import ALWAYS, Predicate, parse_predicate, predicate_from_expression
from maia.routing.table.hops import (
    LOCAL,
    InterestUpdate,
    OfferUpdate,
    ResyncRequest,
    SealedEntry,
    book_key_of_sealed,
    is_of_sealed,
    type_of_book_key,
)
from maia.routing.table.interests import Tally, compared_by, known_attributes, mark_of_interest
from maia.routing.table.routing_table import BookLimits, RoutingTable
from maia.testing.refusals import raises
from support.routing import entry_id, targets_of

TYPE = b"T" * 32
KEY = book_key_of_sealed(TYPE)
NOW = Instant(0)
SPEED, PLATE = AttributeUid("speed"), AttributeUid("plate")


def sealed(number: int, predicate: Predicate, *marks: bytes, digest: bytes | None = None) -> SealedEntry:
    return SealedEntry(entry_id(number), predicate, None, frozenset(marks), digest or bytes([number]) * 32)


def over(speed: int) -> Predicate:
    return parse_predicate(f"speed > {speed}")


def book_with(*hops: str, parent: str | None = "parent") -> RoutingTable:
    book = RoutingTable(parent_of=lambda type_id: parent, limits=BookLimits(lease_us=60_000_000))
    for hop in hops:
        book.hop_up(hop, NOW)
    return book


def told(book: RoutingTable) -> set[int]:
    return {int.from_bytes(entry.id, "big") for entry in book.sent_to("parent", KEY)[0]}


def test_an_entry_represents_another_if_all_its_unknown_parts_are_among_the_others():
    book = book_with("parent", "child", "other")
    book.receive_interest("child", KEY, [sealed(1, over(50), b"a")], [], NOW)
    book.receive_interest("other", KEY, [sealed(2, over(70), b"a", b"b")], [], NOW)
    assert told(book) == {1}
    book.receive_interest("other", KEY, [sealed(3, over(70), b"b")], [], NOW)
    assert told(book) == {1, 3}


def test_what_a_leaving_entry_stood_for_is_sent_again():
    book = book_with("parent", "child", "other")
    book.receive_interest("child", KEY, [sealed(1, ALWAYS, b"a")], [], NOW)
    book.receive_interest("other", KEY, [sealed(2, over(70), b"a", b"b")], [], NOW)
    (tell,) = book.receive_interest("child", KEY, [], [entry_id(1)], NOW)
    assert isinstance(tell, InterestUpdate)
    assert ([entry.id for entry in tell.add], list(tell.remove)) == ([entry_id(2)], [entry_id(1)])


def test_what_is_understood_anew_is_sent_and_matched_as_it_is_known_now():
    book = book_with("parent", "child", "other")
    book.receive_interest("child", KEY, [sealed(1, ALWAYS, b"own")], [], NOW)
    book.receive_interest("other", KEY, [sealed(2, over(70))], [], NOW)
    assert told(book) == {1, 2}
    book.understood_anew("child", KEY, [sealed(1, over(50))], [])
    assert told(book) == {1}
    assert targets_of(book, KEY, LOCAL, {SPEED: 60}) == {"child"}
    book.understood_anew("child", KEY, [], [entry_id(1)])
    assert told(book) == {2}


def test_nothing_is_understood_anew_that_is_not_there():
    book = book_with("parent", "child")
    assert book.understood_anew("child", KEY, [sealed(1, ALWAYS)], []) == []
    assert book.understood_anew("nobody", KEY, [sealed(1, ALWAYS)], []) == []
    assert book.types() == ()


def test_what_is_in_doubt_stays_in_doubt_when_it_is_understood_anew():
    """A replica's word does not become its holder's because a key has arrived."""
    book = book_with("parent", "child")
    book.adopt("child", KEY, [sealed(1, ALWAYS, b"own")], offers=False, now=NOW)
    book.understood_anew("child", KEY, [sealed(1, over(50))], [])
    assert book.link("child").has_stale
    assert book.link("child").received.count == 1
    book.receive_interest("child", KEY, [sealed(2, over(10))], [], NOW)
    tally = Tally()
    tally.add(mark_of_interest(KEY, entry_id(2), bytes([2]) * 32))
    book.receive_renewal("child", tally.count, tally.digest, NOW)
    assert [entry.id for entry in book.entries("child", KEY)] == [entry_id(2)]


def test_both_ends_compare_what_travels_and_not_what_they_know():
    """The digest is of what was told, so the same entry counts the same whatever is opened of it."""
    for known in (ALWAYS, over(50)):
        book = book_with("parent", "child")
        book.receive_interest("child", KEY, [sealed(1, known, b"m", digest=b"d" * 32)], [], NOW)
        tally = Tally()
        tally.add(mark_of_interest(KEY, entry_id(1), b"d" * 32))
        assert not any(
            isinstance(tell, ResyncRequest) for tell in book.receive_renewal("child", 1, tally.digest, NOW)
        )


def test_the_same_id_with_other_bytes_is_another_entry():
    book = book_with("parent", "child")
    book.receive_interest("child", KEY, [sealed(1, ALWAYS, b"a", digest=b"d" * 32)], [], NOW)
    book.receive_interest("child", KEY, [sealed(1, ALWAYS, b"a", digest=b"e" * 32)], [], NOW)
    tally = Tally()
    tally.add(mark_of_interest(KEY, entry_id(1), b"e" * 32))
    assert book.link("child").received.agrees(entries=1, digest=tally.digest)


def test_sealed_and_plain_interests_of_a_type_never_meet():
    book = book_with("parent", "child", "other")
    book.local_subscribe(TYPE, entry_id(1), ALWAYS)
    book.receive_interest("child", KEY, [sealed(2, over(70))], [], NOW)
    assert told(book) == {2}
    assert targets_of(book, TYPE, "other", {SPEED: 80}) == {LOCAL}
    assert targets_of(book, KEY, "other", {SPEED: 80}) == {"child"}
    assert (is_of_sealed(KEY), is_of_sealed(TYPE), type_of_book_key(KEY)) == (True, False, TYPE)


@pytest.mark.parametrize(
    ("missing", "rows"), [(set(), [1]), ({PLATE}, [1]), ({SPEED}, [0, 1]), ({SPEED, PLATE}, [0, 1])]
)
def test_a_hop_that_asks_about_a_column_that_did_not_open_gets_every_row(missing, rows):
    book = book_with("parent", "child")
    book.receive_interest("child", KEY, [sealed(1, over(50), b"m")], [], NOW)
    frame = frame_of([{SPEED: 40}, {SPEED: 60}], {SPEED: Kind.INT})
    if SPEED in missing:
        frame = Frame(2, {})
        assert book.targets_of_frame(KEY, LOCAL, frame) == {}
    elif missing:
        frame = frame_of([{SPEED: 40}, {SPEED: 60}], {SPEED: Kind.INT})
    assert list(book.targets_of_frame(KEY, LOCAL, frame, missing)["child"]) == rows


def test_who_asks_about_a_column_no_more_gets_what_it_asks_for():
    book = book_with("parent", "child")
    book.receive_interest(
        "child", KEY, [sealed(1, over(50)), sealed(2, parse_predicate('plate == "a"'))], [], NOW
    )
    book.receive_interest("child", KEY, [], [entry_id(1)], NOW)
    assert book.targets_of_frame(KEY, LOCAL, Frame(1, {}), {SPEED}) == {}


def test_an_offer_that_is_made_anew_is_passed_on_and_counts_once():
    book = book_with("parent", "child")
    book.receive_offer("child", KEY, True, "first", NOW, advertisement="1")
    (tell,) = book.receive_offer("child", KEY, True, "second", NOW, advertisement="2")
    assert isinstance(tell, OfferUpdate)
    assert (tell.stands, tell.baggage) == (True, "second")
    assert book.link("child").received.count == book.link("parent").sent.count == 1
    (tell,) = book.receive_offer("child", KEY, False, None, NOW)
    assert isinstance(tell, OfferUpdate)
    assert not tell.stands


def test_no_broker_can_send_a_filter_about_a_mark():
    """A67: what represents a mark in the book is no attribute that a filter could name."""
    compared = compared_by(sealed(1, over(50), b"\x01\x02"))
    (name,) = {part.uid for part in compared.parts[1:]}
    assert known_attributes(compared) == {SPEED}
    with raises("INPUT-PREDICATE-ENCODING"):
        predicate_from_expression((b"exists", name.encode()))


def test_what_neighbours_ask_about_is_what_a_broker_has_to_read():
    book = book_with("parent", "child")
    assert book.asked_about(KEY) == frozenset()
    book.receive_interest("child", KEY, [sealed(1, over(50)), sealed(2, ALWAYS, b"m")], [], NOW)
    assert book.asked_about(KEY) == {SPEED}
    book.receive_interest("child", KEY, [sealed(3, ALWAYS)], [], NOW)
    assert book.asked_about(KEY) == frozenset()  # who wants everything need not be asked about less
    book.receive_interest("child", KEY, [], [entry_id(3)], NOW)
    assert book.asked_about(KEY) == {SPEED}
