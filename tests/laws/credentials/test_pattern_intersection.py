"""Patterns against brute force: every short name over a small alphabet is asked."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import NamePattern, parse_name_pattern
from maia.credentials.names import is_reserved, pattern_of_parts
from support.certificates import pattern_texts

pytestmark = pytest.mark.laws

# Two letters and up to six characters reach every way in which two short patterns can overlap.
EVERY_NAME = tuple("".join(letters) for size in range(7) for letters in product("ab", repeat=size))
PATTERNS = pattern_texts(st.text("ab", max_size=3)).map(parse_name_pattern)


def matched(pattern: NamePattern | None) -> set[str]:
    return set() if pattern is None else {name for name in EVERY_NAME if pattern.matches(name)}


def obviously_matches(text: str, name: str) -> bool:
    """Say the same by trying every way to fill the stars."""
    if "*" not in text:
        return text == name
    head, rest = text.split("*", 1)
    return name.startswith(head) and any(
        obviously_matches(rest, name[cut:]) for cut in range(len(head), len(name) + 1)
    )


@given(pattern_texts(st.text("ab", max_size=3)))
def test_a_pattern_matches_what_filling_its_stars_gives(text):
    assert matched(parse_name_pattern(text)) == {name for name in EVERY_NAME if obviously_matches(text, name)}


@given(PATTERNS, PATTERNS)
@example(parse_name_pattern("ab*"), parse_name_pattern("*ba"))
@example(parse_name_pattern("ab*ba"), parse_name_pattern("a*a"))
@example(parse_name_pattern("aba*a"), parse_name_pattern("a*ba"))
def test_an_intersection_matches_exactly_what_both_match(one, other):
    """A8: exact, never merely overlapping."""
    assert matched(one.intersection(other)) == matched(one) & matched(other)


@given(PATTERNS, PATTERNS)
def test_order_does_not_matter(one, other):
    assert one.intersection(other) == other.intersection(one)


@given(PATTERNS, PATTERNS, PATTERNS)
def test_grouping_does_not_matter(one, other, third):
    left = one.intersection(other)
    right = other.intersection(third)
    assert (left and left.intersection(third)) == (right and one.intersection(right))


@given(PATTERNS)
def test_a_pattern_with_itself_or_with_any_is_itself(pattern):
    assert pattern.intersection(pattern) == pattern
    assert pattern.intersection(parse_name_pattern("*")) == pattern


@given(PATTERNS, PATTERNS, PATTERNS)
def test_a_conjunction_is_read_back_from_its_parts(one, other, third):
    both = one.intersection(other)
    all_three = both and both.intersection(third)
    if all_three is not None:
        assert pattern_of_parts(all_three.parts()) == all_three


@given(PATTERNS, PATTERNS)
def test_no_intersection_means_no_name_in_common(one, other):
    if one.intersection(other) is None:
        assert not matched(one) & matched(other)


# ---------------------------------------------------------------- names that the system reserves

BEGINNINGS = ("", "a", "mai", "maia", "maia.", "/adm", "/admin", "/admin/")
SOME_NAMES = tuple(one + rest for one in BEGINNINGS for rest in EVERY_NAME[:31])
NEAR_RESERVED = st.builds(
    lambda begins, text: parse_name_pattern((begins + text) or "*"),
    st.sampled_from(BEGINNINGS),
    st.one_of(
        st.text("ab", max_size=3),
        st.builds(lambda one, other: f"{one}*{other}", st.text("ab", max_size=2), st.text("ab", max_size=2)),
    ),
)


def among_some(pattern: NamePattern | None) -> set[str]:
    return set() if pattern is None else {name for name in SOME_NAMES if pattern.matches(name)}


@given(NEAR_RESERVED)
def test_a_pattern_means_reserved_names_or_others_and_never_both(pattern):
    """A86: and reserved ones only where it spells their beginning out."""
    found = among_some(pattern)
    assert {is_reserved(name) for name in found} <= {pattern.is_reserved}
    spelled = str(pattern).split("*")[0]
    assert not pattern.is_reserved or spelled.startswith(("maia.", "/admin/"))


@given(NEAR_RESERVED, NEAR_RESERVED, NEAR_RESERVED)
@example(parse_name_pattern("/admin/a*"), parse_name_pattern("/admin/*b"), parse_name_pattern("*"))
def test_intersections_with_reserved_names_are_exact_too(one, other, third):
    """A8, A86: in any order and grouping, and as they are written into certificates."""
    both = one.intersection(other)
    assert among_some(both) == among_some(one) & among_some(other)
    assert both == other.intersection(one)
    right = other.intersection(third)
    assert (both and both.intersection(third)) == (right and one.intersection(right))
    assert both is None or pattern_of_parts(both.parts()) == both
