"""Fixed bytes: a proof of an X.509 name, and a certificate that was pushed to its subject."""

from __future__ import annotations

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from maia.credentials import SigningKey, certificate_to_bytes, principal_from_text
from maia.credentials.x509_names import (
    make_x509_proof,
    verify_x509_proof,
    x509_proof_from_bytes,
    x509_proof_to_bytes,
    x509_subject,
)
from maia.events import Instant
from maia.sealing.pushed_certificates import pushed_in

VECTORS = json.loads((Path(__file__).parent / "x509" / "subjects.json").read_text())


def test_a_proof_is_read_made_and_verified_as_ever() -> None:
    vector = VECTORS["proof"]
    signed = x509_proof_from_bytes(bytes.fromhex(vector["bytes"]))
    grantor, at = principal_from_text(vector["grantor"]), Instant.parse(vector["at"])
    authority = bytes.fromhex(vector["authority"])
    found = verify_x509_proof(signed, authority=authority, grantor=grantor, now=at)
    assert (found.name, found.local.names) == (vector["name"], (vector["local"],))
    assert found.local == x509_subject(vector["name"], authority, space=grantor)
    secret = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["x509_seed"]))
    key = SigningKey.from_seed(bytes.fromhex(vector["seed"]))
    again = make_x509_proof(signed.proof.certificates, secret, key, grantor=grantor, at=at)
    assert x509_proof_to_bytes(again).hex() == vector["bytes"]


def test_a_pushed_certificate_is_opened_as_ever() -> None:
    vector = VECTORS["pushed"]
    key = SigningKey.from_seed(bytes.fromhex(vector["seed"]))
    issuer = principal_from_text(vector["issuer"])
    (found,) = pushed_in(bytes.fromhex(vector["sealed"]), issuer=issuer, key=key)
    assert certificate_to_bytes(found).hex() == vector["certificate"]
    assert str(key.principal) == vector["subject"]
