"""Was this very question decided before, and does the answer still stand?

A broker asks `decide` for every frame, so the usual answer must cost one look
into a dictionary. The cache saves work and never extends a right: an answer
is used only with the very same evidence and facts, which cannot change, and
only within the period in which time could not have changed it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from maia.events import INSTANT_MAX, INSTANT_MIN, Instant
from maia.policy.decide import decide
from maia.policy.decision import Decision
from maia.policy.evidence import Evidence
from maia.policy.facts import Facts
from maia.policy.request import Request
from maia.predicates.syntax import ALWAYS

__all__ = ["DECISIONS_MAX", "DecisionCache"]

DECISIONS_MAX: Final = 65_536
"""How many decisions a cache remembers unless told otherwise."""


class _Remembered(NamedTuple):
    """A decision, what it was made from, and the first and last moment at which it stands."""

    request: Request
    evidence: Evidence
    facts: Facts | None  # None: no certificate at hand has a condition, so facts do not matter
    since: int
    until: int
    decision: Decision


class DecisionCache:
    """The decisions made most recently, by request; the oldest goes first."""

    __slots__ = ("_remembered", "decisions_max")

    def __init__(self, decisions_max: int = DECISIONS_MAX) -> None:
        """Remember at most `decisions_max` decisions."""
        self.decisions_max = decisions_max
        # By the hash of the request, an int that is quick to look up; the request is compared as well.
        self._remembered: dict[int, _Remembered] = {}

    def __len__(self) -> int:
        """Return how many decisions are remembered."""
        return len(self._remembered)

    def decide(self, request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
        """Return what `maia.policy.decide` returns for the same arguments."""
        # INVARIANT: identity, not equality. Evidence and facts are immutable, so the same object says the
        # same thing; whoever learns something new builds a new object, and cannot forget to tell the cache.
        known = self._remembered.get(request.fingerprint)
        if known is not None:
            asked, seen_evidence, seen_facts, since, until, decision = known
            if (
                seen_evidence is evidence
                and (seen_facts is facts or seen_facts is None)
                and since <= now <= until
                and (asked is request or asked == request)
            ):
                return decision
        return self._decide_anew(request, evidence, facts, now)

    def _decide_anew(self, request: Request, evidence: Evidence, facts: Facts, now: Instant) -> Decision:
        decision = decide(request, evidence, facts, now)
        conditional = any(chain.authority.condition != ALWAYS for chain in evidence.chains)
        since, until = decision.stable.not_before, decision.stable.not_after
        # Taken out first, so that what was decided last stands last and is forgotten last.
        self._remembered.pop(request.fingerprint, None)
        self._remembered[request.fingerprint] = _Remembered(
            request,
            evidence,
            facts if conditional else None,
            INSTANT_MIN if since is None else since,
            INSTANT_MAX if until is None else until,
            decision,
        )
        if len(self._remembered) > self.decisions_max:
            del self._remembered[next(iter(self._remembered))]
        return decision
