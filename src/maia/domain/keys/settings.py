"""What is a key server told before it starts, and how much does it take on?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from maia.credentials import NetworkName, SignedCertificate, VerifiedConstitution
from maia.errors import BadInput
from maia.policy import CHAINS_COUNTED, CHAINS_MAX, BoundRule
from maia.sealing.keys.key_ring import DEFAULT_TERMS, KeyTerms


@dataclass(frozen=True, slots=True)
class DomainLimits:
    """The largest numbers that a key server accepts; beyond them it refuses and says so."""

    SETTINGS: ClassVar = frozenset({
        "links", "links_before_welcome", "types", "chains_per_request", "joins_per_minute",
        "work_per_request",
    })  # fmt: skip
    """What an operator chooses, under `[limits]`. The others bound what one peer may cost: a smaller number
    refuses good peers, a larger one helps strangers only (docs/decisions/limits-of-a-peer.md).
    """
    links: int = 4096
    """Connections at one time, those that have not said hello included."""
    links_before_welcome: int = 512
    """Connections at one time whose right to connect is not known yet; the oldest of the busiest goes."""
    bytes_before_welcome: int = 512 << 10
    """What a peer may say, in all its messages, before its right to connect is known."""
    types: int = 1024
    """Types whose key groups are run here."""
    versions: int = 4096
    """Versions of all types together."""
    chains_per_request: int = CHAINS_COUNTED
    """Chains of one principal to one type that add up; where there are more, the log says so."""
    joins_per_minute: int = 600
    """Requests of one principal, over all its links."""
    work_before_welcome: int = 4096
    """Steps that the search for a peer's right to connect may take; a signature check counts for some."""
    work_per_request: int = 200_000
    """Steps that the search for the rights behind one question of a member may take."""
    handshake_s: int = 10
    """How long a connection may take to prove its right to connect."""
    one_time_s: int = 20
    """How long an answer to a one-time question is waited for."""
    one_time_questions: int = 4096
    """One-time questions that are open at one time."""
    one_time_questions_per_request: int = 8
    """How many of these one request may ask."""
    one_time_requests_per_principal: int = 256
    """Questions for keys, and memberships, of one principal that wait for one-time answers."""


@dataclass(frozen=True, slots=True)
class DomainSettings:
    """One key server of one network: where it listens, who it can show itself to be, how keys live."""

    network: NetworkName
    address: str
    credentials: tuple[SignedCertificate, ...] = field(repr=False)
    terms: KeyTerms = DEFAULT_TERMS
    history: frozenset[bytes] = frozenset()
    """Ids of the types whose old keys are kept, for pipelines that read the past."""
    lease_s: int = 60
    """How long a silent member is believed to be there."""
    require_install: bool = True
    """Whether the signer of a type must be allowed to install types on this network."""
    limits: DomainLimits = field(default_factory=DomainLimits)
    bounds: tuple[BoundRule, ...] = field(default=(), repr=False)
    constitutions: tuple[VerifiedConstitution, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        """Refuse settings that no key server can keep."""
        terms = self.terms
        if self.lease_s < 1 or terms.refresh_s < 1:
            raise BadInput(
                "INPUT-DOMAIN-SETTINGS", "a lease and the time between refreshes last at least one second"
            )
        if not 1 <= self.limits.chains_per_request <= CHAINS_MAX:
            raise BadInput("INPUT-DOMAIN-SETTINGS", f"a decision counts 1 to {CHAINS_MAX} chains")
        if min(terms.overdue_s, terms.drift_s, terms.back_dating_s) < 0:
            raise BadInput("INPUT-DOMAIN-SETTINGS", "a drift is not negative")
        if terms.back_dating_s > terms.drift_s:
            raise BadInput(
                "INPUT-DOMAIN-SETTINGS", "nothing may be dated back further than old keys are kept"
            )
