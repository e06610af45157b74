"""Issuers who make statements on validity, and certificates that demand them, with fixed test keys."""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st

from maia.credentials import (
    ALL_ACTIONS,
    UNBOUNDED,
    AnyResource,
    OnlineTest,
    Principal,
    Revalidation,
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    TestKind,
    period_from,
    sign_statement,
)
from maia.events import Instant
from maia.testing import grant

ISSUER, TESTER, HOLDER, STRANGER = (SigningKey.from_seed(bytes([number]) * 32) for number in (81, 82, 83, 84))
SECOND = 1_000_000
NOON = Instant.parse("2026-11-15T12:00:00Z")


def moment(seconds: float) -> Instant:
    """Return the moment so many seconds after noon."""
    return Instant(NOON + round(seconds * SECOND))


@cache
def certificate(*kinds: TestKind, by: SigningKey = TESTER, comment: str = "") -> SignedCertificate:
    """Return a certificate of `ISSUER` for `HOLDER` that demands these tests by `by`."""
    return grant(
        ISSUER,
        HOLDER,
        AnyResource(ISSUER.principal),
        *ALL_ACTIONS,
        validity=UNBOUNDED.with_tests(*(OnlineTest(kind, by.principal) for kind in kinds)),
        comment=comment,
    )


def crl(
    number: int,
    *revoked: SignedCertificate,
    since: float | None = None,
    lasting: float = 30,
    by: SigningKey = TESTER,
) -> SignedStatement:
    """Return a list; a timed one if `since`, in seconds after noon, is said."""
    period = None if since is None else period_from(moment(since), microseconds=round(lasting * SECOND))
    ids = frozenset(signed.id for signed in revoked)
    return sign_statement(RevocationList(by.principal, number, period, ids), by)


def revalidation(
    number: int,
    *valid: SignedCertificate,
    since: float,
    lasting: float = 30,
    by: SigningKey = TESTER,
) -> SignedStatement:
    """Return a revalidation from `since`, in seconds after noon."""
    period = period_from(moment(since), microseconds=round(lasting * SECOND))
    ids = frozenset(signed.id for signed in valid)
    return sign_statement(Revalidation(by.principal, number, period, ids), by)


@st.composite
def honest_series(
    draw: st.DrawFn, certificates: tuple[SignedCertificate, ...], by: SigningKey, *, positive: bool = False
) -> list[SignedStatement]:
    """Draw the statements of an issuer that keeps the rules, in the order of their numbers."""
    start, series = draw(st.integers(0, 3)), []
    for number in range(1, draw(st.integers(1, 7)) + 1):
        named = draw(st.lists(st.sampled_from(certificates), unique=True))
        if positive or draw(st.booleans()):
            lasting = draw(st.integers(1, 6))
            make = revalidation if positive else crl
            series.append(make(number, *named, since=start, lasting=lasting, by=by))
            start += lasting + draw(st.sampled_from([0, 0, 1, 3]))
        else:
            series.append(crl(number, *named, by=by))
    return series


def by_whom(signed: SignedStatement) -> Principal:
    """Return whose statement it is."""
    return signed.statement.by
