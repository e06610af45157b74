"""A table of filters that compares every pair, kept as plain as can be.

This is the definition that the cover table has to agree with, and the peer
that its benchmark is measured against.
"""

from __future__ import annotations

from maia.predicates.covering.covers import covers
from maia.predicates.syntax import Predicate


class PairwisePoset:
    """Filters in the order of their insertion, and for each the set of ids that cover it."""

    def __init__(self) -> None:
        self.filters: dict[str, Predicate] = {}
        self.coverers: dict[str, set[str]] = {}

    def insert(self, new: str, filter_: Predicate) -> tuple[bool, tuple[str, ...]]:
        """Return whether the new filter is covered, and which maximal ones it now covers."""
        before = set(self.maximal())
        self.coverers[new] = {
            old for old, other in self.filters.items() if covers(wide=other, narrow=filter_)
        }
        for old, other in self.filters.items():
            if covers(wide=filter_, narrow=other):
                self.coverers[old].add(new)
        self.filters[new] = filter_
        after = set(self.maximal())
        return new not in after, tuple(old for old in self.filters if old in before - after)

    def remove(self, gone: str) -> tuple[str, ...]:
        """Return the filters that become maximal."""
        before = set(self.maximal())
        del self.filters[gone], self.coverers[gone]
        for others in self.coverers.values():
            others.discard(gone)
        return tuple(one for one in self.maximal() if one not in before)

    def maximal(self) -> list[str]:
        """Return the filters that no other one covers; of equal ones, the first."""
        order = {one: place for place, one in enumerate(self.filters)}
        return [
            one
            for one, others in self.coverers.items()
            if not any(one not in self.coverers[other] or order[other] < order[one] for other in others)
        ]
