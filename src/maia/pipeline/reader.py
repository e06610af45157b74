"""Who reads the table, and what speaks for it?

The principal's certificates are verified on the driver, once for each period
in which the same ones are valid. What the domain has stopped to believe, a
principal or a certificate, counts for no period at all: the past is not a way
around a revocation (A44).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.credentials import Principal, SignedCertificate, Validity, VerifiedConstitution
from maia.events import Instant
from maia.pipeline.refusals import ReaderDistrusted
from maia.policy import NO_FACTS, BoundRule, Facts

__all__ = ["FactPeriod", "Reader"]


@dataclass(frozen=True, slots=True)
class FactPeriod:
    """What was true at every moment of a period; at all other moments nothing is known."""

    period: Validity
    facts: Facts


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
