"""A public-key infrastructure (X.509) in memory, for tests and demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from maia.credentials import Principal

_Key: TypeAlias = ec.EllipticCurvePublicKey | Ed25519PublicKey
_Said: TypeAlias = tuple[x509.ExtensionType, bool]
"""An extension, and whether it is critical."""


class Authority:
    """An authority that issues certificates; one without `above` signs its own."""

    def __init__(
        self,
        name: str,
        above: Authority | None = None,
        *,
        days: int = 3650,
        says: Sequence[_Said] = (),
        signs_lists: bool = True,
    ) -> None:
        """Make a key, and a certificate of it."""
        self.key, self.name = ec.generate_private_key(ec.SECP256R1()), name
        self.certificate = (above or self).issue(
            self.key.public_key(), name, ca=True, days=days, says=says, signs_lists=signs_lists
        )
        self.pem = x509.load_der_x509_certificate(self.certificate).public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        key: _Key | Principal,
        name: str,
        *,
        ca: bool = False,
        days: int = 365,
        uses: Sequence[x509.ObjectIdentifier] = (),
        says: Sequence[_Said] = (),
        signs_lists: bool = True,
    ) -> bytes:
        """Return a certificate (DER) for a key, from yesterday on; for fewer than no days it has ended."""
        public = Ed25519PublicKey.from_public_bytes(key.key) if isinstance(key, Principal) else key
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name.from_rfc4514_string(name if "=" in name else f"CN={name}"))
            .issuer_name(x509.Name.from_rfc4514_string(self.name if "=" in self.name else f"CN={self.name}"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=max(1, 2 - days)))
            .not_valid_after(now + timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca, None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if ca:
            signs = dict.fromkeys(
                (
                    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
                    "key_agreement", "encipher_only", "decipher_only",
                ),
                False,
            )  # fmt: skip
            usage = x509.KeyUsage(key_cert_sign=True, crl_sign=signs_lists, **signs)
            builder = builder.add_extension(usage, critical=True)
        for extension, is_critical in says:
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)

    def revoke(
        self, *certificates: bytes, days: int = 7, begins: int | None = None, says: Sequence[_Said] = ()
    ) -> bytes:
        """Return a revocation list (PEM) with some certificates on it, dated so many days from now."""
        now = datetime.now(UTC)
        begins = min(-1, days - 2) if begins is None else begins
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(x509.Name.from_rfc4514_string(self.name if "=" in self.name else f"CN={self.name}"))
            .last_update(now + timedelta(days=begins))
            .next_update(now + timedelta(days=days))
        )
        for extension, is_critical in says:
            builder = builder.add_extension(extension, critical=is_critical)
        for one in certificates:
            serial = x509.load_der_x509_certificate(one).serial_number
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
            )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def in_pem(*certificates: bytes) -> bytes:
    """Return certificates (DER) as one file."""
    return b"".join(
        x509.load_der_x509_certificate(one).public_bytes(serialization.Encoding.PEM) for one in certificates
    )
