"""What holds of every predicate when it is written and read back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.canonical import read_canonical, write_canonical
from maia.errors import MaiaError
from maia.events import Attribute, vocabulary_of
from maia.predicates import (
    AllOf,
    Exists,
    Not,
    format_predicate,
    parse_predicate,
    predicate_from_expression,
    predicate_to_expression,
)
from support.predicates import KINDS, predicates

pytestmark = pytest.mark.laws

NAMES = {uid: f"The_{uid}" for uid in KINDS}
VOCABULARY = vocabulary_of(Attribute(NAMES[uid], uid, kind) for uid, kind in KINDS.items())


@given(predicates(wild=True))
@example(AllOf((AllOf(()),)))
@example(AllOf((AllOf((Exists("a"), Exists("b"))), Exists("c"))))
@example(Not(Not(Exists("not"))))
def test_a_predicate_reads_back_from_its_text_by_uid(predicate):
    assert parse_predicate(format_predicate(predicate)) == predicate


@given(predicates(KINDS, wild=True))
def test_a_predicate_reads_back_from_its_text_by_name(predicate):
    assert parse_predicate(format_predicate(predicate, NAMES), VOCABULARY) == predicate


@given(predicates(wild=True))
def test_a_predicate_reads_back_from_its_bytes(predicate):
    octets = write_canonical(predicate_to_expression(predicate))
    assert predicate_from_expression(read_canonical(octets)) == predicate


@given(predicates(max_leaves=3), predicates(max_leaves=3))
def test_different_predicates_have_different_bytes_and_texts(one, other):
    same_bytes = predicate_to_expression(one) == predicate_to_expression(other)
    assert same_bytes is (one == other)
    assert (format_predicate(one) == format_predicate(other)) is (one == other)


FRAGMENTS = st.sampled_from(
    [
        *'()",#@\\~<>=!-.',
        "and",
        "or",
        "not",
        "in",
        "true",
        "exists(",
        "prefix(",
        "x",
        "5",
        "5.5",
        '"a"',
        'x"',
        "\u202e",
    ]
)


@given(st.one_of(st.text(max_size=30), st.lists(FRAGMENTS, max_size=12).map(" ".join)))
def test_any_text_is_read_or_refused_in_our_words(text):
    for vocabulary in (None, VOCABULARY):
        try:
            predicate = parse_predicate(text, vocabulary)
        except MaiaError:
            continue
        assert parse_predicate(format_predicate(predicate)) == predicate


EXPRESSIONS = st.recursive(
    st.one_of(
        st.binary(max_size=3), st.sampled_from([b"and", b"not", b"==", b"in", b"x", b"int", b"5", b"prefix"])
    ),
    lambda inner: st.lists(inner, max_size=5).map(tuple),
    max_leaves=10,
)


@given(EXPRESSIONS)
def test_any_expression_is_refused_or_is_the_one_encoding_of_what_was_read(expression):
    try:
        predicate = predicate_from_expression(expression)
    except MaiaError:
        return
    assert predicate_to_expression(predicate) == expression
