"""Which S-expression is an expression, or a list of rules, when it is signed or sent?

    (value KIND LITERAL)            a constant
    (attribute UID KIND)
    (+ E E)                         also - * /
    (coalesce E E ...)
    (FUNCTION E (KIND LITERAL) ...) round_to, bucket, truncate, first, ...

    RULE = (set UID E (when P)?) | (remove UID (when P)?)

Every expression has exactly one form, and every accepted form is of exactly
one expression; whatever the writer would not write is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from maia.canonical import SExpression
from maia.errors import BadInput
from maia.events import AttributeUid, Kind, PresentValue, attribute_uid, condition_uid, kind_of
from maia.expressions.syntax import (
    EXPRESSION_DEPTH_MAX,
    EXPRESSION_NODES_MAX,
    RULES_MAX,
    Arithmetic,
    ArithmeticSign,
    BadExpression,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Take,
    checked_rules,
)
from maia.predicates.encoding import (
    literal_from_bytes,
    literal_to_bytes,
    predicate_from_expression,
    predicate_to_expression,
)
from maia.predicates.syntax import ALWAYS, Predicate

_SIGNS: Final = {sign.value.encode(): sign for sign in ArithmeticSign}
_FUNCTIONS: Final = {function.value.encode(): function for function in Function}
_KINDS: Final = {kind.value.encode(): kind for kind in Kind}


class BadExpressionEncoding(BadInput):
    """An S-expression is not the encoding of an expression or a rule."""

    code = "INPUT-EXPRESSION-ENCODING"


def value_to_expression(expression: Expression) -> SExpression:
    """Return the one form of an expression."""
    match expression:
        case Constant(value):
            return (b"value", *_literal(value))
        case Take(uid, kind):
            return (b"attribute", uid.encode(), kind.value.encode())
        case Arithmetic(sign, left, right):
            return (sign.value.encode(), value_to_expression(left), value_to_expression(right))
        case Coalesce(parts):
            return (b"coalesce", *map(value_to_expression, parts))
        case Call(function, inner, operands):
            return (function.value.encode(), value_to_expression(inner), *map(_literal, operands))
        case _:
            assert_never(expression)


def value_from_expression(expression: SExpression) -> Expression:
    """Read an expression strictly."""
    return _ExpressionReader().read(expression, depth=1)


def rules_to_expressions(rules: tuple[Rule, ...]) -> tuple[SExpression, ...]:
    """Return the one form of some rules; refuse rules that could not be read back."""
    return tuple(map(_rule, checked_rules(rules)))


def rules_from_expressions(expressions: Sequence[SExpression]) -> tuple[Rule, ...]:
    """Read rules strictly."""
    if len(expressions) > RULES_MAX:
        raise BadExpressionEncoding(f"a transformation has at most {RULES_MAX} assignments")
    try:
        return checked_rules(tuple(map(_read_rule, expressions)))
    except BadExpression as problem:
        raise BadExpressionEncoding(problem.message) from problem


def _literal(value: PresentValue) -> tuple[bytes, bytes]:
    return (kind_of(value).value.encode(), literal_to_bytes(value))


def _rule(rule: Rule) -> SExpression:
    when: tuple[SExpression, ...] = ()
    if rule.condition != ALWAYS:
        when = ((b"when", predicate_to_expression(rule.condition)),)
    uid = attribute_uid(rule.uid).encode()
    if rule.value is None:
        return (b"remove", uid, *when)
    return (b"set", uid, value_to_expression(rule.value), *when)


def _read_rule(expression: SExpression) -> Rule:
    match expression:
        case (b"set", bytes(uid), value, *when):
            return Rule(_uid(uid), value_from_expression(value), _when(when))
        case (b"remove", bytes(uid), *when):
            return Rule(_uid(uid), None, _when(when))
    raise BadExpressionEncoding("an assignment is `(set UID VALUE)` or `(remove UID)`, and a `when`")


def _when(rest: list[SExpression]) -> Predicate:
    match rest:
        case []:
            return ALWAYS
        case [(b"when", predicate)]:
            condition = predicate_from_expression(predicate, condition_uid)
            if condition != ALWAYS:
                return condition
    raise BadExpressionEncoding("behind an assignment there may be one `when` that is not always true")


def _uid(octets: bytes) -> AttributeUid:
    return attribute_uid(octets.decode("ascii", "replace"))


class _ExpressionReader:
    """One reading; counts parts, so that a small text cannot become a large expression."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes = 0

    def read(self, expression: SExpression, *, depth: int) -> Expression:
        self._nodes += 1
        if depth > EXPRESSION_DEPTH_MAX or self._nodes > EXPRESSION_NODES_MAX:
            raise BadExpressionEncoding(
                f"an expression has at most {EXPRESSION_NODES_MAX} parts and {EXPRESSION_DEPTH_MAX} levels"
            )
        try:
            return self._one(expression, depth)
        except BadExpression as problem:
            raise BadExpressionEncoding(problem.message) from problem

    def _one(self, expression: SExpression, depth: int) -> Expression:
        match expression:
            case (b"value", kind, literal):
                return Constant(_read_literal((kind, literal)))
            case (b"attribute", bytes(uid), bytes(kind)) if kind in _KINDS:
                return Take(_uid(uid), _KINDS[kind])
            case (b"coalesce", *parts) if len(parts) <= EXPRESSION_NODES_MAX:
                return Coalesce(tuple(self.read(part, depth=depth + 1) for part in parts))
            case (bytes(sign), left, right) if sign in _SIGNS:
                one = self.read(left, depth=depth + 1)
                return Arithmetic(_SIGNS[sign], one, self.read(right, depth=depth + 1))
            case (bytes(name), inner, *operands) if name in _FUNCTIONS:
                value = self.read(inner, depth=depth + 1)
                return Call(_FUNCTIONS[name], value, tuple(map(_read_literal, operands)))
        raise BadExpressionEncoding("this is none of the expressions that there are")


def _read_literal(expression: SExpression) -> PresentValue:
    match expression:
        case (bytes(kind), bytes(octets)) if kind in _KINDS:
            return literal_from_bytes(_KINDS[kind], octets)
    raise BadExpressionEncoding("a constant is a list of its kind and its value")
