"""May this peer connect to our network, by what it has shown?

Clients ask it of brokers, key servers of members, members and readers of
history of key servers. A broker asks its authoriser, which knows more.
What a node has taken in on validity itself comes first: a peer that shows an
older list does not bring a revoked certificate back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from maia.credentials import (
    BrokenChain,
    Budget,
    SignedCertificate,
    SignedStatement,
    Tester,
    ValidityState,
    VerificationCache,
    VerifiedConstitution,
)
from maia.credentials.validity.statements import CertificateNotRevalidated, CertificateStale
from maia.credentials.validity.validity_state import Once
from maia.errors import MaiaError
from maia.events import Instant
from maia.policy import NO_FACTS, Permit, Request, decide, gather_evidence


@dataclass(frozen=True, slots=True)
class ConnectRight:
    """The right of a peer to connect: the certificates it depends on, and its last moment if it has one."""

    certificates: tuple[SignedCertificate, ...] = field(repr=False)
    until: Instant | None


def right_to_connect(
    request: Request,
    pool: tuple[SignedCertificate, ...],
    now: Instant,
    *,
    tester: Tester,
    cache: VerificationCache,
    constitutions: tuple[VerifiedConstitution, ...],
    budget: Budget | None = None,
) -> ConnectRight:
    """Return the right that certificates give a peer, or raise the kernel's refusal."""
    evidence = gather_evidence(
        request, pool, at=now, cache=cache, constitutions=constitutions, standing=tester, budget=budget
    )
    decision = decide(request, evidence, NO_FACTS, now)
    if not isinstance(decision, Permit):
        raise decision.as_refusal()
    used = tuple(signed for chain in evidence.chains for signed in chain.certificates)
    return ConnectRight(used, decision.stable.not_after)


class WithShown:
    """What a node has taken in on validity itself, and where that says nothing, what its peer has shown."""

    __slots__ = ("_own", "_shown")

    def __init__(self, own: Tester | None, shown: Iterable[SignedStatement], now: Instant) -> None:
        """Take in what was shown for this one time."""
        self._own: Tester = ValidityState() if own is None else own
        self._shown = ValidityState()
        for signed in shown:
            with suppress(MaiaError):  # old, over or forged: it is no help
                self._shown.hear(signed, now)

    def problem_with(
        self, signed: SignedCertificate, at: Instant, *, once: Collection[Once] = ()
    ) -> BrokenChain | None:
        """Return what speaks against a certificate."""
        for test in (self._shown, self._own):
            problem = test.problem_with(signed, at, once=once)
            if problem is not None and not isinstance(problem, CertificateStale | CertificateNotRevalidated):
                return problem
        if self._own.problem_with(signed, at, once=once) is None:
            return None
        return self._shown.problem_with(signed, at, once=once)
