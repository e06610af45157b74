"""The generated function is made of our words alone, and answers as the definition does."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials.authority import ALL_ATTRIBUTES
from maia.events import AttributeUid, Instant
from maia.policy.view import View, Window, see
from maia.predicates.meaning import admits
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    TextMatch,
    TextTest,
)
from maia.views import to_python, to_python_test
from maia.views.to_python import see_source
from support.view_cases import random_event, random_predicate, random_view

OUR_WORDS = re.compile(
    "def|bind|run|event|get|return|None|if|not|and|or|is|in|else|for|seen|shown|nothing|items|True|False|u|v"
    "|startswith|endswith|split|fullmatch|type|(string|int|float|bool|timestamp|bytes)_|(k|v|sv|w)[0-9]+"
)


@given(st.randoms())
def test_the_text_holds_no_word_that_a_policy_or_a_subscriber_wrote(random: Random):
    text, _ = see_source(random_view(random))
    assert re.fullmatch(r"[a-z_A-Z0-9 \n(){}\[\]:,.=!<>|']*", text)
    assert text.count("'") == 2 * text.count("' '")
    assert all(OUR_WORDS.fullmatch(word) for word in re.findall(r"[A-Za-z_]\w*", text))


def test_two_views_that_differ_in_operands_alone_have_one_text():
    def view(uid: str, text: str) -> View:
        shown = frozenset({AttributeUid(uid)})
        return View((Window(Comparison(AttributeUid(uid), Operator.EQ, text), shown),))

    plain, hostile = view("a", "b"), view('"); import os; ("', "'\n import os #")
    assert see_source(plain)[0] == see_source(hostile)[0]


@given(st.randoms())
def test_a_test_answers_as_the_meaning_does(random: Random):
    predicate, event = random_predicate(random, depth=4), random_event(random, 0)
    assert to_python_test(predicate)(event) is admits(predicate, event)


@pytest.mark.parametrize("count", [24, 25, 200])
def test_many_attributes_are_collected_as_few_are(count: int):
    uids = [AttributeUid(f"a{i}") for i in range(count)]
    event = {uid: i for i, uid in enumerate(uids) if i % 7}
    some, rest = Window(ALWAYS, frozenset(uids[::2])), Window(Exists(uids[1]), frozenset(uids[1::3]))
    never = Window(NEVER, ALL_ATTRIBUTES)
    for windows in ((some,), (some, rest), (some, rest, never), (never, never)):
        assert to_python(View(windows))(event) == see(View(windows), event)


def test_the_event_itself_is_never_handed_out_or_changed():
    event = {AttributeUid("a"): 1, AttributeUid("b"): None}
    seen = to_python(View((Window(ALWAYS, ALL_ATTRIBUTES),)))(event)
    assert seen == {"a": 1}
    assert seen is not event
    assert event == {"a": 1, "b": None}


@pytest.mark.parametrize("value", [1, 1.0, True, "1", b"1", Instant(1), None])
def test_a_value_of_another_kind_is_unknown_to_every_question(value: object):
    uid = AttributeUid("a")
    event = {uid: value}
    for literal in (1, 1.0, True, "1", b"1", Instant(1)):
        for atom in (Comparison(uid, Operator.EQ, literal), Membership(uid, frozenset({literal}))):
            same = type(value) is type(literal)
            assert to_python_test(atom)(event) is same
            assert to_python_test(Not(atom))(event) is False
    assert to_python_test(AllOf((Not(TextMatch(uid, TextTest.PREFIX, "x")),)))(event) is isinstance(
        value, str
    )
