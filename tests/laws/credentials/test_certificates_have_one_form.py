"""A certificate is read back as it was meant, and no other bytes are ever taken for it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maia.credentials import (
    AuthorisationCertificate,
    BadCertificate,
    BadSignature,
    Certificate,
    Principal,
    SignedCertificate,
    VerificationCache,
    certificate_from_bytes,
    certificate_from_text,
    certificate_to_bytes,
    certificate_to_text,
    issue,
    signed_kind,
    verify_signature,
)
from maia.credentials.encoding.certificates import (
    CERTIFICATE,
    pack,
)
from maia.errors import BrokenCredential
from support.certificates import CERTIFICATES, KEY_OF

pytestmark = pytest.mark.laws


def signed_by_issuer(certificate: Certificate) -> SignedCertificate:
    return issue(certificate, KEY_OF[certificate.issuer])


def read(data: bytes) -> SignedCertificate | None:
    try:
        return certificate_from_bytes(data)
    except BrokenCredential:
        return None


def read_in_full(data: bytes) -> SignedCertificate | None:
    try:
        return CERTIFICATE.read_in_full(data)
    except BrokenCredential:
        return None


@given(CERTIFICATES)
def test_bytes_and_text_are_read_back(certificate):
    """A34: what was signed comes back unchanged, large integers and minus zero included."""
    signed = signed_by_issuer(certificate)
    assert signed.certificate == certificate
    assert certificate_from_bytes(certificate_to_bytes(signed)) == signed
    assert certificate_from_text(certificate_to_text(signed)) == signed
    verify_signature(certificate.issuer, signed_kind(certificate), signed.body, signed.signature)


@given(CERTIFICATES, CERTIFICATES)
def test_a_packed_certificate_is_the_same_in_every_respect(certificate, other):
    """A31: what is decided upon is what was signed, also where it is kept in other pieces and read again."""
    signed, packed = signed_by_issuer(certificate), signed_by_issuer(certificate)
    pack(packed)
    if isinstance(certificate, AuthorisationCertificate) and isinstance(certificate.subject, Principal):
        assert (packed.frame is None) == bool(certificate.validity.tests)
    for part in ("certificate", "body", "signature", "id", "is_as_signed"):
        assert getattr(packed, part) == getattr(signed, part)
    assert (packed, hash(packed)) == (signed, hash(signed))
    # Sets are written in no particular order: the same characters, then, not the same text.
    assert sorted(repr(packed)) == sorted(repr(signed))
    assert deepcopy(packed) == signed
    VerificationCache().check(packed)
    # A copy with another part is not as it was signed, and is not packed: a verifier compares its parts.
    altered = replace(packed, certificate=other)
    pack(altered)
    assert altered.certificate is other
    assert not altered.is_as_signed
    if other != certificate:
        with pytest.raises(BadSignature):
            VerificationCache().check(altered)


@given(CERTIFICATES)
def test_remembered_parts_and_the_full_reader_agree(certificate):
    data = certificate_to_bytes(signed_by_issuer(certificate))
    quick = CERTIFICATE.from_known_parts(data)
    assert quick is None or quick == CERTIFICATE.read_in_full(data)


@given(CERTIFICATES, CERTIFICATES, st.data())
def test_changed_bytes_are_refused_or_mean_exactly_themselves(certificate, other, data):
    """A31, A33: whatever is accepted is the canonical form of what was understood."""
    good, donor = (certificate_to_bytes(signed_by_issuer(each)) for each in (certificate, other))
    start = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(start, min(len(good), start + 40)))
    piece_at = data.draw(st.integers(0, len(donor)))
    piece = data.draw(st.one_of(st.binary(max_size=3), st.just(donor[piece_at : piece_at + 40])))
    changed = good[:start] + piece + good[end:]
    found = read(changed)
    assert found == read_in_full(changed)
    if found is not None:
        assert certificate_to_bytes(found) == changed
        reissued = signed_by_issuer(found.certificate) if found.certificate.issuer in KEY_OF else None
        assert reissued is None or reissued.body == found.body


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_refusal_of_ours(data):
    with pytest.raises(BadCertificate):
        certificate_from_bytes(data)


@given(st.text(max_size=60))
def test_any_text_ends_in_a_refusal_of_ours(text):
    with pytest.raises(BadCertificate):
        certificate_from_text(text)


@given(CERTIFICATES, CERTIFICATES)
def test_different_certificates_have_different_ids(one, other):
    assert (one == other) == (signed_by_issuer(one).id == signed_by_issuer(other).id)
