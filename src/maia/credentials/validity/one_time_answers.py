"""What do one-time answers permit, and for how long?

A certificate may demand that its tester confirms it anew for each request
(dissertation 6.2.3). What brokers and key servers decide holds for a while,
so what an answer permits holds for one lease at most, and is asked about
again half way through (docs/decisions/one-time-tests.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from maia.credentials.certificate import SignedCertificate
from maia.credentials.chains.errors import BrokenChain
from maia.credentials.principals import Principal
from maia.credentials.validity.online_tests import TestKind
from maia.credentials.validity.period import Validity
from maia.credentials.validity.statements import SignedStatement
from maia.credentials.validity.validity_state import Once, Tester, Witness
from maia.events import INSTANT_MAX, SECOND, Instant

__all__ = ["NO_ANSWERS", "Answered", "VouchedFor", "WhenVouched", "one_time_tests"]

NO_ANSWERS: Final[frozenset[Once]] = frozenset()


@dataclass(frozen=True, slots=True)
class VouchedFor:
    """The testers that confirmed certificates, for one authorisation, and how long it may last."""

    once: frozenset[Once] = field(repr=False)
    since: Instant
    ask_at: Instant
    """When it is asked for anew, so that the next answers come before these have served."""
    until: Instant

    @classmethod
    def for_a_lease(cls, once: frozenset[Once], now: Instant, lease_s: int) -> VouchedFor | None:
        """Return what answers permit that came now: something for one lease, or nothing."""
        if not once:
            return None
        half, whole = lease_s * SECOND // 2, lease_s * SECOND
        return cls(once, now, _later(now, half), _later(now, whole))

    @property
    def serves(self) -> Validity:
        """Return the period in which it counts; a clock that goes back does not extend it."""
        return Validity(self.since, self.until)


def one_time_tests(signed: SignedCertificate) -> frozenset[Once]:
    """Return the testers that must confirm a certificate anew for each request."""
    tests = signed.certificate.validity.tests
    return frozenset([(signed.id, test.by) for test in tests if test.kind is TestKind.ONE_TIME])


@dataclass(frozen=True, slots=True)
class Answered:
    """The statements received, and the answers for one request."""

    heard: Tester
    answers: frozenset[Once]

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate, given these answers."""
        return self.heard.problem_with(signed, at, once=self.answers.union(once))


@dataclass(frozen=True, slots=True)
class WhenVouched:
    """The statements received, as if every tester had confirmed: for asking, never for deciding."""

    heard: Witness

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return the reason against a certificate even then."""
        return self.heard.problem_with(signed, at, once=one_time_tests(signed).union(once))

    def stale_after(self, certificates: Iterable[SignedCertificate], at: Instant) -> Instant | None:
        """Return the last moment at which none of these is stale, if no more statements arrive."""
        return self.heard.stale_after(certificates, at)

    def statements(self, by: Principal, at: Instant) -> tuple[SignedStatement, ...]:
        """Return what tells a newcomer all that is known of `by` at `at`."""
        return self.heard.statements(by, at)


def _later(now: Instant, microseconds: int) -> Instant:
    return Instant(min(INSTANT_MAX, now + microseconds))
