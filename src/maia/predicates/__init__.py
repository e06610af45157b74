"""The one expression language: what it says, what it means, and what follows from it."""

from maia.predicates.covering.covers import (
    counterexample,
    covers,
    intersection,
    may_overlap,
    provably_empty,
    simplified,
    union,
)
from maia.predicates.covering.value_sets import ValueSet
from maia.predicates.encoding import predicate_from_expression, predicate_to_expression
from maia.predicates.language.literals import WrongLiteral
from maia.predicates.language.parser import TEXT_BYTES_MAX, UnknownName, format_predicate, parse_predicate
from maia.predicates.language.scanner import BadPredicateText
from maia.predicates.meaning import admits, verdict
from maia.predicates.syntax import (
    ALWAYS,
    DEPTH_MAX,
    NEVER,
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
    atoms,
    attributes_of,
    checked_size,
)

__all__ = [
    "ALWAYS",
    "DEPTH_MAX",
    "NEVER",
    "NODES_MAX",
    "TEXT_BYTES_MAX",
    "AllOf",
    "AnyOf",
    "BadPredicate",
    "BadPredicateText",
    "Comparison",
    "Exists",
    "Membership",
    "Not",
    "Operator",
    "Predicate",
    "PredicateTooLarge",
    "TextMatch",
    "TextTest",
    "UnknownName",
    "ValueSet",
    "WrongLiteral",
    "admits",
    "atoms",
    "attributes_of",
    "checked_size",
    "counterexample",
    "covers",
    "format_predicate",
    "intersection",
    "may_overlap",
    "parse_predicate",
    "predicate_from_expression",
    "predicate_to_expression",
    "provably_empty",
    "simplified",
    "union",
    "verdict",
]
