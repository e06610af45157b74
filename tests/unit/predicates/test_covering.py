"""Claims about covering that a reader can check by eye."""

from __future__ import annotations

import pytest

from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    counterexample,
    covers,
    format_predicate,
    intersection,
    may_overlap,
    parse_predicate,
    provably_empty,
    simplified,
)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x >= 3", "x >= 3"),
        ("x >= 3", "x > 3"),
        ("x > 2", "x >= 3"),  # ints have nothing between 2 and 3
        ("x != 5", "x < 5"),
        ("x != 5", "x in (4, 6)"),
        ("not (x == 5)", "x == 6"),
        ("x in (1, 2, 3)", "x >= 1 and x <= 3"),
        ("x < 5 or x >= 5", "x == 7"),
        ("exists(x)", "not (x == 5)"),
        ("exists(x)", 'x != "a"'),
        ("exists(x)", "x == true"),
        ("b == true or b == false", "b != true"),
        ('prefix(n, "uk.")', 'prefix(n, "uk.police.")'),
        ('prefix(n, "uk.")', 'n == "uk.police"'),
        ('n >= "uk." and n < "uk/"', 'prefix(n, "uk.")'),
        ('contains(n, "li")', 'suffix(n, "police")'),
        ('contains(n, "k.po")', 'prefix(n, "uk.police")'),
        ('contains(n, "ed")', 'token(n, "red")'),
        ('not contains(n, "red car")', 'not contains(n, "red")'),
        ('token(n, "red")', 'n in ("red", "a red car")'),
        ('contains(n, "aba")', 'contains(n, "ab") and n == "xaba"'),
        ('not suffix(n, "xb")', 'suffix(n, "a")'),
        ("true", "false"),
        ("x < 5", "x < 5 and y == 1"),
        ("x < 5 or y == 1", "x < 5"),
        ("(x < 5 or y == 1) and exists(z)", "y == 1 and z == 2"),
        ("x == 1 and y == 1 or x == 1 and y != 1", "x == 1 and y == 3"),
        ("x == 5", "x == 4 and x == 5"),  # nothing is covered by everything
        ("not exists(x)", "not exists(x) and y == 1"),
    ],
)
def test_the_wide_filter_covers_the_narrow_one(wide, narrow):
    assert covers(wide=parse_predicate(wide), narrow=parse_predicate(narrow))
    assert counterexample(wide=parse_predicate(wide), narrow=parse_predicate(narrow)) is None


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x > 3", "x >= 3"),
        ("x > 2.0", "x >= 3"),  # a float never compares with an int
        ("x == 1", "x == true"),
        ("x == 1", "x == 1.0"),
        ("x < 5 or x >= 5", "exists(x)"),  # x may be of another kind
        ("x == 5 or not (x == 5)", "true"),  # and it may be missing
        ("not (x == 5)", "not exists(x)"),
        ("not (x == 5)", "x == 5.0"),
        ("exists(x)", "true"),
        ("x < 5 and y == 1", "x < 5"),
        ('prefix(n, "uk.")', 'contains(n, "uk.")'),
        ('contains(n, "uk")', 'contains(n, "UK")'),
        ('token(n, "red")', 'contains(n, "red")'),
        ('n == "é"', 'n == "e\\u{301}"'),
        ('contains(n, "abab")', 'contains(n, "ab")'),
        ("x == 1 and y == 1 or x == 2 and y == 2", "x in (1, 2) and y in (1, 2)"),
        ("false", "true"),
    ],
)
def test_the_wide_filter_does_not_cover_the_narrow_one(wide, narrow):
    assert not covers(wide=parse_predicate(wide), narrow=parse_predicate(narrow))
    assert counterexample(wide=parse_predicate(wide), narrow=parse_predicate(narrow)) is not None


@pytest.mark.parametrize(
    "text",
    [
        "x < 5 and x > 4",
        "x == 1 and x == 1.0",
        "x < -9223372036854775808",
        "exists(x) and not exists(x)",
        "x == 1 and not exists(x)",
        'n < ""',
        'prefix(n, "a") and prefix(n, "b")',
        'suffix(n, "a") and suffix(n, "b")',
        'contains(n, "a") and not contains(n, "a")',
        'token(n, "a") and not contains(n, "a")',
        'n > "a" and n < "a\\u{1}"',
        'prefix(n, "ab") and suffix(n, "ba") and n < "ab" ',
        "b != true and b != false",
        "not true",
    ],
)
def test_contradictions_are_proved_empty(text):
    assert provably_empty(parse_predicate(text))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("x < 5", "x > 3", True),
        ("x < 5", "x > 4", False),
        ("x < 5", "x > 4.0", False),
        ("x < 5", "y > 4", True),
        ('prefix(n, "ab")', 'suffix(n, "ba")', True),
        ('prefix(n, "ab")', 'not contains(n, "a")', False),
        ('token(n, "red")', 'n == "reddish"', False),
    ],
)
def test_overlap(one, other, expected):
    assert may_overlap(parse_predicate(one), parse_predicate(other)) is expected


def test_an_intersection_is_flat_and_says_nothing_twice():
    one = parse_predicate("x == 1 and (y == 2 and z == 3)")
    other = parse_predicate("z == 3 and x == 1 and w == 4")
    assert format_predicate(intersection(one, other)) == "x == 1 and y == 2 and z == 3 and w == 4"
    assert intersection(ALWAYS, other) == other
    assert intersection(NEVER, other) == NEVER


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("x < 5 and x < 7", "x < 5"),
        ("x < 5 or x < 7", "x < 7"),
        ("not (not (x < 5))", "x < 5"),
        ("not (x < 5 or y == 1)", "x >= 5 and y != 1"),
        ("x < 5 and true", "x < 5"),
        ("x < 5 and false", "false"),
        ("x < 5 and x > 7 or y == 1", "y == 1"),
        ("exists(x) or not exists(x)", "true"),
        ("x == 1 and (y == 2 and x == 1)", "x == 1 and y == 2"),
        ("x == 1 or x == 1 and y == 2", "x == 1"),
        ("all(any(x == 1))", "x == 1"),
    ],
)
def test_simplified_filters(text, short):
    assert format_predicate(simplified(parse_predicate(text))) == short


def _one_of_two(index):
    # Neighbours share an attribute, so that none of them can be checked alone.
    return AnyOf(tuple(Comparison(f"x{index + step}", Operator.LT, 5) for step in (0, 1)))


def test_when_the_steps_run_out_equal_parts_still_cover_each_other():
    # 2^40 clauses: no author can spread this out.
    large = AllOf(tuple(_one_of_two(index) for index in range(40)))
    assert covers(wide=large, narrow=AllOf((large, Exists("z"))))
    assert covers(wide=_one_of_two(7), narrow=large)
    assert covers(wide=AnyOf((Exists("z"), _one_of_two(7))), narrow=large)


def test_when_the_steps_run_out_the_answer_is_no():
    large = AllOf(tuple(_one_of_two(index) for index in range(40)))
    every_other = AnyOf((AllOf(tuple(Exists(f"x{index}") for index in range(0, 42, 2))), _one_of_two(0)))
    assert not covers(wide=Exists("x5"), narrow=large)
    assert not covers(wide=Not(every_other), narrow=large)
    assert not provably_empty(large)
    assert may_overlap(large, Exists("x5"))
    assert counterexample(wide=Exists("x5"), narrow=large) is None
    assert simplified(large) == large


def test_conjuncts_that_share_no_attribute_are_checked_alone():
    pairs = [AnyOf((Exists(f"a{index}"), Exists(f"b{index}"))) for index in range(200)]
    large = AllOf(tuple(pairs))
    assert covers(wide=pairs[7], narrow=large)
    assert covers(wide=AnyOf((pairs[7], pairs[8])), narrow=large)
    assert not covers(wide=Exists("a7"), narrow=large)
    assert provably_empty(AllOf((large, Not(pairs[9]))))
    assert len(counterexample(wide=Exists("a7"), narrow=large)) == 200


def test_long_lists_cover_each_other():
    wide = Membership("x", frozenset(range(5000)))
    narrow = Membership("x", frozenset(range(1, 4000)))
    assert covers(wide=wide, narrow=narrow)
    assert not covers(wide=narrow, narrow=wide)
    assert covers(wide=Not(wide), narrow=Comparison("x", Operator.GE, 5000))


def test_thousands_of_conjuncts_and_alternatives_about_one_attribute():
    unequal = AllOf(tuple(Comparison("x", Operator.NE, number) for number in range(0, 6000, 2)))
    equal = AnyOf(tuple(Comparison("x", Operator.EQ, number) for number in range(0, 6000, 2)))
    assert covers(wide=Comparison("x", Operator.NE, 500), narrow=unequal)
    assert not covers(wide=Comparison("x", Operator.NE, 501), narrow=unequal)
    assert covers(wide=equal, narrow=Comparison("x", Operator.EQ, 500))
    assert not covers(wide=equal, narrow=Comparison("x", Operator.EQ, 501))
    assert covers(wide=unequal, narrow=Comparison("x", Operator.GT, 6000))
    assert not may_overlap(equal, unequal)


def test_thousands_of_demands_on_one_string_are_compared_by_their_looks():
    infixes = AllOf(tuple(TextMatch("n", TextTest.CONTAINS, f"{number:04d}") for number in range(3000)))
    assert covers(wide=TextMatch("n", TextTest.CONTAINS, "0042"), narrow=infixes)
    assert covers(wide=infixes, narrow=AllOf((*infixes.parts, Exists("x"))))
    assert not covers(wide=TextMatch("n", TextTest.CONTAINS, "word"), narrow=infixes)
    assert len(simplified(infixes).parts) == 3000


def test_questions_about_predicates_that_are_too_large_are_refused():
    deep = Exists("x")
    for _ in range(100_000):
        deep = Not(deep)
    for ask in (
        provably_empty,
        simplified,
        lambda one: intersection(one, one),
        lambda one: may_overlap(one, one),
    ):
        with pytest.raises(PredicateTooLarge):
            ask(deep)
    with pytest.raises(PredicateTooLarge):
        covers(wide=deep, narrow=deep)


def test_the_deepest_predicates_are_compared():
    deep = Exists("x")
    for level in range(DEPTH_MAX - 1):
        deep = (AllOf if level % 2 else AnyOf)((deep, Exists(f"y{level}")))
    assert covers(wide=deep, narrow=deep)
    assert may_overlap(deep, deep)
