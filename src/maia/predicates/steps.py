"""How much work may one question about predicates cost?

Questions such as covering can grow exponentially with the predicates that an
attacker chooses. Every algorithm counts its steps here and gives the cautious
answer once they are used up. Steps, never seconds: the answer must not depend
on how busy the machine is.
"""

from __future__ import annotations

from typing import Final

STEPS_MAX: Final = 50_000


class OutOfSteps(Exception):
    """The steps are used up. Caught inside this package, where the cautious answer is known."""


class Steps:
    """A number of steps that only goes down."""

    __slots__ = ("left",)

    def __init__(self, left: int = STEPS_MAX) -> None:
        """Start with `left` steps."""
        self.left = left

    def spend(self, steps: int = 1) -> None:
        """Take some steps, or raise `OutOfSteps`."""
        self.left -= steps
        if self.left < 0:
            raise OutOfSteps
