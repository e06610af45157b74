"""Are keys ever a default, the same twice, or visible where people and programs look?"""

from __future__ import annotations

import copy
import io
import logging
import pickle
import traceback
from hashlib import sha256
from itertools import combinations

import pytest
from msgspec.structs import replace

from maia.errors import MaiaError
from maia.sealing import BadSecret, EpochKeys, Secret
from maia.sealing.groups.key_group import GroupId
from maia.sealing.keys.key_ring import content_key
from maia.testing.refusals import raises
from support.sealing import LEVELS, PLATE, TYPE_ID, Publishing, keys, opened, plates, read, sealer, secret

LOUD = sha256(b"a key that must not be seen").digest()


@pytest.mark.parametrize(
    "default",
    [
        bytes(32),
        b"\xff" * 32,
        b"\x01" * 32,
        b"\x00" * 31 + b"\x01",
        b"deadbeef" * 4,
        b"\x00\x01" * 16,
        b"changeme" * 4,
    ],
)
def test_a_default_key_is_refused(default):
    """A48: keys of zeros, of one byte, or of a short word repeated (CVE-2023-46129)."""
    with pytest.raises(BadSecret) as refused:
        Secret.from_bytes(default)
    assert default.hex() not in str(refused.value)


@pytest.mark.parametrize("length", [0, 1, 16, 31, 33, 64])
def test_a_key_has_one_length(length):
    """A48: a short key is not stretched and a long one not cut."""
    with pytest.raises(BadSecret):
        Secret.from_bytes(LOUD * 2 if length == 64 else LOUD[:length].ljust(length, b"\1"))


def test_a_source_of_chance_that_is_stuck_makes_no_key():
    """A48: what a broken random source gives is refused like any other default."""
    with pytest.raises(BadSecret):
        Secret.fresh(bytes)


def test_no_two_types_attributes_epochs_or_processes_share_a_key():
    """A48: one group secret, used everywhere by mistake, still seals with different keys everywhere."""
    shared = Secret.from_bytes(LOUD)
    found = []
    for type_id in (TYPE_ID, sha256(b"another").digest()):
        for epoch in (1, 2, 11):
            member = EpochKeys(type_id, epoch, lambda _uid: shared)
            for uid in (None, "1", "type", "plate"):
                for process in (b"1" * 16, b"2" * 16):
                    cipher = member.ciphers((uid or "",), process)[0]
                    assert cipher is not None
                    found += [cipher.salt, cipher.encrypt(bytes(12), bytes(32), b"")[:32]]
    assert len(set(found)) == len(found) == 2 * 3 * 4 * 2 * 2


def test_content_keys_differ_for_every_group_and_epoch():
    """A48: the same of the keys from which those grow."""
    shared = Secret.from_bytes(LOUD)
    groups = [GroupId(TYPE_ID), GroupId(TYPE_ID, PLATE), GroupId(sha256(b"another").digest(), PLATE)]
    made = [content_key(shared, group, epoch) for group in groups for epoch in (1, 2)]
    assert all(one != other for one, other in combinations([shared, *made], 2))


def test_derivation_does_not_confuse_where_one_part_ends():
    """A48: ("ab", "c") and ("a", "bc") are different contexts, and so is an empty one."""
    of = Secret.from_bytes(LOUD)
    made = [
        of.derive(b"ab", b"c"),
        of.derive(b"a", b"bc"),
        of.derive(b"abc"),
        of.derive(b"abc", b""),
        of.derive(b"", b"abc"),
    ]
    assert all(one != other for one, other in combinations(made, 2))


@pytest.mark.parametrize("level", LEVELS)
def test_a_frame_is_never_sealed_with_a_key_that_is_missing(level):
    """A48: no default stands in for a key that no peer gave."""
    with raises("SEALING-KEY-MISSING"):
        Publishing(keys=keys(only=[]), level=level).seal(plates(1))


def test_a_forgotten_key_opens_nothing_any_more():
    """A48: derived keys go with the key that they came from."""
    held = {uid: secret(TYPE_ID, uid, 1) for uid in (None, "plate", "place", "seen")}
    member = EpochKeys(TYPE_ID, 1, held.get)
    frame = Publishing(keys=member).seal(plates(1))
    assert [one.uid for one in read(frame, member).columns[0]] == ["plate", "place", "seen"]
    held["plate"].wipe()
    assert [one.uid for one in read(frame, member).columns[0]] == ["place", "seen"]
    with raises("SEALING-SECRET-FORGOTTEN"):
        held["plate"].reveal()
    with raises("SEALING-KEY-MISSING"):
        Publishing(keys=member).seal(plates(1))


# ------------------------------------------------------------ keys keep quiet


def _shown(key: bytes) -> list[str]:
    return [key.hex(), key.hex().upper(), repr(key)[2:-1], str(list(key))[1:-1]]


def _assert_hidden(text: str, *secrets: bytes) -> None:
    for key in secrets:
        for shown in _shown(key):
            assert shown not in text


def test_no_text_of_a_key_shows_it():
    """No repr, str, format, %-format, f-string or log line shows a byte of a key."""
    of = Secret.from_bytes(LOUD)
    member = EpochKeys(TYPE_ID, 1, lambda _uid: of)
    cipher = member.ciphers((PLATE,), b"1" * 16)[0]
    assert cipher is not None
    written = io.StringIO()
    logger = logging.getLogger("quiet")
    logger.addHandler(logging.StreamHandler(written))
    logger.propagate = False
    for thing in (of, member, cipher, sealer(), [of], {"key": of}):
        logger.error("%s %r", thing, thing)
        print(thing, repr(thing), f"{thing}", f"{thing!r}", file=written)
    _assert_hidden(written.getvalue(), LOUD, cipher.salt, of.derive(b"maia/1/sealing-key").reveal())


def test_no_traceback_shows_a_key():
    """A refusal deep inside, printed with every local variable, shows no key."""
    of = Secret.from_bytes(LOUD)
    member = EpochKeys(TYPE_ID, 1, lambda _uid: of)
    frame = Publishing(keys=member).seal(plates(1))
    broken = replace(frame, sequence=99)
    with raises("SEALING-BROKEN") as refused:
        opened(broken, member)
    told = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
    text = "".join(told.format()) + str(refused.value.as_record())
    cipher = member.ciphers((PLATE,), frame.mark.instance)[0]
    assert cipher is not None
    assert "Cipher(…)" in text
    _assert_hidden(text, LOUD, cipher.salt)


def test_no_error_carries_a_key():
    """Every refusal of this package, with its arguments and its cause, is silent about keys."""
    of = Secret.from_bytes(LOUD)
    wiped = Secret.from_bytes(LOUD)
    wiped.wipe()
    member = EpochKeys(TYPE_ID, 1, lambda _uid: of)
    frame = Publishing(keys=member).seal(plates(1))
    tries = [
        wiped.reveal,
        lambda: Secret.from_bytes(LOUD[:31]),
        lambda: read(replace(frame, epoch=2), member),
        lambda: read(replace(frame, signature=bytes(64)), member),
    ]
    for attempt in tries:
        with pytest.raises(MaiaError) as refused:
            attempt()
        _assert_hidden(repr((refused.value.args, refused.value.__dict__)), LOUD, LOUD[:31])


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_keys_are_neither_pickled_nor_copied(copied):
    """A crash dump or a worker process that pickles its state gets a refusal in place of keys."""
    of = Secret.from_bytes(LOUD)
    member = EpochKeys(TYPE_ID, 1, lambda _uid: of)
    for thing in (of, member, member.ciphers((PLATE,), b"1" * 16)[0]):
        with pytest.raises(TypeError) as refused:
            copied(thing)
        _assert_hidden(str(refused.value), LOUD)


def test_no_byte_of_a_key_travels():
    """What is sealed, signed and sent contains neither a key nor a salt."""
    held = {uid: secret(TYPE_ID, uid, 1) for uid in (None, "plate", "place", "seen")}
    member = EpochKeys(TYPE_ID, 1, held.get)
    for level in LEVELS:
        frame = Publishing(keys=member, level=level).seal(plates(300))
        travels = b"".join([*(one.sealed + one.commitment for one in frame.columns), frame.signature])
        for uid, of in held.items():
            cipher = member.ciphers((uid or "",), frame.mark.instance)[0]
            assert cipher is not None
            assert of.reveal() not in travels
            assert cipher.salt not in travels


def test_a_wiped_key_leaves_no_byte_in_its_place():
    """Wiping overwrites what the object held."""
    of = Secret.from_bytes(LOUD)
    inside = of._bytes
    of.wipe()
    assert bytes(inside) == bytes(32)
    assert repr(of) == "Secret(wiped)"
    assert of != Secret.from_bytes(LOUD)
