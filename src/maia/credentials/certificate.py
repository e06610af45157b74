"""What does a certificate say?

An authorisation certificate passes authority from its issuer to its subject;
a name certificate says whom a local name means. Both are values here; their
bytes, and the signature over exactly those bytes, are in `encoding/certificates.py`.

What may an issuer remark in a certificate, for people?

A comment is signed and decides nothing. It is one printable line, so that it
cannot forge another line in a log or hide text on a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

from maia.canonical import SExpression
from maia.credentials.authority import Authority
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.keys import Principal, Subject
from maia.credentials.validity.period import Validity
from maia.errors import BadInput


class NotTheTransformer(BadInput):
    """A certificate states a transformation in the name of a principal that did not issue it."""

    code = "INPUT-TRANSFORMATION-ISSUER"


@dataclass(frozen=True, slots=True)
class AuthorisationCertificate:
    """`issuer` grants `authority` to `subject`, who may pass it on if `may_delegate`."""

    issuer: Principal
    subject: Subject
    may_delegate: bool
    authority: Authority
    validity: Validity
    comment: str = ""

    def __post_init__(self) -> None:
        """Refuse a transformation under another issuer's secret: only that issuer makes its pseudonyms."""
        for step in self.authority.transformations:
            if step.by != self.issuer:
                raise NotTheTransformer(
                    "a certificate transforms events in the name of its own issuer, and of no other"
                )


@dataclass(frozen=True, slots=True)
class NameCertificate:
    """In `issuer`'s namespace, `name` means `subject` (among others: a name is a group)."""

    issuer: Principal
    name: str
    subject: Subject
    validity: Validity
    comment: str = ""


Certificate: TypeAlias = AuthorisationCertificate | NameCertificate


@dataclass(frozen=True, slots=True)
class SignedCertificate:
    """A certificate, the exact bytes that were signed, and the signature.

    `id` is SHA-256 over the signed bytes and never over the signature, so that
    no second signature of the same text escapes a revocation.
    """

    certificate: Certificate
    body: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    id: bytes
    # True only where `encoding/certificates.py` made `certificate`, `body` and `id` of one another. A copy
    # with a field replaced starts at False, and the verifier compares its parts before it believes them.
    is_as_signed: bool = field(default=False, init=False, repr=False, compare=False)


def as_signed(certificate: Certificate, body: bytes, signature: bytes) -> SignedCertificate:
    """Put together what `certificate` says, its signed bytes and the signature.

    For those who have just read or written `body`, and know that it says this.
    """
    signed = SignedCertificate(certificate, body, signature, sha256(body).digest())
    object.__setattr__(signed, "is_as_signed", True)
    return signed


COMMENT_BYTES_MAX: Final = 1024


def comment_to_expressions(comment: str) -> tuple[SExpression, ...]:
    """Return `(comment TEXT)`, or nothing where there is nothing to say."""
    return ((b"comment", _checked_comment(comment).encode()),) if comment else ()


def comment_from_expressions(fields: Sequence[SExpression]) -> str:
    """Read what follows the last field of a certificate: one comment or nothing."""
    match fields:
        case []:
            return ""
        case [(b"comment", bytes(comment))] if comment:
            try:
                return _checked_comment(comment.decode("utf-8"))
            except UnicodeDecodeError:
                raise BadCertificate("the comment is not UTF-8") from None
    raise BadCertificate("after `valid` a certificate may have one `comment`, and nothing else")


def _checked_comment(comment: str) -> str:
    """Refuse what would garble a log line or a screen; a lone surrogate is unprintable too."""
    if not comment.isprintable():
        raise BadCertificate("a comment must consist of printable characters on one line")
    if len(comment.encode()) > COMMENT_BYTES_MAX:
        raise BadCertificate(f"a comment has at most {COMMENT_BYTES_MAX} bytes")
    return comment
