"""Which filters does each row of a frame match?

The broker asks once per frame and type, for local classes of subscribers.
"""

from __future__ import annotations

from maia.events import Frame
from maia.predicates import Predicate
from maia.views import Test, to_python_test

__all__ = ["Matches"]


class Matches:
    """Filters by key."""

    __slots__ = ("_tests",)

    def __init__(self) -> None:
        """Begin without filters."""
        self._tests: dict[bytes, Test] = {}

    def add(self, key: bytes, wanted: Predicate) -> None:
        """Add a filter."""
        self._tests[key] = to_python_test(wanted)

    def remove(self, key: bytes) -> None:
        """Take a filter out."""
        del self._tests[key]

    def rows(self, frame: Frame) -> dict[bytes, list[int]]:
        """Return the rows that each filter admits; filters that admit none are left out."""
        events = list(frame.events())
        found = {
            key: [row for row, event in enumerate(events) if test(event)] for key, test in self._tests.items()
        }
        return {key: rows for key, rows in found.items() if rows}
