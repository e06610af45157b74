"""How is a predicate written so that a person can read it and `parse_predicate` reads it back?

Refusals, audit records, `maia filter` and certificates for people print
predicates this way. The text reads back as an equal predicate, with the same
grouping, as long as it is within the size that the parser takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, assert_never

from maia.events import AttributeUid, Instant, PresentValue, is_of_event
from maia.predicates.attribute_pairs import pair_text
from maia.predicates.syntax import (
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

_Name: TypeAlias = Callable[[AttributeUid], str]

KEYWORDS: Final = frozenset({"and", "or", "in", "not", "true", "false"})
_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def format_predicate(predicate: Predicate, names: Mapping[AttributeUid, str] | None = None) -> str:
    """Write a predicate: with `names`, as people call the attributes; without, or for others, by uid."""

    def name(uid: AttributeUid) -> str:
        called = uid if names is None else names.get(uid)
        if called is None and not is_of_event(uid):
            called = uid
        return f"#{uid}" if called is None or called in KEYWORDS else called

    return _written(checked_size(predicate), name)


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


def _written(predicate: Predicate, name: _Name, within: type[AllOf | AnyOf] | None = None) -> str:
    """Write a predicate, in parentheses where what it is `within` would bind tighter or lose its grouping."""
    match predicate:
        case AllOf(parts) | AnyOf(parts) if len(parts) > 1:
            joins = AllOf if isinstance(predicate, AllOf) else AnyOf
            text = (" and " if joins is AllOf else " or ").join(_written(part, name, joins) for part in parts)
            # `and` binds tighter than `or`; an inner one of the same sort keeps its own grouping.
            return text if within is None or (within is AnyOf and joins is AllOf) else f"({text})"
        case AllOf(parts):
            return f"all({_written(parts[0], name)})" if parts else "true"
        case AnyOf(parts):
            return f"any({_written(parts[0], name)})" if parts else "false"
        case Not(Membership() as membership):
            return f"{name(membership.uid)} not in {_listed(membership)}"
        case Not(Exists() | TextMatch() as question):
            return f"not {_written(question, name)}"
        case Not(inner):
            return f"not ({_written(inner, name)})"
        case Comparison(uid, operator, literal):
            if "." in uid and (pair := pair_text(predicate)) is not None:
                return pair
            return f"{name(uid)} {operator.value} {format_literal(literal)}"
        case Membership(uid, _):
            return f"{name(uid)} in {_listed(predicate)}"
        case TextMatch(uid, test, text):
            return f"{test.value}({name(uid)}, {format_literal(text)})"
        case Exists(uid):
            return f"exists({name(uid)})"
        case _:
            assert_never(predicate)


def _listed(membership: Membership) -> str:
    # Any order reads back the same; a sorted one is the same text every time.
    return f"({', '.join(map(format_literal, sorted(membership.literals)))})"


def _escaped(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return text
    # What cannot be seen (controls, direction marks, odd spaces) could make a text read as another one.
    return "".join(
        _ESCAPES.get(character, character if character.isprintable() else f"\\u{{{ord(character):x}}}")
        for character in text
    )
