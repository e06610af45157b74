"""Merging: which few filters can replace these many, and how much more do they let through?

A broker that may announce only so many filters will ask; none does yet, it
comes with mesh routing. Everything that any of the originals admits is
admitted by the merged ones: that never depends on a choice or a measure. How
much more they admit is the *spill*, and the answer comes with a bound on it:

    spill = share of events that some merged filter admits and no original admits
            divided by the share of events that some merged filter admits

under the measure of `merging/measure.py` (each attribute has a value of its domain,
all equally likely, independent of each other). The true spill is never larger
than `spill_bound` (docs/decisions/merging-and-spill.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from maia.errors import BadInput
from maia.events import AttributeUid
from maia.predicates.constraints import constraints_of
from maia.predicates.covering.sides import Asked, asked_of
from maia.predicates.merging.joined_constraints import joined
from maia.predicates.merging.measure import Domains, Geometry, derived_domains
from maia.predicates.merging.pairing import grouped
from maia.predicates.merging.spill import boxes_of, spill_bound
from maia.predicates.syntax import AllOf, Predicate

__all__ = ["MERGED_FROM_MAX", "BadMerge", "Merged", "merge"]

MERGED_FROM_MAX: Final = 200_000
_NO_DOMAINS: Final[Domains] = {}

_Filter: TypeAlias = Mapping[AttributeUid, Asked]


class BadMerge(BadInput):
    """There is no way to merge this many filters into this few."""

    code = "INPUT-MERGE"


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
    _check_sizes(len(filters), size_max)
    originals = [asked_of(constraints_of(one)) for one in filters]
    measured = derived_domains(originals, domains)
    geometry = Geometry(originals, measured)
    groups = grouped(boxes_of(geometry), size_max=size_max)
    merged = [_merged(filters, originals, group) for group in groups]
    bound = spill_bound(geometry, groups, [asked for _, asked in merged])
    return Merged(tuple(one for one, _ in merged), bound, tuple(tuple(group) for group in groups))


def _check_sizes(count: int, size_max: int) -> None:
    if count > MERGED_FROM_MAX:
        raise BadMerge(f"at most {MERGED_FROM_MAX} filters can be merged, and {count} were given")
    if size_max < 1:
        raise BadMerge(f"filters cannot be merged into {size_max}: one is the least")


def _merged(
    filters: Sequence[Predicate], originals: Sequence[_Filter], group: Sequence[int]
) -> tuple[Predicate, _Filter]:
    """Return one filter that covers a group; a group of one keeps its filter as it was written."""
    if len(group) == 1:
        return filters[group[0]], originals[group[0]]
    constraints = joined([originals[number] for number in group])
    return _written(constraints), asked_of(constraints)


def _written(constraints: Mapping[AttributeUid, tuple[Predicate, ...]]) -> Predicate:
    parts = tuple(one for asked in constraints.values() for one in asked)
    return parts[0] if len(parts) == 1 else AllOf(parts)
