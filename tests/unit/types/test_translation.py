"""Into transit and out of it: uids only, and the receiver's version decides what arrives."""

import pytest

from maia.events import BadFrame, Column, Frame, Instant, Kind
from maia.testing.refusals import raises
from maia.types import (
    TransitKindMismatch,
    ValueMismatch,
    frame_from_transit,
    frame_to_transit,
    from_transit,
)
from support.types import PLATE, TIME, attribute, numberplate

SENDER = numberplate(PLATE, TIME)
RECEIVER = numberplate(attribute("plate", PLATE.uid), attribute("colour", "7"), number=1)


def test_a_value_of_another_kind_in_transit_is_a_peer_that_did_not_check():
    with pytest.raises(TransitKindMismatch) as refused:
        from_transit({PLATE.uid: 7}, RECEIVER)
    assert refused.value.code == "TYPE-TRANSIT-KIND"


def test_a_frame_with_a_column_of_the_wrong_kind_length_or_name_is_refused():
    with pytest.raises(ValueMismatch):
        frame_to_transit({"timestamp": [Instant(1), 2]}, SENDER, rows=2)
    with pytest.raises(BadFrame):
        frame_to_transit({"timestamp": [Instant(1)]}, SENDER, rows=2)
    with raises("TYPE-UNKNOWN-ATTRIBUTE"):
        frame_to_transit({"time": [Instant(1)]}, SENDER, rows=1)


def test_a_transit_column_of_another_kind_is_refused():
    with pytest.raises(TransitKindMismatch):
        frame_from_transit(Frame(1, {PLATE.uid: Column(Kind.INT, (1,))}), RECEIVER)
