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
from typing import Any, Final

from maia.events import AttributeUid, Kind
from maia.predicates.covering.normal_form import Clause, clause_of, clauses_of, is_true_formula, literal_of
from maia.predicates.covering.ordered_sets import FULL, successor
from maia.predicates.covering.value_sets import ANYTHING, ValueSet
from maia.predicates.steps import OutOfSteps, Steps
from maia.predicates.syntax import AllOf, Comparison, Operator, Predicate, checked_size

__all__ = ["ALTERNATIVES_MAX", "Alternative", "alternatives_of"]

ALTERNATIVES_MAX: Final = 16
"""A filter with more alternatives than this is bracketed by one."""

_PLAIN_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Alternative:
    """The values that an event needs; attributes not mentioned are free.

    If `is_exact`, every event with these values is admitted. If not, ask the filter.
    """

    values: Mapping[AttributeUid, ValueSet]
    is_exact: bool


def alternatives_of(predicate: Predicate) -> tuple[Alternative, ...]:
    """Return the alternatives of a filter of any shape, within the size that the language allows."""
    if (ranges := _plain_ranges(predicate)) is not None:
        return (Alternative(ranges, True),) if _is_possible(ranges) else ()
    formula = is_true_formula(checked_size(predicate))
    try:
        clauses = clauses_of(formula, Steps())
    except OutOfSteps:
        return (Alternative(_demanded_at_the_top(formula), False),)
    if len(clauses) > ALTERNATIVES_MAX:
        return (Alternative(_hull(clauses), False),)
    return tuple([Alternative(_telling(clause), True) for clause in clauses if _is_possible(clause)])


def _plain_ranges(predicate: Predicate) -> dict[AttributeUid, ValueSet] | None:
    """Return what a conjunction of comparisons asks, by the shortest way; None for anything else.

    Nearly all filters look like this, and a broker may have to read a million of them.
    """
    parts = predicate.parts if isinstance(predicate, AllOf) else (predicate,)
    if len(parts) > _PLAIN_MAX:
        return None
    ranges: dict[AttributeUid, tuple[Kind, Any, Any]] = {}  # Any: both ends are of that kind, or None
    for part in parts:
        if type(part) is not Comparison or part.operator is Operator.NE:
            return None
        kind, first, after = ranges.get(part.uid) or (part.kind, FULL[part.kind][0], None)
        if kind is not part.kind:
            return None
        low, high = _ends(part)
        if low is not None and low > first:
            first = low
        if high is not None and (after is None or high < after):
            after = high
        ranges[part.uid] = kind, first, after
    return {uid: _range(kind, first, after) for uid, (kind, first, after) in ranges.items()}


def _ends(part: Comparison) -> tuple[Any, Any]:
    # Any: values of the comparison's kind. None where it leaves that side open.
    match part.operator:
        case Operator.GE:
            return part.literal, None
        case Operator.LT:
            return None, part.literal
        case Operator.LE:
            return None, successor(part.literal)
        case Operator.EQ:
            return part.literal, successor(part.literal)
        case _:
            following = successor(part.literal)
            return (part.literal, part.literal) if following is None else (following, None)


def _range(kind: Kind, first: Any, after: Any) -> ValueSet:
    # Any: see `_ends`.
    if after is None:
        return ValueSet(False, {kind: (first,)})
    return ValueSet(False, {kind: (first, after)} if first < after else {})


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
