"""On whose word do the rights of members rest, and what has a key server heard of them?

    statements/KEY   all that was heard of somebody

The domain tells its key server what it states and what it hears. Peers bring
statements too, for the certificates that they show; of these the server hears
only somebody on whose word a chain from an owner to the peer could rest, so
that strangers do not fill its memory. What was heard survives a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

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
from maia.domain.keys.refusals import BadStatementRecord
from maia.domain.keys.settings import DomainSettings
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import Request, TooMuchToSearch, gather_evidence

__all__ = ["KEPT_STATEMENTS", "Vouching"]

KEPT_STATEMENTS: Final = "statements/"
"""How the names under which statements are kept begin."""


class Vouching:
    """What one key server has heard about certificates."""

    def __init__(
        self, settings: DomainSettings, certificates: VerificationCache, kept: Mapping[str, bytes]
    ) -> None:
        """Go on from what was kept."""
        records = [
            record
            for name, data in kept.items()
            if name.startswith(KEPT_STATEMENTS)
            for record in _records(data)
        ]
        self._settings, self._certificates = settings, certificates
        self.standing = ValidityState.reloaded(records)

    def hear(self, signed: SignedStatement, now: Instant) -> Heard | MaiaError:
        """Take a statement in; return what is wrong with it if it cannot be believed."""
        try:
            return self.standing.hear(signed, now)
        except MaiaError as problem:
            return problem

    def kept(self, by: Principal) -> dict[str, bytes | None]:
        """Return the record of all that was heard of somebody."""
        records = list(self.standing.exported(by))
        return {KEPT_STATEMENTS + by.key.hex(): msgspec.msgpack.encode(records)}

    # ------------------------------------------------------------ what peers show

    def concerned(
        self,
        asked: Iterable[Request],
        pool: tuple[SignedCertificate, ...],
        now: Instant,
        budget: Budget | None = None,
    ) -> frozenset[Principal]:
        """Return on whose word a right to one of these could rest, if all certificates were good."""
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

    def known(self) -> frozenset[Principal]:
        """Return of whom something was heard before."""
        return frozenset(self.standing)

    def status(self, now: Instant) -> dict[str, object]:
        """Return what an operator asks for: whose word was heard, and up to when it holds."""
        return {
            str(by): {
                "sequence": self.standing.sequence_of(by),
                "fresh_until": str(self.standing.fresh_until(by, now) or "") or None,
            }
            for by in sorted(self.standing, key=lambda one: one.key)
        }


def _records(data: bytes) -> list[bytes]:
    try:
        return msgspec.msgpack.decode(data, type=list[bytes])
    except msgspec.MsgspecError:
        # To leave it out would be to go back, and to believe again what was revoked.
        raise BadStatementRecord("what was kept of somebody's statements cannot be read") from None
