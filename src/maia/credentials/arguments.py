"""What can a role, an appointment or a fact be about?

Parameters are values with a kind: the kinds of attributes without bytes, and
principals. Kinds never mix: 1, 1.0 and true are three different arguments, so
arguments are compared and kept by `argument_key`, and never by
Python's equality.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Final, TypeAlias

from maia.canonical import SExpression, write_canonical
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.encoding.subjects import principal_from_expression, principal_to_expression
from maia.credentials.keys import principal_from_text
from maia.credentials.principals import Principal
from maia.errors import BadInput
from maia.events import BadValue, Instant, Kind, PresentValue, checked_value, kind_of
from maia.predicates.encoding import literal_from_bytes, literal_to_bytes

__all__ = [
    "ARGUMENT_BYTES_MAX",
    "Argument",
    "BadArgument",
    "Given",
    "ParameterKind",
    "Word",
    "argument_from_expression",
    "argument_key",
    "argument_kind",
    "argument_to_expression",
    "arguments_digest",
    "checked_argument",
    "read_word",
]

ARGUMENT_BYTES_MAX: Final = 1024

Argument: TypeAlias = str | int | float | bool | Instant | Principal
"""One value that a role, an appointment or a fact is about."""


@dataclass(frozen=True, slots=True)
class Word:
    """An argument as a person types it: the kind of its parameter says how it is read."""

    text: str


Given: TypeAlias = Argument | Word
"""An argument, or a word for one."""


class BadArgument(BadInput):
    """An argument is of another kind than its parameter, or cannot be an argument at all."""

    code = "INPUT-ARGUMENT"


class ParameterKind(Enum):
    """The declared kind of a parameter."""

    STRING = "string"
    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TIMESTAMP = "timestamp"
    PRINCIPAL = "principal"

    __hash__ = object.__hash__

    @property
    def value_kind(self) -> Kind | None:
        """Return the same kind among the kinds of attributes; None for a principal."""
        return _VALUE_KINDS[self]


_VALUE_KINDS: Final = {
    kind: None if kind is ParameterKind.PRINCIPAL else Kind(kind.value) for kind in ParameterKind
}


def argument_kind(argument: Argument) -> ParameterKind:
    """Return the kind of an argument, by its exact class: `True` is never an int."""
    if type(argument) is Principal:
        return ParameterKind.PRINCIPAL
    try:
        return ParameterKind(kind_of(argument).value)  # type: ignore[arg-type]  # refused below if it is none
    except (BadValue, ValueError):
        raise BadArgument(f"a `{type(argument).__name__}` cannot be an argument") from None


def checked_argument(argument: object, kind: ParameterKind) -> Argument:
    """Return `argument` as one of `kind`; refuse null, another kind, and what is too long."""
    if kind is ParameterKind.PRINCIPAL:
        if type(argument) is not Principal:
            raise BadArgument(f"a principal was expected, and a {_class(argument)} was given")
        return argument
    value_kind = kind.value_kind
    assert value_kind is not None  # noqa: S101 - only a principal has none
    try:
        value = checked_value(argument, value_kind)
    except BadValue as problem:
        raise BadArgument(problem.message) from problem
    if value is None or isinstance(value, bytes):
        raise BadArgument(f"a {kind.value} was expected, and nothing was given")
    if isinstance(value, str) and len(value.encode()) > ARGUMENT_BYTES_MAX:
        raise BadArgument(f"an argument is longer than {ARGUMENT_BYTES_MAX} bytes")
    return value


def read_word(word: Word, kind: ParameterKind | None) -> Argument:
    """Return the argument of this kind that a word means; None: of the kind that it looks like."""
    text = word.text
    match _looks_like(text) if kind is None else kind:
        case ParameterKind.STRING:
            return checked_argument(text, ParameterKind.STRING)
        case ParameterKind.INT if _INT.fullmatch(text):
            return checked_argument(int(text), ParameterKind.INT)
        case ParameterKind.FLOAT if _INT.fullmatch(text) or _FLOAT.fullmatch(text):
            return checked_argument(float(text), ParameterKind.FLOAT)
        case ParameterKind.BOOL if text in ("true", "false"):
            return text == "true"
        case ParameterKind.TIMESTAMP:
            return Instant.parse(text)
        case ParameterKind.PRINCIPAL:
            return principal_from_text(text)
        case wanted:
            shown = text[:64].encode("unicode_escape").decode()
            raise BadArgument(f"a {wanted.value} was expected, and `{shown}` is none")


def _looks_like(text: str) -> ParameterKind:
    if text in ("true", "false"):
        return ParameterKind.BOOL
    if _INT.fullmatch(text):
        return ParameterKind.INT
    return ParameterKind.FLOAT if _FLOAT.fullmatch(text) else ParameterKind.STRING


_INT: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FLOAT: Final = re.compile(r"[+-]?\d+\.\d+(?:[eE][+-]?\d{1,3})?", re.ASCII)


def argument_to_expression(argument: Argument) -> SExpression:
    """Return `(KIND VALUE)`."""
    kind = argument_kind(argument)
    checked = checked_argument(argument, kind)
    if isinstance(checked, Principal):
        return (kind.value.encode(), principal_to_expression(checked))
    return (kind.value.encode(), literal_to_bytes(checked))


def argument_from_expression(expression: SExpression) -> Argument:
    """Read `(KIND VALUE)`, strictly."""
    match expression:
        case (b"principal", principal):
            return principal_from_expression(principal)
        case (bytes(word), bytes(octets)) if word in _KINDS_BY_WORD:
            kind = _KINDS_BY_WORD[word]
            value_kind = kind.value_kind
            assert value_kind is not None  # noqa: S101 - a principal is read above
            value: PresentValue = literal_from_bytes(value_kind, octets)
            return checked_argument(value, kind)
    raise BadCertificate("a parameter must be written `(KIND VALUE)`")


_KINDS_BY_WORD: Final = {
    kind.value.encode(): kind for kind in ParameterKind if kind is not ParameterKind.PRINCIPAL
}


def argument_key(argument: Argument) -> tuple[str, Argument]:
    """Return what to compare and to hash an argument by: its kind beside its value."""
    return argument_kind(argument).value, argument


def arguments_digest(domain: bytes, name: str, arguments: Iterable[Argument]) -> bytes:
    """Return a digest of `name(arguments)` that no other name, arguments or `domain` share."""
    expression = (name.encode(), *map(argument_to_expression, arguments))
    return sha256(b"maia/1/" + domain + b"\x00" + write_canonical(expression)).digest()


def _class(argument: object) -> str:
    return "null" if argument is None else type(argument).__name__
