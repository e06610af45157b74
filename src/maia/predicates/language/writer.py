"""How is a predicate written so that a person can read it and `parse_predicate` reads it back?

Refusals, audit records, `maia filter` and certificates for people print
predicates this way. The text reads back as an equal predicate, with the same
grouping, as long as it is within the size that the parser takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, assert_never

from maia.events import AttributeUid, Instant, PresentValue
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Exists,
    Membership,
    Not,
    Predicate,
    TextMatch,
    checked_size,
)

_WORDS: Final = frozenset({"and", "or", "in", "not", "true", "false"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN: Final = re.compile(r"[ !#-\[\]-~]*")


def format_predicate(predicate: Predicate, names: Mapping[AttributeUid, str] | None = None) -> str:
    """Write a predicate: with `names`, as people call the attributes; without, or for others, by uid."""
    return _Writer(names).whole(checked_size(predicate))


def format_literal(literal: PresentValue) -> str:
    """Write a literal in the form that shows its kind."""
    match literal:
        case str():
            return f'"{_escaped(literal)}"'
        case bool():
            return "true" if literal else "false"
        case Instant():
            return f"@{literal}"
        case int() | float():
            return repr(literal)
        case bytes():
            return f'x"{literal.hex()}"'
        case _:
            assert_never(literal)


class _Writer:
    """One way of naming attributes."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[AttributeUid, str] | None) -> None:
        self._names = names

    def whole(self, predicate: Predicate) -> str:
        match predicate:
            case AllOf(parts) if len(parts) > 1:
                return " and ".join(self._within_and(part) for part in parts)
            case AnyOf(parts) if len(parts) > 1:
                return " or ".join(self._within_or(part) for part in parts)
            case _:
                return self._tight(predicate)

    def _within_or(self, predicate: Predicate) -> str:
        # `and` binds tighter, so it needs no parentheses here; an inner `or` does, to keep its grouping.
        return self.whole(predicate) if isinstance(predicate, AllOf) else self._within_and(predicate)

    def _within_and(self, predicate: Predicate) -> str:
        several = isinstance(predicate, AllOf | AnyOf) and len(predicate.parts) > 1
        return f"({self.whole(predicate)})" if several else self._tight(predicate)

    def _tight(self, predicate: Predicate) -> str:
        match predicate:
            case AllOf(parts):
                return "true" if predicate == ALWAYS else f"all({self.whole(parts[0])})"
            case AnyOf(parts):
                return "false" if predicate == NEVER else f"any({self.whole(parts[0])})"
            case Not(Membership() as membership):
                return f"{self._name(membership.uid)} not in {_listed(membership)}"
            case Not(Exists() | TextMatch() as question):
                return f"not {self._tight(question)}"
            case Not(inner):
                return f"not ({self.whole(inner)})"
            case Comparison(uid, operator, literal):
                return f"{self._name(uid)} {operator.value} {format_literal(literal)}"
            case Membership(uid, _):
                return f"{self._name(uid)} in {_listed(predicate)}"
            case TextMatch(uid, test, text):
                return f"{test.value}({self._name(uid)}, {format_literal(text)})"
            case Exists(uid):
                return f"exists({self._name(uid)})"
            case _:
                assert_never(predicate)

    def _name(self, uid: AttributeUid) -> str:
        if self._names is None:
            return f"#{uid}" if uid in _WORDS else uid
        name = self._names.get(uid)
        return f"#{uid}" if name is None or name in _WORDS else name


def _listed(membership: Membership) -> str:
    # Any order reads back the same; a sorted one is the same text every time.
    literals = sorted(membership.literals)
    return f"({', '.join(map(format_literal, literals))})"


def _escaped(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    return "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    # What cannot be seen (controls, direction marks, odd spaces) could make a text read as another one.
    if character in _ESCAPES:
        return _ESCAPES[character]
    return character if character.isprintable() else f"\\u{{{ord(character):x}}}"
