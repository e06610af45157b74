"""Secrets: held quietly, derived as RFC 5869 says, compared whole."""

from __future__ import annotations

from hashlib import sha256

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from maia.sealing import Secret
from maia.testing.refusals import raises

BYTES = sha256(b"a secret").digest()


def test_derivation_is_hkdf_with_lengths_in_front_of_every_part():
    info = b"\0\0\0\x07purpose" + b"\0\0\0\x01x" + b"\0\0\0\0"
    expected = HKDF(SHA256(), 32, salt=b"maia/1/sealing", info=info).derive(BYTES)
    assert Secret.from_bytes(BYTES).derive(b"purpose", b"x", b"").reveal() == expected


def test_a_secret_is_no_key_of_a_dictionary():
    with pytest.raises(TypeError):
        hash(Secret.from_bytes(BYTES))


def test_a_secret_is_made_in_named_ways_only():
    with pytest.raises(TypeError):
        Secret()


def test_a_fresh_secret_takes_its_bytes_from_the_given_source():
    asked = []

    def random(count: int) -> bytes:
        asked.append(count)
        return BYTES

    assert Secret.fresh(random).reveal() == BYTES
    assert asked == [32]


def test_what_was_derived_outlives_what_it_came_from():
    of = Secret.from_bytes(BYTES)
    made = of.derive(b"purpose")
    of.wipe()
    of.wipe()
    assert made == Secret.from_bytes(BYTES).derive(b"purpose")
    with raises("SEALING-SECRET-FORGOTTEN"):
        of.derive(b"purpose")
