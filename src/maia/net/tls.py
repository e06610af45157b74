"""Who is at the other end of this connection? A key, proved by TLS 1.3, and nothing more.

Every link asks here, and no other module touches `ssl`. A principal is an Ed25519
key; its leaf certificate holds that key and is signed by the *null authority*,
whose secret key is printed below. That signature therefore proves nothing: it
only lets an ordinary TLS library reach the end of the handshake, which proves
that the peer holds the secret half of its leaf's key. What that key may do is
decided later, from Maia's own certificates (docs/decisions/tls.md).

A key has exactly one leaf. Whatever else a peer shows, another algorithm, an
extra extension, other dates, is refused.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from maia.credentials import Principal, SigningKey, principal_from_bytes
from maia.credentials.keys import KEY_BYTES
from maia.errors import BadInput, BrokenCredential, ProtocolViolation

ALPN: Final = "maia/1"
_HTTP: Final = "http/1.1"

# Published on purpose, so that every node can sign with it and its signature proves nothing.
NULL_AUTHORITY_SEED: Final = sha256(b"maia/1 null authority: this key is public and proves nothing").digest()

_AUTHORITY_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Maia null authority")])
# How long a right lasts is said by Maia's certificates. A leaf says nothing about time.
_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)
_UNTIL: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_LEAF_BYTES_MAX: Final = 4096
_ED25519_KEY_FOLLOWS: Final = bytes.fromhex("302a300506032b6570032100")  # RFC 8410
_REMEMBERED_LEAVES: Final = 256


# ------------------------------------------------------------ certificates


@lru_cache(maxsize=1)
def null_authority() -> bytes:
    """Return the certificate that every node trusts, in DER; it is the same everywhere."""
    key = _authority_key()
    usage = _key_usage(signs_certificates=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _begun(subject=_AUTHORITY_NAME, key=key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, None)
    )
    return certificate.public_bytes(Encoding.DER)


@lru_cache(maxsize=_REMEMBERED_LEAVES)
def leaf_of(principal: Principal) -> bytes:
    """Return the one TLS certificate of a principal, in DER. Any node can make it from the key."""
    authority = _authority_key()
    key = Ed25519PublicKey.from_public_bytes(principal.key)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, principal.key.hex())])
    both_sides = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    certificate = (
        _begun(subject=name, key=key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(both_sides, critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority, None)
    )
    return certificate.public_bytes(Encoding.DER)


def principal_of_leaf(leaf: bytes | None) -> Principal:
    """Return whose leaf this is; refuse everything but the one leaf of an acceptable key."""
    if not leaf or len(leaf) > _LEAF_BYTES_MAX:
        raise BrokenCredential("CREDENTIAL-TLS-LEAF", "the peer showed no certificate of a usual size")
    _, found, after = leaf.partition(_ED25519_KEY_FOLLOWS)
    if not found:
        raise BrokenCredential("CREDENTIAL-TLS-LEAF", "the peer's certificate holds no Ed25519 key")
    principal = principal_from_bytes(after[:KEY_BYTES])
    # We fully understand exactly one certificate for each key. It is made again and compared, so that
    # nothing that a stranger wrote is ever parsed here.
    if leaf_of(principal) != leaf:
        raise BrokenCredential(
            "CREDENTIAL-TLS-LEAF", f"the certificate is not the one that `{principal}` has in Maia"
        )
    return principal


def _authority_key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(NULL_AUTHORITY_SEED)


def _begun(*, subject: x509.Name, key: Ed25519PublicKey) -> x509.CertificateBuilder:
    # The serial number follows from the key: RFC 5280 wants it positive and at most twenty bytes long.
    digest = sha256(b"maia/1/tls-serial\x00" + key.public_bytes_raw()).digest()
    serial = int.from_bytes(digest[:19], "big") | 1
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY_NAME)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(_FROM)
        .not_valid_after(_UNTIL)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


# ------------------------------------------------------------ handshakes


def accepting_context(key: SigningKey) -> ssl.SSLContext:
    """Return what a node that listens needs; a peer without a certificate ends in the handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # a resumed session would be one whose key was not proved again
    return _prepared(context, key)


def dialling_context(key: SigningKey) -> ssl.SSLContext:
    """Return what a node that dials needs; who answers is judged by its key, never by a host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    return _prepared(context, key)


def serving_context(key: SigningKey) -> ssl.SSLContext:
    """Return what an HTTP server needs; callers prove themselves by signing each request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    context.set_alpn_protocols([_HTTP])
    _load_key(context, key)
    return context


def foreign_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a gateway needs that clients of other protocols know by an ordinary X.509 certificate.

    A client may show the leaf of its own key, and has then proved that key; whoever shows none has to prove
    itself otherwise.
    """
    context = ordinary_context(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=null_authority())
    return context


def ordinary_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server needs whose clients know it by an ordinary X.509 certificate, and show none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise BadInput(
            "INPUT-TLS-CERTIFICATE", f"`{certificate}` and `{key}` are no certificate and its key: {problem}"
        ) from None
    return context


def key_and_leaf(key: SigningKey) -> tuple[bytes, bytes]:
    """Return a key and its leaf in PEM, for TLS clients that read files."""
    secret = Ed25519PrivateKey.from_private_bytes(key.reveal_seed())
    pem = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem, x509.load_der_x509_certificate(leaf_of(key.principal)).public_bytes(Encoding.PEM)


def pinning_context(principal: Principal) -> ssl.SSLContext:
    """Return what an HTTP client needs that talks to this principal alone.

    The principal's one leaf is the only certificate that is trusted, so the
    handshake itself fails with any other peer, before anything is sent.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # a key is who it is, whatever its host is called
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols([_HTTP])
    context.load_verify_locations(cadata=leaf_of(principal))
    return context


def proved_principal(connection: ssl.SSLObject | ssl.SSLSocket) -> Principal:
    """Return the principal that proved its key in a handshake that has ended."""
    if connection.version() != "TLSv1.3" or connection.selected_alpn_protocol() != ALPN:
        raise ProtocolViolation("PROTOCOL-TRANSPORT", f"the peer does not speak `{ALPN}` over TLS 1.3")
    return principal_of_leaf(connection.getpeercert(binary_form=True))


def _prepared(context: ssl.SSLContext, key: SigningKey) -> ssl.SSLContext:
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols([ALPN])
    context.load_verify_locations(cadata=null_authority())
    _load_key(context, key)
    return context


def _load_key(context: ssl.SSLContext, key: SigningKey) -> None:
    """Hand key and leaf to OpenSSL, which reads files only, through memory that has no name on disk."""
    pem, leaf = key_and_leaf(key)
    memory = os.memfd_create("maia-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(memory), "wb") as file:
            file.write(pem + leaf)
        context.load_cert_chain(f"/proc/self/fd/{memory}")
        os.ftruncate(memory, 0)
    finally:
        os.close(memory)
