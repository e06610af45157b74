"""How is a signed document written?

    (signed BODY (signature ed25519 BYTES))                  the body names its signer
    (signed BODY (signer KEY) (signature ed25519 BYTES))     the body does not

Certificates, statements and appointments have the first form, definitions,
requests and epochs the second. The signature is over the bytes of BODY, behind
the word for its kind (`SignedKind`). Nothing is verified here.
"""

from __future__ import annotations

from typing import NamedTuple

from maia.canonical import SExpression, write_canonical
from maia.credentials.encoding.authority import principal_from_expression
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.keys import SIGNATURE_BYTES, Principal


class SignedDocument(NamedTuple):
    """What a signed document consists of."""

    content: SExpression
    body: bytes
    """The bytes of `content`, which the signature is over."""
    signature: bytes


def document_to_bytes(body: bytes, signature: bytes, signer: Principal | None = None) -> bytes:
    """Return the bytes in which a signed document travels; what was signed is what is sent."""
    if signer is None:
        return b"(6:signed%b(9:signature7:ed2551964:%b))" % (body, signature)
    parts = (body, signer.key, signature)
    return b"(6:signed%b(6:signer(7:ed2551932:%b))(9:signature7:ed2551964:%b))" % parts


def document_from_expression(expression: SExpression) -> SignedDocument:
    """Read the first form."""
    match expression:
        case (b"signed", content, (b"signature", b"ed25519", bytes(signature))):
            return SignedDocument(content, write_canonical(content), _checked(signature))
    raise BadCertificate("a signed document must be written `(signed BODY (signature ed25519 BYTES))`")


def document_with_signer(expression: SExpression) -> tuple[SignedDocument, Principal]:
    """Read the second form."""
    match expression:
        case (b"signed", content, (b"signer", signer), (b"signature", b"ed25519", bytes(signature))):
            principal = principal_from_expression(signer)
            return SignedDocument(content, write_canonical(content), _checked(signature)), principal
    raise BadCertificate(
        "a signed document must be written `(signed BODY (signer KEY) (signature ed25519 BYTES))`"
    )


def _checked(signature: bytes) -> bytes:
    if len(signature) != SIGNATURE_BYTES:
        raise BadCertificate(f"a signature has {SIGNATURE_BYTES} bytes, and {len(signature)} were given")
    return signature
