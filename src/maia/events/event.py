"""What is an event, once it has left its publisher's version behind?

An event in transit is a set of values by attribute uid. It carries no names
and no version (dissertation, section 4.3.2). A missing attribute and a null
one mean the same; `checked_event` leaves nulls out so that equal events are
equal Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from maia.events.attributes import AttributeUid
from maia.events.kinds import Kind
from maia.events.values import BadValue, PresentValue, Value, checked_value

__all__ = ["Event", "Kinds", "UnknownAttribute", "checked_event"]

Event: TypeAlias = Mapping[AttributeUid, Value]

Kinds: TypeAlias = Mapping[AttributeUid, Kind]
"""What is known of the attributes of a stream, a table or a frame: the kind of each uid."""


class UnknownAttribute(BadValue):
    """A value was given for an attribute that is not declared."""

    code = "INPUT-UNKNOWN-ATTRIBUTE"


def checked_event(values: Mapping[AttributeUid, object], kinds: Kinds) -> dict[AttributeUid, PresentValue]:
    """Return the present values of an event, each checked against its declared kind."""
    event: dict[AttributeUid, PresentValue] = {}
    for uid, given in values.items():
        kind = kinds.get(uid)
        if kind is None:
            raise UnknownAttribute(f"attribute `{ascii(uid[:64])[1:-1]}` is not declared")
        try:
            value = checked_value(given, kind)
        except BadValue as problem:
            raise BadValue(f"attribute `{uid}`: {problem.message}") from problem
        if value is not None:
            event[uid] = value
    return event
