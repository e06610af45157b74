"""Which S-expression is a predicate when it is hashed, signed or sent?

Certificates, types and subscriptions carry predicates in this form. Every
predicate has exactly one expression and every accepted expression has exactly
one predicate: the reader refuses another spelling of a number, an unsorted
`in` list, an extra element, a display hint. What was signed is therefore what
is decided upon.

    (and) (or)                      always, never
    (and P ...) (or P ...) (not P)
    (== UID (KIND LITERAL))         also != < <= > >=
    (in UID KIND LITERAL ...)       literals sorted by their bytes, each once
    (prefix UID TEXT)               also suffix, contains, token
    (exists UID)

A literal is UTF-8 for a string, decimal for an int, the shortest decimal that
reads back for a float, `true` or `false`, microseconds for a timestamp, and
the bytes themselves for bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from sys import intern
from typing import Final, assert_never

from maia.canonical import SExpression
from maia.errors import BadInput
from maia.events import AttributeUid, BadAttribute, Instant, Kind, PresentValue, attribute_uid
from maia.predicates.syntax import (
    DEPTH_MAX,
    NODES_MAX,
    AllOf,
    AnyOf,
    BadPredicate,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    PredicateTooLarge,
    TextMatch,
    TextTest,
    checked_size,
)

_DECIMAL: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_FLOAT: Final = re.compile(rb"-?[0-9]{1,17}(?:\.[0-9]{1,24})?(?:e[+-][0-9]{2,3})?")
_OPERATORS: Final = {operator.value.encode(): operator for operator in Operator}
_TESTS: Final = {test.value.encode(): test for test in TextTest}
_KINDS: Final = {kind.value.encode(): kind for kind in Kind}
_BOOLS: Final = {b"true": True, b"false": False}
_ATOMS_SHARED: Final = 512
_SHORT_BYTES: Final = 64
"""Atoms with longer literals are read anew each time: what is remembered stays below a megabyte."""


def predicate_to_expression(predicate: Predicate) -> SExpression:
    """Return the one expression of a predicate; refuse a predicate that is too large to read back."""
    return _written(checked_size(predicate))


def predicate_from_expression(
    expression: SExpression, uid_of: Callable[[str], AttributeUid] = attribute_uid
) -> Predicate:
    """Read an expression strictly: whatever `predicate_to_expression` would not write is refused.

    `uid_of` reads uids; brokers also route by those that `routed_uid` reads.
    """
    return _PredicateReader(uid_of).read(expression, depth=1)


def _written(predicate: Predicate) -> SExpression:
    match predicate:
        case AllOf(parts):
            return (b"and", *map(_written, parts))
        case AnyOf(parts):
            return (b"or", *map(_written, parts))
        case Not(inner):
            return (b"not", _written(inner))
        case Exists(uid):
            return (b"exists", uid.encode())
        case TextMatch(uid, test, text):
            return (test.value.encode(), uid.encode(), text.encode())
        case Comparison(uid, operator, literal):
            return (
                operator.value.encode(),
                uid.encode(),
                (predicate.kind.value.encode(), literal_to_bytes(literal)),
            )
        case Membership(uid, literals):
            return (
                b"in",
                uid.encode(),
                predicate.kind.value.encode(),
                *sorted(map(literal_to_bytes, literals)),
            )
        case _:
            assert_never(predicate)


def literal_to_bytes(literal: PresentValue) -> bytes:
    """Return the one form of a literal, for others who sign or send values beside their kind."""
    match literal:
        case str():
            return literal.encode()
        case bytes():
            return literal
        case bool():
            return b"true" if literal else b"false"
        case int():
            return b"%d" % literal
        case float():
            return repr(literal).encode()
        case _:
            assert_never(literal)


class _PredicateReader:
    """One reading; counts parts so that a small frame cannot become a large predicate."""

    __slots__ = ("_nodes", "_uid_of")

    def __init__(self, uid_of: Callable[[str], AttributeUid]) -> None:
        self._nodes = 0
        self._uid_of = uid_of

    def read(self, expression: SExpression, *, depth: int) -> Predicate:
        self._count(1)
        if depth > DEPTH_MAX:
            raise PredicateTooLarge(f"the predicate nests deeper than {DEPTH_MAX} levels")
        if not isinstance(expression, tuple) or not expression:
            raise BadInput("INPUT-PREDICATE-ENCODING", "a predicate is a list that starts with its operator")
        head, *rest = expression
        match head:
            case b"and":
                return AllOf(tuple(self.read(part, depth=depth + 1) for part in rest))
            case b"or":
                return AnyOf(tuple(self.read(part, depth=depth + 1) for part in rest))
            case b"not":
                (inner,) = _exactly(1, rest, "not")
                return Not(self.read(inner, depth=depth + 1))
            case bytes():
                return self._read_atom(head, rest)
            case _:
                raise BadInput(
                    "INPUT-PREDICATE-ENCODING", "the operator of a predicate is a plain byte string"
                )

    def _read_atom(self, head: bytes, rest: list[SExpression]) -> Predicate:
        try:
            if head == b"in":
                return self._read_membership(rest)
            if rest and _is_short(rest[-1]):
                return _known_atom(self._uid_of, head, *rest)
            return _read_small_atom(self._uid_of, head, rest)
        except PredicateTooLarge:
            raise
        except (BadPredicate, BadAttribute) as problem:
            raise BadInput("INPUT-PREDICATE-ENCODING", problem.message) from problem

    def _read_membership(self, rest: list[SExpression]) -> Membership:
        if len(rest) < 3:
            raise BadInput("INPUT-PREDICATE-ENCODING", "`in` has a uid, a kind and at least one literal")
        self._count(len(rest) - 2)
        uid, kind = _read_uid(self._uid_of, rest[0]), _read_kind(rest[1])
        literals = [_octets(item) for item in rest[2:]]
        if any(one >= next_one for one, next_one in pairwise(literals)):
            raise BadInput(
                "INPUT-PREDICATE-ENCODING", "the literals of `in` are sorted by their bytes, each once"
            )
        return Membership(uid, frozenset(literal_from_bytes(kind, literal) for literal in literals))

    def _count(self, parts: int) -> None:
        self._nodes += parts
        if self._nodes > NODES_MAX:
            raise PredicateTooLarge(f"the predicate has more than {NODES_MAX} parts")


def _read_small_atom(
    uid_of: Callable[[str], AttributeUid], head: bytes, rest: list[SExpression]
) -> Predicate:
    if head == b"exists":
        (uid,) = _exactly(1, rest, "exists")
        return Exists(_read_uid(uid_of, uid))
    if (test := _TESTS.get(head)) is not None:
        uid, text = _exactly(2, rest, test.value)
        return TextMatch(_read_uid(uid_of, uid), test, _read_string(_octets(text)))
    if (operator := _OPERATORS.get(head)) is not None:
        uid, typed = _exactly(2, rest, operator.value)
        if not isinstance(typed, tuple) or len(typed) != 2:
            raise BadInput(
                "INPUT-PREDICATE-ENCODING", "the literal of a comparison is a list of its kind and its value"
            )
        literal = literal_from_bytes(_read_kind(typed[0]), _octets(typed[1]))
        return Comparison(_read_uid(uid_of, uid), operator, literal)
    raise BadInput(
        "INPUT-PREDICATE-ENCODING", f"`{_shown(head)}` is not an operator of the predicate language"
    )


def _is_short(operand: SExpression) -> bool:
    literal = operand[-1] if isinstance(operand, tuple) and operand else operand
    return isinstance(literal, bytes) and len(literal) <= _SHORT_BYTES


@lru_cache(maxsize=_ATOMS_SHARED)
def _known_atom(uid_of: Callable[[str], AttributeUid], head: bytes, *rest: SExpression) -> Predicate:
    """Return the same object for equal questions: very many filters ask for one of few values, or twice."""
    return _read_small_atom(uid_of, head, list(rest))


def _read_uid(uid_of: Callable[[str], AttributeUid], expression: SExpression) -> AttributeUid:
    # A hundred thousand filters name the same few attributes: one object for each.
    return uid_of(intern(_octets(expression).decode("ascii", "replace")))


def _exactly(count: int, rest: list[SExpression], operator: str) -> list[SExpression]:
    if len(rest) != count:
        raise BadInput(
            "INPUT-PREDICATE-ENCODING", f"`{operator}` has {count} operands, and {len(rest)} were given"
        )
    return rest


def _octets(expression: SExpression) -> bytes:
    if not isinstance(expression, bytes):
        raise BadInput("INPUT-PREDICATE-ENCODING", "an operand is a plain byte string")
    return expression


def _read_kind(expression: SExpression) -> Kind:
    kind = _KINDS.get(_octets(expression))
    if kind is None:
        raise BadInput("INPUT-PREDICATE-ENCODING", f"`{_shown(_octets(expression))}` is not a kind of value")
    return kind


def literal_from_bytes(kind: Kind, octets: bytes) -> PresentValue:
    """Read a literal of `kind` strictly, in its one form."""
    return _LITERAL_READERS[kind](octets)


def _read_string(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError as problem:
        raise BadInput("INPUT-PREDICATE-ENCODING", "a string is UTF-8") from problem


def _read_int(octets: bytes) -> int:
    if not _DECIMAL.fullmatch(octets):
        raise BadInput(
            "INPUT-PREDICATE-ENCODING", f"`{_shown(octets)}` is not a whole number in its one decimal form"
        )
    return int(octets)


def _read_instant(octets: bytes) -> Instant:
    try:
        return Instant(_read_int(octets))
    except BadInput as problem:
        raise BadInput("INPUT-PREDICATE-ENCODING", problem.message) from problem


def _read_float(octets: bytes) -> float:
    # The pattern keeps `nan`, `inf`, `1_0` and very long digits away from float(); repr settles the rest.
    if not _FLOAT.fullmatch(octets) or repr(number := float(octets)).encode() != octets or octets == b"-0.0":
        raise BadInput(
            "INPUT-PREDICATE-ENCODING", f"`{_shown(octets)}` is not a float in its one decimal form"
        )
    return number


def _read_bool(octets: bytes) -> bool:
    if octets not in _BOOLS:
        raise BadInput("INPUT-PREDICATE-ENCODING", f"`{_shown(octets)}` is neither `true` nor `false`")
    return _BOOLS[octets]


_LITERAL_READERS: Final[dict[Kind, Callable[[bytes], PresentValue]]] = {
    Kind.STRING: _read_string,
    Kind.INT: _read_int,
    Kind.FLOAT: _read_float,
    Kind.BOOL: _read_bool,
    Kind.TIMESTAMP: _read_instant,
    Kind.BYTES: bytes,
}


def _shown(octets: bytes) -> str:
    return ascii(octets[:32])[2:-1]
