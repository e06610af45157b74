"""What does an issuer of a test state about its certificates?"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.credentials import (
    RevocationList,
    SignedCertificate,
    SignedStatement,
    SigningKey,
    Validity,
    period_from,
    sign_statement,
)
from maia.events import SECOND, Instant


@dataclass(slots=True)
class Statements:
    """An issuer that states what it has revoked, one number after the other."""

    key: SigningKey = field(repr=False)
    sequence: int = 0
    revoked: set[bytes] = field(default_factory=set)

    def list_now(self) -> SignedStatement:
        """Return a list without a period: in force at once."""
        return self._signed(None)

    def list_for(self, since: Instant, seconds: float) -> SignedStatement:
        """Return a list that holds from a moment on, for so many seconds."""
        return self._signed(period_from(Instant(since), microseconds=round(seconds * SECOND)))

    def _signed(self, period: Validity | None) -> SignedStatement:
        self.sequence += 1
        stated = RevocationList(self.key.principal, self.sequence, period, frozenset(self.revoked))
        return sign_statement(stated, self.key)

    def revoke(self, *certificates: SignedCertificate) -> SignedStatement:
        """Revoke certificates, and state it at once."""
        self.revoked |= {signed.id for signed in certificates}
        return self.list_now()
