"""What does a View that summarises show of many events?

Such a View has one window. It is three Views in one: what is taken from each event (`front`), what many
of these come to in a period (`summary`), and what is shown of the outcome (`behind`, with the subscriber's
interest). The first and the last are ordinary Views, so that every executor adds a group-by between
two things that it has already. `summarised` is the meaning, plain and slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from maia.credentials.authority import ALL_ATTRIBUTES, Transformation
from maia.events import AttributeUid, Event, Instant, PresentValue
from maia.expressions.meaning import NO_KEYS, TransformationKeys
from maia.expressions.summaries import (
    Group,
    GroupKey,
    Summary,
    derived_event,
    group_key,
    period_of,
)
from maia.policy.view import View, Window, see
from maia.predicates.syntax import ALWAYS

__all__ = ["SummarisedView", "is_summarised", "split", "summarised"]


@dataclass(frozen=True, slots=True)
class SummarisedView:
    """A View that summarises, in its three parts."""

    front: View
    summary: Summary
    behind: View


def is_summarised(view: View) -> bool:
    """Say whether a View shows what many events come to, and no single one of them."""
    return any(step.summary is not None for window in view.windows for step in window.transformations)


def split(view: View) -> SummarisedView:
    """Return the three parts of a View that summarises."""
    (window,) = view.windows
    steps = window.transformations
    (at,) = (place for place, step in enumerate(steps) if step.summary is not None)
    step, summary = steps[at], steps[at].summary
    assert summary is not None  # noqa: S101 - it was looked for
    taken = Transformation(step.by, summary.inputs, ALL_ATTRIBUTES, step.restriction, step.result)
    shown = Transformation(step.by, (), step.attributes)
    front = replace(window, transformations=(*steps[:at], taken))
    behind = Window(ALWAYS, ALL_ATTRIBUTES, (shown, *steps[at + 1 :]))
    return SummarisedView(
        replace(view, windows=(front,), interest=ALWAYS), summary, replace(view, windows=(behind,))
    )


def summarised(
    view: View,
    events: Iterable[tuple[Instant, Event]],
    *,
    closed_at: Instant,
    keys: TransformationKeys = NO_KEYS,
) -> list[tuple[Instant, dict[AttributeUid, PresentValue]]]:
    """Return what a View shows of events, each with its moment of publication.

    For each period that is closed at a moment there is an event for each group, with the beginning of
    the period beside it. Their order says nothing.
    """
    parts = split(view)
    groups: dict[tuple[Instant, GroupKey], Group] = {}
    for published_at, event in events:
        start = period_of(parts.summary, published_at)
        taken = see(parts.front, event, keys)
        key = None if taken is None else group_key(parts.summary, taken)
        if taken is not None and key is not None and parts.summary.closes_at(start) <= closed_at:
            groups.setdefault((start, key), Group()).add(parts.summary, taken)
    shown: list[tuple[Instant, dict[AttributeUid, PresentValue]]] = []
    for (start, key), group in groups.items():
        derived = derived_event(parts.summary, start, key, group)
        seen = None if derived is None else see(parts.behind, derived, keys)
        if seen is not None:
            shown.append((start, seen))
    return shown
