"""TLS certificates that are not the one leaf of a key, and contexts that show them."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from maia.net.tls import ALPN, NULL_AUTHORITY_SEED, null_authority

_AUTHORITY = ed25519.Ed25519PrivateKey.from_private_bytes(NULL_AUTHORITY_SEED)
_ISSUER = x509.load_der_x509_certificate(null_authority()).subject
_LONG_AGO, _FAR_OFF = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


def keys() -> dict[str, Any]:
    """Return one key of each algorithm that TLS knows, by its name."""
    return {
        "rsa": rsa.generate_private_key(65537, 2048),
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "ed448": ed448.Ed448PrivateKey.generate(),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
    }


def leaf(
    key: Any,  # Any: a secret key of whatever algorithm
    *,
    until: datetime = _FAR_OFF,
    extra: bool = False,
    is_authority: bool = False,
    signed_by_itself: bool = False,
) -> x509.Certificate:
    """Return a certificate for `key` that differs from the one leaf in what the arguments say."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "odd")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if signed_by_itself else _ISSUER)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(_LONG_AGO)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                key.public_key() if signed_by_itself else _AUTHORITY.public_key()
            ),
            critical=False,
        )
    )
    if extra:
        builder = builder.add_extension(
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4.5"), b"\x05\x00"), critical=False
        )
    if signed_by_itself:
        plain = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
        return builder.sign(key, None if plain else hashes.SHA256())
    return builder.sign(_AUTHORITY, None)


def expired() -> datetime:
    """Return a moment that has passed."""
    return datetime.now(UTC) - timedelta(days=1)


def context_showing(
    key: Any | None, certificate: x509.Certificate | None, *, alpn: str | None = ALPN
) -> ssl.SSLContext:
    """Return a client's context that shows this certificate, or none, and believes everybody."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    if key is not None and certificate is not None:
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        memory = os.memfd_create("test")
        try:
            os.write(memory, pem + certificate.public_bytes(Encoding.PEM))
            context.load_cert_chain(f"/proc/self/fd/{memory}")
        finally:
            os.close(memory)
    return context
