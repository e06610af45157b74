"""Merging: which few filters can replace these many, and how much more do they let through?

A router that may announce only so many bytes of filters asks
(`maia.routing.aggregation`). Everything that any of the originals admits is
admitted by the merged ones: that never depends on a choice or a measure. How
much more they admit is the *spill*, and the answer comes with a bound on it:

    spill = share of events that some merged filter admits and no original admits
            divided by the share of events that some merged filter admits

under the measure of `merging/measure.py` (each attribute has a value of its domain,
all equally likely, independent of each other). The true spill is never larger
than `spill_bound` (docs/decisions/merging-and-spill.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid, Kind
from maia.predicates.covering.sides import code_range, is_faithful, value_of
from maia.predicates.merging.measure import AskedValues, Domains, Geometry, asked_of, derived_domains
from maia.predicates.merging.pairs import grouped, join_order
from maia.predicates.merging.spill import boxes_of, spill_bound
from maia.predicates.syntax import (
    AllOf,
    Comparison,
    Constraint,
    Exists,
    Membership,
    Operator,
    Predicate,
    constraints_of,
)

# The tightest collection of constraints that covers a group.
#
# Merging asks for every group. The answer covers each filter of the group,
# attribute by attribute: a range over ranges, a list over lists, the same text
# constraint where all agree, and `exists` or nothing where no better is known.


LISTED_MAX: Final = 64
"""A merged list with more literals than this becomes a range, or `exists`."""

_Constraints = tuple[Constraint, ...]


def joined(filters: Sequence[Mapping[AttributeUid, AskedValues]]) -> dict[AttributeUid, _Constraints]:
    """Return constraints that cover every filter; at least one is given."""
    # A filter that visibly admits nothing is covered by anything, so it need not widen the others.
    some = [one for one in filters if not any(asked.is_void for asked in one.values())] or filters[:1]
    shared = [uid for uid in some[0] if all(uid in one for one in some)]
    return {uid: _joined_on(uid, [one[uid] for one in some]) for uid in shared}


def _joined_on(uid: AttributeUid, asked: Sequence[AskedValues]) -> _Constraints:
    first = set(asked[0].constraints)
    if all(set(one.constraints) == first for one in asked):
        return asked[0].constraints
    kinds = {one.kind for one in asked}
    kind = kinds.pop()
    if kind is None or kinds:
        return (Exists(uid),)
    return _listed(uid, asked) or _ranged(uid, kind, asked) or (Exists(uid),)


def _listed(uid: AttributeUid, asked: Sequence[AskedValues]) -> _Constraints | None:
    members = frozenset(value for one in asked for value in one.members or ())
    if any(one.members is None for one in asked) or len(members) > LISTED_MAX:
        return None
    if len(members) > 1:
        return (Membership(uid, members),)
    return (Comparison(uid, Operator.EQ, next(iter(members))),)


def _ranged(uid: AttributeUid, kind: Kind, asked: Sequence[AskedValues]) -> _Constraints | None:
    if not is_faithful(kind) or not kind.is_ordered:
        return None
    low, high = min(one.bounds[0] for one in asked), max(one.bounds[1] for one in asked)
    lowest, highest = code_range(kind)
    ends: list[Constraint] = []
    if low > lowest:
        ends.append(Comparison(uid, Operator.GE, value_of(low, kind)))
    if high < highest or not ends:
        # A range over the whole kind still says which kind it is, which `exists` would not.
        ends.append(Comparison(uid, Operator.LE, value_of(high, kind)))
    return tuple(ends)


MERGED_FROM_MAX: Final = 200_000
_NO_DOMAINS: Final[Domains] = {}

_Filter: TypeAlias = Mapping[AttributeUid, AskedValues]


@dataclass(frozen=True, slots=True)
class Merged:
    """Filters that together admit everything that the originals admit."""

    filters: tuple[Predicate, ...]
    spill_bound: float
    """The true spill is at most this; 0 if nothing more is let through, 1 if nothing is known."""
    groups: tuple[tuple[int, ...], ...]
    """For each merged filter the places of the originals that it replaces."""


def merge(filters: Sequence[Predicate], *, size_max: int, domains: Domains = _NO_DOMAINS) -> Merged:
    """Merge filters, each a collection of constraints, into at most `size_max`.

    Attributes without a domain get one from the literals of the filters, as
    `derived_domains` says.
    """
    merging = Merging(filters, domains=domains)
    groups = merging.groups(size_max)
    return Merged(
        tuple(merging.merged(group) for group in groups),
        merging.spill_bound(groups),
        tuple(tuple(group) for group in groups),
    )


class Merging:
    """Filters that are read once, and then merged into as few as is asked for, as often as is asked."""

    def __init__(self, filters: Sequence[Predicate], *, domains: Domains = _NO_DOMAINS) -> None:
        """Read the filters; each of them is a collection of constraints."""
        if len(filters) > MERGED_FROM_MAX:
            raise BadInput(
                "INPUT-MERGE",
                f"at most {MERGED_FROM_MAX} filters can be merged, and {len(filters)} were given",
            )
        self._filters = tuple(filters)
        self._originals = [asked_of(constraints_of(one)) for one in filters]
        self._geometry = Geometry(self._originals, derived_domains(self._originals, domains))
        self._boxes = boxes_of(self._geometry)

    def groups(self, size_max: int) -> list[list[int]]:
        """Return which of the filters to merge with which, so that at most `size_max` are left."""
        if size_max < 1:
            raise BadInput("INPUT-MERGE", f"filters cannot be merged into {size_max}: one is the least")
        return grouped(self._boxes, size_max=size_max)

    def joins(self, sorts: Sequence[int]) -> Iterator[tuple[int, int, Predicate]]:
        """Yield which two filters to merge next, and into which, those that spill least first.

        The second is part of the first from then on. Only filters of the same sort are merged.
        The work grows with the square of the filters.
        """
        asked = list(self._originals)
        for one, other in join_order(self._boxes, sorts):
            constraints = joined([asked[one], asked[other]])
            asked[one] = asked_of(constraints)
            yield one, other, _written(constraints)

    def merged(self, group: Sequence[int]) -> Predicate:
        """Return one filter that covers a group; a group of one keeps its filter as it was written."""
        if len(group) == 1:
            return self._filters[group[0]]
        return _written(joined([self._originals[number] for number in group]))

    def spill_bound(self, groups: Sequence[Sequence[int]]) -> float:
        """Return a number that the spill of these groups does not exceed."""
        return spill_bound(self._geometry, groups, [self._asked(group) for group in groups])

    def _asked(self, group: Sequence[int]) -> _Filter:
        if len(group) == 1:
            return self._originals[group[0]]
        return asked_of(joined([self._originals[number] for number in group]))


def _written(constraints: Mapping[AttributeUid, tuple[Predicate, ...]]) -> Predicate:
    parts = tuple(one for asked in constraints.values() for one in asked)
    return parts[0] if len(parts) == 1 else AllOf(parts)
