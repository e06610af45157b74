"""How does a caller learn what went wrong? By problem details (RFC 9457) with Maia's own codes.

The detail is the sentence that the error itself has for the one that is refused;
what only the owner may know is not in it. An unforeseen error gets
a number that the log has too, and says nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from maia.credentials import SignedCertificate, certificate_to_bytes
from maia.errors import BadInput, BrokenCredential, MaiaError, ProtocolViolation, Refusal, Unavailable

PROBLEM_JSON: Final = "application/problem+json"

_DETAIL_MAX: Final = 8000
_BY_CODE: Final[Mapping[str, int]] = {
    "REQUEST-TOO-LATE": 401,
    "REQUEST-TOO-EARLY": 401,
    "REQUEST-REPLAYED": 401,
    "REQUEST-STALE": 401,
    "REQUEST-ANOTHER-DOMAIN": 401,
    "REQUEST-ANOTHER-RUN": 401,
    "REQUEST-ALTERED": 401,
    "REQUEST-UNSIGNED": 401,
    "REQUEST-TOO-MANY": 429,
    "CREDENTIAL-SIGNATURE": 401,
    "REFUSED-GATEWAY-ACCOUNT": 401,
    "REFUSED-GATEWAY-STREAMS": 429,
    "INPUT-MQTT-NOT-DECLARED": 404,
    "INPUT-API-TOO-LARGE": 413,
    "INPUT-API-NO-SUCH-PAGE": 404,
    "INPUT-NOT-FOUND": 404,
    "INPUT-UNKNOWN-MEMBERSHIP": 404,
    "INPUT-UNKNOWN-CERTIFICATE": 404,
    "INPUT-UNKNOWN-ROLE": 404,
    "INPUT-UNKNOWN-FACT": 404,
    "INPUT-UNKNOWN-APPOINTMENT": 404,
    "INPUT-TYPE-NOT-REGISTERED": 404,
    "INPUT-UNKNOWN-SUBJECT": 404,
    "INPUT-API-METHOD": 405,
    "INPUT-IDEMPOTENCY-KEY": 409,
}
_BY_FAMILY: Final[tuple[tuple[type[MaiaError], int], ...]] = (
    (Refusal, 403),
    (BrokenCredential, 422),
    (ProtocolViolation, 400),
    (Unavailable, 503),
    (BadInput, 422),
)
_TITLES: Final[tuple[tuple[type[MaiaError], str], ...]] = (
    (Refusal, "refused"),
    (BrokenCredential, "a credential does not hold"),
    (ProtocolViolation, "not as the protocol wants it"),
    (Unavailable, "not available now"),
    (BadInput, "the input can be mended"),
)


class ApiProblem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Problem details; `code` never changes, `detail` may improve."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    incident: str | None = None
    """The number under which the log has more; only for unforeseen errors."""
    problems: list[dict[str, str | int]] | None = None
    """Every mistake of a policy, with its line and rule."""


def status_of(problem: MaiaError) -> int:
    """Return the HTTP status of one of our errors."""
    if problem.code in _BY_CODE:
        return _BY_CODE[problem.code]
    return next((status for family, status in _BY_FAMILY if isinstance(problem, family)), 400)


def problem_of(problem: MaiaError) -> ApiProblem:
    """Return the problem as the caller sees it."""
    record = problem.as_record()
    listed = record.get("problems")
    title = next((title for family, title in _TITLES if isinstance(problem, family)), "wrong")
    return ApiProblem(
        f"urn:maia:error:{problem.code}",
        title,
        status_of(problem),
        problem.code,
        problem.message[:_DETAIL_MAX],
        problems=listed if isinstance(listed, list) else None,
    )


# What do both ends of a call write into its headers?


SCHEME: Final = "Maia"
"""The scheme of the `Authorization` header, which carries the signed request."""
CREDENTIALS_HEADER: Final = "Maia-Credentials"
ONCE_HEADER: Final = "Idempotency-Key"
PUBLISHED_HEADER: Final = "Maia-Published"
"""On answers that took something away: whether a broker has taken the statement on, `yes` or `no`."""
CREDENTIALS_BYTES_MAX: Final = 48 << 10
CREDENTIALS_MAX: Final = 64


def credentials_to_header(certificates: Sequence[SignedCertificate]) -> str:
    """Return certificates as they travel in a header."""
    shown = ",".join(base64.b64encode(certificate_to_bytes(one)).decode() for one in certificates)
    if len(shown) > CREDENTIALS_BYTES_MAX or len(certificates) > CREDENTIALS_MAX:
        raise BadInput("INPUT-API-TOO-LARGE", "these are more certificates than can be shown with one call")
    return shown


def credentials_from_header(shown: str) -> list[bytes]:
    """Return the certificates that came with a call, as bytes; nothing is read or verified yet."""
    words = [word for word in shown.split(",") if word]
    if len(words) > CREDENTIALS_MAX:
        raise BadInput("INPUT-API-TOO-LARGE", f"more than {CREDENTIALS_MAX} certificates came with the call")
    try:
        return [base64.b64decode(word, validate=True) for word in words]
    except ValueError:  # also for a character beyond ASCII
        raise BadInput(
            "INPUT-API-CALL", f"`{CREDENTIALS_HEADER}` is not a list of certificates in base64"
        ) from None
