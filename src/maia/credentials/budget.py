"""How much work may one question about certificates cause?

Verifiers search on behalf of others, and strangers ask too. A budget counts
what a search does: steps, weighed by the size of the terms that a step
compares, and signature checks. It never counts time, so a verdict is the same
on a busy machine (A80). All searches for one answer share one budget, and a
signature that was found bad is not checked again for the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from maia.credentials.broken_chains import SearchTooLarge

__all__ = ["STEPS_PER_CHECK", "TERMS_PER_STEP", "Budget"]

TERMS_PER_STEP: Final = 16
"""Comparing so many parts of restrictions, conditions or attribute lists costs about as much as a step."""
STEPS_PER_CHECK: Final = 16
"""A signature check costs about as much as so many steps."""


@dataclass(slots=True)
class Budget:
    """What is left of the steps and signature checks for one answer, and how much of them was used."""

    steps: int
    checks: int = 0
    used: int = 0
    """Steps, a signature check counted as `STEPS_PER_CHECK` of them."""
    refused: set[tuple[bytes, bytes]] = field(default_factory=set, repr=False)
    """Certificates whose signature was found bad, by id and signature."""

    def spend(self, steps: int = 1, *, terms: int = 0) -> None:
        """Take some steps, which compare so many parts of terms, or stop the search."""
        price = steps + terms // TERMS_PER_STEP
        self.used += price
        self.steps -= price
        if self.steps < 0:
            raise SearchTooLarge("the search for a chain reached its limit of steps; give fewer certificates")

    def spend_check(self) -> None:
        """Take one signature check, or stop the search."""
        self.used += STEPS_PER_CHECK
        self.checks -= 1
        if self.checks < 0:
            raise SearchTooLarge(
                "the search for a chain reached its limit of signature checks; give fewer certificates"
            )
