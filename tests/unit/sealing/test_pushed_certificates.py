"""Certificates on their way to their subject: it alone opens them, and believes only what proves itself."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from maia.canonical import write_canonical
from maia.credentials import Action, NetworkName, SignedCertificate, SigningKey
from maia.errors import MaiaError
from maia.sealing.keys.delivery import SubjectKey, encryption_key_of, seal_to
from maia.sealing.pushed_certificates import event_of, pushed_in
from maia.testing import grant
from maia.types import definition_to_bytes
from maia.types.verified import CERTIFICATES, SUBJECT, certificates_definition, certificates_type_name
from support.numberplate import Net

ISSUER, HOLDER, OTHER = (SigningKey.from_seed(one * 32) for one in (b"i", b"s", b"o"))
NETWORK = NetworkName(ISSUER.principal, "Net")


def right(subject: SigningKey = HOLDER, issuer: SigningKey = ISSUER) -> SignedCertificate:
    return grant(issuer, subject, NETWORK, Action.CONNECT)


def sealed(*certificates: SignedCertificate, subject: SigningKey = HOLDER) -> bytes:
    event = event_of(certificates, issuer=ISSUER.principal, subject=subject.principal, random=os.urandom)
    assert event[SUBJECT.name] == str(subject.principal)
    found = event[CERTIFICATES.name]
    assert isinstance(found, bytes)
    return found


@given(st.binary(min_size=32, max_size=32))
def test_the_key_that_is_sealed_to_is_the_one_that_the_subject_has(seed: bytes) -> None:
    key = SigningKey.from_seed(seed)
    assert encryption_key_of(key.principal) == SubjectKey(key).public


def test_a_known_key_has_the_known_form() -> None:
    """RFC 8032, 7.1, test 1: its secret scalar, and its point on the other form of the curve."""
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    scalar = bytes.fromhex("307c83864f2833cb427a2ef1c00a013cfdff2768d980c0a3a520f006904de94f")
    public = X25519PrivateKey.from_private_bytes(scalar).public_key().public_bytes_raw()
    assert encryption_key_of(SigningKey.from_seed(seed).principal) == public


def test_the_subject_opens_what_its_issuer_pushed_and_no_other_does() -> None:
    data = sealed(right(OTHER), right())
    assert pushed_in(data, issuer=ISSUER.principal, key=HOLDER) == (right(OTHER), right())
    for issuer, key, given_ in (
        (ISSUER, OTHER, data),
        (OTHER, HOLDER, data),
        (ISSUER, HOLDER, data[:-1]),
        (ISSUER, HOLDER, b""),
        (ISSUER, HOLDER, None),
    ):
        with pytest.raises(MaiaError):
            pushed_in(given_, issuer=issuer.principal, key=key)


def test_what_a_broker_on_the_way_makes_up_is_refused() -> None:
    """It can seal to the subject, as each can, and has no signature of the issuer."""
    forged = replace(right(), signature=right(OTHER).signature)
    info = b"maia/1 pushed certificates\x00" + ISSUER.principal.key + HOLDER.principal.key
    junk = [write_canonical(one) for one in ((b"certificates",), (b"others", b"x"), b"x")]
    made_up = [seal_to(encryption_key_of(HOLDER.principal), one, info, os.urandom) for one in junk]
    for data in (sealed(forged), sealed(right(OTHER)), sealed(right(issuer=OTHER)), *made_up):
        with pytest.raises(MaiaError):
            pushed_in(data, issuer=ISSUER.principal, key=HOLDER)


def test_a_subject_gets_what_is_for_it_and_brokers_on_its_way_alone() -> None:
    """A principal that asks for all events of the stream gets its own; other brokers get none of them."""
    net = Net()
    near, third, far = net.three()
    owner = net.client("PITO", near.name)
    definition, name = certificates_definition(owner.key), certificates_type_name(owner.principal)
    handed = {"definitions": [definition_to_bytes(definition)], "event_type": name}
    stream = owner.advertise(**handed)
    billing, camera = net.client("billing office", far.name), net.client("camera at Victoria", far.name)
    asked = [billing.subscribe(**handed), camera.subscribe(**handed)]
    assert [billing.was_accepted(asked[0]), camera.was_accepted(asked[1])] == [True, True]
    kinds = {one.uid: one.kind for one in (SUBJECT, CERTIFICATES)}
    for subject in (billing.principal, camera.principal, OTHER.principal):
        event = {SUBJECT.uid: str(subject), CERTIFICATES.uid: b"sealed"}
        owner.publish(stream, event, kinds=kinds)
    assert [one[SUBJECT.uid] for one in billing.events()] == [str(billing.principal)]
    assert [one[SUBJECT.uid] for one in camera.events()] == [str(camera.principal)]
    carried = b"".join(bytes(column.data) for one in net.frames(to=third) for column in one.columns)
    assert str(OTHER.principal).encode() not in carried
