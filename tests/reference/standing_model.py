"""The slow, obvious Standing: it keeps every statement it was ever shown and looks at all of them.

For issuers that keep the rules (numbers ascend, periods never overlap and
follow the numbers) and clocks that never go back. What happens where somebody
breaks the rules is told as laws of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from maia.credentials import Principal, Revalidation, RevocationList, SignedCertificate, TestKind
from maia.events import Instant


@dataclass
class StandingModel:
    """Everything that was shown, with the moment at which it was."""

    shown: list[tuple[RevocationList | Revalidation, Instant]] = field(default_factory=list)

    def show(self, statement: RevocationList | Revalidation, now: Instant) -> None:
        self.shown.append((statement, now))

    def accepts(self, signed: SignedCertificate, at: Instant) -> bool:
        certificate = signed.certificate
        tests = certificate.validity.tests
        if any(
            signed.id in self._revoked(by, at) for by in (certificate.issuer, *(test.by for test in tests))
        ):
            return False
        return all(self._passes(signed, test.kind, test.by, at) for test in tests)

    def _passes(self, signed: SignedCertificate, kind: TestKind, by: Principal, at: Instant) -> bool:
        match kind:
            case TestKind.FOLLOWED_CRL:
                return True
            case TestKind.CRL:
                return bool(self._of(RevocationList, by))
            case TestKind.TIMED_CRL:
                return any(_holds(one, at) for one in self._of(RevocationList, by))
            case TestKind.REVALIDATION:
                said = self._of(Revalidation, by)
                newest = max(said, key=lambda one: one.sequence, default=None)
                in_force = [one for one in said if _holds(one, at)]
                return bool(in_force) and all(signed.id in one.valid for one in (*in_force, newest))
            case TestKind.ONE_TIME:
                return False

    def _revoked(self, by: Principal, at: Instant) -> frozenset[bytes]:
        """Return what the newest list that has begun revokes, and every newer one."""
        said = self._of(RevocationList, by)
        begun = (one.sequence for one in said if one.period is None or one.period.not_before <= at)
        first = max(begun, default=0)
        return frozenset().union(*(one.revoked for one in said if one.sequence >= first))

    def _of(self, kind, by):
        return [said for said, _ in self.shown if isinstance(said, kind) and said.by == by]


def _holds(said, at: Instant) -> bool:
    return said.period is not None and said.period.contains(at)
