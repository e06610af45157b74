"""Keys on their way to one member, and at rest: sealed to it, and to no member and nothing else."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import example, given
from hypothesis import strategies as st

from maia.credentials import BadSignature
from maia.errors import ProtocolViolation
from maia.sealing.keys.delivery import (
    BadDelivery,
    BadEncryptionKey,
    EncryptionKey,
    SessionKey,
    check_encryption_key,
    seal_to,
)
from maia.sealing.keys.parcels import unpack
from maia.sealing.keys.secrets import AtRest, Secret
from maia.testing.refusals import raises
from support.key_groups import MANAGER, key_of, random_from

LIBRARY = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


@given(st.binary(max_size=2000), st.binary(max_size=100))
def test_what_we_seal_the_library_opens_and_the_other_way_round(content, info):
    session = SessionKey(os.urandom)
    assert (
        LIBRARY.decrypt(seal_to(session.public, content, info, os.urandom), session._secret, info) == content
    )
    public = X25519PublicKey.from_public_bytes(session.public)
    assert session.open(LIBRARY.encrypt(content, public, info), info) == content


@given(st.integers(0, 79), st.integers(1, 255))
@example(31, 128)
def test_a_parcel_opens_for_one_session_one_purpose_and_as_a_whole(place, change):
    session = SessionKey(random_from(b"session"))
    sealed = bytearray(seal_to(session.public, bytes(32), b"info", random_from(b"chance")))
    assert session.open(bytes(sealed), b"info") == bytes(32)
    for opener, data, info in (
        (SessionKey(random_from(b"another")), bytes(sealed), b"info"),
        (session, bytes(sealed), b"other"),
        (session, bytes(sealed[:-1]), b"info"),
        (session, b"", b"info"),
    ):
        with pytest.raises(BadDelivery):
            opener.open(data, info)
    sealed[place] ^= change
    with pytest.raises(BadDelivery):
        session.open(bytes(sealed), b"info")


@pytest.mark.parametrize("number", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18])
def test_a_key_with_which_no_member_can_keep_a_secret_is_refused(number):
    with pytest.raises(BadEncryptionKey):
        seal_to(number.to_bytes(32, "little"), b"", b"", os.urandom)


def test_an_encryption_key_is_signed_by_its_member_for_one_session_with_one_manager():
    member, session = key_of("member"), SessionKey(random_from(b"session"))
    shown = session.signed(member, manager=MANAGER.principal, session=b"s" * 16)
    good = {"member": member.principal, "manager": MANAGER.principal, "session": b"s" * 16}
    assert check_encryption_key(shown, **good) == session.public
    for wrong in (
        {"member": key_of("mallory").principal},
        {"manager": key_of("mallory").principal},
        {"session": b"t" * 16},
    ):
        with pytest.raises(BadSignature):
            check_encryption_key(shown, **(good | wrong))
    with pytest.raises(BadSignature):
        check_encryption_key(EncryptionKey(bytes(32), shown.signature), **good)


@given(st.binary(max_size=200))
def test_whatever_is_in_a_parcel_ends_in_one_or_in_an_error_of_ours(data):
    with suppress(ProtocolViolation):
        unpack(data)


def test_what_is_kept_opens_under_its_own_name_with_its_own_key():
    key, other = (Secret.fresh(random_from(seed)) for seed in (b"key", b"other"))
    kept = AtRest(key, os.urandom)
    sealed = kept.seal("name", b"secret")
    assert b"secret" not in sealed
    assert AtRest(key, os.urandom).open("name", sealed) == b"secret"
    for opener, name, data in (
        (AtRest(other, os.urandom), "name", sealed),
        (kept, "other", sealed),
        (kept, "name", sealed[:-1]),
        (kept, "name", b""),
    ):
        with raises("CREDENTIAL-KEPT-SECRET"):
            opener.open(name, data)
