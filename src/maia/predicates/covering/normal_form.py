"""When is a predicate true, written so that it can be compared?

`meaning.py` has three truth values, and only true passes. Here a predicate is
turned into a plain two-valued formula for "this predicate is true": `not` is
pushed down to the atoms (true of `not p` is false of `p`, and Kleene's logic
keeps `and` and `or` exactly dual for true and false), and the rest is spread
out into clauses. A clause says for each attribute which values it may have;
an event satisfies the predicate if it satisfies a clause. Spreading out can
explode, so it counts steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from maia.events import AttributeUid, Event
from maia.predicates.covering.string_automata import TextClaim
from maia.predicates.covering.value_sets import ANYTHING, ValueSet
from maia.predicates.steps import Steps
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Exists,
    Membership,
    Not,
    Operator,
    Predicate,
    TextMatch,
)

__all__ = [
    "Clause",
    "Literal",
    "clause_of",
    "clauses_of",
    "intersected",
    "is_true_formula",
    "literal_of",
    "literals_of",
    "negated",
    "satisfies",
    "values_in",
]

Clause: TypeAlias = Mapping[AttributeUid, ValueSet]
"""The events whose attributes all lie in the given sets; attributes not mentioned are free."""

_OPPOSITE = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom or its negation, and the values for which it is true."""

    atom: Atom
    is_negated: bool
    values: ValueSet


def literal_of(predicate: Predicate) -> Literal | None:
    """Return an atom or a negated atom as a literal; None for anything larger."""
    match predicate:
        case Not(Comparison() | Membership() | TextMatch() | Exists() as atom):
            return Literal(atom, True, ValueSet.from_atom(atom, negated=True))
        case Comparison() | Membership() | TextMatch() | Exists():
            return Literal(predicate, False, ValueSet.from_atom(predicate))
        case _:
            return None


def is_true_formula(predicate: Predicate, *, negate: bool = False) -> Predicate:
    """Return an equal predicate in which `not` is before atoms only, and rarely there.

    "Equal" in all three truth values: `not (x < 5)` and `x >= 5` are unknown
    for the same events.
    """
    match predicate:
        case Not(inner):
            return is_true_formula(inner, negate=not negate)
        case AllOf(parts) | AnyOf(parts):
            inner_parts = tuple([is_true_formula(part, negate=negate) for part in parts])
            return AllOf(inner_parts) if isinstance(predicate, AllOf) is not negate else AnyOf(inner_parts)
        case atom:
            return negated(atom) if negate else atom


def negated(atom: Atom) -> Predicate:
    """Return the negation of an atom, as an atom where there is one."""
    if isinstance(atom, Comparison):
        return Comparison(atom.uid, _OPPOSITE[atom.operator], atom.literal)
    return Not(atom)


def clauses_of(formula: Predicate, steps: Steps) -> list[Clause]:
    """Spread a formula (from `is_true_formula`) out into clauses, or raise `OutOfSteps`.

    Clauses that are visibly empty are dropped on the way.
    """
    match formula:
        case AllOf(parts):
            return _product(parts, steps)
        case AnyOf(parts):
            return _joined((clauses_of(part, steps) for part in parts), steps)
        case _:
            literal = literal_of(formula)
            assert literal is not None  # noqa: S101 - a formula holds `not` before atoms only
            steps.spend(literal.values.size)
            return [{literal.atom.uid: literal.values}]


def literals_of(formula: Predicate) -> list[Literal] | None:
    """Return a conjunction of literals as those literals; None for anything that holds an alternative."""
    literals: list[Literal] = []
    for part in formula.parts if isinstance(formula, AllOf) else (formula,):
        literal = literal_of(part)
        if literal is None:
            return None
        literals.append(literal)
    return literals


def clause_of(literals: Iterable[Literal], steps: Steps) -> dict[AttributeUid, ValueSet]:
    """Return the one clause of a conjunction of literals."""
    by_uid: dict[AttributeUid, list[ValueSet]] = {}
    for literal in literals:
        by_uid.setdefault(literal.atom.uid, []).append(literal.values)
    return {uid: _in_all(sets, steps) for uid, sets in by_uid.items()}


def _in_all(sets: list[ValueSet], steps: Steps) -> ValueSet:
    return _in_pairs(sets, ValueSet.intersection, steps)


def _in_pairs(
    sets: list[ValueSet], combined: Callable[[ValueSet, ValueSet], ValueSet], steps: Steps
) -> ValueSet:
    # Pairs, and pairs of pairs: one after the other would be quadratic for thousands of `x != …`.
    while len(sets) > 1:
        steps.spend(len(sets))
        paired = [combined(one, other) for one, other in zip(sets[::2], sets[1::2], strict=False)]
        sets = paired + sets[len(paired) * 2 :]
    steps.spend(sets[0].size)
    return sets[0]


def _product(parts: Iterable[Predicate], steps: Steps) -> list[Clause]:
    # Single literals first: they shrink every clause before the wide parts multiply them.
    known = {part: literal_of(part) for part in parts}
    start = clause_of((literal for literal in known.values() if literal is not None), steps)
    clauses: list[Clause] = [] if any(map(_is_visibly_empty, start.values())) else [start]
    for part in (part for part, literal in known.items() if literal is None):
        factors = clauses_of(part, steps)
        clauses = [
            both
            for one in clauses
            for other in factors
            if (both := intersected(one, other, steps)) is not None
        ]
    return clauses


def intersected(one: Clause, other: Clause, steps: Steps) -> Clause | None:
    """Return the events of both clauses, or None where an attribute visibly has no value left."""
    both = dict(one)
    for uid, values in other.items():
        known = both.get(uid)
        found = values if known is None else known.intersection(values)
        steps.spend(found.size)
        if _is_visibly_empty(found):
            return None
        both[uid] = found
    steps.spend(len(one))
    return both


def _is_visibly_empty(values: ValueSet) -> bool:
    return not values.absent and not values.edges


def _joined(alternatives: Iterable[list[Clause]], steps: Steps) -> list[Clause]:
    """Put clauses side by side; those about one and the same attribute become one where that is exact."""
    alone: dict[tuple[AttributeUid, frozenset[TextClaim]], list[ValueSet]] = {}
    joined: list[Clause] = []
    for clause in chain.from_iterable(alternatives):
        steps.spend()
        if len(clause) == 1:
            ((uid, values),) = clause.items()
            alone.setdefault((uid, values.claims), []).append(values)
        else:
            joined.append(clause)
    joined.extend({uid: _in_any(sets, steps)} for (uid, _), sets in alone.items())
    return joined


def _in_any(sets: list[ValueSet], steps: Steps) -> ValueSet:
    return _in_pairs(sets, ValueSet.union_under_equal_claims, steps)


def satisfies(event: Event, clause: Clause) -> bool:
    """Say whether an event is among those of a clause."""
    return all(event.get(uid) in values for uid, values in clause.items())


def values_in(clause: Clause, uid: AttributeUid) -> ValueSet:
    """Return what a clause says about an attribute: anything, where it is not mentioned."""
    return clause.get(uid, ANYTHING)
