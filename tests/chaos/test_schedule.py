"""The faults of a run are drawn from its seed, and every kind has its turn."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

from chaos.schedule import HOLDS_S, Kind, faults

PLACES = ("alfa", "bravo", "charlie")


def test_a_seed_says_everything():
    first, again, other = (list(islice(faults(seed, PLACES, list(Kind)), 200)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_every_kind_has_its_turn_in_each_round():
    drawn = list(islice(faults(3, PLACES, list(Kind)), 10 * len(Kind)))
    assert set(Counter(one.kind for one in drawn).values()) == {10}
    assert {one.at for one in drawn} == set(PLACES)


def test_faults_begin_one_after_the_other_and_last_as_long_as_their_kind():
    drawn = list(islice(faults(3, PLACES, list(Kind), apart_s=(1.0, 2.0)), 100))
    apart = [after.begins_s - before.begins_s for before, after in pairwise(drawn)]
    assert all(1.0 <= one <= 2.0 for one in apart)
    assert all(HOLDS_S[one.kind][0] <= one.holds_s <= HOLDS_S[one.kind][1] for one in drawn)
    short = islice(faults(3, PLACES, list(Kind), holds_most_s=2.0), 100)
    assert all(one.holds_s <= 2.0 for one in short)


def test_a_fault_has_one_place_and_a_line_for_people():
    drawn = list(islice(faults(3, PLACES, list(Kind)), 100))
    assert all(one.at != one.other for one in drawn)
    cuts = [one for one in drawn if one.kind is Kind.CUT]
    assert all(one.place == "–".join(sorted((one.at, one.other))) for one in cuts)
    assert all(one.kind in str(one) and one.at in str(one) for one in drawn)
