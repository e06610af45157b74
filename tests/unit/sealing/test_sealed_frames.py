"""Sealed frames: who opens what, and what is refused before any key is asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maia.events import Frame
from maia.sealing import BATCH_MAX, EpochKeys, SignatureChecks, read_run, verify
from maia.sealing.frames import proof as frame_proof
from maia.sealing.frames.ciphers import INSTANCES_MAX
from maia.sealing.frames.proof import SIGNATURES_REMEMBERED
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.columns import frame_to_columns
from support.sealing import (
    PLACE,
    PLATE,
    TYPE_ID,
    Publishing,
    keys,
    opened,
    plates,
    secret,
)


def ciphers_of(member):
    """Return what is derived from the keys of a member."""
    return member._ciphers


def remember(checks, signatures):
    checks._remember(signatures)


@pytest.mark.parametrize(
    ("rows", "is_shared", "is_committed"), [(300, False, True), (1, False, False), (1, True, True)]
)
def test_a_single_event_is_committed_to_if_its_plaintext_goes_along_and_a_frame_always(
    rows, is_shared, is_committed
):
    assert Publishing().seal(plates(rows), is_shared=is_shared).is_committed is is_committed


def test_only_some_attributes_may_be_opened():
    found = opened(Publishing().seal(plates(5)), keys(), only=[PLACE])
    assert [one.uid for one in found.columns[0]] == ["place"]


def test_frames_that_are_sealed_together_have_the_same_columns():
    publishing = Publishing()
    columns = [frame_to_columns(plates(1)), frame_to_columns(plates(1).only([PLATE]))]
    with raises("SEALING-BATCH"):
        publishing.by.seal(columns, [publishing.about(1)] * 2, keys=keys(), level=SealingLevel.ATTRIBUTE)


@pytest.mark.parametrize(
    "fields",
    [{"kept": [0]}, {"kept": [1, 0, 2]}, {"kept": [0, 0, 1]}, {"columns": []}, {"is_committed": False}],
)
def test_fields_that_contradict_each_other_are_refused_without_a_key(fields):
    frame = Publishing(level=SealingLevel.EVENT).seal(plates(3))
    with raises("PROTOCOL-SEALED-FRAME"):
        read_run([replace(frame, **fields)])


@pytest.mark.parametrize(("type_id", "epoch"), [(b"short", 1), (TYPE_ID, -1)])
def test_keys_belong_to_a_type_and_an_epoch(type_id, epoch):
    with raises("SEALING-EPOCH-KEYS"):
        EpochKeys(type_id, epoch, lambda _uid: None)


def test_a_key_that_arrives_later_is_used_from_then_on():
    held = {}
    member = EpochKeys(TYPE_ID, 1, held.get)
    frame = Publishing().seal(plates(1))
    assert opened(frame, member).is_closed
    held[PLATE] = secret(TYPE_ID, PLATE, 1)
    assert [one.uid for one in opened(frame, member).columns[0]] == ["plate"]


def test_derived_keys_are_kept_for_so_many_processes_only():
    member = keys()
    for number in range(INSTANCES_MAX + 10):
        member.ciphers((PLATE,), number.to_bytes(16, "big"))
    assert len(ciphers_of(member)) == INSTANCES_MAX
    member.forget()
    assert not ciphers_of(member)


def test_instances_that_a_member_makes_up_fill_no_memory():
    member = keys(only=[])
    for number in range(INSTANCES_MAX + 10):
        assert member.ciphers((PLATE,), number.to_bytes(16, "big")) == [None]
    assert len(ciphers_of(member)) <= INSTANCES_MAX


def test_good_signatures_are_remembered_up_to_a_number():
    checks, publishing = SignatureChecks(), Publishing()
    for number in range(2 * SIGNATURES_REMEMBERED):
        remember(checks, [(b"", b"", b"%d" % number)])
    verify(read_run([publishing.seal(plates(1))]), checks)
    assert SIGNATURES_REMEMBERED // 2 <= len(checks._good | checks._earlier) <= SIGNATURES_REMEMBERED


@pytest.mark.parametrize("others", [0, SIGNATURES_REMEMBERED // 2 - 1])
def test_a_signature_over_two_frames_is_verified_once_also_when_many_others_come_between(others, monkeypatch):
    checks, publishing, asked = SignatureChecks(), Publishing(), []
    monkeypatch.setattr(frame_proof, "verify_signature", lambda *what: asked.append(what))
    drafts = [publishing.draft(Frame(1, {})) for _ in range(2)]
    one, other = publishing.by.sign(drafts)
    verify(read_run([one]), checks)
    for number in range(others):
        remember(checks, [(b"", b"", b"%d" % number)])
    verify(read_run([other]), checks)
    assert len(asked) == 1


@pytest.mark.parametrize("count", [0, BATCH_MAX + 1])
def test_one_signature_covers_a_bounded_number_of_frames(count):
    publishing = Publishing()
    draft = publishing.draft(Frame(1, {}))
    with raises("SEALING-BATCH"):
        publishing.by.sign([draft] * count)
