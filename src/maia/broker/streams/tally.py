"""How many rows has this broker delivered, and how long after their publication?

It is added to with every delivery and read with the metrics (`maia.net.telemetry`), so it is two numbers
and a list. The time is that between the publisher's clock and this turn of the broker.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final

from maia.events import SECOND

BOUNDS_US: Final = tuple(
    round(one * SECOND)
    for one in (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
)
"""As in `maia.net.telemetry`, which a broker's core does not import."""


@dataclass(slots=True)
class DeliveryTally:
    """Rows that went to subscribers, one for each subscriber and row."""

    rows: int = 0
    timed: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_US) + 1))
    microseconds: int = 0

    @property
    def seconds(self) -> float:
        """Return what all times come to."""
        return self.microseconds / SECOND

    def add(self, rows: int, published_at: int, now: int) -> None:
        """Count rows that are delivered as they arrive; a clock that is ahead of ours counts as no time."""
        took = max(0, now - published_at)
        self.rows += rows
        self.timed[bisect_left(BOUNDS_US, took)] += rows
        self.microseconds += rows * took
