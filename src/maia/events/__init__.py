"""Typed values, events by uid, and frames: what flows through Maia."""

from maia.events.attributes import (
    ATTRIBUTES_MAX,
    Attribute,
    AttributeUid,
    BadAttribute,
    Vocabulary,
    attribute_uid,
    vocabulary_of,
)
from maia.events.event import Event, Kinds, UnknownAttribute, checked_event
from maia.events.frame import ROWS_MAX, BadFrame, Column, Frame, frame_of
from maia.events.kinds import (
    INSTANT_MAX,
    INSTANT_MIN,
    INT_MAX,
    INT_MIN,
    SECOND,
    Instant,
    Kind,
    NotAnInstant,
    just_after,
    seconds_after,
)
from maia.events.values import STRING_BYTES_MAX, BadValue, PresentValue, Value, checked_value, kind_of

__all__ = [
    "ATTRIBUTES_MAX",
    "INSTANT_MAX",
    "INSTANT_MIN",
    "INT_MAX",
    "INT_MIN",
    "ROWS_MAX",
    "SECOND",
    "STRING_BYTES_MAX",
    "Attribute",
    "AttributeUid",
    "BadAttribute",
    "BadFrame",
    "BadValue",
    "Column",
    "Event",
    "Frame",
    "Instant",
    "Kind",
    "Kinds",
    "NotAnInstant",
    "PresentValue",
    "UnknownAttribute",
    "Value",
    "Vocabulary",
    "attribute_uid",
    "checked_event",
    "checked_value",
    "frame_of",
    "just_after",
    "kind_of",
    "seconds_after",
    "vocabulary_of",
]
