"""Which filters does a router announce in place of all of its subscribers', within a budget of bytes?

A router that announces its subscriptions asks. Everything that a subscriber
asked for is asked for by the aggregate, whatever the budget (formula 3 of the
Gismo paper); what it asks for beyond that is the *spill*. A smaller budget
means wider filters and more spill, about k / size (formula 5).

Filters are merged within their *right* alone: a value that the caller chooses,
the same for filters that one proof entitles to. So each announced filter has one
proof behind it, and a receiver that narrows it to what was proved takes away spill
and nothing that a subscriber asked for (A67, docs/decisions/aggregation.md).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.canonical import write_canonical
from maia.predicates import ALWAYS, AllOf, Exists, Not, Predicate, predicate_to_expression
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.covering.sides import branches_of
from maia.predicates.merging.merge import Merging

MERGED_MAX: Final = 512
"""More filters than this are merged into so many at once, roughly; from there on pair by pair, with care."""
READ_MAX: Final = 2048
"""More filters than this of one right are not compared: either all fit, or all that the right entitles to
is asked for."""


@dataclass(frozen=True, slots=True)
class Part:
    """One filter of an aggregate, and the positions of the filters that it stands for."""

    filter: Predicate = field(repr=False)
    right: Hashable = field(repr=False)
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Filters that together admit everything that the filters of some subscribers admit."""

    parts: tuple[Part, ...]
    size: int
    """How many bytes they have when they are announced."""
    is_exact: bool
    """Nothing was merged: they admit nothing beyond."""

    @property
    def filters(self) -> tuple[Predicate, ...]:
        """Return the filters alone."""
        return tuple(part.filter for part in self.parts)


def size_of_filter(predicate: Predicate) -> int:
    """Return how many bytes a filter has in a message."""
    return len(write_canonical(predicate_to_expression(predicate)))


def aggregate(
    filters: Sequence[Predicate], budget_bytes: int, *, rights: Sequence[Hashable] = (), part_bytes: int = 0
) -> Aggregate:
    """Return the filters to announce: as many and as narrow as the budget has room for.

    `rights` has one right for each filter, and is empty if all have the same. Each announced
    filter costs `part_bytes` beside its own, for its proof. There is one filter for each right
    at least, so that an aggregate of nothing but `ALWAYS` may exceed its budget.
    """
    by_right: dict[Hashable, list[int]] = {}
    for at in range(len(filters)):
        by_right.setdefault(rights[at] if rights else None, []).append(at)
    exact = [
        Part(filters[group[0]], right, group)
        for right, positions in by_right.items()
        for group in _uncovered(filters, positions)
    ]
    size = _size(exact, part_bytes)
    if size <= budget_bytes:
        return Aggregate(tuple(exact), size, is_exact=True)
    parts = _merged(exact, budget_bytes, part_bytes)
    if _size(parts, part_bytes) > budget_bytes:
        parts = _everything(parts, budget_bytes, part_bytes)
    return Aggregate(tuple(parts), _size(parts, part_bytes), is_exact=False)


def _size(parts: Sequence[Part], part_bytes: int) -> int:
    return sum(part_bytes + size_of_filter(part.filter) for part in parts)


def _uncovered(filters: Sequence[Predicate], positions: Sequence[int]) -> list[tuple[int, ...]]:
    """Return filters that no other covers, each with the positions of those that it covers, itself first."""
    if len(positions) > READ_MAX:
        return [(at,) for at in positions]
    table: CoverTable[int] = CoverTable()
    for at in positions:
        table.insert(at, filters[at])
    groups: dict[int, list[int]] = {at: [at] for at in table.maximal()}
    for at in positions:
        if at not in groups:
            widest = table.covered_by(at)
            groups[at if widest is None else widest].append(at)
    return [tuple(group) for group in groups.values()]


def _merged(exact: Sequence[Part], budget_bytes: int, part_bytes: int) -> list[Part]:
    """Merge the two parts of one right that spill least, again and again, until all fit or one is left."""
    whole: list[Part] = []
    parts: list[Part] = []
    for part in exact:
        alternatives = _alternatives(part)
        if alternatives is None:
            whole.append(part)  # announced as it is, or not at all
        else:
            parts += alternatives
    parts = _few(parts)
    sorts = {right: number for number, right in enumerate({part.right: None for part in parts})}
    merging = Merging([part.filter for part in parts])
    left: list[Part | None] = list(parts)
    sizes = [part_bytes + size_of_filter(part.filter) for part in parts]
    size = sum(sizes) + _size(whole, part_bytes)
    if size > budget_bytes:
        for one, other, filter_ in merging.joins([sorts[part.right] for part in parts]):
            kept, gone = left[one], left[other]
            if kept is None or gone is None:
                continue  # not so: what was joined is not joined again
            left[one] = Part(filter_, kept.right, _together((kept, gone)))
            left[other] = None
            before, sizes[one] = sizes[one] + sizes[other], part_bytes + size_of_filter(filter_)
            size += sizes[one] - before
            if size <= budget_bytes:
                break
    return [*whole, *(part for part in left if part is not None)]


def _alternatives(part: Part) -> list[Part] | None:
    """Return a part as collections of constraints, which can be merged; None if it has too many."""
    branches = branches_of(part.filter)
    if branches is None:
        return None
    found: list[Part] = []
    for branch in branches:
        # That an attribute is absent cannot be merged, so it is not asked for.
        asked = tuple([one for one in branch if not (isinstance(one, Not) and isinstance(one.inner, Exists))])
        found.append(Part(asked[0] if len(asked) == 1 else AllOf(asked), part.right, part.members))
    return found


def _few(parts: list[Part]) -> list[Part]:
    """Merge very many parts into `MERGED_MAX` or fewer, right by right; out of all order, ask for all."""
    if len(parts) <= MERGED_MAX:
        return parts
    by_right: dict[Hashable, list[Part]] = {}
    for part in parts:
        by_right.setdefault(part.right, []).append(part)
    few: list[Part] = []
    for right, some in by_right.items():
        if len(some) > READ_MAX:
            few.append(Part(ALWAYS, right, _together(some)))
            continue
        merging = Merging([part.filter for part in some])
        for group in merging.groups(max(1, len(some) * MERGED_MAX // len(parts))):
            few.append(Part(merging.merged(group), right, _together([some[one] for one in group])))
    return few


def _together(parts: Sequence[Part]) -> tuple[int, ...]:
    return tuple(sorted({member for part in parts for member in part.members}))


def _everything(parts: Sequence[Part], budget_bytes: int, part_bytes: int) -> list[Part]:
    """Ask for everything that a right entitles to, one right after the other, until the rest fits."""
    by_right: dict[Hashable, list[Part]] = {}
    for part in parts:
        by_right.setdefault(part.right, []).append(part)
    kept = list(parts)
    for right, some in sorted(by_right.items(), key=lambda one: -_size(one[1], part_bytes)):
        if _size(kept, part_bytes) <= budget_bytes:
            break
        kept = [part for part in kept if part.right != right]
        kept.append(Part(ALWAYS, right, _together(some)))
    return kept
