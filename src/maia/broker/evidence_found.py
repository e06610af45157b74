"""Which certificates speak for somebody, and what is a right that rests on them made of?

The edge looks for chains once and decides many requests from what it found:
those of one client differ in little more than their filters.
"""

from __future__ import annotations

from dataclasses import dataclass

from maia.broker.rates import RATE_FACTS
from maia.broker.sessions import NOTHING_KNOWN, Grounds, Known, Right
from maia.credentials import SignedCertificate, Validity
from maia.credentials.standing import Once
from maia.credentials.vouched_once import NO_ANSWERS, VouchedFor
from maia.events import AttributeUid, Instant
from maia.policy import Evidence, Permit, PolicyRefusal, Request, View

__all__ = ["Found", "evidence_of", "used_in"]


@dataclass(slots=True)
class Found:
    """Evidence, the pool that it was found in, and the period in which no certificate begins or ends.

    Rights that were decided from it differ in little more than their filters.
    A client may have thousands of them, so they share what is the same.
    """

    pool: tuple[SignedCertificate, ...]
    evidence: Evidence
    steady: Validity
    used: tuple[SignedCertificate, ...]
    watched: frozenset[bytes]
    """The certificates that it changes with: those that were used, and those that do not count now."""
    asks: frozenset[AttributeUid]
    """The facts that conditions of the certificates ask for."""
    met_at: Instant
    is_doubted: bool
    """Whether there are certificates in the pool that do not count now."""
    once: frozenset[Once]
    """Who would have to vouch, for one request, for certificates that do not count now."""
    view: View | None = None
    grounds: Grounds | None = None
    refusal: PolicyRefusal | None = None
    """Why everything is refused, if there is no chain."""

    def rests_on(self, vouched: VouchedFor) -> bool:
        """Say whether one of the chains counts by a one-time answer."""
        answered = {certificate for certificate, _ in vouched.once}
        return any(signed.id in answered for signed in self.used)

    def right(
        self,
        request: Request,
        decision: Permit,
        epoch: int,
        known: Known = NOTHING_KNOWN,
        vouched: VouchedFor | None = None,
    ) -> Right:
        """Return what was decided as a right, made of parts of the ones before."""
        view = self.view = _sharing(decision.view, self.view)
        grounds = self.grounds
        if grounds is None or not (
            grounds.asked_type is request.event_type
            and grounds.stable == decision.stable
            and (grounds.epoch, grounds.known) == (epoch, known)
            and grounds.vouched is vouched
            and grounds.limit == decision.limit
        ):
            grounds = self.grounds = self._grounds(request, decision, epoch, known, vouched)
        return Right(grounds, request.filter, view)

    def _grounds(
        self, request: Request, decision: Permit, epoch: int, known: Known, vouched: VouchedFor | None
    ) -> Grounds:
        return Grounds(
            request.principal,
            request.action,
            request.resource,
            request.event_type,
            self.pool,
            self.used,
            decision.stable,
            epoch,
            self.watched,
            known,
            not RATE_FACTS.isdisjoint(self.asks),
            vouched,
            decision.limit,
        )


def used_in(evidence: Evidence) -> tuple[SignedCertificate, ...]:
    used = {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
    return tuple(used.values())


def _sharing(view: View, other: View | None) -> View:
    """Return the same View, made of parts of another one where they are the same."""
    if other is None or view.forced or other.forced or len(view.windows) != len(other.windows):
        return view
    pairs = zip(view.windows, other.windows, strict=True)
    if not all(one == two for one, two in pairs):
        return view
    return View(
        other.windows, view.interest, other.forced, other.until if other.until == view.until else view.until
    )


def evidence_of(right: Right) -> tuple[tuple[SignedCertificate, ...], frozenset[Once]]:
    """Return what a right is asked about again from: one that was vouched for, from what it rests on."""
    return (right.pool, NO_ANSWERS) if right.vouched is None else (right.used, right.vouched.once)
