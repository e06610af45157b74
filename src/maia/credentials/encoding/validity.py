"""How does a certificate say from when to when it holds, and who must vouch for it meanwhile?

    (valid (not-before 2026-11-15_08:30:00) (not-after unbounded)
      (online timed-crl (by (ed25519 KEY)) (at "https://met.example/statements")*)*)

Both bounds are always there, in whole seconds of UTC. A bound that is missing
is refused; one that is meant to be open says so. Dates must exist: there is
no 30 February, and no second 60. Tests stand in one order, each once; a kind
of test that is not known is refused, for it could not be made.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from maia.canonical import SExpression
from maia.credentials.certificate import OnlineTest, TestKind, Validity, united_tests
from maia.credentials.keys import BadCertificate, principal_from_expression, principal_to_expression
from maia.events import SECOND, Instant

TESTS_MAX: Final = 8
"""How many tests one certificate may demand."""

LOCATIONS_MAX: Final = 4
LOCATION_BYTES_MAX: Final = 256

_DATE: Final = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})_([0-9]{2}):([0-9]{2}):([0-9]{2})")
_OPEN: Final = b"unbounded"
_REMEMBERED_DATES: Final = 4096
_KINDS: Final = {kind.value.encode(): kind for kind in TestKind}
# One printable ASCII word: it is shown in terminals, and nothing in it can end a line or a field.
_LOCATION: Final = re.compile(rb"[!-~]{1,%d}" % LOCATION_BYTES_MAX)


class BadValidity(BadCertificate):
    """A certificate does not say clearly from when to when it holds."""

    code = "CREDENTIAL-VALIDITY"


def validity_to_expression(validity: Validity) -> SExpression:
    """Return `(valid (not-before …) (not-after …) (online …)*)`; refuse an empty or finer period."""
    _checked_order(validity)
    return (
        b"valid",
        (b"not-before", _bound_to_bytes(validity.not_before)),
        (b"not-after", _bound_to_bytes(validity.not_after)),
        *map(_test_to_expression, _checked_tests(validity.tests)),
    )


def validity_from_expression(expression: SExpression) -> Validity:
    """Read both bounds and the tests, strictly."""
    match expression:
        case (b"valid", (b"not-before", bytes(start)), (b"not-after", bytes(end)), *online):
            tests = _checked_tests(tuple(map(_test_from_expression, online))) if online else ()
            return _checked_order(Validity(instant_from_bytes(start), instant_from_bytes(end), tests))
    raise BadValidity("a validity must state both bounds: `(valid (not-before …) (not-after …))`")


@lru_cache(maxsize=_REMEMBERED_DATES)
def instant_to_bytes(instant: Instant) -> bytes:
    """Write an instant in the date form of RFC 2693, which has whole seconds only."""
    if instant % SECOND:
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


def _checked_tests(tests: tuple[OnlineTest, ...]) -> tuple[OnlineTest, ...]:
    if len(tests) > TESTS_MAX:
        raise BadValidity(f"a certificate demands at most {TESTS_MAX} online tests")
    if tests and united_tests(tests, ()) != tests:
        raise BadValidity("online tests must stand in order of kind and key, each once")
    return tests


def _test_to_expression(test: OnlineTest) -> SExpression:
    places = tuple((b"at", location.encode("ascii", "replace")) for location in test.locations)
    written: SExpression = (
        b"online",
        test.kind.value.encode(),
        (b"by", principal_to_expression(test.by)),
        *places,
    )
    if _test_from_expression(written) != test:
        raise BadValidity("a location of an online test must be printable ASCII, without spaces")
    return written


def _test_from_expression(expression: SExpression) -> OnlineTest:
    match expression:
        case (b"online", bytes(kind), (b"by", by), *places):
            if kind not in _KINDS:
                shown = kind[:64].decode("ascii", "backslashreplace")
                raise BadValidity(f"the online test `{shown}` is not known, so it cannot be made")
            if len(places) > LOCATIONS_MAX:
                raise BadValidity(f"an online test names at most {LOCATIONS_MAX} locations")
            locations = tuple(map(_location_from_expression, places))
            if len(set(locations)) < len(locations):
                raise BadValidity("an online test names a location twice")
            return OnlineTest(_KINDS[kind], principal_from_expression(by), locations)
    raise BadValidity("after its bounds a validity has only `(online KIND (by KEY) (at LOCATION)*)` fields")


def _location_from_expression(expression: SExpression) -> str:
    match expression:
        case (b"at", bytes(location)) if _LOCATION.fullmatch(location):
            return location.decode("ascii")
    raise BadValidity("a location of an online test must be printable ASCII, without spaces")
