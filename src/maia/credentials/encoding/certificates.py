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

How is a certificate read quickly, without being read any less strictly?

The certificates of a chain repeat each other: the same keys, resource,
actions and dates. Each such part is read and checked once, and remembered by
its bytes. A certificate is cut where its parts seem to begin. The cut is a
guess and needs no proof: every piece must be, by itself, exactly one part in
its one canonical form, and canonical expressions set side by side can be read
in one way only. Where the guess fails the answer is None, and the caller asks
the full reader, which alone decides and explains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from maia.canonical import Limits, SExpression, read_advanced, read_canonical, write_advanced, write_canonical
from maia.credentials.authority import Action, AttributeSet, Authority, ResourcePattern
from maia.credentials.certificate import (
    PACKED,
    AuthorisationCertificate,
    Certificate,
    CertificateFrame,
    NameCertificate,
    SignedCertificate,
    Validity,
    as_signed,
    signed_kind,
)
from maia.credentials.encoding.parts import (
    Terms,
    actions_from_expression,
    actions_to_expression,
    attributes_from_expression,
    attributes_to_expression,
    authority_from_expression,
    authority_to_expression,
    checked_sense,
    resource_from_expression,
    resource_to_expression,
    subject_from_expression,
    subject_to_expression,
    terms_from_expressions,
    terms_to_expressions,
    validity_from_expression,
    validity_to_expression,
)
from maia.credentials.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    BadCertificate,
    Principal,
    SignedKind,
    SigningKey,
    Subject,
    document_from_expression,
    document_to_bytes,
    principal_from_bytes,
    principal_from_expression,
    principal_to_expression,
)
from maia.credentials.names import checked_label, text_from_atom
from maia.errors import BadInput, BrokenCredential

# Together these bound the memory: some thousands of pieces, of some thousands of bytes each.
_SIZE_MAX: Final = 4096
_REMEMBERED: Final = 1024

_SIGNED: Final = b"(6:signed"
_CERT: Final = b"(6:signed(4:cert(7:version1:1)(6:issuer(7:ed2551932:"
_NAME_CERT: Final = b"(6:signed(9:name-cert(7:version1:1)(6:issuer(7:ed2551932:"
_HEADS: Final = ((_CERT, SignedKind.CERTIFICATE), (_NAME_CERT, SignedKind.NAME_CERTIFICATE))
_TAG: Final = b"(3:tag"
_PROPAGATE: Final = b"(9:propagate)"
_SIGNATURE: Final = b")(9:signature7:ed2551964:"
_SIGNATURE_END: Final = b"))"
_AFTER_BODY: Final = len(_SIGNATURE) - 1 + SIGNATURE_BYTES + len(_SIGNATURE_END)

# There is one star in it, so a text that does not match is found out in one pass back from the end.
_USUAL: Final = re.compile(
    rb"\(6:signed"
    rb"(\(4:cert\(7:version1:1\)"
    rb"\(6:issuer\(7:ed2551932:(.{32})\)\)"
    rb"\(7:subject\(7:ed2551932:(.{32})\)\)"
    rb"(\(9:propagate\))?"
    rb"(\(3:tag.*\))"
    rb"(\(5:valid\(10:not-before(?:19:.{19}|9:unbounded)\)\(9:not-after(?:19:.{19}|9:unbounded)\)\))\))"
    rb"\(9:signature7:ed2551964:(.{64})\)\)",
    re.DOTALL,
)

_Part = TypeVar("_Part")


class SignedPart(NamedTuple):
    """What has to be known of a certificate in order to check its signature: nothing of what it says."""

    issuer: bytes
    kind: SignedKind
    body: bytes
    signature: bytes


def signed_part(data: bytes) -> SignedPart:
    """Return who signed a certificate, and what; every certificate begins and ends so. Nothing is read."""
    body_end = len(data) - _AFTER_BODY
    if data.startswith(_SIGNATURE, body_end - 1) and data.endswith(_SIGNATURE_END):
        for head, kind in _HEADS:
            if data.startswith(head) and len(head) + KEY_BYTES < body_end:
                issuer = data[len(head) : len(head) + KEY_BYTES]
                signature = data[body_end + len(_SIGNATURE) - 1 : -len(_SIGNATURE_END)]
                return SignedPart(issuer, kind, data[len(_SIGNED) : body_end], signature)
    raise BadCertificate("these bytes are not framed as a signed certificate")


def certificate_of_known_parts(data: bytes) -> SignedCertificate | None:
    """Return the certificate that `data` is, or None to leave it to the full reader."""
    if len(data) > _SIZE_MAX:
        return None
    try:
        usual = _USUAL.fullmatch(data)
        return _unusual(data) if usual is None else _from_groups(usual)
    except (BadInput, BrokenCredential):
        return None


def _from_groups(usual: re.Match[bytes]) -> SignedCertificate:
    """Read a grant from key to key without a comment, which most certificates are."""
    body, issuer, subject, propagate, tag, ending, signature = usual.groups()
    certificate = AuthorisationCertificate(
        principal_from_bytes(issuer),
        principal_from_bytes(subject),
        propagate is not None,
        _authority(tag),
        *_ending(ending),
    )
    return as_signed(certificate, body, signature)


def _unusual(data: bytes) -> SignedCertificate | None:
    """Cut a certificate with a name, a threshold or a comment in it."""
    body_end = len(data) - _AFTER_BODY
    framed = data.startswith(_SIGNATURE, body_end - 1) and data.endswith(_SIGNATURE_END)
    certificate = _certificate(data, body_end - 1) if framed else None
    if certificate is None:
        return None
    body = data[len(_SIGNED) : body_end]
    signature = data[body_end + len(_SIGNATURE) - 1 : -len(_SIGNATURE_END)]
    return as_signed(certificate, body, signature)


def _certificate(data: bytes, end: int) -> Certificate | None:
    """Cut the fields between the head and `end`, where the body's last bracket closes."""
    valid_at = data.rfind(b"(5:valid", 0, end)
    if data.startswith(_CERT):
        issuer, at = _issuer(data, len(_CERT))
        tag_at = data.find(_TAG, at)
        if not at < tag_at < valid_at:
            return None
        may_delegate = data.endswith(_PROPAGATE, at, tag_at)
        subject = _subject(data[at : tag_at - len(_PROPAGATE) if may_delegate else tag_at])
        authority = _authority(data[tag_at:valid_at])
        validity, comment = _ending(data[valid_at:end])
        return AuthorisationCertificate(issuer, subject, may_delegate, authority, validity, comment)
    if data.startswith(_NAME_CERT):
        issuer, at = _issuer(data, len(_NAME_CERT))
        subject_at = data.find(b"(7:subject", at)
        if not at < subject_at < valid_at:
            return None
        name, subject = _name(data[at:subject_at]), _subject(data[subject_at:valid_at])
        return NameCertificate(issuer, name, subject, *_ending(data[valid_at:end]))
    return None


def _issuer(data: bytes, at: int) -> tuple[Principal, int]:
    """Return the issuer, whose key begins at `at`, and where the next field begins."""
    end = at + KEY_BYTES
    if not data.startswith(b"))", end):
        raise BadCertificate("the issuer is not a key")
    return principal_from_bytes(data[at:end]), end + 2


@lru_cache(maxsize=_REMEMBERED)
def _subject(piece: bytes) -> Subject:
    return _read_field(piece, b"subject", subject_from_expression, subject_to_expression)


@lru_cache(maxsize=_REMEMBERED)
def _name(piece: bytes) -> str:
    return _read_field(piece, b"name", lambda atom: checked_label(text_from_atom(atom)), str.encode)


@lru_cache(maxsize=_REMEMBERED)
def _authority(piece: bytes) -> Authority:
    """Cut a `tag` once more, for the resource and the actions recur in tags that differ elsewhere."""
    actions_at = piece.find(b"(7:actions")
    attributes_at = piece.find(b"(10:attributes", actions_at)
    terms_at = piece.find(b")", attributes_at) + 1
    if not len(_TAG) < actions_at < attributes_at < terms_at < len(piece) or not piece.endswith(b")"):
        raise BadCertificate("the tag is not cut where it seems")
    resources = _resources(piece[len(_TAG) : actions_at])
    actions = _actions(piece[actions_at:attributes_at])
    attributes = _attributes(piece[attributes_at:terms_at])
    return checked_sense(Authority(resources, actions, attributes, *_terms(piece[terms_at:-1])))


@lru_cache(maxsize=_REMEMBERED)
def _resources(piece: bytes) -> ResourcePattern:
    return _read(piece, resource_from_expression, resource_to_expression)


@lru_cache(maxsize=_REMEMBERED)
def _actions(piece: bytes) -> frozenset[Action]:
    return _read(piece, actions_from_expression, actions_to_expression)


@lru_cache(maxsize=_REMEMBERED)
def _attributes(piece: bytes) -> AttributeSet:
    return _read(piece, attributes_from_expression, attributes_to_expression)


@lru_cache(maxsize=_REMEMBERED)
def _terms(piece: bytes) -> Terms:
    return _read(
        b"(" + piece + b")", lambda terms: terms_from_expressions(_list(terms)), terms_to_expressions
    )


@lru_cache(maxsize=_REMEMBERED)
def _ending(piece: bytes) -> tuple[Validity, str]:
    """Read validity and comment, which end every certificate."""
    validity, *rest = _list(read_canonical(b"(" + piece + b")"))
    ending = validity_from_expression(validity), comment_from_expressions(rest)
    written = (validity_to_expression(ending[0]), *comment_to_expressions(ending[1]))
    if write_canonical(written)[1:-1] != piece:
        raise BadCertificate("the end of the certificate is not in its one canonical form")
    return ending


def _read_field(
    piece: bytes,
    field: bytes,
    from_expression: Callable[[SExpression], _Part],
    to_expression: Callable[[_Part], SExpression],
) -> _Part:
    """Read `(field VALUE)`."""

    def value(expression: SExpression) -> _Part:
        match expression:
            case (name, inner) if name == field:
                return from_expression(inner)
        raise BadCertificate("another field was expected")

    return _read(piece, value, lambda part: (field, to_expression(part)))


def _read(
    piece: bytes,
    from_expression: Callable[[SExpression], _Part],
    to_expression: Callable[[_Part], SExpression],
) -> _Part:
    part = from_expression(read_canonical(piece))
    if write_canonical(to_expression(part)) != piece:
        raise BadCertificate("a part of the certificate is not in its one canonical form")
    return part


def _list(expression: SExpression) -> tuple[SExpression, ...]:
    if not isinstance(expression, tuple):
        raise BadCertificate("a list was expected")
    return expression


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


# What may an issuer remark in a certificate, for people? A comment is signed and decides nothing. It is one
# printable line, so that it cannot forge another line in a log or hide text on a screen.


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
