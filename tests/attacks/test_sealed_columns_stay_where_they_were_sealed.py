"""Can a ciphertext be moved, shortened or weakened without being noticed?

The dissertation's associated data never made it into its tags (section 7.5),
so that a ciphertext could be moved to whatever shared its key. Here each
attack is tried on what an intermediate broker holds: bytes, and no key.
"""

from __future__ import annotations

from hashlib import sha256

import pytest
from msgspec.structs import replace

from maia.errors import BrokenCredential, MaiaError
from maia.policy.answers import PART_PREFIX
from maia.sealing import read_run
from maia.sealing.frames.ciphers import description
from maia.sealing.frames.content import plaintexts_of
from maia.testing.refusals import raises
from maia.types import SealingLevel
from maia.wire.codec import decode, encode
from maia.wire.messages import Column, Sealed, SealMark
from support.forging import reseal
from support.sealing import (
    LEVELS,
    PART,
    PLACE,
    PLATE,
    Publishing,
    content,
    keys,
    opened,
    plates,
    read,
    sealer,
    with_part,
)


def _frames(level: SealingLevel = SealingLevel.ATTRIBUTE, rows: int = 3) -> tuple[Sealed, Sealed]:
    publishing = Publishing(level=level)
    return publishing.seal(plates(rows)), publishing.seal(plates(rows))


def test_a_ciphertext_is_refused_under_another_attribute():
    """A46: the plate's ciphertext as the place, and the other way round."""
    frame, _ = _frames()
    plate, place, seen = frame.columns
    moved = [replace(place, uid=PLATE), replace(plate, uid=PLACE), seen]
    with raises("SEALING-BROKEN"):
        opened(replace(frame, columns=moved), keys())


def test_even_attributes_that_share_a_key_by_mistake_do_not_share_ciphertexts():
    """A46: the uid is bound by itself, and not by the key alone."""
    frame, _ = _frames()
    careless = keys()
    held = careless.looked_up(tuple(column.uid for column in frame.columns), frame.mark.instance)
    held.ciphers[1] = held.ciphers[0]
    plate, _place, seen = frame.columns
    with raises("SEALING-BROKEN"):
        opened(replace(frame, columns=[plate, replace(plate, uid=PLACE), seen]), careless)


@pytest.mark.parametrize("level", LEVELS)
def test_a_ciphertext_is_refused_in_another_frame(level):
    """A46: a column of an earlier event in the place of a later one, of the same stream and epoch."""
    earlier, later = _frames(level)
    mixed = replace(later, columns=[earlier.columns[0], *later.columns[1:]])
    with raises("SEALING-BROKEN"):
        opened(mixed, keys())


CHANGES = {
    "type": {"type_id": sha256(b"another type").digest()},
    "publisher": {"publisher": sealer(seed=b"x").principal.key},
    "signer": {"signer": Publishing().about(1).publisher.key},
    "stream": {"stream": b"another stream.."},
    "sequence": {"sequence": 99},
    "moment": {"published_at": 1},
    "epoch": {"epoch": 2},
    "rows": {"rows": 4},
    "row numbers": {"kept": [0, 1, 3]},
    "instance": {"mark": SealMark(b"0" * 16, 1)},
    "counter": {"mark": SealMark(sealer().instance, 9)},
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("changed", CHANGES)
def test_a_frame_is_refused_as_one_of_another(changed, level):
    """A46: type, epoch, publisher, stream, number, moment, rows: each is bound into every seal."""
    frame, _ = _frames(level)
    elsewhere = replace(frame, **CHANGES[changed])
    # A reader with every key there is, who even believes that all types and epochs share one.
    reader = keys()
    reader.type_id, reader.epoch = elsewhere.type_id, elsewhere.epoch
    with pytest.raises(BrokenCredential):
        opened(elsewhere, reader)


@pytest.mark.parametrize("changed", CHANGES)
def test_every_field_is_bound_by_itself_and_not_by_a_key_alone(changed):
    """A46: were two epochs or types to share a key by mistake, their ciphertexts would still differ."""
    frame, _ = _frames()
    assert description(replace(frame, **CHANGES[changed])) != description(frame)


def test_the_level_and_each_row_number_are_bound():
    """A46: a frame with as many rows, numbered otherwise, or of the other level."""
    frame = Publishing().seal(plates(3), [0, 1, 3])
    for other in (replace(frame, kept=[0, 1, 4]), replace(frame, level=1)):
        assert description(other) != description(frame)
    with raises("SEALING-BROKEN"):
        opened(replace(frame, kept=[0, 1, 4]), keys())


def test_a_frame_of_one_level_is_refused_at_the_other():
    """A46: sealed as a whole is not sealed by attribute, whatever the uid says."""
    whole, _ = _frames(SealingLevel.EVENT)
    by_attribute, _ = _frames(SealingLevel.ATTRIBUTE)
    for frame, level in ((whole, 2), (by_attribute, 1)):
        with raises("PROTOCOL-SEALED-FRAME"):
            opened(replace(frame, level=level), keys())
    renamed = replace(whole, level=2, columns=[replace(whole.columns[0], uid=PLATE)])
    with raises("SEALING-BROKEN"):
        opened(renamed, keys())


@pytest.mark.parametrize("level", LEVELS)
def test_every_shorter_ciphertext_is_refused(level):
    """A47: cut at any byte, down to nothing at all."""
    frame, _ = _frames(level, rows=1)
    first, *others = frame.columns
    for length in range(len(first.sealed)):
        shorter = replace(frame, columns=[replace(first, sealed=first.sealed[:length]), *others])
        with raises("SEALING-BROKEN"):
            opened(shorter, keys())


@pytest.mark.parametrize("length", [0, 1, 4, 8, 12, 15])
def test_no_shorter_tag_is_accepted(length):
    """A47: there is one length of tag; a sealer who agrees to less is not understood."""
    frame, _ = _frames(rows=1)
    first, *others = frame.columns
    ciphertext, tag = first.sealed[:-16], first.sealed[-16:]
    for sealed in (ciphertext + tag[:length], ciphertext + tag[:length].ljust(16, b"\0")):
        weaker = replace(frame, columns=[replace(first, sealed=sealed), *others])
        with raises("SEALING-BROKEN"):
            opened(weaker, keys())


def test_an_empty_ciphertext_is_no_message():
    """A47: a column without even a tag is refused before any peer looks for a key."""
    frame, _ = _frames(rows=1)
    empty = replace(frame, columns=[replace(frame.columns[0], sealed=b"")])
    with pytest.raises(MaiaError):
        encode(empty)


@pytest.mark.parametrize("level", LEVELS)
def test_every_byte_counts(level):
    """A46, A47: a frame with any one byte altered on the way is refused by a reader with all keys."""
    honest = encode(_frames(level, rows=1)[0])
    for at in range(len(honest)):
        with pytest.raises(MaiaError):
            _received(honest[:at] + bytes([honest[at] ^ 1]) + honest[at + 1 :])


def _received(data: bytes) -> None:
    message = decode(data)
    if not isinstance(message, Sealed):
        raise MaiaError("another message")
    read(message, keys(message.epoch, type_id=message.type_id))


@pytest.mark.parametrize(
    "plaintext",
    [
        b"",
        b"\0\0\0",
        bytes(64),
        b"\0\0\0\x02\x01\x91" + bytes(57) + b"\1",
        b"\xff\xff\xff\xff" + bytes(60),
        b"\0\0\0\x02\x07\x91".ljust(64, b"\0"),
        b"\0\0\0\x02\x01\x92".ljust(64, b"\0"),
        b"\0\0\0\x02\x01\x91".ljust(128, b"\0"),
        b"\0\0\0\x40\x01\x91".ljust(64, b"\0"),
        b"\0\0\0\x7c\x01\x91".ljust(64, b"\xa0"),  # says that it is longer than it is, and needs no zeros
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_what_a_key_holder_sealed_in_no_known_form_is_refused(plaintext, level):
    """A47: content without length, with other padding, of an unknown kind or of other rows."""
    frame, _ = _frames(level, rows=1)
    first, *others = frame.columns
    forged = reseal(frame, first.uid, plaintext)
    with pytest.raises(BrokenCredential):
        opened(replace(frame, columns=[replace(first, sealed=forged), *others]), keys())


def test_the_forger_of_these_tests_can_seal():
    """A reader with the key seals what a reader opens, so that the refusals above mean something."""
    frame, _ = _frames(rows=1)
    column = Column(PLATE, 1, b"\x91\xa1x")
    (plaintext,) = plaintexts_of([[column]], SealingLevel.ATTRIBUTE)
    forged = replace(frame.columns[0], sealed=reseal(frame, PLATE, plaintext))
    found = opened(replace(frame, columns=[forged, *frame.columns[1:]]), keys())
    assert found.columns[0][0] == column


@pytest.mark.parametrize("uid", ["", "a" * 64, "x" * 300, "é", "Plate", "-plate", "pl ate"])
def test_a_key_holder_cannot_seal_a_column_of_no_attribute(uid):
    """A46: the names inside an event that was sealed as a whole are uids, each once."""
    frame, _ = _frames(SealingLevel.EVENT, rows=1)
    (plaintext,) = plaintexts_of([[Column(uid, 1, b"\x91\xa1x")]], SealingLevel.EVENT)
    forged = replace(frame.columns[0], sealed=reseal(frame, "", plaintext))
    with raises("SEALING-CONTENT"):
        opened(replace(frame, columns=[forged]), keys())


def test_a_key_holder_cannot_seal_an_attribute_twice():
    """A46: one event has one value of an attribute."""
    frame, _ = _frames(SealingLevel.EVENT, rows=1)
    column = Column(PLATE, 1, b"\x91\xa1x")
    (plaintext,) = plaintexts_of([[column, column]], SealingLevel.EVENT)
    forged = replace(frame.columns[0], sealed=reseal(frame, "", plaintext))
    with raises("SEALING-CONTENT"):
        opened(replace(frame, columns=[forged]), keys())


@pytest.mark.parametrize("uid", ["a" * 64, "é", "Plate", "-plate"])
def test_a_column_of_no_attribute_is_refused_without_a_key(uid):
    """A46: nothing but uids names a column on the way."""
    frame, _ = _frames(rows=1)
    with raises("PROTOCOL-SEALED-FRAME"):
        read_run([replace(frame, columns=[replace(frame.columns[0], uid=uid)])])


def test_a_part_opens_with_its_own_key_alone_and_the_event_says_all_of_it():
    """X8: who may see less opens its part; who may see all opens the event, and needs no part."""
    frame = Publishing(level=SealingLevel.EVENT).seal(with_part(plates(4)))
    assert [one.uid for one in frame.columns] == ["", PART]
    less = opened(frame, keys(only=[PART]))
    assert {one.uid for one in less.columns[0]} == {PART, f"{PART}-0", f"{PART}-1"}
    assert less.closed == {""}
    whole = opened(frame, keys())
    assert content(whole) == plates(4)
    assert not whole.closed


@pytest.mark.parametrize("uid", ["plate", f"{PART_PREFIX}{'f' * 32}-0"])
def test_a_part_says_nothing_that_is_said_elsewhere(uid):
    """X8: or who answers one right could show what readers of another, or of the event, take for theirs."""
    frame = Publishing(level=SealingLevel.EVENT).seal(with_part(plates(1)))
    (plaintext,) = plaintexts_of([[Column(uid, 1, b"\x91\xa1x")]], SealingLevel.EVENT)[-1:]
    forged = replace(frame.columns[1], sealed=reseal(frame, PART, plaintext))
    with raises("SEALING-CONTENT"):
        opened(replace(frame, columns=[frame.columns[0], forged]), keys(only=[PART]))


@pytest.mark.parametrize("uids", [[PART], [PART, ""], ["", "plate"], ["", f"{PART}-0"], ["", PART, PART]])
def test_beside_an_event_there_are_parts_alone(uids):
    frame = Publishing(level=SealingLevel.EVENT).seal(with_part(plates(1)))
    with raises("PROTOCOL-SEALED-FRAME"):
        read_run([replace(frame, columns=[replace(frame.columns[0], uid=uid) for uid in uids])])


@pytest.mark.parametrize("rows", [1, 2, 7, 300])
def test_a_part_is_as_long_whatever_it_shows(rows):
    """X8: carriers see no more of a row than that it was published."""
    lengths = [
        [len(one.sealed) for one in Publishing(level=SealingLevel.EVENT).seal(frame).columns]
        for frame in (with_part(plates(rows)), with_part(plates(rows), shown=False))
    ]
    assert lengths[0] == lengths[1]
