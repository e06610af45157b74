"""Which chains support a request, and which bounds limit it?

Verified chains support a requester; bounds limit it; chains that did not
verify explain a denial to the owner and grant nothing. Where a limit has kept
chains out, the evidence says so, and so does the decision. Evidence cannot change:
new evidence is a new object, and a decision remembered for the old one does
not survive it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from maia.credentials.chains.chain import VerifiedChain
from maia.errors import BadInput, BrokenCredential
from maia.policy.bounds import BoundRule

__all__ = [
    "BOUNDS_MAX",
    "CERTIFICATES_MAX",
    "CHAINS_COUNTED",
    "CHAINS_MAX",
    "NO_EVIDENCE",
    "Evidence",
    "TooMuchEvidence",
]

CHAINS_MAX: Final = 1024
CHAINS_COUNTED: Final = 256
"""Chains of one principal to one resource that add up, unless configured otherwise."""
CERTIFICATES_MAX: Final = 256
"""Certificates behind one decision: as many as a message between brokers has room for to prove it."""
BOUNDS_MAX: Final = 64


class TooMuchEvidence(BadInput):
    """More chains or bounds than one decision takes."""

    code = "INPUT-EVIDENCE-SIZE"


@dataclass(frozen=True, slots=True)
class Evidence:
    """Chains in the order of the requester's preference, bounds, and what failed to verify."""

    chains: tuple[VerifiedChain, ...] = ()
    bounds: tuple[BoundRule, ...] = ()
    broken: tuple[BrokenCredential, ...] = ()
    left_out: int = 0
    """How many chains there are besides, at least, that a limit kept from being counted."""

    def __post_init__(self) -> None:
        """Refuse more than a decision takes: silence about the rest would be a wrong answer."""
        if len(self.chains) + len(self.broken) > CHAINS_MAX:
            raise TooMuchEvidence(f"a decision takes no more than {CHAINS_MAX} chains")
        if len(self.bounds) > BOUNDS_MAX:
            raise TooMuchEvidence(f"a decision takes no more than {BOUNDS_MAX} bounds")


NO_EVIDENCE: Final = Evidence()
"""No chain: only an owner may do anything."""
