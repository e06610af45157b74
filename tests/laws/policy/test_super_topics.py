"""Laws of publishing on topics: the right is needed on the topic and on every topic above it (A99)."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.policy.restrictions import with_super_topics
from maia.predicates import (
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
    admits,
)
from maia.predicates.path_patterns import LEVELS_MAX
from reference.topics import WORLD, meant, publishable, super_topics

pytestmark = pytest.mark.laws

T = "topic"
PATTERNS = ("/a", "/b", "/+", "/a/#", "/a/b", "/a/+", "/a/+/#", "/+/b/#", "/a/b/a/#", "/+/+/+", "/a/b/+")


def on(pattern):
    return TextMatch(T, TextTest.LEVELS, pattern)


@given(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=4))
def test_a_publisher_publishes_where_the_reference_lets_it(patterns):
    closed = with_super_topics(AnyOf(tuple(map(on, patterns))), T, "/a")
    found = {path for path in WORLD if admits(closed, {T: path})}
    assert found == publishable(patterns) & meant("/a/#")


clear = st.sampled_from(
    [
        *map(on, PATTERNS),
        *(TextMatch(T, TextTest.PREFIX, text) for text in ("", "/", "/a", "/a/", "/a/b", "/a/b/a")),
        Comparison(T, Operator.EQ, "/a"),
        Comparison(T, Operator.EQ, "/+"),
        Comparison(T, Operator.NE, "/a/b"),
        Membership(T, frozenset({"/a", "/a/b"})),
        Exists(T),
        Comparison("price", Operator.GT, 3),
        Exists("price"),
    ]
)
UNCLEAR = [
    *(TextMatch(T, test, "a") for test in (TextTest.SUFFIX, TextTest.CONTAINS, TextTest.TOKEN)),
    Comparison(T, Operator.LT, "/b"),
    Comparison(T, Operator.EQ, 7),
    Membership(T, frozenset({1, 2})),
]


def formulas(atoms):
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, max_size=3).map(lambda parts: AllOf(tuple(parts))),
            st.lists(inner, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        ),
        max_leaves=5,
    )


def holds_above(predicate, path, price):
    return all(admits(predicate, {T: one, **price}) for one in super_topics(path))


@given(formulas(clear), st.sampled_from([{}, {"price": 1}, {"price": 5}]))
def test_whatever_a_restriction_says_it_has_to_hold_on_every_level(predicate, price):
    closed = with_super_topics(predicate, T, "/a")
    for path in sorted(meant("/a/#")):
        assert admits(closed, {T: path, **price}) is holds_above(predicate, path, price), path


@given(formulas(st.one_of(clear, st.sampled_from(UNCLEAR))))
@example(Not(TextMatch(T, TextTest.SUFFIX, "zzz")))
@example(Not(AllOf((TextMatch(T, TextTest.SUFFIX, "zzz"), on("/a")))))
def test_a_restriction_that_says_nothing_of_super_topics_never_grants_more(predicate):
    closed = with_super_topics(predicate, T, "/a")
    for path in WORLD:
        assert not admits(closed, {T: path}) or (path in meant("/a/#") and holds_above(predicate, path, {}))


def test_a_restriction_that_grows_too_large_grants_nothing():
    deep = [f"{'/a' * (1 + number % (LEVELS_MAX - 1))}/b{number}/#" for number in range(3_000)]
    assert with_super_topics(AnyOf(tuple(map(on, deep))), T, "/a") == NEVER
