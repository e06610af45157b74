"""The advanced form is for people: several ways to write a string, and a place for every mistake."""

from __future__ import annotations

import pytest

from maia.canonical import (
    BadSExpression,
    Hinted,
    Limits,
    read_advanced,
    read_canonical,
    write_advanced,
    write_canonical,
)
from maia.testing.refusals import raises

DEEP = 10**6


@pytest.mark.parametrize(
    "text", ["abc", '"abc"', "#616263#", "3:abc", "{MzphYmM=}", "|YWJj|", '3"abc"', "3#616263#", "3|YWJj|"]
)
def test_rfc_9804_writes_one_string_in_many_ways(text):
    assert read_advanced(text) == b"abc"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ('(snicker "abc" (#03# |YWJj|))', b"(7:snicker3:abc(1:\x033:abc))"),
        ("( a ( b c ) ( ( d e ) ( e f ) ) )", b"(1:a(1:b1:c)((1:d1:e)(1:e1:f)))"),
        (
            "(11:certificate(6:issuer3:bob)(7:subject5:alice))",
            b"(11:certificate(6:issuer3:bob)(7:subject5:alice))",
        ),
        ("(4:icon[12:image/bitmap]9:xxxxxxxxx)", b"(4:icon[12:image/bitmap]9:xxxxxxxxx)"),
        ("(icon [image/bitmap] xxxxxxxxx)", b"(4:icon[12:image/bitmap]9:xxxxxxxxx)"),
        ("(7:subject(3:ref5:alice6:mother))", b"(7:subject(3:ref5:alice6:mother))"),
        ("{KDE6YTE6YjE6Yyk=}", b"(1:a1:b1:c)"),
        (" \t\r\n{ KDE6 YTE6\nYjE6Yyk }\f\v", b"(1:a1:b1:c)"),
        ("()", b"()"),
        ('""', b"0:"),
        ("##", b"0:"),
        ("||", b"0:"),
        ("0:", b"0:"),
        ("#6 1\n62#", b"2:ab"),
        ("|YW I=|", b"2:ab"),
        ("|YWI|", b"2:ab"),
        ("-./_:*+=a1", b"10:-./_:*+=a1"),
        (r'"\b\t\v\n\f\r\"\'\?\\\101\x42"', b"12:\b\t\v\n\f\r\"'?\\AB"),
        ('"a\\\nb\\\r\nc"', b"3:abc"),
        ("(a 3:b c)", b"(1:a3:b c)"),
    ],
)
def test_what_people_write_is_understood(text, canonical):
    assert write_canonical(read_advanced(text)) == canonical


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("", "ends in the middle", "line 1, column 1"),
        ("(a\n  (b", "ends in the middle", "line 2, column 5"),
        (")", "`)` cannot begin", "line 1, column 1"),
        ("a b", "more text follows", "line 1, column 3"),
        ("(a) )", "more text follows", "line 1, column 5"),
        ("(a ; comment\n)", "`;` cannot begin", "line 1, column 4"),
        ("(a\n\n  %)", "`%` cannot begin", "line 3, column 3"),
        ("é", r"`\xe9` cannot begin", "line 1, column 1"),
        ("\x00", r"`\x00` cannot begin", "line 1, column 1"),
        ('"a\nb"', "unprintable", "line 1, column 3"),
        ('"é"', "non-ASCII", "line 1, column 2"),
        (r'"a\qb"', "unknown escape", "line 1, column 3"),
        (r'"\x4"', "unknown escape", "line 1, column 2"),
        (r'"\400"', "unknown escape", "line 1, column 2"),
        ('"abc', "does not end", "line 1, column 1"),
        ('"abc\\"', "does not end", "line 1, column 1"),
        ('2"abc"', "says that it has 2 bytes, and has 3", "line 1, column 1"),
        ("3:ab", "says that it has 3 bytes, and has 2", "line 1, column 1"),
        ("2:é1", "outside ASCII", "line 1, column 3"),
        ("03:abc", "`0` cannot begin", "line 1, column 1"),
        ("3 :abc", "`3` cannot begin", "line 1, column 1"),
        ("3", "`3` cannot begin", "line 1, column 1"),
        ("1a", "`1` cannot begin", "line 1, column 1"),
        ("#abc#", "even number of digits", "line 1, column 1"),
        ("#0g#", "even number of digits", "line 1, column 1"),
        ("#ab", "no closing `#`", "line 1, column 1"),
        ("|YQ=|", "padding", "line 1, column 1"),
        ("|YQ===|", "padding", "line 1, column 1"),
        ("|Y|", "base64", "line 1, column 1"),
        ("|Y-_=|", "base64", "line 1, column 1"),
        ("|YR==|", "bits that mean nothing", "line 1, column 1"),
        ("|YQ", "no closing `|`", "line 1, column 1"),
        ("{YQ==}", "canonical", "line 1, column 1"),
        ("(a {MTph})", "`{` cannot begin", "line 1, column 4"),
        ("[]a", "`]` cannot begin", "line 1, column 2"),
        ('[""]a', "must not be empty", "line 1, column 2"),
        ("[a b", "`]` was expected", "line 1, column 4"),
        ("[a](b)", "`(` cannot begin", "line 1, column 4"),
        ("[[a]b]c", "`[` cannot begin", "line 1, column 2"),
        ("[a][b]c", "`[` cannot begin", "line 1, column 4"),
    ],
)
def test_a_mistake_is_refused_with_line_and_column(text, problem, place):
    with pytest.raises(BadSExpression) as refused:
        read_advanced(text)
    assert problem in refused.value.message
    assert place in refused.value.message


def test_limits_hold_for_text_too():
    limits = Limits(size_max=100, depth_max=2, atom_max=3)
    assert read_advanced("((abc))", limits) == ((b"abc",),)
    with raises("INPUT-SEXP-TOO-LARGE", match="deeper than 2"):
        read_advanced("(((abc)))", limits)
    with raises("INPUT-SEXP-TOO-LARGE", match="longer than the 3"):
        read_advanced("(abcd)", limits)
    with raises("INPUT-SEXP-TOO-LARGE", match="characters"):
        read_advanced(" " * 801, limits)
    with raises("INPUT-SEXP-TOO-LARGE", match="deeper"):
        read_advanced("(" * DEEP)


def test_deep_nesting_is_written_and_read_without_recursion():
    depth = 20_000
    wide_open = Limits(size_max=1 << 24, depth_max=depth)
    nested = read_canonical(b"(" * depth + b"1:a" + b")" * depth, wide_open)
    again = read_advanced(write_advanced(nested), wide_open)
    assert write_canonical(again) == write_canonical(nested)


def test_people_read_words_text_keys_and_boxes():
    text = write_advanced(
        (b"cert", b"two words", b"1", b"caf\xc3\xa9", b"\x00\x01", bytes(70), Hinted(b"text/plain", b"x"))
    )
    assert text == (
        "(cert\n"
        '  "two words"\n'
        '  "1"\n'
        r'  "caf\xc3\xa9"' + "\n"
        "  #0001#\n"
        "  |" + "A" * 92 + "AA==|\n"
        "  [text/plain]x)"
    )
    assert write_advanced((b"a", (b"b", b""), ())) == '(a (b "") ())'


def test_only_expressions_are_written():
    with pytest.raises(BadSExpression, match="`int`"):
        write_advanced((b"a", 1))  # type: ignore[arg-type]  # the mistake under test
