"""Which of my certificates does this request need?

A client shows a broker the chains that speak for what it asks for, found by
discovery, and nothing else that it holds (C12). Renewals ask the same again
and again, so an answer is remembered until a certificate begins or ends.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from maia.credentials import (
    Action,
    Principal,
    ResourceName,
    SignedCertificate,
    Validity,
    VerificationCache,
    VerifiedConstitution,
    certificate_to_bytes,
    steady_period,
)
from maia.events import Instant
from maia.policy import NO_FACTS, Denial, Evidence, Request, decide, gather_evidence

__all__ = ["Wallet"]

_ANSWERS_MAX: Final = 1024
_Asked: TypeAlias = tuple[Principal, Action, ResourceName]
"""What the search for chains looks at; a filter is not among it."""


class Wallet:
    """A client's certificates, and those it has found good."""

    __slots__ = ("_answers", "_cache", "_certificates", "_constitutions")

    def __init__(
        self, certificates: Iterable[SignedCertificate], constitutions: tuple[VerifiedConstitution, ...] = ()
    ) -> None:
        """Hold these certificates, in whatever order they come."""
        self._certificates = tuple(certificates)
        self._constitutions = constitutions
        self._cache = VerificationCache()
        self._answers: OrderedDict[_Asked, tuple[Validity, list[bytes]]] = OrderedDict()

    def needed_for(self, request: Request, now: Instant) -> list[bytes]:
        """Return what to show with a request; raise the kernel's refusal if nothing here speaks for it."""
        asked = (request.principal, request.action, request.resource)
        known = self._answers.get(asked)
        if known is None or not known[0].contains(now):
            shown = self._found(request, now)
            steady = steady_period((signed.certificate.validity for signed in self._certificates), now)
            known = self._answers[asked] = (steady, shown)
            if len(self._answers) > _ANSWERS_MAX:
                self._answers.popitem(last=False)
        self._answers.move_to_end(asked)
        return list(known[1])

    def steady_since(self, now: Instant) -> Instant | None:
        """Return when a certificate last began or ended, so that other ones may be shown; None for never."""
        return steady_period((signed.certificate.validity for signed in self._certificates), now).not_before

    def _found(self, request: Request, now: Instant) -> list[bytes]:
        evidence = self._evidence(request, self._certificates, now)
        if not evidence.chains:
            # Without a chain the answer is known, and the reasons are known better here than anywhere.
            self._check(request, evidence, now)
        shown = {signed.id: signed for chain in evidence.chains for signed in chain.certificates}
        return [certificate_to_bytes(signed) for signed in shown.values()]

    def check_shown(self, request: Request, shown: Iterable[SignedCertificate], now: Instant) -> None:
        """Raise the kernel's refusal unless what a peer has shown permits `request`."""
        self._check(request, self._evidence(request, tuple(shown), now), now)

    def _evidence(self, request: Request, pool: tuple[SignedCertificate, ...], now: Instant) -> Evidence:
        return gather_evidence(request, pool, at=now, cache=self._cache, constitutions=self._constitutions)

    def _check(self, request: Request, evidence: Evidence, now: Instant) -> None:
        decision = decide(request, replace(evidence, bounds=()), NO_FACTS, now)
        if isinstance(decision, Denial):
            raise decision.as_refusal()
