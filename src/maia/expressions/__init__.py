"""Expressions: what a policy computes from an event before it shows it to a recipient."""

from maia.expressions.encoding import (
    BadExpressionEncoding,
    rules_from_expressions,
    rules_to_expressions,
    value_from_expression,
    value_to_expression,
)
from maia.expressions.language import (
    BadExpressionText,
    format_expression,
    format_rule,
    parse_expression,
    parse_rule,
)
from maia.expressions.meaning import NO_KEYS, KeyView, TransformationKeys, after_rules, value_of
from maia.expressions.syntax import (
    Arithmetic,
    ArithmeticSign,
    BadExpression,
    Call,
    Coalesce,
    Constant,
    Expression,
    Function,
    Rule,
    Scope,
    Take,
)

__all__ = [
    "NO_KEYS",
    "Arithmetic",
    "ArithmeticSign",
    "BadExpression",
    "BadExpressionEncoding",
    "BadExpressionText",
    "Call",
    "Coalesce",
    "Constant",
    "Expression",
    "Function",
    "KeyView",
    "Rule",
    "Scope",
    "Take",
    "TransformationKeys",
    "after_rules",
    "format_expression",
    "format_rule",
    "parse_expression",
    "parse_rule",
    "rules_from_expressions",
    "rules_to_expressions",
    "value_from_expression",
    "value_of",
    "value_to_expression",
]
