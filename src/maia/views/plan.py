"""What does a View come to over the columns that are stored?

The three executors over columns ask before they compile. The plan says which
windows show which column, so that hidden columns are dropped, columns that
every window shows are passed on untouched, and only the rest need a CASE. It
also keeps the compiled form within limits, whatever the View says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from maia.errors import BadInput
from maia.events import AttributeUid, Kind, Kinds
from maia.policy.view import WINDOWS_MAX, View, parts_of, shows
from maia.predicates.syntax import NODES_MAX, Predicate, atoms, checked_size
from maia.views.schema import checked_stored

__all__ = ["EXPANDED_NODES_MAX", "WINDOWS_MAX", "ViewPlan", "ViewTooLarge", "checked_view", "plan"]

EXPANDED_NODES_MAX: Final = 100_000


class ViewTooLarge(BadInput):
    """A View has too many windows, or its predicates are too large together."""

    code = "INPUT-VIEW-SIZE"


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """A View, resolved against what is stored."""

    windows: tuple[Predicate, ...]
    interest: Predicate
    stored: Kinds
    shown_by: dict[AttributeUid, tuple[int, ...]]
    """The windows, by position, that show each stored attribute; hidden ones are left out."""

    @property
    def seen(self) -> dict[AttributeUid, Kind]:
        """Return the kinds of what some window shows: all that the interest may name."""
        return {uid: self.stored[uid] for uid in self.shown_by}

    def is_always_shown(self, uid: AttributeUid) -> bool:
        """Say whether every window shows this attribute, so that an admitted row always has it."""
        return len(self.shown_by[uid]) == len(self.windows)


def plan(view: View, stored: Kinds) -> ViewPlan:
    """Resolve a View against the stored columns, within the limits."""
    checked_view(view)
    checked_stored(stored)
    shown_by = {
        uid: windows
        for uid in stored
        if (windows := tuple(i for i, window in enumerate(view.windows) if shows(window, uid)))
    }
    resolved = ViewPlan(tuple(window.admits for window in view.windows), view.interest, stored, shown_by)
    _check_expansion(resolved)
    return resolved


def checked_view(view: View) -> View:
    """Return `view`, refused if it is too large to compile. Everything recursive runs behind this."""
    if len(view.windows) > WINDOWS_MAX:
        raise ViewTooLarge(f"a view has at most {WINDOWS_MAX} windows, and this one has {len(view.windows)}")
    predicates = [window.admits for window in view.windows] + [view.interest]
    if sum(parts_of(checked_size(predicate)) for predicate in predicates) > NODES_MAX:
        raise ViewTooLarge(f"the predicates of a view have at most {NODES_MAX} parts together")
    return view


def _check_expansion(resolved: ViewPlan) -> None:
    # The planners of Spark and PostgreSQL put the definition of a column wherever it is used, so
    # an attribute that some windows show costs the size of those windows each time.
    sizes = [parts_of(window) for window in resolved.windows]
    cost = {
        uid: sum(sizes[i] for i in windows)
        for uid, windows in resolved.shown_by.items()
        if not resolved.is_always_shown(uid)
    }
    uses = sum(cost.get(atom.uid, 0) for atom in atoms(resolved.interest))
    if uses + sum(cost.values()) > EXPANDED_NODES_MAX:
        raise ViewTooLarge(f"written out by column, the view has more than {EXPANDED_NODES_MAX} parts")
