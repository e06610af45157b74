"""Whom names mean, one step at a time, and how thresholds are counted."""

from __future__ import annotations

from itertools import combinations

from maia.credentials.chains.quorum import Tries, checked_threshold, disjoint_choices, leaves, satisfied
from maia.credentials.chains.reduction import Budget, name_book
from maia.credentials.encoding.parts import MEMBERS_MAX, THRESHOLD_DEPTH_MAX
from maia.testing.refusals import raises
from support.chains import ALICE, BOB, PEOPLE, call, k_of, named


def meanings(name, *certificates, steps: int = 1000):
    book = name_book(certificates, lambda _signed: True)
    return {meaning.subject for meaning in book.meanings(name, Budget(steps))}


def test_a_definition_that_is_not_accepted_says_nothing() -> None:
    book = name_book([call(ALICE, "team", BOB)], lambda _signed: False)
    assert book.meanings(named(ALICE, "team"), Budget(10)) == ()


def test_thresholds_are_counted_exactly_as_brute_force_counts() -> None:
    threshold = checked_threshold(k_of(2, PEOPLE[0], PEOPLE[1], k_of(2, PEOPLE[2], PEOPLE[3], PEOPLE[4])))
    for size in range(6):
        for agreed in combinations(PEOPLE[:5], size):
            nested = len({*agreed} & {*PEOPLE[2:5]}) >= 2
            assert satisfied(threshold, set(agreed)) == (len({*agreed} & {*PEOPLE[:2]}) + nested >= 2)
    assert list(leaves(threshold)) == list(PEOPLE[:5])


def nested(depth: int):
    threshold = k_of(1, ALICE)
    for person in PEOPLE[5 : 5 + depth - 1]:
        threshold = k_of(1, threshold, person)
    return threshold


def test_thresholds_have_a_size_and_a_depth() -> None:
    assert checked_threshold(nested(THRESHOLD_DEPTH_MAX))
    with raises("INPUT-THRESHOLD", match="nests"):
        checked_threshold(nested(THRESHOLD_DEPTH_MAX + 1))
    names = [named(ALICE, f"n{number}") for number in range(MEMBERS_MAX + 1)]
    assert checked_threshold(k_of(1, *names[:-1]))
    with raises("INPUT-THRESHOLD", match="at most"):
        checked_threshold(k_of(1, *names))


def test_choices_are_disjoint_complete_and_bounded() -> None:
    offers = [[(frozenset({ALICE}), "a")], [(frozenset({ALICE}), "a2"), (frozenset({BOB}), "b")], []]
    every = disjoint_choices(offers, needed=2, besides=frozenset(), tries=Tries(100))
    assert list(every) == [("a", "b")]
    besides = disjoint_choices(offers, needed=1, besides=frozenset({ALICE}), tries=Tries(100))
    assert list(besides) == [("b",)]
    assert list(disjoint_choices(offers, needed=2, besides=frozenset(), tries=Tries(1))) == []
