"""Claims about strings that meet several demands at once, each checked on every short string."""

from __future__ import annotations

from itertools import product

import pytest

from maia.events import Kind
from maia.predicates.covering.ordered_sets import FULL, edges_of, edges_with_prefix
from maia.predicates.covering.string_automata import TextClaim, claim_holds, implies, string_satisfying
from maia.predicates.syntax import OutOfSteps, Steps, TextTest
from reference.covering_by_enumeration import texts_up_to

ANY = FULL[Kind.STRING]
TESTS = (TextTest.SUFFIX, TextTest.CONTAINS, TextTest.TOKEN)


def _claims(texts):
    for test, text, holds in product(TESTS, texts, (True, False)):
        if test is not TextTest.TOKEN or (text and " " not in text):
            yield TextClaim(test, text, holds)


@pytest.mark.parametrize("claim", list(_claims(("", "a", "ab", "aab", "abab", "abaab"))), ids=str)
def test_an_automaton_reads_every_short_string_as_its_claim_does(claim):
    for text in (*texts_up_to(6, "ab"), *texts_up_to(3, "ab ")):
        found = string_satisfying(edges_of([text]), [claim], Steps())
        assert (found == text) is claim_holds(claim, text), text


def test_what_one_claim_implies_of_another_holds_for_every_short_string():
    texts = texts_up_to(4, "ab ")
    for given, asked in product(_claims(("", "a", "ab", "ba", "bab")), repeat=2):
        if implies(given, asked):
            assert all(claim_holds(asked, text) for text in texts if claim_holds(given, text)), (given, asked)


def test_visible_implications_are_seen():
    def contains(text, *, holds=True):
        return TextClaim(TextTest.CONTAINS, text, holds)

    assert implies(contains("abc"), contains("b"))
    assert implies(contains("b", holds=False), contains("abc", holds=False))
    assert not implies(contains("abc", holds=False), contains("b", holds=False))
    assert implies(TextClaim(TextTest.TOKEN, "red", True), contains("re"))
    assert implies(TextClaim(TextTest.SUFFIX, "red", True), TextClaim(TextTest.SUFFIX, "d", True))


def test_the_string_found_is_a_shortest_one():
    overlapping = [TextClaim(TextTest.CONTAINS, text, True) for text in ("abc", "bcd", "cda")]
    assert string_satisfying(ANY, overlapping, Steps()) == "abcda"
    red_only_inside = [TextClaim(TextTest.CONTAINS, "red", True), TextClaim(TextTest.TOKEN, "red", False)]
    assert len(string_satisfying(ANY, red_only_inside, Steps())) == 4


def test_characters_that_no_claim_names_are_tried_where_the_order_needs_them():
    above_b = [TextClaim(TextTest.CONTAINS, "a", False), TextClaim(TextTest.CONTAINS, "b", False)]
    found = string_satisfying(("b\x01",), above_b, Steps())
    assert found > "b"
    between = string_satisfying(("a", "a\x02"), [TextClaim(TextTest.SUFFIX, "a", False)], Steps())
    assert between == "a\x01"


def test_surrogates_and_zero_are_never_part_of_the_string_found():
    just_below = string_satisfying(
        ("\ud7ff\x01", "\ue000"), [TextClaim(TextTest.SUFFIX, "\x01", False)], Steps()
    )
    assert just_below.startswith("\ud7ff")
    assert just_below.encode()
    assert edges_with_prefix("\ud7ff") == ("\ud7ff", "\ue000")
    assert edges_with_prefix("a\U0010ffff") == ("a\U0010ffff", "b")
    assert edges_with_prefix("\U0010ffff") == ("\U0010ffff",)


def test_a_walk_that_takes_too_long_says_so_and_always_at_the_same_step():
    claims = [
        TextClaim(TextTest.CONTAINS, f"{first}{second}", True)
        for first, second in product("abcdef", repeat=2)
    ]
    for steps in (Steps(5_000), Steps(5_000)):
        with pytest.raises(OutOfSteps):
            string_satisfying(ANY, claims, steps)
    assert string_satisfying(ANY, claims[:3], Steps(5_000)) is not None
