"""Which constraints does a filter put on which attribute?

Miklós's relations, merging and the cover table see a filter as he does: a
collection of constraints, each asking something of one attribute. `exists(x)`
is his constraint `any`. A predicate that says more than such a collection can
say (a real `or`, or the absence of an attribute) is refused here, once, with
a sentence that its author can act on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid
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
    checked_size,
)

Constraint: TypeAlias = Atom | Not
"""One atom, or one atom negated: something asked of a single attribute."""

Constraints: TypeAlias = Mapping[AttributeUid, tuple[Constraint, ...]]
"""The constraints of one filter by attribute; no entry is empty."""

_OPPOSITE: Final = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}


class NotAConstraintFilter(BadInput):
    """A predicate is more than a collection of constraints on single attributes."""

    code = "INPUT-NOT-CONSTRAINTS"


def constraints_of(predicate: Predicate) -> Constraints:
    """Return the constraints of `predicate` by attribute, in the order in which they were written."""
    by_uid: dict[AttributeUid, list[Constraint]] = {}
    for constraint in literals_of(predicate):
        atom = unnegated(constraint)
        if isinstance(constraint, Not) and isinstance(atom, Exists):
            raise NotAConstraintFilter(
                f"a constraint asks for a value of an attribute, and `not exists({atom.uid})` for its absence"
            )
        by_uid.setdefault(atom.uid, []).append(constraint)
    return {uid: tuple(constraints) for uid, constraints in by_uid.items()}


def literals_of(predicate: Predicate) -> Iterator[Constraint]:
    """Yield the parts of a conjunction of atoms and negated atoms; refuse anything else.

    Double negation and De Morgan's laws hold in three-valued logic, so `not (a or b)`
    is the conjunction that it looks like.
    """
    pending: list[tuple[Predicate, bool]] = [(checked_size(predicate), False)]
    while pending:
        node, negated = pending.pop()
        match node:
            case Not(inner):
                pending.append((inner, not negated))
            case AllOf(parts) | AnyOf(parts):
                if isinstance(node, AllOf) is negated and len(parts) != 1:
                    raise NotAConstraintFilter(
                        "a filter with constraints joins them by `and` alone, and this one needs an `or`"
                    )
                pending.extend((part, negated) for part in reversed(parts))
            case atom:
                yield direct_constraint(atom, negated=negated)


def direct_constraint(atom: Atom, *, negated: bool) -> Constraint:
    """Return `atom` or its negation, as a comparison without `not` where there is one."""
    if not negated:
        return atom
    if isinstance(atom, Comparison):
        # Both sides are unknown for the same values (missing, another kind), so this is exact.
        return Comparison(atom.uid, _OPPOSITE[atom.operator], atom.literal)
    return Not(atom)


def unnegated(constraint: Constraint) -> Atom:
    """Return the atom inside a constraint."""
    match constraint:
        case Not(Comparison() | Membership() | TextMatch() | Exists() as atom):
            return atom
        case Not():
            raise NotAConstraintFilter("a constraint negates one atom and nothing larger")
        case atom:
            return atom
