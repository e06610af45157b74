"""Screening: which part of a notification may the holder of this filter see?

The broker at the edge asks before it delivers. The answer is the largest part
of the notification that the filter strictly covers (Miklós, definition 8), so
an attribute that the filter does not speak of never leaves the broker.
"""
# ruff: noqa: A002 - `filter=` is the word of the papers and of every caller; the builtin is not used here

from __future__ import annotations

from maia.events import AttributeUid, Event, PresentValue
from maia.predicates.constraints import constraints_of
from maia.predicates.meaning import admits
from maia.predicates.syntax import Predicate

__all__ = ["screened"]


def screened(notification: Event, *, filter: Predicate) -> dict[AttributeUid, PresentValue] | None:
    """Return the largest part of `notification` that `filter` strictly covers.

    None means that the filter does not cover the notification: there is
    nothing to deliver. That differs from an empty part, which is what the
    empty filter sees of everything.

    There is never more than one such part. A part that is strictly covered has
    exactly the attributes that the filter speaks of, with their values.
    """
    constraints = constraints_of(filter)
    if not all(admits(one, notification) for asked in constraints.values() for one in asked):
        return None
    return {uid: value for uid, value in notification.items() if value is not None and uid in constraints}
