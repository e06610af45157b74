"""Leases: what has not been renewed in time."""

from __future__ import annotations

from maia.events import Instant
from maia.routing.table.neighbours import Leases


def test_a_lease_holds_through_its_last_moment():
    leases: Leases[str] = Leases()
    leases.grant("a", Instant(10))
    assert leases.expired(Instant(10)) == []
    assert leases.expired(Instant(11)) == ["a"]
    assert leases.expired(Instant(12)) == []


def test_a_renewed_lease_outlives_its_first_moment():
    leases: Leases[str] = Leases()
    leases.grant("a", Instant(10))
    leases.grant("a", Instant(20))
    assert leases.expired(Instant(15)) == []
    assert leases.next_end() == 20
    assert leases.expired(Instant(21)) == ["a"]


def test_a_dropped_lease_never_ends():
    leases: Leases[str] = Leases()
    leases.grant("a", Instant(10))
    leases.drop("a")
    assert leases.next_end() is None
    assert leases.expired(Instant(11)) == []


def test_leases_end_in_the_order_of_their_moments():
    leases: Leases[str] = Leases()
    for name, until in (("early", 1), ("middle", 2), ("late", 3)):
        leases.grant(name, Instant(until))
    assert leases.expired(Instant(4)) == ["early", "middle", "late"]


def test_a_lease_that_is_renewed_for_ever_counts_once():
    leases: Leases[str] = Leases()
    for moment in range(10_000):
        leases.grant("a", Instant(moment))
    assert len(leases) == 1
    assert leases.next_end() == 9_999
