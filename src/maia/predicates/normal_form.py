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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from maia.events import AttributeUid, Event
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
from maia.predicates.value_sets import ANYTHING, ValueSet

__all__ = [
    "Clause",
    "Literal",
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
    """Return an equal predicate in which `not` stands before atoms only, and rarely there.

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


def _product(parts: Iterable[Predicate], steps: Steps) -> list[Clause]:
    clauses: list[Clause] = [{}]
    # Single literals first: they shrink every clause before the wide parts multiply them.
    for part in sorted(parts, key=lambda part: isinstance(part, AllOf | AnyOf)):
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
        if not found.absent and not found.edges:
            return None
        both[uid] = found
    steps.spend(len(one))
    return both


def _joined(alternatives: Iterable[list[Clause]], steps: Steps) -> list[Clause]:
    """Put clauses side by side; those about one and the same attribute become one where that is exact."""
    alone: dict[AttributeUid, list[ValueSet]] = {}
    joined: list[Clause] = []
    for clauses in alternatives:
        for clause in clauses:
            steps.spend()
            if len(clause) == 1:
                ((uid, values),) = clause.items()
                _add(alone.setdefault(uid, []), values, steps)
            else:
                joined.append(clause)
    joined.extend({uid: values} for uid, sets in alone.items() for values in sets)
    return joined


def _add(sets: list[ValueSet], values: ValueSet, steps: Steps) -> None:
    for index, known in enumerate(sets):
        if known.claims == values.claims:
            union = known.union(values)
            assert union is not None  # noqa: S101 - equal claims unite exactly
            steps.spend(union.size)
            sets[index] = union
            return
    sets.append(values)


def satisfies(event: Event, clause: Clause) -> bool:
    """Say whether an event is among those of a clause."""
    return all(event.get(uid) in values for uid, values in clause.items())


def values_in(clause: Clause, uid: AttributeUid) -> ValueSet:
    """Return what a clause says about an attribute: anything, where it is not mentioned."""
    return clause.get(uid, ANYTHING)
