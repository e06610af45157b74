"""Which filters of a type does an event match?

The routing book asks once per publication and type. `Matcher` is all that it
needs to know of an index; `ScanMatcher` asks every filter in turn and is the
meaning that every index agrees with.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Protocol

from maia.events import Event, Frame
from maia.predicates import Predicate, admits

__all__ = ["Matcher", "ScanMatcher"]


class Matcher(Protocol):
    """Filters by key, asked with events."""

    def add(self, key: Hashable, predicate: Predicate) -> None:
        """Keep a filter under a key that is not in use."""

    def remove(self, key: Hashable) -> None:
        """Forget a filter."""

    def match(self, event: Event) -> Collection[Hashable]:
        """Return the keys of the filters that admit the event."""

    def match_frame(self, frame: Frame) -> Mapping[Hashable, Sequence[int]]:
        """Return, for each filter that admits a row, the rows that it admits in their order."""


class ScanMatcher:
    """Every filter in turn: for small tables, and for comparison."""

    __slots__ = ("_filters",)

    def __init__(self) -> None:
        """Begin without filters."""
        self._filters: dict[Hashable, Predicate] = {}

    def add(self, key: Hashable, predicate: Predicate) -> None:
        """Keep a filter under a key that is not in use."""
        self._filters[key] = predicate

    def remove(self, key: Hashable) -> None:
        """Forget a filter."""
        del self._filters[key]

    def match(self, event: Event) -> set[Hashable]:
        """Return the keys of the filters that admit the event."""
        return {key for key, predicate in self._filters.items() if admits(predicate, event)}

    def match_frame(self, frame: Frame) -> dict[Hashable, list[int]]:
        """Return, for each filter that admits a row, the rows that it admits in their order."""
        found: dict[Hashable, list[int]] = {}
        for row, event in enumerate(frame.events()):
            for key in self.match(event):
                found.setdefault(key, []).append(row)
        return found
