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

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from maia.canonical import write_canonical
from maia.predicates import ALWAYS, AllOf, Exists, Not, Predicate, predicate_to_expression
from maia.predicates.covering.cover_table import CoverTable
from maia.predicates.covering.normal_form import branches_of
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
    each = [Part(one, rights[at] if rights else None, (at,)) for at, one in enumerate(filters)]
    exact = [part for some in _by_right(each) for part in _uncovered(some)]
    size = _size(exact, part_bytes)
    if size <= budget_bytes:
        return Aggregate(tuple(exact), size, is_exact=True)
    parts = _merged(exact, budget_bytes, part_bytes)
    if _size(parts, part_bytes) > budget_bytes:
        parts = _everything(parts, budget_bytes, part_bytes)
    return Aggregate(tuple(parts), _size(parts, part_bytes), is_exact=False)


def _size(parts: Sequence[Part], part_bytes: int) -> int:
    return sum(part_bytes + size_of_filter(part.filter) for part in parts)


def _uncovered(parts: Sequence[Part]) -> Sequence[Part]:
    """Return the parts of one right that no other covers, each with the positions of those that it covers."""
    if len(parts) > READ_MAX:
        return parts
    table: CoverTable[int] = CoverTable()
    for at, part in enumerate(parts):
        table.insert(at, part.filter)
    members: dict[int, list[int]] = {at: [*parts[at].members] for at in table.maximal()}
    for at, part in enumerate(parts):
        if at not in members:
            members.setdefault(at if (widest := table.covered_by(at)) is None else widest, []).extend(
                part.members
            )
    return [Part(parts[at].filter, parts[at].right, tuple(some)) for at, some in members.items()]


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
            left[one] = _together(filter_, (kept, gone))
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
    few: list[Part] = []
    for some in _by_right(parts):
        if len(some) > READ_MAX:
            few.append(_together(ALWAYS, some))
            continue
        merging = Merging([part.filter for part in some])
        for group in merging.groups(max(1, len(some) * MERGED_MAX // len(parts))):
            few.append(_together(merging.merged(group), [some[one] for one in group]))
    return few


def _everything(parts: Sequence[Part], budget_bytes: int, part_bytes: int) -> list[Part]:
    """Ask for everything that a right entitles to, one right after the other, until the rest fits."""
    kept = list(parts)
    for some in sorted(_by_right(parts), key=lambda some: -_size(some, part_bytes)):
        if _size(kept, part_bytes) <= budget_bytes:
            break
        kept = [*(part for part in kept if part.right != some[0].right), _together(ALWAYS, some)]
    return kept


def _by_right(parts: Iterable[Part]) -> Collection[list[Part]]:
    found: dict[Hashable, list[Part]] = {}
    for part in parts:
        found.setdefault(part.right, []).append(part)
    return found.values()


def _together(filter_: Predicate, parts: Sequence[Part]) -> Part:
    """Return one part with this filter in place of some of the same right."""
    return Part(filter_, parts[0].right, tuple(sorted({one for part in parts for one in part.members})))
