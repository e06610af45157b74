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

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from typing import Any, Final, TypeAlias

from maia.events import AttributeUid, Event, Kind
from maia.predicates.covering.ordered_sets import FULL, edges_between
from maia.predicates.covering.string_automata import TextClaim
from maia.predicates.covering.value_sets import ANYTHING, ValueSet, ends_of
from maia.predicates.syntax import (
    AllOf,
    AnyOf,
    Atom,
    Comparison,
    Constraint,
    Exists,
    Membership,
    Not,
    Operator,
    OutOfSteps,
    Predicate,
    Steps,
    TextMatch,
    attributes_of,
    checked_size,
    conjuncts,
    is_true_formula,
)

Clause: TypeAlias = Mapping[AttributeUid, ValueSet]
"""The events whose attributes all lie in the given sets; attributes not mentioned are free."""


@dataclass(frozen=True, slots=True)
class AtomValues:
    """An atom or its negation, and the values for which it is true."""

    atom: Atom
    is_negated: bool
    values: ValueSet


def literal_of(predicate: Predicate) -> AtomValues | None:
    """Return an atom or a negated atom as a literal; None for anything larger."""
    match predicate:
        case Not(Comparison() | Membership() | TextMatch() | Exists() as atom):
            return AtomValues(atom, True, ValueSet.from_atom(atom, negated=True))
        case Comparison() | Membership() | TextMatch() | Exists():
            return AtomValues(predicate, False, ValueSet.from_atom(predicate))
        case _:
            return None


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


def literals_of(formula: Predicate) -> list[AtomValues] | None:
    """Return a conjunction of literals as those literals; None for anything that holds an alternative."""
    literals: list[AtomValues] = []
    for part in formula.parts if isinstance(formula, AllOf) else (formula,):
        literal = literal_of(part)
        if literal is None:
            return None
        literals.append(literal)
    return literals


def clause_of(literals: Iterable[AtomValues], steps: Steps) -> dict[AttributeUid, ValueSet]:
    """Return the one clause of a conjunction of literals."""
    by_uid: dict[AttributeUid, list[ValueSet]] = {}
    for literal in literals:
        by_uid.setdefault(literal.atom.uid, []).append(literal.values)
    return {uid: _in_pairs(sets, ValueSet.intersection, steps) for uid, sets in by_uid.items()}


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
        clauses = multiplied(clauses, clauses_of(part, steps), steps)
    return clauses


def multiplied(ones: list[Clause], others: list[Clause], steps: Steps) -> list[Clause]:
    """Return the clauses of a conjunction of two formulas that were spread out into clauses."""
    found = (intersected(one, other, steps) for one in ones for other in others)
    return [both for both in found if both is not None]


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
    joined.extend(
        {uid: _in_pairs(sets, ValueSet.union_under_equal_claims, steps)} for (uid, _), sets in alone.items()
    )
    return joined


def satisfies(event: Event, clause: Clause) -> bool:
    """Return whether an event is among those of a clause."""
    return all(event.get(uid) in values for uid, values in clause.items())


def values_in(clause: Clause, uid: AttributeUid) -> ValueSet:
    """Return what a clause says about an attribute: anything, where it is not mentioned."""
    return clause.get(uid, ANYTHING)


# Alternatives: the values that an event needs, attribute by attribute.


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
        low, high = ends_of(part.operator, part.literal)
        if low is not None and low > first:
            first = low
        if high is not None and (after is None or high < after):
            after = high
        ranges[part.uid] = kind, first, after
    edges = {uid: (kind, edges_between(kind, first, after)) for uid, (kind, first, after) in ranges.items()}
    return {uid: ValueSet(False, {kind: some} if some else {}) for uid, (kind, some) in edges.items()}


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
    return _in_pairs(wide, ValueSet.union_under_equal_claims, Steps(sys.maxsize))


def _telling(clause: Clause) -> dict[AttributeUid, ValueSet]:
    return {uid: values for uid, values in clause.items() if values != ANYTHING}


def _is_possible(clause: Clause) -> bool:
    return all(values.absent or values.edges for values in clause.values())


# Groups: the parts of a conjunction that share attributes.


class ConjunctGroup:
    """Conjuncts that share attributes among themselves and with no other group."""

    __slots__ = ("_clauses", "attributes", "parts")

    def __init__(self, attributes: frozenset[AttributeUid], parts: tuple[Predicate, ...]) -> None:
        """Start without clauses; they are made when first asked for."""
        self.attributes, self.parts = attributes, parts
        self._clauses: list[Clause] | None = None

    def clauses(self, steps: Steps) -> list[Clause]:
        """Return the group spread out into clauses, or raise `OutOfSteps`."""
        if self._clauses is None:
            self._clauses = clauses_of(AllOf(self.parts), steps)
        return self._clauses


def groups_of(formula: Predicate) -> list[ConjunctGroup]:
    """Return a conjunction as groups that share no attributes."""
    group_by_uid: dict[AttributeUid, int] = {}
    members: dict[int, list[Predicate]] = {}
    for index, part in enumerate(conjuncts(formula)):
        own = attributes_of(part)
        joined = {group_by_uid[uid] for uid in own if uid in group_by_uid}
        # The largest group keeps its number, so that moving members stays cheap overall.
        home = max(joined, key=lambda number: len(members[number]), default=index)
        moved = list(chain.from_iterable(members.pop(number) for number in joined if number != home))
        members.setdefault(home, []).extend((*moved, part))
        for uid in chain(own, chain.from_iterable(map(attributes_of, moved))):
            group_by_uid[uid] = home
    uids: dict[int, set[AttributeUid]] = {}
    for uid, number in group_by_uid.items():
        uids.setdefault(number, set()).add(uid)
    return [ConjunctGroup(frozenset(uids.get(number, ())), tuple(parts)) for number, parts in members.items()]


def product(groups: Iterable[ConjunctGroup], steps: Steps) -> list[Clause]:
    """Return the clauses of several groups together."""
    clauses: list[Clause] = [{}]
    for group in groups:
        clauses = multiplied(clauses, group.clauses(steps), steps)
    return clauses


BRANCHES_MAX: Final = 64


def branches_of(predicate: Predicate) -> list[tuple[Constraint, ...]] | None:
    """Return the alternatives of a filter, each a conjunction; None if there are more than `BRANCHES_MAX`."""
    return _branches(is_true_formula(checked_size(predicate)))


def _branches(formula: Predicate) -> list[tuple[Constraint, ...]] | None:
    if not isinstance(formula, AllOf | AnyOf):
        return [(formula,)]
    branches: list[tuple[Constraint, ...]] = [()] if isinstance(formula, AllOf) else []
    for part in formula.parts:
        found = _branches(part)
        if found is None:
            return None
        if isinstance(formula, AllOf):
            branches = [(*one, *other) for one in branches for other in found]
        else:
            branches += found
        if len(branches) > BRANCHES_MAX:
            return None
    return branches
