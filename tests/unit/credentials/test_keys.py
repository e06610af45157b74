"""A key signs, a principal verifies, and a secret keeps quiet."""

from __future__ import annotations

import copy
import pickle

import pytest

from maia.credentials import (
    BadKey,
    SigningKey,
    principal_from_bytes,
    same_secret,
)

SEED = bytes(range(32))
KEY = SigningKey.from_seed(SEED)


def test_the_first_test_vector_of_rfc_8032_gives_its_public_key():
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    public = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert SigningKey.from_seed(seed).principal.key == public


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_a_key_and_a_seed_have_32_bytes(size):
    with pytest.raises(BadKey):
        principal_from_bytes(b"\x07" * size)
    with pytest.raises(BadKey):
        SigningKey.from_seed(b"\x07" * size)


def test_a_signing_key_never_shows_its_seed():
    shown = f"{KEY!r} {KEY!s} {KEY.principal!r}"
    assert SEED.hex() not in shown
    assert repr(SEED)[2:20] not in shown
    for leak in (lambda: pickle.dumps(KEY), lambda: copy.copy(KEY), lambda: copy.deepcopy(KEY)):
        with pytest.raises(TypeError, match="cannot be pickled"):
            leak()
    assert not hasattr(KEY, "__dict__")


def test_a_refused_seed_is_not_in_the_refusal():
    with pytest.raises(BadKey) as refused:
        SigningKey.from_seed(b"very secret")
    assert "very secret" not in str(refused.value)


def test_secrets_are_compared_by_value():
    assert same_secret(b"abc", bytes(bytearray(b"abc")))
    assert not same_secret(b"abc", b"abd")
    assert not same_secret(b"abc", b"ab")
