"""Claims about the text that people write, and about the help they get."""

from __future__ import annotations

import pytest

from maia.events import Attribute, Instant, Kind, attribute_uid, vocabulary_of
from maia.predicates import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
    TEXT_BYTES_MAX,
    AllOf,
    AnyOf,
    BadPredicateText,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    UnknownName,
    WrongLiteral,
    format_predicate,
    parse_predicate,
)

SIGHTING = vocabulary_of(
    Attribute(name, attribute_uid(uid), kind)
    for name, uid, kind in (
        ("plate", "p-1", Kind.STRING),
        ("speed", "s-1", Kind.INT),
        ("ratio", "r-1", Kind.FLOAT),
        ("seen-at", "t-1", Kind.TIMESTAMP),
        ("stolen", "b-1", Kind.BOOL),
        ("photo", "o-1", Kind.BYTES),
        ("like", "l-1", Kind.INT),
    )
)
NAMES = {attribute.uid: name for name, attribute in SIGHTING.items()}


def _is(uid, operator, literal):
    return Comparison(uid, Operator(operator), literal)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('plate == "AE05 XYZ"', _is("p-1", "==", "AE05 XYZ")),
        ('plate = "x"', _is("p-1", "==", "x")),
        ('plate != "\\u{e9}\\"\\\\\\n"', _is("p-1", "!=", 'é"\\\n')),
        ("speed >= -30", _is("s-1", ">=", -30)),
        ("speed<+30", _is("s-1", "<", 30)),
        ("ratio < 5", _is("r-1", "<", 5.0)),
        ("ratio == -0.0", _is("r-1", "==", 0.0)),
        ("ratio > 5e-1", _is("r-1", ">", 0.5)),
        ('seen-at <= "1970-01-01T00:00:01Z"', _is("t-1", "<=", Instant(1_000_000))),
        ("seen-at > @1970-01-01T01:00:00+01:00", _is("t-1", ">", Instant(0))),
        ('photo == "BEef"', _is("o-1", "==", b"\xbe\xef")),
        ('photo == x""', _is("o-1", "==", b"")),
        ("photo == 0xbe", _is("o-1", "==", b"\xbe")),
        ("stolen == true", _is("b-1", "==", True)),
        ("like == 1", _is("l-1", "==", 1)),
        ("#s-1 == 1", _is("s-1", "==", 1)),
        ("speed in (1, 2,2)", Membership("s-1", frozenset({1, 2}))),
        ("speed not in(1)", Not(Membership("s-1", frozenset({1})))),
        ('prefix(plate, "uk.")', TextMatch("p-1", TextTest.PREFIX, "uk.")),
        ('token ( plate , "uk" )', TextMatch("p-1", TextTest.TOKEN, "uk")),
        ("exists(photo)", Exists("o-1")),
        ("true", ALWAYS),
        ("false", NEVER),
        ("all()", ALWAYS),
        ("any(exists(photo))", AnyOf((Exists("o-1"),))),
        ("\n\t exists(photo)\r\n", Exists("o-1")),
    ],
)
def test_a_text_is_read_by_the_kinds_of_its_attributes(text, meant):
    found = parse_predicate(text, SIGHTING)
    assert found == meant
    assert parse_predicate(format_predicate(found, NAMES), SIGHTING) == meant
    assert parse_predicate(format_predicate(found)) == meant


def test_and_binds_tighter_than_or_and_not_tightest():
    a, b, c = (Exists(uid) for uid in "abc")
    assert parse_predicate("exists(a) or exists(b) and not exists(c)") == AnyOf((a, AllOf((b, Not(c)))))
    assert parse_predicate("(exists(a) or exists(b)) and exists(c)") == AllOf((AnyOf((a, b)), c))


def test_parentheses_keep_their_grouping():
    a, b, c = (Exists(uid) for uid in "abc")
    assert parse_predicate("exists(a) and exists(b) and exists(c)") == AllOf((a, b, c))
    assert parse_predicate("(exists(a) and exists(b)) and exists(c)") == AllOf((AllOf((a, b)), c))


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("x == 5", 5),
        ("x == 5.0", 5.0),
        ("x == 5e0", 5.0),
        ('x == "5"', "5"),
        ("x == true", True),
        ("x == @1970-01-01T00:00:00Z", Instant(0)),
        ('x == x"05"', b"\x05"),
        ("5e-3 == 5e-3", 0.005),
    ],
)
def test_without_a_vocabulary_a_literal_shows_its_own_kind(text, literal):
    found = parse_predicate(text)
    assert type(found.literal) is type(literal)
    assert found.literal == literal


@pytest.mark.parametrize(
    "uid", ["and", "or", "not", "in", "true", "false", "exists", "all", "5", "like", "null"]
)
def test_a_uid_that_looks_like_a_word_of_the_language_reads_back(uid):
    for predicate in (_is(uid, "==", 5), Exists(uid), Membership(uid, frozenset({1})), Not(Exists(uid))):
        assert parse_predicate(format_predicate(predicate)) == predicate


@pytest.mark.parametrize(
    ("text", "column", "help_"),
    [
        ("", 1, "the text ends"),
        ("speed", 6, "expected `==`"),
        ("speed 5", 7, "found `5`"),
        ("speed == 5 speed", 12, "expected `and`, `or` or the end"),
        ("(speed == 5", 12, "expected `)`"),
        ("speed == 5)", 11, "found `)`"),
        ("speed == 5 AND true", 12, "write `and` in lower case"),
        ("NOT true", 1, "write `not` in lower case"),
        ("true && true", 6, "write `and`"),
        ("speed is null", 7, "write exists(name)"),
        ("speed <> 5", 7, "write `!=`"),
        ("plate == 'x'", 10, "double quotes"),
        ('plate == "x', 10, "no closing quote"),
        ('plate == "\\q"', 11, "a string cannot hold this"),
        ('plate == "a\nb"', 12, "a string cannot hold this"),
        ("speed in ()", 11, "expected a literal"),
        ("speed in (1", 12, "expected `,` or `)`"),
        ("exists(speed", 13, "expected `)`"),
        ("prefix(plate)", 13, "expected `,`"),
        ('prefix(speed, "x")', 8, "asks about strings only"),
        ('token(plate, "a b")', 14, "a token is one word"),
        ("stolen < true", 8, "no meaning for a bool"),
        ("near(plate)", 1, "use one of exists, prefix"),
        ("speed ==\n  speed", 3, "line 2"),
    ],
)
def test_a_text_that_cannot_be_read_is_answered_with_column_and_help(text, column, help_):
    with pytest.raises(BadPredicateText) as refused:
        parse_predicate(text, SIGHTING)
    assert refused.value.column == column
    assert help_ in refused.value.message
    assert refused.value.as_record()["column"] == column


def test_the_caret_stands_under_the_column():
    with pytest.raises(BadPredicateText) as refused:
        parse_predicate("speed >= 30 and plat == 1", SIGHTING)
    _, shown, caret = refused.value.message.split("\n")
    assert shown[caret.index("^") :].startswith("plat ==")


def test_a_long_line_is_shown_in_part_and_without_control_characters():
    with pytest.raises(BadPredicateText) as refused:
        parse_predicate(" " * 5000 + "\x1b[31m\u202e" + "x" * 5000)
    assert len(refused.value.message) < 400
    assert "\x1b" not in refused.value.message
    assert "\u202e" not in refused.value.message


def test_the_nearest_name_is_offered():
    with pytest.raises(UnknownName, match="the nearest is `plate`"):
        parse_predicate('plat == "x"', SIGHTING)
    with pytest.raises(UnknownName, match="the nearest is `s-1`"):
        parse_predicate("#s-2 == 1", SIGHTING)
    with pytest.raises(UnknownName):
        parse_predicate("Plate == 1")


@pytest.mark.parametrize(
    "text",
    [
        "speed == 5.0",
        "speed == 5e0",
        'speed == "5"',
        "speed == true",
        "speed == 9223372036854775808",
        "speed == " + "9" * 65,
        "ratio == 9007199254740993",
        "ratio == 1e309",
        "ratio == 1e-999",
        'ratio == "5"',
        "plate == 5",
        "plate == true",
        "plate == @1970-01-01T00:00:00Z",
        'plate == "\\u{0}"',
        'plate == "\\u{d800}"',
        'plate == "\\u{110000}"',
        "stolen == 1",
        'stolen == "true"',
        "seen-at == 5",
        'seen-at == "1970-01-01"',
        "seen-at == @1970-01-01T00:00:00",
        'photo == "bee"',
        'photo == "be ef"',
        'photo == x"zz"',
        "photo == 5",
        "speed in (1, 2.0)",
    ],
)
def test_a_literal_that_its_attribute_can_never_equal_is_refused(text):
    with pytest.raises(WrongLiteral):
        parse_predicate(text, SIGHTING)


@pytest.mark.parametrize(
    "text", ["x == nan", "x == inf", "x == -inf", "x == 1_0", "x == 0b1", "x == .5", "x == 5."]
)
def test_other_spellings_of_numbers_are_no_literals(text):
    with pytest.raises(BadPredicateText):
        parse_predicate(text)


def test_a_list_without_a_vocabulary_is_of_one_kind():
    for text in ("x in (1, 1.0)", "x in (1, true)", 'x in (0, false, "a")'):
        with pytest.raises(BadPredicateText, match="all of one kind"):
            parse_predicate(text)


def test_text_is_limited_at_the_edge():
    text = 'x == "{}"'
    fitting = text.format("a" * (TEXT_BYTES_MAX - len(text) + 2))
    assert parse_predicate(fitting)
    with pytest.raises(PredicateTooLarge):
        parse_predicate(fitting + " ")


def test_parentheses_are_limited_at_the_edge():
    assert parse_predicate("(" * DEPTH_MAX + "true" + ")" * DEPTH_MAX) == ALWAYS
    with pytest.raises(PredicateTooLarge):
        parse_predicate("(" * (DEPTH_MAX + 1) + "true" + ")" * (DEPTH_MAX + 1))


def test_an_attribute_without_a_name_is_written_by_uid_and_read_back():
    predicate = AllOf((Exists("p-1"), Exists("s-1")))
    text = format_predicate(predicate, {"p-1": "plate"})
    assert text == "exists(plate) and exists(#s-1)"
    assert parse_predicate(text, SIGHTING) == predicate


def test_invisible_characters_in_a_literal_are_written_visibly():
    text = format_predicate(_is("x", "==", "a\u202eb\x07\u00a0c"))
    assert text == 'x == "a\\u{202e}b\\u{7}\\u{a0}c"'
