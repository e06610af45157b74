"""What was decided?

A permit carries a View; a denial carries a code. Both carry reasons for two
audiences and the period in which the same evidence leads to the same answer.
Neither is ever sent to a requester as it is: `as_refusal` makes what may be
sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from maia.credentials.validity.period import Validity
from maia.events import Instant
from maia.policy.reasons import Explanation, Reason
from maia.policy.refusals import PolicyRefusal
from maia.policy.view import View

__all__ = ["Decision", "Denial", "Permit"]


@dataclass(frozen=True, slots=True)
class Permit:
    """Yes, within `view` and until `view.until`.

    A permit to connect, install, extend or manage has a View without windows:
    it shows nothing. `stable` is the period in which `decide` gives this same
    answer from the same evidence and facts. `limit` says, to the requester
    too, that some of its grants were not counted, if that is so.
    """

    # Kept out of repr: a View holds restrictions that its holder may not read.
    view: View = field(repr=False)
    explanation: Explanation
    stable: Validity
    limit: Reason | None = None

    @property
    def until(self) -> Instant | None:
        """Return the last moment of the permit; None if everything behind it is unbounded."""
        return self.view.until


@dataclass(frozen=True, slots=True)
class Denial:
    """No; `kind` says in which way, in terms that the requester may know."""

    kind: type[PolicyRefusal]
    explanation: Explanation
    stable: Validity

    @property
    def code(self) -> str:
        """Return the stable code of the denial."""
        return self.kind.code

    def as_refusal(self) -> PolicyRefusal:
        """Return the error for the requester: its code and the requester's reasons, nothing else."""
        return self.kind(self.explanation.requester)


Decision: TypeAlias = Permit | Denial
