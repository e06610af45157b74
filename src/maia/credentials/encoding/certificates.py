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

A certificate is read quickly, and no less strictly, because the certificates of a chain repeat each other:
the same keys, resource, actions and dates. Fields are remembered by their bytes (`canonical/fields.py`).
Where that fails the full reader is asked, which alone decides and explains.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from maia.canonical import Limits, SExpression
from maia.canonical.fields import Part, bare, choice, flag, one, record
from maia.credentials.certificate import (
    PACKED,
    AuthorisationCertificate,
    Certificate,
    CertificateFrame,
    NameCertificate,
    SignedCertificate,
    as_signed,
    signed_kind,
)
from maia.credentials.documents import KEY, LABEL, Document, document_to_bytes, framed
from maia.credentials.encoding.parts import AUTHORITY, SUBJECT, VALIDITY
from maia.credentials.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    BadCertificate,
    SignedKind,
    SigningKey,
)

CERTIFICATE_LIMITS: Final = Limits(size_max=1 << 16, depth_max=160, atom_max=1 << 14)
COMMENT_BYTES_MAX: Final = 1024


def _checked_comment(comment: str) -> str:
    """Refuse what would garble a log line or a screen; a lone surrogate is unprintable too.

    A comment is for people: it is signed and decides nothing.
    """
    if not comment.isprintable():
        raise BadCertificate("a comment must consist of printable characters on one line")
    if len(comment.encode()) > COMMENT_BYTES_MAX:
        raise BadCertificate(f"a comment has at most {COMMENT_BYTES_MAX} bytes")
    return comment


def _read_comment(atom: SExpression) -> str:
    try:
        return _checked_comment(atom.decode("utf-8") if isinstance(atom, bytes) else "\n")
    except UnicodeDecodeError:
        raise BadCertificate("the comment is not UTF-8") from None


_WRONG: Final = (BadCertificate, "a field of the certificate is missing, unknown, repeated or out of order")
_VERSION: Final = "certificate format"
_COMMENT: Final[Part[str]] = Part(lambda comment: _checked_comment(comment).encode(), _read_comment)
_GRANT: Final = record(
    b"cert",
    AuthorisationCertificate,
    _WRONG,
    version_of=_VERSION,
    issuer=one(KEY),
    subject=one(SUBJECT),
    may_delegate=flag(b"propagate"),
    authority=bare(AUTHORITY),
    validity=bare(VALIDITY),
    comment=one(_COMMENT, left_out=""),
)
_NAME: Final = record(
    b"name-cert",
    NameCertificate,
    _WRONG,
    version_of=_VERSION,
    issuer=one(KEY),
    name=one(LABEL),
    subject=one(SUBJECT),
    validity=bare(VALIDITY),
    comment=one(_COMMENT, left_out=""),
)
CERTIFICATE: Final = Document[Certificate, SignedCertificate](
    choice(_WRONG, {AuthorisationCertificate: _GRANT, NameCertificate: _NAME}),
    "certificate",
    BadCertificate,
    CERTIFICATE_LIMITS,
    signed_kind,
    as_signed,
    remembers=True,
)

certificate_body = CERTIFICATE.body
certificate_to_bytes = CERTIFICATE.to_bytes
certificate_to_text = CERTIFICATE.to_text
certificate_from_text = CERTIFICATE.from_text
certificate_to_expression = CERTIFICATE.to_expression
certificate_from_expression = CERTIFICATE.from_expression
certificate_from_bytes = CERTIFICATE.from_bytes
authority_to_expression = AUTHORITY.write
authority_from_expression = AUTHORITY.read


def issue(certificate: Certificate, key: SigningKey) -> SignedCertificate:
    """Sign a certificate with its issuer's key; refuse one that could not be read back."""
    return CERTIFICATE.sign(certificate, key, by=certificate.issuer)


class SignedPart(NamedTuple):
    """What has to be known of a certificate in order to check its signature: nothing of what it says."""

    issuer: bytes
    kind: SignedKind
    body: bytes
    signature: bytes


_HEADS: Final = (
    (b"(4:cert(7:version1:1)(6:issuer(7:ed2551932:", SignedKind.CERTIFICATE),
    (b"(9:name-cert(7:version1:1)(6:issuer(7:ed2551932:", SignedKind.NAME_CERTIFICATE),
)


def signed_part(data: bytes) -> SignedPart:
    """Return who signed a certificate, and what; every certificate begins and ends so. Nothing is read."""
    body, signature = framed(data)
    for head, kind in _HEADS:
        if body.startswith(head) and len(head) + KEY_BYTES < len(body):
            return SignedPart(body[len(head) : len(head) + KEY_BYTES], kind, body, signature)
    raise BadCertificate("these bytes are not framed as a signed certificate")


_SUBJECT: Final = b"(7:subject(7:ed2551932:"
_RECENTLY_READ: Final = 1024
_frames: Final[WeakValueDictionary[tuple[bytes, bytes, bytes], CertificateFrame]] = WeakValueDictionary()


def pack(signed: SignedCertificate) -> None:
    """Keep a certificate in a third of the memory, for one that is held for long and rarely asked.

    Its bytes are kept, less those that it shares with others. What it says is read again when it is asked.
    One that demands tests stays as it is: with each statement of a tester, all that demand it are asked.
    """
    if signed.frame is not None or not signed.is_as_signed or signed.certificate.validity.tests:
        return
    body = signed.body
    subject_at = body.find(_SUBJECT) + len(_SUBJECT)
    subject_end = subject_at + KEY_BYTES
    said_at = body.find(b")", body.find(b"(10:attributes", subject_end)) + 1
    said_end = body.rfind(b"(5:valid")
    if not len(_SUBJECT) < subject_end < said_at <= said_end:
        return
    shared = body[:subject_at], body[subject_end:said_at], body[said_end:]
    frame = _frames.get(shared)
    if frame is None:
        frame = _frames[shared] = CertificateFrame(*shared, _content_of)
    own = body[subject_at:subject_end] + body[said_at:said_end] + signed.signature
    object.__setattr__(signed, "own", own)
    object.__setattr__(signed, "frame", frame)
    for name in PACKED:
        object.__delattr__(signed, name)


@lru_cache(maxsize=_RECENTLY_READ)
def _content_of(body: bytes) -> Certificate:
    return certificate_from_bytes(document_to_bytes(body, bytes(SIGNATURE_BYTES))).certificate
