"""Laws of blinded ids and of cover frames: what members share, and what no observer can tell apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.events import Column, Frame, Instant, Kind
from maia.sealing import EpochKeys, Publication
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.blinding import (
    IDS_MAX,
    OVERLAP_S,
    BlindedRing,
    Inside,
    blinded_ids,
    envelope,
    fill_bytes,
    publishing_epoch,
    read_envelope,
)
from maia.sealing.keys.key_ring import KeyRing, KeyTerms
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.types.definition import ENVELOPE_UID
from maia.wire.columns import frame_to_columns
from maia.wire.messages import Sealed
from support.sealing import (
    ANOTHER_BROKER,
    BROKER,
    NOON,
    PLACE,
    PLATE,
    PUBLISHER,
    STREAM,
    TYPE_ID,
    content,
    read,
    seal_one,
    sealer,
    secret,
)

_SECOND = 1_000_000
OTHER_TYPE = bytes(reversed(TYPE_ID))


def ring(
    *epochs: int, type_id: bytes = TYPE_ID, apart_s: int = 60, same_secret: bool = False, **terms: int
) -> KeyRing:
    """Return a ring whose epochs begin one after the other, the last of them at noon."""
    held = KeyRing(type_id, KeyTerms(**terms))
    for back, number in enumerate(reversed(epochs)):
        held.learn(number, since=Instant(NOON - back * apart_s * _SECOND))
        made = secret(type_id, "shared") if same_secret else secret(type_id, number)
        held.hold(GroupId(type_id), number, made)
    return held


def later(seconds: float) -> Instant:
    return Instant(NOON + int(seconds * _SECOND))


# ------------------------------------------------------------ ids


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=IDS_MAX, unique=True), st.booleans())
def test_members_agree_on_ids_and_no_two_types_or_epochs_share_one(numbers, same_secret):
    epochs = sorted(numbers)
    mine = blinded_ids(ring(*epochs, same_secret=same_secret))
    yours = blinded_ids(ring(*epochs, same_secret=same_secret))
    others = blinded_ids(ring(*epochs, type_id=OTHER_TYPE, same_secret=same_secret))
    assert mine == yours
    assert list(mine) == epochs
    assert len({TYPE_ID, OTHER_TYPE, *mine.values(), *others.values()}) == 2 + 2 * len(epochs)
    assert {len(one) for one in mine.values()} == {32}


def test_who_is_not_in_the_types_own_group_makes_no_id():
    held = KeyRing(TYPE_ID)
    held.learn(1, since=NOON)
    held.hold(GroupId(TYPE_ID, PLATE), 1, secret("plate"))
    assert blinded_ids(held) == {}
    assert publishing_epoch(held, NOON) is None


def test_a_member_asks_under_a_bounded_number_of_ids():
    assert list(blinded_ids(ring(*range(IDS_MAX + 1)))) == list(range(1, IDS_MAX + 1))


@given(st.integers(0, 10**9))
def test_a_new_id_is_used_once_its_epoch_is_an_overlap_old(after_us):
    held, now = ring(1, 2), Instant(NOON + after_us)
    assert publishing_epoch(held, now) == (2 if after_us >= OVERLAP_S * _SECOND else 1)


def test_who_knows_one_epoch_uses_its_id_at_once():
    assert publishing_epoch(ring(7), NOON) == 7


@given(st.integers(0, 60), st.integers(0, 300))
def test_a_publisher_never_uses_an_id_that_a_reader_has_let_go_of(drift_s, after_s):
    """A reader forgets an epoch's id with its keys, a drift after the epoch ended."""
    now = later(after_s)
    publisher, reader = ring(1, 2, drift_s=drift_s), ring(1, 2, drift_s=drift_s)
    reader.forget_before(now)
    assert publishing_epoch(publisher, now) in blinded_ids(reader)


def test_a_ring_is_seen_through_an_id_with_its_epochs_counted_from_there():
    held = ring(4, 5, 6)
    seen = BlindedRing(held, base=5)
    group = GroupId(seen.type_id)
    assert seen.type_id == blinded_ids(held)[5]
    assert seen.key(group, 0) == held.key(GroupId(TYPE_ID), 5)
    assert seen.key(group, 1) == held.key(GroupId(TYPE_ID), 6)
    assert seen.key(group, -1) is None
    assert seen.epochs == (0, 1)
    assert [seen.knows_epoch(number) for number in (-1, 0, 1, 2)] == [False, True, True, False]
    assert seen.period(1) == held.period(6)
    assert seen.groups(1) == {group}
    assert seen.sealing_epoch(NOON) == 1
    assert BlindedRing(held, base=6).sealing_epoch(Instant(NOON - 1)) is None
    assert seen.opens(1, NOON, NOON)
    assert not seen.opens(-1, NOON, NOON)
    assert seen.secret(group, 0) is None
    assert TYPE_ID.hex()[:12] not in repr(seen)


# ------------------------------------------------------------ envelopes and cover


INSIDES = st.builds(
    Inside,
    st.sampled_from([PUBLISHER, BROKER.principal, ANOTHER_BROKER.principal]),
    st.binary(min_size=16, max_size=16),
    st.integers(0, 2**63 - 1),
    st.integers(-(10**15), 10**15).map(Instant),
)


@given(st.none() | INSIDES, st.integers(1, 50), st.integers(0, 2000))
def test_an_envelope_says_what_was_put_into_it(inside, rows, fill):
    column = envelope(inside, rows=rows, fill=fill)
    assert len(column.values) == rows
    assert read_envelope(column) == inside


@pytest.mark.parametrize(
    "broken",
    [
        None,
        Column(Kind.STRING, ("x" * 100,)),
        Column(Kind.BYTES, (None,)),
        Column(Kind.BYTES, (bytes(64),)),
        Column(Kind.BYTES, (b"\x02" + bytes(64),)),
        Column(Kind.BYTES, (bytes(64) + b"\x01",)),
        Column(Kind.BYTES, (bytes(70) + b"\x01",)),
        Column(Kind.BYTES, (b"\x01" + bytes(48) + b"\xff" * 8 + bytes(8),)),
    ],
)
def test_what_no_sealer_writes_is_no_envelope(broken):
    with raises("SEALING-CONTENT"):
        read_envelope(broken)


def blinded_frame(values: dict | None, *, size: int, sequence: int = 1) -> Sealed | None:
    """Seal one event as a publisher's broker does, or cover; None if it is longer than `size`."""
    event = {} if values is None else {uid: Column(Kind.STRING, (text,)) for uid, text in values.items()}
    inside = None if values is None else Inside(PUBLISHER, STREAM, 7, NOON)
    fill = fill_bytes(frame_to_columns(Frame(1, event)), rows=1, size=size)
    if fill is None:
        return None
    whole = Frame(1, {**event, ENVELOPE_UID: envelope(inside, rows=1, fill=fill)})
    name = blinded_ids(ring(1))[1]
    keys = EpochKeys(name, 0, lambda uid: secret("content"))
    about = Publication(BROKER.principal, b"s" * 16, sequence, NOON, 1)
    return seal_one(sealer(), about, whole, keys, SealingLevel.EVENT)


def shape(frame: Sealed) -> tuple[object, ...]:
    """Return all that a frame shows, without what is random to whoever lacks the keys."""
    columns = [(one.uid, len(one.sealed), len(one.commitment)) for one in frame.columns]
    return (
        (frame.type_id, frame.publisher, frame.signer, frame.stream, frame.sequence, frame.published_at),
        (frame.level, frame.epoch, frame.rows, frame.is_committed, frame.kept),
        (frame.mark, frame.place, frame.path, columns),
    )


TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=200)


@given(st.dictionaries(st.sampled_from([PLATE, PLACE]), TEXTS), st.sampled_from([512, 1024, 2048, 65536]))
def test_cover_and_content_have_one_form_and_size(values, size):
    cover, events = blinded_frame(None, size=size), blinded_frame(values, size=size)
    assert cover is not None
    assert len(cover.columns[0].sealed) == size + 16, "the tag comes on top"
    assert events is None or shape(events) == shape(cover)


def test_a_reader_tells_cover_from_content_by_the_envelope_alone():
    keys = EpochKeys(blinded_ids(ring(1))[1], 0, lambda uid: secret("content"))
    said = []
    for values in (None, {PLATE: "AE05 XYZ"}):
        frame = blinded_frame(values, size=512)
        assert frame is not None
        said.append(content(read(frame, keys)).columns)
    assert [read_envelope(columns[ENVELOPE_UID]) for columns in said] == [
        None,
        Inside(PUBLISHER, STREAM, 7, NOON),
    ]
    assert set(said[0]) == {ENVELOPE_UID}


def test_what_is_longer_than_the_size_is_not_squeezed_in():
    assert blinded_frame({PLATE: "x" * 600}, size=512) is None
