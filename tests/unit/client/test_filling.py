"""Which events leave together?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from maia.client import ROWS_PER_FRAME, Outbox, histories, known_version
from maia.client.batch import FRAME_BYTES, rows_per_frame
from maia.testing.refusals import raises
from maia.types import Cover, Sealing, SealingLevel, sign_definition
from maia.wire import columns_to_frame
from support.client_session import NOW, STORY
from support.numberplate import LOCATION, NUMBERPLATE, NUMBERPLATE_KINDS


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(known_version([STORY.definition], at=NOW).event_type)


def give(outbox: Outbox, **event: object) -> None:
    outbox.put(outbox.event(event))


def give_run(outbox: Outbox, rows: int, **columns: list[object]) -> None:
    for frame in outbox.frames(rows, columns):
        outbox.put(frame)


def test_events_come_out_as_they_went_in_and_absent_attributes_take_no_room(outbox):
    give(outbox, numberplate="AE05 XYZ")
    give(outbox, numberplate="BD51 SMR", location="Victoria")
    frame = outbox.take()
    assert [column.uid for column in frame.written] == [NUMBERPLATE, LOCATION]
    assert list(columns_to_frame(frame.written, frame.rows, NUMBERPLATE_KINDS).events()) == [
        {NUMBERPLATE: "AE05 XYZ"},
        {NUMBERPLATE: "BD51 SMR", LOCATION: "Victoria"},
    ]
    assert outbox.rows == 0


def test_one_event_given_as_a_run_is_the_event_given_alone(outbox):
    give(outbox, numberplate="AE05 XYZ", location="Victoria")
    give_run(outbox, 2, location=["Victoria"] * 2, numberplate=["AE05 XYZ"] * 2)
    alone, run = outbox.take(), outbox.take()
    assert [next(columns_to_frame(one.written, one.rows).events()) for one in (alone, run)] == [
        {NUMBERPLATE: "AE05 XYZ", LOCATION: "Victoria"}
    ] * 2


def test_a_frame_is_full_by_its_rows_or_by_its_bytes(outbox):
    for _ in range(ROWS_PER_FRAME):
        assert not outbox.is_full
        give(outbox, numberplate="AE05 XYZ")
    assert outbox.is_full
    outbox.take()
    assert not outbox.is_full
    give(outbox, numberplate="A" * (FRAME_BYTES - 1))
    assert not outbox.is_full
    give(outbox, numberplate="A")
    assert outbox.is_full


def test_a_run_is_a_frame_of_its_own_and_long_events_of_it_leave_as_they_fit(outbox):
    give_run(outbox, 2, numberplate=["A", "B"])
    give_run(outbox, 2, numberplate=["C", "D"])
    give_run(outbox, 3, numberplate=["E" * (FRAME_BYTES // 2)] * 3)
    assert [outbox.take().rows for _ in range(4)] == [2, 2, 2, 1]


def test_events_of_a_covered_type_leave_one_by_one():
    plain = STORY.definition.definition
    pito = STORY.keys["PITO"]
    sealing = Sealing(SealingLevel.EVENT, pito.principal, blinded=True, cover=Cover(500, 1024))
    covered = sign_definition(replace(plain, sealing=sealing), pito)
    event_type = known_version([covered], at=NOW).event_type
    outbox = Outbox(event_type)
    give(outbox, numberplate="AE05 XYZ")
    assert outbox.is_full
    assert rows_per_frame(event_type) == 1


def test_a_version_is_verified_after_those_it_was_made_from():
    assert histories([STORY.definition]) == [(STORY.definition,)]
    with raises("INPUT-UNKNOWN-TYPE"):
        known_version([], at=NOW)
