"""Which bytes is a certificate, and which certificate are these bytes?

    (signed
      (cert (version 1) (issuer KEY) (subject SUBJECT) (propagate)? TAG VALID (comment TEXT)?)
      (signature ed25519 BYTES))

    (signed
      (name-cert (version 1) (issuer KEY) (name TEXT) (subject SUBJECT) VALID (comment TEXT)?)
      (signature ed25519 BYTES))

The words are those of RFC 2693. The order is fixed, and a field that is
missing, repeated, unknown or written in another way is refused: what was
decided upon is exactly what was signed. Reading checks the form only; whether
the issuer signed is asked of `verify_signature` when a chain is built.
"""

from __future__ import annotations

from typing import Final

from maia.canonical import Limits, SExpression, read_advanced, read_canonical, write_advanced, write_canonical
from maia.credentials.certificate import (
    AuthorisationCertificate,
    Certificate,
    NameCertificate,
    SignedCertificate,
    as_signed,
)
from maia.credentials.comments import comment_from_expressions, comment_to_expressions
from maia.credentials.encoding.authority import (
    authority_from_expression,
    authority_to_expression,
    principal_from_expression,
    principal_to_expression,
    subject_from_expression,
    subject_to_expression,
    text_from_atom,
)
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.encoding.fast_reader import certificate_of_known_parts
from maia.credentials.encoding.signed_documents import document_from_expression, document_to_bytes
from maia.credentials.encoding.validity import validity_from_expression, validity_to_expression
from maia.credentials.keys import SignedKind, SigningKey
from maia.credentials.names import checked_label
from maia.errors import BadInput

__all__ = [
    "CERTIFICATE_LIMITS",
    "NotTheIssuer",
    "authority_from_expression",
    "authority_to_expression",
    "certificate_body",
    "certificate_from_bytes",
    "certificate_from_expression",
    "certificate_from_text",
    "certificate_to_bytes",
    "certificate_to_expression",
    "certificate_to_text",
    "issue",
    "read_certificate_in_full",
    "signed_kind",
]

CERTIFICATE_LIMITS: Final = Limits(size_max=1 << 16, depth_max=160, atom_max=1 << 14)

_VERSION: Final = (b"version", b"1")


class NotTheIssuer(BadInput):
    """A certificate was to be signed with a key that is not its issuer's."""

    code = "INPUT-NOT-THE-ISSUER"


def signed_kind(certificate: Certificate) -> SignedKind:
    """Return the kind that a certificate is signed as."""
    if isinstance(certificate, AuthorisationCertificate):
        return SignedKind.CERTIFICATE
    return SignedKind.NAME_CERTIFICATE


def issue(certificate: Certificate, key: SigningKey) -> SignedCertificate:
    """Sign a certificate with its issuer's key; refuse one that could not be read back."""
    if key.principal != certificate.issuer:
        raise NotTheIssuer(
            f"the certificate is issued by `{certificate.issuer}`, and the key is `{key.principal}`"
        )
    try:
        body = write_canonical(_body_to_expression(certificate))
        understood = _body_from_expression(read_canonical(body, CERTIFICATE_LIMITS))
    except BadInput as problem:
        raise BadCertificate(f"the certificate cannot be written: {problem.message}") from problem
    if understood != certificate:
        raise BadCertificate("the certificate would not be read back as it was meant")
    return as_signed(certificate, body, key.sign(signed_kind(certificate), body))


def certificate_body(certificate: Certificate) -> bytes:
    """Return the bytes that a signature of `certificate` is over."""
    return write_canonical(_body_to_expression(certificate))


def certificate_to_bytes(signed: SignedCertificate) -> bytes:
    """Return the bytes in which a signed certificate travels."""
    return document_to_bytes(signed.body, signed.signature)


def certificate_from_bytes(data: bytes) -> SignedCertificate:
    """Read a signed certificate, strictly. Its signature is not verified here."""
    known = certificate_of_known_parts(data)
    if known is not None:
        return known
    return read_certificate_in_full(data)


def read_certificate_in_full(data: bytes) -> SignedCertificate:
    """Do the same without the help of remembered parts: this is the definition."""
    try:
        content, body, signature = document_from_expression(read_canonical(data, CERTIFICATE_LIMITS))
        certificate = _body_from_expression(content)
    except BadInput as problem:
        raise BadCertificate(f"the certificate cannot be read: {problem.message}") from problem
    # Belt and braces: every field was read strictly, so nothing but these bytes can mean this.
    if write_canonical(_body_to_expression(certificate)) != body:
        raise BadCertificate("the certificate is not written in its one canonical form")
    return as_signed(certificate, body, signature)


def certificate_to_expression(signed: SignedCertificate) -> SExpression:
    """Return a signed certificate as an expression, to be embedded in another."""
    return read_canonical(certificate_to_bytes(signed), CERTIFICATE_LIMITS)


def certificate_from_expression(expression: SExpression) -> SignedCertificate:
    """Read a signed certificate that was embedded in another expression."""
    return certificate_from_bytes(write_canonical(expression))


def certificate_to_text(signed: SignedCertificate) -> str:
    """Return a signed certificate as people read it in a file; the signature is over the canonical form."""
    return write_advanced(certificate_to_expression(signed)) + "\n"


def certificate_from_text(text: str) -> SignedCertificate:
    """Read a signed certificate from a file for people, as strictly as from bytes."""
    try:
        expression = read_advanced(text, CERTIFICATE_LIMITS)
    except BadInput as problem:
        raise BadCertificate(f"the certificate cannot be read: {problem.message}") from problem
    return certificate_from_expression(expression)


def _body_to_expression(certificate: Certificate) -> SExpression:
    issuer = (b"issuer", principal_to_expression(certificate.issuer))
    subject = (b"subject", subject_to_expression(certificate.subject))
    validity = validity_to_expression(certificate.validity)
    comment = comment_to_expressions(certificate.comment)
    if isinstance(certificate, NameCertificate):
        name = (b"name", checked_label(certificate.name).encode())
        return (b"name-cert", _VERSION, issuer, name, subject, validity, *comment)
    propagate = ((b"propagate",),) if certificate.may_delegate else ()
    tag = authority_to_expression(certificate.authority)
    return (b"cert", _VERSION, issuer, subject, *propagate, tag, validity, *comment)


def _body_from_expression(expression: SExpression) -> Certificate:
    match expression:
        case (
            b"cert",
            (b"version", b"1"),
            (b"issuer", issuer),
            (b"subject", subject),
            (b"propagate",),
            *rest,
        ):
            return _authorisation(issuer, subject, True, rest)
        case (b"cert", (b"version", b"1"), (b"issuer", issuer), (b"subject", subject), *rest):
            return _authorisation(issuer, subject, False, rest)
        case (
            b"name-cert",
            (b"version", b"1"),
            (b"issuer", issuer),
            (b"name", name),
            (b"subject", subject),
            validity,
            *rest,
        ):
            return NameCertificate(
                principal_from_expression(issuer),
                checked_label(text_from_atom(name)),
                subject_from_expression(subject),
                validity_from_expression(validity),
                comment_from_expressions(rest),
            )
        case (b"cert" | b"name-cert", (b"version", bytes(version)), *_) if version != b"1":
            shown = version[:64].decode("ascii", "backslashreplace")
            raise BadCertificate(f"version `{shown}` of the certificate format is unknown")
    raise BadCertificate("a field of the certificate is missing, unknown, repeated or out of order")


def _authorisation(
    issuer: SExpression, subject: SExpression, may_delegate: bool, rest: list[SExpression]
) -> AuthorisationCertificate:
    match rest:
        case [tag, validity, *comment]:
            return AuthorisationCertificate(
                principal_from_expression(issuer),
                subject_from_expression(subject),
                may_delegate,
                authority_from_expression(tag),
                validity_from_expression(validity),
                comment_from_expressions(comment),
            )
    raise BadCertificate("a certificate must state a `tag` and a `valid`")
