"""The canonical reader accepts one form of each expression, and says where another goes wrong."""

from __future__ import annotations

import pytest

from maia.canonical import BadSExpression, Hinted, Limits, read_canonical, write_canonical
from maia.testing.refusals import raises

DEEP = 10**6


@pytest.mark.parametrize(
    ("data", "expression"),
    [
        (b"0:", b""),
        (b"3:abc", b"abc"),
        (b"()", ()),
        (b"(())", ((),)),
        (b"(1:a(1:b1:c)())", (b"a", (b"b", b"c"), ())),
        (b"[10:text/plain]2:hi", Hinted(b"text/plain", b"hi")),
        (b"([1:h]0:1:a)", (Hinted(b"h", b""), b"a")),
        (b"10:0123456789", b"0123456789"),
        (b"4:1:(:", b"1:(:"),
    ],
)
def test_canonical_bytes_are_read_and_written_back(data, expression):
    assert read_canonical(data) == expression
    assert write_canonical(expression) == data


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "end at byte 0"),
        (b"(", "end at byte 1"),
        (b"(1:a", "end at byte 4"),
        (b"1", "end at byte 1"),
        (b"12", "end at byte 2"),
        (b"[1:a]", "end at byte 5"),
        (b"[1:a", "end at byte 4"),
        (b"[5:a]1:b", "end at byte 8"),
        (b"2:a", "end at byte 3"),
        (b"(2:a", "end at byte 4"),
        (b")", "byte 0 is 0x29"),
        (b"())", "ends at byte 2"),
        (b"1:a1:b", "ends at byte 3"),
        (b"1:a\n", "ends at byte 3"),
        (b"01:a", "begins with a zero"),
        (b"00:", "begins with a zero"),
        (b"(010:0123456789)", "length at byte 1 begins with a zero"),
        (b" 1:a", "byte 0 is 0x20"),
        (b"(1:a 1:b)", "byte 4 is 0x20"),
        (b"-1:a", "byte 0 is 0x2d"),
        (b"+1:a", "byte 0 is 0x2b"),
        (b"1_0:0123456789", "not followed by `:`"),
        (b"1.0:a", "not followed by `:`"),
        (b"1 :a", "not followed by `:`"),
        (b"\xd9\xa1:a", "byte 0 is 0xd9"),  # an Arabic digit, which `int` would take
        (b"abc", "byte 0 is 0x61"),
        (b'"abc"', "byte 0 is 0x22"),
        (b"#61#", "byte 0 is 0x23"),
        (b"|YQ==|", "byte 0 is 0x7c"),
        (b"{MTph}", "byte 0 is 0x7b"),
        (b"[0:]1:a", "hint at byte 0 is empty"),
        (b"[1:a1:b", "does not end with `]` at byte 4"),
        (b"[1:a](1:b)", "byte 5 is 0x28"),
        (b"[1:a][1:b]1:c", "byte 5 is 0x5b"),
        (b"[[1:a]1:b]1:c", "byte 1 is 0x5b"),
        (b"[(1:a)]1:b", "byte 1 is 0x28"),
        (b"]", "byte 0 is 0x5d"),
    ],
)
def test_anything_else_is_refused_with_its_place(data, sentence):
    with raises("INPUT-SEXP-NOT-CANONICAL") as refused:
        read_canonical(data)
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    "claim", [b"999999999999:a", b"(4294967296:a", b"9223372036854775808:a", b"9" * 400 + b":a"]
)
def test_a_length_that_lies_is_refused_before_anything_is_reserved(claim):
    with pytest.raises(BadSExpression):
        read_canonical(claim)


def test_nesting_is_limited():
    limits = Limits(depth_max=3)
    assert read_canonical(b"((()))", limits) == (((),),)
    with raises("INPUT-SEXP-TOO-LARGE", match="deeper than 3 at byte 3"):
        read_canonical(b"(((())))", limits)


def test_a_million_brackets_neither_recurse_nor_hang():
    with raises("INPUT-SEXP-TOO-LARGE"):
        read_canonical(b"(" * DEEP)
    wide_open = Limits(size_max=4 * DEEP, depth_max=2 * DEEP)
    with raises("INPUT-SEXP-NOT-CANONICAL"):
        read_canonical(b"(" * DEEP, wide_open)
    nested = b"(" * DEEP + b")" * DEEP
    assert write_canonical(read_canonical(nested, wide_open)) == nested


def test_size_and_strings_are_limited():
    limits = Limits(size_max=10, atom_max=4)
    assert read_canonical(b"(4:abcd)", limits) == (b"abcd",)
    with raises("INPUT-SEXP-TOO-LARGE", match="longer than the 4 bytes"):
        read_canonical(b"5:abcde", limits)
    with raises("INPUT-SEXP-TOO-LARGE", match="longer than the 4 bytes"):
        read_canonical(b"[5:abcde]", limits)
    with raises("INPUT-SEXP-TOO-LARGE", match="more than 12 digits"):
        read_canonical(b"1234567890123:a")
    with raises("INPUT-SEXP-TOO-LARGE", match="11 bytes are more than the 10"):
        read_canonical(b"(1:a1:b1:c)", limits)


def test_only_expressions_are_written():
    with pytest.raises(BadSExpression, match="`str`"):
        write_canonical((b"a", "b"))  # type: ignore[arg-type]  # the mistake under test
    with pytest.raises(BadSExpression, match="empty"):
        Hinted(b"", b"text")
