"""What does a broker without keys learn from the frames that it carries?

Lengths, presence and the frame's description. The page on limitations says
how much; these tests measure it again, so that the page stays true.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from maia.events import AttributeUid, Column, Frame, Instant, Kind
from maia.sealing import EpochKeys
from maia.types import SealingLevel
from maia.wire.codec import encode
from support.sealing import LEVELS, NOON, TYPE_ID, Publishing, keys, plates, sealer, secret

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "limitations" / "sealed.md").read_text(
    encoding="utf-8"
)
NOTE = AttributeUid("note")
ABOUT = Publishing()


def _sealed_length(*texts: str | None) -> int:
    frame = Frame(len(texts), {NOTE: Column(Kind.STRING, texts)})
    return len(ABOUT.draft(frame).frame.columns[0].sealed)


def test_short_values_of_every_kind_look_alike():
    """A55: a null, a truth value, a number, a moment and every text of up to 56 characters."""
    values = {
        Kind.STRING: [None, "", "x", "x" * 31, "x" * 32, "x" * 56],
        Kind.INT: [0, -(2**63)],
        Kind.FLOAT: [0.0, 1e300],
        Kind.BOOL: [True, False],
        Kind.TIMESTAMP: [NOON, Instant(0)],
        Kind.BYTES: [b"", bytes(50)],
    }
    lengths = set()
    for kind, some in values.items():
        for value in some:
            sealed = Publishing().seal(Frame(1, {NOTE: Column(kind, (value,))}))
            lengths.add(len(sealed.columns[0].sealed))
    assert lengths == {80}
    assert _sealed_length("x" * 57) == 144


@pytest.mark.parametrize("longest", [56, 1000, 10_000])
def test_the_page_says_how_many_lengths_can_be_distinguished(longest):
    """A55: one length in place of 57, sixteen in place of a thousand, and so on."""
    told = len({_sealed_length("x" * length) for length in range(longest + 1)})
    assert f"| a text of 0 to {longest:,} characters | {longest + 1:,} | {told} |" in PAGE


@pytest.mark.parametrize("rows", [16, 256, 1024])
def test_the_page_says_what_padding_costs(rows):
    """A55: the price of the padding, for texts of 30 characters."""
    column = Column(Kind.STRING, tuple(f"{row:030d}" for row in range(rows)))
    sealed = len(Publishing().seal(Frame(rows, {NOTE: column})).columns[0].sealed) - 16
    bare = 31 * rows
    assert f"| {rows} texts of 30 characters | {100 * (sealed - bare) / bare:.1f} % |" in PAGE


def test_the_worst_case_of_padding_is_a_sixteenth():
    """A55: from a kilobyte on, at most 6.25 % more than before, or 64 bytes."""
    for length in range(900, 40_000, 7):
        sealed = _sealed_length("x" * length) - 16
        assert sealed - length <= max(64 + 16, (length + 16) // 16 + 16)
    assert "6.25 %" in PAGE


def test_attribute_level_shows_which_attributes_are_there_and_event_level_does_not():
    """A55: presence; the uid travels in the clear at attribute level."""
    both, one = plates(1), plates(1).only([AttributeUid("plate"), AttributeUid("seen")])
    shown = [{column.uid for column in Publishing().seal(frame).columns} for frame in (both, one)]
    assert shown == [{"plate", "place", "seen"}, {"plate", "seen"}]
    hidden = [encode(Publishing(level=SealingLevel.EVENT).seal(frame)) for frame in (both, one)]
    assert all(b"place" not in data and b"plate" not in data for data in hidden)
    assert "which attributes an event has" in PAGE


def test_a_null_inside_a_column_is_not_seen():
    """A55: whether a row has the attribute is inside the ciphertext."""
    assert _sealed_length("AE05 XYZ", None) == _sealed_length(None, None) == _sealed_length("x", "y")


@pytest.mark.parametrize("level", LEVELS)
def test_equal_events_do_not_look_equal(level):
    """A55: neither ciphertexts nor what is signed about them repeat, within a frame or across frames."""
    publishing = Publishing(level=level)
    same = Frame(2, {uid: Column(Kind.STRING, ("same", "same")) for uid in map(AttributeUid, "ab")})
    frames = [publishing.seal(same) for _ in range(3)]
    seen = [part for frame in frames for one in frame.columns for part in (one.sealed, one.commitment)]
    assert len(set(seen)) == len(seen)
    assert len({frame.signature for frame in frames}) == 3


@pytest.mark.parametrize("rows", [1, 600])
@pytest.mark.parametrize("level", LEVELS)
def test_what_is_signed_cannot_be_guessed_without_the_key(level, rows):
    """A55: the same words, number and process under another key: everything that was said differs."""
    said = []
    for shared in (keys(1), EpochKeys(TYPE_ID, 1, lambda uid: secret("another", uid))):
        frame = Publishing(by=sealer(), keys=shared, level=level).seal(plates(rows))
        said.append({column.commitment for column in frame.columns})
    assert not said[0] & said[1]


def test_a_frame_shows_which_rows_a_neighbour_wanted():
    """A55: the rows that were wanted are numbered in the clear; the page says so."""
    assert Publishing().seal(plates(1024).take([600]), [600]).kept == [600]
    assert "which rows of a frame were wanted" in PAGE


@pytest.mark.parametrize("level", LEVELS)
def test_no_value_travels(level):
    """A55: the bytes of a sealed frame hold no value of any column."""
    data = encode(Publishing(level=level).seal(plates(300)))
    assert not re.search(rb"AE00\d\d\d|Victoria", data)
