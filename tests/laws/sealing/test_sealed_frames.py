"""What holds of every frame that is sealed, opened, cut or tampered with."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from maia.errors import MaiaError
from maia.events import Frame
from maia.sealing import cut_frame, open_frame
from maia.sealing.blocks import all_blocks, blocks_in, row_lengths, rows_of_block
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.columns import encode_column, kind_from_number
from maia.wire.messages import Sealed
from support.sealing import ANOTHER_BROKER, LEVELS, Publishing, content, frames, keys, plates, read, sealer

pytestmark = pytest.mark.laws

levels = st.sampled_from(LEVELS)


@given(frames(), levels)
@example(plates(1), SealingLevel.ATTRIBUTE)
@example(plates(2500), SealingLevel.EVENT)
@example(Frame(600, {}), SealingLevel.EVENT)
@example(Frame(600, {}), SealingLevel.ATTRIBUTE)
def test_what_was_sealed_is_what_a_reader_opens_and_proves(frame, level):
    sealed = decode(encode(Publishing(level=level).seal(frame)))
    assert isinstance(sealed, Sealed)
    proved = read(sealed)
    assert content(proved.opened) == frame
    assert proved.opened.row_numbers == []


@given(frames(), levels, st.data())
def test_a_cut_keeps_exactly_the_blocks_that_hold_a_wanted_row(frame, level, data):
    wanted = data.draw(st.lists(st.integers(0, frame.rows - 1), min_size=1, max_size=3))
    opened = open_frame(Publishing(level=level).seal(frame), keys())
    cut = cut_frame(opened, wanted, sealer=sealer(ANOTHER_BROKER, b"cutter"), keys=keys())
    left = read(decode(encode(cut))).opened
    expected = sorted(
        row
        for block in range(blocks_in(frame.rows))
        if set(rows_of_block(block, frame.rows)) & set(wanted)
        for row in rows_of_block(block, frame.rows)
    )
    assert (left.row_numbers or list(range(frame.rows))) == expected
    assert content(left) == frame.take(expected)


@given(st.integers(512, 3000), levels, st.data())
def test_cutting_twice_is_cutting_once(rows, level, data):
    frame = plates(rows)
    opened = open_frame(Publishing(level=level).seal(frame), keys())
    wanted = data.draw(st.lists(st.integers(0, rows - 1), min_size=2, max_size=6, unique=True))
    cutter = sealer(ANOTHER_BROKER, b"cutter")
    once = read(cut_frame(opened, wanted, sealer=cutter, keys=keys())).opened
    numbers = once.row_numbers or list(range(rows))
    again = cut_frame(once, [numbers.index(wanted[0])], sealer=cutter, keys=keys())
    directly = cut_frame(opened, wanted[:1], sealer=cutter, keys=keys())
    assert read(again).opened.row_numbers == read(directly).opened.row_numbers
    assert content(read(again).opened) == content(read(directly).opened)


@given(levels, st.sampled_from([1, 3, 600]), st.data())
def test_a_frame_with_any_byte_changed_is_refused(level, rows, data):
    frame = plates(rows)
    sealed = Publishing(level=level).seal(frame)
    if data.draw(st.booleans()):
        sealed = cut_frame(open_frame(sealed, keys()), [0], sealer=sealer(seed=b"cutter"), keys=keys())
    honest = encode(sealed)
    at = data.draw(st.integers(1, len(honest) - 1))
    forged = honest[:at] + bytes([honest[at] ^ data.draw(st.integers(1, 255))]) + honest[at + 1 :]
    with pytest.raises(MaiaError):
        _received(forged)


def _received(data: bytes) -> None:
    message = decode(data)
    if not isinstance(message, Sealed):
        raise MaiaError("another message")
    read(message, keys(message.epoch, type_id=message.type_id))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.data())
def test_every_frame_that_was_signed_with_others_is_provable_alone(sizes, data):
    publishing = Publishing()
    drafts = [
        publishing.by.draft([], publishing.about(rows), keys=publishing.keys, level=SealingLevel.ATTRIBUTE)
        for rows in sizes
    ]
    signed = publishing.by.sign(drafts)
    assert len({frame.signature for frame in signed}) == 1
    for frame in signed:
        assert read(frame).signer == publishing.by.principal
    moved = data.draw(st.sampled_from(signed))
    assume(len(signed) > 1)
    place = data.draw(st.integers(0, 255).filter(lambda other: other != moved.place))
    with pytest.raises(MaiaError):
        read(msgspec.structs.replace(moved, place=place))


@given(frames())
def test_the_blocks_of_a_column_are_where_its_rows_are(frame):
    assume(all_blocks(frame.rows))
    for column in frame.columns.values():
        data = encode_column(column.kind, column.values)
        lengths = row_lengths(data, column.kind, column.values, frame.rows)
        written = [
            encode_column(column.kind, [column.values[row] for row in rows_of_block(block, frame.rows)])
            for block in range(blocks_in(frame.rows))
        ]
        headers = [1 if len(rows_of_block(b, frame.rows)) < 16 else 3 for b in range(blocks_in(frame.rows))]
        assert lengths == tuple(len(one) - header for one, header in zip(written, headers, strict=True))
        assert data.endswith(b"".join(one[header:] for one, header in zip(written, headers, strict=True)))


@given(frames(), st.data())
def test_a_reader_of_some_attributes_opens_those_and_proves_the_frame(frame, data):
    held = data.draw(st.sets(st.sampled_from(sorted(frame.columns)))) if frame.columns else set()
    reader = keys(only=held)
    proved = read(Publishing().seal(frame), reader)
    assert content(proved.opened) == frame.only(held)
    assert {kind_from_number(one.kind) for one in proved.opened.columns} == {
        frame.columns[uid].kind for uid in held
    }
