"""How much work may one question about certificates cause?

Verifiers search on behalf of others, and strangers ask too. A budget counts
what a search does: steps, weighed by the size of the terms that a step
compares, and signature checks. It never counts time, so a verdict is the same
on a busy machine (A80). All searches for one answer share one budget, and a
signature that was found bad is not checked again for the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from maia.credentials.chains.errors import SearchTooLarge

TERMS_PER_STEP: Final = 4
"""Comparing so many parts of restrictions, conditions or attribute lists costs about as much as a step."""
BYTES_PER_STEP: Final = 16
"""Reading so many bytes of a peer costs about as much as a step."""
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
    meter: Budget | None = field(default=None, repr=False)
    """Another budget that counts, in its `used`, what this one and others use."""

    @classmethod
    def of(cls, work: int, meter: Budget | None = None) -> Budget:
        """Return a budget of so many steps, and of as many signature checks as would cost the same."""
        return cls(work, work // STEPS_PER_CHECK, meter=meter)

    def spend(self, steps: int = 1, *, terms: int = 0) -> None:
        """Take some steps, which compare so many parts of terms, or stop the search."""
        price = steps + terms // TERMS_PER_STEP
        self._count(price)
        self.steps -= price
        if self.steps < 0:
            raise SearchTooLarge("the search for a chain reached its limit of steps; give fewer certificates")

    def spend_reading(self, size: int) -> None:
        """Take as many steps as it costs to read so many bytes, or stop."""
        self.spend(size // BYTES_PER_STEP)

    def spend_check(self) -> None:
        """Take one signature check, or stop the search."""
        self._count(STEPS_PER_CHECK)
        self.checks -= 1
        if self.checks < 0:
            raise SearchTooLarge(
                "the search for a chain reached its limit of signature checks; give fewer certificates"
            )

    @contextmanager
    def all_but(self, share: int) -> Iterator[Budget]:
        """Lend all but a half, a third … to a search that may use it up; what it leaves comes back."""
        kept = self.steps // share, self.checks // share
        part = Budget(self.steps - kept[0], self.checks - kept[1], refused=self.refused, meter=self.meter)
        self.steps, self.checks = self.steps - part.steps, self.checks - part.checks
        try:
            yield part
        finally:
            self.steps, self.checks = self.steps + max(0, part.steps), self.checks + max(0, part.checks)
            self.used += part.used

    def _count(self, price: int) -> None:
        self.used += price
        if self.meter is not None:
            self.meter.used += price
