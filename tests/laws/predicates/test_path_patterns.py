"""Laws of topic patterns: what they mean is what a person would tick off in a small world."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.predicates import TextMatch, TextTest, admits, covers, intersection, may_overlap
from maia.predicates.path_patterns import LEVELS_MAX, PATH_MAX, BadPathPattern, parse_path_pattern
from reference.topics import DEPTH, WORLD, meant, super_topics

pytestmark = pytest.mark.laws

LEVELS = ("a", "b", "+")
# One level less than the world is deep: a difference shows at a path that is there.
PATTERNS = [
    "/" + "/".join(levels) + rest
    for depth in range(1, DEPTH)
    for levels in product(LEVELS, repeat=depth)
    for rest in ("", "/#")
]
patterns = st.sampled_from(PATTERNS)


def asked(pattern):
    return TextMatch("topic", TextTest.LEVELS, pattern)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_the_reference_ticks_off(pattern):
    found, wanted = parse_path_pattern(pattern), meant(pattern)
    expression = re.compile(found.regex(), re.DOTALL)
    for path in WORLD:
        assert found.matches(path) is (path in wanted)
        assert (expression.fullmatch(path) is not None) is (path in wanted)
        assert admits(asked(pattern), {"topic": path}) is (path in wanted)
    assert str(found) == pattern


@given(patterns, patterns)
def test_the_intersection_of_patterns_is_exact(one, other):
    both = parse_path_pattern(one).intersection(parse_path_pattern(other))
    assert (frozenset() if both is None else meant(str(both))) == meant(one) & meant(other)
    assert may_overlap(asked(one), asked(other)) is (both is not None)
    together = intersection(asked(one), asked(other))
    assert all(
        admits(together, {"topic": path}) is (path in meant(one) and path in meant(other)) for path in WORLD
    )


@given(patterns, patterns)
def test_covering_of_patterns_is_exact(wide, narrow):
    expected = meant(wide) >= meant(narrow)
    assert parse_path_pattern(wide).covers(parse_path_pattern(narrow)) is expected
    assert covers(wide=asked(wide), narrow=asked(narrow)) is expected


@given(patterns, st.integers(1, DEPTH))
def test_the_paths_below_a_right_at_some_depth(pattern, depth):
    below = parse_path_pattern(pattern).super_topic(depth)
    for path in WORLD:
        above = super_topics(path)
        if len(above) >= depth:
            is_right = above[depth - 1] in meant(pattern)
            assert (below is not None and below.matches(path)) is is_right


@given(st.text(st.sampled_from("ab/+#\n é."), max_size=12))
def test_whatever_is_read_as_a_pattern_is_written_the_same_way(text):
    try:
        pattern = parse_path_pattern(text)
    except BadPathPattern:
        return
    assert str(pattern) == text
    assert pattern.matches(text.replace("+", "b").removesuffix("/#"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "/#", "#", "+", "a", "a/b", "/a/", "//a", "/a//b", "/a/#/b", "/a#", "/a+", "/+a", "/a/b#"),
        *("/a.b", "/ a", "/a ", "/é", "/e\u0301", "/a\0", "/a\n", "/%2e", "/a*", "/a?", "/$SYS", "/a\u200b"),
        *("/..", "/\ufeffa"),
        "/" + "/".join(["a"] * (LEVELS_MAX + 1)),
        "/" + "a" * PATH_MAX,
    ],
)  # fmt: skip
def test_a_pattern_that_could_be_mistaken_for_another_is_refused(text):
    with pytest.raises(BadPathPattern):
        parse_path_pattern(text)


def test_the_longest_and_the_deepest_patterns_are_read():
    longest = "/" + "a" * (PATH_MAX - 1)
    assert parse_path_pattern(longest).matches(longest)
    assert parse_path_pattern(f"{longest}/#").matches(longest)
    deepest = "/" + "/".join(["+"] * LEVELS_MAX) + "/#"
    assert parse_path_pattern(deepest).matches("/" + "/".join(["a"] * (LEVELS_MAX + 3)))
