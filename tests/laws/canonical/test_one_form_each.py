"""What is accepted is written back unchanged, so each expression has one canonical form."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maia.canonical import (
    BadSExpression,
    read_advanced,
    read_canonical,
    write_advanced,
    write_canonical,
)
from support.expressions import expressions, nearly_canonical

pytestmark = pytest.mark.laws


@given(expressions())
def test_the_canonical_form_is_read_back(expression):
    assert read_canonical(write_canonical(expression)) == expression


@given(expressions())
def test_the_advanced_form_is_read_back_and_is_plain_ascii(expression):
    text = write_advanced(expression)
    assert read_advanced(text) == expression
    assert all(character == "\n" or " " <= character <= "~" for character in text)


@given(expressions(), expressions())
def test_different_expressions_have_different_forms(one, other):
    assert (one == other) == (write_canonical(one) == write_canonical(other))


@given(st.one_of(st.binary(max_size=40), nearly_canonical()))
@example(b"01:a")
@example(b"[0:]1:a")
@example(b"(1:a")
@example(b"1:a ")
def test_whatever_is_accepted_is_written_back_unchanged(data):
    try:
        expression = read_canonical(data)
    except BadSExpression:
        return
    assert write_canonical(expression) == data


@given(st.one_of(st.text(max_size=40), st.text(alphabet='()[]{}"#|\\ab01:= \n', max_size=40)))
def test_any_text_is_read_or_refused(text):
    try:
        expression = read_advanced(text)
    except BadSExpression:
        return
    assert read_advanced(write_advanced(expression)) == expression


@given(expressions(), st.integers(0, 200))
def test_no_proper_beginning_of_a_canonical_form_is_one(expression, cut):
    data = write_canonical(expression)
    with pytest.raises(BadSExpression):
        read_canonical(data[: min(cut, len(data) - 1)])
