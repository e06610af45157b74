"""Into transit and out of it: uids only, and the receiver's version decides what arrives."""

import pytest

from maia.events import AttributeUid, BadFrame, Column, Frame, Instant, Kind
from maia.testing.refusals import raises
from maia.types import (
    TransitKindMismatch,
    ValueMismatch,
    frame_from_transit,
    frame_to_transit,
    from_transit,
    to_transit,
    translate,
)
from support.types import PLATE, TIME, attribute, numberplate

SENDER = numberplate(PLATE, TIME)
RECEIVER = numberplate(attribute("plate", PLATE.uid), attribute("colour", "7"), number=1)


def test_transit_has_uids_and_neither_names_nor_a_version():
    assert to_transit({"numberplate": "AE05 XYZ", "timestamp": Instant(1)}, SENDER) == {
        "3265": "AE05 XYZ",
        "9058": Instant(1),
    }


def test_a_publisher_cannot_send_what_its_version_does_not_have():
    with raises("TYPE-UNKNOWN-ATTRIBUTE"):
        to_transit({"plate": "AE05 XYZ"}, SENDER)
    with pytest.raises(ValueMismatch):
        to_transit({"timestamp": 1}, SENDER)


def test_unknown_is_dropped_missing_is_null_and_renamed_is_kept():
    sent = {"numberplate": "AE05 XYZ", "timestamp": Instant(1)}
    assert translate(sent, sender=SENDER, receiver=RECEIVER) == {"plate": "AE05 XYZ", "colour": None}


def test_a_value_of_another_kind_in_transit_is_a_peer_that_did_not_check():
    with pytest.raises(TransitKindMismatch) as refused:
        from_transit({PLATE.uid: 7}, RECEIVER)
    assert refused.value.code == "TYPE-TRANSIT-KIND"


def test_an_unknown_attribute_in_transit_is_dropped_whatever_it_holds():
    assert from_transit({AttributeUid("999"): object()}, RECEIVER) == {"plate": None, "colour": None}


def test_frames_are_translated_by_column():
    frame = frame_to_transit(
        {"numberplate": ["A", None], "timestamp": [Instant(1), Instant(2)]}, SENDER, rows=2
    )
    assert frame.kinds == {PLATE.uid: Kind.STRING, TIME.uid: Kind.TIMESTAMP}
    assert frame_from_transit(frame, RECEIVER) == {
        "plate": Column(Kind.STRING, ("A", None)),
        "colour": Column(Kind.STRING, (None, None)),
    }


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
