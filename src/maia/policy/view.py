"""What may one principal see, or write, of one event type, and until when?

Every policy of Maia ends in a View. It is plain data: the broker applies it,
Spark compiles it, PostgreSQL installs it, the auditor reads it. Nothing else
decides what a person may see. `see` and `shape` below are the meaning of a
View; the executors in `maia.views` are fast ways to the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from maia.credentials.authority import ALL_ATTRIBUTES, AttributeSet
from maia.events import AttributeUid, Event, Instant, PresentValue
from maia.predicates.meaning import admits
from maia.predicates.syntax import ALWAYS, Predicate

__all__ = ["View", "Window", "see", "shows"]


@dataclass(frozen=True, slots=True)
class Window:
    """One grant of a View: which events it opens, and which of their attributes it shows.

    `admits` was written by those who own the policy and is asked of the whole
    event, hidden attributes included.
    """

    admits: Predicate
    attributes: AttributeSet


@dataclass(frozen=True, slots=True)
class View:
    """What one principal may see of one event type, and until when.

    Several windows add up: an event is seen if any window admits it, and an
    attribute of it is shown if a window that admits it shows that attribute.
    `interest` was written by the subscriber and is asked only of what that
    subscriber may see. `until` is the last moment at which the View holds;
    null means that every certificate behind it is stated as unbounded.
    """

    windows: tuple[Window, ...]
    interest: Predicate = ALWAYS
    forced: Mapping[AttributeUid, PresentValue] = field(default_factory=dict)
    until: Instant | None = None


def shows(window: Window, uid: AttributeUid) -> bool:
    """Say whether a window shows an attribute."""
    return window.attributes is ALL_ATTRIBUTES or uid in window.attributes


def see(view: View, event: Event) -> dict[AttributeUid, PresentValue] | None:
    """Return `event` as the View shows it, or None where the View shows nothing.

    This is the meaning that every executor agrees with.
    """
    open_windows = [window for window in view.windows if admits(window.admits, event)]
    if not open_windows:
        return None
    seen = {
        uid: value
        for uid, value in event.items()
        if value is not None and any(shows(window, uid) for window in open_windows)
    }
    return seen if admits(view.interest, seen) else None
