"""How does an event leave one version of its type and arrive in another?

The publisher's broker translates into transit, where only uids exist: no
names, no version (dissertation, section 4.3.2). The subscriber's broker
translates out of transit into the subscriber's version. Attributes that the
subscriber's version does not have are dropped, those that the publisher did
not send are null, and a renamed attribute arrives under its new name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from maia.errors import ProtocolViolation
from maia.events import (
    Attribute,
    AttributeUid,
    BadFrame,
    Column,
    Event,
    Frame,
    PresentValue,
    Value,
    kind_of,
)
from maia.types.checks import check_event, checked_attribute_value, named_attribute
from maia.types.definition import TypeShape


class TransitKindMismatch(ProtocolViolation):
    """A transit event carries a value of a kind that its uid does not have.

    No two versions give one uid two kinds, so some peer did not check.
    """

    code = "TYPE-TRANSIT-KIND"


def to_transit(values: Mapping[str, object], event_type: TypeShape) -> dict[AttributeUid, PresentValue]:
    """Check a publisher's values against its version and return the transit event."""
    return check_event(values, event_type)


def from_transit(event: Event, event_type: TypeShape) -> dict[str, Value]:
    """Return a transit event as the subscriber's version names it; missing attributes are null."""
    return {attribute.name: _arrived(attribute, event) for attribute in event_type.attributes}


def translate(values: Mapping[str, object], *, sender: TypeShape, receiver: TypeShape) -> dict[str, Value]:
    """Carry a sender's values through transit to the receiver's version."""
    return from_transit(to_transit(values, sender), receiver)


def frame_to_transit(columns: Mapping[str, Sequence[object]], event_type: TypeShape, *, rows: int) -> Frame:
    """Check a publisher's columns and return the transit frame, one column per attribute given."""
    transit: dict[AttributeUid, Column] = {}
    for name, given in columns.items():
        attribute = named_attribute(name, event_type)
        if len(given) != rows:
            raise BadFrame(f"column `{name}` has {len(given)} rows where the frame has {rows}")
        values = tuple(checked_attribute_value(attribute, value) for value in given)
        transit[attribute.uid] = Column(attribute.kind, values)
    return Frame(rows, transit)


def frame_from_transit(frame: Frame, event_type: TypeShape) -> dict[str, Column]:
    """Return a transit frame's columns as the subscriber's version names them."""
    return {attribute.name: _arrived_column(attribute, frame) for attribute in event_type.attributes}


def _arrived(attribute: Attribute, event: Event) -> Value:
    value = event.get(attribute.uid)
    if value is not None and kind_of(value) is not attribute.kind:
        raise TransitKindMismatch(
            f"uid `{attribute.uid}` is of kind {attribute.kind.value}, and {kind_of(value).value} arrived"
        )
    return value


def _arrived_column(attribute: Attribute, frame: Frame) -> Column:
    column = frame.columns.get(attribute.uid)
    if column is None:
        return Column(attribute.kind, (None,) * frame.rows)
    if column.kind is not attribute.kind:
        raise TransitKindMismatch(
            f"uid `{attribute.uid}` is of kind {attribute.kind.value}, and {column.kind.value} arrived"
        )
    return column
