"""Which X.509 files does a user name: chains, keys, authorities, revocation lists, proofs?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from maia.config.input_files import BadFile
from maia.credentials import Principal, SigningKey
from maia.credentials.x509_chains import x509_from_file
from maia.credentials.x509_names import (
    VerifiedX509Subject,
    make_x509_proof,
    verify_x509_proof,
    x509_proof_from_text,
    x509_proof_to_text,
)
from maia.events import Instant

_FILE_BYTES_MAX: Final = 1 << 22


def read_authority(path: Path) -> bytes:
    """Return the one certificate (DER) in a file."""
    found = x509_from_file(_contents(path))
    if len(found) != 1:
        raise BadFile(f"`{path}` has {len(found)} certificates: name the file of one authority")
    return found[0]


def verified_proof_file(
    path: Path, authority: Path, revocation_lists: Iterable[Path], *, grantor: Principal, now: Instant
) -> VerifiedX509Subject:
    """Verify the proof in a file, for a grantor, by an authority and its lists."""
    try:
        signed = x509_proof_from_text(_contents(path).decode("utf-8"))
    except UnicodeDecodeError:
        raise BadFile(f"`{path}` is not a text file") from None
    lists = [_contents(one) for one in revocation_lists]
    return verify_x509_proof(
        signed, authority=read_authority(authority), grantor=grantor, now=now, revocation_lists=lists
    )


def make_proof_file(
    chain: Path, x509_key: Path, key: SigningKey, *, grantor: Principal, now: Instant, passphrase: str | None
) -> str:
    """Return the text of a proof, made with the key of the first certificate in a file."""
    try:
        secret = load_pem_private_key(
            _contents(x509_key), None if passphrase is None else passphrase.encode()
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadFile(f"`{x509_key}` is no private key in PEM that this passphrase opens") from None
    if not isinstance(secret, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey):
        raise BadFile(f"`{x509_key}` is a key of a kind that is not used here: RSA, EC and Ed25519 are")
    return x509_proof_to_text(
        make_x509_proof(x509_from_file(_contents(chain)), secret, key, grantor=grantor, at=now)
    )


def _contents(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise BadFile(f"`{path}` cannot be read: {problem.strerror}") from problem
    if len(data) > _FILE_BYTES_MAX:
        raise BadFile(f"`{path}` is larger than the {_FILE_BYTES_MAX} bytes that are read")
    return data
