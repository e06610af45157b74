"""Which values must an event have, attribute by attribute, for a filter to admit it?

The matching index asks, once per filter. The answer is a few alternatives,
each with a set of values per attribute; an event that the filter admits fits
at least one of them. Alternatives say whether the reverse holds too. Filters
that would spread out too far are bracketed by one alternative that is too
wide, and then the filter itself has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from maia.events import AttributeUid
from maia.predicates.normal_form import Clause, clause_of, clauses_of, is_true_formula, literal_of
from maia.predicates.steps import OutOfSteps, Steps
from maia.predicates.syntax import AllOf, Predicate, checked_size
from maia.predicates.value_sets import ANYTHING, ValueSet

__all__ = ["ALTERNATIVES_MAX", "Alternative", "alternatives_of"]

ALTERNATIVES_MAX: Final = 16
"""A filter with more alternatives than this is bracketed by one."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """The values that an event needs; attributes not mentioned are free.

    If `is_exact`, every event with these values is admitted. If not, ask the filter.
    """

    values: Mapping[AttributeUid, ValueSet]
    is_exact: bool


def alternatives_of(predicate: Predicate) -> tuple[Alternative, ...]:
    """Return the alternatives of a filter of any shape, within the size that the language allows."""
    formula = is_true_formula(checked_size(predicate))
    try:
        clauses = clauses_of(formula, Steps())
    except OutOfSteps:
        return (Alternative(_demanded_at_the_top(formula), False),)
    if len(clauses) > ALTERNATIVES_MAX:
        return (Alternative(_hull(clauses), False),)
    return tuple([Alternative(_telling(clause), True) for clause in clauses if _is_possible(clause)])


def _demanded_at_the_top(formula: Predicate) -> dict[AttributeUid, ValueSet]:
    """Return what the plain parts of a conjunction ask, whatever its other parts ask."""
    parts = formula.parts if isinstance(formula, AllOf) else ()
    try:
        return clause_of((one for part in parts if (one := literal_of(part)) is not None), Steps())
    except OutOfSteps:
        return {}


def _hull(clauses: Sequence[Clause]) -> dict[AttributeUid, ValueSet]:
    """Return sets that hold the values of every clause."""
    asked_by_all = reduce(frozenset.intersection, [frozenset(clause) for clause in clauses])
    return _telling({uid: _union([clause[uid] for clause in clauses]) for uid in asked_by_all})


def _union(sets: list[ValueSet]) -> ValueSet:
    """Return a set that holds all of these; without their claims on texts, which need not agree."""
    wide = [ValueSet(one.absent, one.edges) for one in sets]
    while len(wide) > 1:  # in pairs, and pairs of pairs, to stay far from quadratic
        odd = wide[len(wide) // 2 * 2 :]
        pairs = zip(wide[::2], wide[1::2], strict=False)
        wide = [one.union_under_equal_claims(other) for one, other in pairs] + odd
    return wide[0]


def _telling(clause: Clause) -> dict[AttributeUid, ValueSet]:
    return {uid: values for uid, values in clause.items() if values != ANYTHING}


def _is_possible(clause: Clause) -> bool:
    return all(values.absent or values.edges for values in clause.values())
