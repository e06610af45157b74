"""Who reads the table, and by which certificates?

The principal's certificates are verified on the driver, once for each period
in which the same ones are valid. What the domain has stopped to believe, a
principal or a certificate, counts for no period at all: the past is not a way
around a revocation (A44).

Whether a certificate is revoked or stale is asked
at the present moment (`Reader.tested`). Moments that are over are not judged
again. A reader that was not tested has no use of certificates that demand it.

A certificate that demands a one-time test counts if its tester has answered
about this very request, and for as long as the answer is let count: a table
is one authorisation, and a table that goes on asks again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from maia.credentials import (
    BrokenChain,
    Principal,
    SignedCertificate,
    Tester,
    Validity,
    VerifiedConstitution,
)
from maia.credentials.validity.validity_state import Once
from maia.events import Instant
from maia.policy import CHAINS_COUNTED, NO_FACTS, BoundRule, Facts
from maia.spark.governed.refusals import ReaderDistrusted

__all__ = ["AnsweredOnce", "FactPeriod", "Reader", "TestedAt"]


@dataclass(frozen=True, slots=True)
class FactPeriod:
    """What was true at every moment of a period; at all other moments nothing is known."""

    period: Validity
    facts: Facts


@dataclass(frozen=True, slots=True)
class AnsweredOnce:
    """The certificates confirmed for one request, and until when that counts."""

    once: frozenset[Once] = field(repr=False)
    until: Instant


class TestedAt:
    """What was known of certificates at one moment: the answer for every moment of a table."""

    __slots__ = ("_at", "_found", "_once", "_standing")

    def __init__(self, standing: Tester, at: Instant, once: Collection[Once] = ()) -> None:
        """Ask `standing` about the moment `at`, once for each certificate."""
        self._standing, self._at, self._once = standing, at, once
        self._found: dict[bytes, BrokenChain | None] = {}

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what spoke against a certificate when it was tested; `at` is a moment that is over."""
        if signed.id not in self._found:
            self._found[signed.id] = self._standing.problem_with(signed, self._at, once=self._once)
        return self._found[signed.id]


@dataclass(frozen=True, slots=True)
class Reader:
    """A principal, its certificates, and whatever else its rights depend on."""

    principal: Principal
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)
    facts: tuple[FactPeriod, ...] = field(default=(), repr=False)
    revoked: frozenset[bytes] = field(default=frozenset(), repr=False)
    """Ids of certificates that the domain believes no more."""
    evicted: frozenset[Principal] = field(default=frozenset(), repr=False)
    """Principals that the domain has put out."""
    tester: Tester | None = field(default=None, repr=False, compare=False)
    """What came of the tests that certificates demand; without it none of them is passed."""

    chains_max: int = CHAINS_COUNTED
    """Chains of certificates that add up; if there are more, `RightsCut` is warned of."""

    answered: AnsweredOnce | None = field(default=None, repr=False, compare=False)
    """Answers to one-time questions about the request that this reader makes."""

    def tested(self, standing: Tester, now: Instant) -> Reader:
        """Return the same reader, whose certificates, and those of writers, are tested at `now`."""
        return replace(self, tester=TestedAt(standing, now, self.once_at(now)))

    def once_at(self, now: Instant) -> frozenset[Once]:
        """Return the answers to one-time questions that count at a moment."""
        return self.answered.once if self.answered is not None and now <= self.answered.until else frozenset()

    @property
    def pool(self) -> tuple[SignedCertificate, ...]:
        """Return the certificates that still count; refuse a reader that was put out."""
        if self.principal in self.evicted:
            raise ReaderDistrusted("you were put out of this domain, and read nothing of its past either")
        return tuple(signed for signed in self.credentials if signed.id not in self.revoked)

    def facts_at(self, moment: Instant) -> Facts:
        """Return what is known of a moment."""
        known = [one.facts for one in self.facts if one.period.contains(moment)]
        return Facts({uid: value for facts in known for uid, value in facts.items()}) if known else NO_FACTS
