"""What do the slices of a hostile minute show?"""

from __future__ import annotations

import math
import os
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from attackers import COMPUTING_MS
from harness import Figure, at_least, at_most

HONEST_KEEP_AT_LEAST = 0.8
REVOKED_WITHIN_MS = 100.0
MEMORY_BYTES_MAX = 400_000_000
"""What a server may take, attacked or not: its own, and what unproved peers may make it hold."""


@dataclass(slots=True)
class Found:
    """What the slices have shown."""

    peace: list[float] = field(default_factory=list)
    """Events delivered a second, one number for each slice; `attacked` likewise, slice by slice."""
    attacked: list[float] = field(default_factory=list)
    computing: list[float] = field(default_factory=list)
    """What the server computes for an event in peace, over what it computes under attack, slice by slice."""
    revoked_ms: list[float] = field(default_factory=list)
    """Delays under attack, from the list to the end of the subscription."""
    newcomers: int = 0
    kept_out: int = 0
    memory_most: int = 0
    deeds: Counter[str] = field(default_factory=Counter)

    @property
    def shares(self) -> list[float]:
        """Return which part of its rate the honest side kept, slice by slice."""
        return [hostile / calm for hostile, calm in zip(self.attacked, self.peace, strict=True)]

    @property
    def revoked_p99_ms(self) -> float:
        """Return the delay that one revocation in a hundred exceeds; without any, no bound was kept."""
        if len(self.revoked_ms) < 2:
            return math.inf
        return statistics.quantiles(self.revoked_ms, n=100, method="inclusive")[98]

    def checks(self) -> dict[str, bool]:
        """Return the promises, and whether each was kept."""
        return {
            f"under attack, honest clients keep {HONEST_KEEP_AT_LEAST:.0%} of their rate": statistics.median(
                self.shares
            )
            >= HONEST_KEEP_AT_LEAST,
            f"under attack, a revocation ends a subscription within {REVOKED_WITHIN_MS:.0f} ms (p99)": (
                self.revoked_p99_ms <= REVOKED_WITHIN_MS
            ),
            "under attack, every newcomer gets in": self.kept_out == 0,
            f"under attack, memory stays within {MEMORY_BYTES_MAX / 1e6:.0f} MB": (
                self.memory_most <= MEMORY_BYTES_MAX
            ),
        }

    def figures(self, server: str) -> Iterator[Figure]:
        """Yield what the honest side keeps under attack at a server."""
        computed_s = self.deeds.pop(COMPUTING_MS, 0) / 1000
        deeds = ", ".join(f"{times} × {name}" for name, times in self.deeds.items())
        deeds += f"; the attackers computed for {computed_s:.1f} s"
        case = f"{server}: honest rate under attack / in peace"
        yield Figure(case, self.shares, at_least(HONEST_KEEP_AT_LEAST), note=deeds)
        if self.computing:
            case = f"{server}: its computing for an honest event in peace / under attack"
            note = "what other processes take of the cores, attackers included, does not count here"
            yield Figure(case, self.computing, at_least(HONEST_KEEP_AT_LEAST), note=note)
        case = f"{server}: p99 of a revocation under attack: milliseconds"
        yield Figure(case, [self.revoked_p99_ms], at_most(REVOKED_WITHIN_MS))
        note = f"{self.newcomers} newcomers"
        yield Figure(f"{server}: honest newcomers kept out", [self.kept_out], at_most(0), note=note)
        note = f"{self.memory_most / 1e6:.0f} MB of {MEMORY_BYTES_MAX / 1e6:.0f} MB"
        share = self.memory_most / MEMORY_BYTES_MAX
        yield Figure(f"{server}: memory / its bound", [share], at_most(1), note=note)


def computed_s(pid: int) -> float:
    """Return for how long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Return how much memory a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
