"""How is a certificate read quickly, without being read any less strictly?

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
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from maia.canonical import SExpression, read_canonical, write_canonical
from maia.credentials.authority import Action, AttributeSet, Authority, ResourcePattern
from maia.credentials.certificate import (
    AuthorisationCertificate,
    Certificate,
    NameCertificate,
    SignedCertificate,
    as_signed,
)
from maia.credentials.comments import comment_from_expressions, comment_to_expressions
from maia.credentials.encoding.authority import (
    Terms,
    actions_from_expression,
    actions_to_expression,
    attributes_from_expression,
    attributes_to_expression,
    checked_sense,
    resource_from_expression,
    resource_to_expression,
    subject_from_expression,
    subject_to_expression,
    terms_from_expressions,
    terms_to_expressions,
    text_from_atom,
)
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.encoding.validity import validity_from_expression, validity_to_expression
from maia.credentials.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Principal,
    SignedKind,
    Subject,
    principal_from_bytes,
)
from maia.credentials.names import checked_label
from maia.credentials.validity.period import Validity
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
