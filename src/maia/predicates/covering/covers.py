"""Covering: does one filter admit everything that another admits?

Brokers forward one subscription in place of many when it does. The policy
kernel keeps a subscription inside a granted filter the same way. The answer
may be a cautious "no"; it is never a hopeful "yes".

It is exact for conjunctions of possibly negated atoms, and for everything
else too until the steps run out: we take the wide filter's clauses away from
the narrow filter's, and see whether anything is left. What is left is a proof
of "no", and `counterexample` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from maia.events import AttributeUid, Kind, PresentValue
from maia.predicates.covering.normal_form import (
    AtomValues,
    Clause,
    ConjunctGroup,
    clause_of,
    clauses_of,
    groups_of,
    intersected,
    literal_of,
    literals_of,
    product,
    values_in,
)
from maia.predicates.covering.value_sets import ANYTHING
from maia.predicates.meaning import admits
from maia.predicates.syntax import (
    ALWAYS,
    NEVER,
    AllOf,
    AnyOf,
    Comparison,
    Membership,
    Operator,
    OutOfSteps,
    Predicate,
    Steps,
    attributes_of,
    checked_size,
    conjuncts,
    is_true_formula,
)


def covers(*, wide: Predicate, narrow: Predicate) -> bool:
    """Return whether provably every event that `narrow` admits is admitted by `wide`."""
    return _proved(_formula(wide), _formula(narrow))


def provably_empty(predicate: Predicate) -> bool:
    """Return whether provably no event is admitted."""
    return _proved(NEVER, _formula(predicate))


def may_overlap(one: Predicate, other: Predicate) -> bool:
    """Return whether some event may be admitted by both; "no" is proved, "yes" may be caution."""
    return not _proved(NEVER, AllOf((_formula(one), _formula(other))))


def counterexample(*, wide: Predicate, narrow: Predicate) -> dict[AttributeUid, PresentValue] | None:
    """Return an event that `narrow` admits and `wide` does not, or None where none was found."""
    steps, groups = Steps(), groups_of(_formula(narrow))
    for part in conjuncts(_formula(wide)):
        try:
            event = _event_outside(part, groups, steps)
        except OutOfSteps:
            return None
        # Asked again of the meaning itself: an example that is shown to people must be one.
        if event is not None and admits(narrow, event) and not admits(wide, event):
            return event
    return None


def intersection(one: Predicate, other: Predicate) -> Predicate:
    """Return the predicate that admits exactly what both admit, flat and without repetition.

    Refused with `PredicateTooLarge` where the two together outgrow the limits.
    """
    parts = tuple(dict.fromkeys((*conjuncts(checked_size(one)), *conjuncts(checked_size(other)))))
    if NEVER in parts:
        return NEVER
    return checked_size(parts[0] if len(parts) == 1 else AllOf(parts))


def union(predicates: Iterable[Predicate]) -> Predicate:
    """Return the predicate that says of every event what the most favourable of these says.

    What all of them ask for is asked once, and values that one attribute may have become one list. Linear
    in the size of the predicates. Refused with `PredicateTooLarge` where they outgrow the limits together.
    """
    rows = [tuple(dict.fromkeys(conjuncts(one))) for one in map(checked_size, dict.fromkeys(predicates))]
    if not rows:
        return NEVER
    shared = frozenset(rows[0]).intersection(*rows[1:])
    listed: dict[tuple[AttributeUid, Kind], set[PresentValue]] = {}
    others: dict[Predicate, None] = {}
    for row in rows:
        match tuple(term for term in row if term not in shared):
            case (Comparison(uid, Operator.EQ, literal) as term,):
                listed.setdefault((uid, term.kind), set()).add(literal)
            case (Membership(uid, literals) as term,):
                listed.setdefault((uid, term.kind), set()).update(literals)
            case (only,):
                others[only] = None
            case rest:
                others[AllOf(rest)] = None
    lists = (_one_of(uid, literals) for (uid, _), literals in listed.items())
    alternatives = (*lists, *others)
    common = tuple(term for term in rows[0] if term in shared)
    if ALWAYS in others:
        parts = common
    else:
        parts = (*common, alternatives[0] if len(alternatives) == 1 else AnyOf(alternatives))
    return checked_size(parts[0] if len(parts) == 1 else AllOf(parts))


def _one_of(uid: AttributeUid, literals: set[PresentValue]) -> Predicate:
    if len(literals) == 1:
        return Comparison(uid, Operator.EQ, literals.pop())
    return Membership(uid, frozenset(literals))


def simplified(predicate: Predicate) -> Predicate:
    """Return a predicate, shorter where possible, that admits the same events.

    Parts that say nothing beside their neighbours are dropped. Only "admits"
    stays the same: an unknown may become false, so simplify the whole
    predicate, never a part under `not`.
    """
    shorter = _simplified(_formula(predicate), Steps())
    return predicate if shorter == predicate else shorter  # the same object, for what keeps both


def _formula(predicate: Predicate) -> Predicate:
    return is_true_formula(checked_size(predicate))


# --- the proof: what do the wide filter's clauses leave of the narrow filter's? ---


def _proved(wide: Predicate, narrow: Predicate) -> bool:
    if wide == narrow:
        return True
    outer, inner = literals_of(wide), literals_of(narrow)
    if outer is not None and inner is not None:
        return _literals_cover(outer, inner)
    question = _Question(narrow)
    if all(question.is_covered_by(part) for part in conjuncts(wide)):
        return True
    return any(_covers_groups(NEVER, [group], question) for group in question.groups)


def _literals_cover(wide: list[AtomValues], narrow: list[AtomValues]) -> bool:
    """Answer for two conjunctions of literals, attribute by attribute: what most filters are."""
    steps = Steps()
    try:
        found = clause_of(narrow, steps)
        if all(one.values.proved_contains(found.get(one.atom.uid, ANYTHING), steps) for one in wide):
            return True
        return any(values.proved_empty(steps) for values in found.values())
    except OutOfSteps:
        repeated = {(literal.atom, literal.is_negated) for literal in narrow}
        return all((literal.atom, literal.is_negated) in repeated for literal in wide)


class _Question:
    """A narrow filter about which many parts of a wide one are asked, and the steps for all of them."""

    __slots__ = ("_parts", "groups", "steps", "steps_to_look")

    def __init__(self, narrow: Predicate) -> None:
        self.groups = groups_of(narrow)
        self._parts = frozenset(conjuncts(narrow))
        self.steps, self.steps_to_look = Steps(), Steps()

    def is_covered_by(self, part: Predicate) -> bool:
        return part in self._parts or _covers_groups(part, _about(part, self.groups), self)


def _covers_groups(part: Predicate, groups: list[ConjunctGroup], question: _Question) -> bool:
    """Return whether one part of the wide filter covers the groups with its attributes."""
    try:
        return _covers_clauses(part, product(groups, question.steps), question.steps)
    except OutOfSteps:
        narrow = AllOf(tuple(chain.from_iterable(group.parts for group in groups)))
        return _visibly(part, narrow, question.steps_to_look)


def _about(part: Predicate, groups: list[ConjunctGroup]) -> list[ConjunctGroup]:
    if len(groups) == 1:
        return groups
    attributes = attributes_of(part)
    return [group for group in groups if not attributes.isdisjoint(group.attributes)]


def _covers_clauses(wide: Predicate, narrow: list[Clause], steps: Steps) -> bool:
    wide_clauses = clauses_of(wide, steps)
    return all(not _anything_left(clause, wide_clauses, steps) for clause in narrow)


def _event_outside(
    part: Predicate, groups: list[ConjunctGroup], steps: Steps
) -> dict[AttributeUid, PresentValue] | None:
    """Return an event of all groups that is outside one part of the wide filter."""
    about, wide = _about(part, groups), clauses_of(part, steps)
    outside = (left for clause in product(about, steps) for left in _left_over(clause, wide, steps))
    event = _first_sample(outside, steps)
    for group in groups:
        if event is not None and group not in about:
            rest = _first_sample(group.clauses(steps), steps)
            event = None if rest is None else event | rest
    return event


def _first_sample(clauses: Iterable[Clause], steps: Steps) -> dict[AttributeUid, PresentValue] | None:
    return next((found for clause in clauses if (found := _sample(clause, steps)) is not None), None)


def _anything_left(clause: Clause, wide: list[Clause], steps: Steps) -> bool:
    return next(_left_over(clause, wide, steps), None) is not None


def _left_over(clause: Clause, wide: list[Clause], steps: Steps) -> Iterator[Clause]:
    """Yield non-empty clauses that together are what `wide` leaves of one clause."""
    steps.spend(1 + len(wide))
    if any(_is_within(clause, one, steps) for one in wide):
        return
    if any(values.proved_empty(steps) for values in clause.values()):
        return
    left = [clause]
    for one in wide:
        left = [piece for whole in left for piece in _minus(whole, one, steps)]
    yield from left


def _is_within(narrow: Clause, wide: Clause, steps: Steps) -> bool:
    steps.spend(len(wide))
    return all(values.proved_contains(values_in(narrow, uid), steps) for uid, values in wide.items())


def _minus(clause: Clause, taken: Clause, steps: Steps) -> Iterator[Clause]:
    """Yield disjoint non-empty clauses: what taking one clause away from another leaves."""
    inside = intersected(clause, taken, steps)
    if inside is None:
        yield clause
        return
    kept = dict(clause)
    for uid, values in taken.items():
        for left in values_in(kept, uid).minus(values):
            steps.spend(left.size + len(kept))
            if not left.proved_empty(steps):
                yield {**kept, uid: left}
        kept[uid] = inside[uid]


def _sample(clause: Clause, steps: Steps) -> dict[AttributeUid, PresentValue] | None:
    event: dict[AttributeUid, PresentValue] = {}
    for uid, values in clause.items():
        found = values.samples(steps)
        if not found:
            return None
        if found[0] is not None:
            event[uid] = found[0]
    return event


# --- when the steps run out: compare part with part ---

_STEPS_TO_COMPARE: Final = 50


def _visibly(wide: Predicate, narrow: Predicate, steps: Steps) -> bool:
    try:
        return _visibly_covers(wide, narrow, steps)
    except OutOfSteps:
        return False


def _visibly_covers(wide: Predicate, narrow: Predicate, steps: Steps) -> bool:
    """Return whether the shapes alone show it: sound, and far from complete."""
    steps.spend(_STEPS_TO_COMPARE)
    if wide == narrow:
        return True
    if isinstance(wide, AllOf):
        return all(_visibly_covers(part, narrow, steps) for part in wide.parts)
    if isinstance(narrow, AnyOf):
        return all(_visibly_covers(wide, part, steps) for part in narrow.parts)
    if isinstance(wide, AnyOf) and any(_visibly_covers(part, narrow, steps) for part in wide.parts):
        return True
    if isinstance(narrow, AllOf):
        return any(_visibly_covers(wide, part, steps) for part in narrow.parts)
    return _literal_covers(wide, narrow, steps)


def _literal_covers(wide: Predicate, narrow: Predicate, steps: Steps) -> bool:
    outer, inner = literal_of(wide), literal_of(narrow)
    if inner is None:
        return False
    if outer is None or outer.atom.uid != inner.atom.uid:
        return inner.values.proved_empty(steps)
    return outer.values.proved_contains(inner.values, steps)


# --- simplifying ---


def _simplified(formula: Predicate, steps: Steps) -> Predicate:
    if not isinstance(formula, AllOf | AnyOf):
        return formula
    joins, idle, decisive = (AllOf, ALWAYS, NEVER) if isinstance(formula, AllOf) else (AnyOf, NEVER, ALWAYS)
    flat: dict[Predicate, None] = {}
    for part in formula.parts:
        shorter = _simplified(part, steps)
        flat.update(dict.fromkeys(shorter.parts if isinstance(shorter, joins) else (shorter,)))
    if decisive in flat:
        return decisive
    parts = _without_idle_parts([part for part in flat if part != idle], joins, steps)
    whole = joins(tuple(parts))
    if _settles(decisive, whole, steps):
        return decisive
    return parts[0] if len(parts) == 1 else whole


def _without_idle_parts(parts: list[Predicate], joins: type[AllOf | AnyOf], steps: Steps) -> list[Predicate]:
    kept: list[Predicate] = []
    for index, part in enumerate(parts):
        try:
            idle = any(_is_idle(part, other, joins, steps) for other in chain(kept, parts[index + 1 :]))
        except OutOfSteps:
            return kept + parts[index:]
        kept += [] if idle else [part]
    return kept


def _is_idle(part: Predicate, beside: Predicate, joins: type[AllOf | AnyOf], steps: Steps) -> bool:
    """Whether a part adds nothing beside another: a wider one under `and`, a narrower one under `or`."""
    if joins is AllOf:
        return _covers_with(steps, wide=part, narrow=beside)
    return _covers_with(steps, wide=beside, narrow=part)


def _settles(decisive: Predicate, whole: Predicate, steps: Steps) -> bool:
    """Return whether a conjunction is never true, or a disjunction always."""
    try:
        if decisive == NEVER:
            return _covers_with(steps, wide=NEVER, narrow=whole)
        return _covers_with(steps, wide=whole, narrow=ALWAYS)
    except OutOfSteps:
        return False


def _covers_with(steps: Steps, *, wide: Predicate, narrow: Predicate) -> bool:
    steps.spend()
    clauses = clauses_of(narrow, steps)
    return all(_covers_clauses(part, clauses, steps) for part in conjuncts(wide))
