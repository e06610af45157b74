"""What do both ends of a call write into its headers?"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final

from maia.api.problems import BadCall
from maia.credentials import SignedCertificate, certificate_to_bytes
from maia.errors import BadInput

__all__ = [
    "CREDENTIALS_BYTES_MAX",
    "CREDENTIALS_HEADER",
    "ONCE_HEADER",
    "PUBLISHED_HEADER",
    "SCHEME",
    "TooLarge",
    "credentials_from_header",
    "credentials_to_header",
]

SCHEME: Final = "Maia"
"""The scheme of the `Authorization` header, which carries the signed request."""
CREDENTIALS_HEADER: Final = "Maia-Credentials"
ONCE_HEADER: Final = "Idempotency-Key"
PUBLISHED_HEADER: Final = "Maia-Published"
"""On answers that took something away: whether a broker has taken the statement on, `yes` or `no`."""
CREDENTIALS_BYTES_MAX: Final = 48 << 10
CREDENTIALS_MAX: Final = 64


class TooLarge(BadInput):
    """A body or a header is larger than is read."""

    code = "INPUT-API-TOO-LARGE"


def credentials_to_header(certificates: Sequence[SignedCertificate]) -> str:
    """Return certificates as they travel in a header."""
    shown = ",".join(base64.b64encode(certificate_to_bytes(one)).decode() for one in certificates)
    if len(shown) > CREDENTIALS_BYTES_MAX or len(certificates) > CREDENTIALS_MAX:
        raise TooLarge("these are more certificates than can be shown with one call")
    return shown


def credentials_from_header(shown: str) -> list[bytes]:
    """Return the certificates that came with a call, as bytes; nothing is read or verified yet."""
    words = [word for word in shown.split(",") if word]
    if len(words) > CREDENTIALS_MAX:
        raise TooLarge(f"more than {CREDENTIALS_MAX} certificates came with the call")
    try:
        return [base64.b64decode(word, validate=True) for word in words]
    except binascii.Error:
        raise BadCall(f"`{CREDENTIALS_HEADER}` is not a list of certificates in base64") from None
