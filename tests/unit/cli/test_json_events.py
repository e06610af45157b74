"""Events as lines of JSON: what is read is what was meant, and what does not fit is named."""

from __future__ import annotations

import pytest

from maia.cli.participate.json_events import BadEventLine, event_from_line, event_from_words, record_of
from maia.credentials import SigningKey, TypeName
from maia.events import Attribute, Instant, Kind, attribute_uid
from maia.types import TypeDefinition

NOW = Instant.parse("2026-11-15T12:00:00Z")
NAMES = {"text": Kind.STRING, "number": Kind.INT, "share": Kind.FLOAT, "flag": Kind.BOOL, "raw": Kind.BYTES}
ATTRIBUTES = tuple(
    Attribute(name, attribute_uid(str(uid)), kind)
    for uid, (name, kind) in enumerate((NAMES | {"at": Kind.TIMESTAMP}).items())
)
TYPE = TypeDefinition(TypeName(SigningKey.from_seed(b"o" * 32).principal, "T", "0"), None, ATTRIBUTES)


def test_a_line_is_read_by_the_kinds_of_the_type() -> None:
    line = '{"text": "é", "number": 3, "share": 2, "flag": true, "raw": "00ff", "at": "2026-01-02T03:04:05Z"}'
    event = event_from_line(line, TYPE, now=NOW)
    assert event == {
        "text": "é",
        "number": 3,
        "share": 2.0,
        "flag": True,
        "raw": b"\x00\xff",
        "at": Instant.parse("2026-01-02T03:04:05Z"),
    }
    assert [type(event[name]) for name in ("number", "share", "flag")] == [int, float, bool]


def test_words_are_read_by_the_kinds_of_the_type_and_now_is_now() -> None:
    words = ["text=a=b", "number=-3", "share=1.5", "flag=false", "raw=ff", "at=now"]
    assert event_from_words(words, TYPE, now=NOW) == {
        "text": "a=b",
        "number": -3,
        "share": 1.5,
        "flag": False,
        "raw": b"\xff",
        "at": NOW,
    }


def test_what_was_read_is_written_the_same() -> None:
    line = '{"text": "x", "number": 1, "share": 0.5, "flag": false, "raw": "0a", "at": null}'
    written = record_of(event_from_line(line, TYPE, now=NOW))
    assert written == {"text": "x", "number": 1, "share": 0.5, "flag": False, "raw": "0a", "at": None}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        "3",
        "{",
        '{"other": 1}',
        '{"number": "3"}',
        '{"number": 3.0}',
        '{"number": true}',
        '{"flag": 1}',
        '{"flag": "true"}',
        '{"text": 3}',
        '{"share": NaN}',
        '{"share": 1e999}',
        '{"number": 99999999999999999999}',
        '{"raw": "0g"}',
        '{"at": "yesterday"}',
        '{"at": 5}',
        '{"text": "\\u0000"}',
        '{"text": ["a"]}',
        "[" * 100_000,
        '{"number": ' + "9" * 5000 + "}",
        '{"share": 1' + 400 * "0" + "}",
    ],
)
def test_a_line_that_does_not_fit_is_one_of_our_errors(line: str) -> None:
    with pytest.raises(BadEventLine) as caught:
        event_from_line(line, TYPE, now=NOW)
    assert len(caught.value.message) < 300


@pytest.mark.parametrize(
    "word", ["number", "number=x", "flag=1", "other=1", "at=then", "raw=1", "share=much"]
)
def test_a_word_that_does_not_fit_is_named(word: str) -> None:
    with pytest.raises(BadEventLine, match=word.partition("=")[0]):
        event_from_words([word], TYPE, now=NOW)
