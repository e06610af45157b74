"""Which events leave together?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.client import ROWS_PER_FRAME, FrameFiller, UnknownToClient, histories, known_version
from maia.client.batch import FRAME_BYTES, rows_per_frame
from maia.types import Cover, Sealing, SealingLevel, sign_definition
from maia.wire import columns_to_frame
from support.client_session import NOW, STORY
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS


@pytest.fixture
def filler() -> FrameFiller:
    return FrameFiller(known_version([STORY.definition], at=NOW).event_type)


def test_events_come_out_as_they_went_in_and_absent_attributes_take_no_room(filler):
    given = [{NUMBERPLATE: "AE05 XYZ"}, {NUMBERPLATE: "BD51 SMR", LOCATION: "Victoria"}]
    for event in given:
        filler.add(event)
    rows, columns = filler.take()
    assert [column.uid for column in columns] == [NUMBERPLATE, LOCATION]
    assert list(columns_to_frame(columns, rows, NUMBERPLATE_KINDS).events()) == given
    assert filler.rows == 0


def test_a_frame_is_full_by_its_rows_or_by_its_bytes(filler):
    for _ in range(ROWS_PER_FRAME):
        assert not filler.is_full
        filler.add({NUMBERPLATE: "AE05 XYZ"})
    assert filler.is_full
    filler.take()
    assert not filler.is_full
    filler.add({NUMBERPLATE: "A" * (FRAME_BYTES - 1)})
    assert not filler.is_full
    filler.add({NUMBERPLATE: "A"})
    assert filler.is_full


def test_events_of_a_covered_type_leave_one_by_one():
    plain = STORY.definition.definition
    pito = STORY.keys["PITO"]
    sealing = Sealing(SealingLevel.EVENT, pito.principal, blinded=True, cover=Cover(500, 1024))
    covered = sign_definition(replace(plain, sealing=sealing), pito)
    event_type = known_version([covered], at=NOW).event_type
    filler = FrameFiller(event_type)
    filler.add({NUMBERPLATE: "AE05 XYZ"})
    assert filler.is_full
    assert rows_per_frame(event_type) == 1


def test_a_version_is_verified_after_those_it_was_made_from():
    assert histories([STORY.definition]) == [(STORY.definition,)]
    with pytest.raises(UnknownToClient):
        known_version([], at=NOW)
