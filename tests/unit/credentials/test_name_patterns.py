"""Patterns mean what people write, and their intersection is exact."""

from __future__ import annotations

import pytest

from maia.credentials import ANY_NAME, BadPattern, PatternTooComplex, parse_name_pattern
from maia.credentials.names import INFIXES_MAX


@pytest.mark.parametrize(
    "text",
    [
        "",
        "**",
        "a**",
        "a*b*c",
        "*a*b",
        "a*b*",
        "***",
        "a?",
        "a#",
        "a+",
        ">",
        "a>",
        "[a]",
        "a\\*",
        "a|b",
        "a\n",
        "a\n*",
        "*\x00",
        "é*",
        "ａ*",
        "a..b",
        "a..*",
        "*a//b",
        "a%2a",
        "(a)",
        "^a",
        "a$",
        "a{1}",
        "a,b",
        "x" * 201,
    ],
)
def test_other_wildcards_and_characters_are_refused(text):
    with pytest.raises(BadPattern):
        parse_name_pattern(text)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("*", "a*", "a*"),
        ("a*", "ab*", "ab*"),
        ("a*", "b*", None),
        ("*a", "*ba", "*ba"),
        ("*a", "*b", None),
        ("ab*", "*ba", "ab* & *ba"),
        ("ab*ba", "a*", "ab*ba"),
        ("abc*c", "a*bc", "abc*c & *bc"),
        ("abc", "a*", "abc"),
        ("abc", "*d*", None),
        ("abc", "abd", None),
        ("*b*", "*abc*", "*abc*"),
        ("*x*", "a*", "a* & *x*"),
        ("*y*", "*x*", "*x* & *y*"),
        ("*b*", "abc*", "abc*"),
    ],
)
def test_intersections_as_people_write_them(one, other, both):
    found = parse_name_pattern(one).intersection(parse_name_pattern(other))
    assert (None if found is None else str(found)) == both
    assert parse_name_pattern(other).intersection(parse_name_pattern(one)) == found


def test_infixes_add_up_to_a_limit():
    pattern = ANY_NAME
    infixes = [f"*x{number:02}*" for number in range(INFIXES_MAX)]
    for text in infixes:
        found = pattern.intersection(parse_name_pattern(text))
        assert found is not None
        pattern = found
    assert pattern.parts() == tuple(infixes)
    with pytest.raises(PatternTooComplex):
        pattern.intersection(parse_name_pattern("*y*"))
