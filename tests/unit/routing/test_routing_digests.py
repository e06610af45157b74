"""Tallies: two ends that hold different entries do not agree."""

from __future__ import annotations

from maia.predicates import parse_predicate
from maia.routing.table.interests import Tally, digest_of_filter, mark_of_interest, mark_of_offer

TYPE, ID = b"T" * 32, b"I" * 16
FILTER = digest_of_filter(parse_predicate("speed > 50"))


def test_a_mark_depends_on_type_id_and_filter():
    marks = {
        mark_of_interest(TYPE, ID, FILTER),
        mark_of_interest(b"t" * 32, ID, FILTER),
        mark_of_interest(TYPE, b"i" * 16, FILTER),
        mark_of_interest(TYPE, ID, digest_of_filter(parse_predicate("speed > 51"))),
        mark_of_offer(TYPE),
        mark_of_offer(b"t" * 32),
    }
    assert len(marks) == 6


def test_filters_of_different_kinds_have_different_digests():
    texts = ("x == 1", "x == 1.0", "x == true")
    assert len({digest_of_filter(parse_predicate(text)) for text in texts}) == 3


def test_a_tally_forgets_the_order_and_what_was_taken_back():
    one, other = Tally(), Tally()
    for mark in (1, 2, 2**256 - 1):
        one.add(mark)
    for mark in (2**256 - 1, 7, 2, 1):
        other.add(mark)
    assert not other.agrees(entries=one.count, digest=one.digest)
    other.subtract(7)
    assert other.agrees(entries=one.count, digest=one.digest)
    assert not other.agrees(entries=one.count + 1, digest=one.digest)
