"""What may an issuer remark in a certificate, for people?

A comment is signed and decides nothing. It is one printable line, so that it
cannot forge another line in a log or hide text on a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from maia.canonical import SExpression
from maia.credentials.encoding.errors import BadCertificate

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
