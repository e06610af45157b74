"""Fixed bytes: this year's certificates, which next year's code must still read, write and verify."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from maia.credentials import (
    SigningKey,
    certificate_from_bytes,
    certificate_from_text,
    certificate_to_bytes,
    certificate_to_text,
    issue,
    signed_kind,
    verify_signature,
)

VECTORS = json.loads((Path(__file__).parent / "certificates" / "certificates.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_certificate_is_read_written_and_verified_as_ever(vector):
    data = bytes.fromhex(vector["bytes"])
    signed = certificate_from_bytes(data)
    assert certificate_to_bytes(signed) == data
    assert signed.id.hex() == vector["id"] == sha256(signed.body).hexdigest()
    verify_signature(
        signed.certificate.issuer, signed_kind(signed.certificate), signed.body, signed.signature
    )


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_its_file_for_people_says_the_same(vector):
    signed = certificate_from_text(vector["text"])
    assert certificate_to_bytes(signed).hex() == vector["bytes"]
    assert certificate_to_text(signed) == vector["text"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_issuing_it_again_gives_the_same_bytes(vector):
    signed = certificate_from_bytes(bytes.fromhex(vector["bytes"]))
    key = SigningKey.from_seed(bytes.fromhex(vector["issuer_seed"]))
    assert certificate_to_bytes(issue(signed.certificate, key)).hex() == vector["bytes"]
