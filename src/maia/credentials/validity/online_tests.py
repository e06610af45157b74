"""Whom must a verifier ask whether a certificate still holds?

A certificate can demand more than its dates: that its issuer, or
the tester that the issuer names, has not revoked it (dissertation 6.2). The kinds
are those of RFC 2693, and the older revocation list without a period beside
them. A verifier that cannot make a demanded test refuses the certificate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from maia.credentials.principals import Principal

__all__ = ["OnlineTest", "TestKind", "united_tests"]


class TestKind(Enum):
    """What a verifier must hold before it believes a certificate."""

    __test__ = False  # pytest would otherwise take the name for a promise

    CRL = "crl"
    """Some list of what is revoked, however old, and the certificate not in the newest."""
    TIMED_CRL = "timed-crl"
    """A list that holds at this moment, and the certificate not in the newest."""
    REVALIDATION = "revalidation"
    """A statement that holds at this moment, with the certificate in it."""
    ONE_TIME = "one-time"
    """An answer to this verifier's own question, about this very request."""


@dataclass(frozen=True, slots=True)
class OnlineTest:
    """`by` must confirm the certificate in the way of `kind`; statements may be fetched at `locations`.

    A location is a hint. Statements prove themselves, wherever they come from.
    """

    kind: TestKind
    by: Principal
    locations: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, bytes, tuple[str, ...]]:
        """Return what tests are sorted by where their order could make two texts of one meaning."""
        return (self.kind.value, self.by.key, self.locations)


def united_tests(one: Iterable[OnlineTest], other: Iterable[OnlineTest]) -> tuple[OnlineTest, ...]:
    """Return the tests of both, in their one order, each once: who depends on both must pass both."""
    return tuple(sorted({*one, *other}, key=lambda test: test.order))
