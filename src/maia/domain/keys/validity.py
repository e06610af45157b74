"""On whose statements do the rights of members depend, and who is rechecked when one is new?

The domain hands its key server what it states and what it receives. Peers
bring statements too, for the certificates that they show; of these the server
takes in only those by issuers on whose statements a chain from an owner to the
peer could depend, so that strangers do not fill its memory. What peers bring
is acted upon even if their own request is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from maia.credentials import (
    ASSUMED_GOOD,
    Budget,
    Heard,
    Principal,
    SignedCertificate,
    SignedStatement,
    ValidityState,
    VerificationCache,
)
from maia.domain.keys.settings import DomainSettings
from maia.events import Instant
from maia.policy import Request, TooMuchToSearch, gather_evidence
from maia.sessions.session import Session
from maia.sessions.statements import Changed, StatementIntake
from maia.wire.effects import Effect


class KeyServerValidity:
    """What one key server has taken in on validity."""

    def __init__(
        self,
        settings: DomainSettings,
        certificates: VerificationCache,
        kept: Mapping[str, bytes],
        *,
        changes: dict[str, bytes | None],
        changed: Changed,
    ) -> None:
        """Go on from what was kept; `changes` is what has to be kept, `changed` rechecks members."""
        self._settings, self._certificates = settings, certificates
        self.intake = StatementIntake(kept)
        self._changes, self._changed = changes, changed

    @property
    def standing(self) -> ValidityState:
        """Return what speaks for and against certificates."""
        return self.intake.standing

    def hear(self, statements: Iterable[SignedStatement], now: Instant) -> list[Effect]:
        """Take statements in, and recheck whom they concern."""
        return self.intake.take(statements, now, self._news)

    def _news(self, heard: Heard, now: Instant) -> list[Effect]:
        kept = self.intake.kept(heard.by)
        self._changes[kept.name] = kept.data
        return self._changed(heard, now)

    # -------------------------------------------------------- what peers show

    def hear_known(self, link: Session, now: Instant) -> None:
        """Take in what a peer has shown, of issuers whose statements were taken in before."""
        known = frozenset(self.standing)
        self.intake.take_shown(link, known.__contains__, now, self._news)

    def receive_held(
        self,
        link: Session,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None = None,
    ) -> None:
        """Take in what a peer has shown, of issuers on whom one of these requests could depend."""
        if link.statements:
            concerned = self._concerned(asked, pool, now, budget)
            self.intake.take_shown(link, concerned.__contains__, now, self._news)

    def _concerned(
        self,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None,
    ) -> frozenset[Principal]:
        """Return on whose statements a right to one of these could depend, if all certificates were good."""
        budget = Budget.of(self._settings.limits.work_per_request) if budget is None else budget
        used: dict[bytes, SignedCertificate] = {}
        for request in asked:
            try:
                evidence = gather_evidence(
                    request,
                    pool,
                    at=now,
                    cache=self._certificates,
                    constitutions=self._settings.constitutions,
                    standing=ASSUMED_GOOD,
                    doubtful=[signed.id for signed in pool],
                    budget=budget,
                )
            except TooMuchToSearch:
                break
            used |= {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
        issuers = {signed.certificate.issuer for signed in used.values()}
        return ValidityState.testers(used.values()) | issuers

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: whose statements were taken in, and until when they hold."""
        issuers = sorted(self.standing, key=lambda one: one.key)
        return {str(by): self.intake.status(by, now) for by in issuers}
