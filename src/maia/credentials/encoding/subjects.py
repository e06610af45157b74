"""Which S-expression names a key, an owner or a subject?

    (ed25519 KEY)                     a principal, by its 32 bytes
    (quorum DIGEST)                   a threshold owner, by its 32 bytes
    (name (ed25519 KEY) WORD ...)     a name in a namespace
    (k-of-n K N SUBJECT ...)          at least K of N subjects together

Certificates and signed definitions share these forms. Each value has exactly
one, and whatever is not exactly one of them is refused.
"""

from __future__ import annotations

import re
from typing import Final

from maia.canonical import SExpression
from maia.credentials.encoding.errors import BadCertificate
from maia.credentials.keys import KEY_BYTES, principal_from_bytes
from maia.credentials.names import checked_label
from maia.credentials.principals import LocalName, Owner, Principal, QuorumId, Subject, Threshold

__all__ = [
    "LINKED_NAMES_MAX",
    "MEMBERS_MAX",
    "TEXT_MAX",
    "THRESHOLD_DEPTH_MAX",
    "owner_from_expression",
    "owner_to_expression",
    "principal_from_expression",
    "principal_to_expression",
    "subject_from_expression",
    "subject_to_expression",
    "text_from_atom",
]

MEMBERS_MAX: Final = 64
THRESHOLD_DEPTH_MAX: Final = 4
LINKED_NAMES_MAX: Final = 16
TEXT_MAX: Final = 1024

_COUNT: Final = re.compile(rb"[1-9][0-9]?")


def principal_to_expression(principal: Principal) -> SExpression:
    """Return `(ed25519 KEY)`."""
    return (b"ed25519", principal.key)


def principal_from_expression(expression: SExpression) -> Principal:
    """Read `(ed25519 KEY)`, strictly."""
    match expression:
        case (b"ed25519", bytes(key)):
            return principal_from_bytes(key)
    raise BadCertificate("a principal must be written `(ed25519 KEY)`")


def owner_to_expression(owner: Owner) -> SExpression:
    """Return the expression of a principal or a quorum."""
    return (b"quorum", owner.digest) if isinstance(owner, QuorumId) else principal_to_expression(owner)


def owner_from_expression(expression: SExpression) -> Owner:
    """Read a principal or a quorum, strictly."""
    match expression:
        case (b"quorum", bytes(digest)):
            if len(digest) != KEY_BYTES:
                raise BadCertificate(
                    f"the digest of a quorum has {KEY_BYTES} bytes, and {len(digest)} were given"
                )
            return QuorumId(digest)
    return principal_from_expression(expression)


def subject_to_expression(subject: Subject, depth: int = 0) -> SExpression:
    """Return the expression of a key, a local name or a threshold."""
    match subject:
        case Principal():
            return principal_to_expression(subject)
        case LocalName(space, names):
            return (
                b"name",
                principal_to_expression(space),
                *(checked_label(name).encode() for name in names),
            )
        case Threshold(needed, members):
            if depth >= THRESHOLD_DEPTH_MAX:
                raise BadCertificate(f"thresholds nest deeper than {THRESHOLD_DEPTH_MAX} levels")
            inner = (subject_to_expression(member, depth + 1) for member in members)
            return (b"k-of-n", b"%d" % needed, b"%d" % len(members), *inner)


def subject_from_expression(expression: SExpression, depth: int = 0) -> Subject:
    """Read a key, a local name or a threshold, strictly."""
    match expression:
        case (b"ed25519", bytes(key)):
            return principal_from_bytes(key)
        case (b"name", space, *words):
            return _local_name(principal_from_expression(space), words)
        case (b"k-of-n", bytes(needed), bytes(count), *members):
            if depth >= THRESHOLD_DEPTH_MAX:
                raise BadCertificate(f"thresholds nest deeper than {THRESHOLD_DEPTH_MAX} levels")
            return _threshold(needed, count, members, depth)
    raise BadCertificate("a subject must be a key, a `name` or a `k-of-n`")


def text_from_atom(expression: SExpression, length_max: int = TEXT_MAX) -> str:
    """Return a string as ASCII text; every text in a certificate but its comment is ASCII."""
    if not isinstance(expression, bytes) or not expression.isascii() or len(expression) > length_max:
        raise BadCertificate(f"plain ASCII text of at most {length_max} characters was expected")
    return expression.decode("ascii")


def _local_name(space: Principal, words: list[SExpression]) -> LocalName:
    if not 1 <= len(words) <= LINKED_NAMES_MAX:
        raise BadCertificate(f"a local name links 1 to {LINKED_NAMES_MAX} names, and {len(words)} were given")
    return LocalName(space, tuple(checked_label(text_from_atom(word)) for word in words))


def _threshold(needed: bytes, count: bytes, members: list[SExpression], depth: int) -> Threshold:
    if not _COUNT.fullmatch(needed) or not _COUNT.fullmatch(count):
        raise BadCertificate("the numbers of a `k-of-n` must be decimal, without leading zeros")
    if int(count) != len(members) or not 1 <= int(needed) <= len(members) <= MEMBERS_MAX:
        raise BadCertificate(
            f"`{int(needed)}` of `{int(count)}` is impossible with {len(members)} subjects "
            f"(at most {MEMBERS_MAX})"
        )
    # One key listed twice would let one principal count for two.
    if len(set(members)) != len(members):
        raise BadCertificate("a subject is twice in one `k-of-n`")
    inner = tuple(subject_from_expression(member, depth + 1) for member in members)
    return Threshold(int(needed), inner)
