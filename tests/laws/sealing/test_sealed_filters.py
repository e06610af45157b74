"""Laws of sealed filters: with whatever keys, nothing is missed and no "covers" is hopeful."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from maia.events import AttributeUid, Kind
from maia.predicates import ALWAYS, NEVER, AllOf, AnyOf, Comparison, Exists, Not, Operator, admits, covers
from maia.routing.table.hops import SealedEntry
from maia.routing.table.interests import compared_by, digest_of_meaning
from maia.sealing.filters.sealed_filters import OpenedFilter, open_filter, proved_to_cover
from reference.covering_by_enumeration import all_events, covers_in_world
from support.predicates import POOLS, atoms_about, predicates
from support.sealed_filters import every_subset, random_from, ring, sealed

pytestmark = pytest.mark.laws

X, Y, Z = AttributeUid("x"), AttributeUid("y"), AttributeUid("z")
KINDS = {X: Kind.INT, Y: Kind.BOOL, Z: Kind.INT}
WORLD = list(all_events({X: (None, *POOLS[Kind.INT]), Y: (None, True, False), Z: (None, *POOLS[Kind.INT])}))
ALL_KEYS = ring(None, X, Y, Z)
SUBSETS = every_subset((None, X, Y, Z))
RINGS = [ring(*groups) for groups in SUBSETS]

wanted = st.lists(predicates(KINDS, max_leaves=3), max_size=4).map(lambda parts: AllOf(tuple(parts)))


@st.composite
def pairs(draw):
    """Draw two filters that often have parts in common."""
    parts = draw(st.lists(predicates(KINDS, max_leaves=3), min_size=1, max_size=4))
    more = draw(st.lists(predicates(KINDS, max_leaves=2), max_size=2))
    kept = [part for part in parts if draw(st.booleans())]
    return AllOf(tuple(kept)), AllOf((*parts, *more))


def as_entry(opened: OpenedFilter) -> SealedEntry:
    return SealedEntry(b"i" * 16, opened.opened, None, opened.unopened, b"d" * 32)


@given(wanted, st.booleans())
@example(NEVER, True)
@example(ALWAYS, True)
@example(AllOf((Comparison(X, Operator.EQ, 1), Not(Exists(Y)))), True)
def test_what_a_filter_admits_is_admitted_by_whatever_is_opened_of_it(predicate, by_attribute):
    filter_ = sealed(predicate, ALL_KEYS, by_attribute=by_attribute)
    for keys in RINGS:
        opened = open_filter(filter_, keys)
        assert covers_in_world(wide=opened.opened, narrow=predicate, events=WORLD)


@given(wanted, st.booleans())
def test_a_member_that_has_all_keys_opens_the_filter_that_was_sealed(predicate, by_attribute):
    opened = open_filter(sealed(predicate, ALL_KEYS, by_attribute=by_attribute), ALL_KEYS)
    assert not opened.unopened
    assert covers_in_world(wide=predicate, narrow=opened.opened, events=WORLD)
    assert covers_in_world(wide=opened.opened, narrow=predicate, events=WORLD)


@given(pairs(), st.sampled_from(range(len(RINGS))))
@example((ALWAYS, NEVER), 0)
@example((NEVER, ALWAYS), 0)
@example((Comparison(X, Operator.GT, 1), Comparison(X, Operator.GT, 1)), 0)
@example((Comparison(X, Operator.GT, 1), Comparison(X, Operator.GT, 2)), 0)
@example((AnyOf((Exists(X), Exists(Y))), AllOf((Exists(X), Exists(Y)))), 3)
def test_covering_is_never_hopeful_whatever_keys_are_held(pair, held):
    wide, narrow = pair
    opened_wide = open_filter(sealed(wide, ALL_KEYS, random=random_from("wide")), RINGS[held])
    opened_narrow = open_filter(sealed(narrow, ALL_KEYS, random=random_from("narrow")), RINGS[held])
    by_marks = proved_to_cover(wide=opened_wide, narrow=opened_narrow)
    by_book = covers(wide=compared_by(as_entry(opened_wide)), narrow=compared_by(as_entry(opened_narrow)))
    assert by_book or not by_marks
    assume(by_book)
    assert covers_in_world(wide=wide, narrow=narrow, events=WORLD)


@given(
    atoms_about(X, Kind.INT), atoms_about(Y, Kind.BOOL), atoms_about(Z, Kind.INT), st.sets(st.integers(0, 2))
)
def test_a_filter_without_some_of_the_parts_covers_the_whole_even_for_who_opens_nothing(
    one, two, three, kept
):
    """What marks are for: equal parts are recognised without a key."""
    parts = (one, two, three)
    wide, nothing = AllOf(tuple(parts[number] for number in sorted(kept))), ring()
    assert proved_to_cover(
        wide=open_filter(sealed(wide, ALL_KEYS, random=random_from("wide")), nothing),
        narrow=open_filter(sealed(AllOf(parts), ALL_KEYS, random=random_from("narrow")), nothing),
    )


@given(wanted, wanted, st.sampled_from(range(len(RINGS))))
def test_entries_with_one_meaning_admit_the_same(one, other, held):
    """The book lets one entry speak for all with the same digest."""
    first = as_entry(open_filter(sealed(one, ALL_KEYS, random=random_from("one")), RINGS[held]))
    second = as_entry(open_filter(sealed(other, ALL_KEYS, random=random_from("other")), RINGS[held]))
    if digest_of_meaning(first) == digest_of_meaning(second):
        assert all(admits(one, event) == admits(other, event) for event in WORLD)


@given(wanted)
def test_the_same_filter_sealed_twice_has_the_same_marks_and_nothing_else_in_common(predicate):
    first = sealed(predicate, ALL_KEYS, random=random_from("first"))
    second = sealed(predicate, ALL_KEYS, random=random_from("second"))
    assert [part.mark for part in first.parts] == [part.mark for part in second.parts]
    assert first.id != second.id
    assert not {part.box for part in first.parts} & {part.box for part in second.parts}
