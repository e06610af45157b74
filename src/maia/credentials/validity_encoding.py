"""How does a certificate say from when to when it holds?

    (valid (not-before 2026-11-15_08:30:00) (not-after unbounded))

Both bounds are always there, in whole seconds of UTC. A bound that is missing
is refused; one that is meant to be open says so. Dates must exist: there is
no 30 February, and no second 60.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from maia.canonical import SExpression
from maia.credentials.broken_certificates import BadValidity
from maia.credentials.validity import Validity
from maia.events import Instant

__all__ = ["instant_from_bytes", "instant_to_bytes", "validity_from_expression", "validity_to_expression"]

_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2}):([0-9]{2}):([0-9]{2})")
_OPEN: Final = b"unbounded"
_SECOND: Final = 1_000_000
_REMEMBERED_DATES: Final = 4096


def validity_to_expression(validity: Validity) -> SExpression:
    """Return `(valid (not-before …) (not-after …))`; refuse an empty or finer period."""
    _checked_order(validity)
    return (
        b"valid",
        (b"not-before", _bound_to_bytes(validity.not_before)),
        (b"not-after", _bound_to_bytes(validity.not_after)),
    )


def validity_from_expression(expression: SExpression) -> Validity:
    """Read both bounds, strictly."""
    match expression:
        case (b"valid", (b"not-before", bytes(start)), (b"not-after", bytes(end))):
            return _checked_order(Validity(instant_from_bytes(start), instant_from_bytes(end)))
    raise BadValidity("a validity must state both bounds: `(valid (not-before …) (not-after …))`")


@lru_cache(maxsize=_REMEMBERED_DATES)
def instant_to_bytes(instant: Instant) -> bytes:
    """Write an instant in the date form of RFC 2693, which has whole seconds only."""
    if instant % _SECOND:
        raise BadValidity(f"`{instant}` has a fraction of a second, which a certificate cannot say")
    moment = instant.to_datetime().replace(tzinfo=None)
    return moment.isoformat(sep="_", timespec="seconds").encode("ascii")


@lru_cache(maxsize=_REMEMBERED_DATES)
def instant_from_bytes(date: bytes) -> Instant | None:
    """Read a date in exactly that form, or None for `unbounded`."""
    if date == _OPEN:
        return None
    found = _DATE.fullmatch(date)
    shown = date[:64].decode("ascii", "backslashreplace")
    if not found:
        raise BadValidity(f"`{shown}` is not a date such as `2026-11-15_08:30:00`, nor `unbounded`")
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return Instant.from_datetime(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    except ValueError:
        raise BadValidity(f"`{shown}` is a date that does not exist") from None


def _bound_to_bytes(bound: Instant | None) -> bytes:
    return _OPEN if bound is None else instant_to_bytes(bound)


def _checked_order(validity: Validity) -> Validity:
    if validity.is_empty:
        raise BadValidity(
            f"`not-after` ({validity.not_after}) is before `not-before` ({validity.not_before})"
        )
    return validity
