"""Which values of one attribute satisfy some questions about it?

Covering, emptiness, overlap and merging ask this for every attribute. A
`ValueSet` holds the answer: whether the attribute may be missing, and for each
kind the values that it may have. It follows `meaning.py` to the letter: an
atom about ints is satisfied by ints alone, its negation too, and only
`not exists` is satisfied by a missing attribute.

Sets without suffix, infix, token and `+` questions are exact unions of intervals.
Those questions stay beside the interval as claims and are decided by automata
on demand. "Empty" and "contains" are said only when proved; when the
steps run out, the answer is no.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, assert_never

from maia.events import Kind, PresentValue, Value, kind_of
from maia.predicates.covering.ordered_sets import (
    FULL,
    NONE,
    Edges,
    edges_between,
    edges_of,
    edges_with_prefix,
    intersected,
    is_inside,
    is_subset,
    minus,
    single_values,
    successor,
    united,
)
from maia.predicates.covering.string_automata import TextClaim, claim_holds, implies, string_satisfying
from maia.predicates.path_patterns import parse_path_pattern
from maia.predicates.syntax import (
    Atom,
    Comparison,
    Exists,
    Membership,
    Operator,
    OutOfSteps,
    Steps,
    TextMatch,
    TextTest,
)

_ANSWERS_MAX: Final = 16_384
_COMPARED_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ValueSet:
    """A set of values of one attribute, absence included.

    `edges` has an entry for each kind of which some values may be in the set;
    `claims` are further demands on the strings among them. Two sets with the
    same members may be written differently, so compare with `contains_all`.
    """

    absent: bool
    edges: Mapping[Kind, Edges]
    claims: frozenset[TextClaim] = frozenset()

    @classmethod
    def from_atom(cls, atom: Atom, *, negated: bool = False) -> ValueSet:
        """Return the values for which the atom, or its negation, is true."""
        match atom:
            case Exists():
                return ABSENT if negated else PRESENT
            case TextMatch(_, test, text) if not _is_interval(atom):
                begins = parse_path_pattern(text).literal if test is TextTest.LEVELS and not negated else ""
                return _with_claims(
                    absent=False,
                    edges={Kind.STRING: edges_with_prefix(begins)},
                    claims={TextClaim(test, text, not negated)},
                )
            case _:
                kind, edges = _edges_of_atom(atom)
                return _of_kind(kind, minus(FULL[kind], edges) if negated else edges)

    def __contains__(self, value: object) -> bool:
        """Return whether a value, or None for absence, is in the set."""
        if value is None:
            return self.absent
        assert isinstance(value, str | int | float | bytes)  # noqa: S101 - the classes of a present value
        edges = self.edges.get(kind_of(value), NONE)
        if not is_inside(value, edges):
            return False
        return not isinstance(value, str) or all(claim_holds(claim, value) for claim in self.claims)

    def intersection(self, other: ValueSet) -> ValueSet:
        """Return the values that are in both sets; exact."""
        edges = {
            kind: found
            for kind in self.edges
            if kind in other.edges and (found := intersected(self.edges[kind], other.edges[kind]))
        }
        return _with_claims(
            absent=self.absent and other.absent, edges=edges, claims=self.claims | other.claims
        )

    def union(self, other: ValueSet) -> ValueSet | None:
        """Return the values that are in either set, or None where one ValueSet cannot say that."""
        if self.claims != other.claims:
            # A claim on strings that are not there (or a string part that is swallowed whole) does no harm.
            return _union_of_different_claims(self, other)
        return self.union_under_equal_claims(other)

    def union_under_equal_claims(self, other: ValueSet) -> ValueSet:
        """Return the union with a set whose claims are the same; exact, and always possible."""
        assert self.claims == other.claims  # noqa: S101 - promised by the caller
        edges = {
            kind: united(self.edges.get(kind, NONE), other.edges.get(kind, NONE))
            for kind in {**self.edges, **other.edges}
        }
        return ValueSet(self.absent or other.absent, edges, self.claims)

    def minus(self, other: ValueSet) -> Iterator[ValueSet]:
        """Yield disjoint sets whose union is what `other` leaves of this set; some may be empty."""
        outside = {
            kind: left
            for kind, edges in self.edges.items()
            if (left := minus(edges, other.edges.get(kind, NONE)))
        }
        if outside or (self.absent and not other.absent):
            yield _with_claims(absent=self.absent and not other.absent, edges=outside, claims=self.claims)
        yield from self._strings_without_a_claim_of(other)

    def _strings_without_a_claim_of(self, other: ValueSet) -> Iterator[ValueSet]:
        strings = intersected(self.edges.get(Kind.STRING, NONE), other.edges.get(Kind.STRING, NONE))
        claims = self.claims
        for claim in sorted(other.claims, key=lambda claim: (claim.test.value, claim.text)):
            if not strings or _is_implied(claim, claims):
                continue
            yield _with_claims(absent=False, edges={Kind.STRING: strings}, claims=claims | {claim.negated()})
            claims |= {claim}

    def is_empty(self, steps: Steps | None = None) -> bool:
        """Return whether there is provably no value in the set."""
        try:
            return self.proved_empty(steps or Steps())
        except OutOfSteps:
            return False

    def contains_all(self, other: ValueSet, steps: Steps | None = None) -> bool:
        """Return whether provably every member of `other` is in this set."""
        try:
            return self.proved_contains(other, steps or Steps())
        except OutOfSteps:
            return False

    def samples(self, steps: Steps | None = None) -> tuple[Value, ...]:
        """Return some members, at most one of each kind, and None for absence; () if none was found."""
        found: list[Value] = [None] if self.absent else []
        for kind, edges in self.edges.items():
            if kind is not Kind.STRING or not self.claims:
                found.append(edges[0])
                continue
            try:
                text = string_satisfying(edges, self.claims, steps or Steps())
            except OutOfSteps:
                continue
            found += [] if text is None else [text]
        return tuple(found)

    # The `proved_` forms let `OutOfSteps` through, for those who share steps among many questions.

    def proved_empty(self, steps: Steps) -> bool:
        """Return whether the set is empty; exact, or `OutOfSteps`."""
        if self.absent or any(kind is not Kind.STRING for kind in self.edges):
            return False
        strings = self.edges.get(Kind.STRING, NONE)
        if not self.claims or not strings:
            return not strings
        if any(claim.negated() in self.claims for claim in self.claims):
            return True
        return string_satisfying(strings, _strongest(self.claims), steps) is None

    def proved_contains(self, other: ValueSet, steps: Steps) -> bool:
        """Return whether every member of `other` is in this set; exact, or `OutOfSteps`."""
        if other.absent and not self.absent:
            return False
        outside = [
            kind
            for kind, edges in other.edges.items()
            if not is_subset(narrow=edges, wide=self.edges.get(kind, NONE))
        ]
        if not outside and not self.claims:
            return True
        # Only strings with claims can be fewer than their edges say.
        if any(kind is not Kind.STRING or not other.claims for kind in outside):
            return False
        return all(piece.proved_empty(steps) for piece in _strings_of(other).minus(self))

    @property
    def size(self) -> int:
        """Return how large the description is, for those who count steps."""
        return 1 + sum(map(len, self.edges.values())) + len(self.claims)


ANYTHING: Final = ValueSet(True, FULL)
"""Every value of every kind, and absence."""

PRESENT: Final = ValueSet(False, FULL)
ABSENT: Final = ValueSet(True, {})
NOTHING: Final = ValueSet(False, {})


def _of_kind(kind: Kind, edges: Edges) -> ValueSet:
    return ValueSet(False, {kind: edges} if edges else {})


def _with_claims(*, absent: bool, edges: Mapping[Kind, Edges], claims: Iterable[TextClaim]) -> ValueSet:
    """Build a set; where only a few strings are left, ask the claims of each and drop them."""
    claims = frozenset(claims)
    strings = edges.get(Kind.STRING)
    if not claims or not strings:
        return ValueSet(absent, edges)
    singles = single_values(strings, _ANSWERS_MAX // len(claims))
    if singles is None:
        return ValueSet(absent, edges, claims)
    kept = edges_of(text for text in singles if all(claim_holds(claim, str(text)) for claim in claims))
    others = _without_strings(edges)
    return ValueSet(absent, {**others, Kind.STRING: kept} if kept else others)


def _without_strings(edges: Mapping[Kind, Edges]) -> dict[Kind, Edges]:
    others = dict(edges)
    others.pop(Kind.STRING, None)
    return others


def _union_of_different_claims(one: ValueSet, other: ValueSet) -> ValueSet | None:
    for wide, narrow in ((one, other), (other, one)):
        if wide.contains_all(_strings_of(narrow)):
            rest = ValueSet(narrow.absent, _without_strings(narrow.edges), wide.claims)
            return wide.union(rest)
    return None


def _strings_of(values: ValueSet) -> ValueSet:
    strings = values.edges.get(Kind.STRING, NONE)
    return ValueSet(False, {Kind.STRING: strings}, values.claims) if strings else NOTHING


def _is_implied(claim: TextClaim, given: Collection[TextClaim]) -> bool:
    # Beyond a few claims, comparing each with each costs more than the automata's step limit allows.
    return claim in given or (len(given) <= _COMPARED_MAX and any(implies(one, claim) for one in given))


def _strongest(claims: frozenset[TextClaim]) -> Collection[TextClaim]:
    """Leave out claims that another one visibly implies: each one costs a machine in the product."""
    if len(claims) > _COMPARED_MAX:
        return claims
    kept: list[TextClaim] = []
    for claim in sorted(claims, key=lambda claim: -len(claim.text) if claim.holds else len(claim.text)):
        if not _is_implied(claim, kept):
            kept.append(claim)
    return kept


def _is_interval(atom: TextMatch) -> bool:
    """Return whether a question about text is one about an interval or two, and needs no automaton."""
    if atom.test is TextTest.LEVELS:
        return parse_path_pattern(atom.text).is_literal
    return atom.test is TextTest.PREFIX


def _edges_of_atom(atom: Comparison | Membership | TextMatch) -> tuple[Kind, Edges]:
    match atom:
        case Comparison(_, operator, literal):
            return atom.kind, _edges_of_comparison(atom.kind, operator, literal)
        case Membership(_, literals):
            return atom.kind, edges_of(literals)
        case TextMatch(_, TextTest.LEVELS, text):
            pattern = parse_path_pattern(text)
            node = edges_of([pattern.literal])
            below = edges_with_prefix(f"{pattern.literal}/") if pattern.has_rest else NONE
            return Kind.STRING, united(node, below)
        case TextMatch(_, _, text):
            return Kind.STRING, edges_with_prefix(text)
        case _:
            assert_never(atom)


def _edges_of_comparison(kind: Kind, operator: Operator, literal: PresentValue) -> Edges:
    if operator is Operator.NE:
        return minus(FULL[kind], edges_of([literal]))
    return edges_between(kind, *ends_of(operator, literal))


def ends_of(operator: Operator, literal: PresentValue) -> tuple[Any, Any]:
    """Return the first value that a comparison admits and the first after the last; None where it is open."""
    # Any: values of the literal's kind.
    match operator:
        case Operator.GE:
            return literal, None
        case Operator.LT:
            return None, literal
        case Operator.LE:
            return None, successor(literal)
        case Operator.EQ:
            return literal, successor(literal)
        case _:
            following = successor(literal)
            return (literal, literal) if following is None else (following, None)
