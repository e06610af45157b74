"""Sealed frames: who opens what, what a cut leaves, and what is refused before any key is asked for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from maia.events import Kind
from maia.sealing import (
    BATCH_MAX,
    BadBatch,
    BadDivision,
    BadSealedFrame,
    BrokenSeal,
    EpochKeys,
    NothingWanted,
    SignatureChecks,
    closed_frame,
    cut_frame,
    open_frame,
    verify_frame,
)
from maia.sealing.frames import proof as frame_proof
from maia.sealing.frames.blocks import division, fine_block_rows, is_division, row_lengths
from maia.sealing.frames.ciphers import INSTANCES_MAX, BadEpochKeys
from maia.sealing.frames.proof import SIGNATURES_REMEMBERED
from maia.types import SealingLevel
from maia.wire.columns import encode_column, frame_to_columns
from support.sealing import (
    BROKER,
    LEVELS,
    PLACE,
    PLATE,
    TYPE_ID,
    Publishing,
    content,
    keys,
    plates,
    read,
    sealer,
    secret,
)


@pytest.mark.parametrize(
    ("rows", "blocks", "rows_each"),
    [(1, 1, 1), (2, 2, 1), (16, 16, 1), (17, 9, 2), (256, 16, 16), (1024, 64, 16), (65_536, 64, 1024)],
)
def test_a_frame_that_may_be_cut_is_divided_finely(rows, blocks, rows_each):
    assert fine_block_rows(rows) == rows_each
    divided = division(rows, rows_each)
    assert len(divided.counts) == blocks
    assert sum(divided.counts) == rows
    assert len(divided.numbers) == (blocks if blocks > 1 else 0)


@pytest.mark.parametrize(("rows", "size"), [(10, 11), (10, 0), (65, 1), (10, -1)])
def test_a_frame_is_not_divided_into_too_many_blocks_or_none(rows, size):
    assert not is_division(rows, size)
    if size:
        with pytest.raises(BadDivision):
            Publishing().seal(plates(rows), block_rows=size)


@pytest.mark.parametrize(("rows", "size"), [(300, 300), (1, 0)])
def test_a_frame_that_no_member_would_cut_is_one_block_and_an_event_is_none(rows, size):
    frame = Publishing().seal(plates(rows), block_rows=0)
    assert frame.block_rows == size
    assert open_frame(frame, keys()).blocks == ()


@pytest.mark.parametrize("level", LEVELS)
def test_a_single_event_is_provable_without_the_others(level):
    opened = open_frame(Publishing(level=level).seal(plates(64), block_rows=1), keys())
    one = cut_frame(opened, [41], sealer=sealer(seed=b"cutter"), keys=keys())
    proved = read(one)
    assert proved.opened.row_numbers == [41]
    assert content(proved.opened) == plates(64).take([41])
    assert all(len(column.path) == 32 * 9 for column in one.columns)


def test_the_billing_office_opens_the_plate_and_not_the_place():
    proved = read(Publishing().seal(plates(5)), keys(only=[PLATE]))
    assert [one.uid for one in proved.opened.columns] == ["plate"]
    assert not proved.opened.is_whole
    assert proved.signer == BROKER.principal


def test_an_event_sealed_as_a_whole_is_opened_as_a_whole():
    frame = Publishing(level=SealingLevel.EVENT).seal(plates(5))
    assert content(read(frame, keys(only=[None])).opened) == plates(5)
    assert read(frame, keys(only=[PLATE])).opened.columns == []


def test_only_some_attributes_may_be_opened():
    opened = open_frame(Publishing().seal(plates(5)), keys(), only=[PLACE])
    assert [one.uid for one in opened.columns] == ["place"]


def test_a_member_without_any_key_still_knows_who_signed():
    proved = verify_frame(closed_frame(Publishing().seal(plates(5))), None, SignatureChecks())
    assert proved.signer == BROKER.principal
    assert proved.opened.columns == []


def test_row_numbers_of_the_publishers_frame_survive_sealing_and_cutting():
    kept = [row * 2 + 1 for row in range(600)]
    opened = read(Publishing().seal(plates(600), kept)).opened
    assert opened.row_numbers == kept
    cut = cut_frame(opened, [599], sealer=sealer(seed=b"cutter"), keys=keys())
    assert read(cut).opened.row_numbers == kept[512:]


@pytest.mark.parametrize("level", LEVELS)
def test_a_frame_that_is_wanted_everywhere_goes_on_as_it_is(level):
    frame = Publishing(level=level).seal(plates(600))
    opened = open_frame(frame, keys())
    assert cut_frame(opened, [0, 300, 599], sealer=sealer(), keys=keys()) is frame


def test_a_frame_that_was_not_opened_entirely_goes_on_as_it_is():
    frame = Publishing().seal(plates(600))
    opened = open_frame(frame, keys(only=[PLATE]))
    assert cut_frame(opened, [0], sealer=sealer(), keys=keys(only=[PLATE])) is frame


def test_a_frame_of_one_block_is_never_cut():
    frame = Publishing().seal(plates(511), block_rows=511)
    assert cut_frame(open_frame(frame, keys()), [0], sealer=sealer(), keys=keys()) is frame


@pytest.mark.parametrize("wanted", [[], [-1], [600]])
def test_a_cut_to_nothing_or_to_rows_that_are_not_there_is_refused(wanted):
    opened = open_frame(Publishing().seal(plates(600)), keys())
    with pytest.raises(NothingWanted):
        cut_frame(opened, wanted, sealer=sealer(), keys=keys())


def test_cutting_takes_no_mark_when_there_is_nothing_to_cut():
    by = sealer()
    opened = open_frame(Publishing().seal(plates(2)), keys())
    cut_frame(opened, [0], sealer=by, keys=keys())
    assert by.next_mark().counter == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"kept": [0]},
        {"kept": [1, 0, 2]},
        {"kept": [0, 0, 1]},
        {"blocks": [0]},
        {"columns": []},
    ],
)
def test_fields_that_contradict_each_other_are_refused_without_a_key(fields):
    frame = Publishing(level=SealingLevel.EVENT).seal(plates(3))
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(frame, **fields))


def test_a_whole_frame_is_sealed_by_its_signer():
    frame = Publishing().seal(plates(3))
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(frame, sealed_by=sealer(seed=b"somebody else").next_mark()))


def test_an_attribute_stands_once():
    frame = Publishing().seal(plates(1))
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(frame, columns=[frame.columns[0], frame.columns[0]]))


def test_nothing_leads_to_the_commitment_of_a_whole_frame():
    frame = Publishing().seal(plates(600))
    longer = replace(frame.columns[0], path=bytes(32))
    with pytest.raises(BadSealedFrame):
        closed_frame(replace(frame, columns=[longer, *frame.columns[1:]]))


def test_keys_of_another_type_or_epoch_open_nothing():
    frame = Publishing().seal(plates(1))
    for other in (keys(2), keys(type_id=bytes(32))):
        with pytest.raises(BrokenSeal):
            open_frame(frame, other)


@pytest.mark.parametrize(("type_id", "epoch"), [(b"short", 1), (TYPE_ID, -1)])
def test_keys_belong_to_a_type_and_an_epoch(type_id, epoch):
    with pytest.raises(BadEpochKeys):
        EpochKeys(type_id, epoch, lambda _uid: None)


def test_a_key_that_arrives_later_is_used_from_then_on():
    held = {}
    member = EpochKeys(TYPE_ID, 1, held.get)
    frame = Publishing().seal(plates(1))
    assert open_frame(frame, member).columns == []
    held[PLATE] = secret(TYPE_ID, PLATE, 1)
    assert [one.uid for one in open_frame(frame, member).columns] == ["plate"]


def test_derived_keys_are_kept_for_so_many_processes_only():
    member = keys()
    for number in range(INSTANCES_MAX + 10):
        member.cipher(PLATE, number.to_bytes(16, "big"))
    assert len(member._ciphers) == INSTANCES_MAX
    member.forget()
    assert not member._ciphers


def test_instances_that_a_member_makes_up_fill_no_memory():
    member = keys(only=[])
    for number in range(INSTANCES_MAX + 10):
        assert member.cipher(PLATE, number.to_bytes(16, "big")) is None
    assert len(member._ciphers) <= INSTANCES_MAX


def test_good_signatures_are_remembered_up_to_a_number():
    checks, publishing = SignatureChecks(), Publishing()
    for number in range(2 * SIGNATURES_REMEMBERED):
        checks._remember([(b"", b"", b"%d" % number)])
    verify_frame(closed_frame(publishing.seal(plates(1))), None, checks)
    assert SIGNATURES_REMEMBERED // 2 <= len(checks._good | checks._earlier) <= SIGNATURES_REMEMBERED


@pytest.mark.parametrize("others", [0, SIGNATURES_REMEMBERED // 2 - 1])
def test_a_signature_over_two_frames_is_verified_once_also_when_many_others_come_between(others, monkeypatch):
    checks, publishing, asked = SignatureChecks(), Publishing(), []
    monkeypatch.setattr(frame_proof, "verify_signature", lambda *what: asked.append(what))
    drafts = [
        publishing.by.draft([], publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE)
        for _ in range(2)
    ]
    one, other = publishing.by.sign(drafts)
    verify_frame(closed_frame(one), None, checks)
    for number in range(others):
        checks._remember([(b"", b"", b"%d" % number)])
    verify_frame(closed_frame(other), None, checks)
    assert len(asked) == 1


@pytest.mark.parametrize("count", [0, BATCH_MAX + 1])
def test_one_signature_covers_a_bounded_number_of_frames(count):
    publishing = Publishing()
    draft = publishing.by.draft([], publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE)
    with pytest.raises(BadBatch):
        publishing.by.sign([draft] * count)


def test_as_many_frames_as_a_signature_may_cover_are_provable():
    publishing = Publishing()
    drafts = [
        publishing.by.draft([], publishing.about(1), keys=keys(), level=SealingLevel.ATTRIBUTE)
        for _ in range(BATCH_MAX)
    ]
    signed = publishing.by.sign(drafts)
    assert {len(frame.path) for frame in signed} == {8}
    assert all(read(frame).signer == BROKER.principal for frame in signed[::17])


def test_values_need_not_be_known_to_seal_columns():
    frame, publishing = plates(600), Publishing()
    sealed = publishing.by.seal(
        frame_to_columns(frame), publishing.about(600), keys=keys(), level=SealingLevel.ATTRIBUTE
    )
    assert content(read(sealed).opened) == frame


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        # On average each takes as much as the first one does, and the first block takes more.
        (Kind.STRING, ("aa", *("aaa", "a") * 255, "aa")),
        # At equal distances stands what begins a value each time, and is a part of one every other time.
        (Kind.BYTES, (b"x", *(b"\x00\xc4", b"") * 255, b"x")),
        (Kind.STRING, ("same", "size") * 256),
        (Kind.BOOL, (True, None) * 256),
    ],
)
def test_blocks_end_where_rows_do_whatever_the_bytes_look_like(kind, values):
    data = encode_column(kind, values)
    halves = [encode_column(kind, values[:256]), encode_column(kind, values[256:])]
    assert row_lengths(data, kind, values, division(512, 256)) == tuple(len(half) - 3 for half in halves)
