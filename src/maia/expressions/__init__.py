"""Expressions: what a policy computes from an event before it shows it to a recipient."""

from maia.expressions.encoding import rules_from_expressions, rules_to_expressions
from maia.expressions.language import format_rule, parse_rule
from maia.expressions.meaning import NO_KEYS, TransformationKeys, value_of
from maia.expressions.syntax import (
    Arithmetic,
    ArithmeticSign,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Take,
)

__all__ = [
    "NO_KEYS",
    "Arithmetic",
    "ArithmeticSign",
    "Call",
    "Coalesce",
    "Constant",
    "Expression",
    "Function",
    "Rule",
    "Take",
    "TransformationKeys",
    "format_rule",
    "parse_rule",
    "rules_from_expressions",
    "rules_to_expressions",
    "value_of",
]
