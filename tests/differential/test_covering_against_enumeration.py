"""Covering and the enumeration of a small world give the same answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import INT_MAX, INT_MIN, Kind
from maia.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
    covers,
    may_overlap,
    provably_empty,
)
from reference.covering_by_enumeration import all_events, covers_in_world, overlap_in_world, texts_up_to
from support.predicates import operators_of

pytestmark = pytest.mark.laws

# Literals, and a world with a value in every gap between them, of every kind, and absence.
LITERALS = {Kind.INT: (0, 1, INT_MAX), Kind.BOOL: (False, True), Kind.FLOAT: (0.0, 1.0, 5e-324)}
VALUES = (None, INT_MIN, 0, 1, 2, INT_MAX, False, True, -1.0, 0.0, 5e-324, 0.5, 1.0, 2.0, "a", b"a")
WORLD = list(all_events({"x": VALUES, "y": VALUES}))


def _typed_atoms():
    for uid in ("x", "y"):
        yield Exists(uid)
        for kind, literals in LITERALS.items():
            for literal in literals:
                yield from (Comparison(uid, operator, literal) for operator in operators_of(kind))
            yield Membership(uid, frozenset(literals[:2]))


def _conjunctions(atoms, max_size):
    literals = st.builds(
        lambda atom, negated: Not(atom) if negated else atom, st.sampled_from(atoms), st.booleans()
    )
    return st.lists(literals, max_size=max_size).map(lambda parts: AllOf(tuple(parts)))


typed = _conjunctions(list(_typed_atoms()), 4)
alternatives = st.lists(typed, max_size=3).map(lambda parts: AnyOf(tuple(parts)))


@given(typed, typed)
def test_conjunctions_of_typed_comparisons(wide, narrow):
    assert covers(wide=wide, narrow=narrow) is covers_in_world(wide=wide, narrow=narrow, events=WORLD)
    assert may_overlap(wide, narrow) is overlap_in_world(wide, narrow, WORLD)


@given(alternatives, alternatives)
def test_alternatives_of_conjunctions(wide, narrow):
    assert covers(wide=wide, narrow=narrow) is covers_in_world(wide=wide, narrow=narrow, events=WORLD)
    assert provably_empty(narrow) is not overlap_in_world(narrow, narrow, WORLD)


TEXTS = [{"s": text} for text in (None, 5, *texts_up_to(5, "ab c"))]


def _text_atoms():
    yield Exists("s")
    for text in ("a", "b", "ab", "ba", " ", ""):
        yield Comparison("s", Operator.EQ, text)
        for test in (TextTest.PREFIX, TextTest.SUFFIX, TextTest.CONTAINS):
            yield TextMatch("s", test, text)
    for word in ("a", "b", "ab"):
        yield TextMatch("s", TextTest.TOKEN, word)


textual = _conjunctions(list(_text_atoms()), 2)


PATHS = [{"s": text} for text in (None, 5, *texts_up_to(6, "/ab"))]
PATTERNS = ("/a", "/b", "/a/#", "/+", "/+/#", "/a/+", "/+/b", "/+/+/#", "/a/b/#")
pathlike = _conjunctions(
    [
        *(TextMatch("s", TextTest.LEVELS, text) for text in PATTERNS),
        *(Not(TextMatch("s", TextTest.LEVELS, text)) for text in PATTERNS),
        *(TextMatch("s", test, "/a") for test in (TextTest.PREFIX, TextTest.SUFFIX, TextTest.CONTAINS)),
        Comparison("s", Operator.EQ, "/a"),
    ],
    2,
)


@given(pathlike, pathlike)
def test_conjunctions_of_topic_patterns(wide, narrow):
    assert covers(wide=wide, narrow=narrow) is covers_in_world(wide=wide, narrow=narrow, events=PATHS)
    assert may_overlap(wide, narrow) is overlap_in_world(wide, narrow, PATHS)


@given(textual, textual)
def test_conjunctions_of_questions_about_text(wide, narrow):
    assert covers(wide=wide, narrow=narrow) is covers_in_world(wide=wide, narrow=narrow, events=TEXTS)
